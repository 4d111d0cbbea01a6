//! The commands that ask a node: `weir link`, `stub`, `switch`, `vnic`, `flow`, `create`, `ls`, `destroy`;
//! and `weir node`, which is one. Modelled on dladm and flowadm.

pub mod flow;
pub mod guest;
pub mod link;
pub mod node;
pub mod output;
pub mod stat;
pub mod stub;
pub mod switch;
pub mod vnic;
pub mod wire;

use std::str::FromStr;

use ::node::client::Client;
use ::node::error::Error;
use ::switch::properties::{PortProperties, PropertyError};
use serde::Serialize;
use serde_json::Value;

/// The result of a command.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// The node that the environment names.
fn client() -> Client {
    Client::from_environment()
}

/// Reads properties as the command line has them: `a=1,b=2`, several times.
fn properties<T>(parts: &[String], more: Option<(&str, String)>) -> Result<T>
where
    T: FromStr<Err = PropertyError>,
{
    let more = more.map(|(name, value)| format!("{name}={value}"));
    let all: Vec<_> = parts.iter().cloned().chain(more).collect();
    Ok(all.join(",").parse()?)
}

/// The changes of `set-prop` as a JSON merge patch: a property that is set to its default is null.
fn set<T>(text: &[String]) -> Result<Value>
where
    T: FromStr<Err = PropertyError> + Serialize,
{
    let text = text.join(",");
    let values = serde_json::to_value(text.parse::<T>()?).map_err(Error::failed)?;
    let names = text.split(',').filter_map(|part| part.split_once('='));
    let names = names.map(|(name, _)| name.trim());
    Ok(names
        .map(|name| (name.to_string(), values[name].clone()))
        .collect())
}

/// The changes of `reset-prop` as a JSON merge patch.
fn reset(names: &[String]) -> Result<Value> {
    let mut properties = PortProperties::default();
    let null = |name: &String| {
        properties.reset(name)?;
        Ok((name.clone(), Value::Null))
    };
    names.iter().map(null).collect()
}
