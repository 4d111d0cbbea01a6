// A NAT64: hosts that have IPv6 alone reach IPv4, and share one IPv4 address there (RFC 6146).
//
// An IPv4 address follows the prefix, 64:ff9b::/96 unless another is given: a host reaches 192.0.2.1 as
// 64:ff9b::192.0.2.1. A DNS64 tells hosts such addresses. TCP, UDP and pings are translated, headers by RFC
// 7915, and ICMP errors with the packets that they are about. The port that stands for a host's port is the
// same for all destinations. Hosts reach each other by the shared address and those ports
// (hairpinning). Nothing from outside gets in, unless it answers. The NAT answers pings to its addresses.
//
//   weir run nat64 --link inside=dev:eth1 --link outside=dev:eth2
//   weir run nat64 -p prefix=2001:db8:64::/96 --link inside=dev:eth1 --link outside=dev:eth2
//
// # Fragments
//
// Fragments of TCP and UDP are reassembled in the NAT; a packet that is not complete after 30 s is dropped.
// Fragments of pings from inside are dropped: ICMPv6's checksum covers the length of the whole. A packet that is longer than 1480 bytes and must not be fragmented is answered with
// "fragmentation needed"; another leaves in fragments.
//
// # Limits
//
// Each host has an alias, an IPv4 address that only the NAT sees, until it had no packet for 7500 s. When all
// are in use, packets of new hosts are dropped. When all connections are in use, a new one takes the
// place of the oldest that has no reply, or no complete TCP handshake, yet; if there is none, its
// packets are dropped. When no port is free, new connections are refused. A connection takes some 230 bytes,
// a host 45: 100 000 connections need `--memory 48M`.
//
// # Handlers
//
// - `hosts.hosts` (read): for each host its address, its alias, and the seconds since its last packet.
//   `hosts.count`, `hosts.refused`, `hosts.drops` (read): hosts; packets of hosts without an alias; packets that
//   cannot be translated.
// - `nat.mappings` (read): for each mapping its protocol, the host's alias and port, the port outside, and
//   how many connections hold it. `nat.count`, `nat.exhausted`, `nat.drops` (read): mappings;
//   connections that found no port; packets dropped.
// - `connections.table` (read): the connections. `connections.count`, `opened`, `evicted`, `drops`,
//   `invalid` (read): how many there are, began, made room for others; packets dropped because the table
//   was full, and because they belong to no connection. `connections.clear` (write): ends all.

// unicast IPv6 address: the NAT's address inside.
define($inside_ip 2001:db8:1::1);

// IPv6 prefix: the network inside.
define($inside_net 2001:db8:1::/64);

// IPv6 address: the router to hosts beyond that network; :: if there are none.
define($inside_gateway ::);

// IPv6 prefix: the prefix of 96 bits that stands for IPv4.
define($prefix 64:ff9b::/96);

// unicast IPv4 address: the address that hosts share.
define($outside_ip 198.51.100.2);

// IPv4 prefix: the addresses of the network outside.
define($outside_net 198.51.100.0/24);

// unicast IPv4 address: the provider's router.
define($gateway 198.51.100.1);

// text: the ports that connections get.
define($ports 1024-65535);

// one of dependent, independent: who may send to a port that a host inside uses: hosts that it
// sent to, or all (games, telephony).
define($filtering dependent);

// number from 1 to 4194304: most connections.
define($connections 8000);

// number from 1 to 604800: seconds that a TCP connection lives without packets when both sides have
// closed it.
define($closed_timeout 240);

// IPv4 prefix: the aliases of hosts; addresses that hosts do not need to reach.
define($aliases 100.64.0.0/22);

// IPv6 inside: neighbor discovery, and packets in and out.
elementclass Inside { $interface, $ip |
	FromNetfront($interface) -> HostEtherFilter($interface)
		-> kind :: Classifier(12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/86dd, -);
	send :: ToNetfront($interface);

	kind[0] -> IP6NDAdvertiser($ip $interface) -> send;
	kind[1] -> [1] neighbors :: IP6NDSolicitor($ip, $interface) -> send;
	kind[2] -> Strip(14) -> CheckIP6Header(::) -> GetIP6Address(24) -> output;
	kind[3] -> Discard;
	input -> routes :: LookupIP6Route($inside_net 0, ::/0 $inside_gateway 0)
		-> IP6Fragmenter(1500) -> [0] neighbors;
}

// IPv4 outside: ARP, and packets in and out.
elementclass Outside { $interface, $address |
	FromNetfront($interface) -> HostEtherFilter($interface)
		-> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
	send :: ToNetfront($interface);

	kind[0] -> ARPResponder($address $interface) -> send;
	input -> next :: StaticIPLookup($outside_net 0, 0.0.0.0/0 $gateway 0)
		-> IPFragmenter(1500) -> [0] arp :: ARPQuerier($address, $interface) -> send;
	kind[1] -> [1] arp;
	kind[2] -> Strip(14) -> CheckIPHeader -> IPReassembler -> output;
	kind[3] -> Discard;
}

inside :: Inside(inside, $inside_ip);
outside :: Outside(outside, $outside_ip);

hosts :: HostTranslator64($prefix, $aliases);
connections :: ConnectionTracker(CAPACITY $connections, TCP_CLOSED $closed_timeout);
nat :: FlowIPNAT($outside_ip, PORTS $ports, FILTERING $filtering);

// From inside: pings to the NAT itself, and packets to IPv4.
inside -> to :: LookupIP6Route($inside_ip/128 0, $prefix 1, ::/0 2);
to[0] -> self :: ICMP6PingResponder -> inside;
self[1] -> Discard;
to[1] -> hops :: DecIP6HLIM -> [0] hosts;
to[2] -> ICMP6Error($inside_ip, 1, 0) -> inside;
hops[1] -> ICMP6Error($inside_ip, 3, 0) -> inside;
hosts[0] -> IPReassembler -> [0] connections [0] -> [0] nat;

// From outside: pings to the NAT itself, and packets to hosts, which get longer by 20 bytes.
outside -> arrived :: IPClassifier(
	icmp type echo and dst host $outside_ip,
	dst host $outside_ip,
	-);
arrived[0] -> ICMPPingResponder -> GetIPAddress(16) -> outside;
arrived[1] -> ttl :: DecIPTTL -> fit :: CheckLength(1480) -> to_nat :: Null
	-> [1] connections [1] -> [1] nat;
fit[1] -> fixed :: Classifier(6/40%40, -);
fixed[0] -> ICMPError($outside_ip, unreachable, needfrag, PMTU 1480) -> outside;
fixed[1] -> to_nat;
arrived[2] -> Discard;
ttl[1] -> ICMPError($outside_ip, timeexceeded) -> outside;

nat[0] -> outside;
nat[1] -> [1] hosts [1] -> inside;
