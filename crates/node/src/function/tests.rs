//! Functions are found by name, and their parameters are checked.

use super::*;

fn settings(function: &str, given: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
    let given: Vec<_> = given
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    let function = find(Path::new(function)).unwrap();
    function.settings(&given).map_err(|error| error.to_string())
}

#[test]
fn every_file_is_a_function() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/functions");
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let known: Vec<_> = FUNCTIONS
        .iter()
        .map(|function| format!("{}.click", function.name))
        .collect();
    assert_eq!(names, known);
}

#[test]
fn a_name_that_is_nearly_a_function_s_is_hinted_at() {
    let read = |name: &str| read(Path::new(name), &[], 100).unwrap_err().to_string();
    let error = read("ruoter");
    assert_eq!(
        error,
        "there is neither a file nor a function ‘ruoter’; did you mean ‘router’?: `weir function` lists \
         the functions"
    );
    assert!(read("./ruoter").starts_with("./ruoter: No such file"));
    assert!(!read("./ruoter").contains("did you mean"));
    assert!(!read("something-else").contains("did you mean"));
}

#[test]
fn parameters_are_checked() {
    assert_eq!(
        settings("router", &[("net1_ip", "10.9.0.1")]).unwrap(),
        [("net1_ip".to_string(), "10.9.0.1".to_string())]
    );
    for (given, wrong) in [
        (
            &[("net1_ipp", "10.9.0.1")][..],
            "the function ‘router’ has no parameter ‘net1_ipp’; did you mean ‘net1_ip’?: \
             `weir function router` lists its parameters",
        ),
        (
            &[("net1_ip", "10.9.0")],
            "net1_ip=10.9.0: write an IPv4 address, as in 10.0.0.1",
        ),
        (
            &[("net1_net", "10.9.0.0/33")],
            "net1_net=10.9.0.0/33: write an IPv4 prefix, as in 10.0.0.0/8",
        ),
        (
            &[("net1_ip", "255.255.255.255")],
            "net1_ip=255.255.255.255: no host has this address; write a unicast address",
        ),
        (
            &[("net1_ip", "0.0.0.0")],
            "net1_ip=0.0.0.0: no host has this address; write a unicast address",
        ),
        (
            &[("net1_net", "10.9.0.7/16")],
            "net1_net=10.9.0.7/16: it has bits set beyond its length; write 10.9.0.0/16",
        ),
        (
            &[("net2_net", "10.1.0.0/24")],
            "net2_net=10.1.0.0/24: net1_net is the same network; write another",
        ),
        (
            &[("net1_ip", "10.1.0.255")],
            "net1_net=10.1.0.0/24: its own address 10.1.0.255 is that of the network or its broadcast \
             address; write the address of a host",
        ),
        (&[("mtu", "-5")], "mtu=-5: write a number from 68 to 65535"),
        (
            &[("mtu", "1400"), ("mtu", "1300")],
            "the parameter ‘mtu’ is given twice",
        ),
    ] {
        assert_eq!(settings("router", given).unwrap_err(), wrong);
    }
    let twice = settings("firewall", &[("outside_net6", "2001:db8:1::/64")]);
    let wrong = "outside_net6=2001:db8:1::/64: inside_net6 is the same network; write another";
    assert_eq!(twice.unwrap_err(), wrong);
    let of_all = settings("firewall", &[("inside_ip6", "2001:db8:1::")]);
    let wrong = "inside_net6=2001:db8:1::/64: its own address 2001:db8:1:: is that of all routers of the network; write \
                 the address of a host";
    assert_eq!(of_all.unwrap_err(), wrong);
}

#[test]
fn addresses_are_where_they_have_to_be() {
    for (function, given, wrong) in [
        (
            "responder",
            &[("ip", "10.7.0.1")][..],
            "ip=10.7.0.1: it is not in net=10.0.0.0/24; give one of them another value",
        ),
        (
            "responder",
            &[("net", "10.7.0.0/16")],
            "ip=10.0.0.1: it is not in net=10.7.0.0/16; give one of them another value",
        ),
        (
            "cgnat",
            &[("pool", "203.0.113.0/28")],
            "pool=203.0.113.0/28: outside_ip=203.0.113.2 is in it; write a prefix without it",
        ),
        (
            "cgnat",
            &[("gateway", "198.51.100.17")],
            "pool=198.51.100.16/28: gateway=198.51.100.17 is in it; write a prefix without it",
        ),
        (
            "cgnat",
            &[("deterministic", "10.0.0.0/24")],
            "deterministic=10.0.0.0/24: it is not in inside_net=100.64.0.0/10; give one of them another value",
        ),
    ] {
        assert_eq!(settings(function, given).unwrap_err(), wrong);
    }
    for (function, given) in [
        (
            "responder",
            &[("ip", "10.7.0.1"), ("net", "10.7.0.0/16")][..],
        ),
        ("cgnat", &[("deterministic", "100.64.8.0/24")]),
    ] {
        settings(function, given).unwrap();
    }
}

