// A UDP reflector: sends each UDP packet for 10.0.0.2, port 7, back to where it came from.
//
// It is the echo service (RFC 862), to measure round-trip times and loss. It does not answer packets
// from ports below 1024, so that two reflectors cannot answer each other.
//
//   weir run examples/udp-reflector.click --link net=tap:weir0
//   weir click examples/udp-reflector.click NET=eth1

define($NET net, $ADDRESS 10.0.0.2, $PORT 7);

FromDevice($NET, BURST 32) -> HostEtherFilter($NET)
	-> kind :: Classifier(12/0806 20/0001, 12/0800, -);
send :: Queue(512) -> ToDevice($NET, BURST 32);

kind[0] -> ARPResponder($ADDRESS $NET) -> send;
kind[1] -> Strip(14) -> CheckIPHeader
	-> IPFilter(allow dst host $ADDRESS and udp dst port $PORT and src port >= 1024, deny all)
	-> CheckUDPHeader
	-> IPMirror -> SetIPChecksum
	-> reflected :: Counter
	-> Unstrip(14) -> EtherMirror -> send;
kind[2] -> Discard;
