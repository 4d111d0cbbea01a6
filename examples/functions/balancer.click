// A load balancer: connections to one address are distributed over servers.
//
// All packets of a connection go to its server, whatever servers come and go (Maglev hashing, with a
// table of connections). After a restart of the balancer, a connection goes on when its client sends something, if the
// servers are the same; one whose client only waits for the server does not, in the mode `nat`. The balancer checks
// the servers' health; one that is down gets no connections, and its connections are reset, so that clients
// connect again at once. Fragments are reassembled first. The balancer answers pings to its addresses. Connections
// over IPv6, to `address6`, go to the servers that have IPv6 addresses.
//
//   weir run balancer -p servers=10.0.0.11,10.0.0.12 --link outside=dev:eth1 --link servers=dev:eth2
//   weir run balancer -p servers=10.0.0.11,2001:db8:1::11 --link outside=dev:eth1 --link servers=dev:eth2
//   weir run balancer -p mode=direct -p check=http -p path=/health --link outside=dev:eth1 --link servers=dev:eth2
//
// In the mode `nat`, servers see clients' addresses, and the balancer is their default gateway: replies pass
// it, and come from the service's address. Connections that servers open themselves do not pass it. In the mode `direct`, requests alone pass it, and servers
// reply by their own way. Each has the service's address on its loopback interface, of which its ARP is
// silent:
//
//   ip address add 203.0.113.10/32 dev lo
//   ip address add 2001:db8::10/128 dev lo
//   sysctl net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
//
// # Servers at work
//
// Servers are added, drained and removed while the balancer runs. A server that is drained gets no new
// connections; its present ones go on. Adding it again ends that, and gives it another weight.
//
//   weir write balancer balancer.add '10.0.0.14 2'
//   weir write balancer balancer.drain 10.0.0.11
//   weir write balancer balancer.remove 10.0.0.11
//
// The connections of a server that is removed are reset, on both sides in the mode `nat`. A server that is added gets
// connections at once. If it does not answer, they fail until it is down, after `fall` checks. With a port, a server is
// written `10.0.0.14:8080`, or `[2001:db8:1::14]:8080`.
//
// # Limits
//
// There may be 512 servers. When all connections are in use, a new one takes the place of the oldest that
// is closed, or else of the oldest that has no reply, or no complete TCP handshake, yet; if there is
// none, its packets are dropped. A connection takes some 180 bytes, and 64 more over IPv6: 100 000 need
// `--memory 40M`.
//
// # Handlers
//
// - `balancer.servers` (read): for each server its address, `up`, `down`, `draining` or `removed`, its
//   weight, connections that it has, connections that it had, and packets to it.
// - `balancer.add`, `balancer.drain`, `balancer.remove` (write): see above.
// - `balancer.refused`, `balancer.lost`, `balancer.drops` (read): connections that found no server;
//   packets of connections whose server is gone; packets dropped.
// - `health.table` (read): for each server, how its last check ended. `health.successes`,
//   `health.failures` (read): checks.
// - `connections.table` (read): the connections. `connections.count`, `opened`, `evicted`, `drops`,
//   `invalid` (read): how many there are, began, made room for others; packets dropped because the table
//   was full, and because they belong to no connection. `connections.clear` (write): ends all.

// unicast IPv4 address: the service's address, which clients connect to.
define($address 203.0.113.10);

// IPv4 prefix: the network of the service's address.
define($outside_net 203.0.113.0/24);

// unicast IPv4 address: the router to clients beyond that network.
define($gateway 203.0.113.1);

// unicast IPv4 address: the balancer's address on `servers`.
define($servers_ip 10.0.0.1);

// unicast IPv6 address: the service's address for clients of IPv6.
define($address6 2001:db8::10);

// IPv6 prefix: the network of that address.
define($outside_net6 2001:db8::/64);

// unicast IPv6 address: the router to clients beyond that network.
define($gateway6 2001:db8::1);

// unicast IPv6 address: the balancer's address on `servers` for servers of IPv6.
define($servers_ip6 2001:db8:1::1);

// text: the connections that are distributed, as a pattern of IPFilter.
define($service tcp dst port 80 or 443);

// list of text: servers, each an address, with a port behind `:` if it is not the client's, and a
// weight up to 256 if it is not 1. Those of IPv6 are on the network of `servers_ip6`.
define($servers 10.0.0.11);

// one of nat, direct: how packets reach servers.
define($mode nat);

// one of connection, source: connections go to servers one by one, or all of a client to the
// same one.
define($sticky connection);

// one of tcp, http, icmp, none: how the health of servers is checked.
define($check tcp);

// number from 0 to 65535: the port that is checked; if it is 0, that of the server, or 80 of one without.
define($check_port 0);

// text: what a check by `http` asks for; a status from 200 to 399 is healthy.
define($path /);

// text: the host name that a check by `http` gives; the server's address if it is empty.
define($host "");

// number from 1 to 3600: seconds between two checks of a server. A check may take half a second.
define($check_interval 2);

// number from 1 to 255: failed checks in a row after which a server is down.
define($fall 3);

// number from 1 to 255: successful checks in a row after which it is up again.
define($rise 2);

// one of reset, keep: what becomes of the connections of a server that is down.
define($down reset);

// number from 1 to 4194304: most connections.
define($connections 10000);

// number from 1 to 604800: seconds that a TCP connection lives without packets when both sides have
// closed it.
define($closed_timeout 240);

