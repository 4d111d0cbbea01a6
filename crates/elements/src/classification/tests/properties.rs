//! All forms of a program agree with its expressions, evaluated as they stand.

use super::*;
use crate::classification::decision::Graph;
use crate::classification::expression::{Expression, Op};
use crate::classification::headers::Area;
use crate::classification::instruction::{Layout, Test};
use crate::classification::ip_filter::parse_rules;
use crate::classification::rules::Rules;
use proptest::prelude::*;

/// Evaluates an expression operator by operator.
fn holds(expression: &Expression, layout: Layout, headers: &Headers<'_>) -> bool {
    let mut stack: Vec<bool> = Vec::new();
    for op in expression.ops() {
        let value = match *op {
            Op::Test(test) => test_holds(&test, layout, headers),
            Op::Compare(compare) => {
                let mask = compare.mask << compare.shift;
                let above = compare.above << compare.shift;
                match word(compare.offset, mask, layout, headers) {
                    Word::Whole(word) => word & mask > above,
                    Word::Missing => compare.short_yes,
                    // The bytes that are there may decide: that is up to the
                    // tests that the comparison stands for.
                    Word::Truncated => {
                        let mut alone = Expression::default();
                        alone.push_compare(compare);
                        let mut rules = Rules::new(layout);
                        rules.push(&alone, Some(0));
                        rules.matches(0, headers)
                    }
                }
            }
            Op::Not => !stack.pop().unwrap(),
            Op::And(n) => {
                let operands = stack.split_off(stack.len() - n as usize);
                operands.iter().all(|&b| b)
            }
            Op::Or(n) => {
                let operands = stack.split_off(stack.len() - n as usize);
                operands.iter().any(|&b| b)
            }
            Op::Ternary(n) => {
                let mut operands = &stack.split_off(stack.len() - n as usize)[..];
                loop {
                    match operands {
                        [condition, yes, rest @ ..] if !rest.is_empty() => {
                            if *condition {
                                break *yes;
                            }
                            operands = rest;
                        }
                        all => break all.iter().all(|&b| b),
                    }
                }
            }
        };
        stack.push(value);
    }
    assert_eq!(stack.len(), 1);
    stack[0]
}

enum Word {
    Whole(u32),
    Missing,
    Truncated,
}

/// The masked bytes of a word, the others zero.
fn word(offset: u16, mask: u32, layout: Layout, headers: &Headers<'_>) -> Word {
    let (area, at) = layout.locate(offset);
    let bytes: &[u8] = match area {
        Area::Front => headers.front,
        Area::Network => headers.network,
        Area::Transport => headers.network.get(headers.transport..).unwrap_or(&[]),
    };
    let wanted = |i: &usize| mask.to_be_bytes()[*i] != 0;
    let byte = |i: usize| bytes.get((at + i as i32) as usize).copied();
    let there = (0..4).filter(wanted).filter(|&i| byte(i).is_some()).count();
    if there == (0..4).filter(wanted).count() {
        let all = core::array::from_fn(|i| if wanted(&i) { byte(i).unwrap() } else { 0 });
        Word::Whole(u32::from_be_bytes(all))
    } else if there == 0 {
        Word::Missing
    } else {
        Word::Truncated
    }
}

fn test_holds(test: &Test, layout: Layout, headers: &Headers<'_>) -> bool {
    match word(test.offset, test.mask, layout, headers) {
        _ if test.mask == 0 => true,
        Word::Whole(word) => word & test.mask == test.value,
        _ => test.short_yes,
    }
}

fn expected(rules: &Rules, expressions: &[Expression], headers: &Headers<'_>) -> Option<usize> {
    let rule = (expressions.iter()).position(|e| holds(e, rules.layout, headers))?;
    rules.output(rule).map(|output| output as usize)
}

const FORMS: [Form; 5] = [
    Form::Constant,
    Form::Vectors,
    Form::ClassRows,
    Form::WideTables,
    Form::Linear,
];

