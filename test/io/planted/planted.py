#!/usr/bin/env python3
"""Goal: each case of the conformance suite can fail. Method: carriers with one bug each (planted_carriers.c); the case for a bug
must fail with it, and pass without one. Covers: test/io/conform.c

usage: planted.py PROGRAM
"""
import re
import subprocess
import sys

done = subprocess.run([sys.argv[1], "--tap", "--jobs", "2"], capture_output=True, text=True, errors="replace")
tests = re.findall(r"^(ok|not ok) - (planted|sound)_(\w+)::(\w+)", done.stdout + done.stderr, re.M)
wrong = [f"{kind} {carrier}: {name}" for verdict, kind, carrier, name in tests if (verdict == "ok") != (kind == "sound")]
planted = sum(kind == "planted" for _, kind, _, _ in tests)
if wrong or planted < 20 or len(tests) < planted + 10:
    print(done.stdout, done.stderr)
print(f"{planted} planted, {len(tests) - planted} sound; wrong verdicts: {', '.join(wrong) or 'none'}")
sys.exit(bool(wrong) or planted < 20 or len(tests) < planted + 10)
