use crate::prelude::*;
use crate::rates::token_bucket::TokenBucket;

/// Tests the token bucket of shapers and meters when the router is initialized.
///
/// Says `All tests pass!`, or which did not; then the router does not start.
///
/// # Example
/// ```click
/// TokenBucketTest;
/// ```
///
/// # See also
/// Shaper, BandwidthShaper, RatedSplitter
#[derive(Element)]
#[element(ports = "0/0")]
pub struct TokenBucketTest;

/// A time, in milliseconds.
fn milliseconds(n: u64) -> Steady {
    Steady(n * 1_000_000)
}

fn bucket(rate: u64, capacity: u64) -> TokenBucket {
    let mut bucket = TokenBucket::default();
    bucket.assign(rate, capacity);
    bucket.fill(milliseconds(0));
    bucket
}

/// Takes tokens if there are so many.
fn take(bucket: &mut TokenBucket, tokens: u64) -> bool {
    let enough = bucket.tokens() >= tokens;
    if enough {
        bucket.take(tokens);
    }
    enough
}

fn gives_what_it_holds() -> bool {
    let mut bucket = bucket(1024, 2048);
    let all = take(&mut bucket, 1024) && take(&mut bucket, 1024);
    all && !take(&mut bucket, 1024)
}

fn is_filled_at_its_rate() -> bool {
    let mut bucket = bucket(1024, 2048);
    bucket.take(2048);
    bucket.fill(milliseconds(990));
    let early = take(&mut bucket, 1024);
    bucket.fill(milliseconds(1001));
    !early && take(&mut bucket, 1024) && !take(&mut bucket, 1024)
}

fn holds_the_income_of_a_tick() -> bool {
    take(&mut bucket(1 << 30, 1), 1000)
}

fn holds_as_much_as_fits() -> bool {
    take(&mut bucket(1, 1 << 30), 1 << 30)
}

fn is_ready_when_it_says() -> bool {
    let mut bucket = bucket(2, 1);
    bucket.take(1);
    let Some(Steady(ready)) = bucket.ready(1) else {
        return false;
    };
    let ready = ready / 1_000_000;
    (1..=ready).all(|now| {
        bucket.fill(milliseconds(now));
        let left = bucket.ready(1).is_some_and(|at| at <= milliseconds(ready));
        left && (bucket.tokens() == 1) == (now == ready)
    })
}

fn stays_empty_without_income() -> bool {
    let mut bucket = bucket(0, 1024);
    bucket.take(1024);
    bucket.fill(milliseconds(3_600_000));
    bucket.tokens() == 0 && bucket.ready(1).is_none()
}

/// What is held, and whether it does.
type BucketTest = (&'static str, fn() -> bool);

const TESTS: [BucketTest; 6] = [
    ("a bucket gives what it holds", gives_what_it_holds),
    ("a bucket is filled at its rate", is_filled_at_its_rate),
    (
        "a bucket holds the income of a tick",
        holds_the_income_of_a_tick,
    ),
    ("a bucket holds as much as fits", holds_as_much_as_fits),
    ("a bucket is ready when it says", is_ready_when_it_says),
    (
        "a bucket without income stays empty",
        stays_empty_without_income,
    ),
];

impl Element for TokenBucketTest {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        for (name, passes) in TESTS {
            if !passes() {
                return Err(cx.error(format_args!("test '{name}' failed")));
            }
        }
        cx.message("All tests pass!");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn all_pass() {
        for (name, passes) in super::TESTS {
            assert!(passes(), "{name}");
        }
        Rig::refuses("TokenBucketTest(1);", "too many arguments");
    }
}
