use super::hops::Hop;
use super::{Found, Order, Refused, Route, RouteTable};
use crate::testing::*;

const CLASSES: [&str; 4] = [
    "RadixIPLookup",
    "DirectIPLookup",
    "RangeIPLookup",
    "LinearIPLookup",
];

fn rig(class: &str, routes: &str) -> Rig {
    Rig::new(&format!(
        "i :: Inject -> r :: {class}({routes});
         r[0] -> a :: Collect; r[1] -> b :: Collect; r[2] -> c :: Collect;"
    ))
}

fn push(rig: &mut Rig, to: [u8; 4]) {
    let data = udp(([1, 1, 1, 1].into(), 1), (to.into(), 2), &[]);
    rig.push_with("i", &data, |packet| packet.set_dst_ip(to.into()));
}

#[test]
fn packets_leave_by_the_longest_prefix_and_take_its_gateway() {
    for class in CLASSES.iter().chain(&["StaticIPLookup", "LookupIPRoute"]) {
        let mut rig = rig(class, "10.0.0.0/8 0, 10.1.0.0/16 9.9.9.9 1, 10.1.2.3 2");
        for to in [[10, 9, 9, 9], [10, 1, 9, 9], [10, 1, 2, 3], [11, 0, 0, 1]] {
            push(&mut rig, to);
        }
        assert_eq!(rig.collected("a")[0].dst_ip(), Ipv4Addr::new(10, 9, 9, 9));
        assert_eq!(rig.collected("b")[0].dst_ip(), Ipv4Addr::new(9, 9, 9, 9));
        assert_eq!(rig.collected("c")[0].dst_ip(), Ipv4Addr::new(10, 1, 2, 3));
        assert_eq!(rig.outstanding(), 0);
    }
}

#[test]
fn a_batch_is_split_by_output() {
    let mut rig = rig("RadixIPLookup", "10.0.0.0/8 0, 11.0.0.0/8 1");
    let datagram = |to: [u8; 4]| udp(([1, 1, 1, 1].into(), 1), (to.into(), 2), &[]);
    let packets: Vec<Vec<u8>> = [10, 11, 10, 12, 10]
        .map(|net| datagram([net, 0, 0, 1]))
        .into();
    // Without destination annotations everything goes to 0.0.0.0.
    rig.push_all("i", &packets);
    assert_eq!(rig.printed().len(), 5);
    for net in [10, 11, 10, 12, 10] {
        push(&mut rig, [net, 0, 0, 1]);
    }
    assert_eq!((rig.collected("a").len(), rig.collected("b").len()), (3, 1));
}

#[test]
fn packets_without_a_route_are_complained_of_five_times() {
    let mut rig = rig("RadixIPLookup", "10.0.0.0/8 0");
    for _ in 0..9 {
        push(&mut rig, [11, 0, 0, 1]);
    }
    assert_eq!(rig.printed(), ["IPRouteTable: no route for 11.0.0.1"; 5]);
    let mut rig = self::rig("DirectIPLookup", "10.0.0.0/8 0");
    push(&mut rig, [11, 0, 0, 1]);
    assert!(rig.printed().is_empty());
}

#[test]
fn routes_come_and_go_by_handlers() {
    for class in CLASSES {
        let mut rig = rig(class, "");
        let lookup = |rig: &mut Rig| {
            let id = rig.router.find("r");
            rig.router.read(id, "lookup", "18.26.4.9").unwrap()
        };
        rig.write("r.add", "18.26/16 1.0.0.1 0");
        assert_eq!(lookup(&mut rig), "0 1.0.0.1");
        rig.write("r.add", "18.26.0/18 2.0.0.2 1");
        rig.write("r.add", "18.26.0/17 2");
        assert_eq!(lookup(&mut rig), "1 2.0.0.2");
        rig.write("r.remove", "18.26.0/18 2.0.0.2 1");
        assert_eq!(lookup(&mut rig), "2");
        rig.write("r.remove", "18.26.0/17");
        rig.write("r.set", "18.26/16 3.0.0.3 2");
        assert_eq!(lookup(&mut rig), "2 3.0.0.3");
        rig.write("r.remove", "18.26/16");
        assert_eq!(lookup(&mut rig), "-1");
    }
}

