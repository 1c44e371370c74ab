#!/usr/bin/env python3
"""Keeps all measured figures in apps/bench/results.json and renders them as apps/bench/RESULTS.md and README.md's table.

usage: results.py                      renders both files from results.json
       results.py --check              changes nothing; fails if a file is not what results.json gives
       results.py --bench BUILD [--seconds S] [--note TEXT]     runs the commands of BENCHES first and stores their figures
       results.py --by-reference BUILD [--seconds S] [--note TEXT]  measures PAIRS and RATIOS first and stores the ratios
       results.py --load BUILD [--seconds S] [--note TEXT]      offers the open loops of LOADS first and stores their figures
       results.py --count BUILD [--note TEXT]                   counts instructions (test/perf/count.sh) and stores them
       results.py --elastic BUILD [--note TEXT]  starts workers and functions through a broker and without, and stores the ratios
       results.py --social BUILD [--note TEXT]   measures the arms of the social network (scripts/social_arms.py) and stores the ratios
       results.py --encryption BUILD [--seconds S] [--note TEXT] measures calls, sessions and datagrams sealed and in clear, and stores the ratios
       results.py --training BUILD [--note TEXT]                measures iterations of TRAINING and stores their times
       results.py --netbench FILE [--note TEXT]                 stores the rows of `netbench.sh --json`
       results.py --priority BUILD [--note TEXT]                measures urgent calls next to a transfer and stores the ratios
       results.py --conform FILE [--note TEXT]                  stores what `conform.sh --guest --json` printed
       results.py --reliability FILE [--note TEXT]              stores what `reliability.sh --json` printed
       results.py --devices BUILD [--note TEXT]  measures the targets of DPDK's devices that need no guest and stores them
       results.py --congestion BUILD             runs the simulator's experiments on congestion control and stores their figures
       results.py --mixes BUILD                  the same for messages of W1 to W5, half an hour on two cores
       results.py --targets BUILD [--note TEXT]  measures the targets of congestion control by the simulator and stores them
       results.py --store BUILD [--note TEXT]                   measures the steps of a memory node's store and stores them
       results.py --add FILE [--note TEXT]                      stores a comparison of `compare.py --json` first

A new run replaces the run of the same name; the others keep their date, command and conditions. Short runs have names of
their own, so that they do not replace whole ones.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

import compare_show
from compare_show import number
from compare_targets import BASE, WHY, WHY_PEERS
from results_checks import conformance, priority, reliability
from results_congestion import congestion, mixes, targets, with_stored
from results_devices import devices
from results_encryption import encryption

REPO = pathlib.Path(__file__).resolve().parent.parent
FOLDER = pathlib.Path("apps/bench")
DATA, PAGE = FOLDER / "results.json", FOLDER / "RESULTS.md"
BEGIN, END = "<!-- results -->\n", "<!-- end -->\n"
LIMIT = 120  # timeout of one command in seconds
SHORT = "-quick"  # suffix of the names of short runs, which do not replace whole ones
UNUSED = ("runs", "lend_is_better", "line_ns", "p99_us", "calls_per_s", "gbit_per_s", "p50_us", "other_mode")
CARRIERS = ("shm", "udp", "dpdk:memif")
# Command, keys of its JSON object, what the keys mean.
BENCHES = (
    ("lat --size 64", ("p50_us",), "p50, us"),
    ("rate --size 64 --window 32 --sessions 4", ("calls_per_s",), "calls/s"),
    ("bw --size 8M", ("gbit_per_s",), "Gb/s"),
    ("mem-lat --size 4K", ("call_p50_us", "put_p50_us", "get_p50_us"), "plain call / put / get, p50, us"),
    *((f"chain {shape} --by {way}", ("calls_per_s",), "calls/s")
      for shape in ("--hops 5 --size 32K", "--hops 5 --size 128K", "--hops 5 --size 1M", "--hops 5 --size 1M --fresh", "--hops 10 --size 1M")
      for way in ("value", "ref", "node")),
    *((f"chain --hops 5 --size 1M --by {way}", ("bytes_moved_per_call",), "bytes moved per call") for way in ("value", "ref", "node")),
    ("bench loan --size 16M", ("loan_p50_us",), "p50, us"),
)
FAR = {"far": ", CPUs far apart", "mixed": ", CPUs partly far apart"}  # where a cache line takes longer
PHOTOS = "/usr/share/backgrounds/mate/nature"  # Debian's mate-backgrounds
# Command, key of its JSON object, options of both ways, and by carrier the least ratio of the second to the first.
REFERENCE = ("--by value", "--by ref")
PAIRS = (
    ("chain --hops 5 --size 32K", "calls_per_s", REFERENCE, {"shm": 2, "udp": 2}),
    ("chain --hops 5 --size 128K", "calls_per_s", REFERENCE, {"shm": 3, "udp": 3.5}),
    ("chain --hops 5 --size 1M", "calls_per_s", REFERENCE, {"shm": 5, "udp": 4.5}),
    ("chain --hops 5 --size 1M --fresh", "calls_per_s", REFERENCE, {"shm": 3, "udp": 4}),
    ("chain --hops 10 --size 1M", "calls_per_s", REFERENCE, {"udp": 10}),
    (f"images --repeat 8 {PHOTOS}", "images_per_s", REFERENCE, {"shm": 3, "udp": 3.5}),
    (f"images --repeat 8 {PHOTOS}", "images_per_s", ("--by value", "--pool"), {"shm": 3}),
    (f"images --work nearest --repeat 8 {PHOTOS}", "images_per_s", REFERENCE, {"shm": 8.3, "udp": 4.2}),
    (f"images --work nearest --repeat 8 {PHOTOS}", "images_per_s", ("--by value", "--pool"), {"shm": 8.3}),
)
# Command and key of a ratio that it measures itself, and the largest value of that.
RATIOS = (("mem-lat --one-thread --size 1M", "put_get_release_over_copies", 1.6), ("mem-lat --pool --size 1M", "map_read_over_plain", 1.2))
SWEEP = "chain --sweep --size 16M --hops 1,2,5,10"
TURNS = 5
LOADS = tuple((f"bench load --size 64 --rate {rate}", ("p50_us", "p99_us", "completed_per_s"), "p50 / p99, us / completed per s")
              for rate in (50000, 200000, 500000, 1000000, 2000000, 4000000))
# Command of a training iteration, and the largest ratio of its time to that in FIFO order; None: the first layer is too long.
TRAINING = (("bench training --model resnet50", 0.8), ("bench training --model vit-b16 --scale 8 --rounds 5", 0.8),
            ("bench training --model gpt2 --scale 8 --rounds 5", None))
HEAD = """# Results

