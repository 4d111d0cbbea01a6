// A packet generator: sends UDP packets at a rate, by an interface, to a host on its network.
//
// It sends 5000 packets of 100 bytes, 1000 a second, and ends. It resolves the destination by ARP.
// Try it with packet-sink.click or udp-reflector.click at the other end.
//
//   weir click examples/packet-generator.click NET=eth1 TO=10.0.0.2 RATE=10000
//   weir run examples/packet-generator.click --link net=tap:weir0

define($NET net, $FROM 10.0.0.1, $TO 10.0.0.2, $RATE 1000, $COUNT 5000);

send :: Queue(512) -> ToDevice($NET, BURST 32);
arp :: ARPQuerier($FROM, $NET) -> send;
FromDevice($NET) -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, -);
kind[0] -> ARPResponder($FROM $NET) -> send;
kind[1] -> [1] arp;
kind[2] -> back :: Counter -> Discard;

source :: RatedSource(RATE $RATE, LIMIT $COUNT, LENGTH 58)
	-> UDPIPEncap($FROM, 5000, $TO, 5001)
	-> sent :: Counter(COUNT_CALL $COUNT done.run)
	-> arp;

done :: Script(TYPE PASSIVE,
	wait 1s,
	print "sent $(sent.count), came back $(back.count)",
	stop);
