#!/usr/bin/env python3
"""Goal: no assertion is in a function where its failure does not fail the test: Criterion counts
none of a .fini function.
Method: in every C file under test/, no function that a .fini names, and no function of the same
files that it calls, may assert.
Covers: test/teardown.h

usage: fini.py REPO
"""
import pathlib
import re
import sys

FINI = re.compile(r"\.fini\s*=\s*(\w+)")
BODY = r"^(\w[^\n;]*)\b%s\([^;{}]*\)\n\{\n(.*?)^\}"
ASSERT = re.compile(r"\b(cr_(?:assert|expect|fail)\w*|OK|IS)\(")


def bodies(texts, name, caller):
    """The definitions of a function: the one in its caller's file, or else all of them."""
    found = [(path, body) for path, text in texts.items() if name in text for kind, body in re.findall(BODY % name, text, re.M | re.S)
             if path == caller or path.endswith(".h") or not kind.startswith("static")]
    return [f for f in found if f[0] == caller] or found


def asserting(texts, name, caller, seen):
    """The first assertion in the function or in a function that it calls, as (path, assertion)."""
    for path, body in bodies(texts, name, caller):
        found = ASSERT.search(body)
        if found:
            return path, found[1]
        for called in set(re.findall(r"\b(\w+)\(", body)) - seen:
            seen.add(called)
            deeper = asserting(texts, called, path, seen)
            if deeper:
                return deeper
    return None


def bad(texts):
    for path, text in texts.items():
        for name in FINI.findall(text):
            found = asserting(texts, name, path, {name})
            if found:
                yield f"{path}: .fini = {name}: {found[1]}() in {found[0]} cannot fail a test; see test/teardown.h"


SAMPLE = "static void in(void)\n{\n\tcr_assert_eq(1, 1);\n}\n\nstatic void out(void)\n{\n\tin();\n}\n\nTestSuite(a, .fini = out);\n"
assert len(list(bad({"a.c": SAMPLE}))) == 1 and not list(bad({"a.c": SAMPLE.replace("\tin();\n", "")}))
folder = pathlib.Path(sys.argv[1]) / "test"
found = list(bad({str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*.[ch]"))}))
print("\n".join(found))
sys.exit(bool(found))
