//! Limits, long datagrams and signal handlers, beside what the kernel's sockets do.

use crate::Bench;

/// Runs a program of Python's with the kernel's sockets, then with an NSM's: both say the same, which is returned.
fn alike(bench: &Bench, before: &str, program: &str) -> String {
    bench.file("program.py", program);
    let run = format!("sh -c '{before} exec timeout 30 python3 program.py'");
    let plain = bench.ok(&run);
    let served = bench.ok(&format!("$SOCK -- {run}"));
    assert_eq!(served, plain);
    plain
}

#[test]
fn a_datagram_is_as_long_as_udp_lets_it_be() {
    let bench = Bench::new();
    let program = "import socket, os
a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in 'ab')
for s in (a, b): s.bind(('127.0.0.1', 0)); s.settimeout(5)
for n in (0, 1, 8127, 8128, 8129, 16320, 16321, 40000, 65507):
    sent = os.urandom(n)
    a.sendto(sent, b.getsockname())
    got, at = b.recvfrom(70000)
    assert got == sent and at == a.getsockname(), (n, len(got))
try: a.sendto(bytes(65508), b.getsockname())
except OSError as e: print(e.strerror)
# Of one that is longer than the buffer, the rest is lost; the next one is whole.
a.sendto(b'x' * 60000, b.getsockname())
a.sendto(b'y' * 9000, b.getsockname())
print(len(b.recv(100)), b.recv(9001) == b'y' * 9000)
a.sendto(b'z' * 20000, b.getsockname())
got, _, flags, _ = b.recvmsg(50)
print(len(got), flags & socket.MSG_TRUNC != 0)
# Many, in their order.
a.connect(b.getsockname())
for n in range(300):
    a.send(bytes([n % 256]) * 20000)
    assert b.recv(65536) == bytes([n % 256]) * 20000, n
print('done')";
    let said = alike(&bench, "", program);
    assert_eq!(said, "Message too long\n100 True\n50 True\ndone\n");
}

#[test]
fn more_connections_wait_to_be_accepted_than_a_tenant_has_room_for() {
    let bench = Bench::new();
    let program = "import resource, socket
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
listener = socket.create_server(('127.0.0.1', 7102), backlog=4096)
made = [socket.create_connection(('127.0.0.1', 7102), 10) for _ in range(1500)]
taken = [listener.accept()[0] for _ in made]
for it in taken: it.sendall(b'!')
print(sum(it.recv(1) == b'!' for it in made))";
    assert_eq!(alike(&bench, "", program), "1500\n");
}

#[test]
fn a_process_without_descriptors_is_told_so_by_the_call_that_makes_one() {
    let bench = Bench::new();
    // Standard ones, the program's file while it is read: a socket, a connection, no more.
    let program = "import socket, errno, resource
s = socket.create_server(('127.0.0.1', 7100))
c = socket.create_connection(('127.0.0.1', 7100))
used = max(s.fileno(), c.fileno()) + 1
resource.setrlimit(resource.RLIMIT_NOFILE, (used, used))
def tell(call):
    try: call(); print('none')
    except OSError as e: print(errno.errorcode[e.errno])
tell(s.accept)
tell(socket.socket)
tell(lambda: c.dup())
c.sendall(b'still here')
c.close()
a, _ = s.accept()
print(a.recv(100).decode())
tell(socket.socket)";
    let said = alike(&bench, "", program);
    assert_eq!(said, "EMFILE\nEMFILE\nEMFILE\nstill here\nEMFILE\n");
    // With next to none, there is none for the library either.
    let program = "import socket, errno
made = []
try:
    while True: made.append(socket.socket())
except OSError as e: print(errno.errorcode[e.errno])";
    assert_eq!(alike(&bench, "ulimit -n 6;", program), "EMFILE\n");
}

#[test]
fn a_listening_socket_has_no_longer_a_queue_than_linux_gives_it() {
    let bench = Bench::new();
    for backlog in [1, 4] {
        let program = format!(
            "import socket, time
s = socket.socket()
s.bind(('127.0.0.1', 7200 + {backlog}))
s.listen({backlog})
made = 0
clients = []
while True:
    c = socket.socket()
    c.settimeout(0.5)
    clients.append(c)
    try: c.connect(s.getsockname())
    except TimeoutError: break
    made += 1
    time.sleep(0.05)
print(made)"
        );
        let said = alike(&bench, "", &program);
        assert_eq!(said, format!("{}\n", backlog + 1));
    }
}

#[test]
fn a_signal_handler_uses_sockets_while_its_thread_waits() {
    let bench = Bench::new();
    let program = "import ctypes, signal, socket, threading, time, os
a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in 'ab')
c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for s in (a, b, c): s.bind(('127.0.0.1', 0))
libc = ctypes.CDLL(None, use_errno=True)
# A handler of C's in the middle of a call, not Python's between two: it waits for a datagram of its own.
buffer = ctypes.create_string_buffer(100)
handled = []
@ctypes.CFUNCTYPE(None, ctypes.c_int)
def handler(_):
    n = libc.recv(c.fileno(), buffer, 100, 0)
    handled.append(buffer.raw[:n])
class Action(ctypes.Structure):
    _fields_ = [('handler', type(handler)), ('mask', ctypes.c_ulong * 16), ('flags', ctypes.c_int), ('restorer', ctypes.c_void_p)]
SA_RESTART = 0x10000000
assert libc.sigaction(signal.SIGUSR1, ctypes.byref(Action(handler, (ctypes.c_ulong * 16)(), SA_RESTART, None)), None) == 0
def others():
    time.sleep(0.3)
    signal.pthread_kill(main, signal.SIGUSR1)
    time.sleep(0.3)
    a.sendto(b'for the handler', c.getsockname())
    time.sleep(0.3)
    a.sendto(b'for the thread', b.getsockname())
main = threading.main_thread().ident
thread = threading.Thread(target=others)
thread.start()
got = ctypes.create_string_buffer(100)
n = libc.recv(b.fileno(), got, 100, 0)
print(got.raw[:n].decode(), '|', handled[0].decode())
thread.join()";
    let said = alike(&bench, "", program);
    assert_eq!(said, "for the thread | for the handler\n");
}
