//! Flows as text, in ovs-ofctl's words: `tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1024,tp_dst=80`. Every field is
//! required, since an entry of a flow table is for one flow.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::flow::{Flow, has_ports};

/// Protocols that have names, those of IPv6 behind them.
const PROTOCOLS: [(&str, &str, u8); 5] = [
    ("tcp", "tcp6", 6),
    ("udp", "udp6", 17),
    ("sctp", "sctp6", 132),
    ("icmp", "icmp", 1),
    ("icmp6", "icmp6", 58),
];

/// A text that is no flow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "‘{text}’ is not a flow ({why}): write tcp,nw_src=ADDRESS,nw_dst=ADDRESS,tp_src=PORT,tp_dst=PORT, or udp or sctp likewise; icmp, icmp6 and nw_proto=NUMBER have no ports"
)]
pub struct NoFlow {
    text: String,
    why: String,
}

impl FromStr for Flow {
    type Err = NoFlow;

    fn from_str(text: &str) -> Result<Flow, NoFlow> {
        let wrong = |why: String| NoFlow {
            text: text.into(),
            why,
        };
        let (mut protocol, mut source, mut destination) = (None, None, None);
        let (mut source_port, mut destination_port) = (None, None);
        for field in text
            .split(',')
            .map(str::trim)
            .filter(|field| !field.is_empty())
        {
            let Some((name, value)) = field.split_once('=') else {
                let named = PROTOCOLS
                    .iter()
                    .find(|(v4, v6, _)| [*v4, *v6].contains(&field));
                let number = match (named, field) {
                    (Some(&(.., number)), _) => Some(number),
                    // They say no more than the addresses do.
                    (None, "ip" | "ipv6") => continue,
                    (None, _) => None,
                };
                let number = number.ok_or_else(|| wrong(format!("no protocol ‘{field}’")))?;
                set(&mut protocol, number).ok_or_else(|| wrong("two protocols".into()))?;
                continue;
            };
            let odd = || wrong(format!("‘{value}’ is not valid for {name}"));
            let twice = || wrong(format!("‘{name}’ is given twice"));
            match name {
                "nw_src" | "ipv6_src" => {
                    let address: IpAddr = value.parse().map_err(|_| odd())?;
                    set(&mut source, address).ok_or_else(twice)?;
                }
                "nw_dst" | "ipv6_dst" => {
                    let address: IpAddr = value.parse().map_err(|_| odd())?;
                    set(&mut destination, address).ok_or_else(twice)?;
                }
                "nw_proto" => {
                    let number: u8 = value.parse().map_err(|_| odd())?;
                    set(&mut protocol, number).ok_or_else(twice)?;
                }
                "tp_src" | "tcp_src" | "udp_src" | "sctp_src" => {
                    let port: u16 = value.parse().map_err(|_| odd())?;
                    set(&mut source_port, port).ok_or_else(twice)?;
                }
                "tp_dst" | "tcp_dst" | "udp_dst" | "sctp_dst" => {
                    let port: u16 = value.parse().map_err(|_| odd())?;
                    set(&mut destination_port, port).ok_or_else(twice)?;
                }
                _ => return Err(wrong(format!("no field ‘{name}’"))),
            }
        }
        let missing = |name: &str| wrong(format!("{name} is missing"));
        let protocol = protocol.ok_or_else(|| missing("the protocol"))?;
        let source = source.ok_or_else(|| missing("nw_src"))?;
        let destination = destination.ok_or_else(|| missing("nw_dst"))?;
        if source.is_ipv4() != destination.is_ipv4() {
            return Err(wrong("its addresses have different IP versions".into()));
        }
        match (has_ports(protocol), source_port, destination_port) {
            (true, None, _) => Err(missing("tp_src")),
            (true, _, None) => Err(missing("tp_dst")),
            (false, Some(_), _) | (false, _, Some(_)) => {
                Err(wrong("this protocol has no ports".into()))
            }
            _ => Ok(Flow {
                source,
                destination,
                protocol,
                source_port: source_port.unwrap_or(0),
                destination_port: destination_port.unwrap_or(0),
            }),
        }
    }
}

