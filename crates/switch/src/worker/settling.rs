//! Settling flows: what guests say, checked against what the guest and the switch would do with the packets.

use std::sync::Arc;

use abi::settle::{Settled, Side, TCP, UDP};
use rustix::io::Errno;

use super::Worker;
use super::table::{Passage, PortEntry, Table};
use crate::ids::{Generation, PortIndex};
use crate::mac::Mac;
use crate::settled::{Asked, Hop, Key, Path, SettledFlows, Unsettled};

impl Worker {
    /// Takes the messages of the batch under way, which the guest of port `from` sent.
    #[cold]
    pub(super) fn settle_flows(&mut self, from: PortIndex) {
        let messages = std::mem::take(&mut self.forwarding.batch.messages);
        if let Some(settled) = self.table.settled.clone() {
            for message in messages.iter().filter_map(Settled::from_bytes) {
                // What is looked at from here on is no older than the epochs.
                let Some(ends) = ends(&self.table, from, &message) else {
                    continue;
                };
                let epochs = settled.epochs_of(&ends);
                let [_, to, from, _] = ends.ports;
                let [Some(to), Some(from)] = [to, from].map(|port| {
                    let entry = self.table.ports.get(port);
                    entry.map(|entry| (port, entry.generation))
                }) else {
                    continue;
                };
                let asked = Asked {
                    ports: [to, from],
                    said: message,
                };
                let decided = decide(&self.table, &ends, &message);
                let done = decided.and_then(|decided| match decided {
                    Some(rule) => settled.settle(&asked, rule, epochs),
                    None => Ok(()),
                });
                // A flow that cannot be settled goes on as it came.
                if let Err(why) = done {
                    settled.refuse(asked, why);
                }
            }
        }
        self.forwarding.batch.messages = messages;
        self.forwarding.batch.messages.clear();
    }

    /// From now on, flows can be settled.
    pub(crate) fn set_settled(&mut self, settled: Arc<SettledFlows>) {
        self.table.settled = Some(settled);
    }

    /// The kernel may pass frames on that come by this port's interface: its sockets of this lane take no frames of
    /// settled flows from now on.
    pub(crate) fn set_passage(&mut self, port: PortIndex, passage: Passage) -> Result<(), Errno> {
        let (Some(settled), Some(entry)) = (&self.table.settled, self.table.ports.get_mut(port))
        else {
            return Ok(());
        };
        for queue in &entry.queues {
            if let Some(queue) = self.table.queues.get(*queue) {
                for socket in queue.link.files() {
                    settled.filter(socket)?;
                }
            }
        }
        entry.passage = Some(passage);
        Ok(())
    }

    /// Looks up what the guest of port `to` is to be told of the flows of these frames, if anything.
    #[cold]
    pub(super) fn find_passed(&mut self, to: PortIndex, which: &[u16]) {
        let Worker {
            table, forwarding, ..
        } = self;
        let Some(settled) = &table.settled else {
            return;
        };
        let domain = table.ports.get(to).map(|port| port.domain);
        let Some(domain) = domain.and_then(|domain| table.domains.get(domain)) else {
            return;
        };
        let batch = &mut forwarding.batch;
        let key = |&i: &u16| {
            let head = batch.frames().get(usize::from(i))?.head();
            let (side, layout) = Side::of_any(head)?;
            let from = domain.lookup.behind(split(&side.macs).1)?;
            let link = passage(table, from)?.interface;
            Some((i, key(link, &side, layout.protocol)))
        };
        for (frame, key) in settled.to_tell(to, which.iter().filter_map(key)) {
            batch.passed.push(frame);
            forwarding.passed_keys.push(key);
        }
    }

    /// Keeps what the guest of port `to` could not be told.
    #[cold]
    pub(super) fn keep_untold(&mut self, to: PortIndex) {
        let passed = &mut self.forwarding.batch.passed;
        let keys = &mut self.forwarding.passed_keys;
        if let Some(settled) = &self.table.settled {
            settled.keep_untold(to, passed, keys);
        }
        passed.clear();
        keys.clear();
    }

