use crate::testing::*;

/// What `Script(instructions)` prints on standard output, and then to the log, within a second.
fn run(instructions: &str) -> String {
    let mut rig = Rig::new(&format!(
        "s :: Script({instructions}); c :: Counter; Idle -> c -> Idle;
         p :: Script(TYPE PASSIVE, returnq \"$# $1 $args\"); w :: Switch; Idle -> w -> Idle;"
    ));
    rig.advance(1000 * MS);
    text(&mut rig)
}

fn text(rig: &mut Rig) -> String {
    let mut text = String::new();
    for line in rig.printed() {
        text += &line;
        if !line.ends_with('\n') && !line.is_empty() {
            text += "|\n";
        }
    }
    text
}

#[test]
fn variables_and_handlers_are_put_in() {
    for (script, expected) in [
        ("set x 3, print $x", "3\n"),
        ("set x $(add 1 2), print \"$x = $(add 1 $x)\"", "3 = 4\n"),
        ("print '$x'", "$x\n"),
        ("print $nosuch", "$nosuch\n"),
        ("print c.count", "0\n"),
        ("set x c.count, print $x, print $($x)", "c.count\n0\n"),
        ("set i add, print $($i 3 4)", "7\n"),
        ("print $(p.run a b c)", "3 a a b c\n"),
        ("set x \"a b\", print $x", "\"a b\"\n"),
        ("setq x \"a b\", print $x", "a b\n"),
        ("init x 5, print $x, set x 6", "5\n"),
        ("print $?, write w.switch 0, print $?", "0\n0\n"),
        ("print class", "Script\n"),
        ("print version", "2.1\n"),
    ] {
        assert_eq!(run(script), expected, "{script}");
    }
}

#[test]
fn a_parameter_is_refused_where_none_is_expected() {
    for name in ["now", "s.now", "name", "s.config", "x", "s.x"] {
        let (_, own) = name.rsplit_once('.').unwrap_or(("", name));
        let printed = run(&format!("export x 3, print $({name} 1)"));
        let error = format!("read handler ‘s.{own}’ does not take parameters");
        let expected = format!("While executing ‘s :: Script’:|\n  {error}|\n$({name} 1)|\n");
        assert_eq!(printed, expected, "{name}");
    }
}

#[test]
fn a_condition_that_failed_in_part_counts_as_what_came_of_it() {
    for (condition, error, jumps) in [
        ("$(nosuch)", "bad condition ‘$(nosuch)’", false),
        ("$(if true 21 $(if b))", "bad condition ‘21’", false),
        ("$(if true 1 $(if b))", "syntax error", true),
    ] {
        let printed = run(&format!(
            "goto x {condition}, print \"1\", label x, print \"2\""
        ));
        assert!(printed.contains(error), "{printed}");
        assert_eq!(printed.contains("1\n2\n"), !jumps, "{printed}");
    }
}

#[test]
fn a_script_that_runs_by_itself_may_call_itself() {
    let mut rig = Rig::new(
        "s :: Script(TYPE PASSIVE, print \"$0 $# $1 $write\", wait 1s, goto e $(eq $# 2),
            write s.run x y, print here, label e, end);",
    );
    rig.write("s.run", "a b c");
    rig.advance(1500 * MS);
    // The timer's run calls the script, which runs to its wait; then the timer's goes on behind that.
    assert_eq!(text(&mut rig), "run 3 a true\nrun 2 x true\n");
    rig.advance(1000 * MS);
    assert_eq!(text(&mut rig), "");
}

#[test]
fn values_are_bytes() {
    for (script, expected) in [
        ("print \"\\<e9>\u{efff}\"", "\u{efe9}\u{efff}\n"),
        (
            "setq x \"\\<e9>\", print $x, print \"$x\"",
            "\u{efe9}\n\u{efe9}\n",
        ),
        ("print $(length é\u{efff})", "3\n"),
        // A character in two pieces.
        (
            "set x \u{efc3}, set y \u{efa9}, print $(eq $x$y é)",
            "true\n",
        ),
        ("set x \u{efc3}, set y \u{efa9}, print $x$y", "é\n"),
        ("print $(in \u{efe9} a \"\\<e9>\")", "true\n"),
    ] {
        assert_eq!(run(script), expected, "{script}");
    }
}

