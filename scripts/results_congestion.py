"""The sections on congestion control of apps/bench/RESULTS.md, from lend-sim's experiments."""
import concurrent.futures
import json
import os
import subprocess

CC = ("none", "timely-8", "timely", "swift", "dctcp", "credit")
COMMAND = "scripts/results.py --congestion build"
# Mix, and the network whose load of 20 ms fits into memory: short messages are many.
MIXES = (("w1", "--hosts 16 --racks 2"), ("w2", "--hosts 16 --racks 2"), ("w3", "--hosts 40 --racks 5"),
         ("w4", "--hosts 40 --racks 5"), ("w5", "--hosts 40 --racks 5"))
SPAN = "--load 80 --us 20000 --messages 20000000"
# What a row says, its goal, experiment, column of the result; "{}": digits.
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
PICTURES = ("incast-4mb", "incast-16mb", "load", "mixes", "large", "large-flow", "failure", "sharing")


def simulate(build, command):
    """The rows that lend-sim prints for a command."""
    run = subprocess.run([build / "lend-sim", *command.split(), "--json"], capture_output=True, text=True, check=True)
    rows = json.loads(run.stdout)
    return rows["rows"] if "rows" in rows else [rows]


def slowdowns(row):
    return [f"{row[key]:.2f}" for key in ("mean", "p50", "p99", "p999")]


def mix_commands():
    return [f"fabric {net} --mix {mix} {SPAN} --cc {cc}{extra}" for mix, net in MIXES for cc in CC for extra in ("", " --queues 1", " --sizes")
            if extra != " --sizes" or mix == "w4"]


def mix_rows(got):
    """Rows of all mixes and of W4 by size, the best p99 first."""
    rows, sizes = [], []
    for mix, net in MIXES:
        of_mix = []
        for cc in CC:
            command = f"fabric {net} --mix {mix} {SPAN} --cc {cc}"
            ideal, row = sorted(got[command], key=lambda r: r["cc"] != "ideal")
            one = next(r for r in got[f"{command} --queues 1"] if r["cc"] == cc)
            of_mix.append((row["all_p99"], [mix.upper(), cc, *(f"{row['all_' + key]:.2f}" for key in ("mean", "p50", "p99", "p999")),
                                            f"{ideal['all_p99']:.2f}", f"{one['all_p99']:.2f}", f"{row['goodput_percent']:.1f}", f"{row['drops']:,}"]))
            if mix == "w4":
                sizes += [(r["size"], r["p99"], [r["size"], cc, *slowdowns(r)]) for r in got[f"{command} --sizes"] if r["cc"] == cc]
        rows += [row for _, row in sorted(of_mix)]
    order = [name for name, _, _ in sizes[:4]]
    return rows, [row for _, _, row in sorted(sizes, key=lambda s: (order.index(s[0]), s[1]))]


def congestion(build):
    """Sections for RESULTS.md, as runs."""
    commands = {f"{command} --cc {cc}" for _, _, command, _, _ in ROWS for cc in CC} | set(mix_commands())
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        got = dict(zip(commands, pool.map(lambda command: simulate(build, command), commands)))
    rows = [[what, goal, *(form.format(got[f"{command} --cc {cc}"][0][key]) for cc in CC)] for what, goal, command, key, form in ROWS]
    mixes, sizes = mix_rows(got)
    note = "`lend-sim` with the shipped core: 100 Gb/s links, 1,472 B datagrams, ECN marks above 96 KiB, eight queues a port unless a column says one"
    pictures = ", ".join(f"[{name.replace('-', ' ')}](../../src/core/figures/{name}.svg)" for name in PICTURES)
    return [
        {"name": "congestion", "title": "Congestion control in a simulated network", "command": COMMAND, "note": note, "columns": ["", "goal", *CC],
         "rows": rows, "text": ["Every algorithm sends long messages one traffic class lower. timely has eRPC's 32 credits, timely-8 has 8. "
                                f"Pictures, by `scripts/figures.sh`: {pictures}."]},
        {"name": "congestion-mixes", "title": "Messages of W1 to W5 at 80 % for 20 ms", "command": COMMAND, "note": note,
         "columns": ["mix", "algorithm", "mean", "p50", "p99", "p99.9", "p99 of the ideal", "p99 with one queue", "arrived in time, %", "drops"],
         "rows": mixes, "text": ["Slowdown: time over the least time in an idle network. W1 and W2 between 16 hosts in 2 racks, the others between 40 in 5."]},
        {"name": "congestion-sizes", "title": "Messages of W4 by size", "command": COMMAND, "note": note,
         "columns": ["up to", "algorithm", "mean", "p50", "p99", "p99.9"], "rows": sizes},
    ]
