//! What guests printed.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

/// One line that a guest printed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// Its number; lines of all guests are numbered in the order in which the node took them.
    pub number: u64,
    /// When the node took it from the guest's console (RFC 3339).
    pub time: String,
    /// The guest.
    pub guest: String,
    /// The line, with control characters escaped.
    pub line: String,
    /// Bytes of text that were lost here, which the line says; the guest printed more than its
    /// console holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
}

/// Which lines of a guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogQuery {
    /// Only lines that are not older: so long ago, as in 10m, or a time, as in 2030-01-31T12:00:00Z.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub since: Option<Since>,
    /// Only the last lines of each guest, so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<usize>,
    /// Only lines of the guest's last run: since it was started last.
    #[serde(default, skip_serializing_if = "is_false")]
    pub run: bool,
    /// Go on with lines to come, as server-sent events.
    #[serde(default, skip_serializing_if = "is_false")]
    pub follow: bool,
}

/// Which lines of which guests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogsQuery {
    /// Names and patterns of guests such as `fw-*`, separated by commas; without any, all guests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only lines that are not older: so long ago, as in 10m, or a time, as in 2030-01-31T12:00:00Z.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub since: Option<Since>,
    /// Only the last lines of each guest, so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<usize>,
    /// Go on with lines to come, as server-sent events.
    #[serde(default, skip_serializing_if = "is_false")]
    pub follow: bool,
}

impl LogsQuery {
    /// The guests, and which lines of them.
    pub fn split(self) -> (Vec<String>, LogQuery) {
        let name = self.name;
        let (since, tail, follow) = (self.since, self.tail, self.follow);
        let query = LogQuery {
            since,
            tail,
            run: false,
            follow,
        };
        (super::Selection { name }.names(), query)
    }
}

pub(super) fn is_false(value: &bool) -> bool {
    !value
}

/// The time from which on something is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// So long ago.
    Ago(Duration),
    /// That time.
    Time(SystemTime),
}

impl Since {
    /// The time.
    pub fn time(self) -> SystemTime {
        match self {
            Since::Ago(ago) => SystemTime::now()
                .checked_sub(ago)
                .map_or(SystemTime::UNIX_EPOCH, |time| {
                    time.max(SystemTime::UNIX_EPOCH)
                }),
            Since::Time(time) => time,
        }
    }
}

/// A text that is no time.
#[derive(Debug, thiserror::Error)]
#[error(
    "‘{0}’ is not a time: write how long ago, as in 90s, 10m or 2h, or a time in UTC, as in 2030-01-31T12:00:00Z"
)]
pub struct NoTime(String);

impl std::str::FromStr for Since {
    type Err = NoTime;

    fn from_str(text: &str) -> Result<Since, NoTime> {
        let ago = humantime::parse_duration(text).map(Since::Ago);
        ago.or_else(|_| humantime::parse_rfc3339_weak(text).map(Since::Time))
            .map_err(|_| NoTime(text.into()))
    }
}

impl Serialize for Since {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Since::Ago(ago) => serializer.collect_str(&humantime::format_duration(*ago)),
            Since::Time(time) => serializer.collect_str(&rfc3339(*time)),
        }
    }
}

impl<'de> Deserialize<'de> for Since {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Since, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A time as the API has it: RFC 3339, in UTC, with milliseconds.
pub fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_given_as_such_or_by_how_long_ago_it_was() {
        let parsed = |text: &str| text.parse::<Since>().map_err(|error| error.to_string());
        assert_eq!(parsed("10m"), Ok(Since::Ago(Duration::from_secs(600))));
        let time = Since::Time(SystemTime::UNIX_EPOCH + Duration::from_secs(86_400));
        assert_eq!(parsed("1970-01-02T00:00:00Z"), Ok(time));
        assert_eq!(parsed("1970-01-02 00:00:00"), Ok(time));
        for wrong in ["", "soon", "-1m", "10", "1970-13-02T00:00:00Z"] {
            assert!(
                parsed(wrong).unwrap_err().contains("is not a time"),
                "{wrong}"
            );
        }
        for since in [time, Since::Ago(Duration::from_millis(90_500))] {
            let json = serde_json::to_value(since).unwrap();
            assert_eq!(serde_json::from_value::<Since>(json).unwrap(), since);
        }
        // Longer ago than there is time.
        assert_eq!(
            parsed("9999999years").map(Since::time),
            Ok(SystemTime::UNIX_EPOCH)
        );
    }
}