/// The numbers are what Click's handlers return.
#[test]
fn a_failed_write_leaves_its_number() {
    let elements = "Idle -> cl :: Classifier(-, -); cl[0] -> d :: Discard; cl[1] -> d;
        Idle -> ip :: IPClassifier(tcp, -); ip[0] -> d; ip[1] -> d;
        Idle -> r6 :: LookupIP6Route(3ffe::/16 0) -> d;
        Idle -> ar :: ARPResponder(1.0.0.1 1:1:1:1:1:1) -> d;
        Idle -> rw :: IPRewriter(drop) -> d;
        Idle -> rd :: RED(1, 5, 0.5) -> Queue -> Unqueue -> d;
        Idle -> rt :: RadixIPLookup(1/8 0) -> d;";
    for (write, number) in [
        ("cl.config -", -22),
        ("cl.config \"-, 5\"", -1),
        ("ip.config tcp", -22),
        ("ip.pattern0 foo", -1),
        ("r6.add x", -22),
        ("r6.remove x", -22),
        ("ar.add x", -1),
        ("rw.capacity x", -1),
        ("rd.max_p 2", -1),
        ("rd.config \"5, 1, 0\"", -1),
        ("rt.add 1/8 0", -17),
        ("rt.remove 2/8", -2),
    ] {
        let script = format!("s :: Script(writeq {write}, print $?); {elements}");
        let mut rig = Rig::new(&script);
        rig.run();
        assert_eq!(
            rig.printed().last(),
            Some(&format!("{number}\n")),
            "{write}"
        );
    }
}

#[test]
fn printing_adds_line_ends_where_there_are_none() {
    for (script, expected) in [
        ("print", "\n"),
        (
            "print a.b",
            "While executing 's :: Script':|\n  no element named 'a'|\n",
        ),
        ("print \"a\\n\"", "a\n"),
        ("printn \"a\", printn 5, print", "a|\n5|\n\n"),
        ("print '\"c.count\"'", "\"c.count\"\n"),
        ("read c.count", "c.count:\n0|\n"),
        ("read c.config", "c.config:\n\n"),
        ("readq length \"\\<0a 09 01>\"", "s.length:\n3|\n"),
        ("read length \"a\"", "s.length:\n3|\n"),
    ] {
        let printed = run(script).replace(['‘', '’'], "'");
        assert_eq!(printed, expected, "{script}");
    }
    // The value's last line is ended, and an empty one follows.
    assert!(run("read c.ports").ends_with("\n\n"));
}

#[test]
fn jumps_labels_and_conditions() {
    let count =
        "set x 0, label again, print $x, set x $(add $x 1), goto again $(lt $x 3), print end";
    assert_eq!(
        run(&count.replace("print end", "print \"end\"")),
        "0\n1\n2\nend\n"
    );
    assert_eq!(run("goto end, print 1"), "");
    assert_eq!(run("goto end false, print 1"), "1\n");
    assert_eq!(
        run("init x 0, set x $(add $x 1), goto exit $(eq $x 3), print $x, loop"),
        "1\n2\n"
    );
    let bad = run("goto end maybe, print 1").replace(['‘', '’'], "'");
    assert!(bad.contains("bad condition 'maybe'|\n1\n"), "{bad}");
    assert_eq!(
        run("label a, goto a"),
        "s :: Script: too many jumps, giving up|\n"
    );
    assert_eq!(run("goto error $(gt 2 1), print 1"), "");
}

#[test]
fn waiting_takes_its_time() {
    let mut rig = Rig::new("s :: Script(print 1, wait 20ms, print 2, wait 0.03, print 3);");
    rig.run();
    assert_eq!(text(&mut rig), "1\n");
    rig.advance(19 * MS);
    assert_eq!(text(&mut rig), "");
    rig.advance(MS);
    assert_eq!(text(&mut rig), "2\n");
    rig.write("s.step", "");
    assert_eq!(text(&mut rig), "3\n");
    let mut rig = Rig::new("s :: Script(wait soon, print 1);");
    rig.run();
    assert!(text(&mut rig).contains("syntax error at"));
}

