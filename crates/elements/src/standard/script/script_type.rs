//! When a script runs.

#[cfg(feature = "host")]
use alloc::vec::Vec;

#[cfg(feature = "host")]
use super::signal;

/// When a script runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ScriptType {
    #[default]
    Active,
    Passive,
    Packet,
    Proxy,
    Driver,
    #[cfg(feature = "host")]
    Signal(Vec<i32>),
}

impl ScriptType {
    /// What TYPE asks for; `None` if it does not say.
    pub fn parse(text: &str) -> Result<Option<ScriptType>, &'static str> {
        let words = click::config::split_space(text);
        let Some((first, rest)) = words.split_first() else {
            return Ok(None);
        };
        Ok(Some(match first.as_str() {
            #[cfg(feature = "host")]
            "SIGNAL" => {
                let numbers: Option<Vec<i32>> = rest.iter().map(|s| signal::number(s)).collect();
                let numbers = numbers.filter(|numbers| !numbers.is_empty());
                ScriptType::Signal(numbers.ok_or("bad signal number")?)
            }
            _ if !rest.is_empty() => return Err("bad TYPE"),
            "ACTIVE" => ScriptType::Active,
            "PASSIVE" => ScriptType::Passive,
            "PACKET" | "PUSH" => ScriptType::Packet,
            "PROXY" => ScriptType::Proxy,
            "DRIVER" => ScriptType::Driver,
            _ => return Err("bad TYPE"),
        }))
    }
}
