// A NAT: the hosts of a private network share one IPv4 address towards a provider.
//
// Addresses and ports of TCP and UDP, and identifiers of pings, are translated (NAPT). The port that
// stands for a host's port is the same for all destinations. Hosts inside reach each other by the shared
// address and those ports (hairpinning). ICMP errors are translated with the packets that they are
// about. FTP works in both directions, active and passive. Fragments are reassembled first. The NAT
// answers pings to its addresses; nothing else from outside gets in, unless it is forwarded.
//
//   weir run nat44 --link inside=dev:eth1 --link outside=dev:eth2
//   weir run nat44 -p 'forwards=tcp 8080 192.168.1.10 80' --link inside=dev:eth1 --link outside=dev:eth2
//
// # Limits
//
// When all connections are in use, a new one takes the place of the oldest that is closed, or
// else of the oldest that has no reply, or no complete TCP handshake, yet; if there is none, its
// packets are dropped. When no port is free, new connections are refused. A connection takes some 230
// bytes: 100 000 need `--memory 48M`. Broadcasts and multicasts are not translated, nor are packets for
// `inside_net` that come to the NAT.
//
// # Handlers
//
// - `nat.mappings` (read): for each mapping its protocol, the host and port inside, the port outside, and
//   how many connections hold it. `nat.count`, `nat.exhausted`, `nat.drops` (read): mappings;
//   connections that found no port; packets dropped.
// - `connections.table` (read): the connections. `connections.count`, `opened`, `evicted`, `drops`,
//   `invalid` (read): how many there are, began, made room for others; packets dropped because the table
//   was full, and because they belong to no connection. `connections.clear` (write): ends all.
// - `inside_dropped.count`, `outside_dropped.count`, `broadcasts.drops` (read): packets from inside that are
//   not for the outside, or not from `inside_net`; packets from outside that are not for `outside_ip`;
//   Ethernet broadcasts from inside.

// unicast IPv4 address: the NAT's address inside.
define($inside_ip 192.168.1.1);

// IPv4 prefix: the addresses inside.
define($inside_net 192.168.1.0/24);

// IPv4 address: the router to the hosts inside; 0.0.0.0 if they are neighbors.
define($inside_gateway 0.0.0.0);

// unicast IPv4 address: the address that hosts share.
define($outside_ip 198.51.100.2);

// IPv4 prefix: the addresses of the network outside.
define($outside_net 198.51.100.0/24);

// unicast IPv4 address: the provider's router.
define($gateway 198.51.100.1);

// list of text: connections from outside that are let in, each a protocol (`tcp` or `udp`), a port of
// the shared address, and an address and port inside.
define($forwards );

// text: the ports that connections from inside get.
define($ports 1024-65535);

// one of dependent, independent: who may send to a port that a host inside uses: hosts that it
// sent to, or all (games, telephony).
define($filtering dependent);

// number from 1 to 4194304: most connections.
define($connections 8000);

// number from 1 to 604800: seconds that a TCP connection lives without packets when both sides have
// closed it.
define($closed_timeout 240);

// A side: ARP, and packets in and out, with their next hop as destination annotation.
elementclass Side { $interface, $address |
	FromNetfront($interface) -> HostEtherFilter($interface)
		-> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
	send :: ToNetfront($interface);

	kind[0] -> ARPResponder($address $interface) -> send;
	input -> fragment :: IPFragmenter(1500) -> [0] arp :: ARPQuerier($address, $interface) -> SettleFlows -> send;
	kind[1] -> [1] arp;
	kind[2] -> Strip(14) -> CheckIPHeader -> IPReassembler -> output;
	kind[3] -> Discard;
	fragment[1] -> ICMPError($address, unreachable, needfrag, PMTU 1500) -> [0] arp;
}

inside :: Side(inside, $inside_ip);
outside :: Side(outside, $outside_ip);

connections :: ConnectionTracker(CAPACITY $connections, TCP_CLOSED $closed_timeout);
nat :: FlowIPNAT($outside_ip, PORTS $ports, FILTERING $filtering, $forwards);
to_inside :: StaticIPLookup(0.0.0.0/0 $inside_gateway 0) -> inside;
to_outside :: StaticIPLookup($outside_net 0, 0.0.0.0/0 $gateway 0) -> outside;

// Pings to the NAT itself, and what is for nobody here.
inside -> broadcasts :: DropBroadcasts -> local :: IPClassifier(
	icmp type echo and (dst host $inside_ip or $outside_ip),
	src net $inside_net and not src host $inside_ip
		and not (dst net $inside_net or 224.0.0.0/3 or 127.0.0.0/8 or 0.0.0.0/8),
	-);
outside -> arrived :: IPClassifier(
	icmp type echo and dst host $outside_ip,
	dst host $outside_ip,
	-);
local[0] -> ICMPPingResponder -> to_inside;
arrived[0] -> ICMPPingResponder -> to_outside;
local[2] -> inside_dropped :: Discard;
arrived[2] -> outside_dropped :: Discard;

// The time to live is decremented before translation, so that an error is about the host's own packet.
local[1] -> out_ttl :: DecIPTTL -> [0] connections [0] -> [0] nat;
arrived[1] -> in_ttl :: DecIPTTL -> [1] connections [1] -> [1] nat;
out_ttl[1] -> ICMPError($inside_ip, timeexceeded) -> to_inside;
in_ttl[1] -> ICMPError($outside_ip, timeexceeded) -> to_outside;
nat[0] -> to_outside;
nat[1] -> GetIPAddress(16) -> to_inside;
