use click::config;
use router::args::Value;

use crate::prelude::*;
use crate::rewriter::input::{NamedPatterns, PATTERN_NAME};
use crate::rewriter::pattern::Pattern;

/// Names patterns for IPRewriter and similar elements.
///
/// Inputs of rewriters can refer to the patterns by name. Inputs that refer to the same one share
/// its sequence of choices. Names must differ from those of every other IPRewriterPatterns.
///
/// # Example
/// ```click
/// IPRewriterPatterns(outbound 1.0.0.1 1024-65535 - -);
/// rw :: IPRewriter(pattern outbound 0 1, drop);
/// Idle -> [0] rw [0] -> Discard;
/// Idle -> [1] rw [1] -> Discard;
/// ```
///
/// # See also
/// IPRewriter
#[derive(Element)]
#[element(ports = "0/0", phase = phase::INFO, provides(NamedPatterns))]
pub struct IPRewriterPatterns {
    /// A name, and a pattern as IPRewriter has it, without outputs: `SADDR SPORT DADDR DPORT` or
    /// `SADDR DADDR`.
    #[arg(rest, name = "NAME PATTERN", kind = "any number of patterns")]
    texts: Vec<String>,
    patterns: Vec<Arc<Pattern>>,
}

impl Element for IPRewriterPatterns {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        for text in &self.texts {
            let (name, words) = config::shift_space(text);
            if name.is_empty() {
                continue;
            }
            let context = args.context();
            if context
                .names
                .int(PATTERN_NAME, name, context.element)
                .is_some()
            {
                args.error(format!("pattern ‘{name}’ already defined"));
                continue;
            }
            let id = u16::try_from(cx.id().index()).ok();
            let number = u16::try_from(self.patterns.len()).ok();
            let (Some(id), Some(number)) = (id, number) else {
                args.error("too many patterns");
                continue;
            };
            let words = config::split_space(words);
            if let [other] = &words[..] {
                args.error(format!("no such pattern ‘{other}’"));
                continue;
            }
            match Pattern::parse(&words, &context) {
                Ok(pattern) => {
                    self.patterns.push(Arc::new(pattern));
                    let value = u32::from(id) << 16 | u32::from(number);
                    args.define(PATTERN_NAME, name, Value::Int(value));
                }
                Err(reason) => args.error(reason),
            }
        }
        args.finish()
    }
}

impl NamedPatterns for IPRewriterPatterns {
    fn pattern(&self, number: usize) -> Option<Arc<Pattern>> {
        self.patterns.get(number).cloned()
    }
}
