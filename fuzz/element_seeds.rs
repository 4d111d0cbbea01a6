//! Seeds and words for the fuzz target `elements`, from the examples and arguments on the elements'
//! pages: `rustc element_seeds.rs`, then `element_seeds ../docs/elements seeds/elements
//! elements.dict`. Each example is a seed as a whole, and so is each element in it, pushed and
//! pulled.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs, io};

/// Configurations for what examples don't show: packets pushed into elements that refer to others.
const WHOLE: &[(&str, &str)] = &[
    (
        "arp",
        "i0 :: Inject -> SetIPAddress(18.26.4.1) -> a :: ARPQuerier(18.26.4.24/24, 2:0:0:0:0:1, TABLE t);
         t :: ARPTable(CAPACITY 9); i1 :: Inject -> [1] a; a -> Collect",
    ),
    (
        "rewriters",
        "i0 :: Inject -> CheckIPHeader -> [0] r :: IPRewriter(pattern 1.0.0.1 1024-1030 - - 0 1, drop);
         i1 :: Inject -> CheckIPHeader -> [1] r; r [0] -> Collect; r [1] -> Collect;
         i2 :: Inject -> CheckIPHeader -> e :: ICMPRewriter(r) -> Collect",
    ),
    (
        "mapper",
        "i0 :: Inject -> CheckIPHeader -> r :: IPRewriter(m) -> Collect;
         m :: RoundRobinIPMapper(- - 1.0.0.2 - 0 0, - - 1.0.0.3 - 0 0)",
    ),
    (
        "ftp",
        "i0 :: Inject -> CheckIPHeader -> FTPPortMapper(r, r, 0)
         -> r :: TCPRewriter(pattern 1.0.0.1 9000-14000 - - 0 1, drop) -> Collect; r [1] -> Collect",
    ),
    (
        "schedulers",
        "i0 :: Inject -> Queue(9) -> [0] s :: StrideSched(1, 2); i1 :: Inject -> Queue(9) -> [1] s;
         s -> t :: PullTee -> Puller; t [1] -> Collect",
    ),
    (
        "drr",
        "i0 :: Inject -> Queue(9) -> [0] s :: DRRSched; i1 :: Inject -> Queue(9) -> RED(1, 5, 0.5) -> [1] s;
         s -> Shaper(100) -> Unqueue(2) -> Collect",
    ),
    (
        "ipsec",
        "i0 :: Inject -> CheckIPHeader -> r :: RadixIPsecLookup(0/0 0, 10/8 1 234
         \\<0123456789abcdef0123456789abcdef> \\<00112233445566778899aabbccddeeff> 1 64);
         r [0] -> Collect; r [1] -> IPsecESPEncap(BLOCK 16) -> IPsecAuthHMACSHA1(0)
         -> IPsecAES(1, IGNORE 12, BLOCK 16) -> IPsecEncap(50) -> Collect",
    ),
    (
        "span",
        "i0 :: Inject -> [0] s :: EtherSwitch; i1 :: Inject -> [1] s; s [0] -> Collect; s [1] -> Collect",
    ),
    (
        "clipboard",
        "i0 :: Inject -> [0] c :: Clipboard(0/4); i1 :: Inject -> [1] c; c [0] -> Collect; c [1] -> Collect",
    ),
    (
        "tcp",
        "i0 :: Inject -> CheckIPHeader -> [0] t :: TCPBuffer(SKIP true) -> Puller",
    ),
    (
        "netfront",
        "FromNetfront(eth0) -> EtherMirror -> Queue -> ToNetfront(eth1)",
    ),
    (
        "tcp_ack",
        "i0 :: Inject -> CheckIPHeader -> [0] a :: TCPAck [0] -> TCPBuffer -> Unqueue -> Collect;
         i1 :: Inject -> CheckIPHeader -> [1] a [1] -> Collect; a [2] -> Collect",
    ),
    (
        "tcp_conn",
        "i0 :: Inject -> CheckIPHeader -> TCPDemux -> [0] c :: TCPConn [0] -> Collect;
         i1 :: Inject -> Queue(9) -> [1] c [1] -> Puller; c [2] -> Collect",
    ),
    (
        "icmp_error",
        "i0 :: Inject -> CheckIPHeader -> ICMPError(18.26.4.24, timeexceeded) -> Collect;
         i1 :: Inject -> CheckIPHeader -> IPFragmenter(68) -> IPReassembler -> Collect",
    ),
];

/// Numbers at which something ends.
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "255",
    "65535",
    "65536",
    "2147483647",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "0.000000001",
    "1e300",
];

/// What is done to a router with ports: packets of all kinds, batches, pulls, handlers read and
/// written, time, a swap.
fn operations() -> Vec<u8> {
    let mut all = vec![0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 1, 100, 0, 0];
    for kind in 2..16 {
        for link in [0x00, 0x10] {
            // What to do, where, kind, addresses, ports, flags, payload, marks.
            all.extend([
                0,
                kind,
                kind | link,
                kind,
                2,
                0x12,
                2,
                4,
                b'G',
                b'E',
                b'T',
                b'\n',
                4,
            ]);
        }
        all.extend([
            11,
            kind & 1,
            kind | 0x10,
            kind,
            2,
            0x12,
            2,
            2,
            b'o',
            b'k',
            0,
        ]);
        all.extend([2, 5, kind, kind, 1, 2, 0, 18, 0, 0]);
        all.extend([12, kind & 1, 200, 8, 9, 4, kind, 7]);
    }
    all.extend([7, 200, 20, 14]);
    for handler in 0..6 {
        all.extend([
            5, 0, handler, 1, b'1', 6, 0, handler, 1, b'1', 10, 0, 2, b'1', b'0',
        ]);
    }
    all.extend([13, 0, 0, 1, 0, 0, 0, 9, 0, 7, 250, 30, 3, 0, 0, 14]);
    all
}

