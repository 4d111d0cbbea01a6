//! Click's etherswitch group: Ethernet switches and the spanning tree protocol.

mod bpdu;
mod bridge;
mod learning;
mod stations;

crate::elements! {
    debug_bridge: DebugBridge;
    ether_span_tree: EtherSpanTree;
    ether_switch: EtherSwitch;
    listen_ether_switch: ListenEtherSwitch;
}
