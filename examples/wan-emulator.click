// A wide area network emulator: a slow, long link between two interfaces.
//
// Each direction carries 10 Mb/s with a delay of 40 ms, and has queues like a provider's modem. Use
// it to test applications over long distances.
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
