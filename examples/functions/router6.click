// An IPv6 router between two networks.
//
// As RFC 8200, RFC 4861 and RFC 4443 require, it checks headers, discovers neighbors, looks up routes
// by the longest prefix, decrements the hop limit, and reports errors to senders by ICMPv6:
// unreachable networks and neighbors, exceeded hop limits, and packets that are too long. It does not fragment: the
// sender of a packet that is too long for a link learns the link's MTU. It answers neighbor
// solicitations for its own addresses and pings to them. It sends no router advertisements: hosts
// have its address as their gateway.
//
//   weir run router6 --link net1=dev:eth1 --link net2=dev:eth2
//   weir run router6 -p 'default=2001:db8:2::fe 2' --link net1=dev:eth1 --link net2=dev:eth2
//
// A routing daemon feeds it by the handlers of `routes`:
//
//   weir write router6 routes.add '2001:db8:9::/48 2001:db8:1::9 1'
//
// # Handlers
//
// - `routes.add`, `routes.remove` (write): add or replace a route, remove one. A route is a prefix, a
//   gateway if there is one, and 1 for `net1` or 2 for `net2`.
// - `routes.table` (read): all routes.
// - `net1/in.count`, `net1/out.count`, `net2/in.count`, `net2/out.count` (read): packets from a
//   network, and to it.
// - `net1/neighbors.table`, `net2/neighbors.table` (read): the neighbors.
// - `errors.count` (read): ICMPv6 errors that were sent.
// - `net1/martians.count`, `net2/martians.count` (read): packets that were dropped because their source
//   is link-local, a group or the loopback address, or their destination is the loopback address
//   (RFC 4291).

// unicast IPv6 address: the router's address on `net1`.
define($net1_ip 2001:db8:1::1);

// IPv6 prefix: the addresses on `net1`.
define($net1_net 2001:db8:1::/64);

// unicast IPv6 address: the router's address on `net2`.
define($net2_ip 2001:db8:2::1);

// IPv6 prefix: the addresses on `net2`.
define($net2_net 2001:db8:2::/64);

// text: where packets go that no other route is for: a gateway, and 1 for `net1` or 2 for `net2`; 3
// for nowhere.
define($default 3);

// list of text: further routes, each a prefix, a gateway, and 1 for `net1` or 2 for `net2`.
define($routes );

// number from 1280 to 65535: the longest packet that both links carry, in bytes.
define($mtu 1500);

// A network: neighbor discovery, the packets that come from it (output 0), the packets that go there,
// and errors about these (output 1), which have the address on the other network.
elementclass Network { $interface, $ip, $other |
	FromNetfront($interface) -> HostEtherFilter($interface)
		-> kind :: Classifier(12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/86dd, -);
	send :: ToNetfront($interface);
	errors :: Null -> [1] output;

	kind[0] -> IP6NDAdvertiser($ip $interface) -> send;
	kind[1] -> [1] neighbors :: IP6NDSolicitor($ip, $interface) -> send;
	neighbors[1] -> send;
	neighbors[2] -> ICMP6Error($other, 1, 3) -> errors;
	// Sources and destinations that no router forwards.
	kind[2] -> Strip(14) -> CheckIP6Header(::) -> valid :: Classifier(
		8/fe80%ffc0, 8/ff,
		8/00000000000000000000000000000001, 24/00000000000000000000000000000001, -);
	valid[0], valid[1], valid[2], valid[3] -> martians :: Discard;
	valid[4] -> in :: Counter -> GetIP6Address(24) -> [0] output;
	kind[3] -> Discard;

	input -> hops :: DecIP6HLIM
		-> fit :: IP6Fragmenter($mtu, HONOR_DF true)
		-> out :: Counter
		-> [0] neighbors;
	hops[1] -> ICMP6Error($other, 3, 0) -> errors;
	fit[1] -> ICMP6Error($other, 2, 0, PMTU $mtu) -> errors;
}

net1 :: Network(net1, $net1_ip, $net2_ip);
net2 :: Network(net2, $net2_ip, $net1_ip);

routes :: LookupIP6Route(
	$net1_ip/128 0, $net2_ip/128 0,		// the router itself
	$net1_net 1, $net2_net 2, ::/0 $default,
	fe80::/10 4, ff00::/8 4,		// never from one network to another
	$routes);
errors :: Counter -> routes;

net1, net2 -> routes;
net1[1], net2[1] -> errors;

routes[0] -> self :: ICMP6PingResponder -> routes;
self[1] -> Discard;
routes[1] -> net1;
routes[2] -> net2;
routes[3] -> ICMP6Error($net1_ip, 1, 0) -> errors;
routes[4] -> Discard;
