"""The sections on congestion control of apps/bench/RESULTS.md, from lend-sim's experiments."""
import concurrent.futures
import json
import os
import subprocess

CC = ("none", "timely-8", "timely", "swift", "dctcp", "credit")
COMMAND = "scripts/results.py --congestion build"
MIX_COMMAND = "scripts/results.py --mixes build"
NOTE = "`lend-sim` with the shipped core: 100 Gb/s links, 1,472 B datagrams, ECN marks above 96 KiB, eight queues a port; one where a column names it"
# Mix, and a network with a load of 20 ms that fits into memory: short messages are many.
MIXES = (("w1", "--hosts 16 --racks 2"), ("w2", "--hosts 16 --racks 2"), ("w3", "--hosts 40 --racks 5"),
         ("w4", "--hosts 40 --racks 5"), ("w5", "--hosts 40 --racks 5"))
SPAN, ONE_QUEUE = "--load 80 --us 20000 --messages 20000000", " --queues 1"
# Text of a row, its goal, experiment, column of the result; "{}": digits.
ROWS = (
    ("512 x 64 KiB into one port, 4 MB of switch buffer: time over the wire's", "<= 1.05", "congestion --senders 512", "completion_over_ideal", "{:.2f}"),
    ("datagrams dropped meanwhile", "0", "congestion --senders 512", "drops", "{:,}"),
    ("another client's call of 64 B meanwhile, p99.9, us", "<= 60", "congestion --senders 512", "victim_p999_us", "{:.1f}"),
    ("4,096 x 64 KiB, 16 MB: goodput, %", ">= 94", "congestion --senders 4096 --buffer-kb 16384", "goodput_percent", "{:.1f}"),
    ("eight senders that share a link, settled: Jain's index", "", "sharing", "jain_settled", "{:.2f}"),
    ("one sender, 25 Gb/s and 500 us there and back: load of the link, %", ">= 90",
     "sharing --depth 8 --mark-kb 0 --senders 1 --gbps 25 --delay-ns 250000 --step-us 100000", "carried_percent", "{:.1f}"),
    ("one sender, 10 Gb/s and 50 us, 1 % of the datagrams lost: the same", ">= 95",
     "sharing --depth 8 --mark-kb 0 --senders 1 --gbps 10 --delay-ns 25000 --step-us 30000 --loss-ppm 10000", "carried_percent", "{:.1f}"),
)
# Paths of the target table; equal paths have the mean delay of both others.
LONG = "sharing --depth 8 --mark-kb 0"
STORM = "congestion --size 1300 --messages 64 --depth 64 --senders"
PATHS = "fabric --hosts 40 --racks 5 --spines 4 --load 50 --us 3000"
EQUAL = f"{PATHS} --delay-ns 2875"
W4 = "fabric --hosts 40 --racks 5 --mix w4 --load 80 --us 6000"


def column(name):
    return lambda got, command: float(got(command)[-1][name])


def over(name, below, factor=1):
    """A column over one of the same row, or over that of another command."""
    def ratio(got, command):
        row = got(command)[-1]
        return factor * float(row[name]) / float(row[below] if below in row else got(below)[-1][name])
    return ratio


def of_size(size, name):
    return lambda got, command: next(float(row[name]) for row in got(command) if row["cc"] == "credit" and row["size"] == size)


def over_best(got, command):
    """The mean slowdown over the best of the other algorithms."""
    return float(got(command)[-1]["all_mean"]) / min(float(got(command, cc)[-1]["all_mean"]) for cc in CC if cc != "credit")


