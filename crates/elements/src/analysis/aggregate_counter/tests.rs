use crate::testing::*;

fn counter(args: &str) -> Rig {
    Rig::new(&format!(
        "i :: Inject -> a :: AggregateCounter({args}) -> c :: Collect; a[1] -> d :: Collect;"
    ))
}

fn push(rig: &mut Rig, aggregates: &[u32]) {
    for aggregate in aggregates {
        rig.push_with("i", &[0; 10], |packet| {
            packet.set_anno(AGGREGATE, *aggregate)
        });
    }
}

fn file(rig: &mut Rig, kind: &str) -> String {
    rig.write(&format!("a.write_{kind}"), "-");
    rig.printed().concat()
}

#[test]
fn counts_are_written_in_order() {
    let mut rig = counter("BANNER \"# x\"");
    push(&mut rig, &[7, 1, 7, u32::MAX]);
    assert_eq!(rig.data("c").len(), 4);
    let head = "!IPAggregate 1.0\n# x\n!num_nonzero 3\n";
    assert_eq!(
        file(&mut rig, "text_file"),
        format!("{head}1 1\n7 2\n4294967295 1\n")
    );
    assert_eq!(
        file(&mut rig, "pdf_file"),
        format!("{head}1 0.25\n7 0.5\n4294967295 0.25\n")
    );
    let ip = format!("{head}!ip\n0.0.0.1 1\n0.0.0.7 2\n255.255.255.255 1\n");
    assert_eq!(file(&mut rig, "ip_file"), ip);
    assert!(file(&mut rig, "file").starts_with(&format!("{head}!packed_")));
    rig.write("a.counts_pdf", "");
    assert_eq!(
        file(&mut rig, "text_file"),
        "!IPAggregate 1.0\n# x\n!num_nonzero 2\n1 2\n2 1\n"
    );
    rig.assert_handlers(&[("a.count", "3"), ("a.nagg", "2")]);
    rig.write("a.clear", "");
    rig.write("a.banner", "");
    assert_eq!(
        file(&mut rig, "text_file"),
        "!IPAggregate 1.0\n!num_nonzero 0\n"
    );
    assert!(rig.try_write("a.write_text_file", "/nowhere/x").is_err());
}

#[test]
fn bytes_and_packets_that_packets_stand_for_count() {
    for (args, count) in [
        ("", 4),
        ("MULTIPACKET false", 1),
        ("BYTES true", 110),
        ("BYTES true, EXTRA_LENGTH false", 10),
        ("BYTES true, IP_BYTES true", 106),
    ] {
        let mut rig = counter(args);
        rig.push_with("i", &[0; 10], |packet| {
            packet.set_network_header(4, 0);
            packet.set_anno(EXTRA_PACKETS, 3);
            packet.set_anno(EXTRA_LENGTH, 100);
        });
        assert_eq!(rig.read("a.count"), format!("{count}"), "{args}");
    }
}

#[test]
fn what_is_frozen_counts_nothing_new() {
    let mut rig = counter("AGGREGATE_FREEZE 2");
    push(&mut rig, &[1, 2, 3, 1]);
    let aggregates = |packets: Vec<packet::Packet>| {
        packets
            .iter()
            .map(|p| p.anno(AGGREGATE))
            .collect::<Vec<_>>()
    };
    assert_eq!(aggregates(rig.collected("c")), [1, 2, 1]);
    assert_eq!(aggregates(rig.collected("d")), [3]);
    assert_eq!(rig.read("a.freeze"), "true");
    rig.write("a.freeze", "false");
    push(&mut rig, &[3]);
    assert_eq!(rig.read("a.nagg"), "3");
    rig.write("a.active", "false");
    push(&mut rig, &[4]);
    assert_eq!(rig.read("a.nagg"), "3");
    let mut rig = Rig::new("i :: Inject -> [1]a :: AggregateCounter -> Discard; Idle -> a;");
    push(&mut rig, &[1]);
    assert_eq!(rig.read("a.nagg"), "0");
}

#[test]
fn calls_are_made_when_numbers_are_reached() {
    let mut rig = Rig::new(
        "i :: Inject -> a :: AggregateCounter(AGGREGATE_CALL 2 s.run, COUNT_STOP 5) -> Discard;
         s :: Script(TYPE PASSIVE, print \"two\", write a.clear);",
    );
    assert_eq!(rig.read("a.aggregate_call"), "2 s.run");
    push(&mut rig, &[1, 2, 3]);
    // The third aggregate is the first aggregate that was not forgotten.
    assert_eq!(
        (rig.read("a.nagg"), rig.printed()),
        ("1".into(), ["two\n".into()].into())
    );
    push(&mut rig, &[3, 3, 3]);
    assert_eq!(rig.run(), router::Status::Idle(None));
    push(&mut rig, &[3]);
    assert_eq!(rig.run(), router::Status::Stopped);
    assert_eq!(rig.read("a.active"), "false");
    rig.write("a.count_call", "9 stop");
    assert_eq!(rig.read("a.count_call"), "9 stop");
    assert!(rig.try_write("a.count_call", "x").is_err());
    rig.write("a.count_call", "");
    assert_eq!(rig.read("a.count_call"), "");
    for (args, text) in [
        (
            "COUNT_STOP 1, COUNT_FREEZE 2",
            "'COUNT_FREEZE', 'COUNT_STOP', and 'COUNT_CALL' are mutually exclusive",
        ),
        (
            "AGGREGATE_CALL x",
            "AGGREGATE_CALL first word should be unsigned",
        ),
    ] {
        Rig::refuses(
            &format!("Idle -> AggregateCounter({args}) -> Discard;"),
            text,
        );
    }
}

#[test]
fn a_call_reads_and_writes_the_counter_itself() {
    let config = "i :: Inject -> a :: AggregateCounter(COUNT_CALL 4 s.run) -> Discard;
        s :: Script(TYPE PASSIVE, print $(a.count), write a.clear, print $?);";
    let mut rig = Rig::new(config);
    push(&mut rig, &[1, 2, 3, 4, 5, 6]);
    assert_eq!(rig.printed(), ["4\n", "0\n"]);
    assert_eq!(rig.read("a.count"), "2");
}
