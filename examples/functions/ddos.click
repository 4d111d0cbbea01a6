// A defence against floods: a wire that answers for servers, and limits each source.
//
// Frames pass between `outside` and `inside`, which are one network: the defence has no address. A TCP connection
// from outside is answered with a SYN cookie, and opened to its server when the client has answered; of SYNs from clients
// that are not there, servers see nothing, and nothing is kept. Each source outside has limits of SYNs, of UDP
// and of ICMP packets. Connections that servers open pass.
//
//   weir run ddos --link outside=dev:eth1 --link inside=dev:eth2
//   weir run ddos -p syn_rate=100 -p 'allow=192.0.2.0/24 or 198.51.100.7' --link outside=dev:eth1 --link inside=dev:eth2
//   weir read ddos proxy.cookies
//
// # Clients and servers
//
// Clients are told the largest segment, the window scale, selective acknowledgments and timestamps before the
// server is asked. Set `mss`, `scale`, `sack` and `timestamps` to what servers do; the defaults are Linux's. A
// client without timestamps gets neither window scale nor selective acknowledgments. Connections that began before
// the defence, or before it was restarted, end. A change of the configuration (`weir write ddos hotconfig`) keeps them: it
// needs room for a second table, which is `--memory 32M` with the default.
//
// # Limits
//
// If a server does not answer, its SYN is sent again after 1, 3, 7, 15 and 31 s; after 63 s the client is reset
// (`proxy.unanswered`). RSTs and FINs pass, but end a connection here only with sequence numbers that are right: who does
// not see the connection cannot end it. A client that answers its cookie takes a place in the table: SourceLimiter bounds
// the rate of each source, and nothing the number of its connections.
// When all connections are in use, a new one takes the place of the oldest that is closed, or else of the oldest
// that its server has not answered; if there is none, it is dropped. A connection takes some 250 bytes: 100 000 need
// `--memory 48M`. Limits of sources take 512 KB each, for any number of sources: no source gets more than its limit,
// and one that keeps to it is limited wrongly once in 70 000, if 1000 others are beyond theirs. A flood of made-up
// sources with more than 16384 times a limit in a second limits all: with the default, 16 million SYNs a second, 160
// million UDP packets, 1.6 million ICMP packets.
// TCP fragments are dropped.
//
// Over IPv6, a source is a network of 64 bits, and has the same limits. Neighbor discovery passes. A connection takes 32
// bytes more.
//
// Frames of other protocols are not protected, and neither are those with a VLAN tag: with `others=drop`, they do not
// pass.
//
// # Handlers
//
// - `proxy.cookies`, `proxy.opened`, `proxy.passed` (read): SYNs that were answered; connections whose client answered;
//   that servers opened. `proxy.count`, `proxy.table` (read): the connections.
// - `proxy.invalid`, `proxy.full`, `proxy.fragments` (read): segments dropped because they belong to no connection and
//   have no cookie; because all connections were in use; fragments dropped. `proxy.refused`, `proxy.unanswered`,
//   `proxy.mismatches`, `proxy.evicted` (read): connections that servers refused; whose server did not answer; whose server
//   has no timestamps; that made room for others.
// - `syns.drops`, `udp.drops`, `icmp.drops` (read): packets beyond the limit of their source; `count` (read): the others.
//   `syns.level ADDRESS` (read), and so for the others: how near to its limit a source is, in packets. `syns.load`
//   (read): the share of buckets that are full.
// - `arrived.count`, `allowed.count`, `passed.count` (read): frames from outside; packets of the allow list;
//   packets of other protocols, which pass.

// number from 1 to 1000000000: SYNs that a source may send in a second.
define($syn_rate 1000);

// number from 1 to 1000000000: UDP packets that a source may send in a second.
define($udp_rate 10000);

// number from 1 to 1000000000: ICMP packets that a source may send in a second.
define($icmp_rate 100);

// text: addresses and prefixes outside that have no limits, and whose connections are not proxied, with `or` between.
define($allow 255.255.255.255);

// one of allow, drop: whether frames other than IPv4, IPv6 and ARP pass, which are not protected.
define($others allow);

// number from 1 to 4194304: most connections.
define($connections 10000);

// number from 536 to 65535: the largest segment that servers take over IPv4; over IPv6 it is 20 bytes smaller.
define($mss 1460);

// number from 0 to 14: by how much servers scale their windows.
define($scale 7);

// one of true, false: whether servers take selective acknowledgments.
define($sack true);

// one of true, false: whether servers have timestamps.
define($timestamps true);

// number from 1 to 604800: seconds that an established connection lives without packets.
define($tcp_timeout 7440);

to_inside :: ToNetfront(inside);
to_outside :: ToNetfront(outside);

proxy :: SYNProxy(CAPACITY $connections, MSS $mss, SCALE $scale, SACK $sack, TIMESTAMPS $timestamps, TCP $tcp_timeout);
proxy[0] -> to_inside;
proxy[1] -> to_outside;

FromNetfront(outside) -> arrived :: Counter -> in :: Classifier(12/0800, 12/0806, 12/86dd 20/3aff, 12/86dd, -);
in[0] -> CheckIPHeader(14) -> from_outside :: DualStackClassifier(
	src $allow,
	tcp opt syn and not tcp opt ack,
	tcp,
	udp,
	icmp or (icmp6 and ip vers 6),
	-);
in[1], in[2] -> to_inside;
in[3] -> CheckIP6Header(OFFSET 14) -> from_outside;
in[4] -> IPFilter($others all) -> to_inside;
// Errors may be about proxied connections, whoever sends them.
from_outside[0] -> allowed :: Counter -> errors :: DualStackClassifier(icmp or icmp6, -);
errors[0] -> [0] proxy;
errors[1] -> to_inside;
from_outside[1] -> syns :: SourceLimiter($syn_rate) -> [0] proxy;
from_outside[2] -> [0] proxy;
from_outside[3] -> udp :: SourceLimiter($udp_rate) -> to_inside;
from_outside[4] -> icmp :: SourceLimiter($icmp_rate) -> [0] proxy;
from_outside[5] -> passed :: Counter -> to_inside;

FromNetfront(inside) -> out :: Classifier(12/0800, 12/0806, 12/86dd 20/3aff, 12/86dd, -);
out[0] -> CheckIPHeader(14) -> from_inside :: DualStackClassifier(
	dst $allow,
	tcp or icmp or (icmp6 and ip vers 6),
	-);
out[1], out[2] -> to_outside;
out[3] -> CheckIP6Header(OFFSET 14) -> from_inside;
out[4] -> IPFilter($others all) -> to_outside;
from_inside[0], from_inside[2] -> to_outside;
from_inside[1] -> [1] proxy;
