//! What an input does with packets of no known flow.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use click::config;
use router::args::{Context, Int, Kind};
use router::{Cx, ElementId};

use super::pattern::Pattern;
use crate::ip::ip_rewriter_patterns::IPRewriterPatterns;

/// The names of patterns that IPRewriterPatterns defines. A name stands for the number of its
/// element and, in the lower 16 bits, the pattern's number there.
pub const PATTERN_NAME: Kind = Kind::Other(u32::from_be_bytes(*b"iprw"));

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
    Mapper(ElementId),
}

/// An input of a rewriter.
#[derive(Clone, Debug)]
pub struct Input {
    /// What it does.
    pub action: Action,
    /// The outputs of its flows' packets, forward and back.
    pub outputs: [u16; 2],
}

/// An input as its text describes it, before names of others were looked up.
struct Spec {
    action: SpecAction,
    outputs: [u16; 2],
}

enum SpecAction {
    Known(Action),
    Named(u32, String),
}

impl Input {
    /// The pattern with outputs that `text` describes, in words or by name, for any number of
    /// outputs.
    pub fn parse_pattern(
        text: &str,
        context: &Context<'_>,
    ) -> Result<impl FnOnce(&mut Cx<'_>) -> Result<Input, String> + use<>, String> {
        let (action, outputs) = parse_pattern(text, usize::MAX, context)?;
        let spec = Spec { action, outputs };
        Ok(move |cx: &mut Cx<'_>| spec.resolve(cx))
    }

    /// The input that the argument `text` describes, of an element at work with `outputs` outputs.
    pub fn parse(
        text: &str,
        outputs: usize,
        context: &Context<'_>,
    ) -> Result<impl FnOnce(&mut Cx<'_>) -> Result<Input, String> + use<>, String> {
        let spec = Spec::parse(text, outputs, context)?;
        Ok(move |cx: &mut Cx<'_>| spec.resolve(cx))
    }
}

impl Spec {
    fn parse(text: &str, outputs: usize, context: &Context<'_>) -> Result<Spec, String> {
        let (word, rest) = config::shift_space(text);
        let spec = |action, outputs| Spec {
            action: SpecAction::Known(action),
            outputs,
        };
        match word {
            "" => Err("empty argument".into()),
            "pass" | "passthrough" | "nochange" => {
                let output = match rest {
                    "" => Ok(0),
                    text => context.parse_with(Int::ANY, text),
                };
                let output: i32 =
                    output.map_err(|_| "syntax error, expected ‘nochange [OUTPUT]’")?;
                let output = port(output, outputs)?;
                Ok(spec(Action::Pass(output), [output, 0]))
            }
            "drop" | "discard" if rest.is_empty() => Ok(spec(Action::Drop, [0; 2])),
            "drop" | "discard" => Err(format!("syntax error, expected ‘{word}’")),
            "keep" => {
                let ports = parse_ports(&config::split_space(rest), outputs, context)?;
                Ok(spec(Action::Keep, ports))
            }
            "pattern" | "xpattern" => {
                let (action, outputs) = parse_pattern(rest, outputs, context)?;
                Ok(Spec { action, outputs })
            }
            name => match context.find_element(name) {
                None => Err("unknown specification".into()),
                Some(_) if !rest.is_empty() => Err("syntax error, expected element name".into()),
                Some((index, _)) if !context.elements.is_a(index, "IPMapper") => {
                    Err("element is not an IPMapper".into())
                }
                Some((index, _)) => Ok(spec(Action::Mapper(ElementId::new(index)), [0; 2])),
            },
        }
    }

    fn resolve(self, cx: &mut Cx<'_>) -> Result<Input, String> {
        let action = match self.action {
            SpecAction::Known(action) => action,
            SpecAction::Named(id, name) => {
                let (element, number) = (ElementId::new(id as usize >> 16), id as u16);
                let pattern = cx.with(element, |patterns: &mut IPRewriterPatterns, _| {
                    patterns.pattern(number.into())
                });
                let pattern = pattern.flatten();
                Action::Pattern(pattern.ok_or_else(|| format!("no such pattern ‘{name}’"))?)
            }
        };
        let outputs = self.outputs;
        Ok(Input { action, outputs })
    }
}

/// A pattern, in words or by name, with its two outputs behind.
fn parse_pattern(
    text: &str,
    outputs: usize,
    context: &Context<'_>,
) -> Result<(SpecAction, [u16; 2]), String> {
    let words = config::split_space(text);
    let Some((pattern, ports)) = words
        .split_last_chunk::<2>()
        .filter(|(pattern, _)| !pattern.is_empty())
    else {
        return Err("syntax error".into());
    };
    let action = match pattern {
        [name] => {
            let id = context.names.int(PATTERN_NAME, name, context.element);
            let id = id.ok_or_else(|| format!("no such pattern ‘{name}’"))?;
            SpecAction::Named(id, name.to_string())
        }
        words => {
            let pattern = Pattern::parse(words, context)?;
            SpecAction::Known(Action::Pattern(Arc::new(pattern)))
        }
    };
    Ok((action, parse_ports(ports, outputs, context)?))
}

/// The outputs of forward packets and replies.
pub fn parse_ports(
    words: &[String],
    outputs: usize,
    context: &Context<'_>,
) -> Result<[u16; 2], String> {
    let number = |text: &String| context.parse_with(Int::ANY, text).ok();
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
