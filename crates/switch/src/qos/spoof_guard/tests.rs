use proptest::prelude::*;

use super::*;
use crate::qos::headers::tests::{packet, tagged, udp};

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OWN_V6: &str = "fe80::ff:fe00:1";

fn guard(properties: &str) -> SpoofGuard {
    let properties: PortProperties = properties.parse().unwrap();
    SpoofGuard::new(&properties, Some(MAC)).unwrap().unwrap()
}

/// The verdict by the first 64 bytes, and by all if those are not enough.
fn verdict(guard: &SpoofGuard, frame: &[u8]) -> Result<(), Reason> {
    let mut head = [0; 64];
    let known = frame.len().min(64);
    head[..known].copy_from_slice(&frame[..known]);
    guard
        .check(&head, frame.len())
        .or_else(|NeedsWholeFrame| guard.check(frame, frame.len()))
        .expect("a whole frame is enough")
}

fn arp(hardware: [u8; 6], sender: [u8; 4]) -> Vec<u8> {
    arp_for(hardware, sender, [10, 0, 0, 9])
}

fn arp_for(hardware: [u8; 6], sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(hardware);
    frame.extend(sender);
    frame.extend([0; 6]);
    frame.extend(target);
    frame
}

/// A neighbour solicitation without a source: its sender claims the target as its own address.
fn probe(target: &str) -> Vec<u8> {
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.parse::<Ipv6Addr>().unwrap().octets());
    packet("::", "ff02::1:ff00:5", 58, &message)
}

/// A neighbour advertisement for `target` with the target's link-layer address.
fn advertisement(source: &str, target: &str, hardware: [u8; 6]) -> Vec<u8> {
    let mut message = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
    message.extend(target.parse::<Ipv6Addr>().unwrap().octets());
    message.extend([2, 1]);
    message.extend(hardware);
    packet(source, "ff02::1", 58, &message)
}

fn dhcp_request(client: [u8; 6]) -> Vec<u8> {
    let mut message = vec![1, 1, 6, 0];
    message.extend([0; 24]);
    message.extend(client);
    message.extend([0; 206]);
    udp("0.0.0.0", "255.255.255.255", (68, 67), &message)
}

const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 2];

#[test]
fn frames_from_another_ethernet_address_are_stopped() {
    let guard = guard("protection=mac-nospoof");
    let mut frame = udp("10.0.0.2", "10.0.0.9", (1, 2), &[]);
    assert_eq!(verdict(&guard, &frame), Ok(()));
    frame[11] = 2;
    assert_eq!(verdict(&guard, &frame), Err(Reason::SpoofedMac));
    assert_eq!(verdict(&guard, &arp(MAC.0, [10, 0, 0, 66])), Ok(()));
    assert_eq!(
        verdict(&guard, &arp(OTHER, [10, 0, 0, 2])),
        Err(Reason::SpoofedMac)
    );
    assert_eq!(
        verdict(&guard, &advertisement(OWN_V6, "fd00::2", MAC.0)),
        Ok(())
    );
    let claim = advertisement(OWN_V6, "fd00::2", OTHER);
    assert_eq!(verdict(&guard, &claim), Err(Reason::SpoofedMac));
    assert_eq!(verdict(&guard, &tagged(claim, 7)), Err(Reason::SpoofedMac));
}

#[test]
fn packets_from_another_ip_address_are_stopped() {
    let guard = guard("protection=ip-nospoof,allowed-ips=10.0.0.2+fd00:0:0:7::/64");
    let own = [
        udp("10.0.0.2", "10.0.0.9", (1, 2), &[]),
        udp("fd00:0:0:7::5", "fd00::9", (1, 2), &[]),
        packet(OWN_V6, "ff02::1", 58, &[133, 0, 0, 0, 0, 0, 0, 0]),
        arp(MAC.0, [10, 0, 0, 2]),
        arp_for(MAC.0, [0; 4], [10, 0, 0, 2]),
        dhcp_request(MAC.0),
        advertisement("fd00:0:0:7::5", "fd00:0:0:7::5", MAC.0),
        probe("fd00:0:0:7::5"),
        probe(OWN_V6),
        packet("::", "ff02::16", 58, &[143, 0, 0, 0, 0, 0, 0, 0]),
    ];
    for frame in own {
        assert_eq!(verdict(&guard, &frame), Ok(()), "{frame:02x?}");
        assert_eq!(verdict(&guard, &tagged(frame, 7)), Ok(()));
    }
    let others = [
        udp("10.0.0.3", "10.0.0.9", (1, 2), &[]),
        udp("0.0.0.0", "10.0.0.9", (1, 2), &[]),
        udp("fd00:0:0:8::5", "fd00::9", (1, 2), &[]),
        udp("fe80::1", "fd00::9", (1, 2), &[]),
        arp(MAC.0, [10, 0, 0, 3]),
        advertisement("fd00:0:0:7::5", "fd00:0:0:8::5", MAC.0),
        arp_for(MAC.0, [0; 4], [10, 0, 0, 3]),
        probe("fd00:0:0:8::5"),
        packet("::", "ff02::1", 58, &[128, 0, 0, 0]),
        // Half a header.
        udp("10.0.0.2", "10.0.0.9", (1, 2), &[])[..30].to_vec(),
    ];
    for frame in others {
        assert_eq!(
            verdict(&guard, &frame),
            Err(Reason::SpoofedIp),
            "{frame:02x?}"
        );
    }
}

