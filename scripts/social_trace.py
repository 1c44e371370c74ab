#!/usr/bin/env python3
"""Counts what tracing costs: instructions per composed post at the gateway of the social network, where traces begin.

usage: social_trace.py BUILD [--requests N] [--json FILE]

valgrind's callgrind counts the gateway's instructions in its requests, its calls and their ends, without the turns that find nothing. The
gateway runs without $LEND_TRACE (only the library's own samples), with a share of 0.01, and with 1: all calls.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

REPO = pathlib.Path(__file__).resolve().parents[1]
SHARES = ("0", "0.01", "1")
TEXT = "hello @username_2 http://a.b " + "x" * 256


def count(net, share, n, file):
    """Instructions per request of a gateway that samples this share."""
    net.kill("gateway", signal.SIGTERM)
    counted = [f"--toggle-collect={name}" for name in ("run_some", "run_daemon")]
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={file}", "--collect-atstart=no", *counted, net.build / "lend-social",
               "--role", "gateway", "--dir", net.dir, "--listen", net.listen("gateway"), "--by", "value", "--http", f"127.0.0.1:{net.port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "LEND_TRACE": share}) as process:
        assert process.stdout.readline().startswith("ready "), "the gateway does not start under valgrind"
        for i in range(n):
            assert net.compose(1 + i % 4, TEXT)[0] == 200
        process.send_signal(signal.SIGTERM)
    net.start("gateway")
    return int(re.search(r"^(?:totals|summary): (\d+)", pathlib.Path(file).read_text(encoding="ascii"), re.M)[1]) / n


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--json")
    args = parser.parse_args()
    sys.argv = [sys.argv[0], str(args.build)]  # what the modules of the tests read
    sys.path.insert(0, str(REPO / "test/e2e"))
    from social_network import Social  # pylint: disable=import-outside-toplevel

    with tempfile.TemporaryDirectory() as folder, Social("value", node=False) as net:
        net.build = args.build.resolve()
        for n in range(1, 5):
            assert net.register(n)[0] == 200
        result = {share: count(net, share, args.requests, f"{folder}/callgrind") for share in SHARES}
    for share, instructions in result.items():
        print(f"LEND_TRACE={share}: {instructions:.0f} instructions per request, {instructions / result['0'] - 1:+.2%}")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result), encoding="ascii")


if __name__ == "__main__":
    main()
