"""The section on encryption of apps/bench/RESULTS.md: sealed over clear, in turns of one run."""
import json
import os
import re
import statistics
import subprocess
import tempfile

from compare_show import number

COMMAND = "scripts/results.py --encryption build"
LIMIT = 120  # timeout of one command in seconds
TURNS, BURSTS = 9, 3
# What, command without its level, key, levels of clear and sealed, target of the second over the first.
LEND = (
    ("64 B, 32 in flight, two threads", "rate --size 64 --window 32 --carrier udp", "calls_per_s", 0.93),
    ("64 B, 32 in flight, one thread", "rate --size 64 --window 32 --one-thread --carrier udp", "calls_per_s", 0.93),
    ("8 MiB, two threads", "bw --size 8M --carrier udp", "gbit_per_s", 0.85),
    ("8 MiB, one thread", "bw --size 8M --one-thread --carrier udp", "gbit_per_s", 0.75),
)
RINGS = (
    ("32 B in calls that share datagrams", "-c ring -s 32 -r 8 -w 32", 0.75),
    ("32 B, one call per datagram", "-c ring -s 32 -r 8 -w 32 -S 32", 0.45),
)
BURST = {("AES-128-GCM", "64"): "<= 30 ns", ("AES-128-GCM", "1472"): "<= 120 ns"}
LATENCY = ("lat --carrier udp", "peer-grpc --lane async-tls --request 64 --window 1", 3)
FLOOD = (200000, 10, ">= 90 %, 0 bytes of state each")
CONNECT = {"resumed": "<= 40 us", "NNpsk0": "<= 200 us", "NKpsk2": "<= 280 us"}


def run(command, level=None):
    env = dict(os.environ, LEND_MODULE_DIR=str(command[0].parent))
    if level:
        env["LEND_LEVEL"] = level
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT, env=env).stdout


def turns_of(measure, levels):
    """Pairs of figures, the first clear; each turn measures both, the other one first than the turn before."""
    pairs = []
    for turn in range(TURNS):
        got = {level: measure(level) for level in (levels if turn % 2 else levels[::-1])}
        pairs.append([got[level] for level in levels])
    return pairs


def ratio_row(what, command, unit, pairs, over, bar):
    ratios = [over(*pair) for pair in pairs]
    return [f"`{command}`: {what}", *(f"{number(statistics.median(way))} {unit}" for way in zip(*pairs)),
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", f">= {bar}"]


def sealed_over_clear(build, seconds):
    rows = []
    for what, command, key, bar in LEND:
        argv = [build / "lend", *command.split(), "--seconds", str(seconds), "--json"]
        pairs = turns_of(lambda level: json.loads(run(argv, level).splitlines()[-1])[key], ("none", "encrypt"))
        rows.append(ratio_row(what, f"lend {command}", "calls/s" if key == "calls_per_s" else "Gb/s", pairs, lambda clear, sealed: sealed / clear, bar))
    for what, command, bar in RINGS:
        argv = [build / "perf_rpc_call", *command.split(), "-n", str(int(400000 * seconds))]
        pairs = turns_of(lambda level: float(run(argv, level).split()[0]), ("none", "encrypt+local"))
        rows.append(ratio_row(what, f"perf_rpc_call {command}", "cycles", pairs, lambda clear, sealed: clear / sealed, bar))
    return rows


def bursts(build):
    """The least of a few runs, in ns per datagram: the layer, its cipher library alone, OpenSSL's EVP."""
    least = {}
    for _ in range(BURSTS):
        for line in run([build / "perf_seal_burst"]).splitlines():
            suite, size = re.match(r"(\S+), (\d+) B: ", line).groups()
            ns = [int(n) for n in re.findall(r"(?:seal|open) (\d+)", line)]
            least[suite, size] = [min(pair) for pair in zip(ns, least.get((suite, size), ns))]
    return [[f"`perf_seal_burst`: {suite}, {int(size):,} B, seal / open", f"OpenSSL EVP {ns[4]} / {ns[5]} ns", f"{ns[0]} / {ns[1]} ns",
             f"its library alone {ns[2]} / {ns[3]} ns", BURST.get((suite, size), "")] for (suite, size), ns in least.items()]


def connects(build):
    """Medians of the time to open a session, both ends in one thread; last, their cryptography alone."""
    found = {kind: rest for kind, *rest in re.findall(r"(\S.*\S) +p50 +([\d.]+) us.* alone ([\d.]+) us", run([build / "perf_session_open", "-n", "1000"]))}
    return [[f"`perf_session_open`: {kind}, p50", f"{found['in clear'][0]} us", f"{found[kind][0]} us", f"cryptography alone {found[kind][1]} us", bar]
            for kind, bar in CONNECT.items()]


def over_grpc(build, seconds):
    """One call at a time, each end polling on a CPU of its own: gRPC C++ with TLS over Lend, sealed."""
    command, peer, bar = LATENCY
    argv = {"lend": [build / "lend", *command.split(), "--seconds", str(seconds), "--json"],
            "grpc": [build / peer.split()[0], *peer.split()[1:], "--seconds", str(seconds), "--json"]}
    if not argv["grpc"][0].exists():
        return []
    pairs = turns_of(lambda who: json.loads(run(argv[who], "encrypt").splitlines()[-1])["p50_us"], ("grpc", "lend"))
    row = ratio_row("64 B, p50", f"lend {command}", "us", pairs, lambda grpc, lend: grpc / lend, bar)
    row[1] = f"gRPC C++ with TLS, `{peer}`: {row[1]}"
    return [row]


def flooded(build):
    """Live calls next to a flood, which has a CPU with them and the server another: forged CONNECTs over noise that is as long, the kernel's part."""
    rate, seconds, bar = FLOOD
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, LEND_MODULE_DIR=str(build), LEND_LEVEL="encrypt", LEND_KEYS=f"{folder}/keys")
        subprocess.run([build / "lend", "keygen", env["LEND_KEYS"]], check=True, capture_output=True, env=env)
        server = subprocess.Popen(["taskset", "-c", "0", build / "lend", "serve", "udp:127.0.0.1:0"], stdout=subprocess.PIPE, text=True, env=env)
        command = ["taskset", "-c", "1", build / "lend", "flood", server.stdout.readline().split()[1], "--rate", str(rate), "--seconds", str(seconds),
                   "--watch", "--json"]
        try:
            found = [json.loads(subprocess.run(command + kinds, check=True, capture_output=True, text=True, timeout=LIMIT, env=env).stdout)
                     for kinds in (["--kinds", "noise"], [])]
        finally:
            server.terminate()
            server.communicate(timeout=20)
    noise, forged = [f"{100 * one['goodput_during']:.1f} %, p50 {number(one['p50_us_during'])} us, p99 {number(one['p99_us_during'])} us" for one in found]
    return [[f"`lend flood --rate {rate} --seconds {seconds} --watch`: live calls answered in 100 ms, of those due", f"noise as long: {noise}", f"forged CONNECTs: {forged}",
             f"{found[1]['goodput_during'] / found[0]['goodput_during']:.2f}", bar]]


def encryption(build, seconds):
    return {"name": "encryption", "title": "Encryption", "command": f"{COMMAND} --seconds {seconds:g}",
            "columns": ["command", "in clear", "sealed", f"ratio, median of {TURNS} turns", "target"],
            "rows": bursts(build) + sealed_over_clear(build, seconds) + connects(build) + over_grpc(build, seconds) + flooded(build)}
