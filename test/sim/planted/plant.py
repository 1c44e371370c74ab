#!/usr/bin/env python3
"""Writes copies of the pure sources with all planted bugs of the tables. A number selects the active one.

usage: plant.py REPO OUT SEEDS TABLE...  writes the FILES of REPO to OUT, and OUT/plants.c

A table is a list of plants:

    plant NAME                           the number is its position in all tables, from 1
    does WHAT IS BROKEN
    seen ORACLE THAT FINDS IT
    plan NAME=NUMBER ...                 optional: a plan that finds it, where seeds rarely do; run before them
    file PATH                            file of the next replacements
    - OLD TEXT                           must occur exactly once in the file; all white space is equal
    + NEW TEXT                           PLANTED is true when this bug is selected

More lines of - or + continue the text; a - behind a + begins another replacement. A text that does not match exactly
once, or overlaps another replacement, ends the build: a bug that was not planted must not count as found.

SEEDS has lines NAME SEED: the seed that found the bug last, where many seeds do not.
"""
import pathlib
import re
import sys

FILES = ("src/core/*.[ch]", "src/wire/*.[ch]", "src/stream/*.[ch]", "src/seal/*.[ch]", "mn/store/*.[ch]", "cn/args/*.[ch]", "cn/lent/*.[ch]", "cn/op_call.c",
         "src/rpc/call.c", "src/rpc/call_*.c", "src/rpc/re*_head.c", "src/rpc/session.c", "src/rpc/stream_*.c")


class Bad(Exception):
    pass


def read_table(path, plants):
    """Appends {name, does, seen, edits: [[file, old, new]]} of one table."""
    last = None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        word, _, rest = line.partition(" ")
        if not line or word == "#":
            continue
        if word == "plant":
            plants.append({"name": rest, "does": "", "seen": "", "plan": "", "edits": [], "at": f"{path}:{number}"})
        elif not plants or word not in ("does", "seen", "plan", "file", "-", "+"):
            raise Bad(f"{path}:{number}: unknown line: {line}")
        elif word in ("does", "seen", "plan"):
            plants[-1][word] = rest
        elif word == "file":
            file = rest
        elif word == "-" and last != "-":
            plants[-1]["edits"].append([file, rest, ""])
        else:
            edit = plants[-1]["edits"][-1]
            at = 1 if word == "-" else 2
            edit[at] = f"{edit[at]} {rest}".strip()
        last = word
    for plant in plants:
        if not all((plant["does"], plant["seen"], plant["edits"])):
            raise Bad(f"{plant['at']}: {plant['name']} lacks a line")


def read_seeds(path, plants):
    """{name: seed}."""
    seeds = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            name, seed = line.split()
            if name not in (p["name"] for p in plants):
                raise Bad(f"{path}: no such plant: {name}")
            seeds[name] = int(seed)
    return seeds


def find(text, old):
    """Returns the span of the only occurrence of old, with any white space between words; None: not exactly one."""
    hits = list(re.finditer(r"\s+".join(map(re.escape, old.split())), text))
    return hits[0].span() if len(hits) == 1 else None


def mutate(path, text, plants):
    """Returns text with all replacements of this path; line numbers do not change."""
    spans = []
    for number, plant in enumerate(plants, 1):
        for file, old, new in plant["edits"]:
            if file != path:
                continue
            span = find(text, old)
            if span is None:
                raise Bad(f"{plant['at']}: {plant['name']}: not exactly once in {path}: {old}")
            spans.append((*span, new.replace("PLANTED", f"(lend_planted == {number}u)"), plant))
    spans.sort(key=lambda s: s[0])
    for one, two in zip(spans, spans[1:]):
        if one[1] > two[0]:
            raise Bad(f"{one[3]['at']}: {one[3]['name']} and {two[3]['name']} change the same text")
    for first, end, new, _ in reversed(spans):
        text = text[:first] + new + "\n" * text[first:end].count("\n") + text[end:]
    return text


def list_of(plants, seeds):
    quote = lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    rows = "".join(f"\t{{{quote(p['name'])}, {quote(p['edits'][0][0])},\n\t {quote(p['does'])},\n\t {quote(p['seen'])}, {quote(p['plan']) if p['plan'] else 'NULL'}, {seeds.get(p['name'], 0)}}},\n"
                   for p in plants)
    return f"""/* Written by plant.py. */
#include "sim/planted/plants.h"

#include <stddef.h>

unsigned lend_planted;
const struct lend_plant lend_plants[] = {{
{rows}}};
const unsigned lend_plants_n = sizeof(lend_plants) / sizeof(lend_plants[0]);
"""


def write(path, text):
    """Writes a file only if its text differs, so that it is not compiled again without need."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


def main(repo, out, seeds, tables):
    plants = []
    for table in tables:
        read_table(pathlib.Path(table), plants)
    names = [p["name"] for p in plants]
    twice = {n for n in names if names.count(n) > 1}
    if twice:
        raise Bad(f"two plants are called {', '.join(twice)}")
    seeds = read_seeds(seeds, plants)
    done = set()
    for pattern in FILES:
        for file in sorted(repo.glob(pattern)):
            path = file.relative_to(repo).as_posix()
            done.add(path)
            text = mutate(path, file.read_text(), plants)
            write(out / path, f'extern unsigned lend_planted;\n#line 1 "{path}"\n{text}')
    for plant in plants:
        for file, _, _ in plant["edits"]:
            if file not in done:
                raise Bad(f"{plant['at']}: {plant['name']}: no such file: {file}")
    write(out / "plants.c", list_of(plants, seeds))


if __name__ == "__main__":
    try:
        main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4:])
    except Bad as bad:
        sys.exit(f"plant.py: {bad}")