/// Sets what was not set before.
fn set<T>(field: &mut Option<T>, value: T) -> Option<()> {
    match field.replace(value) {
        None => Some(()),
        Some(_) => None,
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = PROTOCOLS
            .iter()
            .find(|(.., number)| *number == self.protocol);
        let v6 = self.source.is_ipv6();
        match (named, v6) {
            (Some((v4, ..)), false) => f.write_str(v4)?,
            (Some((_, v6, _)), true) => f.write_str(v6)?,
            (None, _) => write!(f, "nw_proto={}", self.protocol)?,
        }
        let (source, destination) = match v6 {
            false => ("nw_src", "nw_dst"),
            true => ("ipv6_src", "ipv6_dst"),
        };
        write!(
            f,
            ",{source}={},{destination}={}",
            self.source, self.destination
        )?;
        match has_ports(self.protocol) {
            true => write!(
                f,
                ",tp_src={},tp_dst={}",
                self.source_port, self.destination_port
            ),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn flows_are_read_in_the_words_of_ovs() {
        let flow: Flow = "tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1024,tp_dst=80"
            .parse()
            .unwrap();
        assert_eq!(flow.protocol, 6);
        assert_eq!(flow.destination_port, 80);
        let same = "tcp_dst=80, tcp_src=1024, nw_dst=10.0.0.2, nw_src=10.0.0.1, nw_proto=6";
        assert_eq!(same.parse::<Flow>().unwrap(), flow);
        let six: Flow = "udp6,ipv6_src=fd00::1,ipv6_dst=fd00::2,tp_src=1,tp_dst=53"
            .parse()
            .unwrap();
        assert_eq!(
            six.to_string(),
            "udp6,ipv6_src=fd00::1,ipv6_dst=fd00::2,tp_src=1,tp_dst=53"
        );
        let ping: Flow = "icmp,nw_src=10.0.0.1,nw_dst=10.0.0.2".parse().unwrap();
        assert_eq!(ping.to_string(), "icmp,nw_src=10.0.0.1,nw_dst=10.0.0.2");
    }

    #[test]
    fn what_is_no_flow_is_told_with_its_reason() {
        for (text, why) in [
            ("", "the protocol is missing"),
            ("tcp", "nw_src is missing"),
            ("tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2", "tp_src is missing"),
            (
                "tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1",
                "tp_dst is missing",
            ),
            (
                "icmp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1",
                "has no ports",
            ),
            ("tcp,udp,nw_src=10.0.0.1", "two protocols"),
            (
                "icmp,nw_src=10.0.0.1,nw_src=10.0.0.2",
                "‘nw_src’ is given twice",
            ),
            (
                "icmp,nw_src=10.0.0.1,nw_dst=fd00::1",
                "different IP versions",
            ),
            ("icmp,nw_src=host", "‘host’ is not valid for nw_src"),
            ("arp,nw_src=10.0.0.1", "no protocol ‘arp’"),
            ("icmp,in_port=3", "no field ‘in_port’"),
            ("tcp,tp_dst=70000", "‘70000’ is not valid for tp_dst"),
        ] {
            let error = text.parse::<Flow>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_flow_is_shown_as_it_is_read(
            v6: bool, a: u128, b: u128, protocol: u8, from: u16, to: u16
        ) {
            let address = |bits: u128| match v6 {
                true => IpAddr::from(bits.to_be_bytes()),
                false => IpAddr::from((bits as u32).to_be_bytes()),
            };
            let ports = has_ports(protocol);
            let flow = Flow {
                source: address(a),
                destination: address(b),
                protocol,
                source_port: if ports { from } else { 0 },
                destination_port: if ports { to } else { 0 },
            };
            prop_assert_eq!(flow.to_string().parse::<Flow>(), Ok(flow));
        }
    }
}
