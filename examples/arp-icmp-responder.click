// A responder: answers ARP requests and pings for all of 192.0.2.0/24, like 254 hosts.
//
// Use it to test networks and monitoring.
//
//   weir run examples/arp-icmp-responder.click --link net=tap:weir0
//   ip addr add 192.0.2.1/24 dev weir0; ping 192.0.2.77
//   weir click examples/arp-icmp-responder.click NET=eth1

define($NET net, $HOSTS 192.0.2.0/24);

FromDevice($NET, BURST 32) -> kind :: Classifier(12/0806 20/0001, 12/0800, -);
send :: Queue(512) -> ToDevice($NET, BURST 32);

// But the one who asks has 192.0.2.1 itself.
kind[0] -> asked :: Classifier(38/c0000201, -);
asked[0] -> Discard;
asked[1] -> ARPResponder($HOSTS $NET) -> arp :: Counter -> send;
kind[1] -> Strip(14) -> CheckIPHeader
	-> IPFilter(allow dst net $HOSTS and icmp type echo, deny all)
	-> ICMPPingResponder -> pings :: Counter
	-> Unstrip(14) -> EtherMirror -> send;
kind[2] -> Discard;
