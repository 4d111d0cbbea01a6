// One end of an IPsec tunnel between two sites: 10.1.0.0/24 here and 10.2.0.0/24 there.
//
// Packets between the sites travel as ESP (RFC 4303), encrypted by AES-128 in CBC mode (RFC 3602)
// and authenticated by HMAC-SHA-1-96 (RFC 2404), with protection against replay. Each direction
// has its own keys. The keys here are public: make your own, for example with
// `openssl rand -hex 16`. Sequence numbers restart with the configuration, and the other end drops
// them as replays: when one end restarts, give both new keys. For the other end, exchange
// the values:
//
//   weir run examples/ipsec-tunnel.click --link inside=dev:eth1 --link outside=dev:eth2
//   weir click examples/ipsec-tunnel.click INSIDE=eth1 OUTSIDE=eth2 LAN=10.2.0.1
//       LAN_NET=10.2.0.0/24 REMOTE_NET=10.1.0.0/24 HERE=192.0.2.2 THERE=192.0.2.1 OUT=1002 IN=1001

define($INSIDE inside, $OUTSIDE outside, $LAN 10.1.0.1, $LAN_NET 10.1.0.0/24,
	$REMOTE_NET 10.2.0.0/24, $HERE 192.0.2.1, $THERE 192.0.2.2, $OUT 1001, $IN 1002);

// Index, AES key, HMAC key, first sequence number, replay window.
keys :: SATable(
	1001 \<1c0d5a5c2f8b4e6f9a7d3e1b0c2f4a68> \<5e3a9c1f7b2d4e6a8c0f1b3d5f7a9c2e4b6d8f01> 1 64,
	1002 \<a3f1c29d04b8e7563c1f0a9b8d7e6f52> \<0c2e4a6b8d1f3a5c7e9b0d2f4a6c8e1b3d5f7a92> 1 64);

// One side: ARP, and IP packets in and out.
elementclass Side { $interface, $address |
	FromDevice($interface, BURST 32) -> HostEtherFilter($interface)
		-> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
	send :: Queue(512) -> ToDevice($interface, BURST 32);
	kind[0] -> ARPResponder($address $interface) -> send;
	kind[1] -> [1] arp :: ARPQuerier($address, $interface) -> send;
	kind[2] -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> output;
	kind[3] -> Discard;
	input -> arp;
}

inside :: Side($INSIDE, $LAN);
outside :: Side($OUTSIDE, $HERE);

routes :: RadixIPsecLookup(
	$HERE 0, $LAN 2,			// this gateway
	$THERE 3,				// the other gateway
	$LAN_NET 4,				// the site here
	$REMOTE_NET $THERE 1 $OUT,		// the site there, through the tunnel
	SATABLE keys);

// Only the sites talk through the tunnel, and only the tunnel brings packets in.
inside -> IPFilter(allow src net $LAN_NET, deny all) -> routes;
outside -> IPReassembler -> IPFilter(allow src host $THERE and dst host $HERE and ip proto 50, deny all)
	-> routes;

routes[0] -> StripIPHeader
	-> verify :: IPsecAuthHMACSHA1(1)
	-> IPsecAES(0, IGNORE 0, BLOCK 16)
	-> decapsulate :: IPsecESPUnencap(BLOCK 16)
	-> CheckIPHeader
	-> IPFilter(allow src net $REMOTE_NET and dst net $LAN_NET, deny all)
	-> GetIPAddress(16) -> received :: Counter
	-> in_ttl :: DecIPTTL -> inside;
in_ttl[1] -> Discard;

// The outer headers take up to 73 bytes: what would not fit is fragmented before it goes in.
routes[1] -> out_ttl :: DecIPTTL
	-> fits :: IPFragmenter(1424)
	-> IPsecESPEncap(BLOCK 16)
	-> IPsecAES(1, IGNORE 0, BLOCK 16)
	-> IPsecAuthHMACSHA1(0)
	-> sent :: Counter
	-> IPsecEncap(50, SRC $HERE)
	-> outside;
out_ttl[1] -> ICMPError($LAN, timeexceeded) -> inside;
fits[1] -> ICMPError($LAN, unreachable, needfrag) -> inside;

routes[2] -> IPFilter(allow icmp type echo, deny all)
	-> ICMPPingResponder -> GetIPAddress(16) -> inside;
routes[3] -> Discard;
routes[4] -> Discard;
