//! Which responses are stored, and for how long (RFC 9111).

use super::date;
use super::head::{Fields, Request, Response};

/// Most seconds that a response without a lifetime of its own is fresh: a tenth of the time since it changed.
const HEURISTIC_MAX: i64 = 86_400;
/// Most seconds that are told apart (RFC 9111, section 1.2.2).
const SECONDS_MAX: i64 = 1 << 31;

/// The directives of a Cache-Control field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// `no-store`.
    pub no_store: bool,
    /// `no-cache`, also with names of fields.
    pub no_cache: bool,
    /// `private`, also with names of fields.
    pub private: bool,
    /// `public`.
    pub public: bool,
    /// `must-revalidate`, `proxy-revalidate`, or `s-maxage`.
    pub must_revalidate: bool,
    /// `max-age`.
    pub max_age: Option<i64>,
    /// `s-maxage`.
    pub s_maxage: Option<i64>,
    /// `min-fresh`.
    pub min_fresh: Option<i64>,
    /// `only-if-cached`.
    pub only_if_cached: bool,
}

impl Control {
    /// The directives in a head's fields. Of two that contradict each other, the stricter one holds.
    pub fn of(fields: &Fields) -> Control {
        let mut control = Control::default();
        for item in fields.items("cache-control") {
            let (name, value) = item.split_once('=').unwrap_or((&item, ""));
            let seconds = seconds(value);
            let least = |known: Option<i64>| Some(known.map_or(seconds, |it| it.min(seconds)));
            match name.trim() {
                "no-store" => control.no_store = true,
                "no-cache" => control.no_cache = true,
                "private" => control.private = true,
                "public" => control.public = true,
                "must-revalidate" | "proxy-revalidate" => control.must_revalidate = true,
                "max-age" => control.max_age = least(control.max_age),
                "s-maxage" => {
                    control.s_maxage = least(control.s_maxage);
                    control.must_revalidate = true;
                }
                "min-fresh" => control.min_fresh = Some(seconds),
                "only-if-cached" => control.only_if_cached = true,
                _ => {}
            }
        }
        let has_control = fields.get("cache-control").is_some();
        control.no_cache |=
            !has_control && fields.items("pragma").iter().any(|it| it == "no-cache");
        control
    }
}

/// A number of seconds; one that cannot be read is 0, so that the response is stale.
fn seconds(text: &str) -> i64 {
    let text = text.trim().trim_matches('"');
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if is_plain => SECONDS_MAX.min(number),
        Err(_) if is_plain => SECONDS_MAX,
        _ => 0,
    }
}

/// How long a response is fresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// When it came, in seconds since 1970.
    pub came: i64,
    /// How old it was then, in seconds.
    pub age: i64,
    /// How old it may be.
    pub lifetime: i64,
    /// Whether it must not be used when it is older, though the origin does not answer.
    pub must_revalidate: bool,
    /// Whether it is always validated.
    pub no_cache: bool,
}

impl Life {
    /// How old it is at a time.
    pub fn age(&self, now: i64) -> i64 {
        self.age + (now - self.came).max(0)
    }

    /// Whether it can be used for a request without validation.
    pub fn is_fresh(&self, now: i64, request: &Control) -> bool {
        let age = self.age(now);
        let wished = request.max_age.unwrap_or(SECONDS_MAX);
        let left = request.min_fresh.unwrap_or(0);
        !self.no_cache && !request.no_cache && age + left < self.lifetime && age <= wished
    }
}