All measured figures of Lend. `scripts/results.py` writes this file from `results.json`; do not edit it.

**Machine**: {machine}, unless a section names another. Benchmarks compare the received bytes, and their times are full round trips. "near" and "far" are the
distance of the two CPUs: a cache line there and back takes less than {near} ns, or more.

"""
PEERS = (  # name in README, group, program and lanes, of which the first with a figure counts
    ("Lend, shared memory", "shm", "lend", "shm"),
    ("UCX, shared memory", "shm", "ucx", "posix"),
    ("libfabric, shared memory", "shm", "fabric", "shm"),
    ("Lend, UDP", "net", "lend", "udp"),
    ("gRPC, Unix socket", "shm", "grpc", "async-unix unary-unix"),
)


def table(columns, rows):
    head = "| " + " | ".join(columns) + " |\n|" + "---|" * len(columns) + "\n"
    return head + "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in rows)


def cell(value):
    return number(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def find(run, group, shape, peer, lane):
    key = {"group": group, "shape": shape, "peer": peer, "lane": lane}
    return next((row for row in run["rows"] if key.items() <= row.items()), None)


def measured(row):
    """A median and half of its span, as a cell."""
    if row is None:
        return ""
    if row["median"] is None:
        return "failed"
    text = number(row["median"]) + (f" ±{row['spread'] * 50:.0f} %" if "spread" in row else "")
    if row.get("instructions"):
        text += f", {row['cycles_per_call']:.0f} cycles, {row['instructions']} instructions"
    return text


def render_group(run, group):
    """One table: a row per peer and lane, a column per shape."""
    rows = [row for row in run["rows"] if row["group"] == group]
    shapes = [shape for shape in compare_show.SHAPES if any(row["shape"] == shape for row in rows)]
    figures = {row["shape"]: compare_show.UNITS[row["figure"]] for row in rows}
    peers = dict.fromkeys((row["peer"], row["lane"]) for row in rows)
    body = [[f"{peer} {lane}", *(measured(find(run, group, shape, peer, lane)) for shape in shapes)] for peer, lane in peers]
    heads = [f"{compare_show.SHAPES[shape]}: {figures[shape]}" for shape in shapes]
    return f"\n### Calls {compare_show.TITLES[group]}\n\n" + table(["peer", *heads], body)


def render_targets(targets):
    body = [[t["what"], compare_show.bar(t) and f"{compare_show.bar(t)} {t['unit']}".strip(), number(t["measured"]),
             compare_show.verdict(t) + compare_show.where(t)] for t in targets]
    return "\n### Targets\n\n" + table(["target", "bar", "measured", ""], body)


def render_compare(run):
    out = (f"\n{run['repeats']} turns of {run['seconds']} s each: the median, and half of the span between the turns. "
           "Client and server have a CPU each.\n")
    out += "".join(render_group(run, group) for group in dict.fromkeys(row["group"] for row in run["rows"]))
    out += render_targets(run["targets"])
    return out + "".join(f"\nA check did not hold: {failure}.\n" for failure in run["failures"])


def render_run(run):
    out = f"\n## {run['title']}\n"
    if "columns" in run:
        out += "\n" + table(run["columns"], [[cell(value) for value in row] for row in run["rows"]])
    else:
        out += render_compare(run)
    return out + "".join(f"\n{text}\n" for text in run.get("text", []))


def anchor(title):
    """The fragment by which Markdown viewers know a heading."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def render_page(data):
    runs = [[f"[{run['title']}](#{anchor(run['title'])})", run["date"], f"`{run['command']}`", run["note"]] for run in data["runs"]]
    return (HEAD.format(machine=data["machine"], near=compare_show.NEAR_NS) + table(["section", "date", "command", "conditions"], runs)
            + "".join(render_run(with_stored(run, data["runs"])) for run in data["runs"]))


