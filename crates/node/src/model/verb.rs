//! What is done with guests, many at a time.

use std::ops::Range;

use glob::Pattern;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Guest, GuestStatus, Object};
use crate::error::{Error, Fault, Result};

/// The part of a name in which each guest of a series has its number.
pub const NUMBER: &str = "{}";
/// Most guests of a series.
pub const SERIES_MAX: u32 = 100_000;

/// What is done with guests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Starts a guest that does not run. One that runs stays as it is.
    #[default]
    Start,
    /// Ends a guest. It keeps its VNICs, and stays stopped until it is started, also when the node
    /// or the machine restarts.
    Stop,
    /// Ends a guest if it runs, and starts it.
    Restart,
    /// Pauses all processors of a guest. It keeps its state, and no frame of it is sent or received
    /// until it is resumed.
    Pause,
    /// Resumes a paused guest.
    Resume,
    /// Announces the Ethernet addresses of a running guest on its links by RARP, as after a migration: switches learn
    /// where it is.
    Announce,
    /// Makes a guest a template, which stands still for clones until it is resumed.
    Template,
    /// Ends a guest and removes it, with the VNICs made for it.
    Destroy,
}

/// An action on guests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestAction {
    /// What is done.
    pub action: Action,
    /// Names, and patterns such as `fw-*`: `*` stands for any characters, `?` for one, `[a-c]` for
    /// one of those.
    pub guests: Vec<String>,
}

/// Guests that differ by a number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestSeries {
    /// Their name, with `{}` for the number.
    pub name: String,
    /// How many; at most 100 000.
    #[schema(minimum = 1, maximum = 100_000)]
    pub count: u32,
    /// The first one's number.
    #[serde(default = "first")]
    pub first: u32,
    /// The guest. In the VNICs and links of its interfaces, `{}` is the number, too.
    pub guest: Guest,
}

fn first() -> u32 {
    1
}

impl GuestSeries {
    /// The guests, in order.
    pub fn guests(&self) -> Result<impl Iterator<Item = (String, Guest)> + Send + use<>> {
        let numbers = numbered(&self.name, self.first, self.count)?;
        let series = self.clone();
        Ok(numbers.map(move |number| {
            let name = series.name.replace(NUMBER, &number.to_string());
            (name, series.guest.numbered(number))
        }))
    }
}

/// The numbers of a series of guests.
pub(super) fn numbered(name: &str, first: u32, count: u32) -> Result<Range<u32>> {
    if !name.contains(NUMBER) {
        return Err(Fault::NoNumber { name: name.into() }.into());
    }
    if !(1..=SERIES_MAX).contains(&count) {
        let most = SERIES_MAX;
        return Err(Fault::Series { count, most }.into());
    }
    let last = first.checked_add(count);
    let last = last.ok_or(Fault::LastNumber { first, count })?;
    // The last one's is the longest.
    super::name::check_name("guest", &name.replace(NUMBER, &(last - 1).to_string()))?;
    Ok(first..last)
}

impl Guest {
    /// The guest with a number in a series.
    pub fn numbered(&self, number: u32) -> Guest {
        let mut guest = self.clone();
        for on in guest.interfaces.values_mut() {
            *on = on.replace(NUMBER, &number.to_string());
        }
        guest
    }
}

/// What became of one guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GuestOutcome {
    /// Its name, or a pattern that no guest has.
    pub guest: String,
    /// The guest as it is now; none if it is gone, or something went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<GuestStatus>,
    /// What went wrong; none if it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

impl GuestOutcome {
    /// What became of the guest called `guest`.
    pub fn of(guest: String, outcome: Result<Option<Object<Guest>>>) -> GuestOutcome {
        let (status, error) = match outcome {
            Ok(object) => (object.map(|object| object.status), None),
            Err(error) => (None, Some(error)),
        };
        GuestOutcome {
            guest,
            status,
            error,
        }
    }
}

/// Another name for a guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    /// The name.
    pub name: String,
}

