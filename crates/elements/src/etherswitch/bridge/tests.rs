use proptest::prelude::*;

use super::*;

const TIMES: Times = Times {
    max_age: Ticks(20 * 256),
    hello: Ticks(2 * 256),
    forward_delay: Ticks(15 * 256),
};

/// Bridges with links between their ports, in simulated time.
struct Network {
    bridges: Vec<Bridge>,
    /// The two ends of each link, a bridge and its port, and whether it is whole.
    links: Vec<([(usize, usize); 2], bool)>,
    now: u64,
}

impl Network {
    /// `bridges` bridges, of which the first is the best, with a link for each pair.
    fn new(bridges: usize, pairs: &[(usize, usize)]) -> Network {
        let mut ports = vec![0; bridges];
        let mut plug = |bridge: usize| {
            ports[bridge] += 1;
            (bridge, ports[bridge] - 1)
        };
        let links: Vec<_> = (pairs.iter())
            .map(|(a, b)| ([plug(*a), plug(*b)], true))
            .collect();
        let bridge = |number: usize| {
            let address = EtherAddress([2, 0, 0, 0, 0, number as u8]);
            let settings = Settings {
                id: BridgeId::new(0x8000, address),
                path_cost: 1,
                times: TIMES,
            };
            Bridge::new(settings, ports[number], 0)
        };
        let bridges = (0..bridges).map(bridge).collect();
        Network {
            bridges,
            links,
            now: 0,
        }
    }

    /// Carries what is to be sent, and what follows from it.
    fn carry(&mut self) {
        for _ in 0..1000 {
            let mut carried = false;
            for from in 0..self.bridges.len() {
                for (port, message) in self.bridges[from].take_outbox() {
                    let ends = self.links.iter().filter(|(_, whole)| *whole);
                    let other = ends.filter_map(|([a, b], _)| match (from, port) {
                        end if end == *a => Some(*b),
                        end if end == *b => Some(*a),
                        _ => None,
                    });
                    for (bridge, port) in other.collect::<Vec<_>>() {
                        self.bridges[bridge].receive(port, message, self.now);
                        carried = true;
                    }
                }
            }
            if !carried {
                return;
            }
        }
        panic!("messages do not end");
    }

    /// Lets time pass.
    fn run(&mut self, seconds: u64) {
        let end = self.now + seconds * SECOND;
        loop {
            self.carry();
            let next = self.bridges.iter().filter_map(|bridge| bridge.next()).min();
            self.now = next.unwrap_or(end).clamp(self.now, end);
            if self.now == end {
                return;
            }
            for bridge in &mut self.bridges {
                bridge.run(self.now);
            }
        }
    }

    fn forwards(&self, (bridge, port): (usize, usize)) -> bool {
        self.bridges[bridge].ports()[port].state == State::Forwarding
    }

    /// The bridges that each bridge reaches, by its number; an error if there is a loop.
    fn reach(&self) -> Result<Vec<usize>, &'static str> {
        let mut group: Vec<usize> = (0..self.bridges.len()).collect();
        for ([a, b], whole) in &self.links {
            if !whole || !self.forwards(*a) || !self.forwards(*b) {
                continue;
            }
            let (one, two) = (group[a.0], group[b.0]);
            if one == two {
                return Err("a loop");
            }
            group
                .iter_mut()
                .filter(|g| **g == two)
                .for_each(|g| *g = one);
        }
        Ok(group)
    }

    /// Whether the bridges fall into the same groups over forwarding links as over whole ones.
    fn is_spanned(&self) -> bool {
        let mut group: Vec<usize> = (0..self.bridges.len()).collect();
        for ([a, b], whole) in &self.links {
            let (one, two) = (group[a.0], group[b.0]);
            if *whole {
                group
                    .iter_mut()
                    .filter(|g| **g == two)
                    .for_each(|g| *g = one);
            }
        }
        let reach = self.reach().expect("there is no loop");
        let same = |groups: &[usize], a: usize, b: usize| groups[a] == groups[b];
        let pairs = (0..group.len()).flat_map(|a| (0..group.len()).map(move |b| (a, b)));
        pairs
            .into_iter()
            .all(|(a, b)| same(&group, a, b) == same(&reach, a, b))
    }
}

/// Two times the forward delay, the maximum age, and some hellos.
const SETTLED: u64 = 70;

