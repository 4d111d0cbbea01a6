// A port mirror: forwards frames between two interfaces, and copies each to a third.
//
// The third interface is for an analyser or an intrusion detection system; frames from there are not
// forwarded. The copies' source is the mirror itself, so that a switch on their path does not learn
// wrong ports for the hosts.
//
//   weir run examples/port-mirror.click --link a=dev:eth1 --link b=dev:eth2 --link monitor=tap:mon0
//   weir click examples/port-mirror.click A=eth1 B=eth2 MONITOR=eth3

define($A a, $B b, $MONITOR monitor);

FromDevice($A, PROMISC true, BURST 32) -> there :: Tee -> Queue(512) -> ToDevice($B, BURST 32);
FromDevice($B, PROMISC true, BURST 32) -> back :: Tee -> Queue(512) -> ToDevice($A, BURST 32);

// The analyser may be slower than the wire, and then sees less.
copies :: Queue(2048) -> ToDevice($MONITOR, BURST 32);
there[1], back[1] -> mirrored :: Counter -> StoreEtherAddress($MONITOR, src) -> copies;
FromDevice($MONITOR) -> Discard;
