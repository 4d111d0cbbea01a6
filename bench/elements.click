// The rows of `bench/run elements`, for users to read and extend.
//
// A line `== CLASS` or `== CLASS, VARIANT` starts a row; its configuration follows. A line
// `== CLASS CLASS ...: REASON` lists classes that no row measures. What stands above the first row
// belongs to every row. A test holds that each class of the library has a row or a reason.
//
// The benchmark defines the number of packets, $N, and captures of UDP, TCP and ping frames of many
// flows, $UDPFLOWS, $UDP6FLOWS, $TCPFLOWS and $PINGFLOWS: a row that reads one is measured with 1, 1 K and 100 K
// flows. $FRAMES and $SEGMENTS are captures of $N frames and of $N segments of one connection,
// $SUMMARY and $NETFLOW files with $N lines. `out` is a Discard, `drain` a Drain, in a row that uses them.
//
// A class that a program lacks is left out there. `== CLASS, VARIANT (Weir, Click)` names the
// programs that have an argument, or do not crash.

// Ethernet frames: from 10.0.0.2 to 192.168.1.2 or from 2001:db8::1 to 2001:db8:1::2, with right
// checksums. Those of 1500 bytes are the start of a packet, whose bytes repeat.
define($UDP \<000000000002000000000001 0800 4500002e000000004011af130a000002c0a8010210000035001a23d9000000000000000000000000000000000000>)
define($TCP \<000000000002000000000001 0800 4500002e000000004006af1e0a000002c0a801021000005000000001000000015010ffffd3d00000000000000000>)
define($SYN \<000000000002000000000001 0800 4500002e000000004006af1e0a000002c0a801021000005000000001000000005002ffffd3df0000000000000000>)
define($ICMP \<000000000002000000000001 0800 4500002e000000004001af230a000002c0a801020800f7fd00010001000000000000000000000000000000000000>)
define($UDP6 \<000000000002000000000001 86dd 60000000000a114020010db800000000000000000000000120010db800010000000000000000000210000035000a942f0000>)
define($PING6 \<000000000002000000000001 86dd 60000000000a3a4020010db800000000000000000000000120010db800010000000000000000000280002443000100010000>)
define($ARP \<000000000002000000000001 0806 00010800060400010000000000010a000002000000000000c0a80102000000000000000000000000000000000000>)
define($ARPREPLY \<000000000002000000000001 0806 00010800060400020000000000010a000002000000000002c0a80102000000000000000000000000000000000000>)
define($VLAN \<000000000002000000000001 8100 0007 0800 4500002e000000004011af130a000002c0a8010210000035001a23d9000000000000000000000000000000000000>)
// A DNS query for the address of www.example.
define($QUERY \<000000000002000000000001 0800 45000039000000004011af080a000002c0a80102100000350025000000010100000100000000000003777777076578616d706c650000010001>)
// Time to live 1; with a record route option; an ICMP error about $UDP; two fragments of a packet.
define($EXPIRED \<000000000002000000000001 0800 4500002e000000000111ee130a000002c0a8010210000035001a23d9000000000000000000000000000000000000>)
define($EXPIRED6 \<000000000002000000000001 86dd 60000000000a110120010db800000000000000000000000120010db800010000000000000000000210000035000a942f0000>)
define($OPTIONS \<000000000002000000000001 0800 47000036000000004011a2040a000002c0a80102070704000000000010000035001a23d9000000000000000000000000000000000000>)
define($UNREACHABLE \<000000000002000000000001 0800 45000038000000004001af190a000002c0a801020301c8d6000000004500002e000000004011af130a000002c0a8010210000035001a23d9>)
define($FIRST \<000000000002000000000001 0800 4500002c0007200040118f0e0a000002c0a80102100000350030000000000000000000000000000000000000>)
define($LAST \<000000000002000000000001 0800 4500002c000700034011af0b0a000002c0a80102000000000000000000000000000000000000000000000000>)
define($UDP1500 \<000000000002000000000001 0800 450005dc000000004011a9650a000002c0a801021000003505c80000000000000000000000000000000000000000>)
define($TCP1500 \<000000000002000000000001 0800 450005dc000000004006a96c0a000006c0a801021000005000000001000000015010ffff14580000000000000000>)
define($UDP6_1500 \<000000000002000000000001 86dd 6000000005b4114020010db800000000000000000000000120010db80001000000000000000000021000003505b400000000>)

// Pushes $N frames, and stops.
elementclass Source { $DATA |
	InfiniteSource(DATA $DATA, LIMIT $N, BURST 64, STOP true, TIMESTAMP false) -> output
}
// The same, of 1514 bytes.
elementclass Long { $DATA |
	InfiniteSource(DATA $DATA, LENGTH 1514, LIMIT $N, BURST 64, STOP true, TIMESTAMP false) -> output
}
// Frames whose IP header is marked.
elementclass IP { $DATA | Source($DATA) -> MarkIPHeader(14) -> output }
elementclass IP6 { $DATA | Source($DATA) -> MarkIP6Header(14) -> output }
// Frames to be pulled, without end.
elementclass Supply { $DATA | InfiniteSource(DATA $DATA, TIMESTAMP false) -> output }
// $N frames to be pulled.
elementclass Stock { $DATA | InfiniteSource(DATA $DATA, LIMIT $N, STOP true, TIMESTAMP false) -> output }
// Stops after $N frames.
elementclass End { input -> c :: Counter(COUNT_CALL $N stop) -> Discard }
// Pulls, and stops after $N frames.
elementclass Pump { input -> Unqueue(BURST 64) -> c :: Counter(COUNT_CALL $N stop) -> output }
elementclass Drain { input -> p :: Pump -> Discard }
// Frames of many flows go round: those pushed into it come out again, $N in all.
elementclass Ring { $CAPTURE |
	input -> q :: Queue(131072) -> u :: Unqueue(BURST 64, ACTIVE false)
		-> Counter(COUNT_CALL $N stop) -> output;
	FromDump($CAPTURE, END_CALL u.active true) -> q
}

//// standard

