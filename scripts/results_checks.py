"""Runs for results.py that repeat `lend bench priority`, or count what scripts/conform.sh and scripts/reliability.sh found."""
import json
import statistics
import subprocess

from compare_show import number
from reliability import ROWS

TURNS = 5
CARRIERS = {"shm": "shm", "udp": "udp", "memif": "dpdk:memif"}
LATENCY = "latency of the urgent call, of the same call alone"
# Row of the table, how it is computed from a report, and its unit.
PRIORITY = (
    ("p99", lambda one: one["p99_us_loaded"] / one["p99_us_unloaded"], "x"),
    ("p50", lambda one: one["p50_us_loaded"] / one["p50_us_unloaded"], "x"),
    ("p99 in FIFO order", lambda one: one["p99_us_fifo"], "us"),
    ("rate of the transfer alone, of that without priorities", lambda one: one["bulk_percent_of_off"], "%"),
    ("rate of the transfer next to the urgent calls, of that alone", lambda one: 100 * one["bulk_gbit_per_s_loaded"] / one["bulk_gbit_per_s"], "%"),
)


def spread(values, unit):
    return f"{number(statistics.median(values))} {unit} ({number(min(values))} to {number(max(values))})"


def priority(build):
    """Latency of urgent calls next to a transfer, as a run."""
    found = {}
    for carrier in [name for _ in range(TURNS) for name in CARRIERS]:
        done = subprocess.run([build / "lend", "bench", "priority", "--seconds", "2", "--carrier", CARRIERS[carrier], "--json"],
                              capture_output=True, text=True, check=True)
        found.setdefault(carrier, []).append(json.loads(done.stdout))
    return {"name": "priority", "title": "Urgent calls behind a bulk transfer of the same session", "command": "scripts/results.py --priority build",
            "columns": [LATENCY, *CARRIERS],
            "rows": [[what, *(spread([of(one) for one in found[carrier]], unit) for carrier in CARRIERS)] for what, of, unit in PRIORITY],
            "text": [f"`lend bench priority --seconds 2`: medians of {TURNS} turns, and their range. Bytes of the transfer go through the carrier, over shm "
                     "too. Long messages that begin while urgent calls come go in datagrams of an eighth of the length."]}


def conformance(file):
    """What `conform.sh --guest --json` found, as a run."""
    found = json.loads(file.read_text())
    cells = found["cells"]
    rows = [[what, f"{found[key]}"] for what, key in (("pass", "pass"), ("fail", "fail"), ("device or promise absent", "absent"))]
    for case in ("pointer", "lease", "operations", "arguments", "in_place", "one_sided", "wait"):
        here = [cell for cell in cells if cell["case"] == case]
        rows.append([f"{case}: carriers that pass, of those that can", f"{sum(cell['result'] == 'pass' for cell in here)} of "
                     f"{sum(cell['result'] != 'absent' for cell in here)}"])
    return {"name": "conform", "title": "Transports held to the same promises", "command": "scripts/conform.sh --guest --json",
            "columns": ["cells", "count"], "rows": rows}


def reliability(file):
    """What `reliability.sh --json` counted, as a run."""
    found = json.loads(file.read_text())
    return {"name": "reliability", "title": "What was tried to break it", "command": "scripts/reliability.sh --json",
            "columns": ["what", "count"], "rows": [[what, f"{found[key]:,}"] for key, what in ROWS if key in found]}