def render_peers(data):
    """README's table: five rows of the comparison."""
    run = next(run for run in data["runs"] if run["name"] == "compare")
    body = []
    for name, group, peer, lanes in PEERS:
        rows = [next(filter(None, (find(run, group, shape, peer, lane) for lane in lanes.split())), None) for shape in ("echo64", "echo64x64")]
        body.append([name, *(number(row["median"]) + FAR.get(row.get("mode"), "") if row else "-" for row in rows)])
    head = f"[all figures]({PAGE})"
    return table([head, "round trip of a small call, us", "many in flight, calls/s"], body)


def rendered(data):
    """Each file and its contents."""
    readme = (REPO / "README.md").read_text()
    before, rest = readme.split(BEGIN)
    return {PAGE: render_page(data), pathlib.Path("README.md"): before + BEGIN + render_peers(data) + END + rest.split(END, 1)[1]}


def bench_once(build, command, carrier, seconds):
    """The object that a command prints, or None."""
    timed = [] if command.startswith("images") else ["--seconds", str(seconds)]
    argv = [build / "lend", *command.split(), "--carrier", carrier, *timed, "--json"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        print(f"results: lend {command} --carrier {carrier}: {done.stderr.strip()}", file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def bench(build, seconds, option="--bench", name="bench", title="Lend's own benchmarks", benches=BENCHES):
    """The commands of benches over each carrier, as one run."""
    got, rows = {}, []
    for command, keys, meaning in benches:
        row = [f"`lend {command}`: {meaning}"]
        for carrier in CARRIERS:
            if (command, carrier) not in got:
                got[command, carrier] = bench_once(build, command, carrier, seconds)
            found = got[command, carrier]
            row.append(" / ".join(number(found[key]) for key in keys) if found else "failed")
        rows.append(row)
    short = seconds < 2
    return {"name": name + SHORT * short, "title": title + ", short run" * short, "command": f"scripts/results.py {option} build --seconds {seconds}",
            "columns": ["command", *CARRIERS], "rows": rows}


def ratio_cell(ratios):
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def over_base(build, base, seconds):
    """Rates of long payloads over those of another build, in turns."""
    rows = []
    for way, bar in (("value", 1), ("ref", 4)):
        for carrier in ("shm", "udp"):
            command = f"chain --hops 5 --size 1M --by {way}"
            pairs = [[bench_once(one, command, carrier, seconds) for one in (base, build)] for _ in range(TURNS)]
            rates = [[got["calls_per_s"] for got in pair] for pair in pairs if all(pair)]
            rows.append([f"`lend {command} --carrier {carrier}`: over that of {BASE}", *(statistics.median(way) for way in zip(*rates)),
                         ratio_cell([new / old for old, new in rates]), f">= {bar}"])
    return rows


def by_reference(build, seconds, base):
    """By reference over by value, as a run: the median of the ratios of turns, in which both follow each other."""
    rows = over_base(build, base, seconds) if base else []
    for command, key, ways, bars in PAIRS:
        for carrier, bar in bars.items():
            pairs = [[bench_once(build, f"{command} {way}", carrier, seconds) for way in ways] for _ in range(TURNS)]
            rates = [[got[key] for got in pair] for pair in pairs if all(pair)]
            rows.append([f"`lend {command.replace(PHOTOS, 'DIR')} --carrier {carrier}`: {ways[1]} over {ways[0]}",
                         *(statistics.median(way) for way in zip(*rates)), ratio_cell([other / first for first, other in rates]), f">= {bar}"])
    for command, key, bar in RATIOS:
        turns = [bench_once(build, command, "shm", seconds) for _ in range(TURNS)]
        rows.append([f"`lend {command}`: {key}", "", "", ratio_cell([got[key] for got in turns if got]), f"<= {bar}"])
    for carrier in CARRIERS:
        got = bench_once(build, SWEEP, carrier, 20 * seconds)
        if got:
            rows.append([f"`lend {SWEEP} --carrier {carrier}`: --by auto over the best other way", "", "",
                         f"least {got['least']:.2f}; {got['at_least_0_9']} of {got['cells']} at least 0.9", ">= 0.75; 95 % at least 0.9"])
    return {"name": "by-reference", "title": "By reference over by value",
            "command": f"scripts/results.py --by-reference build{' --base BUILD' * bool(base)} --seconds {seconds}",
            "columns": ["command", "first, per s", "second, per s", f"ratio, median of {TURNS} turns", "target"], "rows": rows,
            "text": [f"DIR is {PHOTOS}, BUILD that of a worktree of {BASE}."]}


def elastic(build):
    """Workers and functions that start through a broker, over those that start DPDK's EAL, as a run."""
    rows = []
    for command in (["scripts/elastic.sh", str(build), "--rounds", "9", "--json"], [str(build / "lend"), "bench", "elastic", "--json"]):
        got = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT, cwd=REPO).stdout)
        text = " ".join(command[:-1]).replace(str(build), "build").replace("build/lend", "lend")
        rows += [[f"`{text}`: {what}", *(number(got[f"{way}_{key}"]) for way in ("broker", "own")), f"{got[ratio]:.3f}", target]
                 for what, key, ratio, target in (("workers serve, ms", "spike_ms", "spike_ratio", "<= 0.17"),
                                                  ("function replies, us", "function_us", "function_ratio", "<= 0.01"),
                                                  ("its carrier is open, us", "attach_us", "attach_ratio", ""),
                                                  ("its 1 MiB is there, us", "fetch_us", "fetch_ratio", ""))]
    return {"name": "elastic", "title": "Workers and functions that start", "command": "scripts/results.py --elastic build",
            "columns": ["command", "through a broker", "own EAL", "ratio, median of turns", "target"], "rows": rows,
            "text": ["A function's target is missed: exec and the transfer of 1 MiB are more than a hundredth of a start of EAL: a process with a "
                     "device of its own needs 5 ms for the transfer after 307 ms for that start, and exec takes 1.3 ms. "
                     "memif is a link per pair of processes, which each process that attaches must first set up with the node and its caller."]}