== Align, aligned
Source($UDP) -> Align(4, 0) -> out
== Align, IP header
Source($UDP) -> Align(4, 2) -> out
== AverageCounter
Source($UDP) -> AverageCounter -> out
== BandwidthMeter
m :: BandwidthMeter(20kBps, 1MBps);
Source($UDP) -> m; m[0] -> out; m[1] -> out; m[2] -> out
== BandwidthRatedSplitter
s :: BandwidthRatedSplitter(4GBps);
Source($UDP) -> s; s[0] -> out; s[1] -> out
== BandwidthRatedSplitter, over the rate
s :: BandwidthRatedSplitter(1kBps);
Source($UDP) -> s; s[0] -> out; s[1] -> out
== BandwidthRatedUnqueue
Supply($UDP) -> BandwidthRatedUnqueue(4GBps) -> end
== BandwidthShaper
Supply($UDP) -> BandwidthShaper(4GBps) -> drain
== Block
b :: Block(500); Source($UDP) -> b; b[0] -> out; b[1] -> out
== Burster
Supply($UDP) -> Burster(10us, 64) -> end
== Bypass
b :: Bypass; Source($UDP) -> b -> out; b[1] -> Null -> [1]b
== Bypass, active
b :: Bypass(true); Source($UDP) -> b -> out; b[1] -> Null -> [1]b
== CPUQueue
InfiniteSource(DATA $UDP, BURST 64, TIMESTAMP false) -> CPUQueue(1024) -> drain
== CPUSwitch
s :: CPUSwitch; Source($UDP) -> s; s[0] -> out; s[1] -> out
== ExactCPUSwitch
s :: ExactCPUSwitch; Source($UDP) -> s; s[0] -> out
== CheckCRC32
Source($UDP) -> SetCRC32 -> CheckCRC32 -> out
== CheckLength
c :: CheckLength(100); Source($UDP) -> c -> out; c[1] -> out
== CheckLength, too long
c :: CheckLength(50); Source($UDP) -> c -> out; c[1] -> out
== CheckPaint
c :: CheckPaint(0); Source($UDP) -> c -> out; c[1] -> out
== Classifier
c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
Source($UDP) -> c; c[0] -> out; c[1] -> out; c[2] -> out; c[3] -> out
== Classifier, many flows
c :: Classifier(11/00%01, -);
r :: Ring($UDPFLOWS) -> c; c[0] -> r; c[1] -> r
== Clipboard
c :: Clipboard(6/6); Source($UDP) -> c -> out; Source($UDP) -> [1]c; c[1] -> out
== CompareBlock
b :: CompareBlock(5, 2, 100); Source($UDP) -> b; b[0] -> out; b[1] -> out
== Counter
Source($UDP) -> Counter -> out
== Counter, COUNT_CALL
Source($UDP) -> Counter(COUNT_CALL 4000000000 stop) -> out
== DRRSched
s :: DRRSched; Supply($UDP) -> s; Supply($UDP) -> [1]s; s -> drain
== DRRSched, different lengths
s :: DRRSched(1500); Supply($UDP) -> s; Supply($UDP) -> Pad(1514) -> [1]s; s -> drain
== DRRSched, eight inputs
s :: DRRSched; Supply($UDP) -> s; Supply($UDP) -> [1]s; Supply($UDP) -> [2]s; Supply($UDP) -> [3]s;
Supply($UDP) -> [4]s; Supply($UDP) -> [5]s; Supply($UDP) -> [6]s; Supply($UDP) -> [7]s; s -> drain
== DelayShaper
InfiniteSource(DATA $UDP, BURST 64) -> Queue(1024) -> DelayShaper(1ms) -> drain
== DelayUnqueue
InfiniteSource(DATA $UDP, BURST 64) -> Queue(1024) -> DelayUnqueue(1ms) -> end
== Discard
Source($UDP) -> out
== Discard, pull
Stock($UDP) -> Discard
== DropBroadcasts
Source($UDP) -> DropBroadcasts -> out
== DropBroadcasts, a broadcast
d :: DropBroadcasts; Source($UDP) -> SetPacketType(BROADCAST) -> d -> out; d[1] -> out
== Duplicate
d :: Duplicate; Source($UDP) -> d; d[0] -> out; d[1] -> out
== FrontDropQueue
InfiniteSource(DATA $UDP, BURST 64, TIMESTAMP false) -> FrontDropQueue(1024) -> drain
== FrontDropQueue, full
Supply($UDP) -> Pump -> FrontDropQueue(64) -> Idle
== HashSwitch
h :: HashSwitch(26, 4); Source($UDP) -> h; h[0] -> out; h[1] -> out
== HashSwitch, many flows
h :: HashSwitch(26, 4);
r :: Ring($UDPFLOWS) -> h; h[0] -> r; h[1] -> r; h[2] -> r; h[3] -> r
== Hub
h :: Hub; Source($UDP) -> h -> out; Source($UDP) -> [1]h; h[1] -> out; Idle -> [2]h; h[2] -> out
== Idle
s :: RoundRobinSched; Supply($UDP) -> s; Idle -> [1]s; s -> drain
== InfiniteSource, BURST 1
InfiniteSource(DATA $UDP, LIMIT $N, STOP true, TIMESTAMP false) -> out
== InfiniteSource, BURST 1 to a queue
InfiniteSource(DATA $UDP, LIMIT $N, STOP true, TIMESTAMP false) -> Queue(1024) -> Unqueue -> out
== InfiniteSource, timestamps
InfiniteSource(DATA $UDP, LIMIT $N, BURST 64, STOP true) -> out
== InfiniteSource, 1514 bytes
Long($UDP1500) -> out
== InfiniteSource, pulled
Supply($UDP) -> drain
== InputSwitch
s :: InputSwitch(0) -> out; Source($UDP) -> s; Idle -> [1]s
== LinkUnqueue
InfiniteSource(DATA $UDP, BURST 64) -> Queue(1024) -> LinkUnqueue(10us, 10Gbps) -> end
== MSQueue
InfiniteSource(DATA $UDP, BURST 64, TIMESTAMP false) -> MSQueue(1024) -> drain
== MarkMACHeader
Source($UDP) -> MarkMACHeader(0, 14) -> out
== Meter
m :: Meter(10, 1000); Source($UDP) -> m; m[0] -> out; m[1] -> out; m[2] -> out
== MixedQueue
q :: MixedQueue(1024) -> drain; InfiniteSource(DATA $UDP, BURST 64, TIMESTAMP false) -> q; Idle -> [1]q
== MixedQueue, last in first out
q :: MixedQueue(1024) -> drain; InfiniteSource(DATA $UDP, BURST 64, TIMESTAMP false) -> [1]q; Idle -> q
== MoveData
Source($UDP) -> MoveData(0, 6, 6) -> out
== NotifierQueue
InfiniteSource(DATA $UDP, BURST 64, TIMESTAMP false) -> NotifierQueue(1024) -> drain
== Null
Source($UDP) -> Null -> Null -> Null -> Null -> out
== Pad
Source($UDP) -> Pad(100) -> out
== Pad, long enough
Source($UDP) -> Pad(60) -> out
== Paint
Source($UDP) -> Paint(3) -> out
== PaintRR
Source($UDP) -> Paint(5) -> p :: PaintRR; p[0] -> out; p[1] -> out
== PaintSwitch
Source($UDP) -> Paint(1) -> p :: PaintSwitch; p[0] -> out; p[1] -> out
== PaintTee
Source($UDP) -> Paint(1) -> p :: PaintTee(1) -> out; p[1] -> out
== PaintTee, another color
Source($UDP) -> p :: PaintTee(1) -> out; p[1] -> out
== Pipeliner
Source($UDP) -> Pipeliner -> out
== Print
Source($UDP) -> Print(frame) -> out
== Print, inactive
Source($UDP) -> Print(frame, ACTIVE false) -> out
== PrioSched
s :: PrioSched; Supply($UDP) -> s; Supply($UDP) -> [1]s; s -> drain
== PrioSched, second input
s :: PrioSched; Idle -> s; Supply($UDP) -> [1]s; s -> drain
== PullNull
Supply($UDP) -> PullNull -> PullNull -> PullNull -> PullNull -> drain
== PullSwitch
s :: PullSwitch(1); Supply($UDP) -> s; Supply($UDP) -> [1]s; s -> drain
== PullTee
Supply($UDP) -> t :: PullTee -> drain; t[1] -> out
== PushNull
Source($UDP) -> PushNull -> PushNull -> PushNull -> PushNull -> out
== Queue
InfiniteSource(DATA $UDP, BURST 64, TIMESTAMP false) -> Queue(1024) -> drain
== Queue, going round
r :: Ring($UDPFLOWS) -> r
== Queue, full
Supply($UDP) -> Pump -> q :: Queue(64) -> Idle; q[1] -> out
== QuickNoteQueue
InfiniteSource(DATA $UDP, BURST 64, TIMESTAMP false) -> QuickNoteQueue(1024) -> drain
== RandomBitErrors
Source($UDP) -> RandomBitErrors(0.0001) -> out
== RandomSample
s :: RandomSample(0.1); Source($UDP) -> s -> out; s[1] -> out
// FastClick's does not end.
== RandomSource (Weir, Click)
RandomSource(64, LIMIT $N, BURST 64, STOP true) -> out
== RandomSwitch
s :: RandomSwitch; Source($UDP) -> s; s[0] -> out; s[1] -> out
== RatedSource
RatedSource(DATA $UDP, RATE 4000000000, LIMIT $N, STOP true) -> out
== RatedSplitter
s :: RatedSplitter(4000000000); Source($UDP) -> s; s[0] -> out; s[1] -> out
== RatedSplitter, over the rate
s :: RatedSplitter(100); Source($UDP) -> s; s[0] -> out; s[1] -> out
== RatedUnqueue
Supply($UDP) -> RatedUnqueue(4000000000) -> end
== Resize
Source($UDP) -> Resize(-14, +4) -> out
== RoundRobinSched
s :: RoundRobinSched; Supply($UDP) -> s; Supply($UDP) -> [1]s; s -> drain
== RoundRobinSched, eight inputs
s :: RoundRobinSched;
Supply($UDP) -> s; Supply($UDP) -> [1]s; Supply($UDP) -> [2]s; Supply($UDP) -> [3]s;
Supply($UDP) -> [4]s; Supply($UDP) -> [5]s; Supply($UDP) -> [6]s; Supply($UDP) -> [7]s; s -> drain
== RoundRobinSwitch
s :: RoundRobinSwitch; Source($UDP) -> s; s[0] -> out; s[1] -> out
== RoundRobinSwitch, queues
s :: RoundRobinSwitch; Source($UDP) -> s; t :: RoundRobinSched -> Unqueue(BURST 64) -> out;
s[0] -> Queue(1024) -> t; s[1] -> Queue(1024) -> [1]t
== SetAnnoByte
Source($UDP) -> SetAnnoByte(PAINT, 3) -> out
== SetCRC32
Source($UDP) -> SetCRC32 -> out
== SetPacketType
Source($UDP) -> SetPacketType(BROADCAST) -> out
== SetTimestamp
Source($UDP) -> SetTimestamp -> out
== SetTimestamp, FIRST
Source($UDP) -> SetTimestamp(FIRST true) -> out
== Shaper
Supply($UDP) -> Shaper(4000000000) -> drain
== SimpleQueue
Source($UDP) -> SimpleQueue(1024) -> Unqueue(BURST 64) -> out
== StaticPullSwitch
s :: StaticPullSwitch(1); Supply($UDP) -> s; Supply($UDP) -> [1]s; s -> drain
== StaticSwitch
s :: StaticSwitch(1); Source($UDP) -> s; s[0] -> out; s[1] -> out
== StoreData
Source($UDP) -> StoreData(12, \<0800>) -> out
== StoreData, masked (Weir, FastClick)
Source($UDP) -> StoreData(12, \<0800>, \<ff0f>) -> out
== StrideSched
s :: StrideSched(2, 1); Supply($UDP) -> s; Supply($UDP) -> [1]s; s -> drain
== StrideSched, eight inputs
s :: StrideSched(8, 7, 6, 5, 4, 3, 2, 1);
Supply($UDP) -> s; Supply($UDP) -> [1]s; Supply($UDP) -> [2]s; Supply($UDP) -> [3]s;
Supply($UDP) -> [4]s; Supply($UDP) -> [5]s; Supply($UDP) -> [6]s; Supply($UDP) -> [7]s; s -> drain
== StrideSwitch
s :: StrideSwitch(2, 1); Source($UDP) -> s; s[0] -> out; s[1] -> out
== Strip
Source($UDP) -> Strip(14) -> out
== StripToNetworkHeader
IP($UDP) -> StripToNetworkHeader -> out
== Suppressor
s :: Suppressor; Source($UDP) -> s -> out; Idle -> [1]s; s[1] -> out
== Switch
s :: Switch(1); Source($UDP) -> s; s[0] -> out; s[1] -> out
== Tee
t :: Tee; Source($UDP) -> t; t[0] -> out; t[1] -> out
== Tee, both written
t :: Tee; Source($UDP) -> t; t[0] -> EtherMirror -> out; t[1] -> EtherMirror -> out
== ThreadSafeQueue
InfiniteSource(DATA $UDP, BURST 64, TIMESTAMP false) -> ThreadSafeQueue(1024) -> drain
== TimedUnqueue
Supply($UDP) -> TimedUnqueue(10us, 64) -> end
== Truncate
Source($UDP) -> Truncate(42) -> out
== Truncate, EXTRA_LENGTH
Source($UDP) -> Truncate(42, EXTRA_LENGTH true) -> out
== Unqueue
Stock($UDP) -> Unqueue -> out
== Unqueue, BURST 8
Stock($UDP) -> Unqueue(BURST 8) -> out
== Unqueue2
Supply($UDP) -> Unqueue2(BURST 64, QUIET true) -> end
== Unstrip
Source($UDP) -> Strip(14) -> Unstrip(14) -> out

