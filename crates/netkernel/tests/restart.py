"""Programs that go on when CoreEngine is killed. Each function is a test of its own."""
import asyncio
import errno
import faulthandler
import os
import select
import signal
import socket
import sys
import threading
import time

HOST = "127.0.0.1"


def kill(what="kill"):
    """Has CoreEngine be killed, or the NSM be removed; returns when another is there."""
    print(what, flush=True)
    assert sys.stdin.readline() == "back\n"


def pair(listener):
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    return client, server


def is_reset(call):
    try:
        call()
    except ConnectionResetError:
        return True
    return False


def works(address):
    """A client is served by a thread, a child, or whoever accepts: what it says comes back."""
    with socket.create_connection(address, 5) as client:
        client.sendall(b"hello")
        return client.recv(100)


def waits():
    listener, polled, ended = (socket.create_server((HOST, 0)) for _ in range(3))
    client, server = pair(listener)
    idle = socket.socket()
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((HOST, 0))
    epoll = select.epoll()
    epoll.register(polled, select.EPOLLIN)
    epoll.register(server, select.EPOLLIN)
    results = {}

    def in_thread(name, call):
        def run():
            results[name] = call()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def accept():
        connection, _ = listener.accept()
        connection.sendall(connection.recv(100))
        connection.close()
        return True

    poll = select.poll()
    poll.register(client, select.POLLIN)
    reset = [
        in_thread("recv", lambda: is_reset(lambda: client.recv(1))),
        in_thread("poll", lambda: poll.poll(20000)),
        in_thread("epoll", lambda: epoll.poll(20)),
    ]
    waiting = [in_thread("accept", accept), in_thread("udp", lambda: udp.recvfrom(100))]
    time.sleep(0.2)
    kill()
    for thread in reset:
        thread.join(5)
    assert results["recv"], results
    assert results["poll"][0][1] & select.POLLHUP, results
    assert results["epoll"] == [(server.fileno(), results["epoll"][0][1])], results
    assert results["epoll"][0][1] & select.EPOLLHUP, results
    assert "accept" not in results and "udp" not in results, results
    assert is_reset(lambda: server.send(b"x")) or is_reset(lambda: server.recv(1))
    # The error was told once; a connection that is broken stays so.
    assert server.recv(1) == b""
    epoll.unregister(server)
    server.close()
    client.close()
    # New sockets, and those that were there.
    assert works(listener.getsockname()) == b"hello"
    idle.connect(polled.getsockname())
    assert epoll.poll(5) == [(polled.fileno(), select.EPOLLIN)]
    other, _ = polled.accept()
    idle.send(b"x")
    assert other.recv(1) == b"x"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"datagram", udp.getsockname())
        for thread in waiting:
            thread.join(5)
        assert results["udp"] == (b"datagram", (HOST, sender.getsockname()[1])), results
    # Again.
    kill()
    assert is_reset(lambda: other.recv(1))
    client, server = pair(ended)
    client.sendall(b"y")
    assert server.recv(1) == b"y"


def loops():
    async def echo(reader, writer):
        try:
            while data := await reader.read(100):
                writer.write(data)
                await writer.drain()
        except ConnectionResetError:
            resets.append(True)
        writer.close()

    resets = []

    async def main():
        server = await asyncio.start_server(echo, HOST, 0)
        address = server.sockets[0].getsockname()

        async def ask():
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            return reader, writer

        for n in range(3):
            clients = await asyncio.gather(*[ask() for _ in range(20)])
            await asyncio.to_thread(kill)
            for reader, writer in clients:
                try:
                    await asyncio.wait_for(reader.read(1), 5)
                    raise AssertionError("the connection was to be reset")
                except ConnectionResetError:
                    writer.close()
            _, writer = await ask()
            writer.close()
            await asyncio.sleep(0.1)
        assert len(resets) == 60, len(resets)

    asyncio.run(main())


def addresses():
    def v6(port, only):
        listener = socket.socket(socket.AF_INET6)
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("::", port))
        listener.listen()
        return listener

    first = v6(0, 1)
    second = socket.create_server(("0.0.0.0", first.getsockname()[1]))
    both = []
    for _ in range(2):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        one.bind((HOST, both[0].getsockname()[1] if both else 0))
        one.listen()
        both.append(one)
    bound = socket.socket()
    bound.bind((HOST, 0))
    a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    a.bind((HOST, 0))
    b.bind((HOST, 0))
    b.connect(a.getsockname())
    a.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 7)
    sockets = [first, second, *both, bound, a, b]
    before = [it.getsockname() for it in sockets]
    kill()
    assert [it.getsockname() for it in sockets] == before
    for listener, host in [(first, "::1"), (second, HOST)]:
        client = socket.create_connection((host, listener.getsockname()[1]))
        server, _ = listener.accept()
        server.send(host.encode())
        assert client.recv(100) == host.encode()
    port = both[0].getsockname()[1]
    clients = [socket.create_connection((HOST, port)) for _ in range(20)]
    for listener in both:
        listener.settimeout(5)
        listener.accept()
    bound.listen()
    client, server = pair(bound)
    b.send(b"x")
    assert a.recvfrom(1) == (b"x", b.getsockname())
    assert a.getsockopt(socket.IPPROTO_IP, socket.IP_TTL) == 7
    a.sendto(b"y", b.getsockname())
    assert b.recv(1) == b"y"
    del clients, client, server