/// Names and patterns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// Names and patterns such as `fw-*`, separated by commas; without any, all are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Selection {
    /// Of these names and patterns; of all, if there are none.
    pub fn of(names: &[String]) -> Selection {
        let name = (!names.is_empty()).then(|| names.join(","));
        Selection { name }
    }

    /// The names and patterns.
    pub fn names(&self) -> Vec<String> {
        let names = self.name.iter().flat_map(|names| names.split(','));
        names.map(str::to_string).collect()
    }

    /// The names and patterns as patterns: a name is one that it alone matches.
    pub fn patterns(&self) -> Result<Vec<Pattern>> {
        self.names().iter().map(|name| pattern(name)).collect()
    }
}

/// A text as a pattern of names.
pub(crate) fn pattern(text: &str) -> Result<Pattern> {
    let wrong = |error: glob::PatternError| {
        let (pattern, why) = (text.into(), error.msg.to_string());
        Fault::Pattern { pattern, why }.into()
    };
    Pattern::new(text).map_err(wrong)
}

/// Whether a text is a pattern of names, and not a name.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The names in `all` that `wanted`, names and patterns, select, each once and in the order of
/// `wanted`; a name is itself, whether it is in `all` or not. A pattern without a match is an error
/// beside its text.
pub fn select<'a>(
    wanted: &[String],
    all: impl Fn() -> Vec<&'a str>,
    what: &'static str,
) -> Vec<Result<String, (String, Error)>> {
    let mut names = None;
    let mut seen = std::collections::HashSet::new();
    let mut selected = Vec::new();
    for text in wanted {
        if !is_pattern(text) {
            selected.extend(seen.insert(text.clone()).then(|| Ok(text.clone())));
            continue;
        }
        let names = names.get_or_insert_with(|| {
            let mut names = all();
            names.sort_unstable();
            names
        });
        let pattern = match pattern(text) {
            Ok(pattern) => pattern,
            Err(error) => {
                selected.push(Err((text.clone(), error)));
                continue;
            }
        };
        let mut matches = names.iter().filter(|name| pattern.matches(name)).peekable();
        if matches.peek().is_none() {
            let pattern = text.clone();
            selected.push(Err((text.clone(), Fault::NoMatch { what, pattern }.into())));
        }
        for name in matches {
            selected.extend(seen.insert(name.to_string()).then(|| Ok(name.to_string())));
        }
    }
    selected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(wanted: &[&str]) -> Vec<String> {
        let wanted: Vec<_> = wanted.iter().map(ToString::to_string).collect();
        let all = || vec!["nat", "fw-2", "fw-10", "fw-1"];
        let selected = select(&wanted, all, "guest").into_iter();
        let texts = selected.map(|one| one.unwrap_or_else(|(_, error)| error.error));
        texts.collect()
    }

    #[test]
    fn patterns_select_as_a_shell_does_and_each_name_once() {
        assert_eq!(selected(&["fw-?"]), ["fw-1", "fw-2"]);
        assert_eq!(selected(&["nat", "*"]), ["nat", "fw-1", "fw-10", "fw-2"]);
        assert_eq!(selected(&["fw-[2-9]", "none", "none"]), ["fw-2", "none"]);
        assert_eq!(selected(&["lb-*"]), ["no guest matches ‘lb-*’"]);
        assert!(selected(&["fw-["])[0].contains("‘fw-[’ is not a pattern"));
    }

    #[test]
    fn a_series_has_its_numbers_in_names_and_links() {
        let mut series = GuestSeries {
            name: "fw-{}".into(),
            count: 2,
            first: 9,
            guest: Guest::default(),
        };
        series.guest.interfaces.insert("lan".into(), "v{}".into());
        let guests: Vec<_> = series.guests().unwrap().collect();
        assert_eq!(
            (guests[0].0.as_str(), guests[1].0.as_str()),
            ("fw-9", "fw-10")
        );
        assert_eq!(guests[1].1.interfaces["lan"], "v10");
        for (name, count) in [("fw", 2), ("fw-{}", 0), ("fw-{}", SERIES_MAX + 1)] {
            let series = GuestSeries {
                name: name.into(),
                count,
                ..series.clone()
            };
            assert!(series.guests().is_err(), "{name} {count}");
        }
        series.first = u32::MAX;
        let error = series.guests().err().unwrap();
        assert_eq!(error.field.as_deref(), Some("first"), "{error}");
    }
}
