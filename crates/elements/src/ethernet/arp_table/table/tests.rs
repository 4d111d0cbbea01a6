use super::*;
use proptest::prelude::*;

fn ip(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, n)
}

fn ether(n: u8) -> EtherAddress {
    EtherAddress([2, 0, 0, 0, 0, n])
}

impl Table {
    fn packet(&mut self, pool: &mut Pool, n: u8, now: i64) -> Waits {
        let packet = pool.copy(&[n]).unwrap();
        self.wait(pool, ip(n), packet, Millis(now))
    }

    /// What the lists say must fit the counts.
    fn check(&self) {
        let (mut at, mut older, mut entries, mut packets) = (self.oldest, NONE, 0, 0);
        let mut live = Millis(i64::MIN);
        while let Some(entry) = self.entries.get(at as usize) {
            assert_eq!(entry.older, older);
            assert!(entry.live_at >= live, "older entries stand first");
            live = entry.live_at;
            entries += 1;
            let (mut next, mut count) = (entry.first, 0);
            while let Some(waiting) = self.waiting.get(next as usize) {
                assert!(waiting.packet.is_some());
                count += 1;
                next = waiting.next;
            }
            assert_eq!(entry.packets, count);
            packets += count;
            (older, at) = (at, entry.newer);
        }
        assert_eq!(self.newest, older);
        assert_eq!((self.count(), self.packets), (entries, packets));
    }
}

#[test]
fn what_was_learned_is_known_until_it_expires() {
    let (mut table, mut pool) = (Table::default(), Pool::heap(16));
    table.limits.timeout = Millis(100);
    table.insert(&mut pool, ip(1), ether(1), Millis(0));
    assert_eq!(
        table.lookup(ip(1), Millis(100), Millis(0)),
        Some((ether(1), false))
    );
    assert_eq!(table.lookup(ip(1), Millis(101), Millis(0)), None);
    assert_eq!(table.lookup(ip(2), Millis(0), Millis(0)), None);
    table.slim(&mut pool, Millis(101));
    assert_eq!(table.count(), 0);
    table.limits.timeout = Millis(0);
    table.insert(&mut pool, ip(1), ether(1), Millis(0));
    assert!(table.lookup(ip(1), Millis(i64::MAX), Millis(0)).is_some());
}

#[test]
fn it_is_asked_for_anew_before_it_expires() {
    let (mut table, mut pool) = (Table::default(), Pool::heap(16));
    table.insert(&mut pool, ip(1), ether(1), Millis(0));
    let mut due = |now| table.lookup(ip(1), Millis(now), Millis(500)).unwrap().1;
    assert!(!due(499));
    assert!(due(500));
    assert!(!due(599));
    assert!(due(600));
}

#[test]
fn queries_become_rare() {
    let (mut table, mut pool) = (Table::default(), Pool::heap(1 << 12));
    let asked: Vec<i64> = (0..60)
        .map(|i| i * 100)
        .filter(|now| table.packet(&mut pool, 1, *now) == Waits::AndQuery)
        .collect();
    assert_eq!(
        asked[..10],
        [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]
    );
    assert_eq!(asked[10..], [2900, 4900]);
}

