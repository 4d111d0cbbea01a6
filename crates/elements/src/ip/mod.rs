//! Click's IP group: IP headers, addresses, fragments.

pub mod route_table;

crate::elements! {
    check_ip_header: CheckIPHeader, CheckIPHeader2;
    dec_ip_ttl: DecIPTTL;
    direct_ip_lookup: DirectIPLookup, RangeIPLookup;
    fix_ip_src: FixIPSrc;
    get_ip_address: GetIPAddress;
    ip_addr_pair_rewriter: IPAddrPairRewriter;
    ip_addr_rewriter: IPAddrRewriter;
    ip_classifier: IPClassifier;
    ip_encap: IPEncap;
    ip_field_info: IPFieldInfo, IPNameInfo;
    ip_filter: IPFilter;
    ip_fragmenter: IPFragmenter;
    ip_gw_options: IPGWOptions;
    ip_input_combo: IPInputCombo;
    ip_mirror: IPMirror;
    ip_output_combo: IPOutputCombo;
    ip_print: IPPrint;
    ip_rate_monitor: IPRateMonitor;
    ip_reassembler: IPReassembler;
    ip_rewriter_patterns: IPRewriterPatterns;
    linear_ip_lookup: LinearIPLookup, SortedIPLookup;
    mark_ip_header: MarkIPHeader;
    radix_ip_lookup: RadixIPLookup;
    rfc2507: RFC2507c, RFC2507d;
    rip_send: RIPSend;
    round_robin_ip_mapper: RoundRobinIPMapper;
    set_ip_address: SetIPAddress;
    set_ip_checksum: SetIPChecksum;
    set_ip_dscp: SetIPDSCP, SetIPECN, MarkIPCE;
    set_rand_ip_address: SetRandIPAddress;
    source_ip_hash_mapper: SourceIPHashMapper;
    static_ip_lookup: StaticIPLookup, LookupIPRoute;
    store_ip_address: StoreIPAddress;
    strip_ip_header: StripIPHeader, UnstripIPHeader;
    truncate_ip_payload: TruncateIPPayload;
}