#[test]
fn a_triangle_becomes_a_tree_and_mends_itself() {
    let mut network = Network::new(3, &[(0, 1), (1, 2), (2, 0)]);
    network.run(SETTLED);
    assert!(network.is_spanned());
    let blocked = |network: &Network| {
        let ports = network.bridges.iter().flat_map(|bridge| bridge.ports());
        ports.filter(|port| port.state == State::Blocking).count()
    };
    assert_eq!(blocked(&network), 1);
    assert!(network.bridges[0].root_port.is_none());
    assert_eq!(network.bridges[2].root_cost, 1);

    network.links[2].1 = false;
    network.run(SETTLED);
    assert!(network.is_spanned());
    assert_eq!(network.bridges[2].root_cost, 2);
    network.links[2].1 = true;
    network.run(SETTLED);
    assert!(network.is_spanned());
    assert_eq!(blocked(&network), 1);
}

#[test]
fn a_new_root_takes_over_when_the_old_one_goes() {
    let mut network = Network::new(4, &[(0, 1), (1, 2), (2, 3), (3, 1), (0, 2)]);
    network.run(SETTLED);
    network.links[0].1 = false;
    network.links[4].1 = false;
    network.run(SETTLED);
    assert!(network.is_spanned());
    assert!(network.bridges[1].root_port.is_none());
    assert_eq!(network.bridges[3].root, network.bridges[1].root);
}

#[test]
fn changes_are_told_to_all_and_come_to_an_end() {
    let mut network = Network::new(3, &[(0, 1), (1, 2), (2, 0)]);
    network.run(2 * SETTLED);
    let changing = |network: &Network| {
        network
            .bridges
            .iter()
            .map(|bridge| bridge.topology_change)
            .collect::<Vec<_>>()
    };
    assert_eq!(changing(&network), [false; 3]);
    // The link in the tree from 1: what follows is a change at 1 and 2, which 0 has to tell.
    network.links[0].1 = false;
    let mut told = vec![false; 3];
    for _ in 0..60 {
        network.run(1);
        told.iter_mut()
            .zip(changing(&network))
            .for_each(|(told, now)| *told |= now);
    }
    assert_eq!(told, [true; 3]);
    network.run(2 * SETTLED);
    assert_eq!(changing(&network), [false; 3]);
}

#[test]
fn nothing_forwards_before_twice_the_forward_delay() {
    let mut network = Network::new(2, &[(0, 1)]);
    network.run(14);
    assert_eq!(network.bridges[1].ports()[0].state, State::Listening);
    network.run(2);
    assert_eq!(network.bridges[1].ports()[0].state, State::Learning);
    network.run(13);
    assert_eq!(network.bridges[1].ports()[0].state, State::Learning);
    network.run(2);
    assert_eq!(network.bridges[1].ports()[0].state, State::Forwarding);
}

#[test]
fn two_ports_on_one_lan_do_not_both_forward() {
    let mut network = Network::new(1, &[(0, 0)]);
    network.run(SETTLED);
    let states: Vec<_> = network.bridges[0]
        .ports()
        .iter()
        .map(|port| port.state)
        .collect();
    assert_eq!(states, [State::Forwarding, State::Blocking]);
}

fn topology() -> impl Strategy<Value = (usize, Vec<(usize, usize)>)> {
    (2usize..6).prop_flat_map(|bridges| {
        let pairs = prop::collection::vec((0..bridges, 0..bridges), 1..9);
        (Just(bridges), pairs)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_network_becomes_a_tree_whatever_links_go(
        (bridges, pairs) in topology(), cuts: [prop::sample::Index; 3]
    ) {
        let mut network = Network::new(bridges, &pairs);
        // The root's news is up to a second older at every bridge, and so waits longer to be old.
        network.run(2 * SETTLED);
        prop_assert!(network.is_spanned());
        for cut in cuts {
            let link = cut.index(pairs.len());
            network.links[link].1 = !network.links[link].1;
            network.run(2 * SETTLED);
            prop_assert!(network.is_spanned(), "{}", format!("after link {link}"));
        }
    }

    #[test]
    fn no_message_breaks_a_bridge(
        messages in prop::collection::vec((0usize..3, any::<[u8; 35]>(), 0u64..40), 1..60)
    ) {
        let settings = Settings {
            id: BridgeId(u64::MAX / 2),
            path_cost: 1,
            times: TIMES,
        };
        let mut bridge = Bridge::new(settings, 3, 0);
        let mut now = 0;
        for (port, bytes, seconds) in messages {
            let mut frame = [0; 52];
            frame[14..17].copy_from_slice(&[0x42, 0x42, 3]);
            frame[17..].copy_from_slice(&bytes);
            frame[17..19].fill(0);
            frame[20] &= 0x80;
            if let Some(message) = Bpdu::parse(&frame) {
                bridge.receive(port, message, now);
            }
            now += seconds * SECOND;
            for _ in 0..1000 {
                bridge.run(now);
                if bridge.next().is_none_or(|next| next > now) {
                    break;
                }
            }
            prop_assert!(bridge.next().is_none_or(|next| next > now), "timers do not end");
            bridge.take_outbox();
        }
    }
}
