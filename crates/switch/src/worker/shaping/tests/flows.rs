//! Flows: frames wait for their rates.

use super::*;

/// A UDP packet of 1000 bytes from the first guest to another.
fn udp(to: u8, port: u8, n: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 3, 0xd8];
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 9, 0, port, 3, 0xc4, 0, 0]);
    frame.resize(1000, n);
    frame
}

#[test]
fn a_frame_keeps_to_its_senders_flow_and_to_its_receivers() {
    for (sender, receiver) in [("", "maxbw=2M"), ("maxbw=2M", ""), ("maxbw=9M", "maxbw=2M")] {
        // To one port, and to all.
        for to in [2, 0xff] {
            let mut net = Net::new(1);
            let (mut a, mut b) = (net.guest(1, ""), net.guest(2, ""));
            let mut add = |name, guest: &NetGuest, properties: &str| {
                let attributes = "transport=udp".parse().unwrap();
                let on = FlowOn::Port(guest.port);
                let properties = properties.parse().unwrap();
                net.lanes
                    .add_flow(name, on, attributes, properties)
                    .unwrap();
            };
            add("tx", &a, sender);
            add("rx", &b, receiver);
            let started = Instant::now();
            let frames: Vec<_> = (0..60).map(|n| udp(to, 7, n)).collect();
            for frame in &frames {
                assert!(a.send(frame));
            }
            assert_eq!(receive_all(&mut b, 60), frames);
            // 60 KB at 250 KB a second, but for what the bucket holds at first and a frame.
            let least = (60_000.0 - 6000.0) / 250_000.0;
            assert!(
                started.elapsed().as_secs_f64() > least,
                "{sender}/{receiver} to {to}"
            );
            for flow in net.lanes.flows(None) {
                assert_eq!((flow.stats.frames, flow.stats.dropped), (60, 0));
            }
        }
    }
}

#[test]
fn what_waits_for_a_flow_goes_on_when_that_is_removed() {
    let mut net = Net::new(1);
    let (mut a, mut b) = (net.guest(1, ""), net.guest(2, ""));
    let (flow, limit) = (
        "transport=udp".parse().unwrap(),
        "maxbw=100K".parse().unwrap(),
    );
    let on = FlowOn::Port(a.port);
    net.lanes.add_flow("slow", on, flow, limit).unwrap();
    let frames: Vec<_> = (0..40).map(|n| udp(2, 7, n)).collect();
    for frame in &frames {
        assert!(a.send(frame));
    }
    until(|| net.stats(&a).frames_in == 40);
    net.lanes.remove_flow("slow").unwrap();
    assert_eq!(receive_all(&mut b, 40), frames);
}

#[test]
fn a_limited_flow_waits_in_its_line_and_the_rest_of_the_port_does_not() {
    let mut net = Net::new(1);
    let (mut a, mut b) = (net.guest(1, ""), net.guest(2, ""));
    let flow = "transport=udp,remote_port=7".parse().unwrap();
    let limit = "maxbw=1M".parse().unwrap();
    let on = FlowOn::Port(a.port);
    net.lanes.add_flow("slow", on, flow, limit).unwrap();
    let udp = |port: u8, n: u8| udp(2, port, n);
    for n in 0..50 {
        assert!(a.send(&udp(7, n)));
    }
    assert!(a.send(&udp(8, 99)));
    let mut got = receive_all(&mut b, 51);
    let early = got.iter().position(|frame| *frame == udp(8, 99)).unwrap();
    got.retain(|frame| *frame != udp(8, 99));
    assert_eq!(got, (0..50).map(|n| udp(7, n)).collect::<Vec<_>>());
    let slow = net.lanes.flows(None).next().unwrap().stats;
    assert_eq!((slow.frames, slow.bytes, slow.dropped), (50, 50_000, 0));
    assert!(early < 50 && slow.held > 0, "{early} early, {slow:?}");
}
