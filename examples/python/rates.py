"""Gets a guest's rates as a pandas frame, as in a notebook: a cell for each `# %%`.

python examples/python/rates.py [GUEST] [SECONDS]
"""

# %% Where the rates come from
import itertools
import sys
from dataclasses import asdict

import pandas as pd

import weir

GUEST = sys.argv[1] if len(sys.argv) > 1 else "fw"
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 10

# %% A row for each interface and second
with weir.Client() as node:
    looks = itertools.islice(node.guest_rates(GUEST), SECONDS)
    rows = [
        {"interface": interface, **asdict(rate)}
        for look in looks
        for interface, rate in look.items()
    ]
frame = pd.DataFrame(rows)
frame["time"] = pd.to_datetime(frame["time"], unit="s")
frame = frame.set_index(["time", "interface"])

# %% The last seconds, and each interface's mean
print(frame[["rx_frames", "tx_frames", "dropped"]].round(1).tail(6))
mbps = frame[["rx_bytes", "tx_bytes"]] * 8 / 1e6
print(mbps.groupby("interface").mean().round(3).rename(columns=lambda name: name[:2] + " Mb/s"))
