//! What an input does with packets of no known flow.

use click::config;

use super::key::FlowKey;
use super::mapper::Mapper;
use super::pattern::Pattern;
use crate::prelude::*;

/// The names of patterns that IPRewriterPatterns defines. A name stands for the number of its
/// element and, in the lower 16 bits, the pattern's number there.
pub const PATTERN_NAME: Kind = Kind::Other(u32::from_be_bytes(*b"iprw"));

/// An element that names patterns.
pub trait NamedPatterns {
    /// The pattern with this number.
    fn pattern(&self, number: usize) -> Option<Arc<Pattern>>;
}

impl Interface for dyn NamedPatterns {
    const NAME: &'static str = "IPRewriterPatterns";
}

/// What to do with a packet of no known flow.
#[derive(Clone, Debug)]
pub enum Action {
    /// Drop it.
    Drop,
    /// Send it on by this output, unchanged, and remember nothing.
    Pass(u16),
    /// Remember its flow, and change nothing in its packets.
    Keep,
    /// Remember its flow, and change its packets as the pattern says.
    Pattern(Arc<Pattern>),
    /// Remember its flow, and change its packets as another element says.
    Mapper(Link<dyn Mapper>),
}

/// An input of a rewriter.
#[derive(Clone, Debug)]
pub struct Input {
    /// What it does.
    pub action: Action,
    /// The outputs of its flows' packets, forward and back.
    pub outputs: [u16; 2],
}

impl Input {
    /// The input that the argument `text` of the element at work describes.
    pub fn parse(text: &str, cx: &Cx<'_>, context: &Context<'_>) -> Result<Input, String> {
        let (word, rest) = config::shift_space(text);
        let word = config::word(word).ok_or("empty argument")?;
        let input = |action, outputs| Ok(Input { action, outputs });
        match word.as_str() {
            "pass" | "passthrough" | "nochange" => {
                let output = match rest {
                    "" => Ok(0),
                    text => context.parse(text),
                };
                let output = output.map_err(|_| "syntax error, expected ‘nochange [OUTPUT]’")?;
                let output = port(output, cx.outputs())?;
                input(Action::Pass(output), [output, 0])
            }
            "drop" | "discard" if rest.is_empty() => input(Action::Drop, [0; 2]),
            "drop" | "discard" => Err(format!("syntax error, expected ‘{word}’")),
            "keep" => {
                let outputs = parse_ports(&config::split_space(rest), cx.outputs(), context)?;
                input(Action::Keep, outputs)
            }
            "pattern" | "xpattern" => Input::parse_pattern(rest, cx.outputs(), cx, context),
            name => {
                context.find_element(name).ok_or("unknown specification")?;
                if !rest.is_empty() {
                    return Err("syntax error, expected element name".into());
                }
                let mapper = context.parse(name);
                let mapper = mapper.map_err(|_| "element is not an IPMapper")?;
                input(Action::Mapper(mapper), [0; 2])
            }
        }
    }

    /// The pattern that `text` describes, in words or by name, with the numbers of two of `outputs`
    /// outputs after it.
    pub fn parse_pattern(
        text: &str,
        outputs: usize,
        cx: &Cx<'_>,
        context: &Context<'_>,
    ) -> Result<Input, String> {
        let words = config::split_space(text);
        let (pattern, ports) = words
            .split_last_chunk::<2>()
            .filter(|(pattern, _)| !pattern.is_empty())
            .ok_or("syntax error")?;
        let pattern = match pattern {
            [name] => {
                let named = named_pattern(name, cx, context);
                named.ok_or_else(|| format!("no such pattern ‘{name}’"))?
            }
            words => Arc::new(Pattern::parse(words, context)?),
        };
        Ok(Input {
            action: Action::Pattern(pattern),
            outputs: parse_ports(ports, outputs, context)?,
        })
    }

    /// The patterns of a mapper's arguments. Mistakes go to `args`.
    pub fn parse_patterns(
        texts: &[String],
        cx: &Cx<'_>,
        args: &mut Args<'_>,
    ) -> Result<Vec<Input>, Failed> {
        match texts.len() {
            0 => return Err(args.fail("no patterns given")),
            1 => args.warning("only one pattern given"),
            _ => {}
        }
        let mut inputs = Vec::new();
        for text in texts {
            match Input::parse_pattern(text, usize::MAX, cx, &args.context()) {
                Ok(input) => inputs.push(input),
                Err(error) => args.error(error),
            }
        }
        args.finish()?;
        Ok(inputs)
    }

    /// What a new flow becomes by the input's pattern, as [`Mapper::map`] has it.
    pub fn map(
        &self,
        cx: &mut Cx<'_>,
        key: FlowKey,
        taken: &dyn Fn(FlowKey) -> bool,
    ) -> Option<(FlowKey, [u16; 2])> {
        let Action::Pattern(pattern) = &self.action else {
            return None;
        };
        let rewritten = pattern.rewrite(key, cx.random(), taken)?;
        Some((rewritten, self.outputs))
    }
}

fn named_pattern(name: &str, cx: &Cx<'_>, context: &Context<'_>) -> Option<Arc<Pattern>> {
    let id = context.names.int(PATTERN_NAME, name, context.element)?;
    let (element, number) = (ElementId::new(id as usize >> 16), id as u16);
    let patterns = cx.view(cx.link::<dyn NamedPatterns>(element)?)?;
    patterns.pattern(number.into())
}

/// The outputs of forward packets and replies.
pub fn parse_ports(
    words: &[String],
    outputs: usize,
    context: &Context<'_>,
) -> Result<[u16; 2], String> {
    let number = |text: &String| context.parse(text).ok();
    let (forward, reply): (Option<i32>, Option<i32>) = match words {
        [forward, reply] => (number(forward), number(reply)),
        _ => (None, None),
    };
    let forward = forward.ok_or("bad forward port")?;
    let reply = reply.ok_or("bad reply port")?;
    Ok([port(forward, outputs)?, port(reply, outputs)?])
}

fn port(number: i32, outputs: usize) -> Result<u16, String> {
    let port = u16::try_from(number).ok();
    port.filter(|port| usize::from(*port) < outputs)
        .ok_or_else(|| "output port out of range".into())
}
