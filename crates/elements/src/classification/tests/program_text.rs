//! The `program` handler's text, as the reference implementation prints it.

use super::*;

fn text(program: &Program) -> String {
    program.text()
}

#[test]
fn classifier_shows_one_comparison_a_word() {
    let program = classifier(&["1/01", "-"], 0).unwrap().program;
    assert_eq!(
        text(&program),
        " 0   0/00010000%00ff0000  yes->[0]  no->[1]\nsafe length 2\nalignment offset 0\n"
    );
}

#[test]
fn classifier_shares_tests_between_patterns() {
    let patterns = ["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"];
    let program = classifier(&patterns, 0).unwrap().program;
    assert_eq!(
        text(&program),
        concat!(
            " 0  12/08060000%ffff0000  yes->step 1  no->step 3\n",
            " 1  20/00010000%ffff0000  yes->[0]  no->step 2\n",
            " 2  20/00020000%ffff0000  yes->[1]  no->[3]\n",
            " 3  12/08000000%ffff0000  yes->[2]  no->[3]\n",
            "safe length 22\nalignment offset 0\n"
        )
    );
}

#[test]
fn ip_classifier_shares_protocol_and_fragment_tests() {
    let patterns = [
        "dst port 7777",
        "dst port 8888",
        "dst port 7000",
        "icmp type echo",
        "icmp",
        "-",
    ];
    let compiled = ip_classifier(&patterns, &ProtocolNames).unwrap();
    assert_eq!(compiled.warnings.0, []);
    assert_eq!(
        text(&compiled.program),
        concat!(
            " 0 264/00060000%00ff0000  yes->step 2  no->step 1\n",
            " 1 264/00110000%00ff0000  yes->step 2  no->step 6\n",
            " 2 260/00000000%00001fff  yes->step 3  no->[5]\n",
            " 3 512/00001e61%0000ffff  yes->[0]  no->step 4\n",
            " 4 512/000022b8%0000ffff  yes->[1]  no->step 5\n",
            " 5 512/00001b58%0000ffff  yes->[2]  no->[5]\n",
            " 6 264/00010000%00ff0000  yes->step 7  no->[5]\n",
            " 7 260/00000000%00001fff  yes->step 8  no->[4]\n",
            " 8 512/08000000%ff000000  yes->[3]  no->[4]\n",
            "safe length 516\nalignment offset 0\n"
        )
    );
}

#[test]
fn ip_filter_goes_on_where_a_failed_rule_leaves_off() {
    let rules = [
        "0 udp dst port netbios-ns",
        "1 udp dst port 5353",
        "2 udp src port bootpc",
        "3 128.230.206.0/24",
        "4 -",
    ];
    assert_eq!(
        text(&filter(&rules, 5)),
        concat!(
            " 0 264/00110000%00ff0000  yes->step 1  no->step 5\n",
            " 1 260/00000000%00001fff  yes->step 2  no->step 5\n",
            " 2 512/00000089%0000ffff  yes->[0]  no->step 3\n",
            " 3 512/000014e9%0000ffff  yes->[1]  no->step 4\n",
            " 4 512/00440000%ffff0000  yes->[2]  no->step 5\n",
            " 5 268/80e6ce00%ffffff00  yes->[3]  no->step 6\n",
            " 6 272/80e6ce00%ffffff00  yes->[3]  no->[4]\n",
            "safe length 516\nalignment offset 0\n"
        )
    );
}

