//! IPsec: encapsulating security payloads (RFC 4303) in tunnels.
//!
//! [`RadixIPsecLookup`](radix_ipsec_lookup::RadixIPsecLookup) marks packets with the security
//! association of their tunnel; the other elements take keys and counters from there.

mod association;
mod associations;
mod auth;
mod ciphers;
mod esp;
mod tag;
mod tunnel_route;
mod window;

crate::elements! {
    ipsec_aes: IPsecAES;
    ipsec_auth_hmac_sha1: IPsecAuthHMACSHA1;
    ipsec_auth_sha1: IPsecAuthSHA1;
    ipsec_des: IPsecDES;
    ipsec_encap: IPsecEncap;
    ipsec_esp_encap: IPsecESPEncap;
    ipsec_esp_unencap: IPsecESPUnencap;
    radix_ipsec_lookup: RadixIPsecLookup;
    sa_table: SATable;
}

#[cfg(test)]
mod tests;