//// simple

== SimplePrioSched
s :: SimplePrioSched; Supply($UDP) -> s; Supply($UDP) -> [1]s; s -> drain
== SimplePullSwitch
s :: SimplePullSwitch(1); Supply($UDP) -> s; Supply($UDP) -> [1]s; s -> drain
== SimpleRoundRobinSched
s :: SimpleRoundRobinSched; Supply($UDP) -> s; Supply($UDP) -> [1]s; s -> drain
== SimpleIdle
s :: SimplePrioSched; SimpleIdle -> s; Supply($UDP) -> [1]s; s -> drain

//// threads

== PathSpinlock
Source($UDP) -> PathSpinlock -> out

//// net

== EnsureDPDKBuffer
Source($UDP) -> EnsureDPDKBuffer -> out

//// ethernet

== ARPPrint
Source($ARP) -> ARPPrint(OUTFILE /dev/null) -> out
== ARPQuerier
a :: ARPQuerier(10.0.0.2, 00:00:00:00:00:01); c :: Classifier(12/0800, -);
Source($UDP) -> Strip(14) -> SetIPAddress(192.168.1.2) -> a -> c; a[1] -> c;
c[0] -> out; c[1] -> ARPResponder(192.168.1.2 00:00:00:00:00:02) -> [1]a
== ARPQuerier, replies
a :: ARPQuerier(192.168.1.2, 00:00:00:00:00:02); Idle -> a -> out; Source($ARPREPLY) -> [1]a; a[1] -> out
== ARPQuerier, many neighbours
a :: ARPQuerier(10.0.0.2, 00:00:00:00:00:01); c :: Classifier(12/0800, -);
r :: Ring($UDPFLOWS) -> t :: Tee; t[0] -> r;
t[1] -> Strip(14) -> MarkIPHeader -> GetIPAddress(12) -> a -> c; a[1] -> c;
c[0] -> out; c[1] -> ARPResponder(0.0.0.0/0 00:00:00:00:00:02) -> [1]a
== ARPResponder
r :: ARPResponder(192.168.1.2 00:00:00:00:00:02); Source($ARP) -> r -> out
== ARPResponder, another's address
r :: ARPResponder(192.168.1.3 00:00:00:00:00:02); Source($ARP) -> r -> out; r[1] -> out
== CheckARPHeader
Source($ARP) -> CheckARPHeader(14) -> out
== EnsureEther
Source($UDP) -> EnsureEther(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> out
== EnsureEther, no header
Source($UDP) -> Strip(14) -> EnsureEther(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> out
== EtherEncap
Source($UDP) -> Strip(14) -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> out
== EtherMirror
Source($UDP) -> EtherMirror -> out
== EtherRewrite (Weir, FastClick)
Source($UDP) -> EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2) -> out
== EtherVLANEncap
Source($UDP) -> Strip(14)
	-> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, VLAN_ID 7) -> out
== EtherVLANEncap, ANNO
Source($UDP) -> Strip(14) -> SetVLANAnno(7)
	-> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, ANNO) -> out
