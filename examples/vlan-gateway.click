// A router between two VLANs of one trunk: 10, with 10.0.10.0/24, and 20, with 10.0.20.0/24. It
// answers pings, and reports expired packets by ICMP.
//
//   weir run examples/vlan-gateway.click --link trunk=dev:eth1

define($TEN 10.0.10.1, $TWENTY 10.0.20.1);

FromNetfront(trunk) -> vlans :: Classifier(12/8100 14/000a%0fff, 12/8100 14/0014%0fff, -);
send :: ToNetfront(trunk);

// One VLAN: tagged frames in and out by port 0, IP packets by port 1. Packets to be sent carry
// their next hop as destination annotation.
elementclass Vlan { $id, $address |
	input[0] -> VLANDecap -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
	tag :: VLANEncap(VLAN_ID $id) -> [0] output;

	kind[0] -> ARPResponder($address trunk) -> tag;
	input[1] -> arp :: ARPQuerier($address, trunk) -> tag;
	kind[1] -> [1] arp;
	kind[2] -> Strip(14) -> CheckIPHeader -> [1] output;
	kind[3] -> Discard;
}

ten :: Vlan(10, $TEN);
twenty :: Vlan(20, $TWENTY);
vlans[0] -> ten [0] -> send;
vlans[1] -> twenty [0] -> send;
vlans[2] -> Discard;

route :: StaticIPLookup($TEN/32 2, $TWENTY/32 2, 10.0.10.0/24 0, 10.0.20.0/24 1);
ten[1] -> route;
twenty[1] -> route;

// To VLAN 10, to VLAN 20, and for the router itself.
route[0] -> ten_ttl :: DecIPTTL -> [1] ten;
route[1] -> twenty_ttl :: DecIPTTL -> [1] twenty;
route[2] -> ICMPPingResponder -> back :: GetIPAddress(16) -> route;
ten_ttl[1] -> ICMPError($TWENTY, timeexceeded) -> back;
twenty_ttl[1] -> ICMPError($TEN, timeexceeded) -> back;
