// A stateful firewall between two networks, IPv4 and IPv6, which routes between them.
//
// The rules decide on the first packet of each connection; later packets of both directions, and ICMP
// errors about them, share the decision. TCP connections are followed by their flags through
// handshake and teardown, UDP and ICMP by their addresses and ports. A connection that no rule allows
// is denied. Fragments are reassembled first, and IPv6 packets that came in fragments are cut again. The firewall
// answers pings to its addresses from the inside.
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
//   allow from outside tcp dst port 22 and dst net 2001:db8:1:0:5::/80
//   allow from inside icmp6 type echo
//   reject from inside
//
// A rule without addresses is about both versions of IP, unless it says `vers 4` or `vers 6`. `icmp` is that of
// IPv4, `icmp6` that of IPv6, with the types `echo`, `echo-reply`, `unreachable`, `toobig`, `timeexceeded` and
// `parameterproblem`, or numbers.
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
// packets are dropped. A connection takes some 130 bytes, and 32 more over IPv6: 100 000
// need `--memory 32M`.
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
//   another side; whose source is an address of the firewall. `inside_spoofed6`, `outside_spoofed6`: of IPv6.
// - `inside/martians.count`, `outside/martians.count` (read): IPv6 packets that were dropped because their source
//   or destination is link-local, a group or the loopback address, or whose source is none.

// unicast IPv4 address: the firewall's address on `inside`.
define($inside_ip 10.1.0.1);

// IPv4 prefix: the addresses on `inside`.
define($inside_net 10.1.0.0/24);

// unicast IPv4 address: the firewall's address on `outside`.
define($outside_ip 10.2.0.1);

// IPv4 prefix: the addresses on `outside`.
define($outside_net 10.2.0.0/24);

// unicast IPv6 address: the firewall's address on `inside`.
define($inside_ip6 2001:db8:1::1);

// IPv6 prefix: the addresses on `inside`.
define($inside_net6 2001:db8:1::/64);

// unicast IPv6 address: the firewall's address on `outside`.
define($outside_ip6 2001:db8:2::1);

// IPv6 prefix: the addresses on `outside`.
define($outside_net6 2001:db8:2::/64);

// text: where packets go that are for neither network: a gateway, and 1 for `inside` or 2 for
// `outside`; 3 for nowhere.
define($default 3);

// list of text: further routes, each a prefix, a gateway, and 1 for `inside` or 2 for `outside`.
define($routes );

// text: where IPv6 packets go that are for neither network, as `default`.
define($default6 3);

// list of text: further routes of IPv6, as `routes`.
define($routes6 );

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

// A side: packets in and out, with their next hop as destination annotation: of IPv4 by port 0, of IPv6 by
// port 2; and the errors about those that go out, by port 1 and 3. An error has the address of the side that it
// leaves by.
elementclass Side { $interface, $address, $address6, $other6 |
	FromNetfront($interface) -> HostEtherFilter($interface) -> kind :: Classifier(
		12/0806 20/0001, 12/0806 20/0002, 12/0800,
		12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/86dd, -);
	send :: ToNetfront($interface);

	kind[0] -> ARPResponder($address $interface) -> send;
	input[0] -> FixIPSrc($address) -> ttl :: DecIPTTL -> fragment :: IPFragmenter(1500)
		-> [0] arp :: ARPQuerier($address, $interface) -> SettleFlows -> send;
	kind[1] -> [1] arp;
	arp[1] -> send;
	arp[2] -> ICMPError($address, unreachable, host) -> [1] output;
	kind[2] -> Strip(14) -> CheckIPHeader -> whole :: IPReassembler -> GetIPAddress(16) -> [0] output;
	ttl[1] -> ICMPError($address, timeexceeded) -> [1] output;
	fragment[1] -> ICMPError($address, unreachable, needfrag, PMTU 1500) -> [1] output;

	kind[3] -> IP6NDAdvertiser($address6 $interface) -> send;
	input[1] -> hops :: DecIP6HLIM -> fit :: IP6Fragmenter(1500, HONOR_DF true, MTU_ANNO 36)
		-> [0] neighbors :: IP6NDSolicitor($address6, $interface) -> SettleFlows -> send;
	kind[4] -> [1] neighbors;
	neighbors[1] -> send;
	neighbors[2] -> ICMP6Error($other6, 1, 3) -> [3] output;
	// Sources and destinations that no router forwards.
	kind[5] -> Strip(14) -> CheckIP6Header -> valid :: Classifier(
		8/fe80%ffc0, 8/ff, 24/fe80%ffc0, 24/ff, 8/00000000000000000000000000000000,
		8/00000000000000000000000000000001, 24/00000000000000000000000000000001, -);
	valid[0], valid[1], valid[2], valid[3], valid[4], valid[5], valid[6] -> martians :: Discard;
	valid[7] -> IPReassembler(MAX_MTU_ANNO 36) -> [2] output;
	hops[1] -> ICMP6Error($other6, 3, 0) -> [3] output;
	fit[1] -> ICMP6Error($other6, 2, 0, PMTU 1500) -> [3] output;

	kind[6] -> Discard;
}

