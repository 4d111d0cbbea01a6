"""A node of the tests' own, with guests in it."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import weir

CLIENTS = Path(__file__).parent.parent.parent
WEIR = os.environ.get("WEIR", "weir")

# A guest that sends 1000 frames a second, and one that counts them.
SOURCE = 'RatedSource(DATA "\\<ffffffffffff 020000000001 0800>", RATE 1000) -> ToNetfront(lan);'
SINK = "FromNetfront(lan) -> seen :: Counter -> Discard;"


@dataclass
class Host:
    """Where a running node is."""

    #: The folder of its socket.
    run: Path
    #: Its place on the network.
    url: str
    #: The folder of the certificates for that.
    certificates: Path


@pytest.fixture(scope="session")
def host() -> Iterator[Host]:
    # A socket's path is at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="weir-python-"))
    certificates = folder / "certificates"
    subprocess.run([CLIENTS / "certificates", certificates], check=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    host = Host(folder / "run", f"https://localhost:{port}", certificates)
    environment = os.environ | {"WEIR_RUN": str(host.run), "WEIR_STATE": str(folder / "state")}
    file = {name: str(certificates / name) for name in ["node.pem", "node.key", "ca.pem"]}
    command = [WEIR, "node", "--listen", f"127.0.0.1:{port}"]
    command += ["--tls-cert", file["node.pem"], "--tls-key", file["node.key"]]
    command += ["--tls-client-ca", file["ca.pem"], "--config", str(certificates / "node.toml")]
    said = ""
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as node:
        assert node.stderr
        while "the node is ready" not in said:
            line = node.stderr.readline()
            if not line:
                pytest.exit(f"the node did not start: {said}", 1)
            said += line
        try:
            yield host
        finally:
            subprocess.run([WEIR, "node", "--purge"], env=environment, timeout=30)
    shutil.rmtree(folder)


@pytest.fixture
def run(host: Host) -> Path:
    """The folder of a running node's socket."""
    return host.run


@pytest.fixture
def node(run: Path) -> Iterator[weir.Client]:
    """A client of a node with the stub `lan`, and without guests."""
    with weir.Client(run / "node.sock") as client:
        client.create_stub(weir.StubObject(name="lan"))
        yield client
        client.destroy(*[guest.name for guest in client.list_guests()])
        client.delete_stub("lan")
