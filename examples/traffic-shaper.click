// A traffic shaper in front of a slow uplink of 8 Mb/s: three classes, by a bridge.
//
// Voice (expedited forwarding, SIP, pings) always goes first. Of the rest, the web gets three parts
// and other traffic one part (stride scheduling). The queue builds up here, with classes, and not in
// the modem, which has none. Downstream traffic passes unchanged.
//
//   weir run examples/traffic-shaper.click --link inside=dev:eth1 --link uplink=dev:eth2
//   weir click examples/traffic-shaper.click INSIDE=eth1 UPLINK=eth2 RATE=20Mbps

define($INSIDE inside, $UPLINK uplink, $RATE 8Mbps);

FromDevice($INSIDE, PROMISC true, BURST 32) -> kind :: Classifier(12/0800, -);
kind[0] -> CheckIPHeader(14) -> class :: IPClassifier(
	ip dscp 46 or udp port 5060 or icmp,
	tcp port 80 or 443 or udp port 443,
	-);

voice :: Queue(100);
web :: Queue(300);
bulk :: Queue(300);
class[0] -> voice;
class[1] -> web;
class[2] -> bulk;
// ARP and the like: little, and needed.
kind[1] -> voice;

data :: StrideSched(3, 1);
uplink :: PrioSched;
web -> [0] data;
bulk -> [1] data;
voice -> [0] uplink;
data -> [1] uplink;
uplink -> BandwidthShaper($RATE) -> sent :: Counter -> ToDevice($UPLINK);

FromDevice($UPLINK, PROMISC true, BURST 32) -> Queue(512) -> ToDevice($INSIDE, BURST 32);
