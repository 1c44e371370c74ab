#!/usr/bin/env python3
"""Prints where the CPU time of the social network's processes goes, in us per request: Lend against gRPC C++, of the same handlers.

usage: social_profile.py BUILD [--mix MIX] [--rate N] [--carrier C] [--workload W] [--arm value|auto|ref|grpc]... [--json FILE]

perf (linux-perf) samples the stacks of the gateway and the services under load. A sample counts for the first frame, from the top, that
belongs to a part: so a copy or a system call belongs to the part that asked for it. `calls` are Lend or gRPC, with the waits of the event
loop; `encoding` is protobuf-c. The first table's share of Lend in a compose is of all CPU time, that of the kernel included.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ARMS = {"value": ["lend", "social", "--by", "value"], "auto": ["lend", "social", "--by", "auto"], "ref": ["lend", "social", "--by", "ref"],
        "grpc": ["peer-social-grpc", "--by", "value"]}
SECONDS = 4  # of the load; half of them are sampled
# Parts by the library, then by the function, of a frame. What no row names is the application.
LIBRARIES = (("store", r"lmdb|hiredis"), ("http", r"microhttpd|jansson"), ("encoding", r"protobuf-c"),
             ("calls", r"grpc|libgpr|absl|libupb|libaddress_sorting|libstdc|libre2|libcares"))
FUNCTIONS = (("calls", r"^(lend_(pb|grpc|named)_|_?[Zz]?N?.*grpc|Events|.*ByteBuffer)"),
             ("encoding", r"^(protobuf_c_|social__|pack_|unpack_|parse_|.*_packed|scan_)"),
             ("store", r"^(store_|mdb_|redis_|memcached_)"), ("http", r"^(http_|gate_|MHD_)"))
GLUE = r"libc\.so|\[kernel|\[unknown|ld-linux|vdso|libpthread"


def library_functions(build):
    """The functions of Lend, static ones included."""
    text = subprocess.run(["nm", f"{build}/liblend_all.a"], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"^[0-9a-f]+ [tT] (\S+)$", text, re.M))


def part_of(frames, lend):
    for name, library in frames:
        if re.search(GLUE, library):
            continue
        for part, pattern in LIBRARIES:
            if re.search(pattern, library):
                return part
        name = re.split(r"[.@+]", name)[0]
        for part, pattern in FUNCTIONS:
            if re.search(pattern, name):
                return part
        return "calls" if name in lend else "application"
    return "unknown"


def descendants(pid):
    found = []
    for child in subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split():
        found += [int(child), *descendants(child)]
    return found


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def sample(process, file):
    """Records the stacks of all processes with roles, once the load runs."""
    while not any(" load --target" in command_of(pid) for pid in descendants(process.pid)):
        if process.poll() is not None:
            sys.exit(f"it ended early: {process.communicate()[1]}")
        time.sleep(0.05)
    time.sleep(0.3)
    roles = [str(pid) for pid in descendants(process.pid) if "--role " in command_of(pid)]
    subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", "997", "--call-graph", "dwarf,8192", "-o", file, "-p", ",".join(roles),
                    "--", "sleep", str(SECONDS / 2)], check=False, stderr=subprocess.DEVNULL)  # SIGTERM: the load ended first


def profile(args, arm, lend):
    """CPU time per request by part, in us; and the goodput."""
    program, *more = ARMS[arm]
    command = [f"{args.build}/{program}", *more, "--workload", args.workload, "--carrier", args.carrier, "--users", "100", "--rate",
               str(args.rate), "--seconds", str(SECONDS), "--json"]
    command += ["--mix", args.mix] if args.mix else []
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        sample(process, f"{folder}/perf.data")
        report = json.loads(process.communicate(timeout=60)[0])
        text = subprocess.run(["perf", "script", "-i", f"{folder}/perf.data", "-F", "ip,sym,dso", "--no-inline"], capture_output=True, text=True,
                              check=False).stdout
    samples = [block for block in text.split("\n\n") if block.strip()]
    if not samples:
        sys.exit("perf took no samples: the machine is too busy")
    found = collections.Counter(part_of(re.findall(r"^\s*[0-9a-f]+ (.*?) \(([^()]*)\)$", block, re.M), lend) for block in samples)
    seconds = sum(cpu for tier, cpu in report["cpu_s_per_tier"].items() if tier != "memory-node")
    us = seconds * 1e6 / (report["goodput_per_s"] * SECONDS)
    return {part: n / len(samples) * us for part, n in sorted(found.items())} | {"total": us}, report["goodput_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--mix", help="the workload's own, unless set")
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--carrier", default="shm")
    parser.add_argument("--workload", default="original")
    parser.add_argument("--arm", action="append", choices=ARMS)
    parser.add_argument("--json")
    args = parser.parse_args()
    lend, result = library_functions(args.build), {}
    for arm in args.arm or ("value", "grpc"):
        if not pathlib.Path(args.build, ARMS[arm][0]).exists():
            continue
        result[arm], goodput = profile(args, arm, lend)
        print(f"{arm}, {args.mix or args.workload}, {goodput:.0f} requests/s:", ", ".join(f"{part} {us:.0f} us" for part, us in result[arm].items()),
              f"- calls {result[arm].get('calls', 0) / result[arm]['total']:.1%}", flush=True)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result), encoding="ascii")


if __name__ == "__main__":
    main()