/// The life of a response that may be stored, to a request that was sent at a time; `None` if it must not be
/// stored, or there is no use in it.
pub fn life(request: &Request, response: &Response, sent: i64, now: i64) -> Option<Life> {
    let (asked, control) = (Control::of(&request.fields), Control::of(&response.fields));
    let fields = &response.fields;
    let is_heuristic = matches!(response.status, 200 | 203 | 300 | 301 | 308 | 404 | 410);
    let is_shared = control.public || control.must_revalidate;
    if asked.no_store
        || control.no_store
        || control.private
        || fields.get("set-cookie").is_some()
        || request.fields.get("authorization").is_some() && !is_shared
        || fields.items("vary").iter().any(|name| name == "*")
        || !(is_heuristic || matches!(response.status, 302 | 307) && control.max_age.is_some())
    {
        return None;
    }
    let time = |name| fields.get(name).and_then(date::parse);
    let date = time("date").unwrap_or(now);
    let lifetime = match (control.s_maxage.or(control.max_age), fields.get("expires")) {
        (Some(seconds), _) => seconds,
        // A wrong date is one of the past.
        (None, Some(text)) => date::parse(text).map_or(0, |expires| (expires - date).max(0)),
        (None, None) => match time("last-modified") {
            Some(changed) => ((date - changed) / 10).clamp(0, HEURISTIC_MAX),
            None => 0,
        },
    };
    let has_validator = fields.get("etag").is_some() || time("last-modified").is_some();
    if lifetime == 0 && !has_validator {
        return None;
    }
    let told = fields.get("age").map_or(0, |age| {
        seconds(&alloc::string::String::from_utf8_lossy(age))
    });
    let corrected = told + (now - sent).max(0);
    Some(Life {
        came: now,
        age: corrected.max(now - date).max(0),
        lifetime,
        must_revalidate: control.must_revalidate,
        no_cache: control.no_cache,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::head::{self, Method};

    const NOW: i64 = 784_111_777;

    fn lives(request: &str, response: &str) -> Option<Life> {
        let request = std::format!("GET / HTTP/1.1\r\nHost: a\r\n{request}\r\n");
        let response = std::format!("HTTP/1.1 {response}\r\n");
        let (request, _) = head::request(request.as_bytes()).unwrap().unwrap();
        let (response, _) = head::response(response.as_bytes(), &Method::Get)
            .unwrap()
            .unwrap();
        life(&request, &response, NOW, NOW)
    }

    #[test]
    fn responses_live_as_long_as_they_say() {
        for (response, expected) in [
            ("200 OK\r\nCache-Control: max-age=60\r\n", Some(60)),
            (
                "200 OK\r\nCache-Control: max-age=60, s-maxage=\"30\"\r\n",
                Some(30),
            ),
            (
                "200 OK\r\nCache-Control: max-age=60\r\nCache-Control: max-age=50\r\n",
                Some(50),
            ),
            (
                "200 OK\r\nCache-Control: max-age=x\r\nETag: \"a\"\r\n",
                Some(0),
            ),
            ("200 OK\r\nCache-Control: max-age=x\r\n", None),
            (
                "200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nExpires: Sun, 06 Nov 1994 08:50:37 GMT\r\n",
                Some(60),
            ),
            ("200 OK\r\nExpires: 0\r\nETag: \"a\"\r\n", Some(0)),
            (
                "200 OK\r\nLast-Modified: Sun, 06 Nov 1994 08:32:57 GMT\r\n",
                Some(100),
            ),
            ("200 OK\r\n", None),
            ("404 Not Found\r\nCache-Control: max-age=5\r\n", Some(5)),
            ("500 Oh\r\nCache-Control: max-age=5\r\n", None),
            ("206 Part\r\nCache-Control: max-age=5\r\n", None),
            ("200 OK\r\nCache-Control: max-age=60, no-store\r\n", None),
            (
                "200 OK\r\nCache-Control: max-age=60, private=\"x\"\r\n",
                None,
            ),
            (
                "200 OK\r\nCache-Control: max-age=60\r\nSet-Cookie: a=b\r\n",
                None,
            ),
            (
                "200 OK\r\nCache-Control: max-age=60\r\nVary: Accept, *\r\n",
                None,
            ),
        ] {
            assert_eq!(
                lives("", response).map(|life| life.lifetime),
                expected,
                "{response}"
            );
        }
        let shared = "200 OK\r\nCache-Control: max-age=60, public\r\n";
        let plain = "200 OK\r\nCache-Control: max-age=60\r\n";
        assert!(lives("Authorization: x\r\n", shared).is_some());
        assert_eq!(lives("Authorization: x\r\n", plain), None);
        assert_eq!(lives("Cache-Control: no-store\r\n", plain), None);
    }

    #[test]
    fn the_age_grows_and_requests_may_want_less() {
        let response = "200 OK\r\nCache-Control: max-age=60\r\nAge: 10\r\nDate: Sun, 06 Nov 1994 08:49:17 GMT\r\n";
        let life = lives("", response).unwrap();
        assert_eq!((life.age(NOW), life.age(NOW + 30)), (20, 50));
        let none = Control::default();
        assert!(life.is_fresh(NOW + 39, &none) && !life.is_fresh(NOW + 40, &none));
        let asked = |text: &str| {
            let head = std::format!("GET / HTTP/1.1\r\nHost: a\r\n{text}\r\n\r\n");
            Control::of(&head::request(head.as_bytes()).unwrap().unwrap().0.fields)
        };
        assert!(!life.is_fresh(NOW, &asked("Cache-Control: max-age=19")));
        assert!(!life.is_fresh(NOW, &asked("Cache-Control: min-fresh=40")));
        assert!(!life.is_fresh(NOW, &asked("Cache-Control: no-cache")));
        assert!(!life.is_fresh(NOW, &asked("Pragma: no-cache")));
        assert!(life.is_fresh(NOW, &asked("Cache-Control: max-age=20, min-fresh=39")));
    }
}
