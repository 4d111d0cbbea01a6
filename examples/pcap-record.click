// Writes a capture file: a thousand UDP packets of two flows, a millisecond apart.
//
// Use it to try programs that read captures, such as pcap-replay.click or tcpdump. Ends by itself.
//
//   weir click --simtime examples/pcap-record.click FILE=flows.pcap && tcpdump -nr flows.pcap

define($FILE flows.pcap, $TO 2:0:0:0:0:2);

out :: EtherEncap(0x0800, 2:0:0:0:0:1, $TO)
	-> SetTimestamp
	-> written :: Counter(COUNT_CALL 1000 end.run)
	-> ToDump($FILE);
RatedSource(RATE 500, LIMIT 500, LENGTH 100) -> UDPIPEncap(10.0.0.1, 1001, 10.0.0.2, 53) -> out;
RatedSource(RATE 500, LIMIT 500, LENGTH 900) -> UDPIPEncap(10.0.0.1, 1002, 10.0.0.2, 443) -> out;

end :: Script(TYPE PASSIVE, wait 1ms, print "$(written.count) packets", stop);
