// A page server: answers each TCP connection with the same page, and pings.
//
// It keeps nothing of a connection, and so needs no more than the guest of one (docs/on-demand.md). Use it for a
// notice in place of a server, and to try guests that are started by a connection.
//
//   weir run examples/page-server.click --link net=tap:weir0
//   ip addr add 192.0.2.1/24 dev weir0; curl http://192.0.2.80/

define($IP 192.0.2.80);

FromNetfront(net) -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
arp :: ARPQuerier($IP, net) -> ToNetfront(net);
kind[0] -> ARPResponder($IP net) -> ToNetfront(net);
kind[1] -> [1] arp;
kind[2] -> Strip(14) -> CheckIPHeader
	-> what :: IPClassifier(dst $IP and tcp syn, dst $IP and tcp, dst $IP and icmp type echo, -);
kind[3] -> Discard;

what[0] -> connections :: Counter
	-> page :: StatelessTCPResponder("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 27\r\n\r\nThis service has moved on.\n")
	-> back :: GetIPAddress(16) -> arp;
what[1] -> page;
what[2] -> ICMPPingResponder -> back;
what[3] -> Discard;