== GetEtherAddress
Source($UDP) -> GetEtherAddress(0, src) -> out
== HostEtherFilter
f :: HostEtherFilter(00:00:00:00:00:02); Source($UDP) -> f -> out; f[1] -> out
== HostEtherFilter, another's frame
f :: HostEtherFilter(00:00:00:00:00:03); Source($UDP) -> f -> out; f[1] -> out
== IP6NDAdvertiser
Source(\<3333ff000002 000000000001 86dd 6000000000203aff 20010db8000000000000000000000001
	ff0200000000000000000001ff000002 87001e26 00000000 20010db8000100000000000000000002
	0101 000000000001>) -> IP6NDAdvertiser(2001:db8:1::2/128 00:00:00:00:00:02) -> out
== IP6NDSolicitor
n :: IP6NDSolicitor(2001:db8::1, 00:00:00:00:00:01); c :: Classifier(20/3a, -);
Source($UDP6) -> Strip(14) -> SetIP6Address(2001:db8:1::2) -> n -> c; n[1] -> c;
c[1] -> out; c[0] -> IP6NDAdvertiser(2001:db8:1::2/128 00:00:00:00:00:02) -> [1]n
== SetEtherAddress
Source($UDP) -> SetEtherAddress(1:1:1:1:1:1, 0) -> out
== SetVLANAnno
Source($UDP) -> SetVLANAnno(7, 3) -> out
== StoreEtherAddress
Source($UDP) -> StoreEtherAddress(1:1:1:1:1:1, src) -> out
== StripEtherVLANHeader
Source($UDP) -> StripEtherVLANHeader -> out
== StripEtherVLANHeader, tagged
Source($VLAN) -> StripEtherVLANHeader -> out
== VLANDecap
Source($VLAN) -> VLANDecap -> out
== VLANDecap, untagged
Source($UDP) -> VLANDecap -> out
== VLANEncap
Source($UDP) -> VLANEncap(VLAN_ID 7) -> out

//// etherswitch

== EtherSwitch
s :: EtherSwitch; c :: Classifier(11/00%01, -);
r :: Ring($UDPFLOWS) -> c; c[0] -> [0]s; c[1] -> [1]s; s[0] -> r; s[1] -> r
== EtherSwitch, flooding
s :: EtherSwitch; Source($UDP) -> s -> out; Idle -> [1]s; Idle -> [2]s; s[1] -> out; s[2] -> out
== ListenEtherSwitch
s :: ListenEtherSwitch; c :: Classifier(11/00%01, -);
r :: Ring($UDPFLOWS) -> c; c[0] -> [0]s; c[1] -> [1]s; s[0] -> r; s[1] -> r; s[2] -> out

//// icmp

== CheckICMPHeader
IP($ICMP) -> CheckICMPHeader -> out
== ICMP6PingResponder
Source($PING6) -> Strip(14) -> MarkIP6Header -> ICMP6PingResponder -> out
== ICMPError
IP($UDP) -> Strip(14) -> ICMPError(192.0.2.1, unreachable, host) -> out
== ICMPError, packet of 1500 bytes
Long($UDP1500) -> Strip(14) -> MarkIPHeader -> ICMPError(192.0.2.1, unreachable, host) -> out
== ICMPIPEncap
Source($UDP) -> Strip(14) -> ICMPIPEncap(1.0.0.1, 2.0.0.2, unreachable, host) -> out
== ICMPPingEncap
Source($UDP) -> Strip(42) -> ICMPPingEncap(1.0.0.1, 2.0.0.2) -> out
== ICMPPingResponder
IP($ICMP) -> ICMPPingResponder -> out
== ICMPPingResponder, another packet
p :: ICMPPingResponder; IP($UDP) -> p -> out; p[1] -> out
== ICMPPingRewriter
n :: ICMPPingRewriter(pattern 203.0.113.1 - 0-65535 0 0);
r :: Ring($PINGFLOWS) -> t :: Tee; t[0] -> r; t[1] -> Strip(14) -> MarkIPHeader -> n -> out
== ICMPRewriter
n :: UDPRewriter(pattern 10.0.0.2 4096 - - 0 0);
RatedSource(DATA $UDP, LIMIT 1) -> Strip(14) -> MarkIPHeader -> n -> out;
IP($UNREACHABLE) -> Strip(14) -> e :: ICMPRewriter(n) -> out; e[1] -> Discard

//// ip

== CheckIPHeader
Source($UDP) -> CheckIPHeader(14) -> out
== CheckIPHeader, options
Source($OPTIONS) -> CheckIPHeader(14) -> out
== CheckIPHeader, INTERFACES
Source($UDP) -> CheckIPHeader(OFFSET 14, INTERFACES 18.26.4.9/24 18.32.9.44/28) -> out
== CheckIPHeader2
Source($UDP) -> CheckIPHeader2(14) -> out
== DecIPTTL
d :: DecIPTTL; IP($UDP) -> d -> out; d[1] -> out
== DecIPTTL, expired
d :: DecIPTTL; IP($EXPIRED) -> d -> out; d[1] -> out
== DirectIPLookup
Source($UDP) -> SetIPAddress(192.168.1.2) -> rt :: DirectIPLookup(10.0.0.0/8 0, 192.168.1.0/24 1, 0/0 10.0.0.1 0);
rt[0] -> out; rt[1] -> out
== DirectIPLookup, many flows
r :: Ring($UDPFLOWS) -> GetIPAddress(30) -> rt :: DirectIPLookup(10.0.0.0/8 0, 198.18.0.0/16 1, 198.18.8.0/24 0, 0/0 10.0.0.1 0);
rt[0] -> r; rt[1] -> r
== FixIPSrc
IP($UDP) -> FixIPSrc(192.0.2.1) -> out
== GetIPAddress
Source($UDP) -> GetIPAddress(30) -> out
== IPAddrPairRewriter
n :: IPAddrPairRewriter(pattern 203.0.113.1 - 0 1);
r :: Ring($UDPFLOWS) -> Strip(14) -> MarkIPHeader -> n -> IPMirror -> [0]n; n[1] -> IPMirror -> Unstrip(14) -> r
== IPAddrRewriter
n :: IPAddrRewriter(pattern 10.1.0.0/16 - 0 1);
r :: Ring($UDPFLOWS) -> Strip(14) -> MarkIPHeader -> n -> IPMirror -> [0]n; n[1] -> IPMirror -> Unstrip(14) -> r
== IPClassifier
c :: IPClassifier(dst tcp port www or https, icmp type echo, src net 10.0.0.0/8, -);
IP($UDP) -> c; c[0] -> out; c[1] -> out; c[2] -> out; c[3] -> out
== DualStackClassifier (Weir)
c :: DualStackClassifier(dst tcp port www or https, icmp type echo, src net 10.0.0.0/8, -);
IP($UDP) -> c; c[0] -> out; c[1] -> out; c[2] -> out; c[3] -> out
== DualStackClassifier, IPv6 (Weir)
c :: DualStackClassifier(dst tcp port www or https, icmp6 type echo, src net 2001:db8::/32, -);
IP6($UDP6) -> c; c[0] -> out; c[1] -> out; c[2] -> out; c[3] -> out
== IPEncap
Source($UDP) -> Strip(14) -> IPEncap(ipip, 18.26.4.24, 140.247.60.147) -> out
== IPFilter
IP($UDP) -> IPFilter(allow dst tcp port www or https, allow icmp type echo or echo-reply,
	deny src net 192.0.2.0/24, allow udp && dst port dns, deny all) -> out
== IPFilter, many flows
f :: IPFilter(allow dst tcp port www or https, allow icmp type echo or echo-reply,
	deny src net 192.0.2.0/24, allow udp && dst port dns, deny all);
