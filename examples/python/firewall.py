"""Creates a firewall between two hosts that ping each other through it, and follows its rates.

    weir node &
    python examples/python/firewall.py [SECONDS]

All three are guests. They stay: `weir destroy fw pinger answerer` removes them.
"""

import itertools
import sys
from pathlib import Path

import weir

FIREWALL = Path(__file__).parent.parent / "functions" / "firewall.click"

# A host on a network: its address, its gateway, and what it sends and answers.
HOST = """
define($ADDRESS {address}, $GATEWAY {gateway});
FromNetfront(lan) -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800);
send :: ToNetfront(lan);
kind[0] -> ARPResponder($ADDRESS lan) -> send;
out :: SetIPAddress($GATEWAY) -> arp :: ARPQuerier($ADDRESS, lan) -> send;
kind[1] -> [1] arp;
kind[2] -> Strip(14) -> CheckIPHeader -> {function};
"""
PINGER = "answers :: Counter -> Discard; ICMPPingSource($ADDRESS, 10.2.0.2, INTERVAL 0.01) -> out"
ANSWERER = "ICMPPingResponder -> out"


def create(node: weir.Client) -> None:
    """Creates the two networks and the three guests, if they are not there."""
    for stub in ["inside", "outside"]:
        node.put_stub(stub, weir.StubObject(name=stub))
    firewall = {"inside": "inside", "outside": "outside"}
    pinger = HOST.format(address="10.1.0.2", gateway="10.1.0.1", function=PINGER)
    answerer = HOST.format(address="10.2.0.2", gateway="10.2.0.1", function=ANSWERER)
    for name, config, interfaces in [
        ("fw", FIREWALL.read_text(), firewall),
        ("answerer", answerer, {"lan": "outside"}),
        ("pinger", pinger, {"lan": "inside"}),
    ]:
        try:
            node.create_guest(weir.GuestObject(name=name, config=config, interfaces=interfaces))
        except weir.Exists as error:
            print(error)


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with weir.Client() as node:
        create(node)
        for rates in itertools.islice(node.guest_rates("fw"), seconds):
            shown = [
                f"{name}: {rate.rx_frames:.0f} frames/s in, {rate.tx_frames:.0f} out"
                for name, rate in rates.items()
            ]
            hits = node.read("fw", "rules.hits").strip()
            print("   ".join(shown), f"  connections, packets and rule: {hits}", flush=True)


if __name__ == "__main__":
    main()
