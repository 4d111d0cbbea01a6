use std::path::Path;

use super::*;

const WIRE: &str = "
    wire = 'w'
    [stub.s]
    [link.up]
    device = 'eth7'
    [patch.p]
    between = ['s', 'up']
    [namespace.a]
    routes = ['default via 10.0.0.1']
    [vnic.v]
    link = 's'
    namespace = 'a'
    addresses = ['10.0.0.2/24']
    [vnic.g]
    link = 'up'
    [guest.f]
    config = 'Idle -> Discard;'
    interfaces = { x = 'g' }
    [flow.w]
    link = 's'
    attributes = { transport = 'tcp' }
";

fn wire(text: &str) -> Wire {
    Wire::parse(text, Path::new("w.toml")).unwrap()
}

fn nothing() -> Wire {
    wire("wire = 'w'")
}

/// `+` makes, `-` removes, `~` changes.
fn told(steps: &[Step]) -> Vec<String> {
    let sign = |step: &Step| match (&step.from, &step.to) {
        (None, _) => '+',
        (_, None) => '-',
        _ => '~',
    };
    steps
        .iter()
        .map(|step| format!("{} {}", sign(step), step.part()))
        .collect()
}

fn steps(old: &Wire, new: &Wire) -> Vec<String> {
    told(&plan(old, new, |_, _| Drift::None))
}

#[test]
fn parts_are_made_in_order_and_removed_in_the_other() {
    let made = steps(&nothing(), &wire(WIRE));
    let expected = [
        "+ namespace ‘a’",
        "+ stub ‘s’",
        "+ link ‘eth7’",
        "+ patch ‘p’",
        "+ vnic ‘g’",
        "+ vnic ‘v’",
        "+ routes of namespace ‘a’",
        "+ guest ‘f’",
        "+ flow ‘w’",
    ];
    assert_eq!(made, expected);
    let removed = steps(&wire(WIRE), &nothing());
    // The guest, and what cannot go before it, goes last.
    let expected = [
        "- flow ‘w’",
        "- routes of namespace ‘a’",
        "- vnic ‘v’",
        "- patch ‘p’",
        "- stub ‘s’",
        "- namespace ‘a’",
        "- guest ‘f’",
        "- vnic ‘g’",
        "- link ‘eth7’",
    ];
    assert_eq!(removed, expected);
    assert!(steps(&wire(WIRE), &wire(WIRE)).is_empty());
}

#[test]
fn what_can_change_in_use_is_changed_and_the_rest_replaced() {
    let with = |from: &str, to: &str| steps(&wire(WIRE), &wire(&WIRE.replace(from, to)));
    let faster = with("[vnic.g]", "[vnic.g]\nproperties = { maxbw = '1G' }");
    assert_eq!(faster, ["~ vnic ‘g’"]);
    assert_eq!(with("Idle", "InfiniteSource"), ["~ guest ‘f’"]);
    // The guest has the VNIC, so it goes and comes with it.
    let elsewhere = with("link = 'up'", "link = 's'");
    assert_eq!(
        elsewhere,
        ["- guest ‘f’", "- vnic ‘g’", "+ vnic ‘g’", "+ guest ‘f’"]
    );
    assert_eq!(with("'tcp'", "'udp'"), ["- flow ‘w’", "+ flow ‘w’"]);
    let longer = with(
        "between = ['s', 'up']",
        "between = ['s', 'up']\nproperties = { delay = '1ms' }",
    );
    assert_eq!(longer, ["- patch ‘p’", "+ patch ‘p’"]);
    let address = with("10.0.0.2/24", "10.0.0.3/24");
    assert_eq!(address, ["~ vnic ‘v’", "~ routes of namespace ‘a’"]);
}

#[test]
fn a_stub_of_another_mtu_is_another_with_all_that_is_on_it() {
    let larger = WIRE.replace("[stub.s]", "[stub.s]\nmtu = 9000");
    let expected = [
        "- flow ‘w’",
        "- vnic ‘v’",
        "- patch ‘p’",
        "- stub ‘s’",
        "+ stub ‘s’",
        "+ patch ‘p’",
        "+ vnic ‘v’",
        "~ routes of namespace ‘a’",
        "+ flow ‘w’",
    ];
    assert_eq!(steps(&wire(WIRE), &wire(&larger)), expected);
    let faster = WIRE.replace("[stub.s]", "[stub.s]\nspeed = '1G'");
    assert_eq!(steps(&wire(WIRE), &wire(&faster)), ["~ stub ‘s’"]);
}

const TABLE: &str = "
    wire = 'w'
    [stub.s]
    lookup = 'flow-table'
    [vnic.a]
    link = 's'
    host = true
    [vnic.b]
    link = 's'
    host = true
    [table.s]
    default = 'output:b'
    [table.s.flows]
    'nw_dst=10.0.0.2,nw_src=10.0.0.1,icmp' = 'b'
    'icmp,nw_src=10.0.0.2,nw_dst=10.0.0.1' = 'a'
";