def serve_again(listener, workers, worker, served):
    while served() != workers:
        pass
    kill()
    # The parent notices only now; the workers serve. One more is forked.
    end = time.monotonic() + 5
    while served() != workers:
        assert time.monotonic() < end
    workers.add(worker())
    while served() != workers:
        assert time.monotonic() < end
    # The listening socket is there as long as a process has it.
    address = listener.getsockname()
    listener.close()
    assert works(address)
    for child in list(workers):
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        workers.remove(child)
    end = time.monotonic() + 5
    while True:
        try:
            works(address)
        except ConnectionRefusedError:
            break
        except ConnectionResetError:
            pass
        assert time.monotonic() < end


def forks():
    listener = socket.create_server((HOST, 0))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((HOST, 0))

    def serve():
        while True:
            with listener.accept()[0] as connection:
                try:
                    if connection.recv(100) == b"hello":
                        connection.sendall(str(os.getpid()).encode())
                except ConnectionResetError:
                    pass

    def worker():
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            serve()
        return child

    def served():
        return {int(works(listener.getsockname())) for _ in range(20)}

    workers = {worker(), worker()}
    try:
        serve_again(listener, workers, worker, served)
    finally:
        for child in workers:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    # A child that has not used its sockets before CoreEngine was killed.
    address = udp.getsockname()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(read, 1)
        udp.settimeout(5)
        os._exit(0 if udp.recv(10) == b"x" else 1)
    kill()
    os.write(write, b"x")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        status = None
        while status is None:
            sender.sendto(b"x", address)
            time.sleep(0.01)
            ended, code = os.waitpid(child, os.WNOHANG)
            status = code if ended else None
        assert status == 0


def polls():
    listener = socket.create_server((HOST, 0))
    client, server = pair(listener)
    client.setblocking(False)
    listener.setblocking(False)
    done = threading.Event()
    seen = []

    def spin():
        while not seen:
            try:
                client.recv(1)
            except BlockingIOError:
                pass
            except ConnectionResetError:
                seen.append(True)

    thread = threading.Thread(target=spin)
    thread.start()
    kill()
    thread.join(5)
    assert seen
    done.set()
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    with socket.create_connection(listener.getsockname(), 5):
        while not poll.poll(0):
            pass
        listener.accept()
    # One that only sends datagrams.
    a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    a.bind((HOST, 0))
    a.settimeout(0.01)
    kill()
    end = time.monotonic() + 5
    while time.monotonic() < end:
        b.sendto(b"x", a.getsockname())
        try:
            assert a.recv(1) == b"x"
            break
        except TimeoutError:
            pass
    else:
        raise AssertionError("nothing arrives")


def calls():
    """Calls that are made without a pause, while CoreEngine is killed."""
    stop, stop_accepting = threading.Event(), threading.Event()
    failed = []
    done = [0] * 4

    def run(number, call):
        while not (stop_accepting if call is accepts else stop).is_set():
            try:
                call()
                done[number] += 1
            except OSError as error:
                failed.append(error)

    def binds():
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((HOST, 0))
            one.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
            one.listen()
            assert one.getsockname()[1] != 0

    listener = socket.create_server((HOST, 0))

    def accepts():
        with listener.accept()[0] as connection:
            connection.sendall(connection.recv(10))

    def connects():
        with socket.create_connection(listener.getsockname(), 10) as client:
            client.sendall(b"x")
            if client.recv(1) != b"x":
                raise ConnectionResetError(errno.ECONNRESET, "no answer")

    def datagrams():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.bind((HOST, 0))
            one.connect((HOST, 9))
            assert one.getpeername() == (HOST, 9)

    threads = [
        threading.Thread(target=run, args=it)
        for it in enumerate([binds, accepts, connects, datagrams])
    ]
    for thread in threads:
        thread.start()
    for _ in range(5):
        time.sleep(0.2)
        kill()
        before = list(done)
        end = time.monotonic() + 5
        while any(now == then for now, then in zip(done, before)):
            assert time.monotonic() < end, (done, before, failed)
            time.sleep(0.01)
    stop.set()
    for thread in [threads[0], *threads[2:]]:
        thread.join(15)
    stop_accepting.set()
    while threads[1].is_alive():
        try:
            works(listener.getsockname())
        except OSError:
            pass
    # Connections were reset; nothing else has failed.
    resets = (errno.ECONNRESET, errno.ECONNREFUSED, errno.EPIPE, errno.ENOTCONN)
    assert all(error.errno in resets for error in failed), failed


def signals():
    """A handler with SA_RESTART, as most have, does not end a call that waits."""
    listener = socket.create_server((HOST, 0))
    calls = []
    signal.signal(signal.SIGALRM, lambda *_: calls.append(1))
    signal.siginterrupt(signal.SIGALRM, False)
    kill()
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    threading.Timer(0.5, lambda: works(listener.getsockname())).start()
    connection, _ = listener.accept()
    connection.sendall(connection.recv(10))
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert calls