#[test]
fn handlers_are_listed_in_clicks_order() {
    let starts = |class: &str, list: &str| {
        let mut rig = Rig::new(&format!("Idle -> rt :: {class}(10/8 0) -> Discard;"));
        let handlers = rig.read("rt.handlers");
        assert!(handlers.starts_with(list), "{class}: {handlers}");
    };
    let changing = "lookup\tr+\ntable\tr$\nctrl\tw\nremove\tw\nset\tw\nadd\tw\nhandlers\t";
    starts("StaticIPLookup", "lookup\tr+\ntable\tr\nhandlers\t");
    starts("LinearIPLookup", changing);
    starts("RadixIPLookup", &["flush\twb\n", changing].concat());
}

#[test]
fn routes_are_added_and_flushed() {
    for class in ["DirectIPLookup", "RadixIPLookup", "RangeIPLookup"] {
        let mut rig = Rig::new(&format!("Idle -> rt :: {class}(10/8 0) -> Discard;"));
        rig.write("rt.add", "11/8 1.0.0.1 0");
        let id = rig.router.find("rt");
        let hop = rig.router.read(id, "lookup", "11.0.0.1");
        assert_eq!(hop.as_deref(), Ok("0 1.0.0.1"), "{class}");
        assert!(rig.try_write("rt.add", "11/8 0").is_err(), "{class}");
        rig.write("rt.flush", "");
        assert_eq!(rig.read("rt.table"), "", "{class}");
    }
}

#[test]
fn refusals_are_in_clicks_words() {
    let mut rig = rig("RadixIPLookup", "1.0.0.0/8 4.0.0.4 0");
    let refused = |rig: &mut Rig, handler: &str, value: &str| match rig.try_write(handler, value) {
        Err(router::HandlerError::Failed(failure)) => failure.text,
        other => panic!("{other:?}"),
    };
    for (handler, value, text) in [
        (
            "r.add",
            "1/8 1",
            "conflict with existing route ‘1.0.0.0/8 4.0.0.4 0’",
        ),
        ("r.add", "1/8", "expected ‘ADDR/MASK [GATEWAY] OUTPUT’"),
        ("r.add", "1/8 3", "bad OUTPUT"),
        ("r.add", "1/8 -1", "bad OUTPUT"),
        ("r.remove", "x", "expected ‘ADDR/MASK [GATEWAY OUTPUT]’"),
        ("r.remove", "1/8 1", "route ‘1.0.0.0/8 - 1’ not found"),
        ("r.remove", "2/8", "route ‘2.0.0.0/8 - -1’ not found"),
        ("r.ctrl", "frob 1/8 1", "bad command ‘frob’"),
    ] {
        assert_eq!(refused(&mut rig, handler, value), text);
    }
    let id = rig.router.find("r");
    let error = rig.router.read(id, "lookup", "nowhere").unwrap_err();
    assert_eq!(error, "expected IP address".into());
    let errors = Rig::errors("Idle -> RadixIPLookup(1.0.0.0/8, 1/8 1, 1/8 -1) -> Discard;");
    for line in [
        "argument 1 should be 'ADDR/MASK [GATEWAY] OUTPUT'",
        "argument 2 bad OUTPUT",
        "argument 3 bad OUTPUT",
    ] {
        assert!(errors.contains(line), "{errors}");
    }
    let mut rig = self::rig("LinearIPLookup", "1/8 0, 1/8 1");
    let printed = rig.printed().join("\n");
    assert_contains(&printed, "1 route replaced by later versions");
}