#[test]
fn an_advertisement_in_fragments_is_stopped_since_it_cannot_be_checked() {
    let guard = guard("protection=ip-nospoof,allowed-ips=fd00::5");
    let mut message = vec![58, 0, 0, 1, 0, 0, 0, 1];
    message.extend([136, 0, 0, 0, 0x60, 0, 0, 0]);
    let frame = packet("fd00::5", "ff02::1", 44, &message);
    assert_eq!(verdict(&guard, &frame), Err(Reason::SpoofedIp));
}

#[test]
fn dhcp_is_spoken_for_the_ports_own_address_and_by_no_server() {
    let guard = guard("protection=dhcp-nospoof");
    assert_eq!(verdict(&guard, &dhcp_request(MAC.0)), Ok(()));
    assert_eq!(
        verdict(&guard, &dhcp_request(OTHER)),
        Err(Reason::SpoofedDhcp)
    );
    let short = &dhcp_request(MAC.0)[..60];
    assert_eq!(verdict(&guard, short), Err(Reason::SpoofedDhcp));
    for server in [
        udp("10.0.0.1", "10.0.0.9", (67, 68), &[0; 300]),
        udp("fe80::1", "fe80::2", (547, 546), &[0; 40]),
    ] {
        assert_eq!(verdict(&guard, &server), Err(Reason::SpoofedDhcp));
    }
    let mut from_another = udp("10.0.0.1", "10.0.0.9", (53, 53), &[]);
    from_another[11] = 2;
    assert_eq!(
        verdict(&guard, &from_another),
        Ok(()),
        "that is mac-nospoof's"
    );
}

#[test]
fn a_restricted_port_sends_ip_and_arp_alone() {
    let guard = guard("protection=restricted");
    assert_eq!(
        verdict(&guard, &udp("10.0.0.1", "10.0.0.2", (1, 2), &[])),
        Ok(())
    );
    assert_eq!(
        verdict(&guard, &tagged(udp("::1", "::2", (1, 2), &[]), 5)),
        Ok(())
    );
    assert_eq!(verdict(&guard, &arp(OTHER, [10, 0, 0, 1])), Ok(()));
    let mut lldp = vec![1, 0x80, 0xc2, 0, 0, 14, 2, 0, 0, 0, 0, 1, 0x88, 0xcc];
    lldp.extend([0; 40]);
    assert_eq!(verdict(&guard, &lldp), Err(Reason::Restricted));
    assert_eq!(verdict(&guard, &tagged(lldp, 5)), Err(Reason::Restricted));
}

#[test]
fn a_port_without_an_address_cannot_be_held_to_it() {
    let properties: PortProperties = "protection=mac-nospoof".parse().unwrap();
    let refused = SpoofGuard::new(&properties, None).unwrap_err().to_string();
    assert!(
        refused.starts_with("protection=mac-nospoof needs"),
        "{refused}"
    );
    assert!(
        SpoofGuard::new(&PortProperties::default(), None)
            .unwrap()
            .is_none()
    );
}

proptest! {
    #[test]
    fn any_frame_gets_the_same_verdict_by_its_head_or_asks_for_the_rest(
        kind in prop_oneof![Just([8u8, 0]), Just([0x86, 0xdd]), Just([8, 6]), Just([0x81, 0]), any::<[u8; 2]>()],
        own in any::<bool>(),
        version in prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()],
        rest in proptest::collection::vec(any::<u8>(), 0..160),
    ) {
        let mut frame = vec![0xff; 6];
        frame.extend(if own { MAC.0 } else { OTHER });
        frame.extend(kind);
        frame.push(version);
        frame.extend(rest);
        for protection in ["mac-nospoof", "ip-nospoof,allowed-ips=10.0.0.2", "dhcp-nospoof", "restricted"] {
            let guard = guard(&format!("protection={protection}"));
            let whole = guard.check(&frame, frame.len());
            prop_assert!(whole.is_ok());
            let by_head = guard.check(&frame[..frame.len().min(64)], frame.len());
            prop_assert!(by_head.is_err() && frame.len() > 64 || by_head == whole);
            if protection == "mac-nospoof" && !own {
                prop_assert_eq!(whole, Ok(Err(Reason::SpoofedMac)));
            }
            // What passes as IPv4 is from the port's own address or from none yet.
            if protection.starts_with("ip") && kind == [8, 0] && whole == Ok(Ok(())) {
                let source = &frame[26..30];
                prop_assert!(source == [10, 0, 0, 2] || source == [0; 4]);
            }
        }
    }
}
