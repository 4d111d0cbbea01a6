// Random early detection: a link of 1000 packets a second with a load of 1200 for ten seconds.
//
// Packets are dropped at random before the queue is full, with a probability that grows with its
// average length, so that drops do not hit all senders at once. Ends by itself and prints the
// counts.
//
//   weir click --simtime examples/red-queue.click

RatedSource(RATE 1200, LIMIT 12000)
	-> offered :: Counter
	-> red :: RED(20, 60, 0.1, STABILITY 6)
	-> queue :: Queue(200)
	-> RatedUnqueue(1000)
	-> sent :: Counter
	-> Discard;

Script(wait 11s,
	print "offered $(offered.count), sent $(sent.count)",
	print "dropped early $(red.drops), dropped for lack of room $(queue.drops)",
	print "longest queue $(queue.highwater_length)",
	stop);
