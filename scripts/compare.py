#!/usr/bin/env python3
"""Runs Lend and its peers in turns and prints rows, ratios and targets; see compare.sh --help.

usage: compare.py BUILD [--base BUILD] [--quick] [--json] [--only WORD]... [--repeats N] [--seconds S] [--results]
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import compare_show
import compare_targets
import results
from compare_targets import ONE_THREAD

os.environ.setdefault("LEND_LEVEL", "none")  # as all peers; results_encryption.py has the cost of sealed calls
LIMIT = 120  # seconds for one run
TRIES = 3  # of a run with failed self checks
COUNTED_MAX = 64 << 10  # bytes of the longest request that is counted
COUNTED = 500, 1500  # calls of two runs, the difference of which is counted
# Counts the turns of both ends, without the calibration of the clock, which lasts a fixed time.
COUNT = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no", "--toggle-collect=run_turn"]

# name: bytes of request and reply, requests in flight, further options, and the figure that is compared.
SHAPES = {
    "echo64": (64, 64, 1, [], "p50_us"),
    "call32": (32, 8, 1, [], "p50_us"),
    "echo64x64": (64, 64, 64, [], "calls_per_s"),
    "call32x64": (32, 8, 64, [], "calls_per_s"),
    "call966x64": (966, 8, 64, [], "calls_per_s"),
    "echo4k": (4 << 10, 4 << 10, 1, [], "p50_us"),
    "call64kx16": (64 << 10, 8, 16, [], "gbit_per_s"),
    "send1m": (1 << 20, 8, 4, ["--rewrite"], "gbit_per_s"),
    "send8m": (8 << 20, 8, 2, ["--rewrite"], "gbit_per_s"),
    "send8m_ends": (8 << 20, 8, 2, ["--rewrite", "--ends"], "gbit_per_s"),
    "sleep64": (64, 64, 1, ["--sleep"], "p50_us"),
    "ref64k": (64 << 10, 8, 1, ["--rewrite"], "p50_us"),
    "ref1m": (1 << 20, 8, 1, ["--rewrite"], "p50_us"),
    "ref16m": (16 << 20, 8, 1, ["--rewrite"], "p50_us"),
    "ref16m_ends": (16 << 20, 8, 1, ["--rewrite", "--ends"], "p50_us"),
}
ONE = ["echo64", "call32", "echo4k"]
MANY = ["echo64x64", "call32x64"]
LONG = ["send1m", "send8m", "send8m_ends"]
RING = ["call32x64", "call966x64", "call64kx16"]
REFERENCE = ["ref64k", "ref1m", "ref16m", "ref16m_ends"]
# Program, lane, group, shapes. The runs of a group are compared with its first run.
RUNS = [
    ("lend", "shm", "shm", ONE + MANY + LONG + ["sleep64"]),
    ("memcpy", "memory", "shm", LONG),
    ("ucx", "posix", "shm", ONE + MANY + LONG + ["sleep64"]),
    ("ucx", "rkey", "shm", LONG),
    ("ucx", "shm", "shm", LONG),
    ("fabric", "shm", "shm", ONE + MANY + LONG),
    ("grpc", "async-unix", "shm", ONE + MANY + ["send1m", "send8m", "sleep64"]),
    ("grpc", "unary-unix", "shm", ["sleep64"]),
    ("grpc", "stream-unix", "shm", MANY),
    ("lend", "udp", "net", ONE + MANY + LONG + ["sleep64"]),
    ("kernel", "udp", "net", ONE + MANY + ["sleep64"]),
    ("ucx", "tcp", "net", ONE + MANY + LONG + ["sleep64"]),
    ("fabric", "tcp", "net", ONE + MANY + LONG + ["sleep64"]),
    ("fabric", "udp", "net", ONE + MANY + ["send1m"]),
    ("grpc", "async-tcp", "net", ONE + MANY + ["send1m", "send8m", "sleep64"]),
    ("grpc", "unary-tcp", "net", ["sleep64"]),
    ("grpc", "stream-tcp", "net", MANY),
    ("lend", "memif", "memif", ONE + MANY + LONG + ["call64kx16"]),
    ("ethdev", "memif", "memif", ["echo64", "call32"] + MANY),
    ("ethdev", "memif-packed", "memif", MANY),
    ("memcpy", "memory", "memif", ["call64kx16"]),
    ("lend", "ring", "ring", RING),
    ("ethdev", "ring", "ring", ["call32x64", "call966x64"]),
    ("ethdev", "ring-packed", "ring", ["call32x64", "call966x64"]),
    ("memcpy", "memory", "ring", RING),
]
# The runs of --base: the program of another build of Lend.
BASE_RUNS = [("base", "ring", "ring", RING[:2]), ("base", "udp", "net", MANY)]
# The runs of --by-reference.
BY_REFERENCE = [
    ("lend_ref", "loan", "reference", REFERENCE),
    ("posix", "shm", "reference", REFERENCE),
    ("iceoryx2", "shm", "reference", REFERENCE),
    ("lend_ref", "pool", "reference", REFERENCE),
    ("lend_ref", "node", "reference", REFERENCE),
    ("redis", "unix", "reference", REFERENCE),
    ("ray", "plasma", "reference", REFERENCE),
    ("lend_ref", "udp", "reference", REFERENCE),
    ("lend", "shm", "reference", REFERENCE[:2]),
    ("lend", "udp", "reference", REFERENCE[:2]),
]


class Row:
    """One shape in one group: its runs, in turns."""

    def __init__(self, group, shape):
        self.group, self.shape, self.runs = group, shape, {}
        self.request, self.reply, self.window, self.options, self.figure = SHAPES[shape]

    def name(self):
        return f"{self.group} {self.shape}"

    def command(self, path_of, who, *duration):
        program, lane = who
        return [str(path_of(program)), "--lane", lane, "--request", str(self.request), "--reply",
                str(self.reply), "--window", str(self.window), *map(str, duration), "--json", *self.options]

    def ratio(self, who, base, figure):
        """One's figure over the other's, and how far apart the cores were: the median of the turns in which both ran at the
        distance that most of them had. None without such a turn."""
        pairs = [(a, b) for a, b in zip(self.runs.get(who, []), self.runs.get(base, [])) if a and b]
        turns = [(a[figure] / b[figure], mode) for a, b in pairs if (mode := common(a["mode"], b["mode"]))]
        if not turns:
            return None
        mode = statistics.mode(mode for _, mode in turns)
        return statistics.median(ratio for ratio, m in turns if m == mode), mode

    def times_better(self, who):
        """How many times better Lend is."""
        lend = next(iter(self.runs))
        if who == lend or not lend[0].startswith("lend"):
            return None
        got = self.ratio(who, lend, self.figure) if self.figure == "p50_us" else self.ratio(lend, who, self.figure)
        return got and got[0]


def mode_of(run):
    if run["one_thread"]:
        return ONE_THREAD
    modes = {"near" if run[f"line_ns_{when}"] < compare_show.NEAR_NS else "far" for when in ("before", "after")}
    return modes.pop() if len(modes) == 1 else "mixed"


def common(a, b):
    """The distance at which two runs can be compared; one thread has none."""
    if ONE_THREAD in (a, b):
        return b if a == ONE_THREAD else a
    return a if a == b != "mixed" else None


def run_once(row, path_of, who, seconds):
    """The program's output, or the line with the reason why there is none."""
    try:
        done = subprocess.run(row.command(path_of, who, "--seconds", seconds), capture_output=True, text=True, errors="replace", timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return None, f"took longer than {LIMIT} s"
    lines = done.stdout.strip().splitlines()
    if not lines or not lines[-1].startswith("{"):
        return None, (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
    run = json.loads(lines[-1])
    run["mode"] = mode_of(run)
    wrong = [check for check in ("check_in_flight", "check_order", "check_work") if not run[check]]
    if run["wrong_bytes"]:
        wrong.append(f"{run['wrong_bytes']} wrong bytes")
    return run, ", ".join(wrong)


def instructions(row, path_of, who):
    """Instructions per call of a run in one thread, counted by callgrind as the difference of two runs; None: no valgrind."""
    counts = []
    for calls in COUNTED:
        command = [*COUNT, *row.command(path_of, who, "--count", calls)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LIMIT)
        except (OSError, subprocess.TimeoutExpired):
            return None
        collected = re.search(r"Collected : (\d+)", done.stderr)
        if done.returncode or not collected:
            return None
        counts.append(int(collected[1]))
    return round((counts[1] - counts[0]) / (COUNTED[1] - COUNTED[0]))


class Comparison:
    def __init__(self, build, base, repeats, seconds, runs):
        self.candidates = runs + (BASE_RUNS if base else [])
        self.build, self.base, self.repeats, self.seconds = build, base, repeats, seconds
        self.rows, self.failures, self.absent = [], [], set()

    def plan(self, only):
        for group in dict.fromkeys(group for _, _, group, _ in self.candidates):
            for shape in SHAPES:
                row = Row(group, shape)
                row.runs = {(program, lane): [] for program, lane, g, shapes in self.candidates
                            if g == group and shape in shapes and self.is_built(program)}
                words = [w for w in only if w in row.name().split()]
                peers = [w for w in only if any(w == who[0] for who in row.runs)]
                if only and not words:
                    row.runs = {who: [] for who in row.runs if who[0] in peers + ["lend"]} if peers else {}
                if row.runs:
                    self.rows.append(row)

    def path_of(self, program):
        return self.base / "peer-lend" if program == "base" else self.build / f"peer-{program}"

    def is_built(self, program):
        if self.path_of(program).exists():
            return True
        self.absent.add(program)
        return False

    def take(self, row, who):
        run = said = None
        for _ in range(TRIES):
            run, said = run_once(row, self.path_of, who, self.seconds)
            if not said:
                break
        if said:
            self.failures.append(f"{row.name()}, {' '.join(who)}: {said}")
        return run

    def run(self):
        total, done, began = self.repeats * sum(len(row.runs) for row in self.rows), 0, time.monotonic()
        for row in self.rows:
            for turn in range(self.repeats):
                for who, runs in row.runs.items():
                    compare_show.progress(done, total, time.monotonic() - began, f"{row.name()}: {' '.join(who)}")
                    # A run that failed in the first turn is not repeated.
                    runs.append(self.take(row, who) if turn == 0 or runs[0] else None)
                    done += 1
        compare_show.progress_end()

    def row(self, group, shape):
        return next((row for row in self.rows if (row.group, row.shape) == (group, shape)), None)

    def figure(self, group, shape, who, key):
        """The median of its turns and their distance, or None."""
        row = self.row(group, shape)
        runs = of_common_mode(row.runs.get(who, [])) if row else []
        return (statistics.median(run[key] for run in runs), runs[0]["mode"]) if runs else None

    def ratio(self, group, shape, who, base, key):
        row = self.row(group, shape)
        return row.ratio(who, base, key) if row else None


def of_common_mode(runs):
    """The runs at the most frequent distance of their cores."""
    runs = [run for run in runs if run]
    mode = statistics.mode(run["mode"] for run in runs) if runs else None
    return [run for run in runs if run["mode"] == mode]


def summary(row, who, path_of):
    """A line of the table."""
    runs = of_common_mode(row.runs[who])
    line = {"group": row.group, "shape": row.shape, "peer": who[0], "lane": who[1], "figure": row.figure, "runs": row.runs[who],
            "median": None}
    if not runs:
        return line
    for key in ("p50_us", "p99_us", "calls_per_s", "gbit_per_s", "cycles_per_call"):
        line[key] = statistics.median(run[key] for run in runs)
    line["median"] = line[row.figure]
    values = [run[row.figure] for run in runs]
    line["spread"] = (max(values) - min(values)) / line["median"]
    line["lend_is_better"] = row.times_better(who)
    line["mode"] = runs[0]["mode"]
    line["instructions"] = instructions(row, path_of, who) if line["mode"] == ONE_THREAD and row.request <= COUNTED_MAX else None
    line["other_mode"] = sum(run is not None for run in row.runs[who]) - len(runs)
    line["line_ns"] = [statistics.median(run[f"line_ns_{when}"] for run in runs) for when in ("before", "after")]
    return line


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--base", type=pathlib.Path, metavar="BUILD", help=f"also over this build, of {compare_targets.BASE}")
    parser.add_argument("--quick", action="store_true", help="short runs, two of each")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--by-reference", action="store_true", help="long requests that are passed by reference")
    parser.add_argument("--only", action="append", default=[], metavar="WORD")
    parser.add_argument("--repeats", type=int, metavar="N")
    parser.add_argument("--seconds", type=float, metavar="S")
    parser.add_argument("--results", action="store_true", help="store the figures in apps/bench/results.json")
    return parser.parse_args()


def main():
    args = parse()
    comparison = Comparison(args.build.resolve(), args.base and args.base.resolve(), args.repeats or (2 if args.quick else 5),
                            args.seconds or (0.12 if args.quick else 0.5), BY_REFERENCE if args.by_reference else RUNS)
    comparison.plan(args.only)
    if not comparison.rows:
        print(f"compare: nothing to run for {' '.join(args.only) or 'this build'}: scripts/build.sh, or another --only; "
              f"rows: {' '.join(SHAPES)}", file=sys.stderr)
        return 2
    comparison.run()
    result = {"repeats": comparison.repeats, "seconds": comparison.seconds,
              "absent": sorted(comparison.absent), "failures": comparison.failures,
              "rows": [summary(row, who, comparison.path_of) for row in comparison.rows for who in row.runs],
              "targets": compare_targets.judge(comparison, args.by_reference)}
    if args.results and not args.only:
        results.add(results.comparison(result, args.by_reference))
    if args.json:
        print(json.dumps(result))
    else:
        compare_show.print_all(result)
    return 1 if comparison.failures else 0


if __name__ == "__main__":
    sys.exit(main())
