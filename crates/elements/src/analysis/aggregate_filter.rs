use crate::filters::dispatch::{DROP, dispatch};
use crate::prelude::*;

/// Sends packets different ways by their aggregate annotation.
///
/// Each argument is an action and its aggregates; the first argument that names a packet's
/// aggregate decides. Other packets are dropped.
///
/// # Arguments
/// - `ACTION AGGREGATES`, any number: the action is an output's number, `allow` (output 0), `drop`
///   or `deny`. Aggregates are numbers and ranges (`0-98`), or `all` or `-` for every aggregate.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true, FORCE_IP true)
///     -> AggregateIPFlows -> f :: AggregateFilter(allow 7 9, 1 100-199)
///     -> ToDump(few.pcap, ENCAP IP);
/// f[1] -> Discard;
/// ```
///
/// # See also
/// AggregateIP, AggregateIPFlows, IPFilter
#[derive(Element)]
#[element(ports = "1/1-254", processing = "h", raw)]
pub struct AggregateFilter {
    /// Apart from each other, and sorted.
    ranges: Vec<Range>,
    #[init(DROP)]
    other: u32,
}

/// Aggregates, both ends included, and the output they go to.
#[derive(Clone, Copy)]
struct Range {
    first: u32,
    last: u32,
    output: u32,
}

impl AggregateFilter {
    /// Adds what of a range is not taken yet. Returns the first aggregate that is taken for another
    /// output, and that output.
    fn add(&mut self, mut range: Range) -> Option<(u32, u32)> {
        let mut taken = None;
        let mut new = Vec::new();
        let mut rest = true;
        for known in &self.ranges {
            if known.last < range.first || known.first > range.last {
                continue;
            }
            if known.output != range.output {
                taken = taken.or(Some((known.first.max(range.first), known.output)));
            }
            if known.first > range.first {
                new.push(Range {
                    last: known.first - 1,
                    ..range
                });
            }
            match known.last.checked_add(1) {
                Some(next) if next <= range.last => range.first = next,
                _ => {
                    rest = false;
                    break;
                }
            }
        }
        if rest {
            new.push(range);
        }
        self.ranges.extend(new);
        self.ranges.sort_by_key(|range| range.first);
        taken
    }

    #[inline]
    fn output(&self, aggregate: u32) -> u32 {
        let after = self
            .ranges
            .partition_point(|range| range.first <= aggregate);
        let range = after.checked_sub(1).and_then(|at| self.ranges.get(at));
        match range {
            Some(range) if aggregate <= range.last => range.output,
            _ => self.other,
        }
    }

    fn add_pattern(&mut self, args: &Args<'_>, n: usize, output: u32, words: &[&str]) {
        for word in words {
            let number = |text: &str| args.context().parse::<u32>(text).ok();
            let ends = match (number(word), word.split_once('-')) {
                (Some(one), _) => Some((one, one)),
                (None, Some((first, last))) => number(first).zip(number(last)),
                (None, None) => None,
            };
            let Some((first, last)) = ends else {
                args.error(format_args!("pattern {n}: bad aggregate number '{word}'"));
                continue;
            };
            if first > last {
                continue;
            }
            let range = Range {
                first,
                last,
                output,
            };
            if let Some((aggregate, to)) = self.add(range) {
                let to = match to {
                    DROP => "be dropped".into(),
                    to => alloc::format!("output {to}"),
                };
                args.warning(format_args!(
                    "pattern {n}: aggregate {aggregate} already filtered to {to}"
                ));
            }
        }
    }
}

impl Element for AggregateFilter {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let outputs = cx.outputs() as u32;
        let mut all_are_known = false;
        for (n, pattern) in args.take_raw().iter().enumerate() {
            let words: Vec<&str> = pattern.split_ascii_whitespace().collect();
            let Some((action, aggregates)) = words.split_first() else {
                args.error(format_args!("empty pattern {n}"));
                continue;
            };
            if all_are_known {
                args.warning(format_args!("pattern {n} matches no packets"));
                continue;
            }
            let output = match (*action, args.context().parse::<u32>(action)) {
                ("allow", _) => 0,
                ("drop" | "deny", _) => DROP,
                (_, Ok(output)) if output < outputs => output,
                (_, Ok(_)) => DROP,
                _ => {
                    args.error(format_args!("pattern {n}: expected a port number"));
                    continue;
                }
            };
            match aggregates {
                [] => args.error(format_args!("pattern {n} has no aggregates")),
                ["all" | "-"] => {
                    self.other = output;
                    all_are_known = true;
                }
                _ => self.add_pattern(args, n, output, aggregates),
            }
        }
        args.finish()
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        dispatch(cx, batch, |packet| self.output(packet.anno(AGGREGATE)))
    }
}

#[cfg(test)]
mod tests {
    use super::{AggregateFilter, DROP, Range};
    use crate::testing::*;

    #[test]
    fn packets_go_where_the_first_pattern_says() {
        let mut rig = Rig::new(
            "i :: Inject -> f :: AggregateFilter(1 5-9, allow 7 10, drop 11, 1 -)
               -> c :: Collect; f[1] -> d :: Collect;",
        );
        assert_eq!(
            rig.printed().concat(),
            "config:1: While configuring 'f :: AggregateFilter':  warning: pattern 1: aggregate 7 \
             already filtered to output 1"
        );
        for aggregate in [4, 5, 7, 9, 10, 11, u32::MAX] {
            rig.push_with("i", &[0], |packet| packet.set_anno(AGGREGATE, aggregate));
        }
        let mut aggregates = |name| {
            let packets = rig.collected(name);
            packets
                .iter()
                .map(|p| p.anno(AGGREGATE))
                .collect::<Vec<_>>()
        };
        assert_eq!(aggregates("c"), [10]);
        assert_eq!(aggregates("d"), [4, 5, 7, 9, u32::MAX]);
        for (args, text) in [
            ("allow", "pattern 0 has no aggregates"),
            ("x 1", "pattern 0: expected a port number"),
            ("allow 1, drop x", "pattern 1: bad aggregate number 'x'"),
        ] {
            Rig::refuses(
                &format!("Idle -> AggregateFilter({args}) -> Discard;"),
                text,
            );
        }
    }

    proptest! {
        #[test]
        fn the_first_range_decides(ranges in proptest::collection::vec((0u32..50, 0u32..50, 0u32..3), 0..12), at in 0u32..60) {
            let mut filter = AggregateFilter::default();
            for (first, last, output) in &ranges {
                if first <= last {
                    filter.add(Range { first: *first, last: *last, output: *output });
                }
            }
            let plain = ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&at));
            prop_assert_eq!(filter.output(at), plain.map_or(DROP, |range| range.2));
        }
    }
}
