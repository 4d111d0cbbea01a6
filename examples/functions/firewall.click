// A stateful firewall between two networks, which routes between them.
//
// The rules decide on the first packet of each connection; later packets of both directions, and ICMP
// errors about them, share the decision. TCP connections are followed by their flags through
// handshake and teardown, UDP and ICMP by their addresses and ports. A connection that no rule allows
// is denied. Fragments are reassembled first. The firewall answers pings to its addresses from the
// inside.
//
//   weir run firewall --link inside=dev:eth1 --link outside=dev:eth2
//   weir run firewall -p rules=office.rules --link inside=dev:eth1 --link outside=dev:eth2
//
// # Rules
//
// A file of rules has one on each line, of which the first that matches decides: `allow`, `deny` or
// `reject`; `from inside` or `from outside` unless it is about both; and a pattern as in IPFilter unless
// it is about all packets. `reject` tells the sender by ICMP that the packet was prohibited. `#` begins a
// comment. There may be 16384 rules.
//
//   allow from inside tcp dst port 80 or 443
//   allow from inside udp dst port 53
//   allow from outside tcp dst port 22 and dst host 10.1.0.5
//   reject from inside
//
// New rules apply to new connections; connections that were allowed go on:
//
//   weir write firewall rules.rules - <office.rules
//
// Rules that are written so last as long as the guest: after a restart it has those of its parameter
// `rules`. To keep them, set the parameter too; a guest reads its file then:
//
//   weir set firewall --variable rules=office.rules
//
// # Spoofed sources
//
// A packet from the inside whose source is not an address of `inside_net` is dropped, and so is a packet
// from the outside whose source is one (RFC 2827). With further networks inside, set `spoofing=allow`.
// A packet whose source is an address of the firewall is always dropped.
//
// # Limits
//
// When all connections are in use, a new one takes the place of the oldest that is closed, or
// else of the oldest that has no reply, or no complete TCP handshake, yet; if there is none, its
// packets are dropped. A connection takes some 130 bytes: 100 000 need `--memory 32M`.
//
// # Handlers
//
// - `rules.rules` (read, write): the rules. A mistake is told with its line, and changes nothing.
// - `rules.hits` (read): for each rule its connections, its packets, and the rule.
// - `rules.unmatched`, `rules.denied`, `rules.former` (read): packets that no rule matched; that were
//   denied; of connections that former rules allowed. `rules.reset` (write): all counters become 0.
// - `connections.table` (read): the connections. `connections.count`, `opened`, `evicted`, `drops`,
//   `invalid` (read): how many there are, began, made room for others; packets dropped because the table
//   was full, and because they belong to no connection. `connections.clear` (write): ends all.
// - `inside_spoofed.count`, `outside_spoofed.count`, `own.count` (read): packets whose source belongs to
//   another side; whose source is an address of the firewall.

// unicast IPv4 address: the firewall's address on `inside`.
define($inside_ip 10.1.0.1);

// IPv4 prefix: the addresses on `inside`.
define($inside_net 10.1.0.0/24);

// unicast IPv4 address: the firewall's address on `outside`.
define($outside_ip 10.2.0.1);

// IPv4 prefix: the addresses on `outside`.
define($outside_net 10.2.0.0/24);

// text: where packets go that are for neither network: a gateway, and 1 for `inside` or 2 for
// `outside`; 3 for nowhere.
define($default 3);

// list of text: further routes, each a prefix, a gateway, and 1 for `inside` or 2 for `outside`.
define($routes );

// file of rules: what may pass.
define($rules "allow from inside");

// one of drop, allow: what becomes of packets whose source belongs to another side.
define($spoofing drop);

// number from 1 to 4194304: most connections.
define($connections 10000);

// number from 1 to 604800: seconds that a TCP connection lives without packets when both sides have
// closed it.
define($closed_timeout 240);

// number from 1 to 604800: seconds that an established TCP connection lives without packets.
define($tcp_timeout 7440);

// number from 1 to 604800: seconds that a UDP flow lives without packets.
define($udp_timeout 300);

// A side: ARP, and packets in and out, with their next hop as destination annotation.
elementclass Side { $interface, $address |
	FromNetfront($interface) -> HostEtherFilter($interface)
		-> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
	send :: ToNetfront($interface);

	kind[0] -> ARPResponder($address $interface) -> send;
	// An error is from the side that it leaves by.
	input -> FixIPSrc($address) -> ttl :: DecIPTTL -> fragment :: IPFragmenter(1500)
		-> [0] arp :: ARPQuerier($address, $interface) -> SettleFlows -> send;
	kind[1] -> [1] arp;
	arp[1] -> send;
	arp[2] -> ICMPError($address, unreachable, host) -> [1] output;
	kind[2] -> Strip(14) -> CheckIPHeader -> whole :: IPReassembler -> GetIPAddress(16) -> [0] output;
	kind[3] -> Discard;

	ttl[1] -> ICMPError($address, timeexceeded) -> [1] output;
	fragment[1] -> ICMPError($address, unreachable, needfrag, PMTU 1500) -> [1] output;
}

inside :: Side(inside, $inside_ip);
outside :: Side(outside, $outside_ip);

routes :: RadixIPLookup(
	$inside_ip 0, $outside_ip 0,	// the firewall itself
	$inside_net 1, $outside_net 2, 0.0.0.0/0 $default,
	$routes);
// Errors, which need no rule.
errors :: Counter -> routes;
inside[1], outside[1] -> errors;
routes[0] -> Discard;
routes[1] -> inside;
routes[2] -> outside;
routes[3] -> ICMPError($inside_ip, unreachable, net) -> errors;

connections :: ConnectionTracker(CAPACITY $connections, TCP $tcp_timeout, UDP $udp_timeout, TCP_CLOSED $closed_timeout);
rules :: FlowFirewall($rules, SIDES inside outside);

// Sources: the firewall's own, those of the side, others.
own :: Discard;
from_inside :: IPClassifier(src host $inside_ip or $outside_ip, src net $inside_net, -);
from_outside :: IPClassifier(src host $inside_ip or $outside_ip, src net $inside_net, -);
inside -> from_inside;
outside -> from_outside;
from_inside[0], from_outside[0] -> own;

// The firewall itself.
local :: IPClassifier(dst host $inside_ip or $outside_ip, -);
stray :: IPClassifier(dst host $inside_ip or $outside_ip, -);
from_inside[1] -> local;
from_inside[2] -> inside_spoofed :: Counter -> IPFilter($spoofing all) -> local;
from_outside[1] -> outside_spoofed :: Counter -> IPFilter($spoofing all) -> stray;
from_outside[2] -> stray;
local[0] -> self :: IPClassifier(icmp type echo, -);
self[0] -> ICMPPingResponder -> routes;
self[1] -> Discard;
stray[0] -> Discard;

local[1] -> [0] connections [0] -> [0] rules;
stray[1] -> [1] connections [1] -> [1] rules;
rules[0], rules[1] -> routes;
rules[2] -> ICMPError($inside_ip, unreachable, 13) -> errors;
