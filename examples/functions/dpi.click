// Deep packet inspection: a wire that tells the protocols and servers of flows, and treats flows by these.
//
// Frames pass between `a` and `b`. Of IPv4 and IPv6 packets, each flow's protocol is told by its first bytes, not by its
// ports, and so is its server's name: from TLS and QUIC (the ClientHello), from HTTP (the Host header) and from
// the DNS (the question). Flows are counted by protocol, by application and by name. A policy drops flows, or
// marks them.
//
//   weir run dpi --link a=dev:eth1 --link b=dev:eth2
//   weir run dpi -p policy=policy.txt -p applications=applications.txt --link a=dev:eth1 --link b=dev:eth2
//   weir read dpi dpi.protocols
//   weir read dpi dpi.names 20
//   weir write dpi dpi.policy - <policy.txt
//
// # Policy
//
// A policy has a rule on each line; the first that matches decides on the flow:
//
//   pass name updates.example.com
//   drop name example.com,example.net protocol tls,quic,dns
//   drop protocol bittorrent
//   dscp 46 protocol rtp,sip
//   dscp 34 application video     # a line of applications: video video.example cdn.example
//
// Actions are `pass`, `drop` and `dscp` with a code point. Conditions are `protocol`, `name`, `application` and
// `alpn`, each with a value or several with commas between; all of a rule must hold. A name is in a domain if
// it is the domain or ends with it, behind a dot. The page of the element FlowDPI has the names of the protocols.
//
// A rule applies from the packet on that tells the flow's protocol: the handshake of TCP passes, and the
// ClientHello of a blocked server does not.
//
// # Limits
//
// A flow is told once: of an HTTP connection, the first request's Host counts, or its target if that is a whole
// address. The first `window` bytes of a direction are looked at. If all streams are in use, a flow's first segment
// alone decides (`dpi.unassembled`).
// What the receiver does not take decides nothing, and passes: segments with wrong checksums, beyond the receiver's
// window, or with an acknowledgment of what was not sent. A segment whose data differ from those before at the same
// place is dropped (`dpi.conflicts`), so the server gets what was looked at. Of a request with different Host headers,
// rules that drop by name or application hold, and no others by these.
// These still get a client past the policy: a segment that decides, and whose hops end before the server; a name that is
// not in the clear (ECH, or TLS inside another protocol); fragments, without `fragments=deny`.
// Frames of other protocols than IP pass uninspected, and so do fragments, unless `fragments=deny`, and of IPv6
// ICMPv6 and packets to groups.
// TCP connections that began before are picked up; most are of the protocol `unknown`.
// When all connections are in use, a new one takes the place of the oldest that is closed, or else of the
// oldest that has no reply, or no complete TCP handshake, yet; if there is none, its packets are dropped
// (`connections.drops`). TCP segments with flags that do not go together, and packets with wrong IP headers, are
// dropped (`connections.invalid`). A flow takes some 300 bytes: 100 000 need `--memory 64M`.
//
// # Handlers
//
// - `dpi.protocols` (read): for each protocol its flows, packets and bytes. `dpi.applications` (read): the same
//   for each application.
// - `dpi.names` (read): the names with the most flows, ten or as many as the parameter says, each with its
//   flows and their error.
// - `dpi.flows` (read): the flows, each with its protocol, application, name, first protocol offered in TLS,
//   packets and bytes.
// - `dpi.policy` (read, write): the policy. A mistake is told with its line, and changes nothing; new rules apply
//   to flows that are not told yet. `dpi.hits` (read): for each rule how many flows it decided on.
// - `dpi.domains` (read, write): the table of applications.
// - `dpi.drops`, `dpi.unassembled`, `dpi.conflicts` (read): packets dropped by rules; flows decided on by their first
//   segment; segments dropped because their data differ from those before.
// - `dpi.reset` (write): sets all counts to 0.
// - `connections.count`, `opened`, `evicted`, `drops`, `invalid` (read): connections that are followed, began, made
//   room for others; packets dropped because the table was full, and because they belong to no connection.
// - `there.count`, `there.byte_count`, `there.rate` (read): frames, bytes, and frames a second from `a` to
//   `b`; `back` from `b` to `a`.

// file of policy rules: how flows are treated; without one, all pass.
define($policy "");

// file of applications: on each line the name of an application, and the domains of its servers.
define($applications "");

// one of allow, deny: whether fragments pass, uninspected.
define($fragments allow);

// number from 1 to 4194304: most connections.
define($connections 4000);

// number from 1 to 604800: seconds that a TCP connection lives without packets when both sides have
// closed it.
define($closed_timeout 240);

// number from 0 to 1048576: directions of TCP connections that are put together at a time.
define($streams 64);

// number from 512 to 65536: bytes of a direction that are looked at.
define($window 4096);

// number from 1 to 65536: names that are counted.
define($top 256);

// Packets that are inspected by output 0, others by output 1.
elementclass Packets {
	input -> kind :: Classifier(12/0800, 12/86dd, -);
	kind[0] -> CheckIPHeader(14) -> part :: IPClassifier(ip frag, -);
	part[0] -> fragments :: IPFilter($fragments all) -> [1] output;
	part[1] -> [0] output;
	// Of IPv6: to groups; ICMPv6, of which neighbor discovery is part; fragments, but for those that are whole.
	kind[1] -> kind6 :: Classifier(38/ff, 20/3a, 20/2c 56/0000%fff9, 20/2c, -);
	kind6[0], kind6[1] -> [1] output;
	kind6[3] -> fragments;
	kind6[2], kind6[4] -> CheckIP6Header(OFFSET 14) -> [0] output;
	kind[2] -> [1] output;
}

to_a :: ToNetfront(a);
to_b :: ToNetfront(b);
FromNetfront(a) -> there :: Counter -> from_a :: Packets;
FromNetfront(b) -> back :: Counter -> from_b :: Packets;

connections :: ConnectionTracker(CAPACITY $connections, TCP_CLOSED $closed_timeout, LOOSE true);
dpi :: FlowDPI($policy, APPLICATIONS $applications, STREAMS $streams, WINDOW $window, TOP $top);
from_a[0] -> [0] connections [0] -> [0] dpi [0] -> to_b;
from_b[0] -> [1] connections [1] -> [1] dpi [1] -> to_a;
from_a[1] -> to_b;
from_b[1] -> to_a;
