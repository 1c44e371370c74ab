#!/usr/bin/env python3
"""Congestion on real stacks: Lend over UDP next to TCP and QUIC, through a switch of 100 to 200 Mbit/s.

usage: scripts/netbench.sh [--quick] [--json] [--only WORD]

Hosts are network namespaces at a switch program (test/net/switch.c), which has a rate, a delay, one buffer, random loss and a
trunk. Each row runs Lend, the simulator with the same numbers, and where they apply iperf3 (cubic, BBR) and a QUIC download
(gtlsserver, gtlsclient: cubic). A row with a target is judged: exit code 1 if one is missed. Other programs on the machine
distort the figures, so run it alone.
  --quick   two thirds of the rows, each for a second, judged by looser bounds, the best of three: the test net.bench
  --json    {"rows": [{"row", "unit", "lend", "simulator", "cubic", "bbr", "quic", "target", "ok"}, ...]}
  --only    rows whose name contains WORD
Needs root, iperf3, iputils-ping, ngtcp2-client and ngtcp2-server; exit code 77 where namespaces are not allowed.

examples:
  scripts/netbench.sh                         two minutes, and a table
  scripts/netbench.sh --only ping --json
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ.setdefault("LEND_BUILD", str(ROOT / "build"))
sys.path.insert(0, str(ROOT / "test" / "net"))
sys.dont_write_bytecode = True
from pair import BUILD, DEV, End, absent  # noqa: E402

SWITCH = BUILD / "net_switch"
# Bytes of a full frame with its gap, per byte of payload: a rate counts the headers of full frames.
FRAMES = {"lend": 1538 / 1384, "cubic": 1538 / 1448, "bbr": 1538 / 1448, "quic": 1518 / 1421}
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


class Net:
    """Hosts at a switch. nic_mbps: rate of a host's own device, before the switch; None: no limit."""

    def __init__(self, hosts=2, nic_mbps=None, **switch):
        self.options = dict(switch, ports=hosts)
        self.nic_mbps = nic_mbps
        self.box = End(99, False, None)
        self.hosts = [End(i + 1, False, None) for i in range(hosts)]

    def __enter__(self):
        try:
            words = [f"--{name.replace('_', '-')}={value}" for name, value in self.options.items() if value]
            self.switch = self.box.popen([SWITCH, *words], **PIPES)
            if not self.switch.stdout.readline():
                absent("no TAP device can be made: " + self.switch.stderr.read().strip())
            for host in self.hosts:
                self.join(host)
        except BaseException:
            self.__exit__()
            raise
        return self

    def join(self, host):
        self.box.ip("link", "set", f"port{host.number}", "netns", str(host.holder.pid))
        nic = f"tc qdisc add dev {DEV} root tbf rate {self.nic_mbps}mbit burst 4k limit 4m" if self.nic_mbps else "true"
        neighbours = "\n".join(f"neigh replace {h.ip4} lladdr {h.mac} dev {DEV} nud permanent" for h in self.hosts if h != host)
        host.run("sh", "-ec", f"""echo 1 >/proc/sys/net/ipv6/conf/port{host.number}/disable_ipv6
            ip link set port{host.number} name {DEV} address {host.mac} txqueuelen 4000
            {nic}
            ip link set {DEV} up
            ip addr add {host.ip4}/24 dev {DEV}
            echo '{neighbours}' | ip -batch -""")

    def counters(self):
        """The switch's counters, a line each; it ends."""
        self.switch.terminate()
        return json.loads(self.switch.communicate(timeout=30)[0])

    def __exit__(self, *_):
        for end in (*self.hosts, self.box):
            end.close()


def finish(process):
    out, err = process.communicate(timeout=200)
    if process.returncode:
        sys.exit(f"{process.args}: {process.returncode}\n{out[-500:]}{err[-1500:]}")
    return out


def serve(host):
    return host.served([BUILD / "lend", "serve", "--json", f"--listen=udp:{host.ip4}:0"])


