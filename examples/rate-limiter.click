// A rate limiter for customer networks: a bridge that polices the traffic from each.
//
// It classifies packets by source: each of four networks may send 2 Mb/s, with bursts of 100 kB.
// Packets above that are dropped and counted for each network. Other sources share 100 kb/s. The
// reverse direction is not limited.
//
//   weir run examples/rate-limiter.click --link customers=dev:eth1 --link uplink=dev:eth2
//   weir read rate-limiter c1/above.count
//   weir click examples/rate-limiter.click CUSTOMERS=eth1 UPLINK=eth2

define($CUSTOMERS customers, $UPLINK uplink);

// A limit: what is within it leaves.
elementclass Limit { $rate, $burst |
	input -> limit :: BandwidthRatedSplitter($rate, BURST_BYTES $burst) -> output;
	limit[1] -> above :: Counter -> Discard;
}

up :: Queue(512) -> ToDevice($UPLINK, BURST 32);
FromDevice($CUSTOMERS, PROMISC true, BURST 32) -> kind :: Classifier(12/0800, -);
kind[1] -> up;
// The routes are those of the sources: the address at byte 12 of the IP header.
kind[0] -> CheckIPHeader(14) -> GetIPAddress(26) -> source :: RadixIPLookup(
	10.0.1.0/24 0, 10.0.2.0/24 1, 10.0.3.0/24 2, 10.0.4.0/24 3, 0.0.0.0/0 4);
source[0] -> c1 :: Limit(2Mbps, 100000) -> up;
source[1] -> c2 :: Limit(2Mbps, 100000) -> up;
source[2] -> c3 :: Limit(2Mbps, 100000) -> up;
source[3] -> c4 :: Limit(2Mbps, 100000) -> up;
source[4] -> others :: Limit(100kbps, 10000) -> up;

FromDevice($UPLINK, PROMISC true, BURST 32) -> Queue(512) -> ToDevice($CUSTOMERS, BURST 32);
