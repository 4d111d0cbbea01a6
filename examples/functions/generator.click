// A generator of traffic: flows of packets that a sink measures.
//
// The packets carry numbers and the times at which they were sent, by which the function `sink`, at the
// far end of a path, tells loss, order and delay. Flows take turns; they differ in addresses
// and ports. The generator answers no ARP requests.
//
//   weir run generator -p rate=100Mbps -p sizes=imix -p flows=1000 --link port=dev:eth1
//   weir read generator source.rate
//   weir write generator source.rate 1M
//
// # Handlers
//
// - `source.count`, `source.byte_count` (read): frames made in this run, and their bytes.
//   `source.rate`, `source.byte_rate`, `source.bit_rate` (read): the same a second.
// - `source.done` (read): whether the run is over, by `count` or `seconds`. `source.reset` (write)
//   begins another.
// - `source.active` (read, write): whether it makes packets; writing true begins another run.
//   `source.rate` (write): another rate, in the run.

// text: packets a second, also as 10k or 1M, or bits of frames a second, as 100Mbps; 0: as fast as it
// goes.
define($rate 1000);

// text: lengths of frames without their check sequence: one, several, each with its weight if not
// equal, as `60:7 590:4 1514:1`, or `imix` for these.
define($sizes 60);

// number from 1 to 1048576: flows.
define($flows 1);

// one of udp, tcp: the protocol.
define($protocol udp);

// one of false, true: whether TCP segments are SYNs, as those of a flood.
define($syn false);

// text: the source address, or the prefix of several; IPv4 or IPv6.
define($from 198.18.0.1);

// text: the destination address, or the prefix of several.
define($to 198.18.1.1);

// number from 0 to 65535: the source port of the first flows.
define($from_port 1024);

// number from 0 to 65535: the destination port.
define($to_port 9);

// text: the Ethernet address of the next hop.
define($to_ether ff:ff:ff:ff:ff:ff);

// number from 0 to 18446744073709551615: packets after which a run is over; 0: no limit.
define($count 0);

// number from 0 to 1000000: seconds after which a run is over; 0: no limit.
define($seconds 0);

source :: TrafficSource(SRCETH port, DSTETH $to_ether, SRC $from, DST $to, PROTOCOL $protocol, SYN $syn,
	SPORT $from_port, DPORT $to_port, FLOWS $flows, SIZES $sizes, RATE $rate,
	COUNT $count, DURATION $seconds)
	-> ToNetfront(port);
FromNetfront(port) -> Discard;