class Flow:
    """A transfer from one host to another, in the background; end() returns its Mbit/s of payload."""

    def __init__(self, kind, source, sink, seconds):
        getattr(self, kind)(source, sink, seconds)

    def lend(self, source, sink, seconds):
        server = serve(sink)
        process = source.popen([BUILD / "lend", "bw", "--connect", server.address, "--size=1M", "--window=8", f"--seconds={seconds}",
                                "--sleep", "--json"], **PIPES)

        def end():
            got = json.loads(finish(process))
            assert got["errors"] == got["wrong_bytes"] == 0, got
            self.counters = server.end()
            return 1000 * got["gbit_per_s"]
        self.end = end

    def iperf(self, algorithm, source, sink, seconds):
        server = sink.popen(["iperf3", "-s", "-1"], **PIPES)
        wait_bound(sink, "-lnt", 5201)
        process = source.popen(["iperf3", "-c", sink.ip4, "-C", algorithm, "-t", str(seconds), "-O", "1", "-J"], **PIPES)

        def end():
            rate = json.loads(finish(process))["end"]["sum_received"]["bits_per_second"] / 1e6
            server.wait(30)
            return rate
        self.end = end

    def cubic(self, *args):
        self.iperf("cubic", *args)

    def bbr(self, *args):
        self.iperf("bbr", *args)

    def quic(self, source, sink, seconds):
        folder = tempfile.TemporaryDirectory(prefix="lend-netbench-")
        key, cert = (str(pathlib.Path(folder.name, name)) for name in ("key.pem", "cert.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=netbench",
                        "-keyout", key, "-out", cert], check=True, capture_output=True)
        size = int(seconds * 1e8 / 8)
        with open(pathlib.Path(folder.name, "body"), "wb") as body:
            body.truncate(size)
        server = source.popen(["gtlsserver", "-q", "-d", folder.name, source.ip4, "4433", key, cert], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_bound(source, "-lnu", 4433)
        began = time.monotonic()
        process = sink.popen(["gtlsclient", "-q", "--exit-on-all-streams-close", source.ip4, "4433", f"https://{source.ip4}/body"], **PIPES)

        def end():
            finish(process)
            rate = size * 8e-6 / (time.monotonic() - began)
            server.kill()
            server.wait()
            folder.cleanup()
            return rate
        self.end = end


def wait_bound(host, kind, port):
    until = time.monotonic() + 10
    while f":{port} " not in host.run("ss", kind):
        assert time.monotonic() < until, f"nothing listens at {port}"
        time.sleep(0.01)


def simulate(command):
    """The last row of an experiment. Devices of hosts are ten times as fast as the links, as without nic_mbps."""
    name, *words = command.split()
    words = [BUILD / "lend-sim", name, "--nic-speed=10", "--mark-kb=0", "--cc=credit", "--json", *words]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


def simulate_transfer(delay_us, buffer_kb, more=""):
    return simulate(f"sharing --senders 1 --depth 8 --mbps 100 --delay-ns {delay_us}000 --buffer-kb {buffer_kb} --step-us 1000000 {more}")


def simulated_acks(sim):
    """ACKs in percent of the transfer's bytes, with the headers that the switch counts."""
    heads = 66 * sim["acks"], 66 * (sim["datagrams"] - sim["acks"])
    return 100 * (1024 * sim["ack_kb"] + heads[0]) / (1024 * sim["data_kb"] + heads[1])


def dropped(lines):
    drops, frames = (sum(line[key] for line in lines) for key in ("drops", "frames"))
    return 100 * drops / (frames + drops)


def rate_rows(kinds, seconds, loss_ppm):
    """One transfer over 100 Mbit/s and 20 ms: percent of the link, of frames dropped by the switch, and ACKs in percent of its bytes."""
    rate, drops, acks = {}, {}, {}
    for kind in kinds:
        with Net(mbps=100, delay_us=10000, buffer_kb=512, loss_ppm=loss_ppm) as net:
            rate[kind] = FRAMES[kind] * Flow(kind, *net.hosts, seconds).end()
            lines = net.counters()
            drops[kind], acks[kind] = dropped(lines), 100 * lines[0]["bytes"] / lines[1]["bytes"]
    sim = simulate_transfer(10000, 512, f"--loss-ppm {loss_ppm}")
    rate["simulator"], drops["simulator"], acks["simulator"] = sim["carried_percent"], 100 * sim["drops"] / sim["datagrams"], simulated_acks(sim)
    return rate, drops, acks


def ping(source, sink, seconds):
    out = source.run("ping", "-q", "-i", "0.01", "-c", str(int(seconds * 100)), sink.ip4)
    return float(re.search(r"= [\d.]+/([\d.]+)/", out)[1])


def ping_row(kinds, seconds, nic_mbps):
    """Mean ms of a ping next to a transfer of the same host, over 100 Mbit/s and 4 ms."""
    got = {}
    for kind in kinds:
        with Net(mbps=1000 if nic_mbps else 100, delay_us=2000, buffer_kb=1024, nic_mbps=nic_mbps) as net:
            Flow(kind, *net.hosts, 60)  # ends with its hosts
            time.sleep(0.5)  # it warms up
            got[kind] = ping(*net.hosts, seconds)
    sim = simulate_transfer(2000, 1024, "--nic-speed 1 --host-queue 1" if nic_mbps else "")
    got["simulator"] = 4 + (sim["queue_kb"] + sim["host_kb"]) * 8.192 / 100
    return got


def calls_rows(seconds, clients=7):
    """clients hosts with 256 calls of 64 B in flight each, to one server; p99 in ms, and dropped frames in percent."""
    with Net(hosts=clients + 1, mbps=200, delay_us=50, buffer_kb=256) as net:
        server = serve(net.hosts[0])
        loads = [h.popen([BUILD / "lend", "rate", "--connect", server.address, "--window=128", "--sessions=2", "--size=64",
                         f"--seconds={seconds}", "--sleep", "--json"], **PIPES) for h in net.hosts[1:]]
        got = [json.loads(finish(load)) for load in loads]
        server.end()
        lines = net.counters()
    assert all(g["check_in_flight"] and not g["errors"] + g["wrong_bytes"] for g in got), got
    sim = simulate("congestion --senders 7 --depth 256 --messages 2048 --size 64 --mbps 200 --delay-ns 50000 --buffer-kb 256")
    return ({"lend": max(g["p99_us"] for g in got) / 1000, "simulator": sim["message_p99_us"] / 1000},
            {"lend": dropped(lines), "simulator": 100 * sim["drops"] / sim["datagrams"]})


def share_row(kind, seconds):
    """Lend's percent of what it and a TCP flow get of a trunk of 100 Mbit/s and 10 ms."""
    with Net(hosts=4, mbps=1000, trunk_mbps=100, delay_us=2500, buffer_kb=256) as net:
        a, b, c, d = net.hosts
        flows = Flow("lend", a, c, seconds + 1), Flow(kind, b, d, seconds)
        lend, other = (flow.end() for flow in flows)
    return {"lend": 100 * lend / (lend + other), "simulator": "not simulated"}


def bound(row, limits):
    """The text of a row's target, and whether it is met. A limit may be a multiple of another column."""
    least, most = limits
    if isinstance(most, tuple):
        factor, column = most
        most = factor * row[column]
    text = " to ".join(f"{x:.3g}" for x in (least, most) if x is not None)
    text = text if least is not None and most is not None else (">= " if most is None else "<= ") + text
    return text, (least is None or row["lend"] >= least) and (most is None or row["lend"] <= most)


def rows(quick):
    """Name, unit, bounds in full and in quick, function of one or several rows."""
    seconds = 1 if quick else 5
    all_kinds = ("lend",) if quick else ("lend", "cubic", "bbr", "quic")
    ping_kinds = ("lend", "bbr") if quick else ("lend", "cubic", "bbr")
    yield [("one transfer, 100 Mbit/s, RTT 20 ms", "% of link", (90, None), (50, None)),
           ("its frames that the switch dropped", "%", (None, 10), (None, 40)),
           ("its ACKs, of its bytes", "%", (None, 3), (None, 6))], lambda: rate_rows(all_kinds, seconds, 0)
    yield [("one transfer, 1 % loss", "% of link", (90, None), (50, None)),
           ("its frames that the switch dropped, 1 % loss", "%", (None, 10), (None, 40))], lambda: rate_rows(all_kinds, seconds, 10000)
    yield [("7 hosts x 256 calls of 64 B, 200 Mbit/s: p99", "ms", (None, 20), (None, 10000)),
           ("the same: dropped frames", "%", (None, 2), (None, 4))], lambda: calls_rows(seconds)
    yield [("ping next to a transfer, RTT 4 ms", "ms", (None, (2, "bbr")), (None, (10, "bbr")))], lambda: [ping_row(ping_kinds, seconds, None)]
    if quick:
        return
    yield [("the same behind the host's own queue", "ms", (None, (2, "bbr")), None)], lambda: [ping_row(ping_kinds, seconds, 100)]
    for kind in "cubic", "bbr":
        yield [(f"share next to {kind}, RTT 10 ms", "%", (30, 70), None)], lambda kind=kind: [share_row(kind, 2 * seconds)]


COLUMNS = ("lend", "simulator", "cubic", "bbr", "quic")
QUICK_TRIES = 3  # of a row that is missed: other programs may have had both CPUs


def judge(heads, run, quick):
    """Runs a group of rows, and returns them with their judgement."""
    for _ in range(QUICK_TRIES if quick else 1):
        done = []
        for (name, unit, full, loose), got in zip(heads, run()):
            text, ok = bound(got, loose if quick else full)
            cells = {c: got[c] if isinstance(got[c], str) else round(got[c], 2) for c in COLUMNS if c in got}
            done.append({"row": name, "unit": unit, **cells, "target": text, "ok": ok})
        if all(row["ok"] for row in done):
            break
    return done


def text_of(cell):
    return f"{cell:.4g}" if isinstance(cell, float) else cell


def main():
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    if args.help:
        print(__doc__.strip())
        return 0
    for program in ("iperf3", "ping", *(() if args.quick else ("gtlsclient", "gtlsserver"))):
        if not shutil.which(program):
            absent(f"no {program}: scripts/deps.sh test peers")
    if "bbr" not in pathlib.Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split():
        absent("the kernel has no BBR: modprobe tcp_bbr")
    done = []
    if not args.json:
        print(f"{'':52}" + "".join(f"{c:>14}" for c in COLUMNS) + "   target")
    for heads, run in rows(args.quick):
        if not any(args.only in head[0] for head in heads):
            continue
        for row in judge(heads, run, args.quick):
            done.append(row)
            if not args.json:
                cells = "".join(f"{text_of(row.get(c, '-')):>14}" for c in COLUMNS)
                print(f"{row['row'] + ', ' + row['unit']:52}{cells}   {row['target']}{'' if row['ok'] else '  missed'}", flush=True)
    if args.json:
        print(json.dumps({"rows": done}))
    return 0 if all(row["ok"] for row in done) else 1


sys.exit(main())