#[test]
fn entries_of_flow_tables_come_and_go_one_by_one_and_with_their_vnics() {
    let to_b = "flow table entry ‘s icmp,nw_src=10.0.0.1,nw_dst=10.0.0.2’";
    let to_a = "flow table entry ‘s icmp,nw_src=10.0.0.2,nw_dst=10.0.0.1’";
    let default = "default of flow table ‘s’";
    let made = steps(&nothing(), &wire(TABLE));
    let expected = ["stub ‘s’", "vnic ‘a’", "vnic ‘b’", to_b, to_a, default];
    assert_eq!(made, expected.map(|part| format!("+ {part}")));
    let with = |from: &str, to: &str| {
        assert!(TABLE.contains(from));
        steps(&wire(TABLE), &wire(&TABLE.replace(from, to)))
    };
    let spelled = with(
        "nw_dst=10.0.0.2,nw_src=10.0.0.1,icmp",
        "icmp,nw_src=10.0.0.1,nw_dst=10.0.0.2",
    );
    assert!(spelled.is_empty(), "the same flow: {spelled:?}");
    assert_eq!(with("= 'a'", "= 'b'"), [format!("~ {to_a}")]);
    assert_eq!(with("'output:b'", "'drop'"), [format!("~ {default}")]);
    let first = "'nw_dst=10.0.0.2,nw_src=10.0.0.1,icmp' = 'b'";
    assert_eq!(with(first, ""), [format!("- {to_b}")]);
    // What is said of a VNIC goes before it and comes back after it; the rest stays.
    let moved = with("[vnic.b]", "[vnic.b]\ninterface = 'c'");
    let again = |sign: &str| [to_b, default].map(|part| format!("{sign} {part}"));
    let [to, rest] = again("-");
    let mut expected = vec![rest, to, "- vnic ‘b’".into(), "+ vnic ‘b’".into()];
    expected.extend(again("+"));
    assert_eq!(moved, expected);
}

#[test]
fn what_is_missing_is_made_again() {
    let there = |name: &str, part: &Part| match part {
        Part::Vnic(_) if name == "v" => Drift::Missing,
        _ => Drift::None,
    };
    let again = told(&plan(&wire(WIRE), &wire(WIRE), there));
    assert_eq!(again, ["+ vnic ‘v’", "~ routes of namespace ‘a’"]);
}

#[test]
fn addresses_and_routes_that_are_missing_are_set_again() {
    let lacks = |wanted: fn(&Part) -> bool| {
        let there = move |_: &str, part: &Part| {
            if wanted(part) {
                Drift::Incomplete
            } else {
                Drift::None
            }
        };
        told(&plan(&wire(WIRE), &wire(WIRE), there))
    };
    let routes = lacks(|part| matches!(part, Part::Routes(_)));
    assert_eq!(routes, ["~ routes of namespace ‘a’"]);
    let addresses = lacks(|part| matches!(part, Part::Vnic(vnic) if !vnic.addresses.is_empty()));
    assert_eq!(addresses, ["~ vnic ‘v’", "~ routes of namespace ‘a’"]);
}

#[test]
fn what_was_changed_is_set_again_where_it_is() {
    let there = |_: &str, part: &Part| match part {
        Part::Stub(_) | Part::Link(_) | Part::Guest(_) => Drift::Altered,
        Part::Vnic(_) => Drift::Lost,
        _ => Drift::None,
    };
    let again = told(&plan(&wire(WIRE), &wire(WIRE), there));
    let expected = [
        "~ stub ‘s’",
        "~ link ‘eth7’",
        "~ vnic ‘g’",
        "~ vnic ‘v’",
        "~ routes of namespace ‘a’",
        "~ guest ‘f’",
    ];
    assert_eq!(again, expected);
}

#[test]
fn a_guest_that_has_ended_is_started_again() {
    let there = |_: &str, part: &Part| match part {
        Part::Guest(_) => Drift::Ended(String::new()),
        _ => Drift::None,
    };
    let again = told(&plan(&wire(WIRE), &wire(WIRE), there));
    assert_eq!(again, ["- guest ‘f’", "+ guest ‘f’"]);
    assert_eq!(
        told(&plan(
            &wire(WIRE),
            &wire(&WIRE.replace("Idle", "Null")),
            there
        )),
        again
    );
}

#[test]
fn guests_are_ended_when_nothing_else_is_to_be_done() {
    let more = |guest: &str, rest: &str| {
        let wider = WIRE.replace("[guest.f]", &format!("[guest.f]\n{guest}"));
        steps(&wire(WIRE), &wire(&(wider + rest)))
    };
    let larger = "memory = '8M'";
    let last = ["- guest ‘f’", "+ guest ‘f’"];
    assert_eq!(more(larger, ""), last);
    // Another guest, a stub that may be taken, a flow: before.
    let rest = "[guest.e]\nconfig = 'Idle -> Discard;'\n[stub.t]\n[flow.x]\nlink = 't'\nattributes = { transport = 'udp' }\n";
    let others = ["+ stub ‘t’", "+ guest ‘e’", "+ flow ‘x’"];
    assert_eq!(more(larger, rest), [&others[..], &last[..]].concat());
    assert_eq!(more("restart = 'always'", ""), ["~ guest ‘f’"]);
    for apart in ["pin = [0]", "isolation = 'process'", "cpus = 2"] {
        assert_eq!(more(apart, ""), last, "{apart}");
    }
}

