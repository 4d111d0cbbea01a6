// One end of a UDP tunnel between two sites: 10.1.0.0/24 here and 10.2.0.0/24 there.
//
// IP packets travel as payload of UDP packets between 192.0.2.1 and 192.0.2.2, port 4789, and pass
// NATs and firewalls that accept only TCP and UDP. The payload is not encrypted: see
// ipsec-tunnel.click. For the other end, exchange the values:
//
//   weir run examples/udp-tunnel.click --link inside=dev:eth1 --link outside=dev:eth2
//   weir click examples/udp-tunnel.click INSIDE=eth1 OUTSIDE=eth2 LAN=10.2.0.1
//       REMOTE_NET=10.1.0.0/24 HERE=192.0.2.2 THERE=192.0.2.1

define($INSIDE inside, $OUTSIDE outside, $LAN 10.1.0.1, $REMOTE_NET 10.2.0.0/24,
	$HERE 192.0.2.1, $THERE 192.0.2.2, $PORT 4789);

// One side: ARP, and IP packets in and out.
elementclass Side { $interface, $address |
	FromDevice($interface, BURST 32) -> HostEtherFilter($interface)
		-> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
	send :: Queue(512) -> ToDevice($interface, BURST 32);
	kind[0] -> ARPResponder($address $interface) -> send;
	kind[1] -> [1] arp :: ARPQuerier($address, $interface) -> send;
	kind[2] -> Strip(14) -> CheckIPHeader -> output;
	kind[3] -> Discard;
	input -> arp;
}

inside :: Side($INSIDE, $LAN);
outside :: Side($OUTSIDE, $HERE);

inside -> to :: IPClassifier(dst host $LAN and icmp type echo, dst net $REMOTE_NET, -);
to[0] -> ICMPPingResponder -> GetIPAddress(16) -> inside;
// The outer headers take 28 bytes: what would not fit is fragmented before it goes in.
to[1] -> ttl :: DecIPTTL -> fits :: IPFragmenter(1472)
	-> UDPIPEncap($HERE, $PORT, $THERE, $PORT) -> sent :: Counter -> outside;
to[2] -> ICMPError($LAN, unreachable, net) -> inside;
ttl[1] -> ICMPError($LAN, timeexceeded) -> inside;
fits[1] -> ICMPError($LAN, unreachable, needfrag) -> inside;

outside -> IPReassembler
	-> from :: IPClassifier(src host $THERE and dst host $HERE and udp dst port $PORT, -);
from[0] -> CheckUDPHeader -> StripIPHeader -> Strip(8)
	-> CheckIPHeader -> GetIPAddress(16) -> received :: Counter -> inside;
from[1] -> Discard;
