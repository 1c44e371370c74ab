#!/usr/bin/env python3
"""A gRPC C++ program that knows nothing of Lend, under lend grpc-run: every kind of call by each API.

Goal: calls reach native servers without HTTP/2, and servers under grpc-run; they fall back to HTTP/2.
Method: program.cc checks what it gets; only a native server, without any TCP port, answers where the
native path is tested.
Covers: src/preload/slices.c, src/preload/carried.c,
src/preload/carried_run.c, src/preload/channel.c, src/preload/idle.c, src/preload/engine.c, src/preload/queue.c, src/preload/real.c, src/preload/inproc_relay.c, src/preload/inproc_steps.c,
src/preload/inproc_server.c, apps/tools/grpc_run.c

usage: unchanged_test.py BUILD [SANITIZER]    of a build with sanitizers: the library that has them
"""
import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

BUILD = pathlib.Path(sys.argv[1])
LEND = BUILD / "lend"
os.environ["LEND_MODULE_DIR"] = str(BUILD)
PROGRAM = BUILD / "test" / "test_preload_program"
NATIVE = BUILD / "test" / "test_preload_native"
OTHER_VERSION = BUILD / "test" / "libtest_preload_other_version.so"
SANITIZER = "".join(sys.argv[2:])
RUN = ["env", f"LD_PRELOAD={SANITIZER}", LEND, "grpc-run"]
RUN_OTHER = ["env", f"LD_PRELOAD={SANITIZER}:{OTHER_VERSION}", LEND, "grpc-run"]
APIS = ("blocking", "queue", "callback")
UNAVAILABLE = "14"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@contextlib.contextmanager
def server(*command):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert process.returncode in (0, 3, -signal.SIGTERM, -signal.SIGKILL), f"{command}: {process.returncode}"


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.stdout.strip(), done.returncode, done.stderr


def check_all(name, port, prefix=RUN, apis=APIS):
    for api in apis:
        out, code, err = run([*prefix, PROGRAM, "check", port, api])
        assert code == 0 and out.startswith("ok "), f"{name}, {api}: {code} {out} {err}"
        print(f"{name}, {api}: {out}", flush=True)


def test_native():
    for name, *more in (("shm",), ("udp", "udp"))[:1 if SANITIZER else 2]:
        port = free_port()
        with server(NATIVE, port, *more) as (native, _):
            out, code, err = run([*RUN, PROGRAM, "share", port])
            assert code == 0 and int(out) < 500, f"1000 calls took {out} datagrams {err}"
            check_all(f"native server, {name}", port)
            for inactive in (["env", "LEND_GRPC=off", *RUN], RUN_OTHER):
                out, code, err = run([*inactive, PROGRAM, "die", port])
                assert (out, code) == (UNAVAILABLE, 0), f"no TCP server is there: {inactive} {out} {err}"
                assert native.poll() is None, f"the native server got a call: {inactive}"
            out, code, err = run([*RUN, PROGRAM, "die", port])
            assert (out, code) == (UNAVAILABLE, 0), f"a server that dies in a call: {out} {err}"


def test_both():
    with server(*RUN, PROGRAM, "serve", "0") as (_, port):
        check_all("both under grpc-run", port)
        check_all("stock client", port, prefix=[])
    with server(PROGRAM, "serve", "0") as (_, port):
        check_all("stock server", port)


def test_no_inproc():
    """gRPC without its in-process channel: the name is replaced in copies of its libraries."""
    name = b"grpc_inproc_channel_create"
    with tempfile.TemporaryDirectory() as folder:
        for path in re.findall(r"=> (\S+/libgrpc(?:\+\+)?\.so\S*)", run(["ldd", PROGRAM])[0]):
            library = pathlib.Path(path).read_bytes()
            assert name in library, path
            (pathlib.Path(folder) / pathlib.Path(path).name).write_bytes(library.replace(name, name[::-1]))
        path = ["env", f"LD_LIBRARY_PATH={folder}"]
        out, _, _ = run([*path, LEND, "doctor"])
        assert "29.0.0 has no channel in process" in out, out
        with server(*path, *RUN, PROGRAM, "serve", "0") as (_, port):
            check_all("server without a channel in process", port, apis=("callback",))
            _, code, err = run([LEND, "ping", f"shm:grpc-{port}"])
            assert code, f"there is an endpoint: {err}"


def native_ends(*queue):
    with server(PROGRAM, "serve", "0") as (_, port), server(NATIVE, port) as (native, _):
        client = subprocess.Popen([*RUN, PROGRAM, "again", port, *queue], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert client.stdout.readline() == "0\n"
        native.kill()
        native.wait()
        out, _ = client.communicate("\n", timeout=30)
        assert out in ("0\n0\n", f"{UNAVAILABLE}\n0\n"), f"a call that may have run ends, the next one uses HTTP/2: {out}"


def test_native_ends():
    native_ends()
    native_ends("queue")


def test_native_refuses():
    with server(PROGRAM, "serve", "0") as (_, port), server(NATIVE, port):
        out, code, err = run([*RUN, PROGRAM, "drain", port])
        assert code == 0 and out.startswith("ok "), f"streams without messages use HTTP/2: {code} {out} {err}"
        print(f"native server refuses: {out}", flush=True)


def test_command():
    out, code, err = run(RUN)
    assert code == 2 and "run what?" in err
    _, code, err = run([*RUN, "./no-such-program"])
    assert code == 2 and "no-such-program" in err
    out, code, _ = run([*RUN, "echo", "hello"])
    assert (out, code) == ("hello", 0), "a program without gRPC"


def test_demo():
    demo = pathlib.Path(__file__).parents[2] / "scripts" / "grpc_demo.py"
    with tempfile.TemporaryDirectory() as folder:
        picture = pathlib.Path(folder) / "demo.svg"
        out, code, err = run([sys.executable, "-B", demo, BUILD, "--seconds", "0.05", "--out", picture])
        assert code == 0 and len(re.findall(r"[\d.]+ us +\d+ calls/s", out)) == 2, f"{out} {err}"
        texts = [text.text for text in xml.etree.ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")]
        assert len(texts) == 10, texts


for test in (test_command, test_native, test_native_ends, test_native_refuses, test_no_inproc, test_both):
    test()
if not SANITIZER:
    test_demo()
