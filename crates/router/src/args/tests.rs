//! How arguments are handed out, with the messages of Click's userlevel driver.

use core::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

/// Runs `configure` on `config`; gives its result and the messages' texts.
fn run(
    config: &str,
    configure: impl FnOnce(&mut Args<'_>) -> Result<(), Failed>,
) -> (bool, Vec<String>) {
    let mut names = NameDatabase::new();
    let mut args = Args::from_config(config, &mut names, &NoElements, "e");
    let result = configure(&mut args);
    let texts = args.take_errors().into_iter().map(|m| m.text).collect();
    (result.is_ok(), texts)
}

/// As Click's Paint: `COLOR, [ANNO]`.
fn paint(config: &str) -> Result<(u8, u8), Vec<String>> {
    let (mut color, mut anno) = (
        0,
        Annotation {
            offset: 16,
            size: 1,
        },
    );
    let (ok, messages) = run(config, |args| {
        args.read()
            .mandatory_positional("COLOR", &mut color)
            .positional_with("ANNO", AnnoArg(1), &mut anno)
            .complete()
    });
    assert_eq!(ok, messages.is_empty());
    if ok {
        Ok((color, anno.offset))
    } else {
        Err(messages)
    }
}

#[test]
fn positions_and_keywords() {
    assert_eq!(paint("3"), Ok((3, 16)));
    assert_eq!(paint("3, 17"), Ok((3, 17)));
    assert_eq!(paint("3, ANNO 17"), Ok((3, 17)));
    assert_eq!(paint("ANNO 17, COLOR 3"), Ok((3, 17)));
    assert_eq!(paint("COLOR 3"), Ok((3, 16)));
    // The last of several with the same keyword counts.
    assert_eq!(paint("COLOR 3, COLOR 4"), Ok((4, 16)));
    assert_eq!(paint("3, COLOR 4"), Ok((4, 16)));
    // An empty argument leaves its parameter alone, even a mandatory one.
    assert_eq!(paint(", 17"), Ok((0, 17)));
}

#[test]
fn messages_of_click() {
    let error = |config: &str| paint(config).unwrap_err();
    assert_eq!(error(""), ["COLOR: required argument missing"]);
    assert_eq!(error("300"), ["COLOR: out of range, bound 255"]);
    assert_eq!(error("x"), ["COLOR: invalid number"]);
    assert_eq!(error("COLOR 3, 17"), ["too many arguments"]);
    assert_eq!(error("3, 17, 18"), ["too many arguments"]);
    assert_eq!(error("3, ANNO 57"), ["ANNO: parse error"]);
    assert_eq!(error("3, FOO 6"), ["FOO: unknown argument"]);
    // A mandatory parameter takes what looks like another's keyword.
    assert_eq!(error("FOO 6"), ["COLOR: invalid number"]);
    assert_eq!(
        error("x, BLAH, FOO 6, 7"),
        [
            "COLOR: invalid number",
            "ANNO: parse error",
            "FOO: unknown argument",
            "too many arguments"
        ]
    );
}

#[test]
fn nothing_is_stored_unless_all_is_well() {
    let (mut a, mut b) = (1u32, 2u32);
    let (ok, messages) = run("10, B x", |args| {
        args.read()
            .positional("A", &mut a)
            .keyword("B", &mut b)
            .complete()
    });
    assert_eq!((ok, a, b), (false, 1, 2));
    assert_eq!(messages, ["B: invalid number"]);
}

#[test]
fn optional_repeated_and_remaining_arguments() {
    let mut limit: Option<u32> = None;
    let (mut ports, mut rest): (Vec<u16>, Vec<String>) = (vec![9], Vec::new());
    let mut burst = 7u32;
    let (ok, _) = run("PORT 1, foo bar, PORT 2, \"x\"", |args| {
        args.read()
            .all("PORT", &mut ports)
            .keyword("LIMIT", &mut limit)
            .arg_or("BURST", Flags::KEYWORD, u32::parse, &mut burst, 5)
            .rest(&mut rest)
            .complete()
    });
    assert!(ok);
    assert_eq!((limit, ports, burst), (None, vec![1, 2], 5));
    assert_eq!(rest, ["foo bar", "\"x\""]);
}

#[test]
fn consuming_leaves_the_rest() {
    let mut names = NameDatabase::new();
    let mut args = Args::from_config("5, A 1, x y", &mut names, &NoElements, "e");
    let (mut first, mut a) = (0u8, 0u8);
    let consumed = args
        .read()
        .positional("FIRST", &mut first)
        .keyword("A", &mut a);
    assert_eq!(consumed.consume(), Ok(()));
    assert_eq!((first, a), (5, 1));
    assert_eq!(args.raw(), ["x y"]);
}

#[test]
fn all_takes_positional_arguments_in_order() {
    let mut values: Vec<u32> = Vec::new();
    let (ok, messages) = run("1, V 2, 3", |args| {
        args.read()
            .all_with("V", Flags::POSITIONAL, u32::parse, &mut values)
            .complete()
    });
    assert!(!ok);
    assert_eq!(messages, ["too many arguments"]);
    let (ok, _) = run("1, 2, V 3", |args| {
        args.read()
            .all_with("V", Flags::POSITIONAL, u32::parse, &mut values)
            .complete()
    });
    assert!(ok);
    assert_eq!(values, [1, 2, 3]);
}

#[test]
fn deprecated_arguments_draw_a_warning() {
    let mut names = NameDatabase::new();
    let mut args = Args::from_config("OLD 1", &mut names, &NoElements, "e");
    let mut old = 0u8;
    let read = args
        .read()
        .arg("OLD", Flags::DEPRECATED, u8::parse, &mut old);
    assert_eq!(read.complete(), Ok(()));
    let messages = args.take_errors();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].severity, Severity::Warning);
    assert_eq!(messages[0].to_string(), "OLD: warning: argument deprecated");
}

