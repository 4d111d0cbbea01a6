// A router between two subnets: 10.0.1.0/24 at interface office, 10.0.2.0/24 at interface lab.

// A subnet: ARP, the packets that come from it (output 0), the packets that go there, and errors
// about these (output 1).
elementclass Subnet { $interface, $address |
	FromDevice($interface, BURST 32) -> HostEtherFilter($interface)
		-> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
	send :: Queue(512) -> ToDevice($interface, BURST 32);

	kind[0] -> ARPResponder($address $interface) -> send;
	kind[1] -> [1] arp :: ARPQuerier($address, $interface) -> send;
	kind[2] -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> [0] output;
	kind[3] -> Discard;

	errors :: Null -> [1] output;
	input -> DropBroadcasts -> FixIPSrc($address) -> ttl :: DecIPTTL -> arp;
	ttl[1] -> ICMPError($address, timeexceeded) -> errors;
}

office :: Subnet(office, 10.0.1.1);
lab :: Subnet(lab, 10.0.2.1);

routes :: RadixIPLookup(
	10.0.1.1 0, 10.0.2.1 0,		// the router itself
	10.0.1.0/24 1, 10.0.2.0/24 2,
	0.0.0.0/0 3);			// anywhere else: unreachable

office, lab -> routes;
office[1], lab[1] -> routes;

routes[0] -> self :: IPClassifier(icmp type echo, -);
self[0] -> ICMPPingResponder -> GetIPAddress(16) -> routes;
self[1] -> ICMPError(10.0.1.1, unreachable, protocol) -> routes;
routes[1] -> office;
routes[2] -> lab;
routes[3] -> ICMPError(10.0.1.1, unreachable, net) -> routes;