    /// Says which ports a guest has, in the order of its interfaces.
    pub(crate) fn set_siblings(&mut self, siblings: &Arc<[(PortIndex, Generation)]>) {
        for (port, _) in siblings.iter() {
            if let Some(entry) = self.table.ports.get_mut(*port) {
                entry.siblings = Some(Arc::clone(siblings));
            }
        }
    }

    /// Takes back what a guest has settled that came by this port.
    pub(crate) fn take_back_of_guest(&self, port: PortIndex) {
        let siblings = self.table.ports.get(port);
        let siblings = siblings.and_then(|entry| entry.siblings.as_deref());
        if let Some(settled) = &self.table.settled {
            for (sibling, _) in siblings.unwrap_or_default() {
                settled.take_back_of_port(*sibling);
            }
        }
    }
}

/// The guest's ports by which a flow's packets come and, as the guest of port `from` says, leave; the other ports of the
/// path are not known yet.
fn ends(table: &Table, from: PortIndex, said: &Settled) -> Option<Path> {
    let leaves = table.ports.get(from)?;
    let siblings = leaves.siblings.as_deref()?;
    let &(to, generation) = siblings.get(usize::from(said.interface))?;
    let comes = table.ports.get(to)?;
    (comes.generation == generation).then_some(Path {
        ports: [to, to, from, from],
        domains: [comes.domain, leaves.domain],
    })
}

type Decided = Option<(Key, Hop, Path)>;

/// The rule for a flow of which a guest says that it is settled between these `ends`; an error if the guest could not do
/// with its packets what it says, or the switch would not pass them on as the kernel does; `None` if it is no flow.
fn decide(table: &Table, ends: &Path, said: &Settled) -> Result<Decided, Unsettled> {
    let [_, to, from, _] = ends.ports;
    let [comes, leaves] = [to, from].map(|port| table.ports.get(port));
    let [of_coming, of_leaving] = ends.domains.map(|domain| table.domains.get(domain));
    let ((Some(comes), Some(leaves)), (Some(of_coming), Some(of_leaving))) =
        ((comes, leaves), (of_coming, of_leaving))
    else {
        return Ok(None);
    };
    if !matches!(said.protocol, TCP | UDP) || said.hops > 1 {
        return Ok(None);
    }
    let [out, into] = [&said.after, &said.before].map(|side| split(&side.macs));
    let both = |is: fn(&PortEntry) -> bool| is(comes) && is(leaves);
    let must = |is: bool, why: Unsettled| if is { Ok(()) } else { Err(why) };
    must(both(|port| port.settles), Unsettled::Off)?;
    let is_same =
        (said.before.addresses, said.before.ports) == (said.after.addresses, said.after.ports);
    let are_ip4 = said.before.is_ip4() && said.after.is_ip4();
    must(is_same || are_ip4, Unsettled::Translated)?;
    must(both(|port| port.front.is_none()), Unsettled::OnDemand)?;
    must(both(|port| port.vlan == 0), Unsettled::Vlan)?;
    must(
        of_coming.shaped + of_leaving.shaped == 0,
        Unsettled::Limited,
    )?;
    must(
        of_coming.lookup.learns() && of_leaving.lookup.learns(),
        Unsettled::Lookup,
    )?;
    // They come by an interface of the host, and to this port alone.
    let a = of_coming.lookup.behind(into.1).ok_or(Unsettled::Inside)?;
    let first = passage(table, a).ok_or(Unsettled::Inside)?;
    let receiver = of_coming.lookup.behind(into.0);
    let is_its_own = comes.mac == Some(into.0) || receiver == Some(to);
    let is_alone = is_its_own || (receiver.is_none() && of_coming.ports == 2);
    let is_one = is_alone && !is_group(into.0) && !is_group(into.1);
    must(is_one, Unsettled::Shared)?;
    // They leave from where the guest sends such frames, and to an interface of the host.
    let is_sender = leaves.mac == Some(out.1) || of_leaving.lookup.behind(out.1) == Some(from);
    must(is_sender && !is_group(out.0), Unsettled::Foreign)?;
    let b = match of_leaving.lookup.behind(out.0) {
        Some(b) => b,
        // Unknown, and so to all others: to the only one.
        None if of_leaving.ports == 2 => {
            let mut others = of_leaving.members.iter();
            let other = others.find(|port| **port != from);
            *other.ok_or(Unsettled::Unknown)?
        }
        None => return Err(Unsettled::Unknown),
    };
    let second = passage(table, b).ok_or(Unsettled::ToInside)?;
    must(a != b, Unsettled::Back)?;
    must(second.mtu >= first.mtu, Unsettled::Mtu)?;
    let key = key(first.interface, &said.before, said.protocol);
    let after = self::key(second.interface, &said.after, said.protocol);
    let hop = Hop {
        out: after.link,
        flags: 0,
        macs: said.before.macs,
        to_macs: said.after.macs,
        addresses: after.addresses,
        ports: after.ports,
    };
    let hop = hop.flagged(&key, said.hops == 1);
    let path = Path {
        ports: [a, to, from, b],
        ..*ends
    };
    Ok(Some((key, hop, path)))
}

