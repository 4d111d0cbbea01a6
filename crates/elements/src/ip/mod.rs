//! Click's IP group: IP headers, addresses, fragments.

crate::elements! {
    check_ip_header: CheckIPHeader, CheckIPHeader2;
    dec_ip_ttl: DecIPTTL;
    fix_ip_src: FixIPSrc;
    get_ip_address: GetIPAddress;
    ip_classifier: IPClassifier;
    ip_filter: IPFilter;
    ip_fragmenter: IPFragmenter;
    ip_gw_options: IPGWOptions;
    ip_mirror: IPMirror;
    mark_ip_header: MarkIPHeader;
    set_ip_address: SetIPAddress;
    set_ip_checksum: SetIPChecksum;
    store_ip_address: StoreIPAddress;
}
