// A carrier-grade NAT: many subscribers share a few IPv4 addresses.
//
// Each subscriber, an address inside, gets blocks of ports of one address, for TCP, UDP and pings. A port
// that stands for a subscriber's port is the same for all destinations, and all may send to it (RFC
// 4787: endpoint-independent mapping and filtering), as games and telephony need. Subscribers
// reach each other by their ports outside. ICMP errors are translated with the packets that they are about.
// Other protocols are dropped. Fragments are reassembled first. The NAT answers pings to its address inside.
//
//   weir run cgnat -p inside_net=100.64.0.0/16 -p pool=198.51.100.16/28 --link inside=dev:eth1 --link outside=dev:eth2
//
// # Limits
//
// A subscriber has at most `blocks` blocks, at most as many mappings as these have ports, and makes at most
// `rate` of them in a second; what is beyond is dropped, and harms no other subscriber as long as
// `subscribers` times `blocks` times `block` mappings fit. A mapping takes some 60 bytes, a subscriber 60, and a
// block of 512 ports 216: 1 000 000 mappings of 16 addresses need `--memory 128M`; the default of
// `mappings` fits the default memory.
//
// # Logs
//
// Each block that is given to a subscriber or taken back is logged as a syslog message (RFC 5424) by UDP, to
// `log_server`: the time, the subscriber, the address and ports outside. A block is taken back 120 s
// after its last mapping ended.
//
//   <134>1 2026-01-31T12:00:00.123Z - CarrierGradeNAT - block-allocated - subscriber=100.64.0.9 address=198.51.100.18 ports=4096-4607 protocols=tcp,udp,icmp
//
// With `deterministic`, a prefix inside, each subscriber has one block, which follows from its address (RFC
// 7422): all ports are divided evenly, and nothing is logged.
//
// # Handlers
//
// - `nat.subscribers` (read): for each subscriber its address, that outside, its blocks, its mappings, and new
//   mappings that it did not get. `nat.mappings` (read): for each mapping its protocol, the subscriber
//   and its port, and the address and port outside.
// - `nat.subscriber ADDRESS PORT` (read): the subscriber that has a port outside.
// - `nat.events` (read): the last 256 log messages. `nat.unlogged` (read): messages that were lost.
// - `nat.count`, `nat.drops` (read): mappings; packets dropped. `nat.full`, `nat.strangers`,
//   `nat.over_limit`, `nat.over_rate`, `nat.exhausted` (read): those dropped because all mappings were in
//   use, all subscribers there, their subscriber at its limit or rate, or no block free.

// unicast IPv4 address: the NAT's address inside.
define($inside_ip 100.64.0.1);

// IPv4 prefix: the addresses of subscribers.
define($inside_net 100.64.0.0/10);

// IPv4 address: the router to subscribers; 0.0.0.0 if they are neighbors.
define($inside_gateway 0.0.0.0);

// unicast IPv4 address: the NAT's own address outside, from which it logs.
define($outside_ip 203.0.113.2);

// IPv4 prefix: the network outside.
define($outside_net 203.0.113.0/24);

// unicast IPv4 address: the provider's router.
define($gateway 203.0.113.1);

// IPv4 prefix without outside_ip, gateway: the addresses that subscribers share.
define($pool 198.51.100.16/28);

// number from 16 to 64512: ports of a block.
define($block 512);

// number from 1 to 4032: most blocks of a subscriber.
define($blocks 4);

// number from 1 to 1048576: most subscribers.
define($subscribers 1024);

// number from 1 to 1000000: most new mappings of a subscriber in a second.
define($rate 500);

// text in inside_net: a prefix inside whose addresses have fixed blocks; empty if blocks are given as needed.
define($deterministic "");

// number from 1 to 16777216: most mappings.
define($mappings 16384);

// number from 1 to 604800: seconds that a mapping of TCP lives without packets while a connection is open.
define($tcp_timeout 7440);

// number from 1 to 604800: seconds that a mapping of UDP lives without packets from inside.
define($udp_timeout 300);

// IPv4 address: the server that log messages go to; 0.0.0.0 if they go nowhere.
define($log_server 0.0.0.0);

// number from 1 to 65535: its port.
define($log_port 514);

// A side: ARP, and packets in and out, with their next hop as destination annotation.
elementclass Side { $interface, $address, $answers |
	FromNetfront($interface) -> HostEtherFilter($interface)
		-> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
	send :: ToNetfront($interface);

	kind[0] -> ARPResponder($answers $interface) -> send;
	input -> fragment :: IPFragmenter(1500) -> [0] arp :: ARPQuerier($address, $interface) -> SettleFlows -> send;
	kind[1] -> [1] arp;
	kind[2] -> Strip(14) -> CheckIPHeader -> IPReassembler -> output;
	kind[3] -> Discard;
	fragment[1] -> ICMPError($address, unreachable, needfrag, PMTU 1500) -> [0] arp;
}

inside :: Side(inside, $inside_ip, $inside_ip);
outside :: Side(outside, $outside_ip, $outside_ip $pool);

nat :: CarrierGradeNAT($pool, BLOCK $block, BLOCKS $blocks, SUBSCRIBERS $subscribers, RATE $rate,
	DETERMINISTIC $deterministic, CAPACITY $mappings, TCP $tcp_timeout, UDP $udp_timeout);

to_inside :: StaticIPLookup(0.0.0.0/0 $inside_gateway 0) -> inside;
to_outside :: StaticIPLookup($outside_net 0, 0.0.0.0/0 $gateway 0) -> outside;

// Pings to the NAT itself, and what is for nobody here.
inside -> sent :: IPClassifier(
	icmp type echo and dst host $inside_ip,
	src net $inside_net and not dst host $inside_ip,
	-);
outside -> arrived :: IPClassifier(
	icmp type echo and dst host $outside_ip,
	dst net $pool,
	-);
sent[0] -> ICMPPingResponder -> GetIPAddress(16) -> to_inside;
arrived[0] -> ICMPPingResponder -> GetIPAddress(16) -> to_outside;
sent[2], arrived[2] -> Discard;

// The time to live is decremented before translation, so that an error is about the subscriber's own
// packet.
sent[1] -> out_ttl :: DecIPTTL -> [0] nat;
arrived[1] -> in_ttl :: DecIPTTL -> [1] nat;
out_ttl[1] -> ICMPError($inside_ip, timeexceeded) -> to_inside;
in_ttl[1] -> ICMPError($outside_ip, timeexceeded) -> to_outside;
nat[0] -> to_outside;
nat[1] -> to_inside;

// The log, unless it goes nowhere.
nat[2] -> UDPIPEncap($outside_ip, 514, $log_server, $log_port) -> log :: IPClassifier(dst host 0.0.0.0, -);
log[0] -> Discard;
log[1] -> to_outside;
