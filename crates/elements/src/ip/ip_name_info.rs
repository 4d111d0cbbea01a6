use crate::prelude::*;

/// Does nothing; the names of protocols, ports and ICMP messages are built in.
///
/// Arguments accept the names with or without this element. It exists for configurations that
/// mention it. The names are:
///
/// IP protocols: dccp, gre, icmp, igmp, ipip, payload, sctp, tcp, tcpudp, transp, udp.
///
/// Ports of TCP and UDP: auth, bootpc, bootps, chargen, daytime, discard, dns, domain, echo,
/// finger, ftp, ftp-data, https, imap3, imaps, irc, netbios-dgm, netbios-ns, netbios-ssn, nntp, ntp,
/// pop3, pop3s, pptp, rip, route, smtp, snmp, snmp-trap, ssh, sunrpc, telnet, tftp, www.
///
/// ICMP types: echo, echo-reply, inforeq, inforeq-reply, maskreq, maskreq-reply, parameterproblem,
/// redirect, routeradvert, routersolicit, sourcequench, timeexceeded, timestamp, timestamp-reply,
/// unreachable.
///
/// Codes of unreachable: filterprohibited, host, hostprecedence, hostprohibited, hostunknown,
/// isolated, needfrag, net, netprohibited, netunknown, port, precedencecutoff, protocol,
/// srcroutefail, toshost, tosnet. Of redirect: host, net, toshost, tosnet. Of timeexceeded:
/// reassembly, transit. Of parameterproblem: erroratptr, length, missingopt.
///
/// On a host, /etc/protocols and /etc/services add to them.
///
/// # Example
/// ```click
/// IPNameInfo;
/// InfiniteSource(LIMIT 1) -> ICMPIPEncap(1.0.0.1, 2.0.0.2, unreachable, needfrag) -> Discard;
/// ```
///
/// # See also
/// AddressInfo, PortInfo, IPFieldInfo
#[derive(Element)]
#[element(ports = "0/0")]
pub struct IPNameInfo;

impl Element for IPNameInfo {}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    /// The page of a class, as its doc comment has it.
    const PAGES: &str = include_str!("ip_name_info.rs");

    #[test]
    fn they_take_no_arguments() {
        Rig::new("IPFieldInfo; IPNameInfo;");
        for class in ["IPFieldInfo", "IPNameInfo"] {
            Rig::refuses(&format!("{class}(x);"), "too many arguments");
        }
    }

    /// The names that the page lists behind `title`.
    fn listed(title: &str) -> impl Iterator<Item = alloc::string::String> {
        let page: alloc::vec::Vec<&str> = PAGES
            .lines()
            .map(|line| line.trim_start_matches("///").trim())
            .collect();
        let page = page.join(" ");
        let (_, rest) = page.split_once(title).expect("the page has the list");
        let (names, _) = rest.split_once('.').expect("the list ends");
        names
            .split(',')
            .map(|name| name.trim().into())
            .collect::<alloc::vec::Vec<_>>()
            .into_iter()
    }

    #[test]
    fn the_names_listed_are_known() {
        let context = Context::blank();
        for name in listed("IP protocols:")
            .filter(|n| !["payload", "tcpudp", "transp"].contains(&n.as_str()))
        {
            assert!(context.parse::<IpProtocol>(&name).is_ok(), "{name}");
        }
        for name in listed("Ports of TCP and UDP:") {
            let (tcp, udp) = (
                context.parse::<TcpPort>(&name),
                context.parse::<UdpPort>(&name),
            );
            assert!(tcp.is_ok() && udp.is_ok(), "{name}");
        }
        for (title, kind) in [
            ("ICMP types:", Kind::IcmpType),
            ("Codes of unreachable:", Kind::IcmpCode(3)),
            ("Of redirect:", Kind::IcmpCode(5)),
            ("Of timeexceeded:", Kind::IcmpCode(11)),
            ("Of parameterproblem:", Kind::IcmpCode(12)),
        ] {
            for name in listed(title) {
                assert!(
                    context.names.int(kind, &name, "").is_some(),
                    "{title} {name}"
                );
            }
        }
    }
}