def social_profile(build, folder, *args):
    """CPU time of the social network's parts per request, by arm."""
    subprocess.run([str(REPO / "scripts/social_profile.py"), str(build), "--json", f"{folder}/profile.json", *args], check=True, timeout=LIMIT,
                   stdout=subprocess.DEVNULL)
    return json.loads(pathlib.Path(folder, "profile.json").read_text(encoding="ascii"))


def social_parts(build, folder):
    """Rows of the time that calls and encoding take."""
    compose = social_profile(build, folder, "--mix", "0/0/100", "--rate", "600", "--arm", "value")["value"]
    mix = social_profile(build, folder)
    saved = []
    for workload, rate in (("articles", "300"), ("embedded", "150")):
        got = social_profile(build, folder, "--workload", workload, "--carrier", "udp", "--rate", rate, "--arm", "value", "--arm", "auto")
        value, auto = got["value"], got["auto"]
        ratio = (value.get("encoding", 0) - auto.get("encoding", 0)) / (value["total"] - auto["total"])
        saved.append([f"{workload}, udp, auto over value", "encoding, of the CPU time saved", f"{ratio:.2f}", ""])
    subprocess.run([str(REPO / "scripts/social_trace.py"), str(build), "--json", f"{folder}/trace.json"], check=True, timeout=LIMIT, stdout=subprocess.DEVNULL)
    traced = json.loads(pathlib.Path(folder, "trace.json").read_text(encoding="ascii"))
    return [["original, shm, a compose, by value, 1 % of the calls traced over none", "instructions at the gateway",
             f"{traced['0.01'] / traced['0']:.3f}", "<= 1.01"],
            ["original, shm, a compose of text, by value", "CPU time in Lend over all", f"{compose['calls'] / compose['total']:.2f}", "<= 0.25"],
            ["original, shm, grpc over value", "CPU time in calls", f"{mix['grpc']['calls'] / mix['value']['calls']:.2f}", ">= 4"], *saved]


