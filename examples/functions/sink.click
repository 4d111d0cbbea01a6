// A sink of a generator's traffic: it tells rate, loss, order and delay.
//
// It measures the packets of the function `generator`, and drops all packets. Delays are from the
// generator's clock to the sink's, in nanoseconds: clocks of different machines must be in step. The
// sink answers ARP requests and neighbor solicitations for its addresses, so that a router before
// it finds it.
//
//   weir run sink --link port=dev:eth2
//   weir read sink sink.loss
//   weir read sink sink.delay_p99
//   weir read sink sink.histogram | weir plot -o delay.svg
//
// # Limits
//
// Of flows beyond `flows`, only rate and delay are measured. A packet that is older than the last
// `window` numbers of its flow counts as `stale`. Memory: for each flow 8 bytes, and a bit for each
// number of its window. Delays are kept to within 1/64, up to 137 seconds.
//
// # Handlers
//
// - `sink.count`, `sink.byte_count` (read): packets and bytes. `sink.rate`, `sink.byte_rate`,
//   `sink.bit_rate` (read): the same a second.
// - `sink.lost`, `sink.loss` (read): packets that are missing, and their share. Packets behind the last
//   that arrived are not known to the sink: `source.count` of the generator tells them.
// - `sink.reordered`, `sink.duplicates`, `sink.stale` (read): packets that came after a later one of
//   their flow, came before, or are too old to tell.
// - `sink.delay_min`, `sink.delay_mean`, `sink.delay_p50`, `sink.delay_p90`, `sink.delay_p99`,
//   `sink.delay_p999`, `sink.delay_max`, `sink.delay_percentile` (read): delays; the last takes the
//   percentile as its parameter. `sink.histogram` (read): all, a line for each bucket. `sink.early`
//   (read): packets that seem to have come before they were sent; their delay counts as 0.
// - `sink.flow_count`, `sink.untracked`, `sink.others` (read): flows; packets of flows beyond the limit;
//   packets of another origin.
// - `sink.reset` (write): sets all counts to 0, and forgets all delays.

// IPv4 prefix: the sink's addresses.
define($addresses 198.18.1.0/24);

// IPv6 prefix: the sink's IPv6 addresses.
define($addresses6 2001:2:0:1::/64);

// number from 1 to 1048576: most flows that are tracked.
define($flows 4096);

// number from 64 to 65536: numbers of a flow that are told apart, a multiple of 64.
define($window 1024);

FromNetfront(port) -> kind :: Classifier(12/0806 20/0001, 12/86dd 20/3aff 54/87, -);
kind[0] -> ARPResponder($addresses port) -> send :: ToNetfront(port);
kind[1] -> IP6NDAdvertiser($addresses6 port) -> send;
kind[2] -> sink :: TrafficSink($flows, WINDOW $window) -> Discard;
