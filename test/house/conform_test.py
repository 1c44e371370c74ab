#!/usr/bin/env python3
"""Goal: scripts/conform.py reports the suites' results: every case of every carrier, none twice, a
failed one as failed.
Method: a folder with programs that print what Criterion prints for tests that pass, fail, crash,
hang and are skipped; then the real suite of one carrier.
Covers: scripts/conform.py

usage: conform_test.py REPO BUILD
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

REPO, BUILD = map(pathlib.Path, sys.argv[1:])
CASES = ["order", "loss", "duplicates", "back_pressure", "zero_length", "mtu", "mtu_plus_1", "flush", "close_in_flight",
         "restart", "wait"]


def conform(build, *args):
    done = subprocess.run([REPO / "scripts/conform.py", build, "--suites", *args], capture_output=True, text=True, timeout=200)
    return done.returncode, done.stdout, done.stderr


def program(build, name, suites, tap, known=True):
    """A program that lists suites and prints TAP; ctest knows it."""
    text = "\n".join(f"{suite}: {len(tests)} tests\n" + "\n".join(f"├── {test}" for test in tests)
                     for suite, tests in suites.items())
    path = build / "test" / name
    path.write_text(f"#!/bin/sh\ncase $1 in\n--list) cat <<'E'\n{text}\nE\n;;\n*) cat <<'E'\n{tap}\nE\n;;\nesac\n")
    path.chmod(0o755)
    if known:
        with open(build / "CTestTestfile.cmake", "a") as file:
            file.write(f'add_test(io.{name} "{path}")\n')


def check_fakes(build):
    (build / "test").mkdir(parents=True)
    (build / "lend").write_text("#!/bin/sh\n")
    (build / "lend").chmod(0o755)
    program(build, "test_io_good", {"good": CASES + ["own"], "good_own": ["other"]},
            "\n".join(f"ok - good::{case}  (0.01s)" for case in CASES + ["own"])
            + "\nok - good_own::other  # SKIP test was skipped")
    bad = ["ok - bad::order  # SKIP not on this machine: no card", "not ok - bad::loss  (0.00s)", "  ---", "  failures:",
           "  - a.c:1: |+", "      Assertion failed: 3 of 4 came", "  ...", "not ok - bad::duplicates timed out (1.01s)",
           "not ok - bad::mtu unexpected signal after a.c:4"]
    bad += [f"ok - bad::{case}  (0.00s)" for case in CASES[7:]]  # back_pressure ... mtu_plus_1: no result
    program(build, "test_io_bad", {"bad": CASES}, "\n".join(bad))
    program(build, "test_io_stale", {"stale": CASES}, "", known=False)

    code, out, _ = conform(build, "--json")
    got = json.loads(out)
    cells = {(c["carrier"], c["case"]): (c["result"], c["reason"]) for c in got["cells"]}
    assert code == 1 and len(cells) == len(got["cells"]) == 23, (code, got)
    assert (got["pass"], got["fail"], got["absent"]) == (16, 6, 1), got
    assert all(cells["good", case] == ("pass", "") for case in CASES + ["own"]), got
    assert cells["bad", "order"] == ("absent", "not on this machine: no card"), got
    assert cells["bad", "loss"] == ("fail", "3 of 4 came"), got
    for case, words in (("duplicates", "timed out"), ("mtu", "signal"), ("zero_length", "no result")):
        assert cells["bad", case][0] == "fail" and words in cells["bad", case][1], got
    code, out, _ = conform(build)
    assert code == 1 and "16 pass, 6 fail, 1 absent" in out and "3 of 4 came" in out, out
    code, out, _ = conform(build, "--only", "good")
    assert code == 0 and "bad" not in out and "12 pass" in out, out
    code, out, err = conform(build, "--only", "none")
    assert code == 1 and "no carrier" in err, err


with tempfile.TemporaryDirectory() as folder:
    os.environ["XDG_RUNTIME_DIR"] = os.environ["XDG_CONFIG_HOME"] = folder
    check_fakes(pathlib.Path(folder, "build"))
    exit_code, text, _ = conform(BUILD, "--json", "--only", "shm")
    real = json.loads(text)
    assert exit_code == 0 and real["fail"] == 0 and real["pass"] >= len(CASES), real
    print(f"shm: {real['pass']} pass")