#[test]
fn tests_of_one_word_are_joined() {
    let patterns = [
        "proto icmp",
        "dst port 53",
        "(proto tcp and !(syn and !ack)) or (tcpudp port >= 1024)",
        "-",
    ];
    let compiled = ip_classifier(&patterns, &ProtocolNames).unwrap();
    assert_eq!(
        text(&compiled.program),
        concat!(
            " 0 264/00010000%00ff0000  yes->[0]  no->step 1\n",
            " 1 264/00060000%00ff0000  yes->step 3  no->step 2\n",
            " 2 264/00110000%00ff0000  yes->step 3  no->[3]\n",
            " 3 260/00000000%00001fff  yes->step 4  no->step 5\n",
            " 4 512/00000035%0000ffff  yes->[1]  no->step 5\n",
            " 5 264/00060000%00ff0000  yes->step 6  no->step 8\n",
            " 6 260/00000000%00001fff  yes->step 7  no->[2]\n",
            " 7 524/00020000%00120000  yes->step 9  no->[2]\n",
            " 8 260/00000000%00001fff  yes->step 9  no->[3]\n",
            " 9 512/00000000%fc00fc00  yes->[3]  no->[2]  short->yes\n",
            "safe length 526\nalignment offset 0\n"
        )
    );
}

#[test]
fn rules_that_all_lead_to_one_output_need_no_test() {
    let rules = [
        "allow tcp && dst 10.0.0.0/32 && src 2.0.0.0/32",
        "allow tcp && dst 10.0.0.0/32 && dst port 80 && src 2.0.0.0/32",
        "allow all",
    ];
    let expected = "all->[0]\nsafe length 0\nalignment offset 0\n";
    assert_eq!(text(&filter(&rules, 1)), expected);
    let rules = ["allow false", "allow false", "allow false", "allow true"];
    assert_eq!(text(&filter(&rules, 1)), expected);
}

#[test]
fn rules_that_match_nothing_drop_everything() {
    let expected = "all->[2147483647]\nsafe length 0\nalignment offset 0\n";
    assert_eq!(text(&filter(&["allow false"], 1)), expected);
    assert_eq!(text(&filter(&[], 1)), expected);
    assert_eq!(filter(&[], 1).form(), Form::Constant);
}

#[test]
fn rules_that_never_match_leave_no_trace() {
    let rules = ["allow false", "allow false", "allow src 10.0.0.1"];
    assert_eq!(
        text(&filter(&rules, 1)),
        concat!(
            " 0 268/0a000001%ffffffff  yes->[0]  no->[X]\n",
            "safe length 272\nalignment offset 0\n"
        )
    );
}

#[test]
fn ethernet_addresses_and_odd_masks_compile() {
    let rules = [
        "allow src 0:1:2:3:4:5",
        "allow src 10.0.0.0 & 8.0.0.0 = 8.0.0.0",
        "allow dst 10:20:30:40:50:60",
        "allow host 9:A:B:C:D:E",
        "deny all",
    ];
    let expected = concat!(
        " 0   8/00010203%ffffffff  yes->step 1  no->step 2\n",
        " 1  12/04050000%ffff0000  yes->[0]  no->step 2\n",
        " 2 268/0a000000%ffffffff  yes->[0]  no->step 3\n",
        " 3   0/00001020%0000ffff  yes->step 4  no->step 5\n",
        " 4   4/30405060%ffffffff  yes->[0]  no->step 5\n",
        " 5   8/090a0b0c%ffffffff  yes->step 6  no->step 7\n",
        " 6  12/0d0e0000%ffff0000  yes->[0]  no->step 7\n",
        " 7   0/0000090a%0000ffff  yes->step 8  no->[X]\n",
        " 8   4/0b0c0d0e%ffffffff  yes->[0]  no->[X]\n",
        "safe length 272\nalignment offset 0\n"
    );
    assert_eq!(text(&filter(&rules, 1)), expected);
}

#[test]
fn long_runs_of_values_are_shown_in_search_order() {
    let rules = ["allow src port 9000 or 12 or 10 or 9 or 6 or 5 or 3"];
    let text = text(&filter(&rules, 1));
    let values: Vec<&str> = text
        .lines()
        .skip(3)
        .map(|line| &line[7..15])
        .take(7)
        .collect();
    assert_eq!(
        values,
        [
            "00030000", "00050000", "00060000", "00090000", "000a0000", "000c0000", "23280000"
        ]
    );
}
