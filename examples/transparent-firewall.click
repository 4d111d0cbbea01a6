// A transparent firewall: a bridge between two halves of one network, which filters IP.
//
// Hosts on both sides keep their addresses. ARP passes. Hosts inside may open TCP connections, use
// DNS and NTP, and ping; replies pass. Hosts outside reach the web server 10.0.0.80 inside.
// Everything else is dropped, IPv6 included.
//
//   weir run examples/transparent-firewall.click --link inside=dev:eth1 --link outside=dev:eth2
//   weir click examples/transparent-firewall.click INSIDE=eth1 OUTSIDE=eth2
//
// Counters: outbound_dropped.count and inbound_dropped.count.

define($INSIDE inside, $OUTSIDE outside, $WEB 10.0.0.80);

// One direction: ARP passes, IP packets leave by output 1 to be filtered.
elementclass Kinds {
	input -> kind :: Classifier(12/0806, 12/0800, -);
	kind[0] -> [0] output;
	kind[1] -> CheckIPHeader(14) -> [1] output;
	kind[2] -> Discard;
}

FromDevice($INSIDE, PROMISC true, BURST 32) -> outbound :: Kinds;
FromDevice($OUTSIDE, PROMISC true, BURST 32) -> inbound :: Kinds;
to_outside :: Queue(512) -> ToDevice($OUTSIDE, BURST 32);
to_inside :: Queue(512) -> ToDevice($INSIDE, BURST 32);

outbound[0] -> to_outside;
outbound[1] -> out_filter :: IPFilter(
	0 tcp,
	0 udp dst port 53 or 123,
	0 icmp type echo or echo-reply,
	0 icmp type unreachable or timeexceeded,
	1 all) -> to_outside;
out_filter[1] -> outbound_dropped :: Counter -> Discard;

inbound[0] -> to_inside;
inbound[1] -> in_filter :: IPFilter(
	0 dst host $WEB and tcp dst port 80 or 443,
	0 tcp opt ack,				// answers; SYN alone opens nothing
	0 udp src port 53 or 123,
	0 icmp type echo-reply,
	0 icmp type unreachable or timeexceeded,
	1 all) -> to_inside;
in_filter[1] -> inbound_dropped :: Counter -> Discard;
