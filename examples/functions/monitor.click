// A monitor of flows: a wire that measures what passes, and exports records by IPFIX or NetFlow v9.
//
// Frames pass between `a` and `b` unchanged, also if they belong to no flow. The monitor follows a copy of
// the IPv4 and IPv6 packets: connections of TCP, flows of UDP and ICMP, packets and bytes of both
// directions, round-trip times and retransmissions of TCP, and the top senders. Records leave by the
// interface `export`, over UDP to a collector.
//
//   weir run monitor --link a=dev:eth1 --link b=dev:eth2 --link export=dev:eth3
//   nfcapd -p 4739 -w /var/cache/nfdump
//   weir read monitor flows.top
//
// # Records
//
// Each direction of a flow has records of its own. A record is made when the connection ends, when it
// had no packet for `idle` seconds, and each time that it is `active` seconds old. IPFIX records tell
// addresses, ports, protocol, TCP flags, the reason of their end, bytes, packets, and the times of the first
// and the last packet; NetFlow v9 records the same without the reason. There is a template for each version of IP.
//
// # Limits
//
// A TCP connection is measured from its SYN on; segments of connections that began before are counted in
// `connections.invalid`. Fragments are not measured. When all flows are in use, a new one takes the place
// of the oldest that is closed, or else of the oldest that has no reply, or no complete TCP handshake, yet;
// if there is none, its packets pass unmeasured (`connections.drops`). When too many records wait, further ones are lost
// (`flows.unexported`). Senders are counted in constant memory: the count of one may be too high, by the
// error that stands beside it at most. A flow takes some 480 bytes: 100 000 need `--memory 80M`.
//
// # Handlers
//
// - `flows.flows` (read): the flows, each with packets and bytes of both directions, and its age.
// - `flows.quality` (read): the TCP flows, each with round-trip times in microseconds and
//   retransmitted segments, of both sides. `flows.retransmitted` (read): all such segments.
// - `flows.top` (read): the top senders, ten or as many as the parameter says, each with its bytes and
//   their error. `flows.reset_top` (write): sets their counts to 0.
// - `flows.open`, `flows.count`, `flows.made`, `flows.unexported` (read): flows; packets; records made
//   and lost. `exporter.count`, `exporter.records` (read): messages sent, and records in them.
// - `there.count`, `there.byte_count`, `there.rate` (read): frames, bytes, and frames a second from `a` to
//   `b`; `back` from `b` to `a`.
// - `connections.count`, `opened`, `evicted`, `drops`, `invalid` (read): connections that are followed, began,
//   made room for others; packets unmeasured because the table was full, and because they belong to no
//   connection.

// unicast IPv4 address: the monitor's address on `export`.
define($export_ip 10.3.0.1);

// unicast IPv4 address: the collector, or the router on the way to it.
define($next_hop 10.3.0.2);

// unicast IPv4 address: the collector's address.
define($collector 10.3.0.2);

// number from 1 to 65535: the collector's port.
define($port 4739);

// one of ipfix, netflow9: the protocol of the export.
define($format ipfix);

// number from 0 to 4294967295: the monitor's number among the collector's exporters.
define($domain 1);

// number from 1 to 86400: seconds without packets after which a record is made.
define($idle 15);

// number from 1 to 86400: seconds after which a record is made though packets come.
define($active 60);

// number from 1 to 4194304: most flows.
define($connections 4000);

// number from 1 to 604800: seconds that a TCP connection lives without packets when both sides have
// closed it.
define($closed_timeout 240);

// number from 1 to 65536: senders that are counted.
define($top 1000);

// IP packets, in a copy.
elementclass Packets {
	input -> kind :: Classifier(12/0800, 12/86dd, -);
	kind[0] -> Strip(14) -> CheckIPHeader -> output;
	kind[1] -> Strip(14) -> CheckIP6Header -> output;
	kind[2] -> Discard;
}

FromNetfront(a) -> there :: Counter -> copy_there :: Tee -> ToNetfront(b);
FromNetfront(b) -> back :: Counter -> copy_back :: Tee -> ToNetfront(a);

connections :: ConnectionTracker(CAPACITY $connections, TCP_CLOSED $closed_timeout);
flows :: FlowMonitor(IDLE $idle, ACTIVE $active, TOP $top);
copy_there[1] -> Packets -> [0] connections [0] -> [0] flows [0] -> Discard;
copy_back[1] -> Packets -> [1] connections [1] -> [1] flows [1] -> Discard;

exporter :: FlowExporter(flows, $format, DOMAIN $domain)
	-> UDPIPEncap($export_ip, $port, $collector, $port) -> SetIPAddress($next_hop)
	-> arp :: ARPQuerier($export_ip, export) -> send :: ToNetfront(export);
FromNetfront(export) -> answers :: Classifier(12/0806 20/0001, 12/0806 20/0002, -);
answers[0] -> ARPResponder($export_ip export) -> send;
answers[1] -> [1] arp;
answers[2] -> Discard;
