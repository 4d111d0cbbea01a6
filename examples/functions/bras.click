// A broadband remote access server: subscribers come in by PPPoE, and are routed to a network.
//
// Each subscriber has a session of PPP over Ethernet (RFC 2516), proves itself by CHAP or PAP, and gets an
// address, and DNS servers. Packets count for their session; a packet whose source is not the
// session's address is dropped. Users are those of a file, or of RADIUS servers, which get
// accounts as well. The server answers pings to its addresses. The router outside must route the pool to
// `outside_ip`.
//
//   weir run bras -p users=users.txt --link subscribers=dev:eth1 --link outside=dev:eth2
//   weir run bras -p radius=203.0.113.1 -p radius_secret=secret.txt --link subscribers=dev:eth1 --link outside=dev:eth2
//
// # Users
//
// A file of users has a user on each line: name, secret, and an address if it is always the same. A line that
// begins with `#` is a comment. The file's content, with its secrets, becomes part of the guest's
// configuration, which clients of the node can read.
//
//   ann@example.net    Xae3hohs
//   bob@example.net    uv5Aiqu7    100.64.0.7
//
// The addresses of users, in the file or by RADIUS, must be addresses of the pool: no others are routed
// to subscribers. A file with another is refused, and a user to whom RADIUS gives another is turned away. The first
// and the last address of the pool, and the server's own, are not given out.
//
// # IPv6
//
// With `ip6`, subscribers negotiate IPv6, too. Each session has a prefix of 64 bits of `pool6`, which its host
// is told by router advertisements. The router outside must route `pool6` to `outside6_ip`.
//
// # RADIUS
//
// Users that are not in the file are asked of RADIUS servers, in turn until one answers. A server must know
// the secret, and sign its answers about users by a Message-Authenticator, unless `radius_signed` is false.
// FreeRADIUS 3.2.1, as in Debian 12, does not sign them: nobody gets in, and `radius.unsigned` counts its answers. Take
// a later version, or give `radius_signed=false` if nobody can forge answers on the network between.
// It can give an address, and times after which a session ends; without an address, the user gets one of the
// pool. Accounts are sent when packets begin to flow, every `interim` seconds, and at the end.
//
// # Limits
//
// When all sessions are in use, a new one takes the place of the one whose user has been unknown for the
// longest time; if all users are known, new ones get an error. A session takes some 1000 bytes: 10 000
// need `--memory 32M`.
//
// # Handlers
//
// - `bras.sessions` (read): for each session its number, host, user, address, state, seconds, and packets
//   and bytes in and out. `bras.session NUMBER` (read): all about one.
// - `bras.terminate` (write): ends the session with this number.
// - `bras.count`, `bras.free_addresses` (read): sessions; addresses of the pool that are free.
// - `bras.offers`, `bras.begun`, `bras.accepted`, `bras.refused` (read): offers; sessions that began; sessions
//   whose user became known; sessions that were turned away.
// - `bras.strangers`, `bras.spoofed`, `bras.unreachable` (read): frames of no session, or of another host's;
//   packets with a wrong source; packets for addresses that no session has.
// - `bras.full`, `bras.over_rate`, `bras.invalid`, `bras.silent` (read): requests that found no free session;
//   discovery frames beyond `rate`; wrong ones; sessions whose host fell silent.
// - `radius.servers` (read): for each server the requests that it answered, and did not answer.
// - `radius.accepts`, `radius.rejects`, `radius.unanswered` (read): users that servers accepted, rejected, said
//   nothing about. `radius.accounts`, `radius.lost` (read): accounts that servers confirmed, and did not.
// - `radius.pending`, `radius.resent`, `radius.invalid` (read): requests without an answer; requests
//   that were sent again; packets that answer none, or are not authentic. `radius.unsigned` (read): answers that do
//   not count because they have no Message-Authenticator.

// unicast IPv4 address: the server's address towards subscribers.
define($address 100.64.0.1);