r :: Ring($UDPFLOWS) -> MarkIPHeader(14) -> f -> r
== IPFragmenter
f :: IPFragmenter(1500); IP($UDP) -> Strip(14) -> f -> out; f[1] -> out
== IPFragmenter, three fragments
f :: IPFragmenter(576); Long($UDP1500) -> Strip(14) -> MarkIPHeader -> f -> out; f[1] -> out
== IPGWOptions
o :: IPGWOptions(192.0.2.1); IP($UDP) -> o -> out; o[1] -> out
== IPGWOptions, record route
o :: IPGWOptions(192.0.2.1); IP($OPTIONS) -> Strip(14) -> o -> out; o[1] -> out
== IPInputCombo
Source($UDP) -> IPInputCombo(1) -> out
== IPMirror
IP($UDP) -> IPMirror -> out
== IPOutputCombo
o :: IPOutputCombo(1, 192.0.2.1, 1500);
IP($UDP) -> Strip(14) -> o; o[0] -> out; o[1] -> out; o[2] -> out; o[3] -> out; o[4] -> out
== IPPrint
IP($UDP) -> IPPrint(OUTFILE /dev/null) -> out
== IPRateMonitor
m :: IPRateMonitor(PACKETS, 0.5, 256, 600);
r :: Ring($UDPFLOWS) -> MarkIPHeader(14) -> m -> r
== IPReassembler
r :: IPReassembler -> out; s :: RoundRobinSched -> Unqueue(BURST 64) -> Strip(14) -> MarkIPHeader -> r;
InfiniteSource(DATA $FIRST, LIMIT $N, BURST 64, STOP true, TIMESTAMP false) -> Queue(1024) -> s;
InfiniteSource(DATA $LAST, BURST 64, TIMESTAMP false) -> Queue(1024) -> [1]s
== IPReassembler, whole packets
IP($UDP) -> IPReassembler -> out
== LinearIPLookup
r :: Ring($UDPFLOWS) -> GetIPAddress(30) -> rt :: LinearIPLookup(10.0.0.0/8 0, 198.18.0.0/16 1, 198.18.8.0/24 0, 0/0 10.0.0.1 0);
rt[0] -> r; rt[1] -> r
== LookupIPRoute
r :: Ring($UDPFLOWS) -> GetIPAddress(30) -> rt :: LookupIPRoute(10.0.0.0/8 0, 198.18.0.0/16 1, 198.18.8.0/24 0, 0/0 10.0.0.1 0);
rt[0] -> r; rt[1] -> r
== LookupIPRouteMP
r :: Ring($UDPFLOWS) -> GetIPAddress(30) -> rt :: LookupIPRouteMP(10.0.0.0/8 0, 198.18.0.0/16 1, 198.18.8.0/24 0, 0/0 10.0.0.1 0);
rt[0] -> r; rt[1] -> r
== MarkIPCE
IP($UDP) -> SetIPECN(ect1) -> MarkIPCE -> out
== MarkIPHeader
Source($UDP) -> MarkIPHeader(14) -> out
== RFC2507c
r :: Ring($TCPFLOWS) -> t :: Tee; t[0] -> r; t[1] -> Strip(14) -> CheckIPHeader -> RFC2507c -> out
== RFC2507d
r :: Ring($TCPFLOWS) -> t :: Tee; t[0] -> r; t[1] -> Strip(14) -> CheckIPHeader -> RFC2507c -> RFC2507d -> out
== RadixIPLookup
r :: Ring($UDPFLOWS) -> GetIPAddress(30) -> rt :: RadixIPLookup(10.0.0.0/8 0, 198.18.0.0/16 1, 198.18.8.0/24 0, 0/0 10.0.0.1 0);
rt[0] -> r; rt[1] -> r
== RangeIPLookup
r :: Ring($UDPFLOWS) -> GetIPAddress(30) -> rt :: RangeIPLookup(10.0.0.0/8 0, 198.18.0.0/16 1, 198.18.8.0/24 0, 0/0 10.0.0.1 0);
rt[0] -> r; rt[1] -> r
== RoundRobinIPMapper
m :: RoundRobinIPMapper(- - 198.51.100.1 - 0 0, - - 198.51.100.2 - 0 0); n :: UDPRewriter(m);
r :: Ring($UDPFLOWS) -> t :: Tee; t[0] -> r; t[1] -> Strip(14) -> MarkIPHeader -> n -> out
== SetIPAddress
Source($UDP) -> SetIPAddress(192.0.2.1) -> out
== SetIPChecksum
IP($UDP) -> SetIPChecksum -> out
== SetIPDSCP
IP($UDP) -> SetIPDSCP(46) -> out
== SetIPECN
IP($UDP) -> SetIPECN(no) -> out
== SetRandIPAddress
Source($UDP) -> SetRandIPAddress(10.0.0.0/8) -> out
== SortedIPLookup
r :: Ring($UDPFLOWS) -> GetIPAddress(30) -> rt :: SortedIPLookup(10.0.0.0/8 0, 198.18.0.0/16 1, 198.18.8.0/24 0, 0/0 10.0.0.1 0);
rt[0] -> r; rt[1] -> r
== SourceIPHashMapper
m :: SourceIPHashMapper(50 1, - - 198.51.100.1 - 0 0 0, - - 198.51.100.2 - 0 0 1); n :: UDPRewriter(m);
r :: Ring($UDPFLOWS) -> t :: Tee; t[0] -> r; t[1] -> Strip(14) -> MarkIPHeader -> n -> out
== StaticIPLookup
r :: Ring($UDPFLOWS) -> GetIPAddress(30) -> rt :: StaticIPLookup(10.0.0.0/8 0, 198.18.0.0/16 1, 198.18.8.0/24 0, 0/0 10.0.0.1 0);
rt[0] -> r; rt[1] -> r
== StoreIPAddress
IP($UDP) -> StoreIPAddress(192.0.2.1, src) -> out
== StripIPHeader
IP($UDP) -> StripIPHeader -> out
== ThreadIPMapper
m :: ThreadIPMapper(203.0.113.1 1024-65535 - - 0 0); n :: UDPRewriter(m);
r :: Ring($UDPFLOWS) -> t :: Tee; t[0] -> r; t[1] -> Strip(14) -> MarkIPHeader -> n -> out
== TruncateIPPayload
IP($UDP) -> TruncateIPPayload(8) -> out
== UnstripIPHeader
IP($UDP) -> StripIPHeader -> UnstripIPHeader -> out

//// ip6

== AddressTranslator (Weir)
a :: AddressTranslator(0, true, true, 0, 2001:db8::9 1024 2023);
Source($UDP6) -> Strip(14) -> CheckIP6Header -> a -> out; Idle -> [1]a; a[1] -> out
== CheckIP6Header
Source($UDP6) -> CheckIP6Header(OFFSET 14) -> out
== DecIP6HLIM
d :: DecIP6HLIM; IP6($UDP6) -> d -> out; d[1] -> out
== DecIP6HLIM, expired
d :: DecIP6HLIM; IP6($EXPIRED6) -> d -> out; d[1] -> out
== GetIP6Address
Source($UDP6) -> GetIP6Address(38) -> out
== ICMP6Error
Source($EXPIRED6) -> Strip(14) -> MarkIP6Header -> ICMP6Error(2001:db8::9, 3, 0) -> out
== IP6Encap
Source($UDP6) -> Strip(54) -> IP6Encap(17, 2001:db8::1, 2001:db8::2) -> out
== IP6Fragmenter
f :: IP6Fragmenter(1500); Source($UDP6) -> Strip(14) -> MarkIP6Header -> f -> out; f[1] -> out
== IP6Fragmenter, two fragments (Weir)
f :: IP6Fragmenter(1280); Long($UDP6_1500) -> Strip(14) -> MarkIP6Header -> f -> out; f[1] -> out
== IP6Mirror
Source($UDP6) -> Strip(14) -> MarkIP6Header -> IP6Mirror -> out
== IP6Print
Source($UDP6) -> Strip(14) -> MarkIP6Header -> IP6Print -> out
== LookupIP6Route
rt :: LookupIP6Route(2001:db8::1/128 0, 2001:db8:1::/48 1, ::/0 2001:db8:1::9 1);
Source($UDP6) -> SetIP6Address(2001:db8:1::2) -> rt; rt[0] -> out; rt[1] -> out
== MarkIP6Header
Source($UDP6) -> MarkIP6Header(14) -> out
== ProtocolTranslator46
Source($UDP) -> Strip(14) -> CheckIPHeader -> ProtocolTranslator46 -> out
== HostTranslator64
h :: HostTranslator64(64:ff9b::/96, 100.64.0.0/22);
Source(\<000000000002000000000001 86dd 60000000000a114020010db80000000000000000000000020064ff9b0000000000000000c0a8010210000035000a00400000>)
	-> Strip(14) -> MarkIP6Header -> h -> out; Idle -> [1]h; h[1] -> out
