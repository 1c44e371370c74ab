#!/usr/bin/env python3
"""Goal: lend bench chain and images run on several machines by a hosts file: each machine starts its
own processes, in any order, and the client's machine gets every byte right.

Method: three network namespaces at a bridge in a fourth one; the processes of two of them are
started before the client's, or after it. Root is not needed where user namespaces are allowed.
Covers: src/io/udp/carrier.c, src/io/dpdk/carrier.c

usage: hosts.py [NAME...]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

INSIDE = "LEND_HOSTS_INSIDE"
if os.geteuid() != 0 and INSIDE not in os.environ:
    os.environ[INSIDE] = "1"
    how = ["unshare", "-Urnm"]
    if subprocess.run([*how, "true"], capture_output=True).returncode == 0:
        os.execvp("unshare", [*how, sys.executable, "-B", *sys.argv])

sys.path.append(str(pathlib.Path(__file__).parent.parent / "e2e"))
from images import jpeg  # noqa: E402
from pair import BUILD, DEV, End, eal_of  # noqa: E402

MACHINES = "abc"


class Net:
    """Three machines, each with one interface at a bridge. DPDK has the interfaces, or the kernel."""

    def __init__(self, dpdk):
        self.switch = End(9, False, "net_af_packet")
        self.ends = {name: End(i + 1, dpdk, "net_af_packet") for i, name in enumerate(MACHINES)}
        self.folder = tempfile.TemporaryDirectory(prefix="lend-net-hosts-")

    def __enter__(self):
        try:
            self.switch.ip("link", "add", "br0", "type", "bridge")
            self.switch.ip("link", "set", "br0", "up")
            for name, end in self.ends.items():
                self.join(name, end)
        except BaseException:
            self.__exit__()
            raise
        return self

    def join(self, name, end):
        self.switch.ip("link", "add", f"to-{name}", "type", "veth", "peer", "name", DEV, "address", end.mac,
                       "netns", str(end.holder.pid))
        end.run("sh", "-c", f"echo 1 >/proc/sys/net/ipv6/conf/{DEV}/disable_ipv6")
        self.switch.ip("link", "set", f"to-{name}", "master", "br0", "up")
        end.ip("link", "set", DEV, "up")
        if end.dpdk:
            end.eal = eal_of(end)
        else:
            end.ip("addr", "add", f"{end.ip4}/24", "dev", DEV)

    def __exit__(self, *_):
        for end in (*self.ends.values(), self.switch):
            end.close()
        self.folder.cleanup()

    def hosts(self, **roles):
        """Writes a hosts file: each role's machine. Returns its path."""
        path = pathlib.Path(self.folder.name, "hosts")
        lines = ["# role machine address\n", "\n"]
        for i, (role, name) in enumerate(roles.items()):
            end = self.ends[name]
            lines.append(f"{role} {name} {end.listening(port=0 if role == 'client' else 7000 + i)} {end.eal}\n")
        path.write_text("".join(lines))
        return path

    def start(self, name, args):
        return self.ends[name].popen([BUILD / "lend", "bench", *map(str, args), "--here", name],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Hosts(unittest.TestCase):
    def run_all(self, net, *args, client="a", client_first=False):
        """The report of the client's machine; the others end well at a signal."""
        first = net.start(client, (*args, "--json")) if client_first else None
        others = [net.start(name, args) for name in MACHINES if name != client]
        for other in others:
            line = other.stdout.readline()
            self.assertRegex(line, "^ready [abc]$", line or other.communicate()[1])
        out, err = (first or net.start(client, (*args, "--json"))).communicate(timeout=100)
        self.assertEqual(err, "")
        got = json.loads(out)
        for other in others:
            other.terminate()
            rest = other.communicate(timeout=60)
            self.assertEqual((other.returncode, *rest), (0, "", ""))
        return got

    def chain(self, dpdk, last):
        with Net(dpdk) as net:
            path = net.hosts(client="a", hop1="b", hop2="c", hop3=last, node="c")
            for by in ("ref", "node") if dpdk else ("value", "ref", "node"):
                got = self.run_all(net, "chain", "--hosts", path, "--by", by, "--size", "200K", "--seconds", "0.2",
                                   client_first=by != "value")
                self.assertEqual((got["hops"], got["by"], got["errors"], got["wrong_bytes"]), (3, by, 0, 0), got)
                self.assertEqual((got["bytes_moved_per_call"], got["pages_used_after"]), (None, 0), got)
                self.assertGreater(got["calls"], 0)

    def test_machines_that_start_again(self):
        """The first hop keeps running while the machine of the next one starts again."""
        with Net(False) as net:
            chain = ("chain", "--hosts", net.hosts(client="a", hop1="b", hop2="c"), "--by", "value", "--size", "9K", "--seconds", "0.1")
            first, second = (net.start(name, chain) for name in "bc")
            for again in range(2):
                out, err = net.start("a", (*chain, "--json")).communicate(timeout=100)
                self.assertEqual(err, "")
                got = json.loads(out)
                self.assertEqual((got["errors"], got["wrong_bytes"]), (0, 0), got)
                second.terminate()
                second.communicate(timeout=60)
                second = net.start("c", chain) if not again else second
            first.terminate()
            self.assertEqual((*first.communicate(timeout=60), first.returncode), ("ready b\n", "", 0))

    def test_chain_over_udp(self):
        self.chain(False, "a")

    def test_chain_over_af_packet(self):
        """The last hop is not where the client is: a bridge does not send frames back to their port."""
        self.chain(True, "b")

    def images(self, dpdk):
        with Net(dpdk) as net:
            photos = pathlib.Path(net.folder.name, "photos")
            photos.mkdir()
            for i, (width, height) in enumerate(((64, 48), (640, 480))):
                (photos / f"p{i}.jpg").write_bytes(jpeg(width, height, i))
            path = net.hosts(client="a", firewall="b", balancer="c", server1="b", server2="b", worker1="c", worker2="c", node="b")
            for by in ("ref", "node") if dpdk else ("value", "ref", "node"):
                got = self.run_all(net, "images", "--hosts", path, "--by", by, photos, client_first=by != "value")
                self.assertEqual((got["images"], got["identical"], got["errors"], got["processes"]), (2, 2, 0, 8), got)
                self.assertEqual((got["bytes_moved_per_image"], got["pages_used_after"]), (None, 0), got)

    def test_images_over_udp(self):
        self.images(False)

    def test_images_over_af_packet(self):
        self.images(True)


if __name__ == "__main__":
    names = [f"Hosts.{n}" for n in dir(Hosts) if n.startswith("test_") and any(w in n for w in sys.argv[1:])]
    unittest.main(argv=[sys.argv[0], *names])
