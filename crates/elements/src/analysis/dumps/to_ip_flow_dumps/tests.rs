use std::path::PathBuf;

use crate::testing::*;

/// A folder that is gone when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("weir-test-{}-{name}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    fn read(&self, name: &str) -> String {
        let bytes = std::fs::read(self.0.join(name)).expect("the file is there");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn has(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const SECOND: i64 = 1_000_000_000;

/// A TCP segment with sequence numbers and options; a host's port is ten times its number.
fn segment(from: u8, to: u8, flags: u8, seq: u32, ack: u32, options: &[u8]) -> Vec<u8> {
    let end = |host: u8| ([host, 0, 0, 1].into(), u16::from(host) * 10);
    let mut packet = tcp(end(from), end(to), flags, options);
    packet[24..28].copy_from_slice(&seq.to_be_bytes());
    packet[28..32].copy_from_slice(&ack.to_be_bytes());
    packet[32] = ((20 + options.len() as u8) / 4) << 4;
    packet
}

fn push(rig: &mut Rig, packet: &[u8], seconds: i64) {
    rig.push_with("i", packet, |packet| packet.set_timestamp(seconds * SECOND));
}

#[test]
fn each_flow_gets_a_file() {
    let folder = Folder::new("flow_dumps");
    let path = folder.0.display();
    let mut rig = Rig::new(&format!(
        "i :: Inject -> MarkIPHeader -> f :: AggregateIPFlows
           -> ToIPFlowDumps({path}/%p/%03n-%s-%.0d-%D, NOTIFIER f, TCP_OPT true, TCP_WINDOW true) -> Discard;"
    ));
    push(&mut rig, &segment(1, 2, 2, 1000, 0, &[2, 4, 5, 0xb4]), 5);
    push(
        &mut rig,
        &segment(
            2,
            1,
            0x12,
            7000,
            1001,
            &[5, 10, 0, 0, 3, 0xe9, 0, 0, 3, 0xf2, 1, 1],
        ),
        6,
    );
    push(
        &mut rig,
        &udp(([3; 4].into(), 1), ([4; 4].into(), 2), b"abc"),
        7,
    );
    assert!(!folder.has("T/001-1.0.0.1-2-20"));
    rig.write("f.clear", "");
    rig.run();
    rig.advance(300_000_000);
    assert_eq!(
        folder.read("T/001-1.0.0.1-2-20"),
        "!IPSummaryDump 1.3\n!flowid 1.0.0.1 10 2.0.0.1 20 T\n!aggregate 1\n\
         !data ntimestamp direction tcp_flags tcp_seq payload_len tcp_ack tcp_window tcp_ntopt\n\
         !firstseq > 1000\n!firstseq < 7000\n!firsttime 4.999999999\n\
         0.000000001 > S 0 0 0 8192 mss1460\n1.000000001 < SA 0 0 1 8192 sack1-10\n"
    );
    assert_eq!(
        folder.read("U/002-3.3.3.3-4-2"),
        "!IPSummaryDump 1.3\n!flowid 3.3.3.3 1 4.4.4.4 2 U\n!aggregate 2\n\
         !data ntimestamp direction payload_len\n!firsttime 6.999999999\n0.000000001 > 3\n"
    );
}

#[test]
fn files_can_be_read_back() {
    for binary in ["true", "false"] {
        let folder = Folder::new(&format!("flow_binary_{binary}"));
        let path = folder.0.display();
        let mut rig = Rig::new(&format!(
            "i :: Inject -> MarkIPHeader -> AggregateIPFlows
               -> ToIPFlowDumps({path}/%x, BINARY {binary}, ALL_TCP_OPT true, ABSOLUTE_SEQ true, ABSOLUTE_TIME true, GZIP {binary}) -> Discard;"
        ));
        for _ in 0..200 {
            push(
                &mut rig,
                &segment(1, 2, 0x10, 5, 6, &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]),
                5,
            );
        }
        push(&mut rig, &segment(2, 1, 0x10, 6, 5, &[]), 6);
        rig.end();
        let end = if binary == "true" { ".gz" } else { "" };
        assert_eq!(folder.has("1"), end.is_empty());
        let mut rig = Rig::new(&format!(
            "FromIPSummaryDump({path}/1{end}) -> ToIPSummaryDump(-, FIELDS timestamp src sport dst dport aggregate tcp_seq tcp_ack tcp_opt);"
        ));
        rig.run();
        let text = rig.printed().concat();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('!')).collect();
        assert_eq!(lines.len(), 201);
        assert_eq!(lines[199], "5.000000 1.0.0.1 10 2.0.0.1 20 1 5 6 ts1:2");
        assert_eq!(lines[200], "6.000000 2.0.0.1 20 1.0.0.1 10 1 6 5 .");
    }
}

#[test]
fn small_flows_leave_no_file_and_strange_packets_do_no_harm() {
    let folder = Folder::new("flow_min");
    let path = folder.0.display();
    let mut rig = Rig::new(&format!(
        "i :: Inject -> d :: ToIPFlowDumps({path}/%n, MINCOUNT 2) -> Discard;"
    ));
    let packet = udp(([3; 4].into(), 1), ([4; 4].into(), 2), b"abc");
    for (aggregate, length) in [(1, 31), (2, 31), (2, 31), (3, 20), (3, 10), (4, 0)] {
        rig.push_with("i", &packet[..length], |packet| {
            packet.set_anno(AGGREGATE, aggregate);
            packet.set_network_header(0, 20);
        });
    }
    rig.end();
    assert!(!folder.has("1") && folder.has("2") && !folder.has("4"));
    let mut rig = Rig::new("i :: Inject -> ToIPFlowDumps -> Discard;");
    rig.push("i", &packet);
    assert_contains(&rig.printed().concat(), "OUTPUT_PATTERN has no % escapes");
    let errors = Rig::errors("d :: Discard; Idle -> ToIPFlowDumps(%n, NOTIFIER d) -> d;");
    assert!(errors.contains("d is not an AggregateNotifier"), "{errors}");
}