== ProtocolTranslator64
Source(\<60000000 000a1140 00000000000000000000ffff0a000001 00000000000000000000ffffc0000201 10000035000a0000 0000>)
	-> MarkIP6Header -> ProtocolTranslator64 -> out
== SetIP6Address
Source($UDP6) -> SetIP6Address(2001:db8::1) -> out
== SetIP6DSCP
IP6($UDP6) -> SetIP6DSCP(46) -> out

//// tcpudp

== CheckTCPHeader
IP($TCP) -> CheckTCPHeader -> out
== CheckTCPHeader, packet of 1500 bytes
c :: CheckTCPHeader; Long($TCP1500) -> MarkIPHeader(14) -> c -> out; c[1] -> out
== CheckUDPHeader
IP($UDP) -> CheckUDPHeader -> out
== DynamicUDPIPEncap
Source($UDP) -> Strip(42) -> DynamicUDPIPEncap(1.0.0.1, 1234, 2.0.0.2, 1234, true, 10) -> out
== FastTCPFlows
FastTCPFlows(0, -1, 60, 0:0:0:0:0:1, 1.0.0.1, 1:1:1:1:1:1, 2.0.0.2, 1000, 10) -> drain
== FastUDPFlows
FastUDPFlows(0, -1, 60, 0:0:0:0:0:1, 1.0.0.1, 1:1:1:1:1:1, 2.0.0.2, 1000, 10) -> drain
== FastUDPSource
FastUDPSource(0, -1, 60, 0:0:0:0:0:1, 1.0.0.1, 1234, 1:1:1:1:1:1, 2.0.0.2, 1234) -> drain
== FastUDPSource, at a rate
FastUDPSource(1000000000, -1, 60, 0:0:0:0:0:1, 1.0.0.1, 1234, 1:1:1:1:1:1, 2.0.0.2, 1234) -> drain
== FastUDPSourceIP6
FastUDPSourceIP6(0, -1, 64, 0:0:0:0:0:1, 2001:db8::1, 1234, 1:1:1:1:1:1, 2001:db8::2, 1234) -> drain
== IPRewriter
n :: IPRewriter(pattern 203.0.113.1 1024-65535 - - 0 1);
r :: Ring($UDPFLOWS) -> Strip(14) -> MarkIPHeader -> n -> IPMirror -> n; n[1] -> IPMirror -> Unstrip(14) -> r
== IPRewriter, TCP
n :: IPRewriter(pattern 203.0.113.1 1024-65535 - - 0 1);
r :: Ring($TCPFLOWS) -> Strip(14) -> MarkIPHeader -> n -> IPMirror -> n; n[1] -> IPMirror -> Unstrip(14) -> r
== IPRewriter, new flows
n :: IPRewriter(pattern 203.0.113.1 - - - 0 0);
FastUDPFlows(0, -1, 60, 0:0:0:0:0:1, 10.0.0.1, 1:1:1:1:1:1, 2.0.0.2, 100000, 2)
	-> Pump -> Strip(14) -> MarkIPHeader -> n -> out
== ResetIPChecksum
IP($UDP) -> ResetIPChecksum -> out
== ResetIPChecksum, L4
IP($UDP) -> ResetIPChecksum(L4 true) -> out
== TCPReset
IP($TCP) -> TCPReset -> out
== SetTCPChecksum
IP($TCP) -> SetTCPChecksum -> out
== SetTCPChecksum, packet of 1500 bytes
Long($TCP1500) -> MarkIPHeader(14) -> SetTCPChecksum -> out
== SetUDPChecksum
IP($UDP) -> SetUDPChecksum -> out
== SetUDPChecksum, packet of 1500 bytes
Long($UDP1500) -> MarkIPHeader(14) -> SetUDPChecksum -> out
== SnoopTCP
s :: SnoopTCP; IP($TCP) -> s; Idle -> [1]s; s[0] -> out; s[1] -> out; s[2] -> out; s[3] -> out
== StatelessTCPResponder
r :: StatelessTCPResponder("busy, try later\r\n"); IP($SYN) -> Strip(14) -> r -> out; r[1] -> out
== StripTransportHeader
IP($UDP) -> StripTransportHeader -> out
== TCPFragmenter
IP($TCP) -> TCPFragmenter(MTU 1500) -> out
== TCPFragmenter, three segments
Long($TCP1500) -> Strip(14) -> MarkIPHeader -> TCPFragmenter(MTU 576) -> out
== TCPRewriter
n :: TCPRewriter(pattern 203.0.113.1 1024-65535 - - 0 1);
r :: Ring($TCPFLOWS) -> Strip(14) -> MarkIPHeader -> n -> IPMirror -> n; n[1] -> IPMirror -> Unstrip(14) -> r
== UDPIP6Encap
Source($UDP6) -> Strip(62) -> UDPIP6Encap(2001:db8::1, 1234, 2001:db8::2, 1234) -> out
== UDPIPEncap
Source($UDP) -> Strip(42) -> UDPIPEncap(1.0.0.1, 1234, 2.0.0.2, 1234) -> out
== UDPIPEncap, no checksum
Source($UDP) -> Strip(42) -> UDPIPEncap(1.0.0.1, 1234, 2.0.0.2, 1234, false) -> out
== UDPRewriter
n :: UDPRewriter(pattern 203.0.113.1 1024-65535 - - 0 1);
r :: Ring($UDPFLOWS) -> Strip(14) -> MarkIPHeader -> n -> IPMirror -> n; n[1] -> IPMirror -> Unstrip(14) -> r

//// flow

== CTXDispatcher
d :: CTXDispatcher(12/0806 20/0001, 12/0806 20/0002 drop, 12/0800, -);
Source($UDP) -> CTXManager -> d; d[0] -> out; d[1] -> out; d[2] -> out
== CTXManager
Source($UDP) -> CTXManager -> out
== FlowContextDispatcher
d :: FlowContextDispatcher(9/06 0, - 1); Source($UDP) -> Strip(14) -> CTXManager -> d; d[0] -> out; d[1] -> out
== ConnectionTracker
t :: ConnectionTracker(CAPACITY 262144);
r :: Ring($UDPFLOWS) -> MarkIPHeader(14) -> t -> r
== ConnectionTracker, IPv6
t :: ConnectionTracker(CAPACITY 262144);
r :: Ring($UDP6FLOWS) -> MarkIP6Header(14) -> t -> r
== FlowIPManager
r :: Ring($UDPFLOWS) -> MarkIPHeader(14) -> FlowIPManager(CAPACITY 262144) -> r
== FlowIPLoadBalancer
t :: ConnectionTracker(CAPACITY 262144); b :: FlowIPLoadBalancer(10.0.0.11, 10.0.0.12 2, 10.0.0.13);
r :: Ring($UDPFLOWS) -> u :: Tee; u[0] -> r;
u[1] -> Strip(14) -> MarkIPHeader -> t -> b -> out; Idle -> [1]t; t[1] -> [1]b; b[1] -> out; b[2] -> out
== FlowIPLoadBalancer, IPv6
t :: ConnectionTracker(CAPACITY 262144); b :: FlowIPLoadBalancer(fd00::11, fd00::12 2, fd00::13);
r :: Ring($UDP6FLOWS) -> u :: Tee; u[0] -> r;
u[1] -> Strip(14) -> MarkIP6Header -> t -> b -> out; Idle -> [1]t; t[1] -> [1]b; b[1] -> out; b[2] -> out
== CarrierGradeNAT
n :: CarrierGradeNAT(198.51.100.16/28, SUBSCRIBERS 1000);
r :: Ring($UDPFLOWS) -> u :: Tee; u[0] -> r;
u[1] -> Strip(14) -> MarkIPHeader -> n -> out; Idle -> [1]n; n[1] -> out; n[2] -> out
== FlowMonitor
r :: Ring($UDPFLOWS) -> MarkIPHeader(14) -> ConnectionTracker(CAPACITY 262144) -> FlowMonitor -> r
== FlowIDS
r :: Ring($UDPFLOWS) -> MarkIPHeader(14) -> ConnectionTracker(CAPACITY 262144)
	-> FlowIDS('alert udp any any -> any any (msg:"a word"; content:"/etc/passwd"; sid:1;)') -> r
