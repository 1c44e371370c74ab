"""Measures the targets of DPDK's devices that need no guest, for results.py: sleep on memif, and lines that threads share."""
import json
import os
import pathlib
import re
import statistics
import subprocess

REPO = pathlib.Path(__file__).resolve().parent.parent
TURNS = 5
# Key of `lend bench wait --json`, what it means, the most that is allowed.
WAITS = (
    ("wake_of_bare", "wake-up of a sleeping server, of a bare eventfd's", 1.3),
    ("idle_server_percent", "idle server with 128 sessions, % of a core", 2),
    ("idle_server_wakes_per_s", "the same, wake-ups per second of all threads", 100),
)
# Device of a broker, and EAL's arguments.
ATTACHES = (
    ("udp:127.0.0.1:0", None),
    ("dpdk:ring@127.0.0.1:0", None),
    ("dpdk:memif@127.0.0.1:0", None),
    ("dpdk:net_af_packet0@10.9.0.1:0", "--no-huge -m 192 --no-pci --no-shconf --vdev=net_af_packet0,iface=lo"),
)
# Test in the guest, what it measures, the most that is allowed, where that is in its last line.
GUEST = (
    ("node", "node CPU per MiB of GET over verbs, pages sent in place over copied", 0.5, r"of the medians [\d.]+ and ([\d.]+)"),
    ("one_sided", "node CPU per MiB of GET, RDMA READ over datagrams, the kernel's soft-RoCE included", 0.1, r"by datagrams [^:]*: [\d.]+ and ([\d.]+)"),
    ("broker", "first reply of a new process through the broker, over rdma_connect", 1, r"first reply ([\d.]+)"),
    ("broker", "a further session through the broker, over rdma_connect", 1, r"further session ([\d.]+)"),
)
TEXT = [
    "Why a wake-up over memif takes longer than a bare eventfd's: the server makes two system calls, epoll_wait() and read() of its pipe (strace), where the "
    "bare thread makes one. A byte through a pipe takes 0.7 us longer than through an eventfd. Then comes the first turn of an endpoint, with cold caches: a "
    "thread that reads 600 cache lines after it was woken takes 4 us longer than one that reads none, of 17 (load average 5). That part is no device's: the "
    "row of shm, which is measured in turns with memif, shows it.",
    "Of the guest's rows: pages sent in place save the node's own copy, but soft-RoCE copies each byte once more in the kernel, in the same CPU time; a card "
    "would not. User time is 8.4 of the node's 97 ms per MiB with copied pages, so with no user time at all the ratio would be 0.91 there. Next to rdma_connect, a process behind the broker also opens an encrypted session and makes a call.",
    "A process takes a carrier that the broker has opened ahead. A new memif device takes EAL more than a millisecond, and the loop attaches each millisecond: "
    "so it waits for the next one. With 20 ms between them, memif took 446 us and udp 487 us (medians of three at a load average of 8).",
    "What needs a guest is in [its own table](../../test/guest/README.md#last-run): `scripts/test.sh --guest`.",
    "`lend bench bw` over memif does not gain on 33660cf, which sent messages and pages in place, too: by callgrind, both spend "
    "as many instructions in memcpy(). Three copies of a byte remain: net_memif copies into its ring and out of it, and the "
    "receiver into the message. net_af_xdp sends from its own area of memory only, so Lend copies into that. On a veth pair with an MTU of 1,500 "
    "(1 MiB, load average 22, medians of three turns) it carries 1.29 times as much as net_af_packet, and user-space copies are 0.6 and 1.0 % of "
    "both processes' CPU time: to send in place cannot gain 1.3 there.",
]


def run(*argv, env=None):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, cwd=REPO, env=env)
    if done.returncode:
        raise SystemExit(f"results: {' '.join(map(str, argv))}: {done.stderr.strip()}")
    return done.stdout


def waits(build):
    """memif and shm in turns: what a wake-up takes over shm, too, is not the device's."""
    command = "lend bench wait --carrier {} --seconds 4"
    found = {"dpdk:memif": [], "shm": []}
    for carrier in list(found) * TURNS:
        found[carrier].append(json.loads(run(build / "lend", *command.format(carrier).split()[1:], "--json")))
    for key, meaning, most in WAITS:
        value = statistics.median(one[key] for one in found["dpdk:memif"])
        yield [f"`{command.format('dpdk:memif')}`: {meaning}", f"<= {most}", f"{value:.3g}", "" if value <= most else "missed"]
    value = statistics.median(one[WAITS[0][0]] for one in found["shm"])
    yield [f"`{command.format('shm')}`: {WAITS[0][1]}, in turns with memif", "", f"{value:.3g}", ""]


def shared_lines(build):
    for carrier in ("udp", "ring", "shm"):
        command = f"test/perf/shared_lines.py -c {carrier} -s 64 -r 64 --calls 300"
        lines, written = re.match(r"(\d+) shared written lines of (\d+)", run(*command.split(), "--build", build)).groups()
        yield [f"`{command}`: lines that two threads share and write, of those written", "0", f"{lines} of {written}",
               "" if lines == "0" else "missed"]


def scaling(build):
    """Endpoints of two threads, each with its own server, over one."""
    for carrier in ("udp", "shm"):
        command = f"lend bench rate --threads 2 --carrier {carrier}"
        found = [json.loads(run(build / "lend", *command.split()[1:], "--json"))["scaling"][-1] for _ in range(TURNS)]
        yield [f"`{command}`: calls per second over twice those of one thread", "", f"{statistics.median(one['of_linear'] for one in found):.2f}", ""]


def attaches(build):
    """Medians of 101 attaches to a broker, each with the rest of the start of a process left out."""
    for device, eal in ATTACHES:
        env = dict(os.environ, LEND_MODULE_DIR=str(build)) | ({"LEND_EAL": eal} if eal else {})
        found = [int(re.search(r"attached in (\d+) us", run(build / "perf_broker_hop", "-n", "200", "-d", device, env=env))[1]) for _ in range(TURNS)]
        us = statistics.median(found)
        yield [f"`{'LEND_EAL=... ' * bool(eal)}perf_broker_hop -d {device}`: a process attaches to the broker of this device, us", "<= 200", f"{us}",
               "" if us <= 200 else "missed"]


def guest_table():
    """The guest's targets, with what its last run measured (test/guest/README.md)."""
    last = dict(re.findall(r"^\| (\w+) \| passed \|[^|]*\| ([^|]*) \|", (REPO / "test/guest/README.md").read_text(), re.M))
    for test, what, most, pattern in GUEST:
        found = re.search(pattern, last.get(test, ""))
        value = float(found[1]) if found else None
        yield [f"`scripts/test.sh --guest -R {test}`: {what}", f"<= {most:g}", "" if value is None else f"{value:g}",
               "not measured" if value is None else "" if value <= most else "missed"]


def devices(build):
    return {"name": "devices", "title": "Targets of DPDK's devices", "command": "scripts/results.py --devices build",
            "columns": ["what", "target", "measured", ""], "rows": [*waits(build), *shared_lines(build), *scaling(build), *attaches(build), *guest_table()],
            "text": TEXT}