inside :: Side(inside, $inside_ip, $inside_ip6, $outside_ip6);
outside :: Side(outside, $outside_ip, $outside_ip6, $inside_ip6);

routes :: RadixIPLookup(
	$inside_ip 0, $outside_ip 0,	// the firewall itself
	$inside_net 1, $outside_net 2, 0.0.0.0/0 $default,
	$routes);
routes6 :: LookupIP6Route(
	$inside_ip6/128 0, $outside_ip6/128 0,
	$inside_net6 1, $outside_net6 2, ::/0 $default6,
	$routes6);
// Errors, which need no rule.
errors :: Counter -> routes;
errors6 :: Counter -> routes6;
inside[1], outside[1] -> errors;
inside[3], outside[3] -> errors6;
routes[0], routes6[0] -> Discard;
routes[1] -> [0] inside;
routes[2] -> [0] outside;
routes[3] -> ICMPError($inside_ip, unreachable, net) -> errors;
routes6[1] -> [1] inside;
routes6[2] -> [1] outside;
routes6[3] -> ICMP6Error($inside_ip6, 1, 0) -> errors6;

connections :: ConnectionTracker(CAPACITY $connections, TCP $tcp_timeout, UDP $udp_timeout, TCP_CLOSED $closed_timeout);
rules :: FlowFirewall($rules, SIDES inside outside inside outside);

// Sources: the firewall's own, those of the side, others.
own :: Discard;
from_inside :: IPClassifier(src host $inside_ip or $outside_ip, src net $inside_net, -);
from_outside :: IPClassifier(src host $inside_ip or $outside_ip, src net $inside_net, -);
from_inside6 :: LookupIP6Route($inside_ip6/128 0, $outside_ip6/128 0, $inside_net6 1, ::/0 2);
from_outside6 :: LookupIP6Route($inside_ip6/128 0, $outside_ip6/128 0, $inside_net6 1, ::/0 2);
inside -> from_inside;
outside -> from_outside;
inside[2] -> GetIP6Address(8) -> from_inside6;
outside[2] -> GetIP6Address(8) -> from_outside6;
from_inside[0], from_outside[0], from_inside6[0], from_outside6[0] -> own;

// The firewall itself.
local :: IPClassifier(dst host $inside_ip or $outside_ip, -);
stray :: IPClassifier(dst host $inside_ip or $outside_ip, -);
local6 :: GetIP6Address(24) -> to6 :: LookupIP6Route($inside_ip6/128 0, $outside_ip6/128 0, ::/0 1);
stray6 :: GetIP6Address(24) -> strays6 :: LookupIP6Route($inside_ip6/128 0, $outside_ip6/128 0, ::/0 1);
from_inside[1] -> local;
from_inside[2] -> inside_spoofed :: Counter -> IPFilter($spoofing all) -> local;
from_outside[1] -> outside_spoofed :: Counter -> IPFilter($spoofing all) -> stray;
from_outside[2] -> stray;
from_inside6[1] -> local6;
from_inside6[2] -> inside_spoofed6 :: Counter -> IPFilter($spoofing all) -> local6;
from_outside6[1] -> outside_spoofed6 :: Counter -> IPFilter($spoofing all) -> stray6;
from_outside6[2] -> stray6;
local[0] -> self :: IPClassifier(icmp type echo, -);
self[0] -> ICMPPingResponder -> routes;
to6[0] -> self6 :: ICMP6PingResponder -> routes6;
self[1], self6[1], stray[0], strays6[0] -> Discard;

local[1] -> [0] connections [0] -> [0] rules;
stray[1] -> [1] connections [1] -> [1] rules;
to6[1] -> [2] connections [2] -> [2] rules;
strays6[1] -> [3] connections [3] -> [3] rules;
rules[0], rules[1] -> routes;
rules[2], rules[3] -> routes6;
rules[4] -> rejected :: Classifier(0/60%f0, -);
rejected[0] -> ICMP6Error($inside_ip6, 1, 1) -> errors6;
rejected[1] -> ICMPError($inside_ip, unreachable, 13) -> errors;
