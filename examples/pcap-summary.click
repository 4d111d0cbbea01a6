// Summarizes a capture file: a line for each packet, and a count for each kind at the end.
//
//   weir click --simtime examples/pcap-record.click FILE=flows.pcap
//   weir click examples/pcap-summary.click FILE=flows.pcap

define($FILE flows.pcap);

kind :: IPClassifier(udp port 53, tcp or udp port 443 or 80, icmp, -);
FromDump($FILE, FORCE_IP true, END_CALL end.run)
	-> ToIPSummaryDump(-, FIELDS timestamp ip_proto ip_src sport ip_dst dport ip_len, HEADER false)
	-> kind;

kind[0] -> dns :: Counter -> Discard;
kind[1] -> web :: Counter -> Discard;
kind[2] -> icmp :: Counter -> Discard;
kind[3] -> other :: Counter -> Discard;

end :: Script(TYPE PASSIVE, wait 1ms,
	print "dns $(dns.count), web $(web.count), icmp $(icmp.count), other $(other.count)",
	stop);