/// Whole batches, single packets and what lies between say what single
/// packets do, with every instruction set.
fn check_batches(program: &mut Program, packets: &[Headers<'_>], wanted: &[Option<usize>]) {
    for level in simd::Level::all() {
        let mut program = program.clone().at_level(level);
        let cycled: Vec<_> = packets.iter().zip(wanted).cycle().take(64).collect();
        for size in [64, 17, 1] {
            for batch in cycled.chunks(size) {
                let form = program.form();
                let mut seen = 0u64;
                for &(output, bits) in program.classify_batch(batch.iter().map(|p| *p.0)) {
                    assert_eq!(seen & bits, 0, "{form:?} {level:?}");
                    seen |= bits;
                    for (i, (headers, wanted)) in batch.iter().enumerate() {
                        if bits >> i & 1 == 1 {
                            let output = (output != NO_OUTPUT).then_some(output as usize);
                            assert_eq!(output, **wanted, "{form:?} {level:?} {headers:?}");
                        }
                    }
                }
                assert_eq!(seen, u64::MAX >> (64 - batch.len()), "{form:?} {level:?}");
            }
        }
    }
}

fn check(
    rules: &Rules,
    expressions: &[Expression],
    packets: &[Headers<'_>],
    whole: impl Fn(&Headers<'_>) -> bool,
) {
    let chosen = Program::compile(rules.clone(), expressions);
    let mut programs: Vec<Program> = FORMS
        .iter()
        .filter_map(|&form| Program::compile_as(form, rules, expressions))
        .chain([chosen])
        .collect();
    let graph = Graph::plain(rules);
    let wanted: Vec<_> = packets
        .iter()
        .map(|p| expected(rules, expressions, p))
        .collect();
    for program in &mut programs {
        check_batches(program, packets, &wanted);
    }
    for (headers, wanted) in packets.iter().zip(wanted) {
        for program in &programs {
            let form = program.form();
            assert_eq!(program.classify(headers), wanted, "{form:?} {headers:?}");
        }
        // Simplification may treat packets that end inside a word differently.
        if whole(headers) {
            assert_eq!(graph.run(headers), wanted, "graph {headers:?}");
        }
    }
}

fn primitive() -> impl Strategy<Value = String> {
    let side = || {
        prop_oneof![
            Just(""),
            Just("src "),
            Just("dst "),
            Just("src or dst "),
            Just("src and dst ")
        ]
    };
    let relation = || {
        prop_oneof![
            Just(""),
            Just("!= "),
            Just("> "),
            Just("< "),
            Just(">= "),
            Just("<= ")
        ]
    };
    let number = || prop_oneof![Just(1u32), Just(80), Just(127), Just(255), 0u32..300];
    let hosts = prop_oneof![
        Just("host 10.0.0.1"),
        Just("host != 10.0.0.2"),
        Just("net 10.0.0.0/8"),
        Just("net 10.0.0.0/30"),
        Just("net 10.0.1.0 mask 255.0.255.0"),
        Just("host & 0.0.0.3 = 10.0.0.1"),
        Just("ether host 0:1:2:3:4:5"),
    ];
    let plain = prop_oneof![
        Just("tcp"),
        Just("udp"),
        Just("icmp"),
        Just("ip frag"),
        Just("ip unfrag"),
        Just("tcp opt syn"),
        Just("tcp opt ack"),
        Just("icmp type echo"),
        Just("ip ect"),
        Just("ip ce"),
        Just("true"),
        Just("false"),
        Just("transp"),
        Just("proto != tcpudp"),
    ];
    let field = prop_oneof![
        Just("ip ttl"),
        Just("ip tos"),
        Just("ip hl"),
        Just("ip dscp"),
        Just("icmp type"),
        Just("tcp win"),
        Just("ip[8:4]"),
        Just("ip[6:2]"),
        Just("tcp[0:4]"),
        Just("transp[1]"),
        Just("transp[2:2]"),
        Just("ip[10] & 5"),
        Just("transp[0:2] & 0x0ff0"),
        Just("ip[12:4] & 0x00ff00ff"),
    ];
    prop_oneof![
        (side(), hosts).prop_map(|(side, host)| format!("{side}{host}")),
        (
            side(),
            prop_oneof![Just(""), Just("tcp "), Just("udp ")],
            relation(),
            number()
        )
            .prop_map(|(side, proto, op, n)| format!("{side}{proto}port {op}{n}")),
        plain.prop_map(String::from),
        (field, relation(), 0u32..6).prop_map(|(field, op, n)| format!("{field} {op}{n}")),
    ]
}

fn pattern() -> impl Strategy<Value = String> {
    primitive().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 2..4).prop_map(|v| v.join(" and ")),
            proptest::collection::vec(inner.clone(), 2..4)
                .prop_map(|v| format!("({})", v.join(" or "))),
            inner.clone().prop_map(|e| format!("not ({e})")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
        ]
    })
}

