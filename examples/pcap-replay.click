// Replays a capture file on an interface, at the intervals of the packets' timestamps.
//
// Ends after the last packet.
//
//   weir click examples/pcap-replay.click FILE=flows.pcap NET=eth1

define($FILE flows.pcap, $NET net);

file :: FromDump($FILE, TIMING true, END_CALL end.run)
	-> read :: Counter
	-> Queue(1000)
	-> ToDevice($NET);

end :: Script(TYPE PASSIVE, wait 0.1s, print "$(read.count) packets, $(read.byte_count) bytes", stop);
