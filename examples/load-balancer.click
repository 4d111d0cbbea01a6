// A load balancer: connections to 203.0.113.10, port 80, are distributed over three servers.
//
// The servers are 10.0.0.11 to 10.0.0.13. All packets of a connection go to its server, and replies
// come from the balancer's address. It reserves memory for 10000 connections, which fits a guest;
// ten times as many need --memory 24M. A handler shows each connection's server:
//
//   weir run examples/load-balancer.click --link outside=dev:eth1 --link servers=dev:eth2
//   weir read load-balancer flows.tcp_table
//   weir click examples/load-balancer.click OUTSIDE=eth1 SERVERS=eth2
//
// The servers' default route is 10.0.0.1, the balancer; clients are in 203.0.113.0/24 or beyond
// the router 203.0.113.1.

define($OUTSIDE outside, $SERVERS servers, $SERVICE 203.0.113.10, $NET 203.0.113.0/24,
	$ROUTER 203.0.113.1, $LAN 10.0.0.1);

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

outside :: Side($OUTSIDE, $SERVICE);
servers :: Side($SERVERS, $LAN);

pool :: RoundRobinIPMapper(
	- - 10.0.0.11 - 0 1,
	- - 10.0.0.12 - 0 1,
	- - 10.0.0.13 - 0 1);
flows :: IPRewriter(pool, drop, TCP_TIMEOUT 3600, MAPPING_CAPACITY 10000);

outside -> request :: IPClassifier(
	dst host $SERVICE and tcp dst port 80,
	dst host $SERVICE and icmp type echo,
	-);
request[0] -> in_ttl :: DecIPTTL -> flows;
request[1] -> ICMPPingResponder -> GetIPAddress(16) -> hop :: StaticIPLookup($NET 0, 0/0 $ROUTER 0)
	-> outside;
request[2] -> Discard;
flows[0] -> servers;

servers -> answer :: IPClassifier(tcp src port 80, dst host $LAN and icmp type echo, -);
answer[0] -> out_ttl :: DecIPTTL -> [1] flows;
answer[1] -> ICMPPingResponder -> GetIPAddress(16) -> servers;
answer[2] -> Discard;
flows[1] -> hop;
in_ttl[1], out_ttl[1] -> Discard;
