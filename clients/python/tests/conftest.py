"""A node of the tests' own, with guests in it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import weir

WEIR = os.environ.get("WEIR", "weir")

# A guest that sends 1000 frames a second, and one that counts them.
SOURCE = 'RatedSource(DATA "\\<ffffffffffff 020000000001 0800>", RATE 1000) -> ToNetfront(lan);'
SINK = "FromNetfront(lan) -> seen :: Counter -> Discard;"


@pytest.fixture(scope="session")
def run() -> Iterator[Path]:
    """The folder of a running node's socket."""
    # A socket's path is at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="weir-python-"))
    run = folder / "run"
    environment = os.environ | {"WEIR_RUN": str(run), "WEIR_STATE": str(folder / "state")}
    with open(folder / "log", "w+") as log:
        node = subprocess.Popen([WEIR, "node"], env=environment, stderr=subprocess.PIPE, text=True)
        assert node.stderr
        for line in node.stderr:
            log.write(line)
            if "the node is ready" in line:
                break
        else:
            pytest.exit(f"the node did not start: {(folder / 'log').read_text()}", 1)
        try:
            yield run
        finally:
            subprocess.run([WEIR, "node", "--purge"], env=environment, timeout=30)
            node.stderr.close()
            node.wait(10)
    shutil.rmtree(folder)


@pytest.fixture
def node(run: Path) -> Iterator[weir.Client]:
    """A client of a node with the stub `lan`, and without guests."""
    with weir.Client(run / "node.sock") as client:
        client.create_stub(weir.StubObject(name="lan"))
        yield client
        client.destroy(*[guest.name for guest in client.list_guests()])
        client.delete_stub("lan")
