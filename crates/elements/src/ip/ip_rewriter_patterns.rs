use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use click::config;
use router::args::{Args, Failed, Value};
use router::{Class, Cx, Declared, Element, phase};

use crate::rewriter::input::PATTERN_NAME;
use crate::rewriter::pattern::Pattern;

/// Names patterns for IPRewriter and its kin.
///
/// Inputs of rewriters can refer to the patterns by name. Inputs that refer to the same one share
/// its sequence of choices. Names must differ from those of every other IPRewriterPatterns.
///
/// # Arguments
/// - `NAME PATTERN` (any number): a name, and a pattern as IPRewriter has it, without outputs:
///   `SADDR SPORT DADDR DPORT` or `SADDR DADDR`.
///
/// # Ports
/// None.
///
/// # Handlers
/// None of its own.
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
#[derive(Default)]
pub struct IPRewriterPatterns {
    patterns: Vec<Arc<Pattern>>,
}

impl Class for IPRewriterPatterns {
    const NAME: &'static str = "IPRewriterPatterns";
    const PORTS: &'static str = "0/0";
    const PHASE: i32 = phase::INFO;
}

impl Declared for IPRewriterPatterns {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        for text in args.take_raw() {
            let (name, words) = config::shift_space(&text);
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
            match Pattern::parse(&config::split_space(words), &context) {
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

impl Element for IPRewriterPatterns {}

impl IPRewriterPatterns {
    /// The pattern with this number.
    pub fn pattern(&self, number: usize) -> Option<Arc<Pattern>> {
        self.patterns.get(number).cloned()
    }
}
