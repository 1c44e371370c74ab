"""Lend's performance targets relative to its peers, and the comparison's result for each.

A measure returns a value and the distance of the cores ("near", "far"), or None where that was not
measured.
"""
import functools
import json
import pathlib
import re
import subprocess

COUNT = pathlib.Path(__file__).resolve().parent.parent / "test" / "perf" / "count.sh"
LIMIT = 120  # timeout in seconds of a count, and of another command's measurement
ONE_THREAD = "one thread"  # used instead of a distance
SHM, UDP, MEMIF, RING = (("lend", lane) for lane in ("shm", "udp", "memif", "ring"))


def over_posix(c):
    return c.ratio("shm", "echo64", SHM, ("ucx", "posix"), "p50_us")


def calls_over_shm(c):
    return times(1e-6, c.figure("shm", "echo64x64", SHM, "calls_per_s"))


def grpc_one(shape, lane):
    """A measure of gRPC's round trip, relative to Lend's."""
    return lambda c: c.ratio("shm", shape, ("grpc", lane), SHM, "p50_us")


def grpc_async(c):
    return c.ratio("shm", "call32x64", SHM, ("grpc", "async-unix"), "calls_per_s")


def ring_32(c):
    return c.figure("ring", "call32x64", RING, "cycles_per_call")


def ring_966(c):
    return c.figure("ring", "call966x64", RING, "cycles_per_call")


def ring_64k(c):
    return c.figure("ring", "call64kx16", RING, "gbit_per_s")


def of_memcpy(group, shape, who):
    """A measure of the share of one core's memcpy, percent."""
    return lambda c: times(100, c.ratio(group, shape, who, ("memcpy", "memory"), "gbit_per_s"))


def memif_one(c):
    return c.ratio("memif", "echo64", MEMIF, ("ethdev", "memif"), "p50_us")


def memif_many(c):
    return times(100, c.ratio("memif", "echo64x64", MEMIF, ("ethdev", "memif"), "calls_per_s"))


def over_rkey(c):
    return c.ratio("shm", "send8m", SHM, ("ucx", "rkey"), "gbit_per_s")


def over_kernel(c):
    return c.ratio("net", "echo64", UDP, ("kernel", "udp"), "p50_us")


def over_reference(shape, peer):
    """A measure of the time of a loan, relative to a peer's."""
    return lambda c: c.ratio("reference", shape, ("lend_ref", "loan"), (peer, "shm"), "p50_us")


def said_by(*command):
    """A program's output, or nothing where it is missing or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def core_alone(c):
    """The instruction counts of test/perf, by valgrind."""
    counted = re.match(r".*: (\d+)\n", said_by(COUNT, "--build", c.build, "--functions", "core, no checksum, 32"))
    return (int(counted[1]), ONE_THREAD) if counted else None


@functools.lru_cache
def heap(c):
    """The output of lend malloc."""
    return json.loads(said_by(c.build / "lend", "malloc", "--seconds", str(max(2, 20 * c.seconds)), "--json") or "{}")


def over_heap(key):
    """A measure of how much faster lend_malloc() is."""
    return lambda c: (heap(c)[key], ONE_THREAD) if heap(c).get(key) else None


def times(factor, got):
    return got and (got[0] * factor, got[1])


# text, unit, comparison, required value, desired value, function that measures it.
TARGETS = [
    ("64 B round trip over shm, of UCX's over posix shm", "x", "<=", 2, 1, over_posix),
    ("64 B calls over shm, one server core", "M/s", ">=", 5, 10, calls_over_shm),
    ("64 B round trip over shm, gRPC's polled of it", "x", ">=", 20, 40, grpc_one("echo64", "async-unix")),
    ("the same, where waiting ends may sleep", "x", ">=", 80, 200, grpc_one("sleep64", "unary-unix")),
    ("32 B calls over shm, 64 in flight, of gRPC's async", "x", ">=", 100, 400, grpc_async),
    ("net_ring, both ends in one thread, 32 B calls", "cycles", "<=", 280, 200, ring_32),
    ("the same with 966 B", "cycles", "<=", 340, 260, ring_966),
    ("the same with 64 KiB", "Gb/s", ">=", 62, 90, ring_64k),
    ("the same, share of one core's memcpy", "%", ">=", 50, 70, of_memcpy("ring", "call64kx16", RING)),
    ("64 KiB over net_memif, share of one core's memcpy", "%", ">=", 33, 45, of_memcpy("memif", "call64kx16", MEMIF)),
    ("net_memif, 1 in flight, of raw echo over it", "x", "<=", {"near": 1.5, "far": 1.15}, {"near": 1.25, "far": 1.05}, memif_one),
    ("net_memif, 64 in flight, share of raw echo", "%", ">=", 80, 95, memif_many),
    ("8 MiB over shm, share of one core's memcpy", "%", ">=", 60, 90, of_memcpy("shm", "send8m", SHM)),
    ("8 MiB over shm, of UCX's read in place", "x", ">=", 0.95, 1, over_rkey),
    ("64 B round trip over udp, of busy-polled kernel UDP", "x", "<=", 1.15, 1.05, over_kernel),
    ("core alone, instructions per 64 B call, both sides", "", "<=", 600, 350, core_alone),
    ("lend_malloc(), over mimalloc, threads apart", "x", ">=", 0.9, 1, over_heap("local_over_mimalloc")),
    ("the same, one thread takes, the other gives back", "x", ">=", 0.9, 1, over_heap("pair_over_mimalloc")),
    ("lend_malloc(), over rte_malloc(), threads apart", "x", ">=", 5, 20, over_heap("local_over_rte_malloc")),
    ("the same, one thread takes, the other gives back", "x", ">=", 5, 20, over_heap("pair_over_rte_malloc")),
]


REFERENCE_TARGETS = [
    ("16 MiB loan, its ends written and read, of iceoryx2's", "x", "<=", 2, 1, over_reference("ref16m_ends", "iceoryx2")),
    ("1 MiB loan, every byte written and read, of POSIX shm", "x", "<=", 1.2, 1, over_reference("ref1m", "posix")),
]


def judge(comparison, by_reference):
    """One entry per target; met is None where nothing was measured."""
    out = []
    for what, unit, sense, bar, aim, measure in REFERENCE_TARGETS if by_reference else TARGETS:
        got, mode = measure(comparison) or (None, "near")
        bar, aim = (t.get(mode, t["near"]) if isinstance(t, dict) else t for t in (bar, aim))
        met = None if got is None else got <= bar if sense == "<=" else got >= bar
        out.append({"what": what, "unit": unit, "sense": sense, "bar": bar, "aim": aim, "measured": got, "mode": mode, "met": met})
    return out
