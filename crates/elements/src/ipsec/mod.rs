//! IPsec: encapsulating security payloads (RFC 4303) in tunnels.
//!
//! [`RadixIPsecLookup`](radix_ipsec_lookup::RadixIPsecLookup) marks packets with the security
//! association of their tunnel; the other elements take keys and counters from there.

mod association;
mod associations;
mod ciphers;
mod esp;
mod tag;
mod tunnel_route;
mod window;

crate::elements! {
    aes: IPsecAES;
    auth: IPsecAuthHMACSHA1, IPsecAuthSHA1;
    des: IPsecDES;
    esp_encap: IPsecESPEncap;
    esp_unencap: IPsecESPUnencap;
    ipsec_encap: IPsecEncap;
    radix_ipsec_lookup: RadixIPsecLookup;
    sa_table: SATable;
}

#[cfg(test)]
mod tests;
