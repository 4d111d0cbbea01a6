// A packet sink: receives UDP packets to port 5001 of 10.0.0.2, and prints their rate each second.
//
//   weir click examples/packet-sink.click NET=eth1
//   weir run examples/packet-sink.click --link net=tap:weir0

define($NET net, $ADDRESS 10.0.0.2);

FromDevice($NET, BURST 32) -> HostEtherFilter($NET)
	-> kind :: Classifier(12/0806 20/0001, 12/0800, -);
kind[0] -> ARPResponder($ADDRESS $NET) -> Queue -> ToDevice($NET);
kind[1] -> Strip(14) -> CheckIPHeader
	-> wanted :: IPClassifier(dst host $ADDRESS and udp dst port 5001, -);
wanted[0] -> CheckUDPHeader -> sink :: AverageCounter -> Discard;
wanted[1] -> Discard;
kind[2] -> Discard;

Script(wait 1s, print "$(sink.count) packets, $(sink.rate) a second", loop);