def social(build):
    """The arms of the social network, as ratios, as a run."""
    command = ["scripts/social_arms.py", str(build), "--all", "--ramps", "2", "--rounds", "3", "--seconds", "1", "--json", "social.json", "--output", "social.html"]
    with tempfile.TemporaryDirectory() as folder:
        command[0] = str(REPO / command[0])
        subprocess.run([*command[:2], "--json", "short.json"], check=True, timeout=10 * LIMIT, cwd=folder, stdout=subprocess.DEVNULL)
        short = json.loads(pathlib.Path(folder, "short.json").read_text(encoding="ascii"))
        subprocess.run(command, check=True, timeout=30 * LIMIT, cwd=folder, stdout=subprocess.DEVNULL)
        got = json.loads(pathlib.Path(folder, "social.json").read_text(encoding="ascii"))
        parts = social_parts(build, folder)
    return {"name": "social", "title": "A social network, by value and by reference", "command": "scripts/results.py --social build",
            "columns": ["workload", "what", "ratio", "target"],
            "rows": [[name, what, f"{ratio:.2f}", target] for name, what, ratio, target in got["ratios"]] + parts +
            [["`scripts/social.sh`, without installing and building", "seconds", f"{short['seconds']:.0f}", "<= 180"]],
            "text": [f"`{got['runs'][0]['command']}` and the like, all arms of one run in turns. `value` and `auto` are Lend's, `auto` with bytes from 8 KiB "
                     "by reference; in `pool` readers map the memory node's pages. `embedded` has 962 users "
                     "(9,620 posts, 630 MB), the others 100. Saturation is what was held for 1.5 s. Over gRPC the CPU time has the way of each event from gRPC's queue to the "
                     "thread of the handlers. CPU time by part: `scripts/social_profile.py`; instructions with tracing: `scripts/social_trace.py`.",
                     "In `original` value and auto send the same bytes; `again` is by value a second time, and its ratios are the error of the "
                     "measurement: its stores write to disk each second, which takes about as long as the p99.",
                     "The memory node takes its memory before the load begins (`--populate`); over shm its readers read the pages in place (`--memory "
                     "shared`). A retransmitted datagram counts as moved bytes. Photos and articles over udp: at 60 % of saturation both arms "
                     "spend some CPU time on adaptive spinning, which brings the ratio of requests per CPU second nearer to 1. Embedded over udp: "
                     "64 KB cost as much from the node as over one hop by value, half of it for AES and copies; in addition, a read by "
                     "reference has four hops of short messages, and a compose its writes to LMDB, as by value.", *got["notes"]]}


def netbench(file):
    """Congestion on real stacks, as a run."""
    columns = ("lend", "simulator", "cubic", "bbr", "quic")
    rows = [[f"{row['row']}, {row['unit']}", *(number(row[c]) if isinstance(row.get(c), (int, float)) else row.get(c, "") for c in columns), row["target"] + ("" if row["ok"] else ": missed")]
            for row in json.loads(file.read_text())["rows"]]
    return {"name": "netbench", "title": "Congestion on real stacks", "command": "scripts/netbench.sh",
            "columns": ["row", "Lend over udp", "simulator", "TCP cubic", "TCP BBR", "QUIC (ngtcp2, cubic)", "target"], "rows": rows,
            "text": ["Network namespaces at a switch program: see [test/net](../../test/net/README.md). Lend's rate counts whole messages of 1 MiB, of "
                     "which eight are in flight, in 5 s: so it can exceed 100 %.",
                     "7 hosts: 256 calls in flight each, in two sessions. Nine processes share two CPUs here; the simulator's hosts need no CPU time, but each "
                     "has one session. 1,792 calls in flight take 1,792 / rate on average: at 94,000 to 185,000 calls/s (five runs on an idle machine) 10 to 19 ms. "
                     "A datagram carries 7.5 to 9.5 requests, and costs both CPUs together 80 to 190 us there and back. Calls wait for these, not for the network: in the two slowest "
                     "runs 99 % of the frames left the server's port within 5 ms, in one of them within 0.3 ms."]}