== FlowDPI
r :: Ring($UDPFLOWS) -> MarkIPHeader(14) -> ConnectionTracker(CAPACITY 262144)
	-> FlowDPI("drop name example.com") -> r
== SYNProxy
p :: SYNProxy(CAPACITY 262144);
IP($SYN) -> p -> out; Idle -> [1]p; p[1] -> out
== SourceLimiter
r :: Ring($UDPFLOWS) -> MarkIPHeader(14) -> SourceLimiter(1000000000) -> r
== FlowCounter
r :: Ring($UDPFLOWS) -> MarkIPHeader(14) -> FlowIPManager(CAPACITY 262144) -> FlowCounter -> r
== FlowFirewall
t :: ConnectionTracker(CAPACITY 262144);
f :: FlowFirewall("allow from inside udp dst port 53", SIDES inside outside);
r :: Ring($UDPFLOWS) -> MarkIPHeader(14) -> t -> f -> r; Idle -> [1]t; t[1] -> [1]f; f[1] -> out
== FlowFirewall, IPv6
t :: ConnectionTracker(CAPACITY 262144);
f :: FlowFirewall("allow from inside udp dst port 53", SIDES inside outside);
r :: Ring($UDP6FLOWS) -> MarkIP6Header(14) -> t -> f -> r; Idle -> [1]t; t[1] -> [1]f; f[1] -> out
== FlowIPNAT
t :: ConnectionTracker(CAPACITY 262144); n :: FlowIPNAT(198.51.100.2);
r :: Ring($UDPFLOWS) -> u :: Tee; u[0] -> r;
u[1] -> Strip(14) -> MarkIPHeader -> t -> n -> out; Idle -> [1]t; t[1] -> [1]n; n[1] -> out

//// measure

== TrafficSource
TrafficSource(FLOWS 100, COUNT $N) -> drain
== TrafficSink
TrafficSource(FLOWS 100, COUNT $N) -> Pump -> TrafficSink -> out

//// analysis

== AdjustTimestamp
Source($UDP) -> SetTimestamp(1) -> AdjustTimestamp(-3600) -> out
== AggregateCounter
r :: Ring($UDPFLOWS) -> MarkIPHeader(14) -> AggregateIP(ip src) -> AggregateCounter -> r
== AggregateFilter
f :: AggregateFilter(allow 0, 1 100-199);
Source($UDP) -> f; f[0] -> out; f[1] -> out
== AggregateFirst
r :: Ring($UDPFLOWS) -> MarkIPHeader(14) -> AggregateIP(ip src) -> f :: AggregateFirst -> r; f[1] -> r
== AggregateIP
IP($UDP) -> AggregateIP(ip dst) -> out
== AggregateIPAddrPair
r :: Ring($UDPFLOWS) -> MarkIPHeader(14) -> AggregateIPAddrPair -> r
== AggregateIPFlows
r :: Ring($UDPFLOWS) -> MarkIPHeader(14) -> AggregateIPFlows -> r
== AggregateIPFlows, TCP
r :: Ring($TCPFLOWS) -> MarkIPHeader(14) -> AggregateIPFlows -> r
== AggregateLast
r :: Ring($UDPFLOWS) -> MarkIPHeader(14) -> AggregateIP(ip src) -> t :: Tee; t[0] -> r;
t[1] -> l :: AggregateLast -> out; l[1] -> out
== AggregateLength
Source($UDP) -> AggregateLength -> out
== AggregateLength, IP
IP($UDP) -> AggregateLength(IP true) -> out
== AggregatePacketCounter
Source($UDP) -> AggregatePacketCounter -> out
== AggregatePaint
Source($UDP) -> AggregatePaint -> out
== AnonymizeIPAddr
r :: Ring($UDPFLOWS) -> t :: Tee; t[0] -> r;
t[1] -> Strip(14) -> MarkIPHeader -> AnonymizeIPAddr -> out
== NumberPacket
Source($UDP) -> NumberPacket -> out
== CheckNumberPacket
Source($UDP) -> NumberPacket -> c :: CheckNumberPacket(COUNT 65536) -> out; c[1] -> out
== EraseIPPayload
IP($UDP) -> EraseIPPayload -> out
== FromIPSummaryDump
FromIPSummaryDump($SUMMARY, STOP true) -> out
== FromNetFlowSummaryDump
FromNetFlowSummaryDump($NETFLOW, STOP true) -> out
== RecordTimestamp
Source($UDP) -> NumberPacket -> RecordTimestamp(N 16777216, OFFSET 40) -> out
== TimestampDiff
Source($UDP) -> NumberPacket -> r :: RecordTimestamp(N 16777216, OFFSET 40)
	-> TimestampDiff(r, OFFSET 40) -> out
== ReplayUnqueue
FromDump($UDPFLOWS) -> ReplayUnqueue -> end
== MultiReplayUnqueue
r :: MultiReplayUnqueue; FromDump($UDPFLOWS) -> r -> end
== SetTimestampDelta
Source($UDP) -> SetTimestamp -> SetTimestampDelta -> out
== StoreTimestamp
Source($UDP) -> StoreTimestamp(0) -> out
== StoreTimestamp, TAIL
Source($UDP) -> StoreTimestamp(TAIL true) -> out
== StoreUDPTimeSeqRecord
Source($UDP) -> Strip(38) -> UDPIPEncap(10.0.1.1, 6667, 20.0.0.2, 6667) -> StoreUDPTimeSeqRecord(0) -> out
== TimeFilter
Source($UDP) -> SetTimestamp(10) -> TimeFilter(START 5, END 20) -> out
== TimeRange
Source($UDP) -> SetTimestamp(10) -> TimeRange -> out
== TimeSortedSched
s :: TimeSortedSched; Supply($UDP) -> s; Supply($UDP) -> [1]s; s -> drain
== TimestampAccum
Source($UDP) -> SetTimestamp -> TimestampAccum -> out
== ToIPSummaryDump
IP($UDP) -> ToIPSummaryDump(/dev/null, FIELDS timestamp ip_src sport ip_dst dport ip_len)
== ToIPSummaryDump, binary
IP($UDP) -> ToIPSummaryDump(/dev/null, FIELDS timestamp ip_src sport ip_dst dport ip_len, BINARY true)

//// app

