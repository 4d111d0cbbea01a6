// A routing firewall between two networks: 10.1.0.0/24 inside, 10.2.0.0/24 outside.
//
// Hosts inside may ping and use DNS, SSH, HTTP, HTTPS and iperf3; replies pass. Everything else is
// rejected at once with an ICMP message, so clients do not wait for a timeout. Each rule counts its
// packets.
//
//   weir run examples/firewall.click --link inside=tap:weir0 --link outside=dev:eth1

define($INSIDE 10.1.0.1, $OUTSIDE 10.2.0.1);

// One side: ARP, and IP packets in and out. Packets to be sent carry their next hop as destination
// annotation.
elementclass Side { $interface, $address |
	FromNetfront($interface) -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
	send :: ToNetfront($interface);

	kind[0] -> ARPResponder($address $interface) -> send;
	input -> arp :: ARPQuerier($address, $interface) -> send;
	kind[1] -> [1] arp;
	kind[2] -> Strip(14) -> CheckIPHeader -> output;
	kind[3] -> Discard;
}

inside :: Side(inside, $INSIDE);
outside :: Side(outside, $OUTSIDE);

// What may pass from inside to outside, in this order.
inside -> requests :: IPClassifier(
	dst host $INSIDE,
	icmp type echo,
	udp dst port 53,
	tcp dst port 22,
	tcp dst port 80 or 443,
	tcp dst port 5201,
	-);

// What may come back.
outside -> answers :: IPClassifier(
	icmp type echo-reply,
	tcp opt ack and src port 22 or 80 or 443 or 5201,
	udp src port 53,
	-);

// Packets for the firewall itself: it answers pings.
requests[0] -> self :: Counter -> ICMPPingResponder
	-> GetIPAddress(16) -> inside;

out :: GetIPAddress(16) -> ttl :: DecIPTTL -> outside;
requests[1] -> ping :: Counter -> out;
requests[2] -> dns :: Counter -> out;
requests[3] -> ssh :: Counter -> out;
requests[4] -> web :: Counter -> out;
requests[5] -> iperf :: Counter -> out;
requests[6] -> refused :: Counter
	-> ICMPError($INSIDE, unreachable, port) -> GetIPAddress(16) -> inside;
ttl[1] -> ICMPError($INSIDE, timeexceeded) -> GetIPAddress(16) -> inside;

in :: GetIPAddress(16) -> back_ttl :: DecIPTTL -> inside;
answers[0] -> pong :: Counter -> in;
answers[1] -> tcp_answers :: Counter -> in;
answers[2] -> dns_answers :: Counter -> in;
answers[3] -> stray :: Counter -> Discard;
back_ttl[1] -> Discard;
