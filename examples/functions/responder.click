// A responder: ARP, pings, DHCP and DNS for a network, from one address.
//
// It answers ARP requests and neighbor solicitations for its addresses, pings to them (IPv4 and IPv6), DHCP clients
// and relay agents, and DNS queries for the names of a zone file. Answers go back to where the
// question came from. Fragments are dropped.
//
//   weir run responder -p records=office.zone --link port=dev:eth1
//   weir run responder -p ip=10.7.0.1 -p net=10.7.0.0/16 -p pool=10.7.1.0-10.7.8.255 -p dns=10.7.0.1 --link port=dev:eth1
//   weir read responder dhcp.leases
//
// # Leases
//
// A client gets the address that it has or had last, or the one that it asks for, or the one that has been
// free for longest. A reservation is an Ethernet address and an address for it alone. Clients of other subnets are
// served through relay agents: each subnet is a prefix, the first and last address of its pool, and a router.
//
//   weir run responder -p 'reservations=02:00:00:00:00:07 10.0.0.7' -p 'subnets=10.9.0.0/24 10.9.0.10-10.9.0.99 10.9.0.1' --link port=dev:eth1
//
// Leases are lost with the guest, and learned again from clients that renew theirs. They outlive a change
// of the configuration.
//
// # Records
//
// A zone file (RFC 1035) has a record on each line: a name, a type and its data. Types are A, AAAA,
// CNAME, MX, NS, PTR, SOA and TXT; each name is in a zone with a SOA record. Without `$TTL`, the
// time to live is 3600 seconds. A file is refused if it has wildcards, NS records of a name below its zone's, or chains
// of more than 8 CNAME records. Queries for names in no zone are refused, and so is recursion.
//
//   $ORIGIN example.org.
//   @    SOA ns root 1 1h 10m 1d 60
//   ns   A 10.0.0.1
//   www  A 10.0.0.80
//   mail CNAME www
//
//   weir write responder dns.records - <office.zone
//
// # Limits
//
// The pools have 65536 addresses at most; each takes some 200 bytes. If all are in use, new clients get no offer,
// and those that have a lease go on. A DNS answer has 512 bytes, or what the client says up to 1232; a longer one is
// cut. There is no DNS by TCP.
//
// # Handlers
//
// - `dhcp.leases` (read): for each address in use the client, its state, and the seconds that it lasts.
//   `dhcp.count`, `dhcp.free` (read): addresses that clients have; that are free. `dhcp.revoke` (write): takes
//   the lease of an address back.
// - `dhcp.discovers`, `offers`, `acks`, `naks`, `declines`, `releases`, `informs` (read): messages of each kind.
//   `dhcp.exhausted`, `foreign`, `invalid` (read): requests while no address was free; from no
//   subnet; packets that are no client's messages.
// - `dns.records` (read, write): the records. A mistake is told with its line, and changes nothing.
// - `dns.found`, `missing`, `nodata`, `refused`, `unsupported`, `malformed` (read): queries that got records; for names
//   that are not there; for types that are not; for names in no zone; of a kind that is not served; that are
//   malformed. `dns.truncated`, `dns.drops` (read): answers that were cut; packets that are no queries. `dns.reset`
//   (write): all become 0.
// - `pings.count` (read): pings that were answered.

// unicast IPv4 address in net: the responder's address.
define($ip 10.0.0.1);

// IPv4 prefix: the network that it is in.
define($net 10.0.0.0/24);

// unicast IPv6 address: its IPv6 address.
define($ip6 2001:db8::1);

// one of allow, drop: whether DHCP clients are served, or their messages dropped.
define($dhcp allow);

// text: the first and last address that clients get, with a dash between.
define($pool 10.0.0.100-10.0.0.199);

// IPv4 address: the clients' router; 0.0.0.0: they are told none.
define($router 0.0.0.0);

// text: the clients' domain name servers, with spaces between.
define($dns 10.0.0.1);

// text: the clients' domain.
define($domain "");

// number from 0 to 65535: the longest packet on the clients' link, in bytes; 0: they are not told.
define($mtu 0);

// number from 10 to 4294967295: seconds that a lease lasts.
define($lease 3600);

// list of text: addresses for clients, each an Ethernet address and an address.
define($reservations );

// list of text: further subnets, behind relay agents, each a prefix, a pool and a router.
define($subnets );

// file of records: the names that are served.
define($records "");

FromNetfront(port) -> HostEtherFilter(port) -> kind :: Classifier(
	12/0806 20/0001, 12/0800, 12/86dd 20/3aff 54/87, 12/86dd, -);
send :: ToNetfront(port);

kind[0] -> ARPResponder($ip port) -> send;
kind[1] -> CheckIPHeader(14) -> asked :: IPClassifier(
	ip frag,
	udp dst port 67,
	dst host $ip and icmp type echo,
	dst host $ip and udp dst port 53,
	-);
kind[2] -> IP6NDAdvertiser($ip6 port) -> send;
kind[3] -> CheckIP6Header(OFFSET 14) -> GetIP6Address(38) -> own :: LookupIP6Route($ip6/128 0, ::/0 1);
own[0] -> asked6 :: Classifier(20/3a, 20/11 56/0035, -);
own[1] -> Discard;
kind[4] -> Discard;

// Answers, back to where the questions came from.
answers :: EtherMirror -> StoreEtherAddress(port, src) -> send;

asked[0] -> Discard;
asked[1] -> IPFilter($dhcp all)
	-> dhcp :: DHCPServer($ip, port, $net $pool $router, $subnets, $reservations,
		DNS $dns, DOMAIN $domain, MTU $mtu, LEASE $lease)
	-> send;
pings :: Counter -> answers;
asked[2] -> ICMPPingResponder -> pings;
dns :: DNSResponder($records) -> answers;
asked[3] -> dns;
asked6[0] -> ICMP6PingResponder -> pings;
asked6[1] -> dns;
asked[4], asked6[2] -> Discard;
