"""Sockets as Python's library uses them, under GuestLib. Each function is a test of its own."""
import asyncio
import multiprocessing
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import threading

HOST = "127.0.0.1"


def pair(listener):
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    return client, server


def streams():
    data = os.urandom(500_000)

    async def main():
        async def echo(reader, writer):
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, HOST, 0)
        address = server.sockets[0].getsockname()

        async def client():
            reader, writer = await asyncio.open_connection(*address)

            async def send():
                writer.write(data)
                await writer.drain()
                writer.write_eof()

            sending = asyncio.create_task(send())
            assert await reader.read(-1) == data
            await sending
            writer.close()

        await asyncio.gather(*[client() for _ in range(50)])

    asyncio.run(main())


def datagrams():
    a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    a.bind((HOST, 0))
    b.connect(a.getsockname())
    b.send(b"hey")
    message, sender = a.recvfrom(2)
    assert (message, sender) == (b"he", b.getsockname())
    a.sendto(b"", sender)
    assert b.recv(10) == b""
    assert b.getpeername() == a.getsockname()


def duplicates():
    listener = socket.create_server((HOST, 0))
    client, server = pair(listener)
    with selectors.EpollSelector() as selector:
        selector.register(server, selectors.EVENT_READ)
        first = server.fileno()
        other = server.dup()
        server.close()
        client.send(b"x")
        [(key, _)] = selector.select(5)
        assert key.fd == first
        assert other.recv(1) == b"x"
        # The number is another socket's now, which the epoll does not know.
        again = socket.create_connection(listener.getsockname())
        assert again.fileno() == first
        accepted, _ = listener.accept()
        accepted.send(b"y")
        assert selector.select(0.1) == []
        client.close()
        assert selector.select(5)
        other.close()
        assert selector.select(0.1) == []


def errors():
    nobody = socket.socket()
    nobody.setblocking(False)
    assert nobody.connect_ex((HOST, 1)) == 115
    with selectors.DefaultSelector() as selector:
        selector.register(nobody, selectors.EVENT_WRITE)
        assert selector.select(5)
    assert nobody.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 111
    listener = socket.create_server((HOST, 0))
    client, server = pair(listener)
    client.sendall(b"unread")
    server.recv(1)
    server.close()
    try:
        client.recv(1)
        raise AssertionError("the connection was to be reset")
    except ConnectionResetError:
        pass


def forks():
    listener = socket.create_server((HOST, 0), backlog=64)

    def serve():
        while True:
            connection, _ = listener.accept()
            connection.sendall(b"%d" % os.getpid())
            connection.close()

    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=serve) for _ in range(3)]
    for worker in workers:
        worker.start()

    def ask():
        client = socket.create_connection(listener.getsockname())
        client.settimeout(5)
        answer = client.recv(10)
        assert answer and client.recv(1) == b""
        return answer

    asked = {ask() for _ in range(60)}
    assert len(asked) == 3, asked
    workers[0].kill()
    workers[0].join()
    for _ in range(30):
        ask()
    for worker in workers:
        worker.kill()


def messages():
    listener = socket.create_server((HOST, 0))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    program = (
        "import socket, sys\n"
        "unix = socket.socket(fileno=int(sys.argv[1]))\n"
        "_, fds, *_ = socket.recv_fds(unix, 10, 1)\n"
        "passed = socket.socket(fileno=fds[0])\n"
        "passed.sendall(b'from ' + passed.recv(10))\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(theirs.fileno())], pass_fds=[theirs.fileno()]
    )
    client, server = pair(listener)
    socket.send_fds(ours, [b"x"], [server.fileno()])
    server.close()
    client.sendall(b"child")
    assert client.recv(20) == b"from child"
    assert client.recv(1) == b""
    assert child.wait() == 0


def programs():
    """Programs started with a socket for their standard input and output."""
    listener = socket.create_server((HOST, 0))
    for command, answer in [(["cat"], b"banana\n"), (["sed", "-u", "s/a/o/g"], b"bonono\n")]:
        client, server = pair(listener)
        child = subprocess.Popen(command, stdin=server, stdout=server)
        server.close()
        client.sendall(b"banana\n")
        assert client.recv(20) == answer, command
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
        assert child.wait() == 0


def files():
    listener = socket.create_server((HOST, 0))
    client, server = pair(listener)
    data = os.urandom(300_000)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        file.seek(0)
        sending = threading.Thread(target=lambda: (client.sendfile(file), client.close()))
        sending.start()
        with server.makefile("rb") as stream:
            assert stream.read() == data
        sending.join()


def threads():
    """Threads that block on sockets of their own, each woken for its own."""
    listener = socket.create_server((HOST, 0), backlog=64)

    def echo(connection):
        while piece := connection.recv(4096):
            connection.sendall(piece)
        connection.close()

    def ask(client, n):
        client.settimeout(10)
        for i in range(200):
            message = b"%d/%d" % (n, i)
            client.sendall(message)
            assert client.recv(100) == message
        client.close()
        done.append(n)

    done = []
    workers = []
    for n in range(16):
        client, server = pair(listener)
        workers.append(threading.Thread(target=echo, args=(server,)))
        workers.append(threading.Thread(target=ask, args=(client, n)))
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(done) == 16


globals()[sys.argv[1]]()
