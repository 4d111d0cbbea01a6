// A learning Ethernet switch of three ports. It runs the spanning tree protocol, so it may be wired
// in loops with other switches: redundant links are blocked until they are needed. No frame passes
// for the first thirty seconds, while it listens and learns.
//
//   weir run examples/switch.click --link p0=tap:weir0 --link p1=tap:weir1 --link p2=dev:eth1

switch :: EtherSwitch;
// What closes and opens the switch's ports, before and behind it.
in, out :: Suppressor;
// The switch's address is that of its first port.
tree :: EtherSpanTree(p0, in, out, switch);

// A port: messages of the protocol leave by output 0, frames by output 1.
elementclass Port { $interface |
	FromNetfront($interface) -> kind :: Classifier(14/4242, -);
	kind[0] -> [0] output;
	kind[1] -> [1] output;
	input -> ToNetfront($interface);
}
p0 :: Port(p0);
p1 :: Port(p1);
p2 :: Port(p2);

p0[0] -> [0] tree [0] -> p0;
p1[0] -> [1] tree [1] -> p1;
p2[0] -> [2] tree [2] -> p2;

p0[1] -> [0] in [0] -> [0] switch [0] -> [0] out [0] -> p0;
p1[1] -> [1] in [1] -> [1] switch [1] -> [1] out [1] -> p1;
p2[1] -> [2] in [2] -> [2] switch [2] -> [2] out [2] -> p2;
