use std::path::Path;

use super::check::check;
use super::file::FileError;
use super::plan::{Drift, Step, plan};
use crate::model::Wire;

const TWO_SUBNETS: &str = r#"
wire = "two-subnets"

[stub.office]
speed = "1G"

[stub.lab]
speed = "100M"

[namespace.desk]
routes = ["default via 10.0.1.1"]

[namespace.bench]
routes = ["default via 10.0.2.1"]

[vnic.desk0]
link = "office"
namespace = "desk"
addresses = ["10.0.1.2/24"]

[vnic.bench0]
link = "lab"
namespace = "bench"
interface = "eth0"
addresses = ["10.0.2.2/24", "fd00::2/64"]
properties = { maxbw = "10M", delay = "2ms", loss = "1%" }

[vnic.router0]
link = "office"

[vnic.router1]
link = "lab"
mac = "02:00:00:00:00:01"

[guest.router]
config = "Idle -> Discard;"
interfaces = { inside = "router0", outside = "router1" }

[flow.web]
link = "office"
attributes = { local_ip = "10.0.1.2/32", transport = "tcp", local_port = 80 }
properties = { maxbw = "20M" }
"#;

/// The steps from one wire to another, as they are shown.
fn lines(old: &Wire, new: &Wire) -> Vec<String> {
    let steps = plan(old, new, |_, _| Drift::None);
    steps.iter().map(Step::to_string).collect()
}

fn wire(text: &str) -> Wire {
    Wire::parse(text, Path::new("test.toml")).unwrap()
}

#[test]
fn a_wire_is_read_as_it_is_written() {
    let read = wire(TWO_SUBNETS);
    assert_eq!(
        read.stubs["lab"].properties.speed.unwrap().bits(),
        100_000_000
    );
    assert_eq!(read.vnics["bench0"].properties.delay.to_string(), "2ms");
    assert_eq!(
        read.namespaces["desk"].routes[0].to_string(),
        "default via 10.0.1.1"
    );
    assert_eq!(wire(&read.to_text()), read);
    let findings = check(&read);
    assert_eq!((findings.errors, findings.warnings), (vec![], vec![]));
}

#[test]
fn what_is_said_of_a_guest_is_read_written_and_told_apart() {
    let said = r#"interfaces = { inside = "router0", outside = "router1" }
memory = "8M"
ring-slots = 512
cpus = 2
pin = [0, 1]
isolation = "process"
restart = "on-failure"
"#;
    let (before, _) = said.split_once('\n').unwrap();
    let full = TWO_SUBNETS.replace(before, said);
    let read = wire(&full);
    assert_eq!(wire(&read.to_text()), read);
    let changes = |from: &str, to: &str| lines(&read, &wire(&full.replace(from, to))).join("\n");
    assert_eq!(changes("", ""), "");
    for (from, to, line) in [
        ("pin = [0, 1]", "pin = [1]", "pin 0,1 → 1"),
        ("pin = [0, 1]", "", "pin 0,1 → none"),
        ("\"process\"", "\"vm\"", "isolation process → vm"),
        ("on-failure", "always", "restart on-failure → always"),
    ] {
        let made_again = format!("- guest ‘router’: it is recreated\n+ guest ‘router’: {line}");
        let in_use = format!("~ guest ‘router’: {line}");
        let expected = if line.starts_with("restart") {
            in_use
        } else {
            made_again
        };
        assert_eq!(changes(from, to), expected);
    }
    let wrong = full.replace("on-failure", "sometimes");
    let error = Wire::parse(&wrong, Path::new("w.toml")).unwrap_err();
    assert!(
        error.to_string().contains("`always`, `on-failure`"),
        "{error}"
    );
}

#[test]
fn a_stub_has_an_mtu_that_bounds_its_vnics() {
    let larger = TWO_SUBNETS.replace("speed = \"1G\"", "speed = \"1G\"\nmtu = 9000\naging = 60");
    let read = wire(&larger);
    assert_eq!(read.stubs["office"].mtu, Some(9000));
    assert_eq!(wire(&read.to_text()), read);
    let steps = lines(&wire(TWO_SUBNETS), &read);
    let stub = "+ stub ‘office’: aging none → 60, mtu none → 9000".to_string();
    assert!(steps.contains(&stub), "{steps:?}");
    let errors = |text: &str| check(&wire(text)).errors.join("\n");
    assert_eq!(errors(&larger), "");
    let wrong = errors(&larger.replace("9000", "9217"));
    assert!(wrong.contains("stub ‘office’: an MTU of 9217"), "{wrong}");
    let own = "properties = { mtu = 4000, maxbw";
    let wrong = errors(&larger.replace(
        "properties = { maxbw = \"10M\"",
        &(own.to_string() + " = \"10M\""),
    ));
    assert!(
        wrong.contains("its mtu of 4000 is above that of stub ‘lab’, 1500"),
        "{wrong}"
    );
}