prop_compose! {
    /// Frames whose fields often have the values that patterns name.
    fn frame()(
        mut bytes in proptest::collection::vec(
            prop_oneof![Just(0u8), Just(1), Just(80), 0u8..6, any::<u8>()], 14 + 20 + 24),
        protocol in prop_oneof![Just(6u8), Just(17), Just(1), any::<u8>()],
        fragment in prop_oneof![3 => Just(0u16), 1 => Just(0x2000), 1 => any::<u16>()],
        addresses in proptest::collection::vec(
            prop_oneof![Just(0x0a00_0001u32), Just(0x0a00_0002), Just(0x0a01_0102), any::<u32>()], 2),
        mac in any::<bool>(),
        length in prop_oneof![3 => Just(58usize), 1 => 14usize..58],
        header in prop_oneof![4 => Just(20usize), 1 => 20usize..64],
    ) -> (Vec<u8>, usize, bool) {
        if mac {
            bytes[6..12].copy_from_slice(&[0, 1, 2, 3, 4, 5]);
        }
        bytes[14 + 6..14 + 8].copy_from_slice(&fragment.to_be_bytes());
        bytes[14 + 9] = protocol;
        bytes[14 + 12..14 + 16].copy_from_slice(&addresses[0].to_be_bytes());
        bytes[14 + 16..14 + 20].copy_from_slice(&addresses[1].to_be_bytes());
        bytes.truncate(length);
        (bytes, header, mac)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn ip_programs_mean_their_patterns(
        patterns in proptest::collection::vec((0usize..4, pattern()), 1..12),
        frames in proptest::collection::vec(frame(), 24),
    ) {
        let actions = ["allow", "deny", "1", "2"];
        let rules: Vec<String> =
            patterns.iter().map(|(action, p)| format!("{} {p}", actions[*action])).collect();
        let parsed = parse_rules(&rules, 3, &ProtocolNames, false);
        prop_assert!(!parsed.diagnostics.has_errors(), "{}", parsed.diagnostics);
        let packets: Vec<Headers<'_>> = frames
            .iter()
            .map(|(bytes, header, mac)| {
                let headers = Headers::ip(&bytes[14..], *header);
                if *mac { headers.with_mac(bytes) } else { headers }
            })
            .collect();
        let whole = |p: &Headers<'_>| {
            p.network.len() == 44 && p.transport == 20 && !p.front.is_empty()
        };
        check(&parsed.rules, &parsed.expressions, &packets, whole);
    }

    #[test]
    fn classifiers_mean_their_patterns(
        patterns in proptest::collection::vec(proptest::collection::vec(
            (any::<bool>(), 0usize..14, "([01?][018?]){1,5}", proptest::option::of("[0f8]{10}")), 1..4), 1..10),
        align in 0u8..4,
        packets in proptest::collection::vec(
            proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0x10), Just(0x18), any::<u8>()], 0..24), 24),
    ) {
        let texts: Vec<String> = patterns.iter().map(|clauses| {
            let clauses: Vec<String> = clauses.iter().map(|(negated, offset, value, mask)| {
                let mask = mask.as_ref().map_or(String::new(), |m| format!("%{}", &m[..value.len()]));
                format!("{}{offset}/{value}{mask}", if *negated { "!" } else { "" })
            }).collect();
            clauses.join(" ")
        }).collect();
        let outputs: Vec<_> = (0..texts.len() as u32).map(Some).collect();
        let (rules, expressions) = crate::classification::classifier::parse(&texts, &outputs, align).unwrap();
        let packets: Vec<Headers<'_>> = packets.iter().map(|bytes| Headers::data(bytes)).collect();
        check(&rules, &expressions, &packets, |p| p.front.len() >= 20);
    }

    #[test]
    fn comparisons_compare(
        port in any::<u16>(), bound in any::<u16>(), masked in any::<u16>(), ttl: u8, tos: u8,
    ) {
        let mut packet = ip_packet(6, &[0; 20]);
        packet[20..22].copy_from_slice(&port.to_be_bytes());
        packet[8] = ttl;
        packet[1] = tos;
        let accepts = |rule: &str| {
            filter(&[rule], 1).classify(&Headers::ip(&packet, 20)) == Some(0)
        };
        for (op, holds) in [
            ("", port == bound), ("==", port == bound), ("!=", port != bound), (">", port > bound),
            ("<", port < bound), (">=", port >= bound), ("<=", port <= bound),
        ] {
            let rule = format!("allow src tcp port {op} {bound}");
            prop_assert_eq!(accepts(&rule), holds, "{}", rule);
        }
        if masked != 0 {
            let rule = format!("allow tcp[0:2] & {masked} > {}", bound & masked);
            prop_assert_eq!(accepts(&rule), port & masked > bound & masked, "{}", rule);
            let rule = format!("allow tcp[0:2] & {masked} > {bound}");
            prop_assert_eq!(accepts(&rule), port & masked > bound, "{}", rule);
        }
        let rule = format!("allow ip ttl >= {} and ip dscp {}", bound & 255, bound & 63);
        prop_assert_eq!(accepts(&rule), u16::from(ttl) >= bound & 255 && u16::from(tos >> 2) == bound & 63);
    }

    #[test]
    fn any_text_compiles_or_is_refused(
        soup in proptest::collection::vec(prop_oneof![
            Just("("), Just(")"), Just("not"), Just("and"), Just("or"), Just("?"), Just(":"), Just("["), Just("]"),
            Just("&"), Just("&&"), Just("!="), Just("<"), Just("src"), Just("dst"), Just("port"), Just("host"),
            Just("net"), Just("ip"), Just("tcp"), Just("transp"), Just("ether"), Just("proto"), Just("opt"),
            Just("5"), Just("-1"), Just("0xffffffff"), Just("1:2:3:4:5:6"), Just("10.0.0.1"), Just("10.0.0.0/8"),
            Just("mask"), Just("syn"), Just("echo"), Just("ttl"), Just("frag"), Just("true"), Just("\u{fc}"),
        ], 0..24),
        text in ".{0,80}",
        digits in "[0-9/%?!a-f ]{0,40}",
    ) {
        let soup = format!("allow {}", soup.join(" "));
        for rule in [&soup[..], &text] {
            if let Ok(compiled) = ip_filter(&[rule, "1 tcp"], 2, &ProtocolNames) {
                compiled.program.classify(&Headers::ip(&[0; 40], 20));
                compiled.program.text();
            }
            let _ = ip_classifier(&[rule], &ProtocolNames);
        }
        let _ = classifier(&[&digits, &text], 0);
    }
}

