// One end of an IP-in-IP tunnel (RFC 2003) between two sites: 10.1.0.0/24 here, 10.2.0.0/24 there.
//
// It works with any router that has the protocol, such as Linux' `ip tunnel add … mode ipip`. For
// the other end, exchange the values:
//
//   weir run examples/ipip-tunnel.click --link inside=dev:eth1 --link outside=dev:eth2
//   weir click examples/ipip-tunnel.click INSIDE=eth1 OUTSIDE=eth2 LAN=10.2.0.1
//       REMOTE_NET=10.1.0.0/24 HERE=192.0.2.2 THERE=192.0.2.1

define($INSIDE inside, $OUTSIDE outside, $LAN 10.1.0.1, $REMOTE_NET 10.2.0.0/24,
	$HERE 192.0.2.1, $THERE 192.0.2.2);

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
// The outer header takes 20 bytes: what would not fit is fragmented before it goes in.
to[1] -> ttl :: DecIPTTL -> fits :: IPFragmenter(1480)
	-> IPEncap(ipip, $HERE, $THERE) -> sent :: Counter -> outside;
to[2] -> ICMPError($LAN, unreachable, net) -> inside;
ttl[1] -> ICMPError($LAN, timeexceeded) -> inside;
fits[1] -> ICMPError($LAN, unreachable, needfrag) -> inside;

outside -> IPReassembler
	-> from :: IPClassifier(src host $THERE and dst host $HERE and ip proto ipip, -);
from[0] -> StripIPHeader -> CheckIPHeader -> GetIPAddress(16) -> received :: Counter -> inside;
from[1] -> Discard;
