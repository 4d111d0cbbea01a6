//! Click's ethernet group: Ethernet headers, VLAN tags and ARP.

mod ether_field;
mod neighbor;
#[cfg(test)]
mod tests;
mod vlan_tag;

crate::elements! {
    arp_faker: ARPFaker;
    arp_print: ARPPrint;
    arp_querier: ARPQuerier;
    arp_responder: ARPResponder;
    arp_table: ARPTable;
    check_arp_header: CheckARPHeader;
    ensure_ether: EnsureEther;
    ether_encap: EtherEncap;
    ether_mirror: EtherMirror;
    ether_pause_source: EtherPauseSource;
    ether_rewrite: EtherRewrite;
    ether_vlan_encap: EtherVLANEncap;
    get_ether_address: GetEtherAddress;
    host_ether_filter: HostEtherFilter;
    ip6_nd_advertiser: IP6NDAdvertiser;
    ip6_nd_solicitor: IP6NDSolicitor;
    set_ether_address: SetEtherAddress;
    set_vlan_anno: SetVLANAnno;
    store_ether_address: StoreEtherAddress;
    strip_ether_vlan_header: StripEtherVLANHeader;
    vlan_decap: VLANDecap;
    vlan_encap: VLANEncap;
}