/// Hundreds of rules over few values, so that many overlap and the first one
/// to match is rarely the only one.
#[test]
fn large_rule_sets_keep_their_order() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    };
    let mut rules = Vec::new();
    for _ in 0..1500 {
        let action = ["allow", "deny", "1", "2"][below(4) as usize];
        let mut rule = String::from(action);
        match below(4) {
            0 => rule += &format!(" src host 10.0.{}.{}", below(3), below(40)),
            1 => rule += &format!(" src net 10.0.{}.{}/30", below(3), below(40)),
            _ => {}
        }
        match below(4) {
            0 | 1 => rule += &format!(" dst host 10.{}.0.{}", below(3), below(60)),
            2 => rule += &format!(" dst net 10.{}.0.{}/29", below(3), below(60)),
            _ => rule += " ip ttl 77",
        }
        rule += match below(3) {
            0 => " tcp",
            1 => " udp",
            _ => " true",
        };
        rule += &match below(4) {
            0 => format!(" dst port {}", below(30)),
            1 => format!(" port >= {}", 60_000 + below(500)),
            2 => format!(" ip[8:4] & 0x00ff0001 > {}", below(70_000)),
            _ => String::new(),
        };
        rules.push(rule);
    }
    let parsed = parse_rules(&rules, 3, &ProtocolNames, false);
    assert!(!parsed.diagnostics.has_errors(), "{}", parsed.diagnostics);
    let program = Program::compile(parsed.rules.clone(), &parsed.expressions);
    assert_eq!(program.form(), Form::ClassRows);
    let wide = Program::compile_as(Form::WideTables, &parsed.rules, &parsed.expressions).unwrap();
    let mut programs = [program, wide];
    let (mut packets, mut answers) = (Vec::new(), Vec::new());
    let mut decided = 0;
    for _ in 0..3000 {
        let mut packet = ip_packet([6, 17, 1][below(3) as usize], &[0; 12]);
        packet[8] = [64, 77][usize::from(below(8) == 0)];
        packet[11] = below(2) as u8;
        packet[12..16].copy_from_slice(&[10, 0, below(3) as u8, below(40) as u8]);
        packet[16..20].copy_from_slice(&[10, below(3) as u8, 0, below(60) as u8]);
        packet[20..22].copy_from_slice(&(59_900 + below(600) as u16).to_be_bytes());
        packet[22..24].copy_from_slice(&(below(31) as u16).to_be_bytes());
        packet.truncate([32, 32, 32, 22, 23, 20][below(6) as usize]);
        let headers = Headers::ip(&packet, 20);
        let wanted = parsed
            .rules
            .classify(&headers)
            .map(|output| output as usize);
        for program in &programs {
            assert_eq!(program.classify(&headers), wanted, "{packet:?}");
        }
        decided += usize::from(wanted.is_some());
        packets.push(packet);
        answers.push(wanted);
    }
    let headers: Vec<_> = packets
        .iter()
        .map(|packet| Headers::ip(packet, 20))
        .collect();
    for program in &mut programs {
        for (packets, wanted) in headers.chunks(64).zip(answers.chunks(64)).step_by(5) {
            check_batches(program, packets, wanted);
        }
    }
    assert!((500..2900).contains(&decided), "{decided}");
}
