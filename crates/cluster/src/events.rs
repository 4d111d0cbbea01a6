//! What happens in a cluster: changes of keys, as sentences.

use crate::etcd::Change;
use crate::keys::{self, Kind};
use crate::model::{HostRecord, Placement, PluginFault, Status};
use crate::view::View;

/// What a change means, against the view before it.
pub fn sentence(before: &View, change: &Change) -> Option<String> {
    let value = change.value.as_deref();
    if change.key == keys::LEADER {
        return Some(
            match value.and_then(|it| serde_json::from_slice::<String>(it).ok()) {
                Some(host) => format!("host {host} leads"),
                None => "no host leads".into(),
            },
        );
    }
    if change.key == keys::SETTINGS {
        return Some("the settings changed".into());
    }
    let (kind, name) = keys::parse(&change.key)?;
    match kind {
        Kind::Host => host(before.host(name), name, value),
        Kind::Alive => match (value, before.alive(name)) {
            (Some(_), None) => Some(format!("host {name} is up")),
            (None, Some(_)) => Some(format!("host {name} is lost: its lease ended")),
            _ => None,
        },
        Kind::Placement => Some(placement(before.placement(name), name, value)?),
        Kind::Status => {
            let (host, guest) = keys::parse_of_host(name)?;
            // A host speaks of its own guests.
            let placement = before.placement(guest)?;
            placement.hosts().find(|at| *at == host)?;
            status(before.get(&change.key), guest, value)
        }
        Kind::Waiting => status(before.get(&change.key), name, value),
        Kind::Policy => Some(match value {
            Some(_) => format!("policy {name} is set"),
            None => format!("policy {name} is removed"),
        }),
        Kind::Plugin => {
            let fault: PluginFault = serde_json::from_slice(value?).ok()?;
            Some(format!(
                "plugin {name} is left out of decisions by host {}: {}",
                fault.host, fault.why
            ))
        }
        Kind::Network => Some(match value {
            Some(_) => format!("network {name} is created"),
            None => format!("network {name} is removed"),
        }),
        Kind::Wire => Some(match value {
            Some(_) => format!("wire {name} is applied"),
            None => format!("wire {name} is removed"),
        }),
        _ => None,
    }
}

fn host(before: Option<HostRecord>, name: &str, value: Option<&[u8]>) -> Option<String> {
    let now: Option<HostRecord> = value.and_then(|it| serde_json::from_slice(it).ok());
    match (before, now) {
        (None, Some(_)) => Some(format!("host {name} joined")),
        (Some(_), None) => Some(format!("host {name} was removed")),
        (Some(before), Some(now)) if before.maintenance != now.maintenance => {
            Some(match now.maintenance {
                true => format!("host {name} is in maintenance"),
                false => format!("host {name} is active"),
            })
        }
        (Some(before), Some(now)) if before.labels != now.labels => {
            let labels: Vec<_> = now.labels.into_iter().collect();
            Some(format!("host {name} has labels {}", labels.join(",")))
        }
        (Some(before), Some(now)) if before.group != now.group => Some(match now.group.as_str() {
            "" => format!("host {name} is in no group"),
            group => format!("host {name} is in group {group}"),
        }),
        _ => None,
    }
}

fn placement(before: Option<Placement>, name: &str, value: Option<&[u8]>) -> Option<String> {
    let now: Option<Placement> = value.and_then(|it| serde_json::from_slice(it).ok());
    let before_target = before.as_ref().and_then(|it| it.target.clone());
    Some(match (before, now) {
        (_, None) => format!("guest {name} is removed"),
        (None, Some(now)) => format!("guest {name} is placed on host {}", now.host),
        (Some(before), Some(now)) => match (before_target, now.target) {
            (None, Some(to)) => format!("guest {name} moves from host {} to {to}", now.host),
            (Some(_), None) if now.host == before.host => {
                format!("guest {name} stays on host {}", now.host)
            }
            (Some(_), None) => format!("guest {name} moved to host {}", now.host),
            (None, None) if now.host != before.host => format!(
                "guest {name} is placed on host {}, since host {} is lost",
                now.host, before.host
            ),
            _ => return None,
        },
    })
}

fn status(before: Option<Status>, name: &str, value: Option<&[u8]>) -> Option<String> {
    let now: Status = serde_json::from_slice(value?).ok()?;
    if before.is_some_and(|before| before == now) {
        return None;
    }
    let at = now
        .host
        .map_or(String::new(), |host| format!(" on host {host}"));
    let why = now.reason.map_or(String::new(), |why| format!(": {why}"));
    Some(format!("guest {name} is {}{at}{why}", now.state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_s_way_is_told() {
        let mut view = View::default();
        let mut told = Vec::new();
        let place = |host: &str, target: Option<&str>| {
            let placement = Placement {
                id: "1".into(),
                host: host.into(),
                target: target.map(String::from),
                home: None,
                since_ms: 0,
            };
            Some(serde_json::to_vec(&placement).unwrap())
        };
        let values = [
            place("a", None),
            place("a", Some("b")),
            place("b", None),
            place("c", None),
            place("c", Some("d")),
            place("c", None),
            None,
        ];
        for (revision, value) in values.into_iter().enumerate() {
            let change = Change {
                key: Kind::Placement.of("fw"),
                value,
                revision: revision as i64 + 1,
            };
            told.extend(sentence(&view, &change));
            view.apply(&change.key, change.value.as_deref(), change.revision);
        }
        assert_eq!(
            told,
            [
                "guest fw is placed on host a",
                "guest fw moves from host a to b",
                "guest fw moved to host b",
                "guest fw is placed on host c, since host b is lost",
                "guest fw moves from host c to d",
                "guest fw stays on host c",
                "guest fw is removed",
            ]
        );
    }
}
