// A NAT gateway: hosts in 192.168.1.0/24 share one address, 198.51.100.2, towards a provider.
//
// TCP and UDP flows and pings from inside are translated in both directions, with their ICMP
// errors. TCP connections to port 8080 of the outer address are forwarded to port 80 of
// 192.168.1.10. The gateway answers pings from inside and drops everything else from outside.
//
//   weir run examples/nat-gateway.click --link inside=dev:eth1 --link outside=dev:eth2
//   weir click examples/nat-gateway.click INSIDE=eth1 OUTSIDE=eth2
//
// Under `weir click` the interfaces are to have no addresses of their own.

define($INSIDE inside, $OUTSIDE outside,
	$LAN 192.168.1.1, $LAN_NET 192.168.1.0/24,
	$WAN 198.51.100.2, $WAN_NET 198.51.100.0/24, $PROVIDER 198.51.100.1,
	$SERVER 192.168.1.10);

// One side: ARP, and IP packets in and out. Packets to be sent carry their next hop as destination
// annotation.
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
outside :: Side($OUTSIDE, $WAN);

flows :: IPRewriter(
	pattern $WAN 10000-65535 - - 0 1,	// from inside: a port of the outer address
	pattern - - $SERVER 80 1 0,		// to the server
	drop);					// from outside: known flows only
pings :: ICMPPingRewriter(pattern $WAN - 0-65535 0 1, drop);
errors :: ICMPRewriter(flows pings);

inside -> from_inside :: IPClassifier(
	dst host $LAN and icmp type echo,
	src net $LAN_NET and not dst host $LAN and (tcp or udp),
	src net $LAN_NET and not dst host $LAN and icmp type echo,
	-);
from_inside[0] -> ICMPPingResponder -> GetIPAddress(16) -> inside;
from_inside[1] -> out_ttl :: DecIPTTL -> flows;
from_inside[2] -> ping_ttl :: DecIPTTL -> pings;
from_inside[3] -> Discard;
out_ttl[1], ping_ttl[1] -> ICMPError($LAN, timeexceeded) -> inside;

outside -> dst :: IPClassifier(dst host $WAN, -);
dst[1] -> Discard;
dst[0] -> from_outside :: IPClassifier(
	tcp dst port 8080,
	tcp or udp,
	icmp type echo-reply,
	icmp,
	-);
from_outside[0] -> [1] flows;
from_outside[1] -> [2] flows;
from_outside[2] -> [1] pings;
from_outside[3] -> errors;
from_outside[4] -> Discard;

// Out: hosts in the provider's network by themselves, all others by the provider's router.
flows[0] -> hop :: StaticIPLookup($WAN_NET 0, 0.0.0.0/0 $PROVIDER 0) -> outside;
pings[0] -> hop;

in_ttl :: DecIPTTL -> inside;
in_ttl[1] -> Discard;
flows[1] -> in_ttl;
pings[1] -> in_ttl;
errors -> in_ttl;
