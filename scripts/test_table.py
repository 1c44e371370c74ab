#!/usr/bin/env python3
"""Writes test/COVERS.md: for each source file the tests that name it in their first comment.

usage: test_table.py [--check] [ROOT]      --check: write nothing, fail when a rule is broken

A test is a file under test/ with "Goal:" in its first comment. After "Covers:" it lists the files
that it tests: paths from the root, separated by commas. Every .c file of the product needs a test.
"""
import collections
import pathlib
import re
import sys

PRODUCT = ("src", "cn", "mn")
SUFFIXES = {".c", ".py", ".sh", ".pml"}
UNTESTED = {  # covered by nothing: the reason
    "src/io/module/glue/module_glue.c": "a part of each module; the tests of dpdk, verbs and raw run it",
    "src/io/raw/mlx5.c": "needs a ConnectX NIC",
    "src/io/raw/mlx5_datapath.c": "needs a ConnectX NIC",
}
HEAD = """# Tests by source file

Written by `scripts/test_table.py` from the `Covers:` lines of the tests; the ctest `house.covers`
fails when it is out of date. A test is named by its file: `unit/loss` is `test/unit/loss_test.c`.
"""


def first_comment(path):
    """The first comment or docstring as one line, without comment signs."""
    text = path.read_text(errors="replace")
    if path.suffix in (".c", ".pml"):
        match = re.match(r"\s*/\*(.*?)\*/", text, re.S)
    elif path.suffix == ".py":
        match = re.match(r'#![^\n]*\n"""(.*?)"""', text, re.S)
    else:
        match = re.match(r"#![^\n]*\n((?:#[^\n]*\n)+)", text)
    lines = match[1].splitlines() if match else []
    return " ".join(re.sub(r"^\s*[*#]?\s?", "", line) for line in lines)


def covered(comment):
    """The paths after "Covers:", up to the first word that is none."""
    paths = []
    for word in comment.partition("Covers:")[2].split():
        path = word.rstrip(",.")
        if not re.fullmatch(r"[\w./-]*[./][\w./-]+", path):
            break
        paths.append(path)
        if not word.endswith(","):
            break
    return paths


def read_tests(root):
    """Returns {source file: [test]} and what is wrong with the comments."""
    tests, faults = collections.defaultdict(list), []
    for path in sorted((root / "test").rglob("*")):
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        comment = first_comment(path)
        if "Goal:" not in comment:
            continue
        name = path.relative_to(root)
        sources = covered(comment)
        if not sources:
            faults.append(f"{name}: no Covers: in the first comment")
        for source in sources:
            if not (root / source).exists():
                faults.append(f"{name}: covers {source}, which does not exist")
            tests[source].append(re.sub(r"(_test)?\.\w+$", "", str(name.relative_to("test"))))
    return tests, faults


def find_untested(root, tests):
    faults = []
    for folder in PRODUCT:
        for path in sorted((root / folder).rglob("*.c")):
            name = str(path.relative_to(root))
            if name not in tests and name not in UNTESTED:
                faults.append(f"{name}: no test covers it")
    for name in UNTESTED:
        if name in tests or not (root / name).exists():
            faults.append(f"{name}: is covered or gone, but in the list UNTESTED of test_table.py")
    return faults


def find_missing_tests(root):
    """What test/FAULTS.md names and no file of test/ has: `FOLDER.NOUN`, and names of cases."""
    files = [f for f in (root / "test").rglob("*") if f.suffix in SUFFIXES | {".txt"} and f.is_file()]
    words = {w for f in files for w in re.findall(r"\w+", f.read_text(errors="replace"))}
    faults = []
    for row in (root / "test/FAULTS.md").read_text().splitlines()[6:]:
        for folder, noun in re.findall(r"`(\w+)\.(\w+)`", row):
            if not any((root / "test" / folder).rglob(f"*{noun}*")) and noun not in words:
                faults.append(f"test/FAULTS.md: no test {folder}.{noun}")
        for case in re.findall(r"(?<![`.\w])[a-z]+_\w+", row):
            if case not in words:
                faults.append(f"test/FAULTS.md: no case {case}")
    return faults


def table(tests):
    """The text of COVERS.md."""
    folders = collections.defaultdict(list)
    for source in sorted(tests):
        folders[str(pathlib.PurePath(source).parent)].append(source)
    text = HEAD
    for folder, sources in sorted(folders.items()):
        text += f"\n## {folder}\n\n| source | tests |\n|---|---|\n"
        for source in sources:
            text += f"| `{pathlib.PurePath(source).name}` | {', '.join(sorted(tests[source]))} |\n"
    text += "\n## Not covered\n\n| source | reason |\n|---|---|\n"
    return text + "".join(f"| `{name}` | {why} |\n" for name, why in sorted(UNTESTED.items()))


def main():
    args = [a for a in sys.argv[1:] if a != "--check"]
    root = pathlib.Path(args[0]) if args else pathlib.Path(__file__).resolve().parent.parent
    tests, faults = read_tests(root)
    faults += find_untested(root, tests) + find_missing_tests(root)
    file = root / "test/COVERS.md"
    if "--check" not in sys.argv:
        file.write_text(table(tests))
    elif not file.exists() or file.read_text() != table(tests):
        faults.append("test/COVERS.md is out of date: run scripts/test_table.py")
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


sys.exit(main())
