//! Click's ethernet group: Ethernet headers and ARP.

crate::elements! {
    arp_querier: ARPQuerier;
    arp_responder: ARPResponder;
    arp_table: ARPTable;
    ether_encap: EtherEncap;
    ether_mirror: EtherMirror;
    ether_rewrite: EtherRewrite;
}
