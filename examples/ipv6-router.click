// An IPv6 router between two networks, 2001:db8:1::/64 and 2001:db8:2::/64, with two hosts in
// memory.
//
// As RFC 8200, RFC 4861 and RFC 4443 require, it discovers its neighbors, looks up routes,
// decrements the hop limit, and reports errors to senders by ICMPv6. It does not fragment: the
// sender of a packet that is too long for a link learns the link's MTU.
//
// Host A sends host B packets that arrive, packets with too few hops, and packets that are too long
// for B's network, and sends packets to an address without a route. Ends by itself and prints the
// results.
//
//   weir click examples/ipv6-router.click

// A network's side of the router: frames in and out (input 0, output 0), packets for the routes
// (output 1), packets for the network (input 1).
elementclass Network { $ip, $mac, $mtu |
	input[0] -> kind :: Classifier(12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/86dd, -);
	kind[0] -> IP6NDAdvertiser($ip $mac) -> [0] output;
	kind[1] -> [1] neighbors :: IP6NDSolicitor($ip, $mac) -> [0] output;
	kind[2] -> Strip(14) -> CheckIP6Header(::) -> GetIP6Address(24) -> [1] output;
	kind[3] -> Discard;

	input[1] -> hops :: DecIP6HLIM
		-> fit :: IP6Fragmenter($mtu, HONOR_DF true)
		-> [0] neighbors;
	hops[1] -> ICMP6Error($ip, 3, 0) -> [1] output;
	fit[1] -> ICMP6Error($ip, 2, 0, PMTU $mtu) -> [1] output;
}

// A host: frames in and out (input 0, output 0), packets that it sends (input 1) and gets (output
// 1). All but its neighbors are behind the gateway.
elementclass Host { $ip, $mac, $gateway |
	input[0] -> kind :: Classifier(12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/86dd, -);
	kind[0] -> IP6NDAdvertiser($ip $mac) -> [0] output;
	kind[1] -> [1] neighbors :: IP6NDSolicitor($ip, $mac) -> [0] output;
	kind[2] -> Strip(14) -> CheckIP6Header -> [1] output;
	kind[3] -> Discard;
	input[1] -> SetIP6Address($gateway) -> [0] neighbors;
}

// The router.
one :: Network(2001:db8:1::1, 02:00:00:00:01:01, 1500);
two :: Network(2001:db8:2::1, 02:00:00:00:02:01, 1280);
routes :: LookupIP6Route(
	2001:db8:1::1/128 0, 2001:db8:2::1/128 0,	// the router itself
	2001:db8:1::/64 1, 2001:db8:2::/64 2,
	::/0 3);					// anywhere else: no route

one[1], two[1] -> routes;
routes[0] -> Discard;
routes[1] -> [1] one;
routes[2] -> [1] two;
routes[3] -> ICMP6Error(2001:db8:1::1, 1, 0) -> routes;

// The hosts, and the wires between them and the router.
a :: Host(2001:db8:1::a, 02:00:00:00:01:0a, 2001:db8:1::1);
b :: Host(2001:db8:2::b, 02:00:00:00:02:0b, 2001:db8:2::1);
a[0] -> [0] one; one[0] -> [0] a;
b[0] -> [0] two; two[0] -> [0] b;

// What A sends.
InfiniteSource(LENGTH 100, LIMIT 100, BURST 8, STOP true)
	-> UDPIP6Encap(2001:db8:1::a, 1000, 2001:db8:2::b, 2000) -> [1] a;
InfiniteSource(LENGTH 100, LIMIT 5, STOP true)
	-> IP6Encap(59, 2001:db8:1::a, 2001:db8:2::b, HLIM 1) -> [1] a;
InfiniteSource(LENGTH 1400, LIMIT 3, STOP true)
	-> UDPIP6Encap(2001:db8:1::a, 1000, 2001:db8:2::b, 2000) -> [1] a;
InfiniteSource(LENGTH 100, LIMIT 2, STOP true)
	-> UDPIP6Encap(2001:db8:1::a, 1000, 2001:db8:3::c, 2000) -> [1] a;

// B only listens.
Idle -> [1] b;

// What A and B get.
b[1] -> arrived :: Counter -> Discard;
a[1] -> errors :: Classifier(6/3a 40/03, 6/3a 40/02 44/00000500, 6/3a 40/01, -);
errors[0] -> expired :: Counter -> Discard;
errors[1] -> too_big :: Counter -> Discard;
errors[2] -> unreachable :: Counter -> Discard;
errors[3] -> strange :: Counter -> Discard;

DriverManager(wait_stop 4,
	print "B got $(arrived.count) packets",
	print "A was told: $(expired.count) too few hops, $(too_big.count) longer than 1280, \
$(unreachable.count) no route, $(strange.count) else",
	print $(two/neighbors.table));
