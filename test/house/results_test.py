#!/usr/bin/env python3
"""Goal: apps/bench/RESULTS.md and README's table are what scripts/results.py makes of apps/bench/results.json, and a new run
replaces the old run of its name only.
Method: --check on this tree; then a copy of the files is changed in one place at a time, and --check must name the stale file.
Covers: scripts/results.py

usage: results_test.py REPO
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

REPO = pathlib.Path(sys.argv[1])
DATA, PAGE, README = (pathlib.Path(name) for name in ("apps/bench/results.json", "apps/bench/RESULTS.md", "README.md"))
SCRIPTS = ("results.py", "compare_show.py", "compare_targets.py", "results_congestion.py", "results_devices.py", "results_encryption.py", "results_checks.py", "reliability.py")
FIGURE = {"group": "shm", "shape": "echo64", "peer": "lend", "lane": "shm", "figure": "p50_us", "median": 0.123, "spread": 0.02}


def results(root, *args):
    return subprocess.run([sys.executable, "-B", root / "scripts/results.py", *args], capture_output=True, text=True)


def copy(root):
    for name in (DATA, PAGE, README, *(pathlib.Path("scripts") / script for script in SCRIPTS)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPO / name, root / name)


def change(path, old, new):
    text = path.read_text()
    assert old in text, (path, old)
    path.write_text(text.replace(old, new, 1))


def check_stale():
    """A changed figure or page is found, whichever of the three files it is in."""
    whole = next(run for run in json.loads((REPO / DATA).read_text())["runs"] if run["name"] == "compare")
    figure = next(str(row["median"]) for row in whole["rows"] if (row["peer"], row["lane"], row["shape"]) == ("lend", "shm", "echo64"))
    for changed, old, new, stale in ((DATA, f'"median": {figure}', '"median": 9.87', (PAGE, README)),
                                     (PAGE, "# Results", "# Result", (PAGE,)), (README, f"| {figure} |", "| 9.87 |", (README,))):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            copy(root)
            change(root / changed, old, new)
            done = results(root, "--check")
            assert done.returncode == 1 and {line.split()[0] for line in done.stderr.splitlines()} == {str(name) for name in stale}, done
            assert results(root).returncode == 0 and results(root, "--check").returncode == 0


def check_new_run():
    """A whole comparison replaces the whole one and README's figures; a short one has a place of its own."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        copy(root)
        before = json.loads((root / DATA).read_text())["runs"]
        for repeats, name in ((1, "compare-quick"), (5, "compare")):
            run = {"repeats": repeats, "seconds": 0.5, "rows": [FIGURE], "targets": [], "failures": [], "absent": []}
            (root / "new.json").write_text(json.dumps(run))
            assert results(root, "--add", root / "new.json", "--note", "a test").returncode == 0
            after = {run["name"]: run for run in json.loads((root / DATA).read_text())["runs"]}
            assert after[name]["rows"] == [FIGURE] and "a test" in (root / PAGE).read_text(), after[name]
            assert all(after[old["name"]] == old for old in before if old["name"] not in ("compare", "compare-quick"))
            assert ("| Lend, shared memory | 0.123 |" in (root / README).read_text()) == (name == "compare")
            assert results(root, "--check").returncode == 0


got = results(REPO, "--check")
assert got.returncode == 0, got.stderr
check_stale()
check_new_run()
