//! Click's ethernet group: Ethernet headers and ARP.

crate::elements! {
    ether_encap: EtherEncap;
    ether_mirror: EtherMirror;
    ether_rewrite: EtherRewrite;
}
