//! Guests that are started when they are needed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Guest;
use super::object::is_default;
use crate::error::Fault;

/// How many connections may have guests of their own.
const GUESTS_RANGE: RangeInclusive<u32> = 1..=4096;
/// The same, unless it is given.
const GUESTS: u32 = 64;

/// How long a guest may be idle.
const IDLE_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(24 * 3600);

/// A guest that does not exist before it is needed: the copy of another guest, with the VNIC's name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OnDemand {
    /// The guest that it is a copy of. If that stands still as a template, the copy goes on from there; else it boots
    /// that guest's configuration.
    pub template: String,
    /// What starts it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on: Trigger,
    /// With `flow`, how many connections may have guests of their own at a time, from 1 to 4096; default: 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 4096)]
    pub guests: Option<u32>,
    /// The template's interface that the VNIC is; default: its only one, or its only one on the VNIC's link. The others
    /// get VNICs on the links of the template's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Values of the configuration's variables instead of the template's. With any, the guest boots.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Time without a frame to or from its VNICs, from 1s to 1day, after which it is removed; default: 1m. The VNIC
    /// waits for the next frame then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "30s")]
    pub idle: Option<Idle>,
}

/// What starts a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// The first frame to its VNIC, which waits for it.
    #[default]
    FirstPacket,
    /// As `first-packet`, and each new TCP connection to the VNIC starts a guest of its own, which gets that connection
    /// and is removed when it is over.
    Flow,
}

impl OnDemand {
    /// Refuses what cannot be.
    pub fn check(&self, vnic: &str) -> Result<(), Fault> {
        let vnic = || vnic.to_string();
        match (self.on, self.guests) {
            (Trigger::FirstPacket, Some(_)) => Err(Fault::GuestsOfOne { vnic: vnic() }),
            (_, Some(guests)) if !GUESTS_RANGE.contains(&guests) => {
                let (vnic, most) = (vnic(), *GUESTS_RANGE.end());
                Err(Fault::GuestsRange { vnic, guests, most })
            }
            _ => Ok(()),
        }
    }

    /// The names of the VNICs behind one of this name, each for a connection.
    pub fn behind(&self, vnic: &str) -> Vec<String> {
        let guests = match self.on {
            Trigger::FirstPacket => 0,
            Trigger::Flow => self.guests.unwrap_or(GUESTS),
        };
        (1..=guests).map(|i| format!("{vnic}-{i}")).collect()
    }

    /// How long it may be idle.
    pub fn idle(&self) -> Duration {
        self.idle.map_or(Duration::from_secs(60), |Idle(time)| time)
    }

    /// The interface of `template` that a VNIC on this link is.
    pub fn interface_of(&self, vnic: &str, link: &str, template: &Guest) -> Result<String, Fault> {
        let all: Vec<&String> = template.interfaces.keys().collect();
        let on_link = template.interfaces.iter().filter(|(_, on)| *on == link);
        let on_link: Vec<&String> = on_link.map(|(name, _)| name).collect();
        let found = match (&self.interface, all.as_slice(), on_link.as_slice()) {
            (Some(given), ..) => all.iter().find(|name| **name == given),
            (None, [only], _) | (None, _, [only]) => Some(only),
            _ => None,
        };
        let missing = || Fault::TemplateInterface {
            vnic: vnic.into(),
            template: self.template.clone(),
            there: match all.as_slice() {
                [] => "none".into(),
                _ => all
                    .iter()
                    .map(|name| name.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            },
        };
        found.map(|name| name.to_string()).ok_or_else(missing)
    }
}

/// A time, as in 30s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Idle(Duration);

/// A text that is no time that a guest may be idle.
#[derive(Debug, thiserror::Error)]
#[error("‘{0}’ is not a time from 1s to 1day, as in 30s")]
pub struct NoIdle(String);

impl FromStr for Idle {
    type Err = NoIdle;

    fn from_str(text: &str) -> Result<Idle, NoIdle> {
        let time = humantime::parse_duration(text).ok();
        let time = time.filter(|time| IDLE_RANGE.contains(time));
        time.map(Idle).ok_or_else(|| NoIdle(text.into()))
    }
}

impl TryFrom<String> for Idle {
    type Error = NoIdle;

    fn try_from(text: String) -> Result<Idle, NoIdle> {
        text.parse()
    }
}

impl From<Idle> for String {
    fn from(Idle(time): Idle) -> String {
        // Without spaces, so that it is one word.
        humantime::format_duration(time)
            .to_string()
            .replace(' ', "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_time_is_a_text() {
        for text in ["1s", "1m 30s", "1day"] {
            let idle: Idle = text.parse().unwrap();
            assert_eq!(String::from(idle), text.replace(' ', ""));
        }
        for wrong in ["", "30", "0s", "999ms", "2days", "soon"] {
            let error = wrong.parse::<Idle>().unwrap_err().to_string();
            assert!(error.contains("is not a time from 1s to 1day"), "{error}");
        }
    }

    #[test]
    fn a_guest_for_each_connection_has_a_vnic_of_its_own() {
        let on = |on, guests| OnDemand {
            on,
            guests,
            ..OnDemand::default()
        };
        assert_eq!(on(Trigger::Flow, None).behind("v").len(), 64);
        assert_eq!(on(Trigger::Flow, Some(2)).behind("v"), ["v-1", "v-2"]);
        assert!(on(Trigger::FirstPacket, None).behind("v").is_empty());
        for guests in [0, 4097] {
            let error = on(Trigger::Flow, Some(guests)).check("v").unwrap_err();
            assert!(error.to_string().contains("from 1 to 4096"), "{error}");
        }
        let error = on(Trigger::FirstPacket, Some(1)).check("v").unwrap_err();
        assert!(error.to_string().contains("`on` flow"), "{error}");
    }

    #[test]
    fn a_vnic_is_the_only_interface_or_the_only_one_on_its_link_or_the_named_one() {
        let template = |interfaces: &[(&str, &str)]| Guest {
            interfaces: interfaces
                .iter()
                .map(|(a, b)| (a.to_string(), b.to_string()))
                .collect(),
            ..Guest::default()
        };
        let of = |interface: Option<&str>, interfaces: &[(&str, &str)]| {
            let on = OnDemand {
                template: "t".into(),
                interface: interface.map(str::to_string),
                ..OnDemand::default()
            };
            on.interface_of("v", "lan", &template(interfaces))
                .map_err(|fault| fault.to_string())
        };
        assert_eq!(of(None, &[("a", "wan")]).unwrap(), "a");
        assert_eq!(of(None, &[("a", "wan"), ("b", "lan")]).unwrap(), "b");
        assert_eq!(of(Some("a"), &[("a", "lan"), ("b", "lan")]).unwrap(), "a");
        for (interface, interfaces, there) in [
            (None, &[("a", "lan"), ("b", "lan")][..], "a, b"),
            (Some("c"), &[("a", "lan")], "a"),
            (None, &[], "none"),
        ] {
            assert!(of(interface, interfaces).unwrap_err().ends_with(there));
        }
    }
}
