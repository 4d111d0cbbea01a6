// Controlled delay (RFC 8289): a link of 1000 packets a second with a load of 1010.
//
// Two queues get the same packets. Without CoDel the delay would grow to that of a full queue, 1 s.
// With CoDel it falls back to about 5 ms whenever it was above that for 100 ms. Ends by itself
// and prints the queues' lengths, which are the delays in milliseconds.
//
//   weir click --simtime examples/codel-queue.click

RatedSource(RATE 1010, LIMIT 60600) -> SetTimestamp(FIRST true) -> copy :: Tee;

copy[0] -> plain :: Queue(1000) -> RatedUnqueue(1000) -> Discard;
copy[1] -> managed :: Queue(1000) -> codel :: CoDel(5ms, 100ms) -> RatedUnqueue(1000) -> Discard;

Script(wait 59s,
	print "without CoDel $(plain.length) ms, with CoDel $(managed.length) ms",
	print "CoDel dropped $(codel.drops)",
	stop);
