// An IP router between three networks: 10.1.0.0/24, 10.2.0.0/24 and 10.3.0.0/24.
//
// As RFC 1812 requires, it looks up routes, decrements the time to live, processes IP options,
// fragments packets that are too long for a link, and reports errors to senders by ICMP. It answers
// pings to its own addresses, 10.x.0.1.
//
//   weir run examples/ip-router.click --link net1=dev:eth1 --link net2=dev:eth2 --link net3=dev:eth3
//   weir click examples/ip-router.click NET1=eth1 NET2=eth2 NET3=eth3
//
// Under `weir click` the interfaces are to have no addresses of their own.

define($NET1 net1, $NET2 net2, $NET3 net3);

// A network: ARP, the packets that come from it (output 0), the packets that go there, and errors
// about these (output 1). The number is the network's place among the routes.
elementclass Network { $interface, $address, $number |
	FromDevice($interface, BURST 32) -> HostEtherFilter($interface)
		-> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
	send :: Queue(512) -> ToDevice($interface, BURST 32);

	kind[0] -> ARPResponder($address $interface) -> send;
	kind[1] -> [1] arp :: ARPQuerier($address, $interface) -> send;
	kind[2] -> Paint($number) -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> [0] output;
	kind[3] -> Discard;

	errors :: Null -> [1] output;
	input -> DropBroadcasts
		-> redirect :: PaintTee($number)
		-> options :: IPGWOptions($address)
		-> FixIPSrc($address)
		-> ttl :: DecIPTTL
		-> fragment :: IPFragmenter(1500)
		-> arp;
	redirect[1] -> ICMPError($address, redirect, host) -> errors;
	options[1] -> ICMPError($address, parameterproblem) -> errors;
	ttl[1] -> ICMPError($address, timeexceeded) -> errors;
	fragment[1] -> ICMPError($address, unreachable, needfrag) -> errors;
}

net1 :: Network($NET1, 10.1.0.1, 1);
net2 :: Network($NET2, 10.2.0.1, 2);
net3 :: Network($NET3, 10.3.0.1, 3);

routes :: RadixIPLookup(
	10.1.0.1 0, 10.2.0.1 0, 10.3.0.1 0,	// the router itself
	10.1.0.0/24 1, 10.2.0.0/24 2, 10.3.0.0/24 3,
	0.0.0.0/0 4);				// anywhere else: unreachable

net1, net2, net3 -> routes;
net1[1], net2[1], net3[1] -> routes;

routes[0] -> IPReassembler -> self :: IPClassifier(icmp type echo, -);
self[0] -> ICMPPingResponder -> GetIPAddress(16) -> routes;
self[1] -> ICMPError(10.1.0.1, unreachable, protocol) -> routes;
routes[1] -> net1;
routes[2] -> net2;
routes[3] -> net3;
routes[4] -> ICMPError(10.1.0.1, unreachable, net) -> routes;