#[test]
fn pauses_take_steps() {
    let mut rig = Rig::new("s :: Script(pause, print 1, pause 2, print 2, wait, print 3);");
    rig.run();
    assert_eq!(text(&mut rig), "");
    rig.write("s.step", "");
    assert_eq!(text(&mut rig), "1\n");
    rig.write("s.step", "1");
    assert_eq!(text(&mut rig), "");
    rig.write("s.step", "2");
    assert_eq!(text(&mut rig), "2\n3\n");
    rig.write("s.goto", "begin");
    rig.write("s.step", "4");
    assert_eq!(text(&mut rig), "1\n2\n3\n");
    assert!(rig.try_write("s.goto", "nowhere").is_err());
    assert!(rig.try_write("s.step", "x").is_err());
}

#[test]
fn a_script_may_call_itself() {
    let script = "set x 0, label again, set x $(s.add $x 1), print $x, goto end $(eq $x 3),
        write s.goto again";
    assert_eq!(run(script), "1\n2\n3\n");
    assert_eq!(
        run("write s.step 2, pause, print 1, pause, print 2, pause, print 3"),
        "1\n2\n"
    );
    assert_eq!(
        run("write set x 5, print $(get x), print $(shift x), print \"<$x>\""),
        "5\n5\n<>\n"
    );
    let endless = run("set x $(run)");
    assert!(endless.contains("too many jumps"), "{endless}");
}

#[test]
fn passive_scripts_return_values() {
    let config = "s :: Script(TYPE PASSIVE, goto two $(eq $# 2), return one, label two,
            returnq \"$2 $1\");
        e :: Script(TYPE PASSIVE, error wrong);
        d :: Script(set v 1, wait 1s, print d.get v);";
    let mut rig = Rig::new(config);
    let id = rig.router.find("s");
    assert_eq!(rig.router.read(id, "run", "a").as_deref(), Ok("one"));
    assert_eq!(rig.router.read(id, "run", "a b").as_deref(), Ok("b a"));
    let wrong = || HandlerError::failed(FailureKind::Failed, "wrong");
    assert_eq!(rig.try_read("e.run"), Err(wrong()));
    assert_eq!(rig.try_write("e.run", ""), Err(wrong()));
    rig.advance(1000 * MS);
    assert_eq!(text(&mut rig), "1\n");
}

/// As in Click.
#[test]
fn the_end_of_a_call_ends_what_says_how_a_script_was_called() {
    let config = "s :: Script(TYPE PASSIVE, print \"$0 $args $write\", goto in $(eq $args in),
            write t.run, write s.run in, print \"after $0 $args $write\", label in);
        t :: Script(TYPE PASSIVE, print \"$0 $args\");
        Script(write s.run out);";
    let mut rig = Rig::new(config);
    rig.advance(MS);
    assert_eq!(text(&mut rig), "run out true\nrun \n in false\n");
    let config = "d :: Script(TYPE DRIVER, print \"$0 $write\", write s.run x, print \"$0\", stop);
        s :: Script(TYPE PASSIVE, print \"$0 $args\", stop, label z, print \"$0 <$args>\");";
    let mut rig = Rig::new(config);
    rig.run();
    assert_eq!(text(&mut rig), "step true\nrun x\nstep\n");
    rig.write("s.goto", "z");
    assert_eq!(text(&mut rig), "goto <>\n");
}

#[test]
fn exported_variables_are_handlers() {
    let config = "s :: Script(TYPE PASSIVE, export n 0, exportq m \"x y\", set n $(add $n 1));";
    let mut rig = Rig::new(config);
    rig.assert_handlers(&[("s.n", "0"), ("s.m", "x y")]);
    rig.write("s.run", "");
    rig.write("s.run", "");
    assert_eq!(rig.read("s.n"), "2");
    assert!(rig.read("s.handlers").contains("n\tr\n"));
}

#[test]
fn proxies_answer_to_any_handler() {
    let config = "s :: Script(TYPE PROXY, goto nota $(ne $0 a), returnq \"a $write <$args>\",
            label nota, error bad handler);
        t :: Script(print s.a, print $(s.a 7), write s.a, print $?, print s.b);";
    let mut rig = Rig::new(config);
    rig.advance(MS);
    let printed = text(&mut rig).replace(['‘', '’'], "'");
    let expected = "a false <>\na false <7>\n0\n\
        While executing 't :: Script':|\n  While calling 's.b':|\n    bad handler|\n";
    assert_eq!(printed, expected);
    assert_eq!(rig.read("s.class"), "Script");
    let handlers = rig.read("s.handlers");
    let starts = "*\tw\nshift\tr+\nset\tw\nget\tr+\nntohl\tr+\n";
    assert!(handlers.starts_with(starts), "{handlers}");
    assert!(rig.try_read("s.*").is_err());
}

#[test]
fn packet_scripts_choose_outputs() {
    for batch in [1, 64] {
        let config = "i :: Inject -> s :: Script(init n 0, set j $n, set n $(sub 1 $n),
                goto exit $(eq $input 1), return $j);
            j :: Inject -> [1] s; s[0] -> a :: Collect; s[1] -> b :: Collect;
            k :: Inject -> Script -> c :: Collect; l :: Inject -> Script(return 9) -> c;";
        let mut rig = Rig::with_batch(config, batch);
        rig.push_all("i", &[1, 2, 3, 4].map(|n| alloc::vec![n]));
        rig.push("j", &[5]);
        rig.push("i", &[6]);
        assert_eq!(rig.data("a"), [[1], [3]]);
        assert_eq!(rig.data("b"), [[2], [4], [6]]);
        rig.push("k", &[7]);
        rig.push("l", &[8]);
        assert_eq!(rig.data("c"), [[7]]);
        assert_eq!(rig.outstanding(), 0);
    }
}

