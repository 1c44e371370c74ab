#!/usr/bin/env python3
"""Measures the arms of each workload of the social network in turns, and writes one HTML page of them.

usage: social_arms.py BUILD [--only WORKLOAD]... [--all] [--ramps N] [--rounds N] [--seconds S] [--users N] [--stores KIND]
                      [--output FILE] [--json FILE]

For each workload: ramps of every arm, up to its saturation; then rounds of all arms at one load, 60 % of the first arm's saturation. The
arms are `value`, `auto` (long bytes by reference), `pool` (auto, and readers map the memory node's pages) and `grpc` (by value). Every
second ramp and round takes the arms in reverse, so that none always follows another. A ratio at that load is the median of the ratios of
the rounds, and a figure is of the round with the median of its mean latency. The network has 100 users; with --all, `embedded` has
DeathStarBench's 962, whose media take 630 MB. A workload whose load fails is reported, and left out. For an arm that misses a target it
prints and keeps what its edges move, and where its CPU time goes (scripts/social_profile.py, if perf is installed).

In `original` value and auto send the same bytes, so their ratios must be 1 within some percent. With --all its rounds are three times as
many and as long, and have a fourth arm: `again`, which is `value` a second time. Its ratios are what the measurement itself varies by: the
stores write to disk once per second, which takes about as long as the p99, and three busy processes share two CPUs.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# Workload, carrier, arms (the first is the base of the ratios), requests per second at which the ramp begins, whether only --all runs it.
WORKLOADS = (("embedded", "udp", ("value", "auto"), 300, False), ("embedded", "shm", ("value", "auto", "pool"), 1500, False),
             ("photos", "udp", ("value", "auto"), 400, False), ("photos", "shm", ("value", "auto"), 400, True),
             ("articles", "udp", ("value", "auto"), 200, False), ("articles", "shm", ("value", "auto"), 200, True),
             ("dmrpc", "udp", ("value", "ref"), 300, True),
             ("original", "shm", ("value", "auto", "grpc", "again"), 500, False))
OPTIONS = {"value": ["--by", "value"], "auto": ["--by", "auto"], "ref": ["--by", "ref"], "pool": ["--by", "auto", "--pool"],
           "grpc": ["--by", "value"], "again": ["--by", "value"]}
TIGHT = {"original": 3}  # how much more a workload is measured with --all
SHARE = 0.6  # of the saturation
USERS, USERS_ALL = 100, {"embedded": 962}
KEYS = {"goodput at saturation": "saturation_per_s", "mean latency at the same load": "mean_ms", "p99 at the same load": "p99_ms",
        "requests per CPU second": "requests_per_cpu_s", "bytes moved per request": "bytes_moved_per_request"}
TARGETS = {("embedded", "udp", "auto", "saturation_per_s"): ">= 3.1", ("embedded", "udp", "auto", "mean_ms"): "<= 0.4",
           ("embedded", "udp", "auto", "bytes_moved_per_request"): "<= 0.263", ("embedded", "shm", "auto", "saturation_per_s"): ">= 1.7",
           ("embedded", "shm", "pool", "saturation_per_s"): ">= 2.5", ("photos", "udp", "auto", "requests_per_cpu_s"): ">= 1.3",
           ("photos", "udp", "auto", "mean_ms"): "<= 0.8", ("photos", "shm", "auto", "requests_per_cpu_s"): ">= 1",
           ("articles", "udp", "auto", "requests_per_cpu_s"): ">= 1.1", ("articles", "shm", "auto", "requests_per_cpu_s"): ">= 1",
           ("original", "shm", "auto", "saturation_per_s"): ">= 0.98", ("original", "shm", "auto", "p99_ms"): "<= 1.05",
           ("original", "shm", "grpc", "requests_per_cpu_s"): "<= 0.714"}
STEPS = ("rate", "goodput_per_s", "mean_ms", "p50_ms", "p99_ms", "p999_ms", "errors")


def users_of(args, workload):
    return args.users or (USERS_ALL.get(workload, USERS) if args.all else USERS)


class Failed(Exception):
    pass


def run(args, workload, carrier, by, *more):
    """The report of one load, and its command."""
    program = ["peer-social-grpc"] if by == "grpc" else ["lend", "social"]
    command = [*program, "--workload", workload, *OPTIONS[by], "--carrier", carrier, "--users", str(users_of(args, workload)), "--stores", args.stores, *more]
    done = subprocess.run([f"{args.build}/{command[0]}", *command[1:], "--json"], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {done.stderr.strip() or done.stdout[-300:]}")
    report = json.loads(done.stdout)
    if by != "grpc" and report["carrier"] != carrier:
        raise Failed(f"{' '.join(command)}: it ran over {report['carrier']}")
    if by == "grpc":
        report.pop("bytes_moved_per_request", None)  # counts what Lend's carriers move
    return report, " ".join(command)


def in_turns(arms, repeats):
    """All arms, so often; each second time in reverse."""
    return [by for i in range(repeats) for by in (reversed(arms) if i % 2 else arms)]


def tight(args, workload):
    return TIGHT.get(workload, 1) if args.all else 1


def ramp_all(args, workload, carrier, arms, start):
    """For each arm its best ramp, which other processes disturbed least."""
    best = {}
    for by in in_turns(arms, args.ramps * tight(args, workload)):
        ramp = run(args, workload, carrier, by, "--ramp", "--rate", str(start), "--seconds", str(args.step))[0]
        best[by] = max(best.get(by, ramp), ramp, key=lambda r: r["saturation_per_s"])
    return best


def measure(args, workload, carrier, arms, start):
    """One result for each arm. That over gRPC is left out where its program is not built."""
    arms = [by for by in arms if by != "grpc" or pathlib.Path(args.build, "peer-social-grpc").exists()]
    arms = [by for by in arms if by != "again" or args.all]
    ramps = ramp_all(args, workload, carrier, arms, start)
    rate = max(10, int(SHARE * ramps[arms[0]]["saturation_per_s"]))
    seconds = args.seconds * tight(args, workload)
    rounds = {by: [] for by in arms}
    for by in in_turns(arms, args.rounds * tight(args, workload)):
        rounds[by].append(run(args, workload, carrier, by, "--rate", str(rate), "--seconds", str(seconds)))
    for by, reports in rounds.items():
        median = statistics.median_low(report["mean_ms"] for report, _ in reports)
        report, command = next(pair for pair in reports if pair[0]["mean_ms"] == median)
        yield {**report, "carrier": carrier, "by": by, "command": command, "saturation_per_s": ramps[by]["saturation_per_s"],
               "requests": report["goodput_per_s"] * seconds, "steps": [{key: step[key] for key in STEPS} for step in ramps[by]["steps"]],
               "rounds": {key: [report.get(key) for report, _ in reports] for key in KEYS.values()}}


def ratio_of(result, base, key):
    """The median over the rounds. None: there is no such figure."""
    pairs = zip(result["rounds"][key], base["rounds"][key])
    if key == "saturation_per_s":  # of the ramps
        pairs = [(result[key], base[key])]
    each = [mine / other for mine, other in pairs if mine and other]
    return statistics.median(each) if each else None


def ratios(results):
    """Of each arm after the first to the first: [workload and arms, what, ratio, target]."""
    base = results[0]
    for result in results[1:]:
        name = f"{result['workload']}, {result['carrier']}, {result['by']} over {base['by']}"
        for what, key in KEYS.items():
            ratio = ratio_of(result, base, key)
            if ratio:
                arm = result["workload"], result["carrier"], result["by"]
                yield [name, what, round(ratio, 3), TARGETS.get((*arm, key), "")]


def misses(rows):
    """The rows whose ratio is not what their target asks for."""
    for row in rows:
        sense, _, bar = row[3].partition(" ")
        if sense == ">=" and row[2] < float(bar) or sense == "<=" and row[2] > float(bar):
            yield row


def edges(run):
    """Bytes that each process sends per request, as a text."""
    sent = run.get("bytes_sent_per_request", {})
    return ", ".join(f"{'services' if ',' in process else process} {count / 1e3:.1f} KB" for process, count in sent.items())


def profile(args, run):
    """CPU time per request by part, as a text; empty without perf."""
    command = [str(pathlib.Path(__file__).with_name("social_profile.py")), args.build, "--workload", run["workload"], "--carrier", run["carrier"],
               "--rate", str(int(run["rate"])), "--arm", run["by"]]
    if not shutil.which("perf") or run["by"] in ("pool", "again"):
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return done.stdout.strip()


def explain(args, results, rows):
    """Lines about the arms of a workload if a row misses its target."""
    missed, base = list(misses(rows)), results[0]
    if base["goodput_per_s"] < 0.95 * base["offered_per_s"]:
        yield (f"{base['workload']}, {base['carrier']}: {base['by']} did not hold the common load of {base['rate']:.0f} requests/s, so the ratios of latency, "
               "CPU time and bytes mean nothing")
    for row in missed:
        yield f"{row[0]}: {row[1]} {row[2]:.2f}, target {row[3]}"
    for run in results if missed else ():
        yield f"{run['workload']}, {run['carrier']}, {run['by']}: each process sends per request: {edges(run)}"
        if text := profile(args, run):
            yield f"{run['workload']}, {run['carrier']}, CPU time of the services per request: {text}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--only", action="append", help="only this workload")
    parser.add_argument("--all", action="store_true", help="also the workloads that show no more than a ratio of CPU time")
    parser.add_argument("--ramps", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1, help="of each round")
    parser.add_argument("--step", type=float, default=0.3, help="seconds of each step of a ramp")
    parser.add_argument("--users", type=int, help=f"{USERS}, with --all {USERS_ALL['embedded']} in embedded")
    parser.add_argument("--stores", default="lmdb", choices=("lmdb", "real"), help="real: redis behind memcached, which are started and stopped")
    parser.add_argument("--output", default="social.html")
    parser.add_argument("--json", help="keeps the results here, too")
    args = parser.parse_args()
    began, rows, runs, notes, failed = time.time(), [], [], [], 0
    for workload, *rest, is_extra in WORKLOADS:
        if args.only and workload not in args.only or is_extra and not args.all:
            continue
        try:
            results = list(measure(args, workload, *rest))
        except Failed as error:
            print(f"social_arms.py: {error}", file=sys.stderr)
            failed += 1
            continue
        found = list(ratios(results))
        lines = list(explain(args, results, found))
        for row in found:
            print(*row, sep="  ", flush=True)
        for line in lines:
            print(line, flush=True)
        rows += found
        notes += lines
        runs += [result for result in results if result["by"] != "again"]
    text = json.dumps({"seconds": time.time() - began, "ratios": rows, "notes": notes, "runs": runs}, indent=1)
    if args.json:
        pathlib.Path(args.json).write_text(text, encoding="ascii")
    if not runs:
        return 1
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(text)
        file.flush()
        subprocess.run([f"{args.build}/lend", "social-page", file.name, "--output", args.output], check=True)
    print(f"{args.output}: {time.time() - began:.0f} s")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