// number from 1 to 604800: seconds that an established TCP connection lives without packets.
define($tcp_timeout 7440);

// A side: ARP, neighbor discovery, and packets in and out, with their next hop as destination annotation: of IPv4
// by port 0, of IPv6 by port 1.
elementclass Side { $interface, $address, $address6 |
	FromNetfront($interface) -> HostEtherFilter($interface) -> kind :: Classifier(
		12/0806 20/0001, 12/0806 20/0002, 12/0800,
		12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/86dd, -);
	send :: ToNetfront($interface);

	kind[0] -> ARPResponder($address $interface) -> send;
	input[0] -> fragment :: IPFragmenter(1500) -> [0] arp :: ARPQuerier($address, $interface) -> SettleFlows -> send;
	kind[1] -> [1] arp;
	kind[2] -> Strip(14) -> CheckIPHeader -> IPReassembler -> [0] output;
	fragment[1] -> ICMPError($address, unreachable, needfrag, PMTU 1500) -> [0] output;

	kind[3] -> IP6NDAdvertiser($address6 $interface) -> send;
	input[1] -> fit :: IP6Fragmenter(1500, HONOR_DF true, MTU_ANNO 36)
		-> [0] neighbors :: IP6NDSolicitor($address6, $interface) -> SettleFlows -> send;
	kind[4] -> [1] neighbors;
	kind[5] -> Strip(14) -> CheckIP6Header -> IPReassembler(MAX_MTU_ANNO 36) -> [1] output;
	fit[1] -> ICMP6Error($address6, 2, 0, PMTU 1500) -> [1] output;

	kind[6] -> Discard;
}

outside :: Side(outside, $address, $address6);
servers :: Side(servers, $servers_ip, $servers_ip6);

connections :: ConnectionTracker(CAPACITY $connections, TCP $tcp_timeout, TCP_CLOSED $closed_timeout, LOOSE true);
balancer :: FlowIPLoadBalancer($servers, MODE $mode, STICKY $sticky, DOWN $down);
health :: HealthCheck(balancer, $servers_ip, $check, SOURCE6 $servers_ip6, PORT $check_port, DEFAULT_PORT 80, PATH $path, HOST $host,
	INTERVAL $check_interval, TIMEOUT 500ms, FALL $fall, RISE $rise);
next :: StaticIPLookup($outside_net 0, 0.0.0.0/0 $gateway 0) -> [0] outside;
next6 :: LookupIP6Route($outside_net6 0, ::/0 $gateway6 0) -> [1] outside;

// From clients: the service, errors about its packets, and pings.
outside -> request :: IPClassifier(
	dst host $address and ($service),
	dst host $address and icmp type echo,
	dst host $address and icmp,
	-);
request[0], request[2] -> in_ttl :: DecIPTTL -> [0] connections [0] -> to_servers :: Null -> [0] balancer;
request[1] -> ICMPPingResponder -> GetIPAddress(16) -> next;
request[3] -> Discard;
in_ttl[1] -> ICMPError($address, timeexceeded) -> next;

// The same over IPv6. No source is a group.
outside[1] -> sane :: Classifier(8/ff, -) -> Discard;
sane[1] -> request6 :: DualStackClassifier(
	dst host $address6 and ($service),
	dst host $address6 and icmp6 type echo,
	dst host $address6 and icmp6,
	-);
request6[0], request6[2] -> in_hops :: DecIP6HLIM -> [1] connections [1] -> to_servers;
request6[1] -> ICMP6PingResponder -> next6;
request6[3] -> Discard;
in_hops[1] -> ICMP6Error($address6, 3, 0) -> next6;

// From servers: answers to checks, pings, and replies.
servers -> reply :: IPClassifier(
	dst host $servers_ip and icmp type echo,
	dst host $servers_ip,
	-);
reply[0] -> ICMPPingResponder -> GetIPAddress(16) -> [0] servers;
reply[1] -> health -> check :: Classifier(0/60%f0, -);
check[0] -> [1] servers;
check[1] -> [0] servers;
reply[2] -> out_ttl :: DecIPTTL -> [2] connections [2] -> from_servers :: Null -> [1] balancer;
out_ttl[1] -> ICMPError($servers_ip, timeexceeded) -> GetIPAddress(16) -> [0] servers;

servers[1] -> sane_reply :: Classifier(8/ff, -) -> Discard;
sane_reply[1] -> reply6 :: DualStackClassifier(
	dst host $servers_ip6 and icmp6 type echo,
	dst host $servers_ip6,
	-);
reply6[0] -> ICMP6PingResponder -> [1] servers;
reply6[1] -> health;
reply6[2] -> out_hops :: DecIP6HLIM -> [3] connections [3] -> from_servers;
out_hops[1] -> ICMP6Error($servers_ip6, 3, 0) -> [1] servers;

// Each version has its own way on.
balancer[0] -> version_there :: Classifier(0/60%f0, -);
version_there[0] -> [1] servers;
version_there[1] -> [0] servers;
balancer[1] -> version_back :: Classifier(0/60%f0, -);
version_back[0] -> next6;
version_back[1] -> next;

// Clients without a server.
balancer[2] -> reset :: TCPReset -> version_reset :: Classifier(0/60%f0, -);
version_reset[0] -> next6;
version_reset[1] -> next;
reset[1] -> version_error :: Classifier(0/60%f0, -);
version_error[0] -> ICMP6Error($address6, 1, 4) -> next6;
version_error[1] -> ICMPError($address, unreachable, port) -> next;