#[test]
fn what_waits_for_a_guest_comes_after_it() {
    let two = "
        wire = 'w'
        [stub.old]
        [vnic.v]
        link = 'old'
        mac = '02:00:00:00:00:01'
        [vnic.u]
        link = 'old'
        [guest.f]
        config = 'Idle -> Discard;'
        interfaces = { x = 'v' }
        [guest.g]
        config = 'Idle -> Discard;'
        interfaces = { x = 'u' }
    ";
    // To another switch, the old one goes; and each guest comes back before the next is ended.
    let moved = steps(&wire(two), &wire(&two.replace("old", "new")));
    let expected = [
        "+ stub ‘new’",
        "- guest ‘f’",
        "- vnic ‘v’",
        "+ vnic ‘v’",
        "+ guest ‘f’",
        "- guest ‘g’",
        "- vnic ‘u’",
        "+ vnic ‘u’",
        "+ guest ‘g’",
        "- stub ‘old’",
    ];
    assert_eq!(moved, expected);
    let larger = two
        .replace("[guest.", "[guest.@")
        .replace(
            "]\n        config",
            "]\n        memory = '8M'\n        config",
        )
        .replace('@', "");
    let larger = steps(&wire(two), &wire(&larger));
    assert_eq!(
        larger,
        ["- guest ‘f’", "+ guest ‘f’", "- guest ‘g’", "+ guest ‘g’"]
    );
    // A guest of another name takes the VNIC, a VNIC of another name the address.
    let renamed = steps(&wire(two), &wire(&two.replace("guest.f", "guest.h")));
    assert_eq!(renamed, ["- guest ‘f’", "+ guest ‘h’"]);
    let renamed = two.replace("vnic.v", "vnic.w").replace("'v'", "'w'");
    let renamed = steps(&wire(two), &wire(&renamed));
    assert_eq!(
        renamed,
        ["- guest ‘f’", "- vnic ‘v’", "+ vnic ‘w’", "+ guest ‘f’"]
    );
}

#[test]
fn a_step_back_undoes_a_step() {
    let steps = plan(&nothing(), &wire(WIRE), |_, _| Drift::None);
    let back: Vec<_> = steps.into_iter().map(Step::back).collect();
    let (mut back, mut removed) = (told(&back), self::steps(&wire(WIRE), &nothing()));
    back.sort();
    removed.sort();
    assert_eq!(back, removed);
}

const STACKS: &str = "
    wire = 'w'
    [stub.s]
    [nsm.one]
    kind = 'user'
    link = 's'
    addresses = ['10.0.0.2/24']
    [nsm.two]
    kind = 'shm'
    [app.a]
    run = 'true'
    nsm = 'one'
";

#[test]
fn programs_end_before_their_stacks_and_begin_behind_them() {
    let made = steps(&nothing(), &wire(STACKS));
    let expected = ["+ stub ‘s’", "+ nsm ‘one’", "+ nsm ‘two’", "+ app ‘a’"];
    assert_eq!(made, expected);
    let removed = steps(&wire(STACKS), &nothing());
    let expected = ["- nsm ‘two’", "- app ‘a’", "- nsm ‘one’", "- stub ‘s’"];
    assert_eq!(removed, expected);
    let with = |from: &str, to: &str| steps(&wire(STACKS), &wire(&STACKS.replace(from, to)));
    assert_eq!(with("nsm = 'one'", "nsm = 'two'"), ["~ app ‘a’"]);
    let limited = with("[nsm.two]", "[nsm.two]\nproperties = { conns = 9 }");
    assert_eq!(limited, ["~ nsm ‘two’"]);
    assert_eq!(with("'true'", "'false'"), ["- app ‘a’", "+ app ‘a’"]);
    // What stands on a stub, and what stands on that.
    let whole = ["- app ‘a’", "- nsm ‘one’", "- stub ‘s’"];
    let whole = whole
        .into_iter()
        .chain(["+ stub ‘s’", "+ nsm ‘one’", "+ app ‘a’"]);
    assert_eq!(
        with("[stub.s]", "[stub.s]\nmtu = 9000"),
        whole.collect::<Vec<_>>()
    );
    // A program is recreated at another NSM before the one that it had goes.
    let moved = wire(&STACKS.replace("nsm = 'one'", "nsm = 'three'"));
    let text = moved.to_text().replace("nsm.one]", "nsm.three]");
    assert_eq!(
        steps(&wire(STACKS), &wire(&text)),
        ["+ nsm ‘three’", "- app ‘a’", "+ app ‘a’", "- nsm ‘one’"]
    );
}
