//! Events: what happened to resources.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Since;

/// What kind of thing an event is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// The node.
    #[default]
    Node,
    /// The switch's process.
    Switch,
    /// The control store's process.
    Store,
    /// A link, or its switch function.
    Link,
    /// A stub.
    Stub,
    /// A VNIC.
    Vnic,
    /// An end of a patch.
    Patch,
    /// A flow.
    Flow,
    /// A guest.
    Guest,
    /// A wire.
    Wire,
    /// A network namespace of a wire.
    Namespace,
    /// CoreEngine's process.
    CoreEngine,
    /// A network stack module.
    Nsm,
    /// An application whose sockets a network stack module serves.
    Application,
}

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Happened {
    /// It was created by command, or by a frame to its VNIC.
    #[default]
    Created,
    /// It was changed by command.
    Changed,
    /// It was removed by command, or since it was idle.
    Removed,
    /// A guest was started.
    Started,
    /// A guest came to its main loop.
    Running,
    /// A guest ended in good order.
    Ended,
    /// A guest ended otherwise, or cannot be started.
    Crashed,
    /// A guest or the switch was started in the place of one that had ended.
    Restarted,
    /// A guest was stopped by command.
    Stopped,
    /// A guest was paused by command.
    Paused,
    /// A paused guest goes on.
    Resumed,
    /// A guest was saved to a file.
    Saved,
    /// A guest stands still as a template of clones.
    Template,
    /// A guest came from another node.
    Arrived,
    /// A guest goes on at another node.
    Left,
    /// A guest goes on here, and may go on at another node as well.
    InDoubt,
    /// A guest has another name.
    Renamed,
    /// A guest runs another configuration beside the others.
    Installed,
    /// A guest runs a configuration no more.
    Uninstalled,
    /// Checks of a guest's health failed.
    Unhealthy,
    /// Checks of a guest's health pass again.
    Healthy,
    /// Something that was down is up.
    Up,
    /// A resource is not in its desired state.
    Down,
    /// A wire was made what its file says.
    Applied,
    /// Events were lost, since they came faster than they were read.
    Lost,
}

impl Happened {
    /// What a sentence says of it.
    fn phrase(self) -> &'static str {
        match self {
            Happened::Created => "was created",
            Happened::Changed => "was changed",
            Happened::Removed => "was removed",
            Happened::Started => "was started",
            Happened::Running => "runs",
            Happened::Ended => "ended",
            Happened::Crashed => "crashed",
            Happened::Restarted => "was restarted",
            Happened::Stopped => "was stopped",
            Happened::Paused => "was paused",
            Happened::Resumed => "was resumed",
            Happened::Saved => "was saved",
            Happened::Template => "is a template",
            Happened::Arrived => "arrived",
            Happened::Left => "left",
            Happened::InDoubt => "may be at two nodes",
            Happened::Renamed => "was renamed",
            Happened::Installed => "has another configuration",
            Happened::Uninstalled => "has a configuration less",
            Happened::Unhealthy => "is unhealthy",
            Happened::Healthy => "is healthy again",
            Happened::Up => "is up",
            Happened::Down => "is down",
            Happened::Applied => "was applied",
            Happened::Lost => "had more events than were read",
        }
    }
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its number, which is higher than that of any earlier event, also of an earlier node.
    pub number: u64,
    /// When it happened (RFC 3339).
    pub time: String,
    /// What kind of thing it happened to.
    pub topic: Topic,
    /// The name of that; none if there is only one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What happened.
    pub event: Happened,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the node does about it, or what else is to be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Whose request it was: `root`, or another user of the API; none if it was nobody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Event {
    /// Something that happened to a thing of this name.
    pub fn of(topic: Topic, name: &str, event: Happened) -> Event {
        Event {
            topic,
            name: name.into(),
            event,
            ..Event::default()
        }
    }

    /// Why it happened: the first line, since a guest's crash may have many.
    pub fn because(mut self, reason: &str) -> Event {
        self.reason = reason.lines().next().map(str::to_string);
        self
    }

    /// What the node does about it, or what else is to be known.
    pub fn note(mut self, note: impl fmt::Display) -> Event {
        self.note = Some(note.to_string());
        self
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topic = match self.topic {
            Topic::Node => "node",
            Topic::Switch => "switch",
            Topic::Store => "control store",
            Topic::Link => "link",
            Topic::Stub => "stub",
            Topic::Vnic => "VNIC",
            Topic::Patch => "patch",
            Topic::Flow => "flow",
            Topic::Guest => "guest",
            Topic::Wire => "wire",
            Topic::Namespace => "namespace",
            Topic::CoreEngine => "CoreEngine",
            Topic::Nsm => "NSM",
            Topic::Application => "application",
        };
        if self.topic == Topic::CoreEngine {
            write!(f, "{topic}")?;
        } else if self.name.is_empty() {
            write!(f, "the {topic}")?;
        } else {
            write!(f, "{topic} ‘{}’", self.name)?;
        }
        write!(f, " {}", self.event.phrase())?;
        for more in [&self.reason, &self.note].into_iter().flatten() {
            write!(f, ": {more}")?;
        }
        match &self.by {
            Some(by) => write!(f, " (by {by})"),
            None => Ok(()),
        }
    }
}

/// Which events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Names and patterns such as `fw-*` of things, separated by commas; without any, all events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only events that are not older: so long ago, as in 10m, or a time, as in 2030-01-31T12:00:00Z.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub since: Option<Since>,
    /// Go on with events to come, as server-sent events.
    #[serde(default, skip_serializing_if = "super::log::is_false")]
    pub follow: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_sentence() {
        let mut event = Event::of(Topic::Guest, "fw", Happened::Crashed)
            .because("it was killed\n  a line of its console")
            .note("it restarts in 0.1 s");
        let sentence = "guest ‘fw’ crashed: it was killed: it restarts in 0.1 s";
        assert_eq!(event.to_string(), sentence);
        event.by = Some("user 1000".into());
        assert!(event.to_string().ends_with(" (by user 1000)"));
        let event = Event::of(Topic::Switch, "", Happened::Restarted);
        assert_eq!(event.to_string(), "the switch was restarted");
    }
}
