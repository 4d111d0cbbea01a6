//! Queueing disciplines of an interface's egress.

use std::io;

use netlink_packet_core::Nla;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcMessage, TcOption};
use switch::netlink::Netlink;

use super::super::seen::SeenInterface;

/// Queueing disciplines that limit, delay and lose nothing, but for what does not fit.
const PLAIN: [&str; 9] = [
    "noqueue",
    "pfifo_fast",
    "pfifo",
    "bfifo",
    "fq_codel",
    "fq",
    "codel",
    "sfq",
    "mq",
];

/// Adds the effects of a queueing discipline: tc-tbf(8), tc-netem(8), or a tc-htb(8) that limits
/// all traffic as one.
pub(super) fn shape(
    message: &TcMessage,
    link: &mut SeenInterface,
    netlink: &mut Netlink,
) -> io::Result<()> {
    let shaping = &mut link.shaping;
    match (kind_of(message).unwrap_or(""), options(message)) {
        ("tbf", Some(options)) => shaping.rate = tbf(&options).or(shaping.rate),
        ("netem", Some(options)) => netem(&options, link),
        ("htb", Some(options)) => {
            let mut question = TcMessage::default();
            question.header.index = message.header.index;
            let classes = netlink.dump(RouteNetlinkMessage::GetTrafficClass(question))?;
            let classes = classes.iter().filter_map(|answer| match answer {
                RouteNetlinkMessage::NewTrafficClass(class) => Some(class),
                _ => None,
            });
            let own = classes.filter(|class| {
                kind_of(class) == Some("htb")
                    && class.header.handle.major == message.header.handle.major
            });
            match htb(&options, &own.collect::<Vec<_>>()) {
                Some(rate) => shaping.rate = Some(rate),
                None => {
                    let text = "its queueing discipline ‘htb’ with several classes";
                    link.queueing.push(text.into());
                }
            }
        }
        (kind, _) if PLAIN.contains(&kind) => {}
        (kind, _) => link
            .queueing
            .push(format!("its queueing discipline ‘{kind}’")),
    }
    Ok(())
}

fn kind_of(message: &TcMessage) -> Option<&str> {
    message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            TcAttribute::Kind(kind) => Some(kind.as_str()),
            _ => None,
        })
}

/// TCA_OPTIONS of a queueing discipline or a class.
fn options(message: &TcMessage) -> Option<Vec<u8>> {
    message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            TcAttribute::Options(options) => options.iter().find_map(|option| match option {
                TcOption::Other(bytes) => {
                    let mut value = vec![0; bytes.value_len()];
                    bytes.emit_value(&mut value);
                    Some(value)
                }
                _ => None,
            }),
            _ => None,
        })
}

/// The rate of a hierarchical token bucket's only class, if it is the one that all traffic takes,
/// in bits a second (linux/pkt_sched.h: the default class's number stands at 8 of `tc_htb_glob`, a
/// class's `tc_htb_opt` begins as `tc_tbf_qopt` does).
fn htb(discipline: &[u8], classes: &[&TcMessage]) -> Option<u64> {
    const INIT: u16 = 2;
    const RATE64: u16 = 6;
    let [class] = classes else {
        return None;
    };
    let (_, init) = attributes(discipline).find(|(kind, _)| *kind == INIT)?;
    let default = u32_at(init, 8)?;
    let takes_all = default == u32::from(class.header.handle.minor);
    takes_all.then(|| rate(&options(class)?, RATE64)).flatten()
}

/// The attributes in these bytes: numbers and contents.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]));
        let kind = u16::from_ne_bytes([*bytes.get(2)?, *bytes.get(3)?]);
        let contents = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, contents))
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The rate in TCA_OPTIONS of a token bucket filter, in bits a second.
fn tbf(options: &[u8]) -> Option<u64> {
    const RATE64: u16 = 4;
    rate(options, RATE64)
}

/// The rate in the parameters of a bucket, in bits a second (linux/pkt_sched.h: they begin with a
/// `tc_ratespec`, whose rate stands at 8; larger ones are in the attribute `large`).
fn rate(options: &[u8], large: u16) -> Option<u64> {
    const PARAMETERS: u16 = 1;
    let find = |wanted| attributes(options).find(|(kind, _)| *kind == wanted);
    let large = find(large).and_then(|(_, contents)| u64_at(contents, 0));
    let small = find(PARAMETERS).and_then(|(_, contents)| u32_at(contents, 8));
    Some(large.or(small.map(u64::from))? * 8)
}

/// What TCA_OPTIONS of a network emulator say (linux/pkt_sched.h: `tc_netem_qopt`, then attributes).
fn netem(options: &[u8], link: &mut SeenInterface) {
    const HEADER: usize = 24;
    const REORDER: u16 = 3;
    const CORRUPT: u16 = 4;
    const LOSS: u16 = 5;
    const RATE: u16 = 6;
    const RATE64: u16 = 8;
    const LATENCY64: u16 = 10;
    const JITTER64: u16 = 11;
    let shaping = &mut link.shaping;
    let mut left_out = |what: &str| link.queueing.push(format!("the {what} of its netem"));
    if let Some(loss) = u32_at(options, 8) {
        shaping.loss = f64::from(loss) / f64::from(u32::MAX);
    }
    if u32_at(options, 16).is_some_and(|share| share > 0) {
        left_out("duplication");
    }
    for (kind, contents) in attributes(options.get(HEADER..).unwrap_or(&[])) {
        let share = u32_at(contents, 0).unwrap_or(0);
        match kind {
            REORDER if share > 0 => left_out("reordering"),
            CORRUPT if share > 0 => left_out("corruption"),
            LOSS => left_out("model of loss"),
            LATENCY64 => shaping.delay = u64_at(contents, 0).unwrap_or(0) / 1000,
            JITTER64 => shaping.jitter = u64_at(contents, 0).unwrap_or(0) / 1000,
            RATE64 => shaping.rate = u64_at(contents, 0).map(|rate| rate * 8),
            RATE => {
                let rate = u32_at(contents, 0).filter(|&rate| rate > 0);
                shaping.rate = shaping.rate.or(rate.map(|rate| u64::from(rate) * 8));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_of_a_network_emulator_has_no_counterpart_is_noted() {
        let mut options = vec![0; 24];
        options[16] = 1;
        // An attribute of 12 bytes, its number, a share.
        options.extend([12_u16, 4].map(u16::to_ne_bytes).concat());
        options.extend([1; 8]);
        let mut link = SeenInterface::default();
        netem(&options, &mut link);
        assert_eq!(
            link.queueing,
            [
                "the duplication of its netem",
                "the corruption of its netem"
            ]
        );
    }
}
