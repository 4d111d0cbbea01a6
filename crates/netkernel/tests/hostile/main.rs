//! A tenant that submits whatever it likes: CoreEngine and the NSM go on, and so do other tenants. All
//! three take their steps in this thread, in a network namespace of its own.

use abi::nqe::{Nqe, operation};
use abi::tenant::{CHUNK_BYTES, PAYLOAD_FILE_BYTES};
use proptest::prelude::*;

mod peer;
mod world;

use peer::{Peer, Segment};
use world::{Of, World, own_namespace};

/// An element, mostly one that means something, of a few sockets and ports.
fn element() -> impl Strategy<Value = Nqe> {
    let sensible = (
        0..20u8,
        0..6u32,
        any::<u16>(),
        any::<u8>(),
        0..4u64,
        any::<u32>(),
    );
    let sensible = sensible.prop_map(|(operation, socket, port, flags, kind, len)| {
        let nqe = Nqe::new(operation, socket).with_flags(flags);
        match operation {
            operation::BIND | operation::CONNECT => {
                let port = 40_000 + port % 4;
                nqe.with_address(([127, 0, 0, 1], port).into())
            }
            operation::SOCKET | operation::SHUTDOWN => nqe.with_data(kind).with_family(4 + len % 3),
            operation::ACCEPT => nqe.with_data(u64::from(len % 8)),
            operation::LISTEN => nqe.with_data(u64::from(port)),
            operation::SEND | operation::SEND_TO | operation::CONSUMED => {
                let offset = u64::from(len) % PAYLOAD_FILE_BYTES as u64;
                nqe.with_chunk(offset, u32::from(port) % (CHUNK_BYTES as u32 + 2))
            }
            operation::SET_OPTION | operation::GET_OPTION => {
                let data = u64::from(kind as u32) << 32 | u64::from(len % 64);
                nqe.with_data(data).with_chunk(0, u32::from(port) % 600)
            }
            _ => nqe,
        }
    });
    let any = any::<(u8, u32, u64, u64, u32, u8, u32)>().prop_map(
        |(operation, socket, data, offset, len, flags, extra)| Nqe {
            // No address that is not this namespace's.
            operation: match operation {
                operation::BIND | operation::CONNECT => 0,
                operation => operation,
            },
            tenant: flags,
            queue_set: flags,
            socket,
            data,
            offset,
            len,
            flags,
            extra,
        },
    );
    prop_oneof![8 => sensible, 1 => any]
}

fn a_hostile_tenant_harms_itself_alone(of: Of) {
    // In the thread of the NSM, whose sockets are made here.
    own_namespace();
    let mut world = World::new(of);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let batches = proptest::collection::vec(proptest::collection::vec(element(), 1..60), 1..12);
    let world = std::cell::RefCell::new(&mut world);
    runner
        .run(&batches, |batches| {
            let mut world = world.borrow_mut();
            for batch in batches {
                for nqe in batch {
                    world.hostile.submit(nqe);
                }
                world.hostile.flush();
                world.turn();
                world.sent();
                // It reads what it is delivered, or does not.
                world.hostile.take(16, |_| ());
            }
            world.the_other_goes_on();
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_hostile_tenant_harms_itself_alone_at_the_kernel() {
    a_hostile_tenant_harms_itself_alone(Of::Kernel);
}

#[test]
fn a_hostile_tenant_harms_itself_alone_in_shared_memory() {
    a_hostile_tenant_harms_itself_alone(Of::Local);
}

#[test]
fn a_hostile_tenant_harms_itself_alone_at_the_user_nsm() {
    a_hostile_tenant_harms_itself_alone(Of::User);
}

/// A segment of a peer, mostly one of a connection that there is.
fn segment() -> impl Strategy<Value = Segment> {
    let near = prop_oneof![4 => Just(0i32), 2 => -3..4i32, 1 => any::<i32>()];
    let parts = (
        0..4u8,
        any::<u8>(),
        near.clone(),
        near,
        any::<u16>(),
        0..40u8,
        any::<[u8; 4]>(),
    );
    parts.prop_map(
        |(port, flags, sequence, acknowledged, window, len, options)| Segment {
            port,
            flags,
            sequence,
            acknowledged,
            window,
            len,
            options,
        },
    )
}

/// What a peer sends.
#[derive(Clone, Debug)]
enum Said {
    Segment(Segment),
    Bytes(Vec<u8>),
    Ip(u8, Vec<u8>),
}

fn said() -> impl Strategy<Value = Said> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..300);
    prop_oneof![
        8 => segment().prop_map(Said::Segment),
        1 => bytes().prop_map(Said::Bytes),
        2 => (prop::sample::select(vec![1u8, 6, 17]), bytes()).prop_map(|(protocol, bytes)| Said::Ip(protocol, bytes)),
    ]
}

/// Whatever the network sends to a user NSM, of connections of a tenant too, the NSM and other tenants go on.
#[test]
fn a_hostile_network_harms_its_own_connections_alone() {
    let mut world = World::new(Of::User);
    let mut peer = Peer::default();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let turns = proptest::collection::vec(proptest::collection::vec(said(), 1..20), 1..12);
    let world = std::cell::RefCell::new((&mut world, &mut peer));
    runner
        .run(&turns, |turns| {
            let (world, peer) = &mut *world.borrow_mut();
            peer.begin(world);
            for turn in turns {
                for said in turn {
                    match said {
                        Said::Segment(segment) => peer.send(world, &segment),
                        Said::Bytes(bytes) => world.send(&bytes),
                        Said::Ip(protocol, bytes) => peer.send_ip(world, protocol, &bytes),
                    }
                }
                world.turn();
                peer.look(world);
                peer.serve(world);
            }
            world.the_other_goes_on();
            peer.end(world);
            Ok(())
        })
        .unwrap();
    assert!(
        peer.connections > 100,
        "{} connections stood",
        peer.connections
    );
}
