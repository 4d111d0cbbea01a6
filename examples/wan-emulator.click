// A wide area network in a box: a wire between two interfaces that is slow and far.
//
// Each direction carries 10 Mb/s and takes 40 ms, with queues as a provider's modem has them. For
// trying out how applications behave far away.
//
//   weir run examples/wan-emulator.click --link a=dev:eth1 --link b=dev:eth2
//   weir click examples/wan-emulator.click A=eth1 B=eth2 RATE=2Mbps DELAY=300ms

define($A a, $B b, $RATE 10Mbps, $DELAY 40ms);

elementclass Direction { $from, $to |
	FromDevice($from, PROMISC true, BURST 32)
		-> SetTimestamp
		-> modem :: Queue(100)
		-> BandwidthShaper($RATE)
		-> Unqueue
		-> flight :: Queue(10000)
		-> DelayShaper($DELAY)
		-> ToDevice($to);
}

there :: Direction($A, $B);
back :: Direction($B, $A);