#[test]
fn what_cannot_be_read_names_its_line() {
    let error = |text: &str| {
        Wire::parse(text, Path::new("w.toml"))
            .unwrap_err()
            .to_string()
    };
    assert!(
        error("wire = \"a\"\n\n[stub.x]\ncolour = 1\n")
            .starts_with("w.toml:4: unknown field `colour`")
    );
    assert!(
        error("wire = \"a\"\n[vnic.v]\nlink = \"s\"\nmac = \"02\"\n")
            .starts_with("w.toml:4: ‘02’ is not an Ethernet address")
    );
    assert!(
        error("wire = \"a\"\n[namespace.n]\nroutes = [\"default\"]\n")
            .contains("‘default’ is not a route")
    );
    assert!(error("wire = \"a\"\n[stub.x]\n[stub.x]\n").starts_with("w.toml:3: "));
    assert!(error("[stub.x]\n").contains("missing field `wire`"));
}

#[test]
fn a_function_is_named_in_place_of_a_file() {
    let file = std::env::temp_dir().join(format!("weir-function-{}.toml", std::process::id()));
    let text = |values: &str| {
        format!("wire = \"w\"\n[guest.r]\nfile = \"router\"\nparameters = {{ {values} }}\n")
    };
    std::fs::write(&file, text("net1_ip = \"10.9.0.1\"")).unwrap();
    let read = Wire::read(&file).unwrap();
    let guest = &read.guests["r"];
    assert!(guest.config.contains("define($net1_ip ") && guest.file.is_none());
    assert_eq!(guest.variables["net1_ip"], "10.9.0.1");
    std::fs::write(&file, text("net1_ip = \"10.9\"")).unwrap();
    let error = Wire::read(&file).unwrap_err().to_string();
    let expected = "guest ‘r’: net1_ip=10.9: write an IPv4 address, as in 10.0.0.1";
    assert!(error.ends_with(expected), "{error}");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn configurations_come_from_files_beside_the_wire() {
    let folder = std::env::temp_dir().join(format!("weir-wire-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("w.toml");
    std::fs::write(folder.join("r.click"), "Idle -> Discard;").unwrap();
    std::fs::write(&file, "wire = \"w\"\n[guest.r]\nfile = \"r.click\"\n").unwrap();
    let read = Wire::read(&file).unwrap();
    assert_eq!(read.guests["r"].config, "Idle -> Discard;");
    assert_eq!(read.guests["r"].file, None);
    std::fs::write(&file, "wire = \"w\"\n[guest.r]\nfile = \"none.click\"\n").unwrap();
    assert!(
        Wire::read(&file)
            .unwrap_err()
            .to_string()
            .contains("none.click")
    );
    std::fs::write(&file, "wire = \"w\"\n[guest.r]\nfile = \"ruoter\"\n").unwrap();
    let error = Wire::read(&file).unwrap_err().to_string();
    assert!(error.contains("guest ‘r’: "), "{error}");
    assert!(error.ends_with("; did you mean ‘router’?"), "{error}");
    // So do files that parameters name, of guests and of chains.
    std::fs::write(folder.join("r.rules"), "deny all\n").unwrap();
    for parts in [
        "[guest.c-firewall]\nfile = \"firewall\"\nparameters = { rules = \"r.rules\" }\n",
        "existing = [\"a\", \"b\"]\n[chain.c]\nfunctions = [\"firewall\"]\nbetween = [\"a\", \"b\"]\n\
         parameters = { firewall.rules = \"r.rules\" }\n",
    ] {
        std::fs::write(&file, format!("wire = \"w\"\n{parts}")).unwrap();
        let read = Wire::read(&file).unwrap();
        let rules = &read.guests["c-firewall"].variables["rules"];
        assert!(rules.contains("deny all"), "{rules}");
    }
    std::fs::write(&file, "wire = \"w\"\n[guest.r]\n").unwrap();
    assert!(matches!(Wire::read(&file), Err(FileError::Config { .. })));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_does_not_hold_together_is_found() {
    let errors = |from: &str, to: &str| {
        assert!(TWO_SUBNETS.contains(from), "{from}");
        check(&wire(&TWO_SUBNETS.replacen(from, to, 1)))
            .errors
            .join("\n")
    };
    for (from, to, wrong) in [
        (
            "link = \"office\"",
            "link = \"ofice\"",
            "no stub or link ‘ofice’",
        ),
        (
            "namespace = \"desk\"",
            "namespace = \"desq\"",
            "no namespace ‘desq’",
        ),
        (
            "via 10.0.1.1",
            "via 10.0.9.1",
            "no vnic in it has an address in the gateway's subnet, and no route without a gateway leads to the gateway: add one, ‘10.0.9.1/32 dev VNIC’",
        ),
        (
            "\"default via 10.0.1.1\"",
            "\"default via 10.0.1.1\", \"0.0.0.0/0 dev desk0 metric 0\"",
            "namespace ‘desk’: route ‘default dev desk0 metric 0’ is to the same prefix as ‘default via 10.0.1.1’",
        ),
        (
            "outside = \"router1\"",
            "outside = \"router9\"",
            "no vnic for its interface ‘outside’, ‘router9’",
        ),
        (
            "outside = \"router1\"",
            "outside = \"router0\"",
            "is an interface of guest ‘router’ already",
        ),
        (
            "outside = \"router1\"",
            "outside = \"desk0\"",
            "one place only",
        ),
        ("mac = \"02:", "mac = \"01:", "not a unicast address"),
        (
            "wire = \"two-subnets\"",
            "wire = \"two subnets\"",
            "a name is 1 to 31",
        ),
        ("[stub.lab]", "[stub.lab]\naging = 0", "stub ‘lab’"),
        ("transport = \"tcp\", ", "", "flow ‘web’: a port needs"),
        (
            "[vnic.router0]",
            "[vnic.router0]\naddresses = [\"10.0.0.9/24\"]",
            "are for VNICs in a namespace",
        ),
    ] {
        let found = errors(from, to);
        assert!(found.contains(wrong), "{to}: {found}");
    }
    let by_route = "via 10.0.9.1\", \"10.0.9.1/32 dev desk0";
    assert_eq!(errors("via 10.0.1.1", by_route), "");
}

#[test]
fn flow_tables_that_cannot_be_are_found() {
    let table = r#"
wire = "t"
[stub.lan]
lookup = "flow-table"
[stub.plain]
[vnic.a]
link = "lan"
host = true
[vnic.b]
link = "plain"
host = true
[table.lan]
default = "drop"
[table.lan.flows]
"icmp,nw_src=10.0.0.2,nw_dst=10.0.0.1" = "a"
"#;
    let good = wire(table);
    assert_eq!(check(&good).errors, Vec::<String>::new());
    assert_eq!(wire(&good.to_text()), good);
    for (from, to, wrong) in [
        ("\"drop\"", "\"magic\"", "default = \"magic\" is invalid"),
        ("\"drop\"", "\"output:c\"", "no vnic on its switch ‘c’"),
        ("= \"a\"", "= \"b\"", "no vnic on its switch ‘b’"),
        ("= \"a\"", "= \"lan\"", "no vnic on its switch ‘lan’"),
        (
            "icmp,nw_src",
            "tcp,nw_src",
            "is not a flow (tp_src is missing)",
        ),
        ("lookup = \"flow-table\"", "", "is learning: give it"),
        ("[stub.lan]", "[stub.lane]", "no stub or link ‘lan’"),
        (
            "[table.lan.flows]",
            "[table.lan.flows]\n\"nw_src=10.0.0.2,nw_dst=10.0.0.1,nw_proto=1\" = \"a\"",
            "are the same flow",
        ),
    ] {
        assert!(table.contains(from), "{from}");
        let found = check(&wire(&table.replacen(from, to, 1))).errors.join("\n");
        assert!(found.contains(wrong), "{to}: {found}");
    }
}

#[test]
fn guests_for_connections_that_cannot_be_are_found() {
    let served = r#"
wire = "t"
[stub.lan]
[vnic.a]
link = "lan"
guest = { template = "page", on = "flow", guests = 3 }
[vnic.a-4]
link = "lan"
host = true
"#;
    assert_eq!(check(&wire(served)).errors, Vec::<String>::new());
    for (from, to, wrong) in [
        ("guests = 3", "guests = 0", "cannot have 0 guests"),
        ("guests = 3", "guests = 4097", "from 1 to 4096"),
        ("on = \"flow\", ", "", "‘a’ has one guest"),
        (
            "guests = 3",
            "guests = 4",
            "give the other ‘a-4’ another name",
        ),
    ] {
        let found = check(&wire(&served.replacen(from, to, 1)))
            .errors
            .join("\n");
        assert!(found.contains(wrong), "{to}: {found}");
    }
}

#[test]
fn rings_without_a_spanning_tree_are_warned_of() {
    let ring = "wire = \"r\"\n[stub.a]\n[stub.b]\n[stub.c]\n
        [patch.x]\nbetween = [\"a\", \"b\"]\n[patch.y]\nbetween = [\"b\", \"c\"]\n";
    assert_eq!(check(&wire(ring)).warnings.len(), 0);
    let ring = format!("{ring}[patch.z]\nbetween = [\"c\", \"a\"]\n");
    let warnings = check(&wire(&ring)).warnings;
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("patch ‘z’ closes a cycle"),
        "{warnings:?}"
    );
}

#[test]
fn steps_come_in_an_order_in_which_they_can_be_taken() {
    let old = wire(TWO_SUBNETS);
    let nothing = Wire {
        wire: "two-subnets".into(),
        ..Wire::default()
    };
    let made = lines(&nothing, &old);
    let position = |part: &str| made.iter().position(|line| line == part).unwrap();
    assert!(position("+ stub ‘office’") < position("+ vnic ‘desk0’"));
    assert!(position("+ namespace ‘desk’") < position("+ vnic ‘desk0’"));
    assert!(position("+ vnic ‘router1’") < position("+ guest ‘router’"));
    let removed = lines(&old, &nothing);
    assert_eq!(removed.len(), made.len());
    // The guest, and what cannot go before it, goes last.
    assert!(removed[0].starts_with("- flow"), "{removed:?}");
    let position = |part: &str| removed.iter().position(|line| line == part).unwrap();
    assert!(position("- namespace ‘desk’") < position("- guest ‘router’"));
    assert!(position("- guest ‘router’") < position("- vnic ‘router1’"));
    let new = wire(
        &TWO_SUBNETS
            .replace("maxbw = \"10M\"", "maxbw = \"1G\"")
            .replace("[vnic.desk0]", "[vnic.desk9]"),
    );
    assert_eq!(
        lines(&old, &new),
        [
            "- vnic ‘desk0’",
            "~ vnic ‘bench0’: properties.maxbw 10M → 1G",
            "+ vnic ‘desk9’",
            "~ routes of namespace ‘desk’: set again",
        ]
    );
    assert!(lines(&old, &old).is_empty());
}

#[test]
fn two_vnics_of_a_switch_with_one_ip_address_are_warned_of() {
    let warnings = |more: &str| {
        let text = format!(
            "wire = 'w'\n[stub.s]\n[stub.t]\n[vnic.a]\nlink = 's'\nhost = true\naddresses = ['10.0.0.1/24', 'fd00::1/64']\n[vnic.b]\nhost = true\n{more}\n"
        );
        let findings = check(&wire(&text));
        assert!(findings.errors.is_empty(), "{:?}", findings.errors);
        findings.warnings
    };
    for address in ["10.0.0.1", "fd00::1"] {
        let warned = warnings(&format!("link = 's'\naddresses = ['{address}/32']"));
        let told =
            format!("vnic ‘b’: its address {address} is that of vnic ‘a’ on the same switch");
        assert_eq!(warned, [told]);
    }
    for apart in [
        "link = 's'\naddresses = ['10.0.0.2/24']",
        "link = 't'\naddresses = ['10.0.0.1/24']",
        "link = 's'\naddresses = ['10.0.0.1/24']\nproperties = { vlan = 7 }",
    ] {
        assert!(warnings(apart).is_empty(), "{apart}");
    }
}

#[test]
fn a_guest_on_a_stub_of_long_packets_is_warned_of() {
    let warnings = |mtu: &str, properties: &str| {
        let text = format!(
            "wire = 'w'\n[stub.s]\n{mtu}\n[vnic.g0]\nlink = 's'\n{properties}\n[guest.g]\ninterfaces = {{ a = 'g0' }}\nconfig = 'FromNetfront(a) -> Discard;'\n"
        );
        let findings = check(&wire(&text));
        assert!(findings.errors.is_empty(), "{:?}", findings.errors);
        findings.warnings
    };
    let warned = warnings("mtu = 9000", "");
    assert_eq!(warned.len(), 1);
    assert!(warned[0].starts_with("vnic ‘g0’: its link ‘s’ has an MTU of 9000 bytes"));
    assert!(warnings("mtu = 9000", "properties = { mtu = 1500 }").is_empty());
    assert!(warnings("mtu = 1600", "").is_empty() && warnings("", "").is_empty());
}

#[test]
fn switches_of_the_node_are_used_but_not_made() {
    let parse = |text: &str| Wire::parse(text, Path::new("w.toml")).unwrap();
    let text = "wire = 'w'\nexisting = ['lan']\n[vnic.a]\nlink = 'lan'\n";
    let wire = parse(text);
    assert_eq!(check(&wire).errors, Vec::<String>::new());
    assert_eq!(lines(&Wire::default(), &wire), ["+ vnic ‘a’"]);
    let both = parse(&format!("{text}[stub.lan]\n"));
    assert!(check(&both).errors[0].starts_with("‘lan’ is existing, and a stub or link"));
    // A chain that was not read from a file.
    let chain = parse("wire = 'w'\n[chain.c]\nfunctions = ['wire']\n");
    assert!(check(&chain).errors[0].starts_with("chain ‘c’: only a file has chains"));
}
