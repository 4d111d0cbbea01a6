// A cache of web pages: answers clients' requests to a web server by objects that it keeps.
//
// It stands before an origin server, as a reverse proxy: clients ask it, at its address on `clients`, and it
// asks the origin for objects that it does not have. The origin may be any server of HTTP/1.1, on the
// network of `origin` or behind it. The cache has TCP of its own; it answers pings to its addresses.
//
//   weir run cache -p origin=10.2.0.2 --link clients=dev:eth1 --link origin=dev:eth2 --memory 64M
//   weir read cache cache.hits
//   weir write cache cache.purge example.com/page
//
// # Objects
//
// Responses to GET are kept as RFC 9111 says of a shared cache: for `s-maxage`, `max-age`, or until `Expires`; with
// `Last-Modified` alone, for a tenth of the time since then. `no-store`, `private`, `Set-Cookie`, and a request's
// `Authorization` without `public`, `s-maxage` or `must-revalidate` forbid it. For each set of values of the fields in
// `Vary`, there is an object of its own. An object that is not fresh is validated by its `ETag` or `Last-Modified`; if the
// origin does not answer, it is used unless `must-revalidate`, `proxy-revalidate`, `s-maxage` or `no-cache` forbids it.
//
// Clients that want one object at a time share a request to the origin. Conditions and ranges of one part are
// answered from an object that is whole; conditions about an object that is not there, ranges of others, HEAD and
// methods other than GET are passed to the origin, but for CONNECT. Methods that may change something drop the object.
// Answers tell by `Cache-Status` (RFC 9211) how the cache came to them, and by `Age` how old they are.
//
// # Limits
//
// Objects take `objects` bytes; the ones used least recently make room for others. Longer ones than `longest` are
// passed on, and not kept. There are `connections` connections of clients; further ones are refused until one ends.
// Beside them, 64 handshakes go on at a time; a further one takes the place of the oldest.
// 16 requests are at the origin at a time, others wait. A head has 8192 bytes and 64 fields at most, a request's body
// 65536 bytes. Heads that another server may read otherwise are refused (400): several Content-Length fields, or
// one with a Transfer-Encoding; folded lines. A connection without progress ends after 60 seconds. A request gets an
// error if the origin has not begun to answer after 30 seconds, those included in which it waited for others. If
// the body then pauses for 30 seconds, or ends by a reset, its clients get a reset, and it is not kept.
//
// # Handlers
//
// - `cache.hits`, `misses`, `revalidated`, `passed`, `refused`, `failed` (read): requests answered by an object; that
//   the origin was asked for; whose object it said is still right; passed on; refused; without a right answer.
// - `cache.objects` (read): the objects, each with status, bytes, age, lifetime, server and path.
//   `cache.count`, `size`, `evicted` (read): how many, their bytes, and those that made room for others.
// - `cache.purge` (write): drops the objects of a server and path, or all of them if it is empty; it fails if a server
//   and path have none. `cache.reset_counts` (write).
// - `cache.connections` (read): connections of clients.

// unicast IPv4 address: the cache's address on `clients`, which clients connect to.
define($clients_ip 10.1.0.1);

// IPv4 prefix: the addresses on `clients`.
define($clients_net 10.1.0.0/24);

// unicast IPv4 address: the cache's address on `origin`, from which it connects to the server.
define($origin_ip 10.2.0.1);

// IPv4 prefix: the addresses on `origin`.
define($origin_net 10.2.0.0/24);

// text: where packets go that are for neither network: a gateway, and 1 for `clients` or 2 for
// `origin`; 3 for nowhere.
define($default 3);

// unicast IPv4 address: the origin server.
define($origin 10.2.0.2);

// number from 1 to 65535: the port of the origin server.
define($origin_port 80);

// number from 1 to 65535: the port that clients connect to.
define($port 80);

// number from 65536 to 1073741824: bytes of all objects.
define($objects 8388608);

// number from 0 to 536870912: bytes of the longest object that is kept, at most half of all.
define($longest 1048576);

// number from 1 to 16384: most connections of clients.
define($connections 64);

elementclass Side { $interface, $address |
	FromNetfront($interface) -> HostEtherFilter($interface)
		-> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
	send :: ToNetfront($interface);

	kind[0] -> ARPResponder($address $interface) -> send;
	input -> [0] arp :: ARPQuerier($address, $interface) -> send;
	kind[1] -> [1] arp;
	kind[2] -> Strip(14) -> CheckIPHeader -> IPReassembler
		-> own :: IPClassifier(dst host $address and icmp type echo, dst host $address and tcp, -);
	own[0] -> ICMPPingResponder -> output;
	own[1] -> [1] output;
	own[2], kind[3] -> Discard;
}

clients :: Side(clients, $clients_ip);
origin :: Side(origin, $origin_ip);

cache :: HTTPCache($clients_ip, $origin, PORT $port, ORIGIN_PORT $origin_port, SOURCE $origin_ip,
	MEMORY $objects, OBJECT $longest, CLIENTS $connections);
routes :: StaticIPLookup($clients_ip 0, $origin_ip 0, $clients_net 1, $origin_net 2, 0.0.0.0/0 $default);

clients[1], origin[1] -> cache -> routes;
clients[0], origin[0] -> GetIPAddress(16) -> routes;
routes[0], routes[3] -> Discard;
routes[1] -> clients;
routes[2] -> origin;
