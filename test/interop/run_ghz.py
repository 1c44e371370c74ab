"""Runs ghz with the arguments, and fails unless all its calls ended OK."""
import json
import subprocess
import sys

report = json.loads(subprocess.run([*sys.argv[1:], "--format", "json"], check=True, capture_output=True).stdout)
sys.exit(None if report["statusCodeDistribution"] == {"OK": report["count"]} else f"ghz: {report['statusCodeDistribution']}")
