use crate::headers::link_type::LinkType;
use crate::testing::*;
use crate::userlevel::capture::{Record, file_header, record_header};
use crate::userlevel::testing::TempFile;

const SECOND: i64 = 1_000_000_000;

/// A file of Ethernet packets that hold their number, at these seconds.
fn file(name: &str, link: LinkType, seconds: &[i64]) -> TempFile {
    let mut bytes = file_header(true, 65535, link).to_vec();
    for (n, second) in seconds.iter().enumerate() {
        let record = Record {
            time: second * SECOND,
            captured: 20,
            length: 25,
        };
        bytes.extend(record_header(&record, true));
        bytes.extend([n as u8; 20]);
    }
    let file = TempFile::new(name);
    file.write(&bytes);
    file
}

fn numbers(rig: &mut Rig) -> Vec<u8> {
    rig.data("c").iter().map(|data| data[0]).collect()
}

#[test]
fn packets_are_read_with_what_is_known_of_them() {
    let file = file("plain", LinkType::ETHERNET, &[1000, 1001]);
    for batch in [1, 64] {
        let config = format!("f :: FromDump({file}, STOP true) -> c :: Collect;");
        let mut rig = Rig::with_batch(&config, batch);
        assert_eq!(rig.run(), Status::Stopped);
        let packets = rig.collected("c");
        assert_eq!(packets.len(), 2);
        assert_eq!(packets[1].data(), [1; 20]);
        assert_eq!(packets[1].timestamp(), 1001 * SECOND);
        assert_eq!(packets[1].mac_offset(), Some(0));
        assert_eq!(packets[1].anno(EXTRA_LENGTH), 5);
        rig.assert_handlers(&[("f.count", "2"), ("f.encap", "ETHER")]);
        assert_eq!(rig.read("f.filename"), file.to_string());
        rig.assert_handlers(&[("f.filesize", "96"), ("f.filepos", "96")]);
        assert_eq!(rig.read("f.active"), "false");
    }
}

#[test]
fn a_part_of_the_file_can_be_asked_for() {
    let file = file(
        "part",
        LinkType::ETHERNET,
        &[1000, 1001, 1002, 1003, 1004, 1005],
    );
    for (args, expected) in [
        ("START 1003", &[3, 4, 5][..]),
        ("START_AFTER 4", &[4, 5]),
        ("END 1002", &[0, 1]),
        ("END_AFTER 3", &[0, 1, 2]),
        ("START_AFTER 2, INTERVAL 2", &[2, 3]),
        ("START 1001, INTERVAL 3s", &[1, 2, 3]),
        ("SAMPLE 0", &[]),
        ("FILEPOS 60", &[1, 2, 3, 4, 5]),
        ("ACTIVE false", &[]),
    ] {
        let mut rig = Rig::new(&format!("f :: FromDump({file}, {args}) -> c :: Collect;"));
        rig.run();
        assert_eq!(numbers(&mut rig), expected, "{args}");
    }
}

#[test]
fn a_sample_is_drawn() {
    let file = file("sample", LinkType::ETHERNET, &[1000; 1000]);
    let mut rig = Rig::new(&format!(
        "f :: FromDump({file}, SAMPLE 0.25) -> c :: Collect;"
    ));
    rig.run();
    let count = rig.collected("c").len();
    assert!((190..310).contains(&count), "{count}");
    assert_eq!(rig.read("f.sampling_prob"), "0.25");
}

#[test]
fn the_end_can_be_moved_while_it_runs() {
    let file = file(
        "extend",
        LinkType::ETHERNET,
        &[1000, 1001, 1002, 1003, 1004],
    );
    let mut rig = Rig::new(&format!(
        "f :: FromDump({file}, END_AFTER 2) -> c :: Collect;"
    ));
    rig.run();
    assert_eq!(numbers(&mut rig), [0, 1]);
    rig.assert_handlers(&[("f.active", "false"), ("f.scheduled", "false")]);
    rig.write("f.extend_interval", "2");
    rig.run();
    // The packet at the end was passed over when the end was reached.
    assert_eq!(numbers(&mut rig), [3]);
}

