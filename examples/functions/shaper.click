// A shaper in front of a slow link: classes of traffic with shares, ceilings and a short queue each.
//
// It stands between two hosts or switches as a bridge, and holds what goes from `inside` to `outside` to the
// link's rate, so that the queue is here, where it has classes, and not in a modem, which has none. What
// comes back passes unchanged. There are four classes: `urgent`, which always goes first, `first`,
// `second`, and `rest`. While they wait, the last three share the link by their shares; what one does not use
// the others get, up to their ceilings. CoDel keeps the delay of each queue at 5 ms (RFC 8289). Neighbor
// discovery, and frames of neither version of IP, are urgent: ARP and the like are little, and needed. Frames with a VLAN
// tag are of the class `rest`. Packets whose IP header is wrong are dropped.
//
//   weir run shaper -p rate=20Mbps --link inside=dev:eth1 --link outside=dev:eth2
//   weir run shaper -p 'first=ip dscp 34 or src net 10.1.0.0/16' -p first_share=5 --link inside=dev:eth1 --link outside=dev:eth2
//
// # Limits
//
// After a pause, at most 10 ms of the rate leave at once (`burst`). A queue has at most 1000 packets; one that does not fit is dropped. Shares are of packets, of equal length.
// What is urgent has a ceiling too, so that it does not take all.
//
// # Handlers
//
// - `NAME.count`, `NAME.byte_count` (read) of `urgent`, `first`, `second` and `rest`: packets and bytes that left.
// - `NAME_queue.length`, `NAME_queue.drops`, `NAME_codel.drops` (read): packets that wait; that did not fit;
//   that CoDel dropped.
// - `shares.tickets0`, `shares.tickets1`, `shares.tickets2` (read, write): the shares of `first`, `second` and `rest`.
// - `link.rate` (read, write): the link's rate in bytes per second.

// text: the link's rate, as in 20Mbps.
define($rate 8Mbps);

// number from 1 to 1000: milliseconds of a rate or ceiling that may leave at once after a pause.
define($burst 10);

// text: urgent packets, as a pattern of IPFilter: by `ip dscp`, `src net`, `dst net`, `port`.
define($urgent ip dscp 46 or udp port 5060 or icmp or icmp6);

// text: the most that urgent packets get.
define($urgent_ceiling 4Mbps);

// text: packets of the class `first`.
define($first tcp port 80 or 443 or udp port 443);

// number from 1 to 1000: its share.
define($first_share 3);

// text: the most that it gets.
define($first_ceiling 10Gbps);

// text: packets of the class `second`.
define($second ip dscp 8);

// number from 1 to 1000: its share.
define($second_share 1);

// text: the most that it gets.
define($second_ceiling 10Gbps);

// number from 1 to 1000: the share of all other packets.
define($rest_share 1);

// text: the most that they get.
define($rest_ceiling 10Gbps);

FromNetfront(inside) -> kind :: Classifier(12/0800, 12/86dd 20/3aff, 12/86dd, 12/8100, 12/88a8, -);
kind[0] -> CheckIPHeader(14) -> class :: DualStackClassifier($urgent, $first, $second, -);
kind[2] -> CheckIP6Header(OFFSET 14) -> class;
class[0] -> to_urgent :: Null;
kind[1], kind[5] -> to_urgent;

to_urgent -> SetTimestamp(FIRST true) -> urgent_queue :: Queue(1000) -> urgent_codel :: CoDel(5ms, 100ms)
	-> BandwidthShaper($urgent_ceiling, BURST_DURATION ${burst}ms) -> urgent :: Counter;
class[1] -> SetTimestamp(FIRST true) -> first_queue :: Queue(1000) -> first_codel :: CoDel(5ms, 100ms)
	-> BandwidthShaper($first_ceiling, BURST_DURATION ${burst}ms) -> first :: Counter;
class[2] -> SetTimestamp(FIRST true) -> second_queue :: Queue(1000) -> second_codel :: CoDel(5ms, 100ms)
	-> BandwidthShaper($second_ceiling, BURST_DURATION ${burst}ms) -> second :: Counter;
class[3] -> to_rest :: SetTimestamp(FIRST true) -> rest_queue :: Queue(1000) -> rest_codel :: CoDel(5ms, 100ms)
	-> BandwidthShaper($rest_ceiling, BURST_DURATION ${burst}ms) -> rest :: Counter;

kind[3], kind[4] -> to_rest;

shares :: StrideSched($first_share, $second_share, $rest_share);
first -> [0] shares;
second -> [1] shares;
rest -> [2] shares;

order :: PrioSched;
urgent -> [0] order;
shares -> [1] order;
order -> link :: BandwidthShaper($rate, BURST_DURATION ${burst}ms) -> ToNetfront(outside);

FromNetfront(outside) -> ToNetfront(inside);
