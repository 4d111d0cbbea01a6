// Two networks on one VLAN trunk.
//
// Untagged frames from `red` leave on the trunk with VLAN 10, those from `blue` with VLAN 20. Frames
// from the trunk leave untagged on the network of their VLAN.
// Other VLANs, and untagged frames on the trunk, are dropped.
//
//   weir run examples/vlan-trunk.click --link red=dev:eth1 --link blue=dev:eth2 --link trunk=dev:eth3
//   weir click examples/vlan-trunk.click RED=eth1 BLUE=eth2 TRUNK=eth3

define($RED red, $BLUE blue, $TRUNK trunk);

trunk :: Queue(512) -> ToDevice($TRUNK, BURST 32);
red :: Queue(512) -> ToDevice($RED, BURST 32);
blue :: Queue(512) -> ToDevice($BLUE, BURST 32);

FromDevice($RED, PROMISC true, BURST 32) -> untagged_red :: Classifier(12/8100, -);
FromDevice($BLUE, PROMISC true, BURST 32) -> untagged_blue :: Classifier(12/8100, -);
untagged_red[0], untagged_blue[0] -> Discard;
untagged_red[1] -> VLANEncap(VLAN_ID 10) -> from_red :: Counter -> trunk;
untagged_blue[1] -> VLANEncap(VLAN_ID 20) -> from_blue :: Counter -> trunk;

FromDevice($TRUNK, PROMISC true, BURST 32)
	-> vlan :: Classifier(12/8100 14/000a%0fff, 12/8100 14/0014%0fff, -);
vlan[0] -> VLANDecap -> to_red :: Counter -> red;
vlan[1] -> VLANDecap -> to_blue :: Counter -> blue;
vlan[2] -> other :: Counter -> Discard;
