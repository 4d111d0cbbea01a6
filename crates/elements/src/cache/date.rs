//! Dates of HTTP (RFC 9110, section 5.6.7), in seconds since 1970.

use core::fmt;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const DAY: i64 = 86_400;

/// Days from 1970 to a date of the Gregorian calendar; months are from 1 to 12.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March end with their leap day.
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let of_year = (153 * month + 2) / 5 + day - 1;
    let of_era = year.rem_euclid(400) * 365 + year.rem_euclid(400) / 4 - year.rem_euclid(400) / 100;
    year.div_euclid(400) * 146_097 + of_era + of_year - 719_468
}

/// The time in any of the three forms: `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` and
/// `Sun Nov  6 08:49:37 1994`. Two digits of a year are those of one from 1970 to 2069.
pub fn parse(text: &[u8]) -> Option<i64> {
    let text = core::str::from_utf8(text).ok()?.trim();
    let mut words = text
        .split([' ', '-', ','])
        .filter(|word| !word.is_empty())
        .skip(1);
    let first = words.next()?;
    let (day, month, year, time) = if first.as_bytes()[0].is_ascii_digit() {
        let (month, year, time) = (words.next()?, words.next()?, words.next()?);
        if words.next() != Some("GMT") {
            return None;
        }
        (first, month, year, time)
    } else {
        let (day, time, year) = (words.next()?, words.next()?, words.next()?);
        (day, first, year, time)
    };
    if words.next().is_some() {
        return None;
    }
    let month = MONTHS.iter().position(|known| *known == month)? as i64 + 1;
    let number = |text: &str, most: i64| {
        let is_plain = text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
        let number: i64 = text.parse().ok()?;
        (is_plain && number <= most).then_some(number)
    };
    let year = match (year.len(), number(year, 9999)?) {
        (2, year @ 70..) => 1900 + year,
        (2, year) => 2000 + year,
        (_, year) => year,
    };
    let mut parts = time.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let of_day = number(hour, 23)? * 3600 + number(minute, 59)? * 60 + number(second, 60)?;
    Some(days(year, month, number(day, 31)?) * DAY + of_day)
}

/// A time, shown as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub struct Date(pub i64);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (day, second) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY));
        let mut year = 1970 + day / 366;
        while days(year + 1, 1, 1) <= day {
            year += 1;
        }
        let mut month = 1;
        while month < 12 && days(year, month + 1, 1) <= day {
            month += 1;
        }
        let of_month = day - days(year, month, 1) + 1;
        let week_day = DAYS[day.rem_euclid(7) as usize];
        let name = MONTHS[month as usize - 1];
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(
            f,
            "{week_day}, {of_month:02} {name} {year:04} {hour:02}:{minute:02}:{second:02} GMT"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    #[test]
    fn the_three_forms_are_the_same_time() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
        assert_eq!(
            Date(784_111_777).to_string(),
            "Sun, 06 Nov 1994 08:49:37 GMT"
        );
        for text in [
            "",
            "0",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 8:49 GMT",
            "Sun, 06 Nuv 1994 08:49:37 GMT",
            "Sun, 99 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT and",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn dates_are_read_as_they_are_written(time in 0i64..4_000_000_000, text in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(parse(Date(time).to_string().as_bytes()), Some(time));
            parse(&text);
        }
    }
}