#[test]
fn ctrl_does_all_or_nothing() {
    let mut rig = rig("RadixIPLookup", "1.0.0.0/8 0, 2.0.0.0/8 0");
    let before = rig.read("r.table");
    let commands = "add 3/8 1\nset 1/8 2\nremove 2/8\n\nadd 3/8 2";
    assert!(rig.try_write("r.ctrl", commands).is_err());
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&rig.read("r.table")), sorted(&before));
    rig.write("r.ctrl", "add 3/8 1\nset 1/8 2\n\nremove 2/8");
    assert_eq!(
        sorted(&rig.read("r.table")),
        ["1.0.0.0/8\t\t-\t\t2", "3.0.0.0/8\t\t-\t\t1"]
    );
    rig.write("r.flush", "");
    assert_eq!(rig.read("r.table"), "");
}

#[test]
fn a_static_table_does_not_change() {
    let mut rig = rig("StaticIPLookup", "1.0.0.0/8 0");
    assert_eq!(rig.read("r.table"), "1.0.0.0/8\t\t-\t\t0\n");
    for handler in ["r.add", "r.remove", "r.ctrl", "r.flush"] {
        let error = rig.try_write(handler, "2/8 0").unwrap_err();
        assert_eq!(error, router::HandlerError::Unknown);
    }
}

#[test]
fn a_small_table_takes_little_memory() {
    let mut table = RouteTable::new(Order::Latest);
    for net in 0..10u32 {
        let route = format!("{net}.0.0.0/8 1.1.1.{net} {net}");
        let route = Route::parse(&route, false, &Context::blank()).unwrap();
        table.add(route, false).unwrap();
    }
    assert!(table.memory() < 1024, "{} bytes", table.memory());
}

/// The table that needs no proof: every route is tried.
#[derive(Default)]
struct Naive(Vec<Route>);

impl Naive {
    fn add(&mut self, route: Route, set: bool) -> bool {
        let same = |other: &&mut Route| other.prefix == route.prefix;
        match self.0.iter_mut().find(same) {
            Some(_) if !set => return false,
            Some(old) => *old = route,
            None => self.0.push(route),
        }
        true
    }

    fn remove(&mut self, route: &Route) -> bool {
        let means = |other: &Route| other.prefix == route.prefix && route.means(other);
        let at = self.0.iter().position(means);
        at.map(|at| self.0.swap_remove(at)).is_some()
    }

    fn find(&self, address: u32) -> Hop {
        let covers = |route: &&Route| route.prefix.contains(address.into());
        let longest = self
            .0
            .iter()
            .filter(covers)
            .max_by_key(|r| r.prefix.length());
        longest.map_or(Hop::NOWHERE, |route| Hop {
            gateway: route.gateway,
            port: route.port.unwrap(),
        })
    }
}

#[derive(Clone, Debug)]
enum Change {
    Add(Route, bool),
    Remove(Route),
    Flush,
}

fn routes() -> impl Strategy<Value = Route> {
    // Few addresses, so that prefixes nest, share buckets and meet again.
    let address = prop_oneof![
        any::<u32>(),
        (0u32..8).prop_map(|n| n << 29),
        (0u32..64).prop_map(|n| 0x0a00_0000 | n << 18 | n << 3 | n & 1),
        Just(0),
        Just(u32::MAX),
    ];
    (address, 0u8..=32, 0u32..4, 0u8..3).prop_map(|(address, length, port, gateway)| {
        let prefix = Ipv4Prefix::new(address.into(), length);
        Route {
            prefix: Ipv4Prefix {
                address: prefix.network(),
                ..prefix
            },
            gateway: Ipv4Addr::new(0, 0, 0, gateway),
            port: Some(port),
        }
    })
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        8 => (routes(), any::<bool>()).prop_map(|(route, set)| Change::Add(route, set)),
        4 => (routes(), any::<bool>()).prop_map(|(route, any)| Change::Remove(Route {
            port: route.port.filter(|_| !any),
            ..route
        })),
        1 => Just(Change::Flush).prop_filter("rare", |_| true),
    ]
}