#[test]
fn relations_name_parameters() {
    for function in FUNCTIONS {
        let parameters = function.declaration().parameters;
        for parameter in &parameters {
            let others = match &parameter.relation {
                Relation::None => &[][..],
                Relation::Within(other) => core::slice::from_ref(other),
                Relation::Without(others) => &others[..],
            };
            for other in others {
                let is_there = parameters.iter().any(|it| it.name == other);
                assert!(is_there, "{} {}: {other}", function.name, parameter.name);
            }
        }
    }
}

#[test]
fn a_text_is_one_argument() {
    let wrong = settings("responder", &[("domain", "a,b")]).unwrap_err();
    assert_eq!(
        wrong,
        "domain=a,b: commas separate arguments; write it without, or in quotation marks"
    );
    let taken = settings("responder", &[("domain", "\"a,b\"")]).unwrap();
    assert_eq!(taken[0].1, "\"a,b\"");
    let given = [("reservations", "2:0:0:0:0:7 10.0.0.7, 2:0:0:0:0:8 10.0.0.8")];
    settings("responder", &given).unwrap();
}

#[test]
fn an_error_is_explained_by_parameters() {
    let text = "// number from 1 to 9: some.\ndefine($few 3);\n\n// text: more.\ndefine($more \"\");\n\n\
                a :: A(X $few, Y $few, $more);\nb :: A(X $more,\n\tY 3);\nc :: Side($port);\n";
    let all = |error| explain(text, None, error);
    assert_eq!(
        all("X must be 1").as_deref(),
        Some("X is the parameter ‘few’ or ‘more’")
    );
    assert_eq!(all("XY must be 1"), None);
    let at = |line, error| explain(text, Some(line), error);
    assert_eq!(
        at(7, "X is above Y").as_deref(),
        Some("X is the parameter ‘few’, Y is the parameter ‘few’")
    );
    assert_eq!(
        at(7, "it is wrong").as_deref(),
        Some("it comes of the parameters ‘few’, ‘more’")
    );
    assert_eq!(
        at(8, "it is wrong").as_deref(),
        Some("it comes of the parameter ‘more’")
    );
    assert_eq!(at(10, "it is wrong"), None);
    assert_eq!(at(99, "it is wrong"), None);
}

#[test]
fn the_defaults_are_of_their_kinds() {
    for function in FUNCTIONS {
        for parameter in function.declaration().parameters {
            // A default is in Click's language, where a file's content is a string.
            let is_file = parameter.kind.to_string().starts_with("file ");
            if !is_file {
                let taken = parameter.kind.take(parameter.default);
                let (function, name) = (function.name, parameter.name);
                assert_eq!(taken.as_deref(), Ok(parameter.default), "{function} {name}");
            }
            let kind = parameter.kind.to_string();
            assert_eq!(Kind::named(&kind), Some(parameter.kind));
        }
    }
}

#[test]
fn comments_declare() {
    let declaration = Declaration::of(
        "// A test.\n//\n// It has two\n// paragraphs.\n//\n//   weir run test\n\n\
         // number from 1 to 9: a number: it counts\n// nothing.\ndefine($n 3);\n\n\
         // Internal.\ndefine($m 4);\n\n// list of one of a, b: words.\ndefine($w a, b);\nIdle;\n",
    );
    assert_eq!(declaration.summary, "A test.");
    assert_eq!(
        declaration.text,
        "It has two\nparagraphs.\n\n  weir run test"
    );
    let [n, w] = &declaration.parameters[..] else {
        panic!("{declaration:?}");
    };
    assert_eq!(
        (n.name, n.default, n.text.as_str()),
        ("n", "3", "a number: it counts nothing.")
    );
    let words = Kind::Choice(vec!["a".into(), "b".into()]);
    assert_eq!(w.kind, Kind::List(Box::new(words)));
}