# What, sense and bar of the target, experiment, its figure.
TARGETS = (
    ("512 x 64 messages of 1,300 B: goodput, %", ">=", 90, f"{STORM} 512", column("goodput_percent")),
    ("another client's call of 64 B meanwhile: p99.9, us", "<=", 300, f"{STORM} 512", column("victim_p999_us")),
    ("2,048 x 64 messages of 1,300 B: goodput, %", ">=", 80, f"{STORM} 2048", column("goodput_percent")),
    ("another client's call of 64 B meanwhile: p99.9, us", "<=", 300, f"{STORM} 2048", column("victim_p999_us")),
    ("spines 5 us apart: needless retransmissions, %", "<=", 0.3, f"{PATHS} --skew-ns 5000", over("repeats", "datagrams", 100)),
    ("the same: goodput over equal paths, %", ">=", 85, f"{PATHS} --skew-ns 5000", over("goodput_percent", EQUAL, 100)),
    ("jitter of 5 us: needless retransmissions, %", "<=", 0.3, f"{PATHS} --jitter-ns 5000", over("repeats", "datagrams", 100)),
    ("the same: goodput over equal paths, %", ">=", 85, f"{PATHS} --jitter-ns 5000", over("goodput_percent", EQUAL, 100)),
    ("25 Gb/s, 500 us: load of the link, %", ">=", 90, f"{LONG} --senders 1 --gbps 25 --delay-ns 250000 --step-us 100000", column("carried_percent")),
    ("100 Gb/s, 100 us", ">=", 90, f"{LONG} --senders 1 --gbps 100 --delay-ns 50000 --step-us 20000", column("carried_percent")),
    ("1 Gb/s, 20 ms, two senders from a cold start, 3 s", ">=", 90, f"{LONG} --senders 2 --gbps 1 --delay-ns 10000000 --step-us 1000000",
     column("carried_percent")),
    ("10 Gb/s, 50 us, 1 % of the datagrams lost", ">=", 95,
     f"{LONG} --senders 1 --gbps 10 --delay-ns 25000 --step-us 30000 --loss-ppm 10000", column("carried_percent")),
    ("W2 at 50 %, 0.1 % lost: slowdown of messages of a datagram, p99.9", "<=", 10,
     "fabric --hosts 40 --racks 5 --mix w2 --load 50 --us 3000 --loss-ppm 1000 --sizes", of_size("datagram", "p999")),
    ("W1 at 80 % for 20 ms: slowdown, p99", "<=", 1.8, f"fabric {MIXES[0][1]} --mix w1 {SPAN}", column("all_p99")),
    ("W2", "<=", 2.6, f"fabric {MIXES[1][1]} --mix w2 {SPAN}", column("all_p99")),
    ("W3", "<=", 2.8, f"fabric {MIXES[2][1]} --mix w3 {SPAN}", column("all_p99")),
    ("incast of 512 x 64 KiB: time over the wire's", "<=", 1.05, "congestion --senders 512", column("completion_over_ideal")),
    ("datagrams dropped meanwhile", "<=", 0, "congestion --senders 512", column("drops")),
    ("incast of 4,096 x 64 KiB: goodput, %", ">=", 94, "congestion --senders 4096 --buffer-kb 16384", column("goodput_percent")),
    ("W4 at 80 %, 6 ms: mean slowdown over the best other algorithm's", "<=", 0.95, W4, over_best),
    ("the same, 64 KiB to 1 MiB: p99", "<=", 6, f"{W4} --sizes", of_size("1 MiB", "p99")),
    ("8 x 16 messages of 1 MiB into 64 KB of buffer, no marks: time over the wire's", "<=", 1.15,
     "congestion --senders 8 --messages 16 --size 1048576 --mark-kb 0 --depth 1 --buffer-kb 64 --share 0", column("completion_over_ideal")),
    ("eight senders with fair shares, settled: Jain's index", ">=", 0.95, "sharing --order 3", column("jain_settled")),
)
# What, sense and bar of a target; section, row and column of the stored figure.
STORED = (
    ("uncongested call of 64 B, calls share datagrams: instructions of the peer window", "<=", 8,
     "instructions", "the peer window's part of a call, 32 in flight", "instructions per call"),
    *((f"urgent call next to a transfer over {carrier}: p99 over that alone", "<=", 2, "priority", "p99", carrier) for carrier in ("udp", "memif", "shm")),
    *((f"that transfer alone over {carrier}: rate over that without priorities, %", ">=", 97,
       "priority", "rate of the transfer alone, of that without priorities", carrier) for carrier in ("udp", "memif", "shm")),
)
PICTURES = ("incast-4mb", "incast-16mb", "load", "mixes", "large", "large-flow", "failure", "sharing")


def simulate(build, command):
    """The rows that lend-sim prints for a command."""
    run = subprocess.run([build / "lend-sim", *command.split(), "--json"], capture_output=True, text=True, check=True)
    rows = json.loads(run.stdout)
    return rows["rows"] if "rows" in rows else [rows]


def slowdowns(row):
    return [f"{row[key]:.2f}" for key in ("mean", "p50", "p99", "p999")]


def judged(what, sense, bar, value, text, command):
    """A row of the table of targets."""
    met = value >= bar if sense == ">=" else value <= bar
    return [what, f"{sense} {bar}", text, "" if met else "missed", f"`{command}`"]


def with_stored(run, runs):
    """The run of the targets with rows of what other sections measured; other runs as they are."""
    if run["name"] != "congestion-targets":
        return run
    rows = []
    for what, sense, bar, section, name, column_name in STORED:
        source = next(one for one in runs if one["name"] == section)
        text = next(row for row in source["rows"] if row[0] == name)[source["columns"].index(column_name)]
        rows.append(judged(what, sense, bar, float(text.split()[0]), text, source["command"]))
    return {**run, "rows": run["rows"] + rows}


