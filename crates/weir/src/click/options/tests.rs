use super::*;

fn read(arguments: &[&str]) -> Vec<Result<(Name, bool, String), String>> {
    let arguments = arguments.iter().map(OsString::from).collect();
    Options::new(&DRIVER, arguments, Quotes::Ascii)
        .map(|argument| match argument {
            Ok(Argument::Option {
                name,
                negated,
                value,
                ..
            }) => Ok((name, negated, value.text().into_string().unwrap())),
            Ok(Argument::Plain(text)) => Err(text.into_string().unwrap()),
            Err(BadOption(lines)) => Err(lines.join("|")),
        })
        .collect()
}

fn one(arguments: &[&str]) -> Result<(Name, bool, String), String> {
    let mut all = read(arguments);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn short_options_bundle_and_join_their_values() {
    let all = read(&["-qRha.b", "-h", "-c", "-e=x"]);
    let expected = [
        Ok((Name::Quit, false, String::new())),
        Ok((Name::AllowReconfigure, false, String::new())),
        Ok((Name::Handler, false, "a.b".into())),
        Ok((Name::Handler, false, "-c".into())),
        Ok((Name::Expression, false, "x".into())),
    ];
    assert_eq!(all, expected);
}

#[test]
fn long_options_may_be_shortened() {
    assert_eq!(one(&["--hand=x"]), Ok((Name::Handler, false, "x".into())));
    assert_eq!(one(&["--fil", "x"]), Ok((Name::File, false, "x".into())));
    let ambiguous = "option '--s' is ambiguous|(Possibilities are '--socket', '--simtime', \
                     and '--simulation-time'.)";
    assert_eq!(one(&["--s"]), Err(ambiguous.into()));
    assert_eq!(
        one(&["--unixs", "f"]),
        Ok((Name::UnixSocket, false, "f".into()))
    );
}

#[test]
fn no_turns_round_what_can_be() {
    assert_eq!(
        one(&["--no-warn"]),
        Ok((Name::Warnings, true, String::new()))
    );
    assert_eq!(
        one(&["--no-quit"]),
        Err("unrecognized option '--no-quit'".into())
    );
    assert_eq!(
        one(&["--no-no-allow"]),
        Ok((Name::AllowReconfigure, false, String::new()))
    );
}

#[test]
fn says_what_is_wrong() {
    let cases = [
        (&["--foo=3"][..], "unrecognized option '--foo=3'"),
        (&["-z"], "unrecognized option '-z'"),
        (&["-é"], "unrecognized option '-\\303'"),
        (&["-h"], "'-h' requires an argument"),
        (&["--quit=3"], "'--quit' can't take an argument"),
        (&["-jx"], "'-j' expects an integer, not 'x'"),
        (&["--si=a"], "'--simtime' expects a real number, not 'a'"),
    ];
    for (arguments, message) in cases {
        assert_eq!(read(arguments)[0], Err(message.into()));
    }
}

#[test]
fn plain_arguments() {
    assert_eq!(
        read(&["-", "--", "-q"]),
        [Err("-".into()), Err("-q".into())]
    );
}

#[test]
fn integers_as_in_c() {
    assert_eq!(integer("0x10"), Some(16));
    assert_eq!(integer("-010"), Some(-8));
    assert_eq!(integer("7"), Some(7));
    assert_eq!(integer(""), None);
    assert_eq!(integer("--7"), None);
}
