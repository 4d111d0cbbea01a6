//! `weir node` and the commands that ask it, on real traffic: namespaces, guests, interfaces, wires,
//! kills.

#[path = "../common/mod.rs"]
mod common;

mod api;
mod cgroups;
mod chain;
mod changes;
mod configurations;
mod copies;
mod crash_reports;
mod crashes;
mod damage;
mod events;
mod faults;
mod fields;
mod guest_sockets;
mod health;
mod leftovers;
mod limits;
mod links;
mod logs;
mod migration;
mod network;
mod nsm;
mod nsm_kinds;
mod on_demand;
mod requests;
mod routers;
mod service;
mod settings;
mod settling;
mod store;
mod store_elements;
mod store_rings;
mod verbs;
mod vnics;
mod wire;
mod wire_changes;
mod wire_guests;
mod wire_stacks;
