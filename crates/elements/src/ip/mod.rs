//! Click's IP group: IP headers, addresses, fragments.

mod header_check;
mod header_compression;
mod pattern_list;
pub mod route_table;
pub(crate) mod tos;

pub(crate) use tos::check_code_point;

crate::elements! {
    check_ip_header: CheckIPHeader;
    check_ip_header2: CheckIPHeader2;
    dec_ip_ttl: DecIPTTL;
    direct_ip_lookup: DirectIPLookup;
    fix_ip_src: FixIPSrc;
    get_ip_address: GetIPAddress;
    ip_addr_pair_rewriter: IPAddrPairRewriter;
    ip_addr_rewriter: IPAddrRewriter;
    dual_stack_classifier: DualStackClassifier;
    ip_classifier: IPClassifier;
    ip_encap: IPEncap;
    ip_field_info: IPFieldInfo;
    ip_filter: IPFilter;
    ip_fragmenter: IPFragmenter;
    ip_gw_options: IPGWOptions;
    ip_input_combo: IPInputCombo;
    ip_mirror: IPMirror;
    ip_name_info: IPNameInfo;
    ip_output_combo: IPOutputCombo;
    ip_print: IPPrint;
    ip_rate_monitor: IPRateMonitor;
    ip_reassembler: IPReassembler;
    ip_rewriter_patterns: IPRewriterPatterns;
    linear_ip_lookup: LinearIPLookup;
    lookup_ip_route: LookupIPRoute;
    lookup_ip_route_mp: LookupIPRouteMP;
    mark_ip_ce: MarkIPCE;
    mark_ip_header: MarkIPHeader;
    radix_ip_lookup: RadixIPLookup;
    range_ip_lookup: RangeIPLookup;
    rfc2507c: RFC2507c;
    rfc2507d: RFC2507d;
    rip_send: RIPSend;
    round_robin_ip_mapper: RoundRobinIPMapper;
    set_ip_address: SetIPAddress;
    set_ip_checksum: SetIPChecksum;
    set_ip_dscp: SetIPDSCP;
    set_ip_ecn: SetIPECN;
    set_rand_ip_address: SetRandIPAddress;
    sorted_ip_lookup: SortedIPLookup;
    source_ip_hash_mapper: SourceIPHashMapper;
    static_ip_lookup: StaticIPLookup;
    store_ip_address: StoreIPAddress;
    strip_ip_header: StripIPHeader;
    thread_ip_mapper: ThreadIPMapper;
    truncate_ip_payload: TruncateIPPayload;
    unstrip_ip_header: UnstripIPHeader;
}