/// The flow of a frame with these headers on an interface of the host.
fn key(link: u32, side: &Side, protocol: u8) -> Key {
    let [i, j, k, l] = side.ports;
    Key {
        link,
        addresses: side.addresses,
        ports: [[i, j], [k, l]],
        protocol: protocol.into(),
    }
}

/// What settled flows need to know of an interface of the host.
fn passage(table: &Table, port: PortIndex) -> Option<Passage> {
    let port = table.ports.get(port).filter(|port| !port.closed)?;
    port.passage.filter(|_| port.vlan == 0)
}

/// Destination and source.
fn split(macs: &[u8; 12]) -> (Mac, Mac) {
    let mac = |at: usize| Mac(std::array::from_fn(|i| macs[at + i]));
    (mac(0), mac(6))
}

fn is_group(mac: Mac) -> bool {
    mac.0[0] & 1 != 0
}

#[cfg(test)]
mod tests {
    use abi::settle::Side;
    use proptest::prelude::*;

    use super::*;
    use crate::lookup::{Learning, Limits};
    use crate::memory::{CounterFile, LanePorts};
    use crate::worker::table::{Egress, PortSetup};

    const CLIENT: Mac = Mac([2, 0, 0, 0, 0, 0xc]);
    const SERVER: Mac = Mac([2, 0, 0, 0, 0, 0xd]);
    const GUEST: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])];

    /// Two domains: port 0 is an interface with a client behind it and port 1 a guest's, port 2 the same guest's and port
    /// 3 an interface with a server behind it. Port 4 is another guest's, in the first domain.
    fn table(with_other: bool) -> Table {
        let (file, _) = CounterFile::create(crate::ids::PORTS_MAX).unwrap();
        let mut table = Table::new(0, LanePorts::new(Arc::new(file), 0));
        for domain in 0..2 {
            table.open_domain(domain, 0, Box::new(Learning::new(Limits::default())));
        }
        let macs = [CLIENT, GUEST[0], GUEST[1], SERVER, Mac([2, 0, 0, 0, 0, 9])];
        for (port, mac) in (0..4 + u16::from(with_other)).zip(macs) {
            table.add_port(&PortSetup {
                port,
                generation: 7,
                domain: [0, 0, 1, 1, 0][usize::from(port)],
                mac: Some(mac),
                name: "p".into(),
                uplink: port % 3 == 0,
                egress: Egress {
                    lanes: 1,
                    lane: 0,
                    patch: None,
                },
                behind: None,
                waits: false,
            });
        }
        let siblings: Arc<[_]> = [(1, 7), (2, 7)].into();
        for port in [1u16, 2] {
            let entry = table.ports.get_mut(port).unwrap();
            (entry.settles, entry.siblings) = (true, Some(Arc::clone(&siblings)));
        }
        for (port, interface) in [(0u16, 10), (3, 13)] {
            table.ports.get_mut(port).unwrap().passage = Some(Passage {
                interface,
                mtu: 1500,
            });
        }
        table
    }

    fn macs(to: Mac, from: Mac) -> [u8; 12] {
        let mut macs = [0; 12];
        macs[..6].copy_from_slice(&to.0);
        macs[6..].copy_from_slice(&from.0);
        macs
    }

    /// A flow from the client to the server by way of the guest as a router.
    fn routed() -> Settled {
        let side = Side {
            macs: macs(GUEST[0], CLIENT),
            addresses: [[10, 0, 0, 2], [10, 1, 0, 2]]
                .map(|address| std::net::Ipv4Addr::from(address).to_ipv6_mapped().octets()),
            ports: [1, 2, 0, 80],
        };
        Settled {
            interface: 0,
            protocol: TCP,
            hops: 1,
            before: side,
            after: Side {
                macs: macs(SERVER, GUEST[1]),
                ..side
            },
        }
    }

    fn decided(table: &Table, from: PortIndex, said: &Settled) -> Option<(Key, Hop, Path)> {
        let ends = ends(table, from, said)?;
        decide(table, &ends, said).ok().flatten()
    }

    #[test]
    fn a_flow_that_the_guest_forwards_is_settled() {
        let mut sixth = routed();
        for side in [&mut sixth.before, &mut sixth.after] {
            side.addresses[0] = [0x20; 16];
        }
        let (key, hop, _) = decided(&table(true), 2, &sixth).unwrap();
        assert_eq!(key.addresses[0], [0x20; 16]);
        assert_eq!(hop.addresses, key.addresses);
        let (key, hop, path) = decided(&table(true), 2, &routed()).unwrap();
        assert_eq!((key.link, hop.out, path.ports), (10, 13, [0, 1, 2, 3]));
        assert_eq!(path.domains, [0, 1]);
        assert_eq!(key.ports, [[1, 2], [0, 80]]);
        let mut unknown = routed();
        unknown.after.macs = macs(Mac([2, 0, 0, 0, 0, 0xe]), GUEST[1]);
        let (_, _, path) = decided(&table(true), 2, &unknown).unwrap();
        assert_eq!(path.ports, [0, 1, 2, 3], "there is no other port");
        // As a bridge: the addresses stay. Of a domain with others, only what comes to the guest alone.
        let mut said = routed();
        said.before.macs = macs(SERVER, CLIENT);
        said.after.macs = macs(SERVER, CLIENT);
        assert_eq!(decided(&table(true), 2, &said), None);
        let mut table = table(false);
        assert_eq!(
            decided(&table, 2, &said),
            None,
            "the client is not behind the guest"
        );
        let domain = table.domains.get_mut(1u32).unwrap();
        domain.lookup.attach(2, Some(CLIENT), 0);
        assert!(decided(&table, 2, &said).is_some());
    }

    #[test]
    fn what_the_guest_or_the_switch_would_not_do_is_not_settled() {
        use Unsettled::*;
        type Change = fn(&mut Settled, &mut Table);
        let changes: [(&str, Option<Unsettled>, Change); 17] = [
            ("its port is another's", None, |said, _| said.interface = 2),
            ("by itself", Some(Inside), |said, _| said.interface = 1),
            ("to another guest", Some(Shared), |said, _| {
                said.before.macs = macs(Mac([2, 0, 0, 0, 0, 9]), CLIENT);
            }),
            ("from nowhere", Some(Inside), |said, _| {
                said.before.macs = macs(GUEST[0], Mac([2, 0, 0, 0, 0, 0xe]));
            }),
            ("as another's", Some(Foreign), |said, _| {
                said.after.macs = macs(SERVER, CLIENT)
            }),
            (
                "to nobody, where there are others",
                Some(Unknown),
                |said, table| {
                    said.after.macs = macs(Mac([2, 0, 0, 0, 0, 0xe]), GUEST[1]);
                    table.domains.get_mut(1u32).unwrap().ports = 3;
                },
            ),
            ("translated over IPv6", Some(Translated), |said, _| {
                said.before.addresses[0][0] = 0x20;
                said.after.addresses[0][0] = 0x20;
                said.after.ports[0] ^= 1;
            }),
            (
                "translated between versions",
                Some(Translated),
                |said, _| {
                    said.after.addresses[1][0] = 0x20;
                },
            ),
            ("to many", Some(Foreign), |said, _| {
                said.after.macs = macs(Mac([0xff; 6]), GUEST[1])
            }),
            ("of another protocol", None, |said, _| said.protocol = 1),
            ("over more hops", None, |said, _| said.hops = 2),
            ("not allowed", Some(Off), |_, table| {
                table.ports.get_mut(1u16).unwrap().settles = false
            }),
            ("not allowed there", Some(Off), |_, table| {
                table.ports.get_mut(2u16).unwrap().settles = false;
            }),
            ("in a VLAN", Some(Vlan), |_, table| {
                table.ports.get_mut(2u16).unwrap().vlan = 5
            }),
            ("with limits", Some(Limited), |_, table| {
                table.domains.get_mut(1u32).unwrap().shaped = 1
            }),
            ("to a shorter link", Some(Mtu), |_, table| {
                let passage = &mut table.ports.get_mut(3u16).unwrap().passage;
                passage.as_mut().unwrap().mtu = 1400;
            }),
            ("to a link that is down", Some(ToInside), |_, table| {
                table.ports.get_mut(3u16).unwrap().closed = true;
            }),
        ];
        for (what, why, change) in changes {
            let (mut said, mut table) = (routed(), table(true));
            change(&mut said, &mut table);
            assert_eq!(decided(&table, 2, &said), None, "{what}");
            let said_why = ends(&table, 2, &said).and_then(|it| decide(&table, &it, &said).err());
            assert_eq!(said_why, why, "{what}");
        }
        // A guest that is gone, and another one's port in its place.
        let mut table = table(true);
        table.ports.get_mut(1u16).unwrap().generation = 8;
        assert_eq!(decided(&table, 2, &routed()), None);
        assert_eq!(
            decided(&table, 4, &routed()),
            None,
            "a port without a guest's ports"
        );
    }

    proptest! {
        #[test]
        fn whatever_a_guest_says_is_about_its_own_ports(
            bytes in proptest::collection::vec(any::<u8>(), abi::settle::BYTES),
            close in any::<[bool; 5]>(),
        ) {
            let mut bytes: [u8; abi::settle::BYTES] = bytes.try_into().unwrap();
            let usual = routed().to_bytes();
            // Near enough to what is right to get anywhere.
            for (i, part) in [0..4, 8..20, 56..68, 20..56, 68..104].into_iter().enumerate() {
                if close[i] {
                    bytes[part.clone()].copy_from_slice(&usual[part]);
                }
            }
            let table = table(true);
            let Some(said) = Settled::from_bytes(&bytes) else {
                return Ok(());
            };
            if let Some((key, hop, path)) = decided(&table, 2, &said) {
                prop_assert_eq!((key.link, hop.out, path.ports), (10, 13, [0, 1, 2, 3]));
                prop_assert_eq!(&hop.macs[..6], &GUEST[0].0);
                prop_assert_eq!(&hop.to_macs[6..], &GUEST[1].0);
            }
        }
    }
}
