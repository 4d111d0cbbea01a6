// An intrusion detection system: a wire that searches what passes for signatures.
//
// Frames pass between `a` and `b` unchanged, also if they belong to no flow. The IDS searches a copy of the
// IPv4 and IPv6 packets: the streams of TCP, put together from their segments, and the payloads of datagrams and of
// ICMP. Each alert is a line of JSON, as Suricata's EVE output: on the console, and by a handler.
// Fragments are reassembled first.
//
//   weir run ids -p rules=local.rules -p home_net=10.0.0.0/24 --link a=dev:eth1 --link b=dev:eth2
//   weir run ids -p rules=local.rules -p 'home_net="[10.0.0.0/24,2001:db8:1::/64]"' --link a=dev:eth1 --link b=dev:eth2
//   weir read ids ids.alerts
//   weir write ids ids.rules - <new.rules
//
// # Rules
//
// Rules are in a subset of Suricata's syntax:
//
//   alert tcp $EXTERNAL_NET any -> $HOME_NET [80,8080] (msg:"passwd"; flow:established,to_server; content:"/etc/passwd"; sid:1; rev:1;)
//   alert udp any any -> any 53 (msg:"tunnel"; content:"|00 10|"; offset:2; depth:8; threshold:type limit, track by_src, count 1, seconds 60; sid:2;)
//
// Protocols are `tcp`, `udp`, `icmp`, which is that of both versions of IP, `icmpv6` and `ip`. Options are `msg`, `sid`, `rev`, `gid`, `classtype`, `priority`;
// `content` with `nocase`, `offset`, `depth`, `distance`, `within`, `startswith` and `fast_pattern`; `flow`;
// `threshold`; `reference` and `metadata` are passed over. Rules with other options, also `pcre`, are refused, with
// their line. There may be 32768 rules. The page of the element FlowIDS has the details.
//
// Of TCP segments that overlap, the bytes that came first make the stream; the others are searched by
// themselves (`ids.conflicts`). Segments beyond the receiver's window, and those that acknowledge what was not sent, are
// searched by themselves too, and move no stream. Segments and datagrams with wrong checksums are not searched
// (`ids.damaged`).
//
// # Limits
//
// A direction of a TCP flow alerts once for each rule, as long as at most eight rules match in it.
// Contents are found across segments if they are among the last `window` bytes; a wider gap is left out
// (`ids.gaps`) when the receiver has acknowledged bytes behind it. Contents that only two different copies make
// together, and segments whose hops end before the receiver, can deceive the search. When all streams are in use, segments of further connections are searched one by one
// (`ids.unassembled`). When all connections are in use, a new one takes the place of the oldest that is
// closed, or else of the oldest that has no reply, or no complete TCP handshake, yet; if there is none, its
// packets pass unsearched (`connections.drops`). TCP connections that began before the IDS are not searched (`connections.invalid`).
// A stream takes two windows: the defaults and 200 rules fit the default memory, 10 000 rules and 4096 streams need
// `--memory 128M`.
//
// # Handlers
//
// - `ids.alerts` (read): the last 1024 alerts. `ids.count` (read): all. `ids.hits` (read): for each rule that
//   matched how often, its sid and its message.
// - `ids.rules` (read, write): the rules. A mistake is told with its line, and changes nothing.
//   `ids.rule_count` (read): how many there are.
// - `ids.suppressed`, `ids.unprinted` (read): matches that thresholds kept from being alerts; alerts that
//   were not printed because there were more than 100 in a second.
// - `ids.gaps`, `ids.unassembled`, `ids.given_up` (read): gaps left out of streams; segments searched one by
//   one; comparisons given up because they took too long. `ids.conflicts`, `ids.damaged` (read): segments whose data
//   differ from those before; segments and datagrams with wrong checksums.
// - `ids.reset` (write): forgets the alerts, and sets all counts to 0.
// - `there.count`, `there.byte_count`, `there.rate` (read): frames, bytes, and frames a second from `a` to
//   `b`; `back` from `b` to `a`.

// file of signatures: what is searched for.
define($rules "");

// text: the addresses that `$HOME_NET` stands for, as rules name them; `$EXTERNAL_NET` is all else.
define($home_net any);

// number from 1 to 4194304: most connections.
define($connections 4096);

// number from 1 to 604800: seconds that a TCP connection lives without packets when both sides have
// closed it.
define($closed_timeout 240);

// number from 0 to 1048576: directions of TCP connections that are put together at a time.
define($streams 64);

// number from 64 to 65536: bytes of a stream in which contents are found across segments.
define($window 4096);

// one of true, false: whether alerts are printed on the console.
define($print true);

// IP packets, in a copy.
elementclass Packets {
	input -> kind :: Classifier(12/0800, 12/86dd, -);
	kind[0] -> Strip(14) -> CheckIPHeader -> whole :: IPReassembler -> output;
	kind[1] -> Strip(14) -> CheckIP6Header -> whole;
	kind[2] -> Discard;
}

FromNetfront(a) -> there :: Counter -> copy_there :: Tee -> ToNetfront(b);
FromNetfront(b) -> back :: Counter -> copy_back :: Tee -> ToNetfront(a);

connections :: ConnectionTracker(CAPACITY $connections, TCP_CLOSED $closed_timeout);
ids :: FlowIDS($rules, HOME_NET $home_net, STREAMS $streams, WINDOW $window, PRINT $print);
copy_there[1] -> Packets -> [0] connections [0] -> [0] ids [0] -> Discard;
copy_back[1] -> Packets -> [1] connections [1] -> [1] ids [1] -> Discard;
