//! VLANs, delay, and patches.

use super::*;

#[test]
fn a_delayed_port_gets_everything_in_order_and_late() {
    let mut net = Net::new(1);
    let (mut a, mut b) = (net.guest(1, ""), net.guest(2, "delay=30ms,jitter=20ms"));
    let started = Instant::now();
    let frames: Vec<_> = (0..200)
        .map(|n| a.frame(2, n, 60 + 7 * n as usize))
        .collect();
    for frame in &frames {
        assert!(a.send(frame));
    }
    let got = receive_all(&mut b, 1);
    assert!(started.elapsed() >= Duration::from_millis(10));
    let mut all = got;
    all.extend(receive_all(&mut b, 200 - all.len()));
    assert_eq!(all, frames);
}

#[test]
fn what_is_under_way_arrives_at_its_time_whatever_the_port_is_given() {
    for then in [
        "delay=300ms,cpus=0,share=7",
        "delay=200ms,cpus=0,maxbw=1G",
        "delay=300ms,cpus=1",
        "loss=0%,cpus=0",
        "",
    ] {
        let mut net = Net::new(2);
        // On one lane: what was taken there is in the line before the port is given anything.
        let (mut a, mut b) = (net.guest(1, "cpus=0"), net.guest(2, "delay=300ms,cpus=0"));
        let started = Instant::now();
        let frames: Vec<_> = (0..40).map(|n| a.frame(2, n, 100)).collect();
        for frame in &frames {
            assert!(a.send(frame));
        }
        until(|| net.stats(&a).frames_in == 40);
        net.set(&b, then);
        assert_eq!(receive_all(&mut b, 40), frames, "{then:?}");
        let early = started.elapsed() < Duration::from_millis(300);
        assert!(!early || !then.contains("delay"), "{then:?}");
        assert_eq!(net.stats(&b).drops().count(), 0, "{then:?}");
    }
}

#[test]
fn a_frame_bears_its_vlan_on_trunks_alone() {
    let mut net = Net::new(1);
    let (mut a, mut b) = (net.guest(1, "vlan=7"), net.guest(2, "vlan=7"));
    let (mut other, mut trunk) = (net.guest(3, "vlan=8"), net.guest(4, ""));
    for len in [60, 64, 65, 68, 1000, 1514] {
        let bare = a.frame(255, len as u32, len);
        let bare = [&[0xff; 6], &bare[6..]].concat();
        let mut tagged = bare.clone();
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        assert!(a.send(&bare));
        assert_eq!(receive_all(&mut b, 1), std::slice::from_ref(&bare));
        assert_eq!(receive_all(&mut trunk, 1), [tagged.clone()]);
        let mut back = tagged.clone();
        back[11] = 4;
        assert!(trunk.send(&back));
        back.drain(12..16);
        assert_eq!(receive_all(&mut a, 1), [back.clone()]);
        assert_eq!(receive_all(&mut b, 1), [back]);
    }
    assert!(other.receive().is_empty());
}

#[test]
fn what_comes_through_a_patch_to_a_limited_port_waits_in_its_line() {
    use crate::lanes::PatchEnd;
    let mut net = Net::new(1);
    let end = |name: &str, domain| PatchEnd {
        name: name.into(),
        domain,
        properties: Default::default(),
    };
    net.lanes
        .attach_patch([end("left", 0), end("right", 1)])
        .unwrap();
    let mut a = net.guest(1, "maxbw=100M");
    net.domain = 1;
    let (mut b, mut c) = (net.guest(2, "maxbw=1M"), net.guest(3, ""));
    let hello = b.frame(1, 0, 60);
    assert!(b.send(&hello));
    assert_eq!(receive_all(&mut a, 1), [hello]);
    let slow: Vec<_> = (0..60).map(|n| a.frame(2, n, 1000)).collect();
    for frame in &slow {
        assert!(a.send(frame));
    }
    let quick = a.frame(3, 1, 1000);
    assert!(a.send(&quick));
    receive_until(&mut c, &quick);
    assert!(
        b.receive().len() < 50,
        "the quick one overtakes the waiting ones"
    );
    let stats = net.stats(&b);
    assert!(stats.frames_out < 60 && stats.drops().count() == 0);
    let got = receive_until(&mut b, &slow[59]);
    assert!(got.len() > 10 && got.ends_with(&slow[50..]), "in order");
}

/// Joins domains 0 and 1.
fn join(net: &mut Net, properties: &str) {
    let end = |domain: u32| PatchEnd {
        name: format!("end{domain}"),
        domain,
        properties: properties.parse().unwrap(),
    };
    net.lanes.attach_patch([end(0), end(1)]).unwrap();
}

#[test]
fn a_vlans_frames_bear_its_tag_beyond_a_patch_as_on_a_bridges_trunk() {
    for lanes in [1, 2] {
        let mut net = Net::new(lanes);
        let mut access = net.guest(1, "vlan=7");
        net.domain = 1;
        let (mut far, mut other) = (net.guest(2, ""), net.guest(3, ""));
        join(&mut net, "");
        let plain = access.frame(2, 1, 100);
        let mut tagged = plain.clone();
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        assert!(access.send(&plain));
        assert_eq!(receive_all(&mut far, 1), [tagged], "on {lanes} lanes");
        // Of what comes back, the VLAN's is bared, and nothing else arrives.
        let back = far.frame(1, 2, 100);
        for vlan in [8, 7] {
            let mut tagged = back.clone();
            tagged.splice(12..12, [0x81, 0, 0, vlan]);
            assert!(far.send(&tagged));
        }
        assert_eq!(receive_all(&mut access, 1), [back]);
        // What is for all bears it, too.
        let mut all = access.frame(0xff, 3, 100);
        all[..6].fill(0xff);
        assert!(access.send(&all));
        all.splice(12..12, [0x81, 0, 0, 7]);
        for guest in [&mut far, &mut other] {
            receive_until(guest, &all);
        }
        assert!(access.receive().is_empty());
    }
}

#[test]
fn a_patch_delays_in_each_direction_what_goes_through_it() {
    let mut net = Net::new(1);
    let mut near = net.guest(1, "");
    net.domain = 1;
    let mut far = net.guest(2, "");
    join(&mut net, "delay=20ms");
    for _ in 0..2 {
        let (from, to) = (&mut near, &mut far);
        let frame = from.frame(to.mac, 1, 100);
        let started = Instant::now();
        assert!(from.send(&frame));
        assert_eq!(receive_all(to, 1), [frame]);
        let took = started.elapsed();
        assert!(took >= Duration::from_millis(20), "{took:?}");
        std::mem::swap(&mut near, &mut far);
    }
}