def taken():
    """A port is another's when the socket is to be restored: all who wait for it are told."""
    listener, other = (socket.create_server((HOST, 0)) for _ in range(2))
    address = listener.getsockname()
    children = []
    for way in ("accept", "poll", "epoll"):
        child = os.fork()
        if child == 0:
            poll, epoll = select.poll(), select.epoll()
            poll.register(listener, select.POLLIN)
            epoll.register(listener, select.EPOLLIN)
            hangs = select.POLLERR | select.POLLHUP
            if way == "poll":
                assert poll.poll(20000)[0][1] & hangs == hangs
            elif way == "epoll":
                assert epoll.poll(20)[0][1] & hangs == hangs
            for _ in range(2):
                try:
                    listener.accept()
                    os._exit(1)
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        print(error, file=sys.stderr)
                        os._exit(2)
            os._exit(0)
        children.append(child)
    time.sleep(0.5)
    kill(f"move late {address[1]}")
    for child in children:
        end = time.monotonic() + 5
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
            assert time.monotonic() < end, "it waits on"
            time.sleep(0.01)
        assert ended[1] == 0, ended
    client, server = pair(other)
    client.sendall(b"x")
    assert server.recv(1) == b"x"


def lose(how):
    """No CoreEngine has the sockets any more: all that wait for one are told."""
    listener, polled, watched = (socket.create_server((HOST, 0)) for _ in range(3))
    client, server = pair(polled)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((HOST, 0))
    poll, epoll = select.poll(), select.epoll()
    poll.register(polled, select.POLLIN)
    epoll.register(watched, select.EPOLLIN)
    results = {}

    def fails(call):
        try:
            return call()
        except OSError as error:
            return error.errno

    calls = {
        "accept": listener.accept,
        "poll": lambda: poll.poll(20000)[0][1],
        "epoll": lambda: epoll.poll(20)[0][1],
        "udp": lambda: udp.recv(1),
        "recv": lambda: client.recv(1),
    }

    def run(name, call):
        results[name] = fails(call)
        results[name + " at"] = time.monotonic()

    threads = [threading.Thread(target=run, args=it) for it in calls.items()]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    kill(how)
    back = time.monotonic()
    for thread in threads:
        thread.join(5)
    hangs = select.POLLERR | select.POLLHUP
    for name in ("poll", "epoll"):
        assert results[name] & hangs == hangs, results
    assert results["accept"] == results["udp"] == errno.ENETDOWN, results
    assert results["recv"] == errno.ECONNRESET, results
    # It stays so, and there are no new ones.
    assert fails(listener.accept) == fails(lambda: udp.recv(1)) == errno.ENETDOWN
    assert fails(lambda: udp.sendto(b"x", (HOST, 9))) == errno.ENETDOWN
    assert poll.poll(0)[0][1] & hangs == epoll.poll(0)[0][1] & hangs == hangs
    assert fails(socket.socket) == errno.ENETDOWN
    return all(results[name + " at"] < back for name in calls)


def loses():
    lose("lose")


def purged():
    assert lose("purge"), "they did not end before there was another CoreEngine"


def moves():
    """Threads that wait in accept, recvfrom, poll and epoll go on at another NSM."""
    listener, polled, watched = (socket.create_server((HOST, 0)) for _ in range(3))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((HOST, 0))
    client, server = pair(listener)
    poll, epoll = select.poll(), select.epoll()
    poll.register(polled, select.POLLIN)
    epoll.register(watched, select.EPOLLIN)
    served = []

    def accept():
        while len(served) < 2:
            with listener.accept()[0] as connection:
                connection.sendall(connection.recv(100))
            served.append(True)

    thread = threading.Thread(target=accept)
    thread.start()
    datagrams = []
    receiver = threading.Thread(target=lambda: datagrams.extend(udp.recv(9) for _ in range(2)))
    receiver.start()
    for n, how in enumerate(["move", "move late"]):
        events = []
        waiters = [
            threading.Thread(target=lambda: events.append(poll.poll(20000))),
            threading.Thread(target=lambda: events.append(epoll.poll(20))),
        ]
        for waiter in waiters:
            waiter.start()
        time.sleep(0.2)
        kill(how)
        if n == 0:
            assert is_reset(lambda: client.recv(1))
            assert is_reset(lambda: server.recv(1))
        assert works(listener.getsockname()) == b"hello"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"datagram", udp.getsockname())
        assert not events, events
        for one, waiter in zip((polled, watched), waiters):
            with socket.create_connection(one.getsockname(), 5):
                waiter.join(5)
                one.accept()[0].close()
        assert len(events) == 2 and all(event[0][1] == select.POLLIN for event in events), events
    for waiter in (thread, receiver):
        waiter.join(5)
    assert datagrams == [b"datagram"] * 2


faulthandler.dump_traceback_later(25, exit=True)
globals()[sys.argv[1]]()
