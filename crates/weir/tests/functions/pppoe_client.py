"""A PPPoE client in user space, for kernels without PPP: discovery, LCP, PAP or CHAP, IPCP, and a TUN
device for packets. It prints a line for each thing that happens, and takes commands from standard input:
`terminate` ends the session, `spoof ADDRESS` sends a packet from another address to the gateway.
"""

import argparse
import fcntl
import hashlib
import ipaddress
import os
import select
import socket
import struct
import subprocess
import sys
import time

DISCOVERY, SESSION = 0x8863, 0x8864
PADI, PADO, PADR, PADS, PADT = 0x09, 0x07, 0x19, 0x65, 0xA7
LCP, PAP, CHAP, IPCP, IPV6CP = 0xC021, 0xC023, 0xC223, 0x8021, 0x8057
IPV4, IPV6 = 0x0021, 0x0057
REQUEST, ACK, NAK, REJECT, TERMINATE, TERMINATED = 1, 2, 3, 4, 5, 6
MTU = 1492

parser = argparse.ArgumentParser()
parser.add_argument("--interface", default="eth0")
parser.add_argument("--device", default="ppp0")
parser.add_argument("--user", default="ann")
parser.add_argument("--password", default="secret")
parser.add_argument("--method", choices=["pap", "chap"], default="chap")
parser.add_argument("--service", default="")
parser.add_argument("--ipv6", action="store_true")
arguments = parser.parse_args()


def say(*words):
    print(*words, flush=True)


def tag(kind, value):
    return struct.pack("!HH", kind, len(value)) + value


def tags(data):
    while len(data) >= 4:
        kind, length = struct.unpack("!HH", data[:4])
        yield kind, data[4 : 4 + length]
        data = data[4 + length :]


def options(data):
    while len(data) >= 2:
        yield data[0], data[2 : data[1]]
        data = data[max(data[1], 2) :]


def option(kind, value):
    return bytes([kind, 2 + len(value)]) + value


class Layer:
    """What this side asks for, and what both agreed on."""

    def __init__(self, wishes):
        self.wishes = wishes
        self.number = 0
        self.acknowledged = self.acknowledges = False
        self.due = 0

    def request(self):
        return b"".join(option(kind, value) for kind, value in self.wishes.items())

    def is_open(self):
        return self.acknowledged and self.acknowledges


