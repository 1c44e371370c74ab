"""pair - two network namespaces joined by a veth pair, and programs that run at its ends.

    with Pair(mtu=9000) as pair:
        server = pair.dpdk.serve()
        pair.kernel.load("rate", server.reached_by("udp"), "--count", 1000)
        server.end()

The end `dpdk` leaves its device to DPDK: the kernel has no address there. The end `kernel` is an
ordinary host. A test may make one more with dpdk=2 or kernel=2. Nothing is visible outside: each
namespace is that of a process which waits for the end of its input, so the kernel removes it, and
the pair with it, however this process ends.
"""
import contextlib
import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ.get("LEND_BUILD", "build")).resolve()
DEV = "lend0"  # at both ends
KINDS = ("net_af_packet", "net_af_xdp")
LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
NAMESPACE = ("unshare", "--net", "--mount", "sh", "-c")
FURNISH = "mount -t sysfs sysfs /sys && ip link set lo up"


def absent(why):
    """Ends the program as unsupported on this machine. Not inside a unittest, which would report an
    error."""
    print("not on this machine:", why)
    sys.exit(77)


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def environment():
    """DPDK's threads and late libraries need these under sanitizers."""
    asan = "detect_leaks=0:intercept_tls_get_addr=0:log_path=stderr"
    return dict(os.environ, ASAN_OPTIONS=asan, XDG_RUNTIME_DIR=RUNTIME.name, XDG_CONFIG_HOME=RUNTIME.name)


class Failed(AssertionError):
    """A program ended otherwise than requested."""


