#!/usr/bin/env python3
"""Sends frames that a NIC may meet on any network: frames.py DEV FROM_MAC TO_MAC SEED COUNT KIND
FROM_IP TO_IP PORT

FROM_IP and TO_IP are IPv4; PORT is the UDP port that the receiver listens at. Needs CAP_NET_RAW.
Prints the number it sent.
"""
import random
import socket
import struct
import sys


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Frames:
    """One method per kind: a frame as bytes."""

    def __init__(self, from_mac, to_mac, seed, from_ip, to_ip, port):
        self.ends = bytes.fromhex(to_mac.replace(":", "")) + bytes.fromhex(from_mac.replace(":", ""))
        self.rng = random.Random(seed)
        self.ip = socket.inet_aton(from_ip), socket.inet_aton(to_ip)
        self.port = int(port)

    def ether(self, body, kind=0x0800):
        return (self.ends + struct.pack(">H", kind) + body).ljust(60, b"\0")

    def ipv4(self, body, flags=0x4000, wrong=0, more=0, proto=17, options=b""):
        size = 20 + len(options)
        head = struct.pack(">BBHHHBBH4s4s", 0x40 + size // 4, 0, size + len(body) + more, self.rng.randrange(65536), flags,
                           64, proto, 0, *self.ip) + options
        return head[:10] + struct.pack(">H", checksum(head) ^ wrong) + head[12:] + body

    def payload(self, size=None):
        return self.rng.randbytes(self.rng.randrange(0, 1400) if size is None else size)

    def udp(self, body, port=None, wrong=0, longer=0):
        port = self.port if port is None else port
        head = struct.pack(">HHHH", self.rng.randrange(1, 65536), port, 8 + len(body) + longer, 0)
        pseudo = b"".join(self.ip) + struct.pack(">HH", 17, 8 + len(body))
        right = checksum(pseudo + head + body) or 0xFFFF
        # Two wrong values are accepted: 0 (no checksum) and the sum of the pseudo header alone, which
        # a kernel leaves for its NIC to complete.
        accepted = {0, checksum(pseudo) ^ 0xFFFF}
        total = right ^ wrong
        while wrong and (total in accepted or total == right):
            wrong = wrong % 0xFFFF + 1
            total = right ^ wrong
        return head[:6] + struct.pack(">H", total) + body

    def random_udp(self):
        return self.ether(self.ipv4(self.udp(self.payload())))

    def empty_udp(self):
        return self.ether(self.ipv4(self.udp(b"")))

    def options(self):
        return self.ether(self.ipv4(self.udp(self.payload()), options=b"\1" * 8))

    def other_port(self):
        return self.ether(self.ipv4(self.udp(self.payload(), port=self.port ^ 1)))

    def wrong_ip_checksum(self):
        return self.ether(self.ipv4(self.udp(self.payload()), wrong=self.rng.randrange(1, 65535)))

    def wrong_udp_checksum(self):
        return self.ether(self.ipv4(self.udp(self.payload(200), wrong=self.rng.randrange(1, 65535))))

    def first_fragment(self):
        return self.ether(self.ipv4(self.udp(self.payload(1000)), flags=0x2000))

    def later_fragment(self):
        return self.ether(self.ipv4(self.payload(1000), flags=self.rng.randrange(1, 0x1FFF)))

    def vlan(self):
        tag = struct.pack(">HH", self.rng.randrange(2, 4095), 0x0800)
        return self.ether(tag + self.ipv4(self.udp(self.payload())), kind=0x8100)

    def jumbo(self):
        return self.ether(self.ipv4(self.udp(self.payload(self.rng.randrange(3000, 8900)))))

    def cut_ip(self):
        return self.ether(self.ipv4(self.udp(self.payload(400)), more=self.rng.randrange(1, 600)))

    def cut_udp(self):
        return self.ether(self.ipv4(self.udp(self.payload(400), longer=self.rng.randrange(1, 600))))

    def tcp(self):
        return self.ether(self.ipv4(self.payload(100), proto=6))

    def other_kind(self):
        return self.ether(self.payload(), kind=self.rng.choice((0x0806, 0x88CC, 0x86DD, 0x8847, 0x0001)))

    def garbage(self):
        kind = 0x0800
        while kind in (0x0800, 0x0806, 0x86DD, 0x8100, 0x88A8):
            kind = self.rng.randrange(65536)
        return self.ether(self.payload(), kind)


def main(dev, from_mac, to_mac, seed, count, kind, from_ip, to_ip, port):
    frames = Frames(from_mac, to_mac, int(seed), from_ip, to_ip, port)
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    out.bind((dev, 0))
    make = getattr(frames, kind)
    for _ in range(int(count)):
        out.send(make())
    print(count)


main(*sys.argv[1:])