def targets(build):
    """The table of targets as a run: each with its command."""
    rows, seen = [], {}

    def got(command, cc="credit"):
        key = f"{command} --cc {cc}"
        if key not in seen:
            seen[key] = simulate(build, key)
        return seen[key]
    for what, sense, bar, command, figure in TARGETS:
        value = figure(got, command)
        rows.append(judged(what, sense, bar, value, f"{value:.3g}", f"lend-sim {command}"))
    return {"name": "congestion-targets", "title": "Targets of congestion control", "command": "scripts/results.py --targets build",
            "columns": ["what", "target", "measured", "", "command"], "rows": rows,
            "text": ["Algorithm credit (`--cc credit`), by the simulator; the test `sim.paths` holds most of them, shorter ones of the "
                     "same kind, to bounds. On real stacks: [netbench](#congestion-on-real-stacks), its test is `net.bench`; [urgent "
                     "calls](#urgent-calls-behind-a-bulk-transfer-of-the-same-session); [instructions](#instructions-per-call).",
                     "Jitter of 5 us: seeds give 83 to 91."]}


def mix_command(mix, net, cc, queues=""):
    return f"fabric {net} --mix {mix} {SPAN} --cc {cc} --sizes{queues}"


def sizes_of(rows, cc):
    """What an experiment prints by size, of one algorithm."""
    return {row["size"]: row for row in rows if row["cc"] == cc}


def mix_rows(got):
    """Rows of all mixes and of their messages by size, of each the best p99 first."""
    of_all, of_size = [], []
    for mix, net in MIXES:
        found = []
        for cc in CC:
            rows, one_rows = got[mix_command(mix, net, cc)], got[mix_command(mix, net, cc, ONE_QUEUE)]
            eight, one, ideal = sizes_of(rows, cc), sizes_of(one_rows, cc), sizes_of(rows, "ideal")
            for place, size in enumerate(eight):
                cells = [cc, *slowdowns(eight[size]), *slowdowns(one[size])[1:], f"{ideal[size]['p99']:.2f}"]
                found.append((place, float(eight[size]["p99"]), size, cells, eight[size]))
        for _, _, size, cells, row in sorted(found, key=lambda f: f[:2]):
            if size == "all":
                of_all.append([mix.upper(), *cells, f"{row['goodput_percent']:.1f}", f"{row['drops']:,}"])
            else:
                of_size.append([mix.upper(), size, *cells])
    return of_all, of_size


def simulate_all(build, commands):
    """The rows of each command."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(commands, pool.map(lambda command: simulate(build, command), commands)))


def congestion(build):
    """All algorithms on the same paths, as a run."""
    got = simulate_all(build, {f"{command} --cc {cc}" for _, _, command, _, _ in ROWS for cc in CC})
    rows = [[what, goal, *(form.format(got[f"{command} --cc {cc}"][0][key]) for cc in CC)] for what, goal, command, key, form in ROWS]
    pictures = ", ".join(f"[{name.replace('-', ' ')}](../../src/core/figures/{name}.svg)" for name in PICTURES)
    return {"name": "congestion", "title": "Congestion control in a simulated network", "command": COMMAND, "note": NOTE,
            "columns": ["", "goal", *CC], "rows": rows, "text": ["Every algorithm sends long messages one traffic class lower. timely has eRPC's 32 credits, timely-8 has 8. "
            f"Pictures, by `scripts/figures.sh`: {pictures}."]}


def mixes(build):
    """All algorithms under load by messages of many lengths, as runs."""
    commands = [mix_command(mix, net, cc, queues) for mix, net in MIXES for cc in CC for queues in ("", ONE_QUEUE)]
    of_all, of_size = mix_rows(simulate_all(build, commands))
    heads = ["algorithm", "mean", "p50", "p99", "p99.9", "p50 with one queue", "p99", "p99.9", "p99 of the ideal"]
    return [
        {"name": "congestion-mixes", "title": "Messages of W1 to W5 at 80 % for 20 ms", "command": MIX_COMMAND, "note": NOTE,
         "columns": ["mix", *heads, "arrived in time, %", "drops"], "rows": of_all,
         "text": ["Slowdown: time over the least time in an idle network. W1 and W2 between 16 hosts in 2 racks, the others between 40 in 5."]},
        {"name": "congestion-sizes", "title": "Messages of W1 to W5 by size", "command": MIX_COMMAND, "note": NOTE,
         "columns": ["mix", "up to", *heads], "rows": of_size},
    ]