#[test]
fn an_end_call_may_move_the_end() {
    let file = file("call", LinkType::ETHERNET, &[1000, 1001, 1002, 1003, 1004]);
    for batch in [1, 64] {
        let config = format!(
            "f :: FromDump({file}, END_AFTER 2, END_CALL f.extend_interval 2) -> c :: Collect;"
        );
        let mut rig = Rig::with_batch(&config, batch);
        for _ in 0..20 {
            rig.step();
        }
        assert_eq!(numbers(&mut rig), [0, 1, 2, 3, 4]);
    }
}

#[test]
fn the_end_call_comes_after_the_last_packet() {
    let file = file("order", LinkType::ETHERNET, &[1000, 1001, 1002]);
    let config =
        format!("f :: FromDump({file}, END_CALL n.reset) -> n :: Counter -> c :: Collect;");
    let mut rig = Rig::new(&config);
    rig.run();
    assert_eq!(rig.read("n.count"), "0");
}

#[test]
fn timing_keeps_the_distances_in_time() {
    let file = file("timing", LinkType::ETHERNET, &[1000, 1001, 1003]);
    for output in ["c :: Collect", "Unqueue -> c :: Collect"] {
        let mut rig = Rig::new(&format!("f :: FromDump({file}, TIMING true) -> {output};"));
        rig.run();
        assert_eq!(numbers(&mut rig), [0]);
        rig.advance(999_000_000);
        assert_eq!(numbers(&mut rig), []);
        rig.advance(1_500_000_000);
        assert_eq!(numbers(&mut rig), [1]);
        rig.advance(1_500_000_000);
        assert_eq!(numbers(&mut rig), [2]);
    }
}

#[test]
fn a_pull_at_the_end_sleeps() {
    let file = file("pull", LinkType::ETHERNET, &[1000; 5]);
    let config = format!("f :: FromDump({file}, STOP true) -> u :: Unqueue -> c :: Collect;");
    let mut rig = Rig::new(&config);
    assert_eq!(rig.run(), Status::Stopped);
    assert_eq!(rig.collected("c").len(), 5);
    let config = format!("f :: FromDump({file}) -> u :: Unqueue -> c :: Collect;");
    let mut rig = Rig::new(&config);
    rig.run();
    assert_eq!(rig.read("u.scheduled"), "false");
}

#[test]
fn force_ip_sorts_out_what_is_not_ip() {
    let file = TempFile::new("force_ip");
    let ip = udp(([1, 0, 0, 1].into(), 1), ([2, 0, 0, 2].into(), 2), &[]);
    let config = format!("i :: Inject -> ToDump({file});");
    let mut rig = Rig::new(&config);
    rig.push("i", &ether([1; 6], [2; 6], 0x806, &ip));
    rig.push("i", &ether([1; 6], [2; 6], 0x800, &ip));
    rig.end();
    let config =
        format!("f :: FromDump({file}, FORCE_IP true) -> c :: Collect; f[1] -> o :: Collect;");
    let mut rig = Rig::new(&config);
    rig.run();
    let packets = rig.collected("c");
    assert_eq!(packets.len(), 1);
    assert_eq!(packets[0].network_offset(), Some(14));
    assert_eq!(packets[0].dst_ip().octets(), [2, 0, 0, 2]);
    assert_eq!(rig.collected("o").len(), 1);
    assert_eq!(rig.read("f.count"), "1");
}

#[test]
fn raw_ip_is_always_marked() {
    let file = TempFile::new("raw");
    let ip = udp(([1, 0, 0, 1].into(), 1), ([2, 0, 0, 2].into(), 2), &[]);
    let mut rig = Rig::new(&format!("i :: Inject -> ToDump({file}, ENCAP IP);"));
    rig.push("i", &ip);
    rig.end();
    let mut rig = Rig::new(&format!("f :: FromDump({file}) -> c :: Collect;"));
    rig.run();
    assert_eq!(rig.collected("c")[0].network_header_len(), 20);
    assert_eq!(rig.read("f.encap"), "IP");
}