proptest! {
    #[test]
    fn tables_agree_with_one_that_tries_every_route(
        first in proptest::collection::vec(routes(), 0..60),
        changes in proptest::collection::vec(changes(), 1..200),
        flushes in 0usize..3,
        addresses in proptest::collection::vec(any::<u32>(), 64),
        order in prop_oneof![Just(Order::Lowest), Just(Order::Latest)],
    ) {
        let mut table = RouteTable::new(order);
        let mut naive = Naive::default();
        let conflicts: Vec<Route> =
            first.iter().filter(|route| !naive.add(**route, false)).copied().collect();
        let mut refused = Vec::new();
        table.fill(first, |reason, route| {
            assert!(matches!(reason, Refused::Exists(old) if old.prefix == route.prefix));
            refused.push(*route);
        });
        prop_assert_eq!(refused, conflicts);
        let mut flushes = flushes;
        for change in changes {
            match change {
                Change::Add(route, set) => {
                    prop_assert_eq!(table.add(route, set).is_ok(), naive.add(route, set));
                }
                Change::Remove(route) => {
                    prop_assert_eq!(table.remove(&route).is_ok(), naive.remove(&route));
                }
                Change::Flush if flushes > 0 => {
                    flushes -= 1;
                    table.clear();
                    naive.0.clear();
                }
                Change::Flush => {}
            }
        }
        prop_assert_eq!(table.len(), naive.0.len());
        // At random, and around the edges of every prefix.
        let edges = naive.0.iter().flat_map(|route| {
            let first = route.prefix.address.to_bits();
            let last = route.prefix.broadcast().to_bits();
            [first, first.wrapping_sub(1), last, last.wrapping_add(1)]
        });
        let all: Vec<u32> = addresses.into_iter().chain(edges).collect();
        for chunk in all.chunks(64) {
            let mut all = Found::NOTHING;
            let mut addresses = [0; 64];
            addresses[..chunk.len()].copy_from_slice(chunk);
            table.find_all(&addresses, chunk.len(), &mut all);
            let gateways = all.gateways.map(|gateway| Ipv4Addr::from(gateway.to_ne_bytes()));
            let hops = all.ports.into_iter().zip(gateways);
            for (address, (port, gateway)) in chunk.iter().zip(hops) {
                let found = Hop { gateway, port };
                prop_assert!(all.any_gateway || gateway.is_unspecified());
                prop_assert_eq!(found, naive.find(*address), "{}", Ipv4Addr::from(*address));
                prop_assert_eq!(found, table.find(*address));
            }
        }
    }
}

#[test]
fn many_routes_come_and_go() {
    let mut random = 1u32;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        random
    };
    let mut table = RouteTable::new(Order::Latest);
    let mut naive = Naive::default();
    for _ in 0..3000 {
        let prefix = Ipv4Prefix::new(next().into(), 8 + (next() % 25) as u8);
        let route = Route {
            prefix: Ipv4Prefix {
                address: prefix.network(),
                ..prefix
            },
            gateway: Ipv4Addr::from(next() % 50),
            port: Some(next() % 4),
        };
        match table.add(route, false) {
            Ok(_) => assert!(naive.add(route, false)),
            Err(refused) => assert!(matches!(refused, Refused::Exists(_))),
        }
    }
    while naive.0.len() > 20 {
        let route = naive.0[next() as usize % naive.0.len()];
        assert_eq!(table.remove(&route), Ok(route));
        naive.remove(&route);
        if naive.0.len() % 300 == 0 {
            for _ in 0..2000 {
                let address = next();
                assert_eq!(table.find(address), naive.find(address));
            }
        }
    }
    assert!(
        table.memory() < 64 << 10,
        "memory follows the routes down: {}",
        table.memory()
    );
}

#[test]
fn masks_that_are_no_prefixes_are_tried_in_order() {
    let mut rig = rig(
        "LinearIPLookup",
        "0.0.0.5/0.0.0.255 1, 10.0.0.0/8 0, 10.0.0.5/255.0.0.255 2",
    );
    let id = rig.router.find("r");
    let mut lookup = |address| rig.router.read(id, "lookup", address).unwrap();
    assert_eq!(lookup("9.0.0.5"), "1");
    assert_eq!(lookup("10.0.0.6"), "0");
    assert_eq!(lookup("10.0.0.5"), "2");
}