/// As `operations`, shorter, with handlers written to the ends of what numbers can be.
fn extremes() -> Vec<u8> {
    let mut all = Vec::new();
    for (round, number) in NUMBERS.iter().enumerate() {
        for handler in 0..8 {
            all.extend([6, 0, handler, number.len() as u8]);
            all.extend(number.bytes());
        }
        let kind = 2 + round as u8;
        all.extend([2, 3, 0, kind, kind, 2, 0x12, 2, 3, b'a', b'b', b'c', 4]);
        all.extend([
            2,
            3,
            1,
            kind | 0x10,
            2,
            kind,
            0x12,
            2,
            0,
            0x1c,
            11,
            0,
            14,
            20,
            4,
        ]);
        all.extend([0xff, 0x80, 0x7f, 0xff, 4, 0, 9, 7, 200, round as u8 * 5, 14]);
    }
    all
}

/// The names of the keyword arguments on a page.
fn keywords(page: &str) -> impl Iterator<Item = &str> {
    let arguments = page
        .split_once("\n## Arguments\n")
        .map_or("", |(_, rest)| rest);
    let arguments = arguments.split("\n## ").next().unwrap_or_default();
    let items = arguments
        .lines()
        .filter_map(|line| line.strip_prefix("- `"));
    let names = items.flat_map(|item| item.split(" (").next().unwrap_or_default().split('`'));
    let is_keyword = |name: &&str| {
        name.len() > 1
            && name
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b"_0123456789".contains(&b))
    };
    names.filter(is_keyword)
}

/// The text of the example on a page.
fn example(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once("\n## Example\n")?;
    let (_, rest) = rest.split_once("```click\n")?;
    Some(rest.split_once("```")?.0.trim())
}

/// Where the parenthesis that opens `text` is closed.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// `Class(arguments)` for every element of a class in `classes`.
fn elements(text: &str, classes: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        rest = &rest[start..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if classes.contains(word) {
            let arguments = match after.starts_with('(') {
                true => closing(after).map_or("()", |end| &after[..=end]),
                false => "()",
            };
            found.insert(format!("{word}{arguments}"));
        }
        rest = after;
    }
    found
}

/// The names of arguments on a page, and its class.
fn words(page: &str) -> BTreeSet<String> {
    let quoted = page.split('`').skip(1).step_by(2);
    let is_word = |text: &&str| {
        (2..=32).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    quoted.filter(is_word).map(str::to_owned).collect()
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [pages, seeds, dictionary] = arguments.as_slice() else {
        return Err(io::Error::other(
            "give the pages' folder, the seeds' and the dictionary",
        ));
    };
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(pages)? {
        let path = entry?.path();
        if let Some(name) = path.file_stem().and_then(|name| name.to_str()) {
            texts.insert(name.to_owned(), fs::read_to_string(&path)?);
        }
    }
    texts.remove("README");
    let classes: BTreeSet<String> = texts.keys().cloned().collect();
    let mut all: BTreeSet<String> = classes.clone();
    let mut single = BTreeSet::new();
    fs::create_dir_all(seeds)?;
    let (operations, extremes) = (operations(), extremes());
    let write_with = |name: &str, text: &str, choices: u8, operations: &[u8]| {
        let seed = [text.as_bytes(), &[0, choices], operations].concat();
        fs::write(Path::new(seeds).join(name), seed)
    };
    let write = |name: &str, text: &str, choices: u8| write_with(name, text, choices, &operations);
    for (class, page) in &texts {
        all.extend(words(page));
        single.insert(format!("{class}()"));
        if let Some(example) = example(page) {
            single.extend(elements(example, &classes));
            if example.contains("->") || example.contains(" :: ") {
                write(&format!("{class}-example"), example, 0)?;
            }
        }
    }
    for (name, text) in WHOLE {
        write(&format!("whole-{name}"), text, 0)?;
    }
    // Each argument once, with the numbers in turns.
    let mut numbers = NUMBERS.iter().cycle();
    for (class, page) in &texts {
        let shown = single.iter().find(|text| {
            let arguments = text.strip_prefix(class.as_str());
            arguments.is_some_and(|arguments| arguments.starts_with('(') && arguments != "()")
        });
        let text = shown.cloned().unwrap_or_else(|| format!("{class}()"));
        write_with(&format!("{class}-extremes"), &text, 5, &extremes)?;
        for (keyword, number) in keywords(page).zip(&mut numbers) {
            let open = text.strip_suffix(')').unwrap_or(&text);
            let comma = if open.ends_with('(') { "" } else { ", " };
            let text = format!("{open}{comma}{keyword} {number})");
            write_with(&format!("{class}-{keyword}"), &text, 5, &extremes)?;
        }
    }
    for (number, text) in single.iter().enumerate() {
        let class = text.split('(').next().unwrap_or_default();
        write(&format!("{class}-{number}-push"), text, 5)?;
        write(&format!("{class}-{number}-pull"), text, 0x30)?;
    }
    all.extend(NUMBERS.iter().map(|number| number.to_string()));
    let lines: Vec<String> = all.iter().map(|word| format!("\"{word}\"\n")).collect();
    fs::write(dictionary, lines.concat())
}