// IPv4 prefix: the addresses of subscribers.
define($pool 100.64.0.0/22);

// unicast IPv4 address: the server's address on `outside`.
define($outside_ip 203.0.113.2);

// IPv4 prefix: the network outside.
define($outside_net 203.0.113.0/24);

// unicast IPv4 address: the router to all other networks.
define($gateway 203.0.113.1);

// file of users: subscribers and their secrets.
define($users "");

// text: RADIUS servers, at most four, with spaces between: an address each, with `:` and the ports of
// authentication and accounting behind it if they are not 1812 and 1813; none if it is empty.
define($radius "");

// file with a secret: what the RADIUS servers know this server by.
define($radius_secret "");

// one of true, false: whether answers of RADIUS servers about users must have a Message-Authenticator.
define($radius_signed true);

// number from 0 to 86400: seconds between two accounts of a session, unless RADIUS says otherwise; 0 for
// none.
define($interim 600);

// one of any, chap, pap: how subscribers prove themselves.
define($auth any);

// text: the server's name in offers.
define($name weir);

// text: names of services that are offered, with spaces between; all that are asked for if it is empty.
define($services "");

// text: DNS servers for subscribers, at most two, with a space between.
define($dns "");

// one of false, true: whether IPv6 is negotiated.
define($ip6 false);

// IPv6 prefix: the prefixes of subscribers, one of 64 bits for each session.
define($pool6 2001:db8:100::/48);

// unicast IPv6 address: the server's address on `outside`.
define($outside6_ip 2001:db8:1::2);

// IPv6 prefix: the network outside.
define($outside6_net 2001:db8:1::/64);

// unicast IPv6 address: the router to all other networks.
define($gateway6 2001:db8:1::1);

// number from 576 to 1492: most bytes of a packet to a subscriber, with IPv6 at least 1280.
define($mtu 1492);

// number from 1 to 65534: most sessions.
define($sessions 1024);

// number from 1 to 16: most sessions of a host; a further one ends its oldest.
define($host_sessions 1);

// number from 1 to 1000000: most new sessions in a second.
define($rate 500);

// number from 1 to 3600: seconds between two echo requests to a host; after 3 without an answer its session
// ends.
define($echo 10);

// number from 1 to 3600: seconds until packets must flow.
define($setup 30);

// Subscribers: discovery, and sessions.
radius :: RADIUSClient($outside_ip, SERVERS $radius, SECRET $radius_secret, NAME $name,
	SIGNED $radius_signed);
bras :: PPPoEServer(subscribers, $address, $pool, USERS $users, RADIUS radius, AUTH $auth, NAME $name,
	SERVICES $services, DNS $dns, MTU $mtu, CAPACITY $sessions, HOST_SESSIONS $host_sessions, RATE $rate,
	ECHO $echo, SETUP $setup, INTERIM $interim,
	IP6 $ip6, POOL6 $pool6);
FromNetfront(subscribers) -> HostEtherFilter(subscribers)
	-> kind :: Classifier(12/8863, 12/8864, -);
to_subscribers :: ToNetfront(subscribers);
kind[0] -> [0] bras -> to_subscribers;
kind[1] -> decap :: PPPoEDecap(bras);
kind[2] -> Discard;
decap[1] -> [1] bras;

// The network outside: ARP, and packets in and out, with their next hop as destination annotation.
FromNetfront(outside) -> HostEtherFilter(outside)
	-> outside_kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800,
		12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/86dd, -);
to_outside :: ToNetfront(outside);
outside_kind[0] -> ARPResponder($outside_ip outside) -> to_outside;
outside_kind[1] -> [1] arp :: ARPQuerier($outside_ip, outside) -> to_outside;
outside_kind[6] -> Discard;
routes :: StaticIPLookup($pool 1, $outside_net 0, 0.0.0.0/0 $gateway 0);
routes[0] -> fragment :: IPFragmenter(1500) -> [0] arp;
fragment[1] -> ICMPError($outside_ip, unreachable, needfrag, PMTU 1500) -> routes;
routes[1] -> fit :: IPFragmenter($mtu) -> encap :: PPPoEEncap(bras) -> to_subscribers;
fit[1] -> ICMPError($address, unreachable, needfrag, PMTU $mtu) -> routes;
encap[1] -> ICMPError($address, unreachable, host) -> routes;

