#!/usr/bin/env python3
"""Measures the tree and fails where a number is worse than its limit or its ratchet.

usage: house.py [--lower] [--list] [--repo DIR] [CHECK]...      default: all of them

A check is a module of this folder with measure(repo, stored). ratchets.txt holds the numbers that
exceed their limits today: none may rise. --lower stores those that fell, and drops those that keep
their limit now. --list prints all that was counted.
"""
import argparse
import importlib
import pathlib
import sys

import tree

HERE = pathlib.Path(__file__).resolve().parent
CHECKS = ("prose", "docs", "names", "circles", "commits", "spelling")
RATCHETS = "test/house/ratchets.txt"
SHOWN = 40


def load(file):
    """Returns {check: {key: stored text}}."""
    stored = {check: {} for check in CHECKS}
    for line in file.read_text().splitlines() if file.is_file() else ():
        if line and not line.startswith("#"):
            check, key, value = line.split()
            stored[check][key] = value
    return stored


def lower(file, check, numbers):
    """Stores the numbers of `check` that fell; drops those that keep their limit or are gone."""
    now = {n.key: n for n in numbers}
    kept = []
    for line in file.read_text().splitlines():
        word = line.split()
        if word[:1] == [check] and word[2].isdigit():
            number = now.get(word[1])
            if number is None or number.value <= number.limit:
                continue
            line = f"{check} {word[1]} {min(number.value, int(word[2]))}"
        kept.append(line)
    file.write_text("\n".join(kept) + "\n")


def judge(check, numbers, stored, listed):
    """Prints what is worse, and what may be lowered. Returns whether nothing is worse."""
    good = True
    for n in numbers:
        allowed = max(n.limit, int(stored.get(n.key, 0)))
        worse = n.value > allowed
        for hit in n.hits[: None if listed else SHOWN * worse]:
            print(f"  {hit}")
        if worse:
            good = False
            print(f"{check}: {n.key} is {n.value}, at most {allowed} (limit {n.limit})")
        elif n.key in stored and n.value < allowed:
            print(
                f"{check}: {n.key} fell from {allowed} to {n.value}: "
                "test/house/house.py --lower stores it"
            )
    return good


def main(argv=None):
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--lower", action="store_true")
    p.add_argument("--list", action="store_true")
    p.add_argument("--repo", type=pathlib.Path, default=HERE.parent.parent)
    p.add_argument("check", nargs="*", choices=[[], *CHECKS], default=[])
    a = p.parse_args(argv)
    bad = skipped = 0
    for check in a.check or CHECKS:
        stored = load(a.repo / RATCHETS)[check]
        try:
            numbers = list(importlib.import_module(check).measure(a.repo, stored))
        except tree.Skip as why:
            print(f"{check}: skipped: {why}")
            skipped += 1
            continue
        bad += not judge(check, numbers, stored, a.list)
        if a.lower:
            lower(a.repo / RATCHETS, check, numbers)
    return 1 if bad else 77 if skipped == len(a.check or CHECKS) else 0


if __name__ == "__main__":
    sys.exit(main())
