"""Output of a comparison: lines for people."""
import sys

from compare_targets import ONE_THREAD

NEAR_NS = 300  # round trip of a cache line, the limit of apps/common/cacheline_rtt
UNITS = {"p50_us": "us, p50", "calls_per_s": "calls/s", "gbit_per_s": "Gb/s"}
TITLES = {"shm": "within one machine", "net": "over loopback's sockets", "memif": "over DPDK's net_memif",
          "ring": "over DPDK's net_ring, both ends in one thread",
          "reference": "by reference (lend: by value)"}
SHAPES = {
    "echo64": "64 B echo, one in flight", "call32": "32 B request, 8 B reply, one in flight",
    "echo64x64": "64 B echo, 64 in flight", "call32x64": "32 B request, 8 B reply, 64 in flight",
    "call966x64": "966 B request, 8 B reply, 64 in flight", "echo4k": "4 KiB echo, one in flight",
    "call64kx16": "64 KiB request, 8 B reply, 16 in flight", "send1m": "1 MiB, every byte read, 4 in flight",
    "send8m": "8 MiB, every byte read, 2 in flight", "send8m_ends": "8 MiB, only its ends read, 2 in flight",
    "sleep64": "64 B echo, ends that wait may sleep",
    "ref64k": "64 KiB, written again and read", "ref1m": "1 MiB, written again and read",
    "ref16m": "16 MiB, written again and read", "ref16m_ends": "16 MiB, only its ends written and read",
}


def progress(done, total, seconds, what):
    if sys.stderr.isatty():
        left = seconds / done * (total - done) if done else 0
        print(f"\r\033[K{done}/{total}, {left:.0f} s left: {what}", end="", file=sys.stderr, flush=True)


def progress_end():
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)


def number(value):
    if value is None:
        return "-"
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    return f"{value / 1e3:.1f} k" if value >= 1e4 else f"{value:.3g}" if value < 100 else f"{value:.0f}"


# Text per value of target["met"].
VERDICT = {None: "not measured", True: "met", False: "NOT met"}


def verdict(target):
    return "no bar" if target["bar"] is None and target["measured"] is not None else VERDICT[target["met"]]


def bar(target):
    return "" if target["bar"] is None else f"{target['sense']} {target['bar']}"


def times(line):
    """How many times better Lend is than this one."""
    return f"Lend {number(line['lend_is_better'])}x" if line["lend_is_better"] else ""


def counted(line):
    """Instructions per call, where they were counted."""
    return f"{line['instructions']} instructions" if line.get("instructions") else ""


def where(target):
    """The distance that a figure holds for."""
    return f", cores {target['mode']}" if target["measured"] is not None and target["mode"] != ONE_THREAD else ""


def by_row(result):
    """(group, shape) -> its lines, in order."""
    rows = {}
    for line in result["rows"]:
        rows.setdefault((line["group"], line["shape"]), []).append(line)
    return rows


def name_of(line):
    return f"{line['peer']} {line['lane']}"


def print_rows(result):
    for (group, shape), lines in by_row(result).items():
        print(f"\n{SHAPES[shape]}, {TITLES[group]}: {UNITS[lines[0]['figure']]}")
        for line in lines:
            if line["median"] is None:
                print(f"  {name_of(line):18} failed")
                continue
            cores = "" if line["mode"] == ONE_THREAD else "{} {:.0f}/{:.0f} ns".format(line["mode"], *line["line_ns"])
            print(f"  {name_of(line):18} {number(line['median']):>9}  +-{line['spread'] * 50:3.0f} %  p99 "
                  f"{number(line['p99_us']):>8} us  {number(line['cycles_per_call']):>8} cycles  {times(line):12} {cores}{counted(line)}")


def print_all(result):
    print_rows(result)
    print(f"\n{'target':60} {'bar':>9} {'aim':>6} {'measured':>12}")
    for t in result["targets"]:
        print(f"{t['what']:60} {bar(t):>9} {t['aim'] or '':>6} {number(t['measured']):>6} {t['unit']:6} {verdict(t)}{where(t)}")
    print(f"\n{result['repeats']} turns of {result['seconds']} s each. +- is half the span of the turns; "
          "Lend 2x: twice as good as this one. Bytes and counts verified in every run.")
    for program in result["absent"]:
        print(f"not built here: {program} (scripts/deps.sh peers, then scripts/build.sh)")
    for failure in result["failures"]:
        print(f"FAILED {failure}")
