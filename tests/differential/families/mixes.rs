//! Configurations of 5 to 40 elements.

use crate::case::{Case, Link};
use crate::mix::mix;
use crate::packets::{self, Ip};
use crate::random::Random;

pub fn make(random: &mut Random, size: usize) -> Case {
    let (statements, sinks) = mix(random, 5 + size * 35 / 10);
    let mut case = Case {
        link: Link::Ethernet,
        ..Case::default()
    };
    // Simple queues and schedulers tell nobody that they are empty, so that simulated time would stand still.
    let notifies = |statement: String| {
        let statement = statement.replace(":: SimpleQueue", ":: Queue");
        statement.replace(":: SimpleRoundRobinSched", ":: RoundRobinSched")
    };
    case.config.extend(statements.into_iter().map(notifies));
    case.config.push("FromDump(packets.pcap) -> in;".into());
    case.handlers = (0..sinks).map(|sink| format!("s{sink}.count")).collect();
    case.packets = packets::stamped(random, 50, |random| {
        let mut frame = vec![0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 8, 0];
        let protocol = *random.pick(&[1, 6, 17]);
        let mut ip = Ip::new(random, protocol);
        ip.ttl = 64;
        frame.extend(ip.bytes());
        frame
    });
    case
}
