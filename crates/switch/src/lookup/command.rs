//! Commands to lookup functions. Ports have the names that the client has for them.

use serde::{Deserialize, Serialize};

use super::flow::Flow;

/// Something asked of a lookup function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Command<P> {
    /// Flow table: these packets go to this port.
    AddFlow {
        /// The flow, in one direction.
        flow: Flow,
        /// The port.
        port: P,
    },
    /// Flow table: forget an entry, made or learned.
    RemoveFlow {
        /// The flow.
        flow: Flow,
    },
    /// Flow table: where packets without an entry go.
    SetDefault {
        /// Where.
        default: FlowDefault<P>,
    },
    /// Flow table: the entries from the `from`-th on, as many as an answer holds.
    Flows {
        /// How many to pass over.
        from: u32,
    },
    /// Click configuration: read a handler.
    Read {
        /// `ELEMENT.HANDLER`, or a global handler's name.
        handler: String,
    },
    /// Click configuration: write a handler.
    Write {
        /// `ELEMENT.HANDLER`, or a global handler's name.
        handler: String,
        /// What.
        value: String,
    },
}

/// Where packets go that have no entry in a flow table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowDefault<P> {
    /// By their Ethernet addresses, as in a learning bridge.
    #[default]
    Addresses,
    /// To this port; frames from this port go by their addresses.
    Port(P),
    /// Nowhere.
    Drop,
}

/// What a lookup function answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Answer<P = super::PortIndex> {
    /// Done.
    Done,
    /// Entries of a flow table, in the order of their flows.
    Flows {
        /// The entries.
        flows: Vec<FlowEntry<P>>,
        /// How many to pass over for the next ones, if there are more.
        next: Option<u32>,
    },
    /// What a handler says.
    Text {
        /// Its text.
        text: String,
    },
}

/// An entry of a flow table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowEntry<P> {
    /// The flow.
    pub flow: Flow,
    /// Where its packets go.
    pub port: P,
    /// Seconds since the other direction was last seen; none if the entry was made by hand.
    pub age: Option<u32>,
}

impl<P> Command<P> {
    /// The same with ports named in another way.
    pub fn map<Q, E>(self, mut port: impl FnMut(P) -> Result<Q, E>) -> Result<Command<Q>, E> {
        Ok(match self {
            Command::AddFlow { flow, port: to } => Command::AddFlow {
                flow,
                port: port(to)?,
            },
            Command::RemoveFlow { flow } => Command::RemoveFlow { flow },
            Command::SetDefault { default } => Command::SetDefault {
                default: match default {
                    FlowDefault::Addresses => FlowDefault::Addresses,
                    FlowDefault::Port(to) => FlowDefault::Port(port(to)?),
                    FlowDefault::Drop => FlowDefault::Drop,
                },
            },
            Command::Flows { from } => Command::Flows { from },
            Command::Read { handler } => Command::Read { handler },
            Command::Write { handler, value } => Command::Write { handler, value },
        })
    }
}

impl<P> Answer<P> {
    /// The same with ports named in another way; entries of ports that have no such name are left
    /// out.
    pub fn map<Q>(self, mut port: impl FnMut(P) -> Option<Q>) -> Answer<Q> {
        match self {
            Answer::Done => Answer::Done,
            Answer::Text { text } => Answer::Text { text },
            Answer::Flows { flows, next } => Answer::Flows {
                flows: flows
                    .into_iter()
                    .filter_map(|entry| {
                        Some(FlowEntry {
                            flow: entry.flow,
                            port: port(entry.port)?,
                            age: entry.age,
                        })
                    })
                    .collect(),
                next,
            },
        }
    }
}

/// The joint answer of a lookup function's replicas: numbers of a handler are summed, other text is
/// given for each replica if they differ. Replicas have the same learned entries.
pub(crate) fn joined(answers: Vec<Result<Answer, String>>) -> Result<Answer, String> {
    let answers = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut texts = Vec::new();
    for answer in &answers {
        if let Answer::Text { text } = answer {
            texts.push(text.as_str());
        }
    }
    let numbers: Option<Vec<u64>> = texts.iter().map(|text| text.trim().parse().ok()).collect();
    let text = match numbers {
        _ if texts.len() < 2 => None,
        Some(numbers) => Some(numbers.iter().sum::<u64>().to_string()),
        None if texts.iter().all(|text| *text == texts[0]) => None,
        None => {
            let each = texts.iter().enumerate();
            Some(
                each.map(|(lane, text)| format!("lane {lane}:\n{text}\n"))
                    .collect(),
            )
        }
    };
    match text {
        Some(text) => Ok(Answer::Text { text }),
        None => Ok(answers.into_iter().next().unwrap_or(Answer::Done)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_add_up_numbers_and_show_what_differs() {
        let ask = |texts: &[&str]| {
            let text = |text: &&str| {
                Ok(Answer::Text {
                    text: (*text).into(),
                })
            };
            match joined(texts.iter().map(text).collect()) {
                Ok(Answer::Text { text }) => text,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(ask(&["7"]), "7");
        assert_eq!(ask(&["7", "5\n"]), "12");
        assert_eq!(ask(&["same", "same"]), "same");
        assert_eq!(ask(&["a", "b"]), "lane 0:\na\nlane 1:\nb\n");
        assert!(joined(vec![Ok(Answer::Done), Err("no".into())]).is_err());
    }
}
