//! Elements that sort, right behind each other.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proptest::prelude::*;

use super::{Rig, Sent, sent};

/// What stands at an output.
#[derive(Clone, Debug)]
enum Node {
    /// A row of elements, and a place where packets are kept, or none.
    End(&'static str, Option<u8>),
    /// A class with its patterns, and what stands at its outputs.
    Sort(&'static str, Vec<String>, Vec<Node>),
}

/// Rows of elements at ends: what is done in one go, what may be unusual, and nothing.
const ROWS: [&str; 3] = [
    "",
    "Strip(2) -> Strip(1) ->",
    "Strip(1) -> Strip(2) -> Unstrip(1) ->",
];

/// Patterns of IPClassifier, and rules of IPFilter behind their action.
const IP: [&str; 14] = [
    "tcp",
    "udp",
    "not udp",
    "icmp",
    "src port 5",
    "dst udp port 6 or 7",
    "src port > 4",
    "src host 1.0.0.1",
    "dst net 2.0.0.0/8",
    "ip ttl 1",
    "ip hl > 5",
    "ip len > 60",
    "ip frag",
    "-",
];

/// A pattern of Classifier over bytes that are mostly small.
fn clauses() -> impl Strategy<Value = String> {
    let offset = prop::sample::select(&[0u8, 1, 2, 3, 5, 12, 13, 20, 23, 36, 37, 41, 57][..]);
    let mask = prop::sample::select(&["", "%01", "%02", "%fe"][..]);
    let clause = (any::<bool>(), offset, 0u8..4, mask).prop_map(|(not, offset, value, mask)| {
        let not = if not { "!" } else { "" };
        format!("{not}{offset}/{value:02x}{mask}")
    });
    let clauses = prop::collection::vec(clause, 1..3).prop_map(|clauses| clauses.join(" "));
    prop_oneof![4 => clauses, 1 => Just("-".into())]
}

/// A class that looks at IP headers or at bytes, with patterns.
fn class(ip: bool, outputs: usize) -> BoxedStrategy<(&'static str, Vec<String>)> {
    if !ip {
        let patterns = prop::collection::vec(clauses(), outputs);
        return patterns.prop_map(|all| ("Classifier", all)).boxed();
    }
    let ip = || prop::sample::select(&IP[..]).prop_map(String::from);
    let action = prop_oneof![
        4 => (0..outputs).prop_map(|output| output.to_string()),
        1 => Just("deny".into())
    ];
    let rule = (action, ip()).prop_map(|(action, pattern)| format!("{action} {pattern}"));
    prop_oneof![
        prop::collection::vec(ip(), outputs).prop_map(|all| ("IPClassifier", all)),
        prop::collection::vec(rule, 1..5).prop_map(|all| ("IPFilter", all)),
    ]
    .boxed()
}

fn end() -> BoxedStrategy<Node> {
    let row = prop_oneof![3 => Just(ROWS[0]), 2 => Just(ROWS[1]), 1 => Just(ROWS[2])];
    let end = (row, prop::option::weighted(0.9, 0u8..3));
    end.prop_map(|(row, place)| Node::End(row, place)).boxed()
}

/// A tree of so many levels at most.
fn tree(ip: bool, levels: usize) -> BoxedStrategy<Node> {
    let behind = match levels {
        1 => end(),
        _ => prop_oneof![end(), tree(ip, levels - 1)].boxed(),
    };
    let behind = prop::collection::vec(behind, 1..5);
    let classes = (behind, prop::bool::weighted(0.05));
    let sorts = classes.prop_flat_map(move |(behind, other)| {
        let class = class(ip != other, behind.len());
        class.prop_map(move |(class, patterns)| Node::Sort(class, patterns, behind.clone()))
    });
    sorts.boxed()
}

/// A configuration being written.
#[derive(Default)]
struct Config {
    text: String,
    elements: usize,
    /// The place of each end, if it has one.
    ends: Vec<Option<u8>>,
}

impl Config {
    /// What leads to `node`: its elements are written, apart from each other or not.
    fn node(&mut self, node: &Node, apart: bool) -> String {
        match node {
            Node::End(row, place) => {
                let end = self.ends.len();
                self.ends.push(*place);
                match (place, apart) {
                    (None, _) => format!("{row} Discard"),
                    // An end's packets by themselves.
                    (_, true) => {
                        self.text += &format!("e{end} :: Collect;\n");
                        format!("{row} e{end}")
                    }
                    (Some(place), false) => format!("{row} p{place}"),
                }
            }
            Node::Sort(class, patterns, behind) => {
                let name = format!("n{}", self.elements);
                self.elements += 1;
                self.text += &format!("{name} :: {class}({});\n", patterns.join(", "));
                for (output, node) in behind.iter().enumerate() {
                    let to = self.node(node, apart);
                    self.text += &format!("{name}[{output}] -> {to};\n");
                }
                // It says nothing of what it does.
                let between = if apart { "Counter -> " } else { "" };
                format!("{between}{name}")
            }
        }
    }

    fn of(node: &Node, apart: bool) -> Config {
        let mut config = Config::default();
        let to = config.node(node, apart);
        config.text += &format!("i :: Inject -> Queue -> Unqueue(64) -> {to};\n");
        let places = (0..3).filter(|place| !apart && config.ends.contains(&Some(*place)));
        let places: String = places
            .map(|place| format!("p{place} :: Collect;\n"))
            .collect();
        config.text = places + &config.text;
        config
    }
}

/// Packets that passed the outputs of elements named `n` and a number.
fn passed(rig: &mut Rig) -> BTreeMap<String, String> {
    let (names, counts) = (rig.read(".active_ports"), rig.read(".active_port_stats"));
    let all = names.lines().zip(counts.lines());
    all.filter(|(name, _)| name.starts_with('n') && name.contains("\to"))
        .map(|(name, count)| (name.into(), count.into()))
        .collect()
}

/// A packet of small bytes, an IP packet that has nothing unusual, or one that may have.
#[derive(Clone, Debug)]
enum Given {
    Small(Vec<u8>),
    Plain(Plain),
    Ip(Sent),
}

#[derive(Clone, Debug)]
struct Plain {
    protocol: u8,
    ports: [u8; 2],
    ttl: u8,
    addresses: [u8; 2],
    fragment: bool,
}

impl Plain {
    fn data(&self) -> Vec<u8> {
        let mut data = alloc::vec![0; 60];
        let [source, destination] = self.addresses;
        let [from, to] = self.ports;
        data[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, self.ttl, self.protocol]);
        data[20] = if self.fragment { 0x20 } else { 0 };
        data[26..34].copy_from_slice(&[source, 0, 0, 1, destination, 0, 0, 3]);
        data[34..38].copy_from_slice(&[0, from, 0, to]);
        data
    }
}

fn plain() -> impl Strategy<Value = Given> {
    let protocol = prop::sample::select(&[1u8, 6, 17][..]);
    let (addresses, ports) = ([1u8..3, 1u8..3], [4u8..8, 4u8..8]);
    let fragment = prop::bool::weighted(0.1);
    let all = (protocol, ports, 1u8..3, addresses, fragment);
    all.prop_map(|(protocol, ports, ttl, addresses, fragment)| {
        Given::Plain(Plain {
            protocol,
            ports,
            ttl,
            addresses,
            fragment,
        })
    })
}

fn small(length: usize) -> impl Strategy<Value = Given> {
    prop::collection::vec(0u8..4, length).prop_map(Given::Small)
}

/// Packets that are usual, all but one, or in no way.
fn given(ip: bool) -> impl Strategy<Value = Vec<Given>> {
    let some = |given: BoxedStrategy<Given>| prop::collection::vec(given, 1..150);
    let usual = || match ip {
        true => plain().boxed(),
        false => small(60).boxed(),
    };
    let short = (0usize..62).prop_flat_map(small);
    let other = prop_oneof![short, sent().prop_map(Given::Ip)];
    let but_one = (some(usual()), any::<prop::sample::Index>(), other.clone());
    let but_one = but_one.prop_map(|(mut all, at, other)| {
        *at.get_mut(&mut all) = other;
        all
    });
    let any = prop_oneof![small(60), plain(), other];
    prop_oneof![3 => some(usual()), 1 => but_one, 1 => some(any.boxed())]
}

/// A tree, and packets that it is meant for.
fn cases() -> impl Strategy<Value = (Node, Vec<Given>)> {
    any::<bool>().prop_flat_map(|ip| (tree(ip, 4), given(ip)))
}

/// A router that got packets, which say by their paint which they are.
fn ran(config: &str, batch: usize, packets: &[Given]) -> Rig {
    let mut rig = Rig::with_batch(config, batch);
    for (i, given) in packets.iter().enumerate() {
        let data = match given {
            Given::Small(data) => data.clone(),
            Given::Plain(plain) => plain.data(),
            Given::Ip(sent) => sent.data(),
        };
        rig.push_with("i", &data, |packet| {
            match given {
                Given::Small(_) => {}
                Given::Plain(_) => packet.set_network_header(14, 20),
                Given::Ip(sent) => sent.prepare(packet),
            }
            packet.set_paint(i as u8);
        });
    }
    rig.run();
    rig
}

fn collected(rig: &mut Rig, place: &str) -> Vec<(u8, Vec<u8>)> {
    let packets = rig.collected(place);
    let packets = packets.iter();
    packets
        .map(|packet| (packet.paint(), packet.data().to_vec()))
        .collect()
}

proptest! {
    #[test]
    fn any_tree_sorts_as_its_elements_do(
        (node, packets) in cases(),
        batch in prop_oneof![3 => Just(64usize), 1 => Just(1), 1 => 2usize..64],
    ) {
        let config = Config::of(&node, true);
        let mut apart = ran(&config.text, batch, &packets);
        let ends: Vec<Vec<(u8, Vec<u8>)>> = (0..config.ends.len())
            .map(|end| match config.ends[end] {
                Some(_) => collected(&mut apart, &format!("e{end}")),
                None => Vec::new(),
            })
            .collect();
        let together = Config::of(&node, false);
        let mut rig = ran(&together.text, batch, &packets);
        for place in 0..3 {
            if !config.ends.contains(&Some(place)) {
                continue;
            }
            let found = collected(&mut rig, &format!("p{place}"));
            let mut count = 0;
            for (of, end) in config.ends.iter().zip(&ends) {
                if *of != Some(place) {
                    continue;
                }
                let these = found.iter().filter(|(paint, _)| end.iter().any(|(it, _)| it == paint));
                let these: Vec<_> = these.cloned().collect();
                prop_assert_eq!(&these, end);
                count += end.len();
            }
            prop_assert_eq!(count, found.len());
            if batch == 1 {
                prop_assert!(found.is_sorted_by_key(|(paint, _)| *paint));
            }
        }
        prop_assert_eq!(passed(&mut rig), passed(&mut apart));
        drop(apart);
        prop_assert_eq!(rig.outstanding(), 0);
    }
}

const TREE: &str = "i :: Inject -> Queue -> Unqueue(64) -> n0 :: Classifier(0/00, 0/01, 0/02);
    n0[0] -> n1 :: Classifier(1/00, 1/01 5/00, -);
    n0[1] -> n2 :: Classifier(1/00, 1/01);
    n0[2] -> p0 :: Collect;
    n1[0] -> p0; n1[1] -> n2; n1[2] -> p0; n2[0] -> p0; n2[1] -> p1 :: Collect;";

/// 60 bytes, all but two of them 0.
fn frame(first: u8, second: u8) -> Vec<u8> {
    let mut data = alloc::vec![0; 60];
    data[..2].copy_from_slice(&[first, second]);
    data
}

fn pairs() -> Vec<Given> {
    let pairs = (0..60u8).map(|n| frame(n % 4, n / 4 % 3));
    pairs.map(Given::Small).collect()
}

/// What of [`pairs`] comes to the places of [`TREE`], in order.
fn sorted() -> (Vec<u8>, Vec<u8>) {
    let place = |n: &u8| match (n % 4, n / 4 % 3) {
        (0, 1) | (1, 1) => 1,
        (0 | 2, _) | (1, 0) => 0,
        _ => 2,
    };
    let to = |which| (0..60).filter(|n| place(n) == which).collect();
    (to(0), to(1))
}

fn paints(rig: &mut Rig) -> (Vec<u8>, Vec<u8>) {
    let mut of = |place| {
        collected(rig, place)
            .into_iter()
            .map(|(paint, _)| paint)
            .collect()
    };
    (of("p0"), of("p1"))
}

#[test]
fn a_tree_parts_a_batch_once_and_each_output_counts() {
    // By whichever outputs packets came to a place, they are in order there.
    let mut rig = ran(TREE, 64, &pairs());
    assert_eq!(paints(&mut rig), sorted());
    let counts = passed(&mut rig);
    let counts: Vec<&str> = counts.values().map(String::as_str).collect();
    assert_eq!(counts, ["15", "15", "15", "5", "5", "5", "5", "10"]);
    assert_eq!(rig.outstanding(), 0);
}

#[test]
fn a_batch_with_a_short_packet_goes_from_element_to_element() {
    let mut packets = pairs();
    packets[7] = Given::Small([0, 1].into());
    let mut rig = ran(TREE, 64, &packets);
    let (p0, p1) = paints(&mut rig);
    assert!(p0.contains(&7), "it has no byte 5");
    let (all, _) = sorted();
    assert_eq!(p0.len(), all.len() + 1);
    assert!(!p0.is_sorted() && p1.len() == 10);
}

#[test]
fn patterns_that_are_written_count_in_trees() {
    let beside = "Idle -> ttl :: DecIPTTL -> Discard;";
    let mut rig = ran(&[TREE, beside].concat(), 64, &pairs());
    let before = paints(&mut rig);
    let send = |rig: &mut Rig| {
        rig.push_all("i", &[frame(0, 0), frame(0, 1)]);
        rig.run();
        let lasts = |data: Vec<Vec<u8>>| data.iter().map(|data| data[1]).collect::<Vec<u8>>();
        (lasts(rig.data("p0")), lasts(rig.data("p1")))
    };
    assert_eq!(before.1.len(), 10);
    assert_eq!(send(&mut rig), ([0].into(), [1].into()));
    // All is found anew, and the tree is as it was.
    rig.write("ttl.active", "false");
    assert_eq!(send(&mut rig), ([0].into(), [1].into()));
    rig.write("n1.config", "1/07, 1/00 5/00, -");
    assert_eq!(send(&mut rig), ([0, 1].into(), [].into()));
    rig.write("n2.config", "1/01, 1/00");
    assert_eq!(send(&mut rig), ([1].into(), [0].into()));
    rig.write("n0.config", "0/03, 0/04, -");
    assert_eq!(send(&mut rig), ([0, 1].into(), [].into()));
    let counts = passed(&mut rig);
    assert_eq!((&counts["n0\to2"][..], &counts["n2\to1"][..]), ("17", "13"));
}

#[test]
fn a_row_that_is_longer_than_a_tree_goes_on_behind_it() {
    let row = (0..40).map(|n| {
        let next = if n < 39 {
            format!("n{}", n + 1)
        } else {
            "p0".into()
        };
        format!(
            "n{n} :: Classifier({}/00, -); n{n}[0] -> {next}; n{n}[1] -> p0;",
            n % 24
        )
    });
    let row: Vec<String> = row.rev().collect();
    let config = format!(
        "p0 :: Collect; {} i :: Inject -> Queue -> Unqueue(64) -> n0;",
        row.concat()
    );
    let packet = |n: u8| {
        let mut data = frame(0, 0);
        data[usize::from(n)] = 1;
        Given::Small(data)
    };
    let packets: Vec<Given> = (0..30).map(packet).collect();
    let mut rig = ran(&config, 64, &packets);
    assert_eq!(collected(&mut rig, "p0").len(), 30);
    let counts = passed(&mut rig);
    for n in 0..40 {
        let (on, off) = if n < 24 { (29 - n, 1) } else { (6, 0) };
        assert_eq!(counts[&format!("n{n}\to0")], on.to_string(), "{n}");
        assert_eq!(counts[&format!("n{n}\to1")], off.to_string(), "{n}");
    }
}