#[test]
fn packet_scripts_can_be_pulled_through() {
    let config = "i :: Inject -> Queue -> s :: Script(init n 0, set j $n, set n $(sub 1 $n),
            return $j) -> p :: Puller; s[1] -> b :: Collect;";
    let mut rig = Rig::new(config);
    rig.push_all("i", &[1, 2, 3].map(|n| alloc::vec![n]));
    let pulled: Vec<u8> = rig.pull("p", 9).iter().map(|p| p.data()[0]).collect();
    assert_eq!(pulled, [1, 3]);
    assert_eq!(rig.data("b"), [[2]]);
}

#[test]
fn a_driver_script_decides_when_to_stop() {
    let config = "s :: InfiniteSource(LIMIT 3, STOP true) -> c :: Counter -> Discard;
        DriverManager(print \"go\", pause, print c.count, wait 10ms, print \"more\", stop);";
    let mut rig = Rig::new(config);
    assert_ne!(rig.run(), Status::Stopped);
    assert_eq!(text(&mut rig), "go\n3\n");
    rig.advance(9 * MS);
    assert_eq!(text(&mut rig), "");
    rig.advance(MS);
    assert_eq!(rig.run(), Status::Stopped);
    assert_eq!(text(&mut rig), "more\n");
}

#[test]
fn a_driver_script_without_instructions_stops_when_asked() {
    let mut rig = Rig::new("DriverManager; s :: Script(wait 5ms, stop);");
    assert_ne!(rig.run(), Status::Stopped);
    rig.advance(6 * MS);
    assert_eq!(rig.run(), Status::Stopped);
}

#[test]
fn the_end_of_a_driver_script_stops_the_router() {
    let mut rig = Rig::new("DriverManager(wait 0.1s, print 1)");
    rig.advance(99 * MS);
    assert_ne!(rig.run(), Status::Stopped);
    rig.advance(2 * MS);
    assert_eq!(rig.run(), Status::Stopped);
    assert_eq!(text(&mut rig), "1\n");
    let mut rig = Rig::new("DriverManager(end)");
    assert_eq!(rig.run(), Status::Stopped);
}

#[test]
fn calculations() {
    for (call, expected) in [
        ("add 1 2 3", "6"),
        ("add", "0"),
        ("add 1.5 2", "3.5"),
        ("add 0x10 1", "17"),
        ("sub 10 2 2", "6"),
        ("mul 1 2 3", "6"),
        ("mul 1e10 1e10", "1e+20"),
        ("div 75 2.5 5", "6"),
        ("div 1 3", "0.333333333333"),
        ("idiv 60 2 5", "6"),
        ("idiv 7 2", "3"),
        ("min 10 6 20", "6"),
        ("max -1 6 3", "6"),
        ("avg 5 10 2", "5"),
        ("avg 1.5 2", "1.75"),
        ("avg", "2147483647"),
        ("count 1 0 3", "3"),
        ("count", "0"),
        ("popcount 5 0 2", "2"),
        ("popcount .01 0.32 0", "2"),
        ("gt_vec 5 0 2 7", "1"),
        ("gt_vec 0.02 0.01 0.32 0", "1"),
        ("ceil 17.35", "18"),
        ("ceil -17.35", "-17"),
        ("ceil 4", "4"),
        ("floor 17.33", "17"),
        ("floor -17.33", "-18"),
        ("floor 1e300", "1e+300"),
        ("round 17.33", "17"),
        ("round 17.5", "18"),
        ("round -17.5", "-18"),
        ("round -17.4", "-17"),
        ("mod 7 3", "1"),
        ("mod -7 3", "-1"),
        ("rem 7.5 2", "1.5"),
        ("neg 5", "-5"),
        ("abs -2.5", "2.5"),
        ("eq 10 0xA", "true"),
        ("eq 10x 10x", "true"),
        ("lt 9 10", "true"),
        ("lt 9x 10x", "false"),
        ("le 9 8", "false"),
        ("ge 1.0 1", "true"),
        ("ne a b", "true"),
        ("gt 2 1", "true"),
        ("not false", "true"),
        ("and true true false", "false"),
        ("and", "true"),
        ("or false true", "true"),
        ("nand true true", "false"),
        ("nor", "true"),
        ("if true a b", "a"),
        ("if false a b", "b"),
        ("in foo bar foo", "true"),
        ("in foo bar", "false"),
        ("in foo", "false"),
        ("in \"\" \"\"", "false"),
        ("in a \"\" \"a\"", "true"),
        ("first a b", "a"),
        ("length abcdef", "6"),
        ("htonl $(ntohl 6)", "6"),
        ("htons 1", "256"),
        ("htons $(ntohs 6)", "6"),
        ("ntohs 9223372036854775807", "65535"),
        ("htonl 18446744073709551615", "4294967167"),
        ("readable c.count add s.run", "true"),
        ("readable c.count c.nosuch", "false"),
        ("writable w.switch s.set stop", "true"),
        ("writable c.count", "false"),
        ("now", "1000000000.000000"),
    ] {
        assert_eq!(
            run(&format!("print $({call})")),
            format!("{expected}\n"),
            "{call}"
        );
    }
    for (call, message) in [
        ("add 1 x", "expected list of numbers"),
        ("mod 1", "expected two numbers"),
        ("mod 1.5 1", "expected two numbers"),
        ("mod 1 0", "division by zero"),
        ("neg x", "expected one number"),
        ("neg 1 ", "expected one number"),
        ("not x", "syntax error"),
        ("random 0", "bad N"),
        ("random many", "N1: invalid number"),
        ("random 1 many", "N2: invalid number"),
        ("random 4294967296", "N1: out of range, bound 4294967295"),
        ("random 1 2 3", "too many arguments"),
        ("random 5 2", "bad N"),
        ("get nosuch", "undefined variable"),
    ] {
        let printed = run(&format!("print $({call})"));
        assert!(printed.contains(message), "{call}: {printed}");
    }
}

#[test]
fn random_numbers_stay_within_their_bounds() {
    for (call, first, last) in [
        ("random 3", 0, 2),
        ("random 5 6", 5, 6),
        ("random", 0, i64::MAX),
    ] {
        for _ in 0..20 {
            let number: i64 = run(&format!("print $({call})")).trim().parse().unwrap();
            assert!((first..=last).contains(&number), "{call}: {number}");
        }
    }
}

#[test]
fn files_can_be_written_and_read() {
    let file = std::env::temp_dir().join(format!("weir-script-{}", std::process::id()));
    let name = file.to_str().unwrap();
    let script = format!(
        "print >{name} \"one\", print >>{name} c.count, append c.count {name}, printn >>{name} \"x\",
         print $(cat {name}), print $(catq {name}), save c.count {name}, print $(cat {name}),
         print >/nosuch/file 1"
    );
    let printed = run(&script);
    let written = std::fs::read_to_string(&file).unwrap();
    let _ = std::fs::remove_file(&file);
    assert_eq!(written, "0\n");
    let expected = "one\n0\n0\nx\n\"one\\n0\\n0\\nx\"\n0\n";
    assert!(printed.starts_with(expected), "{printed}");
    assert_contains(&printed, "  /nosuch/file: No such file or directory");
}

#[test]
fn a_file_without_an_end_is_refused() {
    let mut rig = Rig::new("Script(print $(catq /dev/zero));");
    rig.run();
    assert_contains(&rig.printed().concat(), "/dev/zero: more than 256 MiB");
    // As in Click, what is behind a file's name belongs to it.
    let mut rig = Rig::new("Script(print $(cat /dev/null ));");
    rig.run();
    assert_contains(&rig.printed().concat(), "bad FILE");
}

#[test]
fn private_handlers_say_so() {
    let mut rig = Rig::new("s :: Script(TYPE PASSIVE);");
    let id = rig.router.find("s");
    let mut private = |name| {
        let flags = rig.router.handler(id, name).unwrap();
        flags.has(router::HandlerFlags::PRIVATE)
    };
    assert!(private("cat") && private("kill") && !private("add"));
    // `weir click -h '*.count'` is about packets.
    assert!(private("count") && private("avg"));
    let handlers = rig.read("s.handlers");
    for name in ["cat", "catq", "kill", "count"] {
        assert!(!handlers.contains(&format!("\n{name}\t")), "{handlers}");
    }
    assert!(handlers.contains("\nadd\tr+\n"), "{handlers}");
}

#[test]
fn wrong_scripts_are_refused() {
    for (config, message) in [
        ("Script(jump a);", "syntax error at 'jump'"),
        ("Script(set x);", "syntax error at 'set'"),
        ("Script(pause x);", "syntax error at 'pause'"),
        ("Script(label);", "syntax error at 'label'"),
        ("Script(end 1);", "syntax error at 'end'"),
        ("Script(goto a);", "no such label 'a'"),
        ("Script(TYPE ODD);", "bad TYPE"),
        ("Script(TYPE SIGNAL);", "bad signal number"),
        ("Script(TYPE SIGNAL FOO);", "bad signal number"),
        ("Script(TYPE PACKET);", "PACKET script must have inputs"),
        (
            "Idle -> Script(TYPE ACTIVE) -> Idle;",
            "ports allowed only on PACKET scripts",
        ),
        (
            "DriverManager; DriverManager;",
            "router has more than one driver script",
        ),
    ] {
        let errors = Rig::errors(config).replace(['‘', '’'], "'");
        assert!(errors.contains(message), "{config}: {errors}");
    }
}

#[test]
fn a_variable_that_cannot_be_initialized_is_a_message_of_the_initialization() {
    for script in ["init x $(mod 1), print 7", "init x 1, print 7"] {
        let mut rig = Rig::new(&format!("s :: Script(TYPE PASSIVE, {script});"));
        let printed = rig.printed().concat();
        let expected = script.starts_with("init x $");
        assert_eq!(
            printed.contains("While initializing"),
            expected,
            "{printed}"
        );
        assert_eq!(
            printed.contains("expected two numbers"),
            expected,
            "{printed}"
        );
        rig.write("s.run", "");
        assert_eq!(rig.printed().concat(), "7\n", "{script}");
    }
}

#[test]
fn calls_that_go_wrong_are_reported_where_they_were_made() {
    let printed = run("write c.count 1, write w.switch x, print $?, print $(c.nosuch)");
    let expected = "While executing 's :: Script':|\n  no 'c.count' write handler|\n  \
        While calling 'w.switch x':|\n    Switch output must be integer|\n-22\n  \
        no 'c.nosuch' read handler|\n$(c.nosuch)";
    assert_eq!(printed.replace(['‘', '’'], "'"), format!("{expected}|\n"));
}

#[test]
fn the_status_says_why_a_write_failed() {
    let mut rig = Rig::new(
        "r :: RadixIPLookup(1.0.0.0/8 0) -> Discard; Idle -> r; w :: Switch; Idle -> w -> Idle;
         q :: Queue; Idle -> q -> Idle; e :: Script(TYPE PASSIVE, error wrong);
         d :: RED(1, 2, 0.5); Idle -> d -> Queue -> Idle; s :: Script(TYPE PASSIVE, export status 1, write $args, set status $?);",
    );
    let id = rig.router.find("s");
    for (write, status) in [
        ("r.add 1.0.0.0/8 0", "-17"),
        ("r.remove 2.0.0.0/8", "-2"),
        ("r.add wrong", "-22"),
        ("r.ctrl remove 2.0.0.0/8", "-2"),
        ("r.add 2.0.0.0/8 0", "0"),
        ("w.switch x", "-22"),
        ("q.capacity x", "-1"),
        ("d.config 1, x, 0.5", "-1"),
        ("d.config 3, 2, 0.5", "-1"),
        ("e.run", "-1"),
        ("r.remove 2.0.0.0/8", "0"),
    ] {
        let _ = rig.router.write(id, "run", write);
        assert_eq!(rig.read("s.status"), status, "{write}");
    }
}

proptest! {
    /// Whatever a script says, it is refused or runs: it never brings the router down.
    #[test]
    fn no_script_brings_the_router_down(
        instructions in prop::collection::vec(
            prop::sample::select(&[
                "set x 1", "set x $(add $x $x)", "goto a", "goto a $(eq $x 2)", "label a", "loop",
                "print $x", "wait 1ms", "pause", "write s.step 3", "write s.goto a", "end",
                "write s.run $x", "print $(run $x)", "return $(shift x)", "error $x", "exit",
                "stop", "set y $(sprintf \"%5d\" $x)", "write t.run", "print $(t.run)", "wait",
            ][..]),
            0..12,
        ),
        kind in prop::sample::select(&["ACTIVE", "PASSIVE", "PROXY", "DRIVER"][..]),
    ) {
        let script = instructions.join(", ");
        let config = format!(
            "s :: Script(TYPE {kind}, {script}, label a);
             t :: Script(TYPE PASSIVE, write s.step, write s.goto a, return 7);"
        );
        let mut rig = Rig::new(&config);
        rig.advance(5 * MS);
        let _ = rig.try_write("s.run", "1 2");
        let _ = rig.try_read("t.run").map(|value| value.to_string());
        rig.advance(5 * MS);
    }
}

#[test]
fn warnings_of_a_handler_go_to_its_writer() {
    let config = "u :: Unqueue -> Discard; Idle -> Queue -> u;
        b :: SetAnnoByte(PAINT, 3); d :: StrideSwitch(1); Idle -> b -> d -> Discard;";
    for (write, lines) in [
        ("u.tickets 0", "warning: tickets pinned at 1"),
        (
            "b.config PAINT, 4",
            "warning: SetAnnoByte(ANNO, VALUE) is obsolete, use Paint(VALUE, ANNO) instead",
        ),
        (
            "b.config x",
            "warning: SetAnnoByte(ANNO, VALUE) is obsolete, use Paint(VALUE, ANNO) instead|\n    \
             ANNO: parse error|\n    VALUE: required argument missing",
        ),
        (
            "d.tickets0 70000",
            "warning: port 0's tickets reduced to 32768",
        ),
    ] {
        let (handler, value) = write.split_once(' ').unwrap();
        let script = format!("setq w \"{value}\", write {handler} $w");
        let mut rig = Rig::new(&format!("{config} s :: Script({script});"));
        rig.printed();
        rig.advance(MS);
        let said = |rig: &mut Rig| text(rig).replace(['‘', '’'], "'");
        let heading = "While executing 's :: Script':|\n  While calling";
        let expected = format!("{heading} '{write}':|\n    {lines}|\n");
        assert_eq!(said(&mut rig), expected, "{write}");
        // A writer that takes no warnings.
        let _ = rig.try_write(handler, value);
        let expected = format!("While calling '{write}':|\n  warning: ");
        assert!(said(&mut rig).starts_with(&expected), "{write}");
    }
}

#[test]
fn an_exported_variable_hides_a_calculation() {
    let config = "s :: Script(TYPE PASSIVE, export count 7, return $(count));
        t :: Script(TYPE PASSIVE, return $(count 1 2));";
    let mut rig = Rig::new(config);
    assert_eq!(rig.read("s.count"), "7");
    rig.assert_handlers(&[("s.run", "7"), ("t.run", "2")]);
}

/// As with Click: what pulls packets through a script is not at work meanwhile.
#[test]
fn what_pulls_packets_through_a_script_can_be_read_by_it() {
    for (puller, handler, value) in [
        ("x :: Shaper(1000) -> u", "rate", "1000"),
        ("x :: BandwidthShaper(1000) -> u", "rate", "8kbps"),
        ("x :: RED(5, 50, 0.02) -> u", "min_thresh", "5"),
        ("x :: PI(0.5, 0.02, 0.01, 20) -> u", "target", "20"),
        ("x :: CoDel(7ms) -> u", "target", "0.007000"),
        ("x :: PrioSched -> u", "class", "PrioSched"),
        ("x :: RoundRobinSched -> u", "class", "RoundRobinSched"),
        ("x :: StrideSched(5) -> u", "tickets0", "5"),
        ("x :: DRRSched(500) -> u", "class", "DRRSched"),
        ("x :: TimeSortedSched -> u", "well_ordered", "true"),
        ("x :: DelayShaper(3ms) -> u", "delay", "3ms"),
        ("x :: AggregateIPFlows -> u", "class", "AggregateIPFlows"),
        (
            "x :: Script(TYPE PACKET, init v 4, return 0) -> u",
            "get v",
            "4",
        ),
        ("x :: RatedUnqueue(1000) -> Discard", "rate", "1000"),
        (
            "x :: BandwidthRatedUnqueue(1000) -> Discard",
            "rate",
            "8kbps",
        ),
        ("x :: DelayUnqueue(3ms) -> Discard", "delay", "3ms"),
        ("x :: LinkUnqueue(3ms, 1000) -> Discard", "latency", "3ms"),
        (
            "x :: RoundRobinUnqueue -> Discard",
            "class",
            "RoundRobinUnqueue",
        ),
        ("x :: DiscardNoFree", "class", "DiscardNoFree"),
        ("x :: TimedSink(3ms)", "interval", "3ms"),
    ] {
        let before = match puller.ends_with(" u") {
            true => "u :: Unqueue -> Discard;",
            false => "",
        };
        for batch in [1, 64] {
            let config = format!(
                "{before} InfiniteSource(LIMIT 2) -> Queue
                 -> Script(TYPE PACKET, print $(x.{handler}), return 0) -> {puller};"
            );
            let mut rig = Rig::with_batch(&config, batch);
            rig.advance(1000 * MS);
            let line = format!("{value}\n");
            assert_eq!(rig.printed(), [line.as_str(); 2], "{puller}");
        }
    }
}

#[test]
fn what_a_script_calls_can_call_the_script() {
    let mut rig = Rig::new(
        "main :: Script(TYPE PASSIVE, export n 5, write h.run, return $(h.run));
         h :: Script(TYPE PASSIVE, return $(main.n)$(main.class));
         a :: Script(TYPE PASSIVE, print \"a $1\", goto e $(ge $1 5), write b.run $(add $1 1), label e);
         b :: Script(TYPE PASSIVE, print \"b $1\", write a.run $(add $1 1));
         w :: Script(TYPE PASSIVE, write s.run, wait 1000, print \"waited\");
         s :: Script(TYPE PASSIVE, write w.step);
         d :: DriverManager(export y 4, pause, print $(g.run), stop);
         g :: Script(TYPE PASSIVE, return $(d.y)$(d.class));",
    );
    assert_eq!(rig.read("main.run"), "5Script");
    rig.write("a.run", "1");
    assert_eq!(
        rig.printed(),
        ["a 1", "b 2", "a 3", "b 4", "a 5"].map(|line| format!("{line}\n"))
    );
    rig.write("w.run", "");
    assert_eq!(rig.printed(), ["waited\n"]);
    rig.write(".stop", "");
    rig.run();
    assert_eq!(rig.printed(), ["4DriverManager\n"]);
}

#[test]
fn a_condition_that_cannot_be_read_is_none() {
    let mut rig = Rig::new(
        "s :: Script(TYPE PASSIVE, goto x $(eq 1), print \"n\", label x, goto y $e, print \"m\", label y);",
    );
    let error = format!("{:?}", rig.try_write("s.run", ""));
    assert!(error.contains("bad condition ‘$(eq 1)’"), "{error}");
    assert_eq!(rig.printed(), ["n\n", "m\n"]);
}
