//! The protocols that are told apart.

use crate::prelude::*;

/// The table of protocols: each with its name, and how many there are.
macro_rules! protocols {
    ($($variant:ident $name:literal)*) => {
        /// A protocol.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum Protocol {
            #[default]
            $($variant),*
        }

        impl Protocol {
            /// All, in the order of their numbers.
            pub const ALL: &[Protocol] = &[$(Protocol::$variant),*];

            /// Its name, in small letters.
            pub fn name(self) -> &'static str {
                match self {
                    $(Protocol::$variant => $name),*
                }
            }
        }
    };
}

protocols! {
    Unknown "unknown"
    Amqp "amqp"
    Bgp "bgp"
    BitTorrent "bittorrent"
    Dhcp "dhcp"
    Dns "dns"
    Dtls "dtls"
    Esp "esp"
    Ftp "ftp"
    Gre "gre"
    Http "http"
    Http2 "http2"
    Icmp "icmp"
    Ike "ike"
    Imap "imap"
    Irc "irc"
    Ldap "ldap"
    MongoDb "mongodb"
    Mqtt "mqtt"
    Mssql "mssql"
    MySql "mysql"
    Ntp "ntp"
    OpenVpn "openvpn"
    Pop3 "pop3"
    PostgreSql "postgresql"
    Quic "quic"
    Radius "radius"
    Rdp "rdp"
    Redis "redis"
    Rsync "rsync"
    Rtp "rtp"
    Rtsp "rtsp"
    Sctp "sctp"
    Sip "sip"
    Smb "smb"
    Smtp "smtp"
    Snmp "snmp"
    Ssdp "ssdp"
    Ssh "ssh"
    Stun "stun"
    Syslog "syslog"
    Telnet "telnet"
    Tftp "tftp"
    Tls "tls"
    Vnc "vnc"
    WireGuard "wireguard"
    Xmpp "xmpp"
}

impl Protocol {
    /// The protocol of this name.
    pub fn named(name: &str) -> Option<Protocol> {
        let mut all = Self::ALL.iter().copied();
        all.find(|protocol| protocol.name() == name)
    }

    /// The protocol that a packet's IP protocol alone tells.
    pub fn of_ip(protocol: IpProtocol) -> Protocol {
        match protocol {
            IpProtocol::ICMP | IpProtocol::ICMPV6 => Protocol::Icmp,
            IpProtocol(47) => Protocol::Gre,
            IpProtocol(50) => Protocol::Esp,
            IpProtocol(132) => Protocol::Sctp,
            _ => Protocol::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        let names = Protocol::ALL.iter().skip(1).map(|it| it.name());
        assert!(names.is_sorted());
        for protocol in Protocol::ALL {
            assert_eq!(Protocol::named(protocol.name()), Some(*protocol));
        }
    }
}
