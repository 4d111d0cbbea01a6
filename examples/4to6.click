// A translator between an IPv4 network and an IPv6-only server, with a host and a server in memory.
//
// Headers are translated without state (SIIT): 10.0.0.1 is ::ffff:10.0.0.1 to the server. The
// server's own address has no IPv4 form, so it is mapped: the host reaches it as 192.0.2.6. ICMP
// errors are translated with the packets that they quote.
//
// The host sends the server five packets, which the server returns, and two packets with too few
// hops. Ends by itself and prints the packets that the host received.
//
//   weir click examples/4to6.click

// Outwards: the server's address becomes the mapped one. Inwards: the other way round.
addresses :: AddressTranslator(
	1,			// one fixed mapping,
	false,			// of addresses without ports:
	2001:db8::6 ::ffff:192.0.2.6,
	false);			// and none that are made as packets come

// From IPv4 to the server.
to_server :: CheckIPHeader -> DecIPTTL -> to_six :: ProtocolTranslator46
	-> IP6Print(to-server)
	-> [1] addresses;

// From the server to IPv4.
addresses[0] -> to_four :: ProtocolTranslator64
	-> CheckIPHeader -> DecIPTTL -> IPPrint(to-host)
	-> to_host :: IPClassifier(udp and src port 7 and dst port 1234, icmp type timeexceeded, -);

// The server's network: its router, and the server, which sends everything back.
addresses[1] -> CheckIP6Header -> hops :: DecIP6HLIM -> IP6Mirror -> [0] addresses;
hops[1] -> ICMP6Error(2001:db8::1, 3, 0) -> [0] addresses;

// The host.
InfiniteSource(DATA "How do you do?", LIMIT 5, STOP true)
	-> UDPIPEncap(10.0.0.1, 1234, 192.0.2.6, 7)
	-> to_server;
// Port 1234 to port 7, ten bytes, no checksum: IPv6 will have one.
InfiniteSource(DATA \<04d2 0007 000a 0000 6869>, LIMIT 2, STOP true)
	-> IPEncap(udp, 10.0.0.1, 192.0.2.6, TTL 2)
	-> to_server;
to_host[0] -> CheckUDPHeader -> answers :: Counter -> Discard;
to_host[1] -> CheckICMPHeader -> errors :: Counter -> Discard;
to_host[2] -> strange :: Counter -> Discard;

DriverManager(wait_stop 2,
	print "the host got $(answers.count) answers, $(errors.count) errors, $(strange.count) else",
	print "not translated: $(to_six.drops) to IPv6, $(to_four.drops) to IPv4, \
$(addresses.drops) addresses");