class Client:
    def __init__(self):
        protocols = socket.ntohs(3)
        self.link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, protocols)
        self.link.bind((arguments.interface, 0x0003))
        self.own = self.link.getsockname()[4]
        self.session = None
        self.tun = None
        self.magic = os.urandom(4)
        zero = bytes(4)
        self.lcp = Layer({1: struct.pack("!H", MTU), 5: self.magic})
        self.ipcp = Layer({3: zero, 129: zero, 131: zero})
        self.ipv6cp = Layer({1: os.urandom(7) + b"\x01"})
        self.is_authentic = False
        self.prefix = None
        self.due = 0

    def discovery(self, to, code, session, data):
        header = to + self.own + struct.pack("!HBBHH", DISCOVERY, 0x11, code, session, len(data))
        self.link.send(header + data)

    def send(self, protocol, data):
        header = struct.pack("!HBBHHH", SESSION, 0x11, 0, self.session, len(data) + 2, protocol)
        self.link.send(self.server + self.own + header + data)

    def control(self, protocol, code, number, data=b""):
        self.send(protocol, struct.pack("!BBH", code, number, 4 + len(data)) + data)

    def connect(self):
        """Discovery."""
        marks = tag(0x0101, arguments.service.encode()) + tag(0x0103, b"\x00client")
        offer = None
        for _ in range(10):
            if offer is None:
                self.discovery(b"\xff" * 6, PADI, 0, marks)
            else:
                self.discovery(self.server, PADR, 0, marks + offer)
            end = time.monotonic() + 1
            while time.monotonic() < end:
                if not select.select([self.link], [], [], 0.1)[0]:
                    continue
                frame = self.link.recv(2000)
                if frame[12:14] != struct.pack("!H", DISCOVERY) or frame[:6] != self.own:
                    continue
                _, code, session, length = struct.unpack("!BBHH", frame[14:20])
                found = list(tags(frame[20 : 20 + length]))
                if (0x0103, b"\x00client") not in found:
                    continue
                if code == PADO and offer is None:
                    self.server = frame[6:12]
                    names = [value.decode() for kind, value in found if kind == 0x0102]
                    say("offer", *names)
                    offer = b"".join(tag(kind, value) for kind, value in found if kind == 0x0104)
                    end = 0
                elif code == PADS:
                    for kind, value in found:
                        if kind >= 0x0201:
                            say("error", value.decode())
                            sys.exit(1)
                    self.session = session
                    return
        say("silence")
        sys.exit(1)

    def run(self):
        self.connect()
        while True:
            now = time.monotonic()
            layers = [(LCP, self.lcp, True), (IPCP, self.ipcp, self.is_authentic)]
            layers.append((IPV6CP, self.ipv6cp, self.is_authentic and arguments.ipv6))
            for protocol, layer, wanted in layers:
                if wanted and not layer.acknowledged and now >= layer.due:
                    layer.due = now + 1
                    layer.number += 1
                    self.control(protocol, REQUEST, layer.number, layer.request())
            if self.lcp.is_open() and not self.is_authentic and arguments.method == "pap":
                if now >= self.due:
                    self.due = now + 2
                    name, password = arguments.user.encode(), arguments.password.encode()
                    data = bytes([len(name)]) + name + bytes([len(password)]) + password
                    self.control(PAP, 1, 1, data)
            inputs = [self.link, sys.stdin] + ([self.tun] if self.tun else [])
            for ready in select.select(inputs, [], [], 0.2)[0]:
                if ready is self.link:
                    self.frame(self.link.recv(2000))
                elif ready is sys.stdin:
                    self.command(sys.stdin.readline().split())
                else:
                    packet = os.read(self.tun, 2000)
                    if packet[0] >> 4 == 4:
                        self.send(IPV4, packet)
                    elif self.prefix:
                        self.send(IPV6, packet)

    def command(self, words):
        if not words:
            sys.exit(0)
        if words[0] == "terminate":
            self.control(LCP, TERMINATE, 99)
        elif words[0] == "spoof":
            source, to = (ipaddress.ip_address(text).packed for text in (words[1], self.gateway))
            header = struct.pack("!BBHHHBBH", 0x45, 0, 28, 1, 0, 64, 17, 0) + source + to
            total = sum(struct.unpack("!10H", header))
            total = (total & 0xFFFF) + (total >> 16)
            checksum = struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF)
            datagram = struct.pack("!HHHH", 9, 9, 8, 0)
            self.send(IPV4, header[:10] + checksum + header[12:] + datagram)

    def frame(self, frame):
        kind, = struct.unpack("!H", frame[12:14])
        if frame[:6] != self.own or frame[6:12] != self.server:
            return
        if kind not in (DISCOVERY, SESSION):
            return
        _, code, session, length = struct.unpack("!BBHH", frame[14:20])
        if session != self.session:
            return
        if kind == DISCOVERY:
            if code == PADT:
                say("down")
                sys.exit(0)
            return
        protocol, = struct.unpack("!H", frame[20:22])
        packet = frame[22 : 20 + length]
        if protocol == IPV4:
            if self.tun:
                os.write(self.tun, packet)
            return
        if protocol == IPV6 and arguments.ipv6:
            self.ipv6(packet)
            return
        code, number, length = struct.unpack("!BBH", packet[:4])
        data = packet[4:length]
        if protocol == LCP:
            self.receive(LCP, self.lcp, code, number, data)
        elif protocol == CHAP:
            self.chap(code, number, data)
        elif protocol == PAP:
            self.decided(code == ACK, data[1:])
        elif protocol == IPCP:
            self.receive(IPCP, self.ipcp, code, number, data)
            if self.ipcp.is_open() and self.tun is None:
                self.up()
        elif protocol == IPV6CP and arguments.ipv6:
            self.receive(IPV6CP, self.ipv6cp, code, number, data)
        elif self.lcp.is_open():
            self.control(LCP, 8, 50, struct.pack("!H", protocol) + packet)

    def ipv6(self, packet):
        """A packet of IPv6; a router advertisement makes an address."""
        if packet[6] == 58 and packet[40] == 134:
            if self.prefix or not self.tun:
                return
            self.prefix = packet[40 + 40 : 40 + 48]
            address = ipaddress.ip_address(self.prefix + self.ipv6cp.wishes[1])
            device = arguments.device
            subprocess.run(["sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=0"], check=True)
            for command in (
                f"addr add {address}/128 dev {device} nodad",
                f"-6 route replace default dev {device}",
            ):
                subprocess.run(["ip"] + command.split(), check=True)
            say("ipv6", address)
        elif self.tun:
            os.write(self.tun, packet)

    def receive(self, protocol, layer, code, number, data):
        if code == REQUEST:
            better = b""
            for kind, value in options(data):
                if protocol == LCP and kind == 3:
                    own = b"\xc0\x23" if arguments.method == "pap" else b"\xc2\x23\x05"
                    better += option(3, own) if value != own else b""
                elif protocol == IPCP and kind == 3:
                    self.gateway = str(ipaddress.ip_address(value))
            if better:
                self.control(protocol, NAK, number, better)
            else:
                self.control(protocol, ACK, number, data)
                layer.acknowledges = True
        elif code == ACK and number == layer.number:
            layer.acknowledged = True
        elif code == NAK and number == layer.number:
            layer.wishes.update(options(data))
            layer.due = 0
        elif code == REJECT and number == layer.number:
            for kind, _ in options(data):
                layer.wishes.pop(kind, None)
            layer.due = 0
        elif code == TERMINATE:
            self.control(protocol, TERMINATED, number)
        elif code == TERMINATED and protocol == LCP:
            self.discovery(self.server, PADT, self.session, b"")
            say("ended")
            sys.exit(0)
        elif code == 9 and protocol == LCP:
            self.control(LCP, 10, number, self.magic + data[4:])

    def chap(self, code, number, data):
        if code == 1:
            challenge = data[1 : 1 + data[0]]
            secret = arguments.password.encode()
            digest = hashlib.md5(bytes([number]) + secret + challenge).digest()
            self.control(CHAP, 2, number, bytes([16]) + digest + arguments.user.encode())
        else:
            self.decided(code == 3, data)

    def decided(self, accepted, message):
        if not accepted:
            say("refused", message.decode())
        self.is_authentic = accepted

    def up(self):
        tun = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", arguments.device.encode(), 0x1001))
        address = ipaddress.ip_address(self.ipcp.wishes[3])
        device = arguments.device
        for command in (
            f"addr add {address} peer {self.gateway} dev {device}",
            f"link set {device} mtu {MTU} up",
            f"route replace default dev {device}",
        ):
            subprocess.run(["ip"] + command.split(), check=True)
        self.tun = tun
        servers = [self.ipcp.wishes.get(kind) for kind in (129, 131)]
        servers = [str(ipaddress.ip_address(server)) for server in servers if server]
        say("up", address, self.gateway, self.session, *servers)


Client().run()