def table_of(command):
    """The columns and rows of the Markdown table that a command prints."""
    lines = subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPO).stdout.splitlines()
    rows = [[part.strip() for part in line.strip("| ").split("|")] for line in lines if line.startswith("| ")]
    return rows[0], rows[1:]


def store_steps(build):
    """The steps of a memory node's store, and those among few and many references, as a run."""
    columns, rows = table_of([build / "perf_store_step"])
    scale = subprocess.run([build / "test/test_unit_store_scale", "--filter", "store_scale/a_million*"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"get (\d+) ns among (\d+), (\d+) ns among (\d+); release and seal (\d+) ns, (\d+) ns", scale).groups()
    few, many = f"{int(found[1]):,}", f"{int(found[3]):,}"
    rows += [[f"get among {few} : among {many} references", f"{int(found[0]) / 1e3:.3f} : {int(found[2]) / 1e3:.3f}", ""],
             [f"release and seal among {few} : among {many}", f"{int(found[4]) / 1e3:.3f} : {int(found[5]) / 1e3:.3f}", ""]]
    return {"name": "store", "title": "Store steps", "command": "scripts/results.py --store build", "columns": columns, "rows": rows}


def training(build):
    """Iteration times with priorities by layer and in FIFO order, as a run."""
    rows = []
    for command, bar in TRAINING:
        done = subprocess.run([build / "lend", *command.split(), "--json"], capture_output=True, text=True, check=True)
        got = json.loads(done.stdout)
        rows.append([f"`lend {command}`", *(got[key] for key in ("compute_ms", "transfer_ms", "iteration_ms", "iteration_ms_fifo", "ratio", "bound_ratio")),
                     f"<= {bar}" if bar else ""])
    return {"name": "training", "title": "Training iterations over a shaped link", "command": "scripts/results.py --training build",
            "columns": ["command", "compute, ms", "transfer, ms", "iteration by layer, ms", "in FIFO order, ms", "ratio", "without delays", "target"], "rows": rows,
            "text": ["Without delays: the ratio of the two orders over a link that sends whole slices and nothing else. gpt2's embedding, a third of its "
                     "parameters, is ready last and needed first: no order hides it, so 0.8 cannot be reached. vit-b16 would "
                     "reach 0.766 without delays."]}


def count(build):
    """The table of test/perf/count.sh, as a run."""
    columns, rows = table_of(["test/perf/count.sh", "--build", build])
    rows += [[f"the peer window's part of a call, {what}", n] for what, n in table_of(["test/perf/window_cost.sh", build])[1]]
    return {"name": "instructions", "title": "Instructions per call", "command": "scripts/results.py --count build",
            "columns": columns, "rows": rows, "text": WHY}


def comparison(result, by_reference=False):
    """What compare.py measured, as a run."""
    rows = [{key: value for key, value in row.items() if key not in UNUSED} for row in result["rows"]]
    for row in rows:
        if not row.get("instructions"):
            row.pop("instructions", None)
            row.pop("cycles_per_call", None)
    short = result["repeats"] < 5 or result["seconds"] < 0.5
    name, title, option = (("reference", "Passing by reference, next to other ways", " --by-reference") if by_reference else
                           ("compare", "Lend next to other libraries", ""))
    return {**result, "rows": rows, "name": name + SHORT * short, "title": title + ", short run" * short,
            "text": [] if by_reference else WHY + WHY_PEERS,
            "command": f"scripts/compare.sh{option}{' --base BUILD' * any(row['peer'] == 'base' for row in rows)} --repeats {result['repeats']} --seconds {result['seconds']} --results"}


def store(data, run, note):
    """Puts a new run in the place of the old one of its name, or behind the whole run that it is a short form of."""
    load = os.getloadavg()[1]
    run.update(date=datetime.date.today().isoformat(), note=note or f"load average {load:.0f} on {os.cpu_count()} CPUs")
    if machine() != data["machine"]:
        run["note"] += f"; {machine()}"
    for i, old in enumerate(data["runs"]):
        if old["name"] == run["name"]:
            data["runs"][i] = run
            return
    names = [old["name"] for old in data["runs"]]
    whole = run["name"].removesuffix(SHORT)
    data["runs"].insert(names.index(whole) + 1 if whole in names else 0, run)


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    flags = next((line for line in open("/proc/cpuinfo") if line.startswith("flags")), "")
    return f"{os.cpu_count()} {'virtual ' if 'hypervisor' in flags else ''}CPUs, {model}, Linux {'.'.join(platform.release().split('.')[:2])}"


def layout(value, indent="\n"):
    """JSON with one line for each object or list that contains no others."""
    parts = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (dict, list)) or not any(isinstance(part, (dict, list)) for part in parts):
        return json.dumps(value, ensure_ascii=False)
    deeper = indent + " "
    if isinstance(value, dict):
        return "{" + deeper + f",{deeper}".join(f"{json.dumps(key)}: {layout(part, deeper)}" for key, part in value.items()) + indent + "}"
    return "[" + deeper + f",{deeper}".join(layout(part, deeper) for part in value) + indent + "]"


