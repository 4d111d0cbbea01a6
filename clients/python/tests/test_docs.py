"""The README and the examples, as they are written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import weir

CLIENT = Path(__file__).parent.parent
ROOT = CLIENT.parent.parent
# What made the environment that this runs in, and the fixture's node.
DONE = ("python3 -m venv venv", "venv/bin/pip install", "weir node &")


def blocks(language: str) -> list[str]:
    text = (CLIENT / "README.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_readme_run(run: Path, tmp_path: Path) -> None:
    (tmp_path / "venv").symlink_to(sys.prefix)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = os.environ | {"WEIR_RUN": str(run)}
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    ran = [line for line in commands if not line.startswith(DONE)]
    assert [line.split("/")[-1] for line in ran] == ["firewall.py", "rates.py"]
    said = [
        subprocess.run(
            # For seconds instead of until it is seen.
            [*line.split(), *(["fw", "2"] if "rates" in line else ["3"])],
            cwd=tmp_path,
            env=environment,
            timeout=60,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for line in ran
    ]
    rates = re.findall(r"inside: (\d+) frames/s in, (\d+) out", said[0])
    assert len(rates) == 3 and all(int(number) > 20 for number in rates[-1]), said[0]
    assert "rx Mb/s" in said[1] and "inside" in said[1], said[1]
    with weir.Client(run / "node.sock") as node:
        node.destroy("fw", "pinger", "answerer")
        node.delete_stub("inside")
        node.delete_stub("outside")


def test_the_code_of_the_readme_runs(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_RUN", str(run))
    monkeypatch.chdir(ROOT)
    [code] = blocks("python")
    exec(code, {})
    with weir.Client() as node:
        node.delete_stub("lan")