== DNSResponder
IP($QUERY) -> DNSResponder("$ORIGIN example.
	@ SOA ns root 1 1h 10m 1d 60
	www A 10.0.0.80") -> out
== FTPPortMapper
n :: TCPRewriter(pattern 203.0.113.1 9000-14000 - - 0 0);
IP($TCP) -> Strip(14) -> FTPPortMapper(n, n, 0) -> n -> out

//// aqm

== RED
Source($UDP) -> r :: RED(5, 50, 0.02) -> Queue(1024) -> Unqueue(BURST 64) -> out
== RED, GENTLE
Source($UDP) -> r :: RED(5, 50, 0.02, GENTLE true) -> Queue(1024) -> Unqueue(BURST 64) -> out
== RED, pull
InfiniteSource(DATA $UDP, BURST 64, TIMESTAMP false) -> Queue(1024) -> RED(5, 50, 0.02) -> drain
== AdaptiveRED
Source($UDP) -> AdaptiveRED(20, 0.02) -> Queue(1024) -> Unqueue(BURST 64) -> out
== PI
Source($UDP) -> PI(0.01, 0.0001, 0.00009, 20) -> Queue(1024) -> Unqueue(BURST 64) -> out
== CoDel
InfiniteSource(DATA $UDP, BURST 64) -> SetTimestamp(FIRST true) -> Queue(1024) -> CoDel(5ms, 100ms) -> drain

//// ipsec

== RadixIPsecLookup
Source($UDP) -> Strip(14) -> CheckIPHeader -> SetIPAddress(10.1.0.1) -> rt :: RadixIPsecLookup(0/0 0, 10.1/16 1 234
	\<0123456789abcdef0123456789abcdef> \<00112233445566778899aabbccddeeff> 1 64); rt[0] -> out; rt[1] -> out
== IPsecESPEncap
Source($UDP) -> Strip(14) -> CheckIPHeader -> SetIPAddress(10.1.0.1) -> rt :: RadixIPsecLookup(0/0 0, 10.1/16 1 234
	\<0123456789abcdef0123456789abcdef> \<00112233445566778899aabbccddeeff> 1 64); rt[0] -> out;
rt[1] -> IPsecESPEncap(BLOCK 16) -> out
== IPsecAES (Weir)
Source($UDP) -> Strip(14) -> CheckIPHeader -> SetIPAddress(10.1.0.1) -> rt :: RadixIPsecLookup(0/0 0, 10.1/16 1 234
	\<0123456789abcdef0123456789abcdef> \<00112233445566778899aabbccddeeff> 1 64); rt[0] -> out;
rt[1] -> IPsecESPEncap(BLOCK 16) -> IPsecAES(1, IGNORE 0, BLOCK 16) -> out
== IPsecDES (Weir)
Source($UDP) -> Strip(14) -> CheckIPHeader -> SetIPAddress(10.1.0.1) -> rt :: RadixIPsecLookup(0/0 0, 10.1/16 1 234
	\<0123456789abcdef0123456789abcdef> \<00112233445566778899aabbccddeeff> 1 64); rt[0] -> out;
rt[1] -> IPsecESPEncap -> IPsecDES(1, IGNORE 0) -> out
== IPsecAuthHMACSHA1
Source($UDP) -> Strip(14) -> CheckIPHeader -> SetIPAddress(10.1.0.1) -> rt :: RadixIPsecLookup(0/0 0, 10.1/16 1 234
	\<0123456789abcdef0123456789abcdef> \<00112233445566778899aabbccddeeff> 1 64); rt[0] -> out;
rt[1] -> IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> out
== IPsecAuthSHA1
Source($UDP) -> IPsecAuthSHA1(0) -> IPsecAuthSHA1(1) -> out
== IPsecEncap
Source($UDP) -> Strip(14) -> CheckIPHeader -> SetIPAddress(10.1.0.1) -> rt :: RadixIPsecLookup(0/0 0, 10.1/16 192.0.2.2 1 234
	\<0123456789abcdef0123456789abcdef> \<00112233445566778899aabbccddeeff> 1 64); rt[0] -> out;
rt[1] -> IPsecESPEncap -> IPsecEncap(50) -> out
== IPsecESPUnencap (Weir)
Source($UDP) -> Strip(14) -> CheckIPHeader -> SetIPAddress(10.1.0.1) -> rt :: RadixIPsecLookup(0/0 0, 10.1/16 1 234
	\<0123456789abcdef0123456789abcdef> \<00112233445566778899aabbccddeeff> 1 64); rt[0] -> out;
rt[1] -> IPsecESPEncap(BLOCK 16) -> IPsecAES(1, IGNORE 0, BLOCK 16) -> IPsecAuthHMACSHA1(0) -> IPsecAuthHMACSHA1(1)
	-> IPsecAES(0, IGNORE 0, BLOCK 16) -> IPsecESPUnencap(BLOCK 16) -> out

//// local

== CopyFlowID
f :: CopyFlowID; IP($TCP) -> Strip(14) -> f -> out; IP($TCP) -> Strip(14) -> [1]f; f[1] -> out
== CopyTCPSeq
f :: CopyTCPSeq; IP($TCP) -> Strip(14) -> f -> out; IP($TCP) -> Strip(14) -> [1]f; f[1] -> out
== ForceICMP
IP($UDP) -> Strip(14) -> ForceICMP(8, 0) -> out
== ForceIP
IP($UDP) -> Strip(14) -> ForceIP -> out
== ForceTCP
IP($TCP) -> Strip(14) -> ForceTCP(80) -> out
== ForceUDP
IP($UDP) -> Strip(14) -> ForceUDP(53) -> out
== Reframe
Source($UDP) -> Strip(14) -> Reframe(FOFF 2, FLEN 2, NTOH true) -> out
== RoundRobinUnqueue
u :: RoundRobinUnqueue(64); Supply($UDP) -> u -> end; Supply($UDP) -> [1]u; u[1] -> out
== TCPBuffer
FromDump($SEGMENTS, STOP true) -> Strip(14) -> MarkIPHeader -> TCPBuffer -> Unqueue(BURST 64) -> out
== TCPReflector
IP($TCP) -> Strip(14) -> TCPReflector -> out

//// userlevel

== FromDump
FromDump($FRAMES, STOP true) -> out
== ToDump
Source($UDP) -> ToDump(/dev/null)

//// not measured

== AddressInfo AlignmentInfo AnnotationInfo ClickyInfo DPDKInfo IPFieldInfo IPNameInfo IPRewriterPatterns PortInfo ScheduleInfo: information
== SettleFlows: a word to the switch now and then (`bench/run switch firewall`)
== HTTPCache: connections of clients and an origin (the test of the function `cache`)
== DHCPServer: a few packets a second, of new clients
== FlowExporter: a few packets a second, about flows that ended
== HealthCheck: a few packets a second
== PPPoEDecap PPPoEEncap PPPoEServer RADIUSClient: a session needs a host that negotiates
== ARPTable SATable: a table that other elements use
== ChatterSocket ControlSocket DriverManager HandlerAggregate JiffieClock Message ProgressBar QuitWatcher Script StoreRead StoreWatch StoreWrite TSCClock: handlers
== BalancedThreadSched StaticThreadSched: threads of other elements
== BlockThread MTDieTest NotifierDebug QueueYankTest RandomSeed SchedOrderTest TokenBucketTest: tests
== ARPFaker EtherPauseSource ICMPPingSource RIPSend TimedSink TimedSource: one packet an interval
== BufferConverter: text that handlers read and write
== TCPIPSend WebGen: packets when a handler is written, or of new connections
== DebugBridge EtherSpanTree: a few packets a second
== TCPAck TCPConn TCPDemux: a TCP connection with a server
== DiscardNoFree: keeps all packets
== FromDevice FromHost FromRawSocket FromSocket IPFlowRawSockets KernelTap KernelTun McastSocket RawSocket Socket ToDevice ToHost ToRawSocket ToSocket: the kernel's interfaces and sockets (`bench/run switch`)
== FromDPDKDevice FromNetfront ToDPDKDevice ToNetfront: a guest's interfaces (`bench/run forward`)
== SocketClient SocketServer: sockets of a network stack module (`bench/run netkernel`)
== ToIPFlowDumps: a file a flow
