// Weighted sharing: three flows on one link, scheduled by stride in the ratio 3 : 2 : 1.
//
// Each flow offers more than its share; the link of 600 packets a second gives 300, 200 and 100 to
// them. When the first flow ends, the others share the link in the ratio 2 : 1. Ends by itself.
//
//   weir click --simtime examples/weighted-queues.click

first :: RatedSource(RATE 1000) -> Paint(1) -> a :: Queue(50);
second :: RatedSource(RATE 1000) -> Paint(2) -> b :: Queue(50);
third :: RatedSource(RATE 1000) -> Paint(3) -> c :: Queue(50);

link :: StrideSched(3, 2, 1);
a -> [0] link;
b -> [1] link;
c -> [2] link;
link -> RatedUnqueue(600) -> flow :: PaintSwitch;
flow[0] -> Discard;
flow[1] -> one :: Counter -> Discard;
flow[2] -> two :: Counter -> Discard;
flow[3] -> three :: Counter -> Discard;

Script(wait 10s,
	print "all three: $(one.count) $(two.count) $(three.count)",
	write first.active false,
	wait 1s, write one.reset, write two.reset, write three.reset,
	wait 10s,
	print "two of them: $(one.count) $(two.count) $(three.count)",
	stop);
