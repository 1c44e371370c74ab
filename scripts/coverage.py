#!/usr/bin/env python3
"""Lists the branches of the pure layers that were never taken.

usage: coverage.py [--json] EXPORT       EXPORT: the output of llvm-cov export

A branch is one way out of a condition. Copies of one in several programs, and of a header's in
several files, are one. Not counted: the default that a switch over all its cases does not have, and
cases that lead straight to a LEND_CHECK that fails.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("src/core/", "src/wire/", "mn/store/")
IMPOSSIBLE = re.compile(r"(\s*(case \w+|default):\s*\n)+(\s*break;\s*\n\s*\}\s*\n)?\s*LEND_CHECK\(!\"")


def read(export):
    """{(file, line, column): [times true, times false]}; a case of a switch is never false."""
    taken = {}
    for function in json.loads(pathlib.Path(export).read_text())["data"][0]["functions"]:
        for line, column, _, _, true, false, file, _, _ in function["branches"]:
            # A compiler cache may make the paths relative to the build.
            path = (ROOT / "build-cov" / function["filenames"][file]).resolve()
            name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
            if name.startswith(FOLDERS):
                sums = taken.setdefault((name, line, column), [0, 0])
                sums[0] += true
                sums[1] += false
    return taken


def ways(taken):
    """(file, line, which way, taken) of each branch that counts."""
    text = {}
    for (file, line, column), (true, false) in sorted(taken.items()):
        if file not in text:
            text[file] = (ROOT / file).read_text().splitlines(keepends=True)
        rest = text[file][line - 1:line + 20]
        if rest[0].lstrip().startswith("switch ("):
            continue
        if re.match(r"(case\b|default:)", rest[0][column - 1:]):
            if not IMPOSSIBLE.match("".join(rest)):
                yield file, line, "never", true > 0
        else:
            yield file, line, "never true", true > 0
            yield file, line, "never false", false > 0


def main(as_json, export):
    rows, total, missing = {}, [0, 0], []
    for file, line, way, was in ways(read(export)):
        row = rows.setdefault(file, [0, 0])
        for sums in (row, total):
            sums[0] += was
            sums[1] += 1
        if not was:
            missing.append((file, line, way))
    percent = 100 * total[0] / max(1, total[1])
    if as_json:
        print(json.dumps({"branches": total[1], "branches_taken": total[0], "branch_coverage_percent": round(percent, 2)}))
        return
    for file, (was, n) in sorted(rows.items()):
        print(f"{file:<24} {was:>5} of {n:>5} branches {100 * was / n:>7.2f} %")
    print(f"{'total':<24} {total[0]:>5} of {total[1]:>5} branches {percent:>7.2f} %")
    for file, line, way in missing:
        print(f"{file}:{line}: {way}: {(ROOT / file).read_text().splitlines()[line - 1].strip()}")


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a != "--json"]
    main("--json" in sys.argv, arguments[0])