class Server:
    """A program that serves at an end; it prints its counters when it ends."""

    def __init__(self, end, args):
        self.log = tempfile.TemporaryFile("w+")
        self.process = end.popen(args, stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        words = re.findall(r"(?:udp|dpdk):[^\s,]+", line)
        if not words:
            self.process.wait(30)
            raise Failed(f"{args}: {self.said()}")
        self.addresses = words
        self.address = words[0]

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def port(self, i=0):
        return self.addresses[i].split("?")[0].rsplit(":", 1)[1]

    def alive(self):
        return self.process.poll() is None

    def counters(self):
        """Its counters until now."""
        if self.alive():
            self.process.send_signal(signal.SIGUSR1)
            return json.loads(self.process.stdout.readline())
        raise Failed(f"it died: {self.process.returncode} {self.said()}")

    def end(self):
        """The counters of a program that ends on request, without any other output."""
        if not self.alive():
            raise Failed(f"it died: {self.process.returncode} {self.said()}")
        self.process.terminate()
        out, _ = self.process.communicate(timeout=60)
        if self.process.returncode != 0:
            raise Failed(f"it exited with {self.process.returncode}: {self.said()}")
        return json.loads(out.strip().splitlines()[-1])

    def kill(self):
        self.process.kill()
        self.process.wait()


class End:
    """One namespace with one end of the pair."""

    def __init__(self, number, dpdk, kind):
        self.number, self.dpdk, self.kind = number, dpdk, kind
        self.mac = f"02:00:00:00:00:{number:02x}"
        self.ip4, self.ip6 = f"10.77.0.{number}", f"fd77::{number:x}"
        self.eal, self.peer, self.vlan, self.mtu = "", None, None, 1500
        self.running, self.servers = [], []
        self.holder = subprocess.Popen(
            [*NAMESPACE, f"{FURNISH} && echo && exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=die_with_parent)
        if not self.holder.stdout.readline():
            raise Failed("no namespace: " + self.holder.stderr.read().decode().strip())

    def enter(self, args):
        # --root: in a chroot, a mount namespace's own root is another folder.
        return ["nsenter", "-t", str(self.holder.pid), "--net", "--mount", "--root", *map(str, args)]

    def popen(self, args, **more):
        process = subprocess.Popen(self.enter(args), env=environment(), preexec_fn=die_with_parent, **more)
        self.running.append(process)
        return process

    def run(self, *args, code=0, timeout=100, stderr=False):
        """The stdout or stderr of a program; it must end with that code."""
        done = subprocess.run(self.enter(args), capture_output=True, text=True, env=environment(), timeout=timeout)
        if done.returncode != code:
            raise Failed(f"{args}: {done.returncode}\n{done.stdout[-600:]}{done.stderr[-2000:]}")
        return done.stderr if stderr else done.stdout

    def host(self, six, brackets=True):
        return self.ip4 if not six else f"[{self.ip6}]" if brackets else self.ip6

    @property
    def device(self):
        return f"{self.kind}0"

    def listening(self, six=False, port=0, more=""):
        """The address to serve at."""
        if not self.dpdk:
            return f"udp:{self.host(six)}:{port}"
        return f"dpdk:{self.device}@{self.host(six)}:{port}" + self.options(more)

    def options(self, *more):
        words = [w for w in more if w] + ([f"vlan={self.vlan}"] if self.vlan else [])
        return "?" + "&".join(words) if words else ""

    def calling(self, server, six=False, more=""):
        """The address of a server at the other end, as this end calls it."""
        if not self.dpdk:
            return f"udp:{self.peer.host(six)}:{server.port()}"
        known = f"from={self.host(six, False)}"
        return f"dpdk:{self.device}@{self.peer.host(six)}:{server.port()}" + self.options(known, more)

    def with_eal(self):
        return ["--eal", self.eal] if self.dpdk else []

    def serve(self, six=False, port=0, more="", args=()):
        return self.served([BUILD / "lend", "serve", "--json", "--listen", self.listening(six, port, more),
                             *self.with_eal(), *args])

    def served(self, args):
        self.servers.append(Server(self, args))
        return self.servers[-1]

    def introduce(self):
        """Gives this kernel the other end's MAC address, so that no ARP request is needed."""
        at = f"{DEV}.{self.vlan}" if self.vlan else DEV
        for ip in (self.peer.ip4, self.peer.ip6):
            self.ip("neigh", "replace", ip, "lladdr", self.peer.mac, "dev", at, "nud", "permanent")

    def client(self, *args, **more):
        """A running lend, with the option for the device if there is one."""
        return self.popen(self.lend(args), **more)

    def lend(self, args):
        return ["env", f"LEND_EAL={self.eal}", BUILD / "lend", *args]

    def load(self, command, server, *args, six=False, more=""):
        """lat, rate or bw against a server of the other end: every call must end well, with every
        byte."""
        got = json.loads(self.run(*self.lend([command, "--connect", self.calling(server, six, more), "--json", *args]), timeout=900))
        if got["errors"] or got["wrong_bytes"]:
            raise Failed(f"{command} {args}: {got['errors']} errors, {got['wrong_bytes']} wrong bytes")
        return got

    def ip(self, *args):
        return self.run("ip", *args)

    def frames(self, kind, count, seed, server):
        """Sends frames of that kind from this end's device to a server at the other; see frames.py."""
        script = pathlib.Path(__file__).with_name("frames.py")
        self.run(sys.executable, script, DEV, self.mac, self.peer.mac, seed, count, kind, self.ip4, self.peer.ip4, server.port())

    def close(self):
        for server in self.servers:
            server.log.close()
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
        self.holder.stdin.close()
        self.holder.wait()
        self.holder.stdout.close()
        self.holder.stderr.close()


class Pair:
    """dpdk and kernel; or two of either in .ends."""

    def __init__(self, kind="net_af_packet", mtu=1500, vlan=None, dpdk=1, queues=1):
        self.ends = [End(i + 1, i < dpdk, kind) for i in range(2)]
        self.mtu, self.vlan, self.queues = mtu, vlan, queues
        self.kernel, self.dpdk = self.ends[1], self.ends[0]

    def __enter__(self):
        a, b = self.ends
        a.peer, b.peer = b, a
        try:
            self.join()
            for end in self.ends:
                end.mtu, end.vlan = self.mtu, self.vlan
                self.prepare(end)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for end in self.ends:
            end.close()

    def join(self):
        a, b = self.ends
        more = f"mtu {self.mtu} numrxqueues {self.queues} numtxqueues {self.queues}".split()
        a.ip("link", "add", DEV, "address", a.mac, *more, "type", "veth",
             "peer", "name", DEV, "address", b.mac, *more, "netns", str(b.holder.pid))

    def prepare(self, end):
        end.run("sh", "-c", f"echo 0 >/proc/sys/net/ipv6/conf/{DEV}/accept_dad")
        if end.dpdk:
            end.run("sh", "-c", f"echo 1 >/proc/sys/net/ipv6/conf/{DEV}/disable_ipv6")
            end.eal = eal_of(end, f",qpairs={self.queues}" if self.queues > 1 else "")
        end.ip("link", "set", DEV, "up")
        if not end.dpdk:
            self.address(end)

    def address(self, end):
        at = DEV
        if self.vlan:
            at = f"{DEV}.{self.vlan}"
            end.ip("link", "add", "link", DEV, "name", at, "type", "vlan", "id", str(self.vlan))
            if end.peer.kind == "net_af_xdp":  # XDP does not see VLAN tags
                end.run("ethtool", "-K", DEV, "txvlan", "off")
            end.run("sh", "-c", f"echo 0 >/proc/sys/net/ipv6/conf/{at}/accept_dad")
            end.ip("link", "set", at, "up")
        end.ip("addr", "add", f"{end.ip4}/24", "dev", at)
        end.ip("addr", "add", f"{end.ip6}/64", "dev", at)


@contextlib.contextmanager
def behind(router):
    """A host on a net of its own; this end forwards to it."""
    far = End(3, False, None)
    try:
        far.ip4 = "10.88.0.3"
        router.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
        router.ip("link", "add", "back0", "type", "veth", "peer", "name", DEV, "netns", str(far.holder.pid))
        router.ip("addr", "add", "10.88.0.1/24", "dev", "back0")
        far.ip("addr", "add", f"{far.ip4}/24", "dev", DEV)
        router.ip("link", "set", "back0", "up")
        far.ip("link", "set", DEV, "up")
        far.ip("route", "add", "default", "via", "10.88.0.1")
        yield far
    finally:
        far.close()


def eal_of(end, more=""):
    """EAL's arguments that make the device of an end: frames as long as its MTU, no wait for a busy
    poll."""
    own = "busy_budget=0"
    if end.kind == "net_af_packet":
        own = "framesz=2048" if end.mtu <= 1500 else "framesz=9216,blocksz=36864"
    return f"--no-huge -m 192 --no-pci --no-shconf --vdev={end.kind}0,iface={DEV},{own}{more}"


def kernel_has_vlan():
    with Pair(dpdk=2) as pair:
        try:
            pair.kernel.ip("link", "add", "link", DEV, "name", "v", "type", "vlan", "id", "5")
        except Failed:
            return False
    return True


def refusal():
    """The reason why no namespace with a veth pair can be made, or ""."""
    tried = subprocess.run([*NAMESPACE, f"{FURNISH} && ip link add {DEV} type veth peer name lend1"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else (tried.stderr.strip().splitlines() or ["no reason is given"])[-1]


def wait_for(condition, what, seconds=30):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not within {seconds} s: {what}"
        time.sleep(0.01)  # between polls


if os.geteuid() != 0:
    absent("namespaces, veth pairs and raw sockets need root (CAP_NET_ADMIN, CAP_SYS_ADMIN)")
if not (BUILD / "lend_io_dpdk.so").exists():
    absent("lend_io_dpdk.so was not built (libdpdk-dev)")
if (why := refusal()):
    absent(f"no namespace with a veth pair can be made: {why}")
RUNTIME = tempfile.TemporaryDirectory(prefix="lend-net-")