#[test]
fn positions_can_be_gone_to() {
    let file = file("position", LinkType::ETHERNET, &[1000; 4]);
    let mut rig = Rig::new(&format!("f :: FromDump({file}) -> c :: Collect;"));
    rig.run();
    assert_eq!(numbers(&mut rig), [0, 1, 2, 3]);
    rig.write("f.filepos", "96");
    rig.write("f.active", "true");
    rig.run();
    assert_eq!(numbers(&mut rig), [2, 3]);
    assert_eq!(rig.read("f.packet_filepos"), "168");
    assert!(rig.try_write("f.filepos", "999").is_err());
}

#[test]
fn wrong_arguments_and_files_are_refused_in_clicks_words() {
    let error = |args: &str| Rig::errors(&format!("FromDump({args}) -> Discard;"));
    let contains = |text: &str, part: &str| assert!(text.contains(part), "{text}");
    contains(&error("/nowhere"), "/nowhere: No such file or directory");
    contains(
        &error("x, START 1, START_AFTER 2"),
        "START and START_AFTER are mutually exclusive",
    );
    contains(
        &error("x, END 1, INTERVAL 2"),
        "END, END_AFTER, and INTERVAL are mutually exclusive",
    );
    contains(
        &error("x, STOP true, END_CALL stop"),
        "END_CALL and STOP are mutually exclusive",
    );
    let file = TempFile::new("wrong");
    file.write(b"this is no capture file at all");
    let error_of_file = error(&file.to_string());
    contains(&error_of_file, &format!(":: FromDump({file})':\n"));
    let expected = format!("\n{file}:   not a tcpdump file (bad magic number)\n");
    contains(&error_of_file, &expected);
    let aironet = self::file("aironet", LinkType::AIRONET, &[]);
    let args: String = format!("{aironet}, FORCE_IP true");
    contains(
        &error(&args),
        "unknown linktype 120; can't force IP packets",
    );
    contains(
        &error(&format!("{aironet}, FILEPOS 99")),
        "FILEPOS out of range",
    );
}

#[test]
fn a_broken_file_ends_with_a_message() {
    let file = file("broken", LinkType::ETHERNET, &[1000, 1001]);
    let mut bytes = file.read();
    bytes[24 + 36 + 8..24 + 36 + 16].fill(0xff);
    file.write(&bytes);
    let mut rig = Rig::new(&format!(
        "f :: FromDump({file}, STOP true) -> c :: Collect;"
    ));
    assert_eq!(rig.run(), Status::Stopped);
    assert_eq!(numbers(&mut rig), [0]);
    assert_eq!(
        rig.printed(),
        [format!("{file}: bad packet header; giving up")]
    );
    rig.assert_handlers(&[("f.packet_filepos", "60"), ("f.filepos", "76")]);
    rig.assert_handlers(&[("f.encap", "ETHER"), ("f.count", "1")]);
}

#[test]
fn reading_goes_on_elsewhere_in_a_broken_file() {
    let file = file("elsewhere", LinkType::ETHERNET, &[1000, 1001]);
    let mut bytes = file.read();
    bytes[24 + 36 + 8..24 + 36 + 16].fill(0xff);
    file.write(&bytes);
    let mut rig = Rig::new(&format!("f :: FromDump({file}) -> c :: Collect;"));
    rig.run();
    rig.write("f.active", "true");
    rig.run();
    assert_eq!(rig.read("f.count"), "1");
    rig.write("f.filepos", "24");
    rig.write("f.active", "true");
    rig.run();
    assert_eq!(numbers(&mut rig), [0, 0]);
    assert_eq!(rig.printed().len(), 2);
}

#[test]
fn a_file_that_was_cut_off_is_read_to_its_end() {
    let file = file("short", LinkType::ETHERNET, &[1000, 1001]);
    let mut bytes = file.read();
    bytes.truncate(24 + 36 + 20);
    file.write(&bytes);
    let mut rig = Rig::new(&format!("f :: FromDump({file}) -> c :: Collect;"));
    rig.run();
    assert_eq!(numbers(&mut rig), [0]);
    rig.assert_handlers(&[("f.packet_filepos", "60"), ("f.filepos", "80")]);
}
