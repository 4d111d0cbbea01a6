//! Guests with little memory refuse long work in a sentence, and go on.

use std::process::Output;

use weir::lab::Runner;

use super::gateway::{Gateway, bound, reaches};
use super::{LIMIT, firewall, nat44, number, until};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// What becomes of a handler that is written a text of any length.
pub fn write(gateway: &Gateway, function: &str, handler: &str, text: &str) -> Output {
    std::fs::create_dir_all(&gateway.run).unwrap();
    let file = gateway.run.join("value");
    std::fs::write(&file, text).unwrap();
    let mut weir = gateway.namespace.command("sh", "-c");
    let words = format!("{WEIR} write {function} {handler} - <{}", file.display());
    weir.arg(words).env("WEIR_RUN", &gateway.run);
    Runner::default().output(weir, LIMIT).unwrap()
}

/// What a handler says, of any length.
fn read(gateway: &Gateway, function: &str, handler: &str) -> Result<String, Output> {
    std::fs::create_dir_all(&gateway.run).unwrap();
    let file = gateway.run.join("said");
    let mut weir = gateway.namespace.command("sh", "-c");
    let words = format!("{WEIR} read {function} {handler} >{}", file.display());
    weir.arg(words).env("WEIR_RUN", &gateway.run);
    let output = Runner::default().output(weir, LIMIT).unwrap();
    match output.status.success() {
        true => Ok(std::fs::read_to_string(file).unwrap()),
        false => Err(output),
    }
}

#[track_caller]
fn refusal(output: &Output) -> String {
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("--memory"), "{said}");
    said
}

/// So many rules, each about two addresses and a port.
fn rules(count: usize) -> String {
    let rule = |n: usize| {
        let (a, b) = (n / 256, n % 256);
        format!(
            "allow from inside src host 10.1.{a}.{b} and tcp dst port {}\n",
            n + 1
        )
    };
    (0..count).map(rule).collect()
}

/// So many routes to different networks, by as many gateways.
fn routes(count: u32) -> String {
    let route = |n: u32| {
        let network = std::net::Ipv4Addr::from_bits(0x1400_0000 + 256 * n);
        let gateway = std::net::Ipv4Addr::from_bits(0x0a02_0002 + n % 250);
        format!("add {network}/24 {gateway} 2\n")
    };
    (0..count).map(route).collect()
}

#[test]
fn a_full_table_of_connections_is_read_or_refused() {
    let nat = nat44(&[]);
    assert!(reaches(&nat.inside, "198.51.100.1"));
    let socket = bound(&nat.inside, "0.0.0.0:0");
    until("the table is not full", || {
        for port in 1000..10_000 {
            let _ = socket.send_to(b"flood", ("198.51.100.1", port));
        }
        number(&nat.gateway, "nat44", "connections.count") == 8000
    });
    match read(&nat.gateway, "nat44", "connections.table") {
        Ok(table) => assert_eq!(table.lines().count(), 8000),
        Err(output) => assert!(refusal(&output).contains("no memory for the text: 8000 lines")),
    }
    assert!(reaches(&nat.inside, "198.51.100.1"));
    let mappings = nat.gateway.weir(&["read", "nat44", "nat.mappings"]);
    assert!(mappings.contains("17 192.168.1.10 "), "{mappings}");
}

#[test]
fn too_many_rules_for_the_memory_change_nothing() {
    let (gateway, inside, _outside, _running) = firewall("allow from inside icmp\n", &[]);
    assert!(reaches(&inside, "10.2.0.2"));
    for count in [2000, 4000, 16384] {
        let output = write(&gateway, "firewall", "rules.rules", &rules(count));
        if count == 2000 && output.status.success() {
            continue;
        }
        let said = refusal(&output);
        assert!(
            said.contains(&format!("{count} rules")) || said.contains("request"),
            "{said}"
        );
        let small = write(
            &gateway,
            "firewall",
            "rules.rules",
            "allow from inside icmp",
        );
        assert!(small.status.success(), "{small:?}");
        assert!(reaches(&inside, "10.2.0.2"));
    }
}

#[test]
fn a_firewall_of_16384_rules_needs_its_memory() {
    let (gateway, inside, _outside, running) =
        firewall("allow from inside\n", &["--memory", "96M"]);
    assert!(reaches(&inside, "10.2.0.2"));
    let output = write(&gateway, "firewall", "rules.rules", &rules(16384));
    assert!(output.status.success(), "{output:?}");
    assert!(
        read(&gateway, "firewall", "rules.hits")
            .unwrap()
            .lines()
            .count()
            == 16384
    );
    drop(running);
    // The same when it starts.
    let file = gateway.run.join("many");
    std::fs::write(&file, rules(16384)).unwrap();
    let rules = format!("rules={}", file.display());
    let mut weir = gateway.namespace.command(WEIR, "");
    weir.args([
        "run", "firewall", "--name", "small", "--memory", "4M", "-p", &rules,
    ])
    .args([
        "--link",
        "inside=dev:inside",
        "--link",
        "outside=dev:outside",
    ])
    .env("WEIR_RUN", &gateway.run);
    let output = Runner::default().output(weir, LIMIT).unwrap();
    refusal(&output);
}

#[test]
fn routes_beyond_the_memory_are_refused_all_or_none() {
    let mut gateway = Gateway::new();
    let a = gateway.host("net1", "10.1.0.2/24", Some("10.1.0.1"));
    let _b = gateway.host("net2", "10.2.0.2/24", Some("10.2.0.1"));
    let running = gateway.function("router", &[]);
    assert!(reaches(&a, "10.2.0.2"));
    let before = read(&gateway, "router", "routes.table").unwrap();
    let few = write(&gateway, "router", "routes.ctrl", &routes(10_000));
    assert!(few.status.success(), "{few:?}");
    let table = read(&gateway, "router", "routes.table").unwrap();
    assert_eq!(table.lines().count(), before.lines().count() + 10_000);
    // None of them is added.
    let more = routes(40_000).replace("add 20.", "add 30.");
    refusal(&write(&gateway, "router", "routes.ctrl", &more));
    let table = read(&gateway, "router", "routes.table").unwrap();
    assert_eq!(table.lines().count(), before.lines().count() + 10_000);
    assert!(reaches(&a, "10.2.0.2"));
    drop(running);
    let _running = gateway.function("router", &["--memory", "64M"]);
    let output = write(&gateway, "router", "routes.ctrl", &routes(40_000));
    assert!(output.status.success(), "{output:?}");
    let table = read(&gateway, "router", "routes.table").unwrap();
    assert_eq!(table.lines().count(), before.lines().count() + 40_000);
    assert!(reaches(&a, "10.2.0.2"));
}

#[test]
fn a_function_that_lacks_memory_names_its_parameter() {
    let mut gateway = Gateway::new();
    let _inside = gateway.host("inside", "100.64.0.10/10", None);
    let _outside = gateway.host("outside", "203.0.113.1/24", None);
    let mut weir = gateway.namespace.command(WEIR, "run cgnat --name small");
    weir.args(["-p", "mappings=1000000"])
        .args(["--link", "inside=dev:inside"])
        .args(["--link", "outside=dev:outside"])
        .env("WEIR_RUN", &gateway.run);
    let output = Runner::default().output(weir, LIMIT).unwrap();
    let said = refusal(&output);
    let first = said.lines().next().unwrap();
    assert!(
        first
            .starts_with("weir: the configuration cannot run: out of memory for 1000000 mappings;")
            && first.ends_with("(CAPACITY is the parameter ‘mappings’)"),
        "{said}"
    );
}
