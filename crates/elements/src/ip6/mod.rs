//! Click's ip6 group: IPv6 headers, addresses, fragments, and translation to and from IPv4.

mod aliases;
pub mod route_table;
mod translate;

crate::elements! {
    address_translator: AddressTranslator;
    check_ip6_header: CheckIP6Header;
    dec_ip6_hlim: DecIP6HLIM;
    get_ip6_address: GetIP6Address;
    host_translator64: HostTranslator64;
    icmp6_error: ICMP6Error;
    ip6_encap: IP6Encap;
    ip6_fragmenter: IP6Fragmenter;
    ip6_mirror: IP6Mirror;
    ip6_print: IP6Print;
    lookup_ip6_route: LookupIP6Route;
    mark_ip6_header: MarkIP6Header;
    protocol_translator46: ProtocolTranslator46;
    protocol_translator64: ProtocolTranslator64;
    set_ip6_address: SetIP6Address;
    set_ip6_dscp: SetIP6DSCP;
}
