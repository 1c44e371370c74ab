#!/usr/bin/env python3
"""Adds up the results of the parts of scripts/reliability.sh.

usage: reliability.py [--json] [--seconds N] DIR       DIR holds PART.json, and PART.failed for
those that failed

Fails when a part did.
"""
import argparse
import json
import pathlib
import sys

ROWS = (  # key, description
    ("seeds", "seeds of the simulator"),
    ("lent_runs", "of them with lent arguments"),
    ("datagrams", "datagrams simulated"),
    ("faults", "faults made"),
    ("hostile", "hostile inputs: datagrams, operations, API sequences, rings"),
    ("kills", "processes killed"),
    ("masks", "sets of lost, doubled, late datagrams"),
    ("states", "states of explorer and models"),
    ("sleeps", "sleeps that raced with what wakes them"),
    ("planted", "bugs planted"),
    ("planted_found", "of them found"),
    ("planted_seeds_most", "seeds that the hardest needed"),
    ("marks_missing", "pairs of fault and state never met"),
    ("branch_coverage_percent", "branches of the pure layers taken, %"),
    ("datagrams_per_s", "datagrams of 64 bytes simulated per second and core"),
    ("violations", "violations"),
    ("seconds", "seconds"),
)


def read(folder):
    """{part: [objects]}; a part that wrote none has an empty list."""
    parts = {}
    for file in sorted(folder.glob("*.json")):
        parts[file.stem] = [json.loads(line) for line in file.read_text().splitlines() if line.startswith("{")]
    return parts


def add(parts, names, key):
    return sum(o.get(key, 0) for name in names for o in parts.get(name, []))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--json", action="store_true")
    options.add_argument("--seconds", type=int, default=0)
    options.add_argument("folder", type=pathlib.Path)
    options = options.parse_args()
    parts = read(options.folder)
    failed = sorted(f.stem for f in options.folder.glob("*.failed"))
    planted = (parts.get("planted") or [{}])[0]
    all_parts = list(parts)
    figures = {
        "seeds": add(parts, ["simulator"], "seeds") + add(parts, ["lent"], "lent_runs")
        + add(parts, ["named"], "named_runs"),
        "lent_runs": add(parts, ["lent"], "lent_runs"),
        "datagrams": add(parts, ["simulator", "speed", "exhaustive"], "datagrams") + add(parts, ["lent"], "lent_datagrams"),
        "faults": add(parts, ["simulator"], "faults"),
        "hostile": add(parts, ["simulator", "fuzzers"], "hostile"),
        "kills": add(parts, ["kills"], "kills") + add(parts, ["lent"], "lent_kills"),
        "masks": add(parts, ["exhaustive"], "runs"),
        "states": add(parts, ["explorer", "models"], "states"),
        "sleeps": add(parts, ["sleeps"], "sleeps"),
        "planted": planted.get("planted", 0),
        "planted_found": planted.get("planted_found", 0),
        "planted_seeds_most": max(planted.get("planted_seeds", {}).values(), default=0),
        "marks_missing": sum(len(o.get("marks_missing", [])) for o in parts.get("simulator", [])),
        "branch_coverage_percent": add(parts, ["coverage"], "branch_coverage_percent"),
        "datagrams_per_s": round(add(parts, ["speed"], "datagrams_per_s")),
        "violations": add(parts, all_parts, "violations"),
        "seconds": options.seconds,
        "failed": failed,
    }
    if "coverage" not in parts:  # not in every short run
        del figures["branch_coverage_percent"]
    if options.json:
        print(json.dumps(figures))
    else:
        for key, text in ROWS:
            if key in figures:
                print(f"{text:<64} {figures[key]:>16,}")
        for part in failed:
            print(f"FAILED: {part}: see {options.folder}/{part}.log")
    return bool(failed or figures["violations"])


if __name__ == "__main__":
    sys.exit(main())
