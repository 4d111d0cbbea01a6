// An IPv4 router between two networks.
//
// As RFC 1812 requires, it checks headers, looks up routes by the longest prefix, decrements the time
// to live, processes IP options, fragments packets that are too long for a link, drops directed
// broadcasts, and reports errors to senders by ICMP: unreachable networks, hosts and protocols, expired
// times, parameter problems, packets that must not be fragmented, and redirects. It answers ARP
// requests for its own addresses and pings to them.
//
//   weir run router --link net1=dev:eth1 --link net2=dev:eth2
//   weir run router -p 'default=10.2.0.254 2' -p 'routes=10.9.0.0/16 10.1.0.9 1' --link net1=dev:eth1 --link net2=dev:eth2
//
// A routing daemon feeds it by the handlers of `routes`, one route a write or many:
//
//   weir write router routes.ctrl 'add 10.9.0.0/16 10.1.0.9 1'
//
// A route takes about 100 bytes; 100 000 prefixes need `--memory 32M`.
//
// # Handlers
//
// - `routes.add`, `routes.set`, `routes.remove` (write): add a route, add or replace one, remove one.
//   A route is a prefix, a gateway if there is one, and 1 for `net1` or 2 for `net2`.
// - `routes.ctrl` (write): several of these commands, one a line; all are done or none.
// - `routes.table` (read): all routes. `routes.lookup` (read): the route of an address.
// - `net1/in.count`, `net1/out.count`, `net2/in.count`, `net2/out.count` (read): packets from a
//   network, and to it.
// - `net1/arp.table`, `net2/arp.table` (read): the neighbors.
// - `errors.count` (read): ICMP errors that were sent.

// unicast IPv4 address: the router's address on `net1`.
define($net1_ip 10.1.0.1);

// IPv4 prefix: the addresses on `net1`.
define($net1_net 10.1.0.0/24);

// unicast IPv4 address: the router's address on `net2`.
define($net2_ip 10.2.0.1);

// IPv4 prefix: the addresses on `net2`.
define($net2_net 10.2.0.0/24);

// text: where packets go that no other route is for: a gateway, and 1 for `net1` or 2 for `net2`; 3
// for nowhere.
define($default 3);

// list of text: further routes, each a prefix, a gateway, and 1 for `net1` or 2 for `net2`.
define($routes );

// number from 68 to 65535: the longest packet that both links carry, in bytes.
define($mtu 1500);

// A network: ARP, the packets that come from it (output 0), the packets that go there, and errors
// about these (output 1). The number is the network's place among the routes.
elementclass Network { $interface, $address, $number |
	FromNetfront($interface) -> HostEtherFilter($interface)
		-> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
	send :: ToNetfront($interface);
	errors :: Null -> [1] output;

	kind[0] -> ARPResponder($address $interface) -> send;
	kind[1] -> [1] arp :: ARPQuerier($address, $interface) -> send;
	arp[1] -> send;
	arp[2] -> ICMPError($address, unreachable, host) -> errors;
	kind[2] -> Paint($number) -> Strip(14) -> CheckIPHeader -> in :: Counter
		-> GetIPAddress(16) -> [0] output;
	kind[3] -> Discard;

	input -> DropBroadcasts
		-> redirect :: PaintTee($number)
		-> options :: IPGWOptions($address)
		-> FixIPSrc($address)
		-> ttl :: DecIPTTL
		-> fragment :: IPFragmenter($mtu)
		-> out :: Counter
		-> [0] arp;
	redirect[1] -> ICMPError($address, redirect, host) -> errors;
	options[1] -> ICMPError($address, parameterproblem) -> errors;
	ttl[1] -> ICMPError($address, timeexceeded) -> errors;
	fragment[1] -> ICMPError($address, unreachable, needfrag, PMTU $mtu) -> errors;
}

net1 :: Network(net1, $net1_ip, 1);
net2 :: Network(net2, $net2_ip, 2);

routes :: RadixIPLookup(
	$net1_ip 0, $net2_ip 0,		// the router itself
	$net1_net 1, $net2_net 2, 0.0.0.0/0 $default,
	$routes);
errors :: Counter -> routes;

net1, net2 -> routes;
net1[1], net2[1] -> errors;

routes[0] -> IPReassembler -> self :: IPClassifier(icmp type echo, -);
self[0] -> ICMPPingResponder -> GetIPAddress(16) -> routes;
self[1] -> ICMPError($net1_ip, unreachable, protocol) -> errors;
routes[1] -> net1;
routes[2] -> net2;
routes[3] -> ICMPError($net1_ip, unreachable, net) -> errors;
