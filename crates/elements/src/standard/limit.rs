//! LIMIT, the number of packets after which an element stops.

use crate::prelude::*;

/// A number of packets; none if negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit(i64);

impl Limit {
    /// No limit.
    pub const NONE: Limit = Limit(-1);

    /// What a handler shows that has one number for no limit.
    pub fn or_none(&self) -> i64 {
        self.0.max(Self::NONE.0)
    }

    /// Packets still to come when there were `count`.
    #[inline]
    pub fn left(self, count: u64) -> u64 {
        match u64::try_from(self.0) {
            Ok(limit) => limit.saturating_sub(count),
            Err(_) => u64::MAX,
        }
    }
}

impl Default for Limit {
    fn default() -> Self {
        Limit::NONE
    }
}

impl Argument for Limit {
    const KIND: &'static str = "integer";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        i64::parse(text, context).map(Limit)
    }
}

/// As it was given.
impl Shown for Limit {
    fn shown(&self) -> String {
        self.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_numbers_are_no_limit() {
        let limit = |text: &str| Context::blank().parse::<Limit>(text).unwrap();
        for (text, shown, left) in [
            ("5", "5", 2),
            ("2", "2", 0),
            ("0", "0", 0),
            ("-1", "-1", u64::MAX),
            ("-7", "-7", u64::MAX),
            (
                "9223372036854775807",
                "9223372036854775807",
                i64::MAX as u64 - 3,
            ),
        ] {
            assert_eq!(
                (limit(text).shown().as_str(), limit(text).left(3)),
                (shown, left)
            );
        }
        assert!(Context::blank().parse::<Limit>("many").is_err());
    }
}
