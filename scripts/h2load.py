#!/usr/bin/env python3
"""Requests per second of one server core over HTTP/2, as h2load of nghttp2 makes them: a Lend endpoint's gateway next to gRPC C++.

Each server runs on a core of its own and sleeps when idle; its CPU time counts, all threads. gRPC's is the better of its asynchronous
server and its own threads. The servers take turns.

usage: scripts/h2load.py [--build BUILD] [--requests N] [--streams N] [--rounds N] [--json]
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

LANES = {"door": ["gateway-tcp"], "grpc": ["async-tcp", "unary-tcp"]}
BAR = 4


def measure(args, lane, body):
    """Returns requests per second of CPU time."""
    window = [] if lane == "unary-tcp" else ["--window", str(args.streams)]
    with subprocess.Popen([args.build / "peer-grpc", "--serve", "--sleep", "--lane", lane, *window], stdout=subprocess.PIPE,
                          text=True) as server:
        address = server.stdout.readline().strip("\0\n")
        load = subprocess.run(["h2load", "-n", str(args.requests), "-c", "1", "-m", str(args.streams), "-d", body, "-H",
                               "content-type: application/grpc", "-H", "te: trailers", f"http://{address}/asking.Asking/Ask"],
                              capture_output=True, text=True, check=True)
        server.terminate()
        done = json.loads(server.stdout.read())
    good = re.search(r"status codes: (\d+) 2xx", load.stdout)
    size = re.search(r"\((\d+)\) data", load.stdout)
    if not good or int(good[1]) != args.requests or done["requests"] != args.requests:
        sys.exit(f"h2load: {lane} did not answer all requests: {load.stdout}")
    if int(size[1]) != args.requests * pathlib.Path(body).stat().st_size:
        sys.exit(f"h2load: {lane} answered with {size[1]} bytes, not with what it got")
    return args.requests / done["cpu_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "build")
    parser.add_argument("--requests", type=int, default=100000)
    parser.add_argument("--streams", type=int, default=64, help="requests in flight, in one connection")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    data = b"\x0a\x40" + bytes(range(64))  # a message of echo.proto with 64 bytes
    rates = {lane: [] for lanes in LANES.values() for lane in lanes}
    with tempfile.NamedTemporaryFile() as body:
        body.write(bytes([0]) + len(data).to_bytes(4, "big") + data)
        body.flush()
        for _ in range(args.rounds):
            for lane, got in rates.items():
                got.append(measure(args, lane, body.name))
    best = {name: max(statistics.median(rates[lane]) for lane in lanes) for name, lanes in LANES.items()}
    result = {**{f"{name}_per_core_s": round(rate) for name, rate in best.items()}, "ratio": round(best["door"] / best["grpc"], 2),
              "bar": BAR, "streams": args.streams, "rounds": args.rounds}
    if args.json:
        print(json.dumps(result))
    else:
        print("\n".join(f"{name:18} {value}" for name, value in result.items()))
    return result["ratio"] < BAR


if __name__ == "__main__":
    sys.exit(main())
