// Lists the flows in a capture file: a line at the start of each, and packets and bytes at the end.
//
//   weir click --simtime examples/pcap-record.click FILE=flows.pcap
//   weir click examples/flow-statistics.click FILE=flows.pcap
//
// For live traffic, replace FromDump by FromDevice(eth0, SNIFFER true, FORCE_IP true), and write
// end.run to finish.

define($FILE flows.pcap);

FromDump($FILE, FORCE_IP true, END_CALL end.run)
	-> flows :: AggregateIPFlows
	-> packets :: AggregateCounter
	-> bytes :: AggregateCounter(BYTES true, IP_BYTES true)
	-> AggregateFirst(NOTIFIER flows)
	-> begun :: ToIPSummaryDump(-, FIELDS aggregate ip_proto ip_src sport ip_dst dport, HEADER false);

end :: Script(TYPE PASSIVE, wait 1ms,
	write begun.flush,
	print "$(packets.nagg) flows, $(packets.count) packets of them:",
	write packets.write_text_file -,
	print "$(bytes.count) bytes:",
	write bytes.write_text_file -,
	stop);