/// Parses `text` as everything there is.
fn parse_as_everything(text: &str) {
    let context = Context::blank();
    let _ = context.parse::<bool>(text);
    let _ = context.parse::<i8>(text);
    let _ = context.parse::<u64>(text);
    let _ = context.parse::<i64>(text);
    let _ = context.parse::<f64>(text);
    let _ = context.parse::<String>(text);
    let _ = context.parse::<Seconds>(text);
    let _ = context.parse::<Microseconds>(text);
    let _ = context.parse::<Bandwidth>(text);
    let _ = context.parse::<Timestamp>(text);
    let _ = context.parse::<Ipv4Addr>(text);
    let _ = context.parse::<Ipv4Prefix>(text);
    let _ = context.parse::<Vec<Ipv4Addr>>(text);
    let _ = context.parse::<Ipv6Addr>(text);
    let _ = context.parse::<Ipv6Prefix>(text);
    let _ = context.parse::<EtherAddress>(text);
    let _ = context.parse::<TcpPort>(text);
    let _ = context.parse::<Annotation>(text);
    let _ = context.parse::<ElementRef>(text);
    let _ = context.parse::<HandlerCall>(text);
    let _ = context.parse_with(FilenameArg, text);
    let _ = context.parse_with(FractionalSeconds, text);
    for bits in [0, 8, 31, 32] {
        let _: Result<u32, _> = FixedPoint { bits }.parse(text, &context);
        let _: Result<i32, _> = FixedPoint { bits }.parse(text, &context);
    }
    let _: Result<i32, _> = DecimalFixedPoint { digits: 9 }.parse(text, &context);
    for base in 0..40 {
        let _: Result<i64, _> = Int { base }.parse(text, &context);
    }
    let mut names = NameDatabase::new();
    names.add_system_protocols(text);
    names.add_system_services(text);
    let _ = names.define_addresses(text, &NoElements, text);
    let _ = names.define_ports(text, text);
    let _ = names.ip(text, text);
}

proptest! {
    #[test]
    fn no_text_panics(text in ".*") {
        parse_as_everything(&text);
    }

    #[test]
    fn no_number_panics(text in r"[-+0-9a-fxE._:/ smhdbBpsGMkn]{0,24}") {
        parse_as_everything(&text);
    }

    #[test]
    fn no_configuration_panics(config in r#"[A-Z0-9 ,"'\\<>/*\n]{0,40}"#) {
        let _ = paint(&config);
    }

    #[test]
    fn integers_read_back(a: i64, b: u64, c: i8) {
        let context = Context::blank();
        prop_assert_eq!(context.parse(&a.to_string()), Ok(a));
        prop_assert_eq!(context.parse(&alloc::format!("{b:#x}")), Ok(b));
        prop_assert_eq!(context.parse(&alloc::format!("0{b:o}")), Ok(b));
        prop_assert_eq!(context.parse(&c.to_string()), Ok(c));
    }

    #[test]
    fn floats_read_back(value in proptest::num::f64::NORMAL) {
        prop_assert_eq!(Context::blank().parse(&value.to_string()), Ok(value));
    }

    #[test]
    fn addresses_read_back(ether: [u8; 6], ip: u32, mask: u32, ip6: u128, length in 0u8..=128) {
        let context = Context::blank();
        let ether = EtherAddress(ether);
        prop_assert_eq!(context.parse(&ether.to_string()), Ok(ether));
        let prefix = Ipv4Prefix {
            address: Ipv4Addr::from_bits(ip),
            mask: Ipv4Addr::from_bits(mask),
        };
        prop_assert_eq!(context.parse(&prefix.address.to_string()), Ok(prefix.address));
        prop_assert_eq!(context.parse(&prefix.to_string()), Ok(prefix));
        for bits in [ip6, ip6 >> 64, ip6 >> 96, ip6 & !0xFFFF_FFFF_0000] {
            let prefix = Ipv6Prefix { address: Ipv6Addr::from_bits(bits), length };
            prop_assert_eq!(context.parse(&prefix.to_string()), Ok(prefix));
        }
    }

    #[test]
    fn bytes_read_back(bytes: Vec<u8>) {
        let quoted = click::config::quote(&bytes);
        prop_assert_eq!(Context::blank().parse(&quoted), Ok(bytes));
    }

    #[test]
    fn booleans_read_back(value: bool) {
        prop_assert_eq!(Context::blank().parse(unparse::boolean(value)), Ok(value));
    }
}

#[test]
fn an_argument_alone_needs_no_keyword() {
    let read = |config: &str| {
        let (mut offset, mut verbose) = (7, false);
        let (_, messages) = run(config, |args| {
            args.read()
                .keyword("VERBOSE", &mut verbose)
                .alone_or("OFFSET", Flags::KEYWORD, i32::parse, &mut offset, 0)
                .complete()
        });
        (offset, messages.concat())
    };
    assert_eq!(read(""), (0, String::new()));
    assert_eq!(read("VERBOSE true, 14"), (14, String::new()));
    assert_eq!(read("14, VERBOSE true"), (14, String::new()));
    assert_eq!(read("OFFSET 14"), (14, String::new()));
    assert_eq!(read("14, 15"), (7, "too many arguments".to_string()));
    assert_eq!(read("x"), (7, "too many arguments".to_string()));
    assert_eq!(read("FOO 1"), (7, "FOO: unknown argument".to_string()));
}
