"""Measures the targets of DPDK's devices that need no guest, for results.py: sleep on memif, and lines that threads share."""
import json
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
TEXT = [
    "What needs a guest is in [its own table](../../test/guest/README.md#last-run): `scripts/test.sh --guest`.",
    "`lend bench bw` over memif does not gain on 33660cf, which sent messages and pages in place, too: by callgrind, both spend "
    "as many instructions in memcpy(). Three copies of a byte remain: net_memif copies into its ring and out of it, and the "
    "receiver into the message. net_af_xdp sends from its own area of memory only, so Lend copies into that. On a veth pair with an MTU of 1,500 "
    "(1 MiB, load average 22, medians of three turns) it carries 1.29 times as much as net_af_packet, and user-space copies are 0.6 and 1.0 % of "
    "both processes' CPU time: to send in place cannot gain 1.3 there.",
]


def run(*argv):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, cwd=REPO)
    if done.returncode:
        raise SystemExit(f"results: {' '.join(map(str, argv))}: {done.stderr.strip()}")
    return done.stdout


def waits(build):
    command = "lend bench wait --carrier dpdk:memif --seconds 4"
    found = [json.loads(run(build / "lend", *command.split()[1:], "--json")) for _ in range(TURNS)]
    for key, meaning, most in WAITS:
        value = statistics.median(one[key] for one in found)
        yield [f"`{command}`: {meaning}", f"<= {most}", f"{value:.3g}", "" if value <= most else "missed"]


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


def devices(build):
    return {"name": "devices", "title": "Targets of DPDK's devices", "command": "scripts/results.py --devices build",
            "columns": ["what", "target", "measured", ""], "rows": [*waits(build), *shared_lines(build), *scaling(build)], "text": TEXT}