def write(data):
    (REPO / DATA).write_text(layout(data) + "\n")
    for name, text in rendered(data).items():
        (REPO / name).write_text(text)


def add(run, note=""):
    """Stores a run and renders."""
    data = json.loads((REPO / DATA).read_text())
    store(data, run, note)
    write(data)


def check():
    """The number of files that are not what results.json gives."""
    stale = [name for name, text in rendered(json.loads((REPO / DATA).read_text())).items() if (REPO / name).read_text() != text]
    for name in stale:
        print(f"{name} is not what {DATA} gives: run scripts/results.py", file=sys.stderr)
    return len(stale)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--bench", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--by-reference", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--base", type=pathlib.Path, metavar="BUILD", help=f"also over this build, of {BASE}")
    parser.add_argument("--load", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--count", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--elastic", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--social", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--encryption", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--training", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--devices", type=pathlib.Path, metavar="BUILD", help="five minutes")
    parser.add_argument("--netbench", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--priority", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--conform", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--reliability", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--store", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--congestion", type=pathlib.Path, metavar="BUILD", help="five minutes on two cores")
    parser.add_argument("--mixes", type=pathlib.Path, metavar="BUILD", help="half an hour on two cores")
    parser.add_argument("--targets", type=pathlib.Path, metavar="BUILD", help="ten minutes")
    parser.add_argument("--add", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--note", default="", help="load of the machine during the run")
    args = parser.parse_args()
    if args.check:
        return 1 if check() else 0
    if args.add:
        add(comparison(json.loads(args.add.read_text())), args.note)
    if args.bench:
        add(bench(args.bench.resolve(), args.seconds), args.note)
    if args.by_reference:
        add(by_reference(args.by_reference.resolve(), args.seconds, args.base and args.base.resolve()), args.note)
    if args.load:
        add(bench(args.load.resolve(), args.seconds, "--load", "load", "Open loop: latency at the load that is offered", LOADS), args.note)
    if args.elastic:
        add(elastic(args.elastic.resolve()), args.note)
    if args.social:
        add(social(args.social.resolve()), args.note)
    if args.encryption:
        add(encryption(args.encryption.resolve(), args.seconds), args.note)
    if args.training:
        add(training(args.training.resolve()), args.note)
    if args.devices:
        add(devices(args.devices.resolve()), args.note)
    if args.netbench:
        add(netbench(args.netbench), args.note)
    if args.priority:
        add(priority(args.priority.resolve()), args.note)
    if args.conform:
        add(conformance(args.conform), args.note)
    if args.reliability:
        add(reliability(args.reliability), args.note)
    if args.store:
        add(store_steps(args.store.resolve()), args.note)
    if args.congestion:
        run = congestion(args.congestion.resolve())
        add(run, run["note"])
    for run in mixes(args.mixes.resolve()) if args.mixes else ():
        add(run, run["note"])
    if args.targets:
        add(targets(args.targets.resolve()), args.note)
    if args.count:
        add(count(args.count.resolve()), args.note)
    write(json.loads((REPO / DATA).read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
