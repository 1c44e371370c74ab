#!/usr/bin/env python3
"""Counts the cache lines that two threads with endpoints of their own share while they make calls.

usage: shared_lines.py [--build DIR] [--calls N] [--limit LINES] [OPTION...]     options of perf_rpc_call, such as -c ring

Runs `perf_rpc_call -t 2` under valgrind's lackey, which prints each load and store, and which thread runs. A line is shared
if one thread writes it and the other one reads or writes it, both between their marks (see rpc_call.c). Memory that the
kernel touches is not seen. Prints the accesses to shared lines per call, and each line with its number of accesses. With
--limit, fails if there are more lines. Needs an idle machine: lackey is so slow that a handshake over shm may time out.
"""
import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys

LINE, MARKS, PAGE = 64, 0x5EED0000, 4096
SWITCH = re.compile(rb"SCHED\[(\d+)\]:\s+acquired lock")


class Trace:
    """Lines that each thread read and wrote between its marks."""

    def __init__(self):
        self.thread, self.on, self.marked = 0, set(), set()
        self.reads = collections.defaultdict(collections.Counter)
        self.writes = collections.defaultdict(collections.Counter)

    def mark(self, lackeys_thread):
        if lackeys_thread in self.on:
            self.on.remove(lackeys_thread)
        else:
            self.on.add(lackeys_thread)
            self.marked.add(lackeys_thread)

    def add(self, kind, address, size):
        if MARKS <= address < MARKS + PAGE:
            self.mark(self.thread)
        elif self.thread in self.on:
            for line in range(address // LINE, (address + size - 1) // LINE + 1):
                if kind != b"S":
                    self.reads[self.thread][line] += 1
                if kind != b"L":
                    self.writes[self.thread][line] += 1

    def read(self, text):
        if text[:1] == b" " and text[1:2] in b"LSM":
            address, size = text[3:].split(b",")
            self.add(text[1:2], int(address, 16), int(size))
        elif found := SWITCH.search(text):
            self.thread = int(found[1])
        elif text.startswith(b"perf_rpc_call"):
            sys.exit(text.decode().strip())

    def shared(self):
        """Returns {line: accesses of all threads} of the lines that are shared."""
        found = {}
        for a in self.marked:
            for b in self.marked - {a}:
                for line in self.writes[a].keys() & (self.reads[b].keys() | self.writes[b].keys()):
                    found[line] = sum(t[line] for kind in (self.reads, self.writes) for t in kind.values())
        return found


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--build", default="build")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--limit", type=int)
    args, options = parser.parse_known_args()
    program = pathlib.Path(args.build, "perf_rpc_call")
    if not shutil.which("valgrind"):
        print("shared_lines.py: valgrind is not installed: scripts/deps.sh --install test")
        sys.exit(77)
    # The start is most of the trace, and of no interest. With EAL's it has 40 million lines.
    run = subprocess.Popen(["sh", "-c", f'exec "$@" 2>&1 >/dev/null | grep -a "^ [LSM] \\|SCHED\\|perf_rpc_call" | awk "/ {MARKS >> 12:x}/ {{on = 1}} on || !/^ /"', "sh",
                            "valgrind", "--tool=lackey", "--trace-mem=yes", "--trace-sched=yes", "--fair-sched=yes", str(program), "-t", "2",
                            "-n", str(args.calls), *options], stdout=subprocess.PIPE)
    trace = Trace()
    for text in run.stdout:
        trace.read(text)
    run.wait()
    if len(trace.marked) != 2 or trace.on:
        sys.exit(f"shared_lines.py: {len(trace.marked)} threads ran: is valgrind installed, and does {program} -t 2 work?")
    shared = trace.shared()
    written = sum(len(trace.writes[t]) for t in trace.marked)
    per_call = sum(shared.values()) / (2 * args.calls)
    print(f"{len(shared)} shared written lines of {written} written, {per_call:.4f} accesses per call {' '.join(options)}")
    for line, n in sorted(shared.items(), key=lambda item: -item[1]):
        print(f"  {line * LINE:#x}: {n}")
    if args.limit is not None and len(shared) > args.limit:
        sys.exit(1)


if __name__ == "__main__":
    main()
