//! A rate limiter: how many bytes may move now, and more as time goes by.

use std::time::{Duration, Instant};

/// How long one that is idle may save up bytes.
const BURST: Duration = Duration::from_millis(20);

pub(crate) struct Limiter {
    /// Bytes that may move now; less than 0: they have moved before their time.
    tokens: i64,
    filled: Instant,
}

impl Limiter {
    pub fn new() -> Limiter {
        Limiter {
            tokens: 0,
            filled: Instant::now(),
        }
    }

    /// Lets bytes count.
    #[inline]
    pub fn charge(&mut self, bytes: u64) {
        self.tokens -= bytes as i64;
    }

    /// Whether no more may move now.
    #[inline]
    pub fn overdrawn(&self) -> bool {
        self.tokens < 0
    }

    /// How long nothing may move at this rate, in bytes a second; `None`: not at all.
    pub fn waits(&mut self, rate: u64, now: Instant) -> Option<Duration> {
        let rate = rate.max(1);
        let bytes = |time: Duration| (time.as_secs_f64() * rate as f64) as i64;
        let time = now.duration_since(self.filled);
        let more = bytes(time.min(Duration::from_secs(1)));
        if more > 0 {
            self.tokens = (self.tokens + more).min(bytes(BURST).max(1));
            self.filled = now;
        }
        let missing = u64::try_from(-self.tokens).ok()?;
        (missing > 0).then(|| Duration::from_secs_f64(missing as f64 / rate as f64))
    }
}
