#!/usr/bin/env python3
"""Goal: no Python test is hidden by a later one of the same name, which would be the only one that
runs.
Method: every module and class of every Python file is parsed, not run: no function in it has the
name of another.
Covers: test/e2e/programs.py

usage: hidden.py REPO
"""
import ast
import collections
import pathlib
import sys

REPO = pathlib.Path(sys.argv[1])


def hidden(text):
    """The names that are given twice in one scope."""
    for place in ast.walk(ast.parse(text)):
        if isinstance(place, (ast.Module, ast.ClassDef)):
            names = collections.Counter(f.name for f in place.body if isinstance(f, ast.FunctionDef))
            yield from (name for name, n in names.items() if n > 1)


assert list(hidden("class A:\n def f(): pass\n def g(): pass\n def f(): pass")) == ["f"]
bad = [f"{path.relative_to(REPO)}: {name} twice" for folder in ("scripts", "test") for path in sorted((REPO / folder).rglob("*.py"))
       for name in hidden(path.read_text())]
print("\n".join(bad))
sys.exit(bool(bad))
