//! Many hosts on real nodes and a real etcd: hosts in namespaces, guests that are placed, moved, lost and found.

#[path = "../common/mod.rs"]
mod common;

mod checkpoint;
mod encrypted;
mod failure;
mod groups;
mod kills;
mod life;
mod net;
mod network;
mod plugins;
mod roles;
mod wire;