#[test]
fn packets_wait_in_order() {
    let (mut table, mut pool) = (Table::default(), Pool::heap(16));
    for n in [1, 2, 1] {
        table.packet(&mut pool, n, 0);
    }
    assert_eq!(table.length(), 3);
    table.insert(&mut pool, ip(1), ether(1), Millis(5));
    assert!(table.next_waiting(ip(1)).is_some());
    assert!(table.next_waiting(ip(1)).is_some());
    assert!(table.next_waiting(ip(1)).is_none());
    assert_eq!((table.length(), table.drops()), (1, 0));
    table.clear(&mut pool);
    assert_eq!((table.length(), table.drops(), table.count()), (0, 1, 0));
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn too_many_packets_and_entries_go_oldest_first() {
    let (mut table, mut pool) = (Table::default(), Pool::heap(1 << 12));
    table.limits.packets = 10;
    for _ in 0..100 {
        table.packet(&mut pool, 1, 0);
    }
    assert_eq!((table.length(), table.drops()), (10, 90));
    table.limits.entries = 2;
    for n in 2..5 {
        table.insert(&mut pool, ip(n), ether(n), Millis(n.into()));
    }
    assert_eq!(table.count(), 2);
    assert!(table.lookup(ip(2), Millis(9), Millis(0)).is_none());
    assert!(table.lookup(ip(4), Millis(9), Millis(0)).is_some());
    assert_eq!(table.drops(), 100);
    table.limits.entry_packets = 1;
    assert_ne!(table.packet(&mut pool, 9, 9), Waits::Not);
    assert_eq!(table.packet(&mut pool, 9, 9), Waits::Not);
    table.check();
}

#[test]
fn most_of_the_pool_is_left_for_others() {
    for capacity in [0, 2048] {
        let (mut table, mut pool) = (Table::default(), Pool::heap(64));
        table.limits.packets = capacity;
        for n in 0..200 {
            table.packet(&mut pool, n, 0);
            assert!(table.length() <= 16);
        }
        assert_eq!(table.drops() + u64::from(table.length()), 200);
        assert_eq!(
            (pool.outstanding(), pool.exhausted()),
            (table.length() as usize, 0)
        );
        table.check();
    }
    let (mut table, mut pool) = (Table::default(), Pool::heap(2));
    assert_eq!(table.packet(&mut pool, 1, 0), Waits::AndQuery);
    assert_eq!(table.packet(&mut pool, 2, 0), Waits::AndQuery);
    assert_eq!((table.length(), table.drops()), (1, 1));
}

#[test]
fn a_scan_finds_the_default_limit() {
    let (mut table, mut pool) = (Table::default(), Pool::heap(16));
    for n in 0..=ENTRIES_MAX {
        table.insert(
            &mut pool,
            Ipv4Addr::from_bits(n),
            ether(1),
            Millis(n.into()),
        );
    }
    assert_eq!(table.count(), ENTRIES_MAX as usize);
    assert!(!table.unparse(Millis(0)).unwrap().starts_with("0.0.0.0 "));
    table.check();
}

#[test]
fn the_entry_a_packet_waits_at_stays() {
    let (mut table, mut pool) = (Table::default(), Pool::heap(16));
    table.limits = Limits {
        packets: 1,
        entries: 1,
        timeout: Millis(100),
        ..Limits::default()
    };
    for now in [0, 120, 221] {
        assert_eq!(table.packet(&mut pool, 1, now), Waits::AndQuery);
    }
    assert_eq!((table.count(), table.length()), (1, 1));
    assert_eq!(
        table.unparse(Millis(221)).unwrap(),
        "10.0.0.1 0 FF-FF-FF-FF-FF-FF 0.100000\n"
    );
}

proptest! {
    #[test]
    fn lists_and_counts_agree(
        steps in proptest::collection::vec((0u8..5, 0u8..20, 0i64..60), 0..300),
        packets in 0u32..12,
        entries in 0u32..6,
        entry_packets in 0u32..4,
        slim_factor in 1u32..4,
    ) {
        let (mut table, mut pool) = (Table::default(), Pool::heap(1 << 10));
        let timeout = Millis(100);
        table.limits = Limits { packets, entries, entry_packets, slim_factor, timeout };
        let mut now = 0;
        for (what, n, later) in steps {
            now += later;
            match what {
                0 | 1 => {
                    if table.lookup(ip(n), Millis(now), Millis(50)).is_none() {
                        table.packet(&mut pool, n, now);
                    }
                }
                2 => table.insert(&mut pool, ip(n), ether(n), Millis(now)),
                3 => while let Some(packet) = table.next_waiting(ip(n)) {
                    pool.kill(packet);
                },
                _ => table.slim(&mut pool, Millis(now)),
            }
            table.check();
            if entries > 0 {
                prop_assert!(table.count() <= entries as usize);
            }
            if packets > 0 {
                prop_assert!(table.length() <= packets);
            }
            prop_assert_eq!(pool.outstanding(), table.length() as usize);
        }
    }
}