// From subscribers: pings to the server itself, and what goes on.
decap[0] -> CheckIPHeader -> sent :: IPClassifier(
	icmp type echo and (dst host $address or dst host $outside_ip),
	dst host $address or dst host $outside_ip,
	-);
sent[0] -> ICMPPingResponder -> GetIPAddress(16) -> routes;
sent[1] -> Discard;
sent[2] -> in_ttl :: DecIPTTL -> routes;
in_ttl[1] -> ICMPError($address, timeexceeded) -> routes;

// From outside: pings to the server itself, and packets to subscribers. A source that is a subscriber's is
// spoofed.
outside_kind[2] -> Strip(14) -> CheckIPHeader -> arrived :: IPClassifier(
	src net $pool or src host $address,
	icmp type echo and dst host $outside_ip,
	dst host $outside_ip,
	dst net $pool,
	-);
arrived[0] -> spoofed :: Counter -> Discard;
arrived[1] -> ICMPPingResponder -> GetIPAddress(16) -> routes;
arrived[2] -> answers :: IPClassifier(udp dst port 49152, -);
answers[0] -> radius -> routes;
answers[1], arrived[4] -> Discard;
arrived[3] -> out_ttl :: DecIPTTL -> routes;
out_ttl[1] -> ICMPError($outside_ip, timeexceeded) -> routes;

// IPv6: neighbor discovery outside, and packets both ways. A source from outside that is a subscriber's is
// spoofed; no router forwards sources and destinations of local scope.
outside_kind[3] -> IP6NDAdvertiser($outside6_ip outside) -> to_outside;
outside_kind[4] -> [1] neighbors :: IP6NDSolicitor($outside6_ip, outside) -> to_outside;
neighbors[1] -> to_outside;
routes6 :: LookupIP6Route($outside6_ip/128 0, fe80::/10 3, ff00::/8 3,
	$pool6 1, $outside6_net 2, ::/0 $gateway6 2);
errors6 :: Null -> routes6;
routes6[0] -> self6 :: ICMP6PingResponder -> routes6;
self6[1] -> Discard;
routes6[1] -> in_hops :: DecIP6HLIM -> fit6 :: IP6Fragmenter($mtu, HONOR_DF true)
	-> encap6 :: PPPoEEncap(bras) -> to_subscribers;
routes6[2] -> out_hops :: DecIP6HLIM -> [0] neighbors;
routes6[3] -> Discard;
in_hops[1] -> ICMP6Error($outside6_ip, 3, 0) -> errors6;
out_hops[1] -> ICMP6Error($outside6_ip, 3, 0) -> errors6;
fit6[1] -> ICMP6Error($outside6_ip, 2, 0, PMTU $mtu) -> errors6;
encap6[1], neighbors[2] -> ICMP6Error($outside6_ip, 1, 3) -> errors6;
decap[2] -> CheckIP6Header(::) -> GetIP6Address(24) -> routes6;
outside_kind[5] -> Strip(14) -> CheckIP6Header(::)
	-> local6 :: Classifier(8/fe80%ffc0, 8/ff, 8/00000000000000000000000000000001, -);
local6[0], local6[1], local6[2] -> Discard;
local6[3] -> GetIP6Address(8) -> source6 :: LookupIP6Route($pool6 0, ::/0 1);
source6[0] -> spoofed6 :: Counter -> Discard;
source6[1] -> GetIP6Address(24) -> arrived6 :: LookupIP6Route($outside6_ip/128 0, $pool6 0, ::/0 1);
arrived6[0] -> routes6;
arrived6[1] -> Discard;
