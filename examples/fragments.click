// Fragmentation: large packets cross a link with a small MTU and are reassembled.
//
// A hundred UDP packets of 4000 bytes are cut to fit 576 bytes. Every other fragment takes a detour
// of 5 ms, so they arrive out of order, and are reassembled. Ends by itself.
//
//   weir click --simtime examples/fragments.click

RatedSource(RATE 100, LIMIT 100, LENGTH 3972)
	-> UDPIPEncap(10.0.0.1, 1000, 10.0.0.2, 2000)
	-> IPFragmenter(576)
	-> fragments :: Counter
	-> ways :: RoundRobinSwitch;

end :: IPReassembler -> CheckIPHeader -> CheckUDPHeader -> whole :: Counter -> Discard;
ways[0] -> end;
ways[1] -> SetTimestamp -> Queue -> DelayUnqueue(5ms) -> end;

Script(wait 1.1s,
	print "$(fragments.count) fragments, $(whole.count) packets, $(whole.byte_count) bytes",
	stop);
