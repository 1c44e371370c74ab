#!/usr/bin/env python3
"""Goal: stock gRPC clients, and a test program for HTTP/2, get from a Lend server what gRPC and HTTP/2 specify, and a Lend client
from stock servers, in plaintext and over TLS. Method: the cases of gRPC's interoperability tests, by the clients and servers that
are installed: see scripts/interop.sh. Covers: src/gateway/tls.c, src/gateway/forward_reply.c"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import interop_peers as peers

TIMEOUT = 90  # seconds of one case
GROWTH = 16 << 10  # KiB that a server may grow during the second half of a soak


def make_certificate(folder):
    """Returns the paths of a certificate for localhost and of its key; None: without OpenSSL's program."""
    if not shutil.which("openssl"):
        return None
    cert, key = f"{folder}/cert.pem", f"{folder}/key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                    "-out", cert, "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
                   check=True, capture_output=True)
    return cert, key


def resident(pid):
    return int(re.search(r"VmRSS:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


def run_command(command, env, timeout):
    """Returns a result, and why it is not passed."""
    try:
        run = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", timeout=timeout,
                             env={**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": "", **env})
    except subprocess.TimeoutExpired:
        return "failed", f"no end after {timeout} s"
    if run.returncode == 0:
        return "passed", ""
    lines = (run.stderr or run.stdout).strip().splitlines() or ["no output"]
    return "failed", next((line for line in lines if re.search("error|exception|fail", line, re.IGNORECASE)), lines[-1])


class Table:
    def __init__(self, args):
        self.args, self.cells = args, []

    def add(self, client, server, case, tls, result, why=""):
        self.cells.append({"client": client, "server": server, "case": case, "tls": tls, "result": result, **({"why": why[:200]} if why else {})})
        if not self.args.json and result != "skipped":
            print(f"{client:12} {server:12} {'tls' if tls else 'plain':6} {case:30} {result} {why[:200]}", flush=True)

    def skip(self, client, server, cases, tls, why):
        for case in cases:
            self.add(client, server, case, bool(tls), "skipped", why)
        if cases and not self.args.json:
            print(f"{client:12} {server:12} {'tls' if tls else 'plain':6} skipped: {why}: {' '.join(cases)}")

    def count(self, result):
        return sum(cell["result"] == result for cell in self.cells)


def run_peer(table, peer, name, host, port, ca, served=None):
    """Fills in the cells of a client with the server of a name. served: the cases that the server has; None: all."""
    cases = [case for case in dict.fromkeys([*peer.cases, *peer.wanted]) if not table.args.quick or case not in peers.LARGE]
    if not peer.here:
        table.skip(peer.name, name, cases, ca, "the client is not installed")
        return
    table.skip(peer.name, name, [case for case in cases if case not in peer.cases], ca, "the client has no such case")
    table.skip(peer.name, name, [case for case in cases if case in peer.cases and served and case not in served], ca, "the server has no such case")
    for case in cases:
        if case in peer.cases and (not served or case in served):
            table.add(peer.name, name, case, bool(ca), *run_command(
                peer.command(host, port, case, ca), {**peer.env, **({"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": ca} if ca else {})}, TIMEOUT))


def run_soak(table, clients, server, address, ca):
    """Calls of all kinds, again and again; the server's memory must not grow in the second half."""
    peer = next((peer for peer in clients if peer.name == "grpcio-1.85" and peer.here), None)
    if not table.args.soak or not peer:
        return
    seconds = table.args.soak // 2
    command = [*peer.command(*address, f"soak:{seconds}", ca)]
    result, why = run_command(command, peer.env, seconds + TIMEOUT)
    before = resident(server.pid)
    if result == "passed":
        result, why = run_command(command, peer.env, seconds + TIMEOUT)
    if result == "passed" and resident(server.pid) > before + GROWTH:
        result, why = "failed", f"the server grew from {before} to {resident(server.pid)} KiB"
    table.add(peer.name, "lend", "soak", bool(ca), result, why)


def wait_for_port(port):
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.01)


@contextlib.contextmanager
def stock_server(command, env=None):
    """Runs a server on a free port, which is appended to its command, and returns the port."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    server = subprocess.Popen([str(word) for word in command(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**os.environ, **(env or {})})
    try:
        wait_for_port(int(port))
        yield port
    finally:
        server.kill()
        server.wait()


def run_stock_servers(table, files):
    """Fills in the cells of Lend's client."""
    for server in peers.all_servers(table.args.build):
        client = peers.lend_client(table.args.build)
        lack = "the server has only its own certificate" if files and not server.tls else "" if server.here else "the server is not installed"
        if table.args.quick and (lack or server.name not in peers.QUICK):
            continue
        if lack:
            table.skip(client.name, server.name, client.cases, files, lack)
            continue
        with stock_server(lambda port: server.command(port, files or ()), server.env) as port:
            run_peer(table, client, server.name, "127.0.0.1", port, files and files[0], server.cases)


def run_server(table, files):
    """Fills in the cells of one server, with TLS if it has files of a certificate and its key."""
    args = table.args
    server = subprocess.Popen([args.build / "test" / "interop_server", "http2:127.0.0.1:0" + (f"?cert={files[0]}&key={files[1]}" if files else "")],
                              stdout=subprocess.PIPE, text=True)
    ca = files and files[0]
    try:
        ready = server.stdout.readline().split()
        if len(ready) != 2:
            sys.exit("interop: the server did not start: see its line above")
        host, _, port = ready[1].removeprefix("http2:").rpartition(":")
        clients = [peer for peer in peers.all_peers(args.build) if peer.name in args.clients]
        for peer in clients:
            run_peer(table, peer, "lend", host, port, ca)
        run_soak(table, clients, server, (host, port), ca)
    finally:
        server.terminate()
    if server.wait() != 0:
        table.add("-", "lend", "end", bool(files), "failed", "the server's exit code")


def run_native(table):
    """Fills in the cells of C++ programs under lend grpc-run: the client, with a server that has no TCP port; the server; and both."""
    build = table.args.build
    carried, plain, lend = peers.native_clients(build)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
        server = subprocess.Popen([build / "test" / "interop_server", f"shm:grpc-{port}"], stdout=subprocess.PIPE, text=True)
        server.stdout.readline()
    run_peer(table, carried, "lend-shm", "127.0.0.1", str(port), None)
    server.terminate()
    server.wait()
    if not carried.here or not (build / "test" / "grpcpp_server").exists():
        return
    with stock_server(lambda port: [build / "lend", "grpc-run", build / "test" / "grpcpp_server", port]) as port:
        for client in (carried, plain, lend):
            run_peer(table, client, "grpc-run", "127.0.0.1", port, None)


def run_bridge(table):
    """Fills in the cells of clients of lend grpc-bridge, in front of Lend's server."""
    build, shm = table.args.build, f"shm:interop-{os.getpid()}"
    ends = []
    for words in (["test/interop_server", shm], ["lend", "grpc-bridge", "--listen", "http2:127.0.0.1:0", "--to", shm]):
        ends.append(subprocess.Popen([build / words[0], *words[1:]], stdout=subprocess.PIPE, text=True))
        host, _, port = ends[-1].stdout.readline().split()[1].removeprefix("http2:").rpartition(":")
    for peer in [peers.lend_client(build), *peers.all_peers(build)]:
        if peer.name in ("lend", "grpc-go", "grpcio") and peer.name in table.args.clients:
            run_peer(table, peer, "bridge", host, port, None)
    for end in reversed(ends):
        end.terminate()
        if end.wait() != 0:
            table.add("-", "bridge", "end", False, "failed", "its exit code")


def main():
    parser = argparse.ArgumentParser(description="Stock gRPC clients against a Lend server, and a Lend client against stock servers.")
    parser.add_argument("build", type=pathlib.Path, help="folder of the build")
    parser.add_argument("--quick", action="store_true", help="two clients for each case, none of the long ones")
    parser.add_argument("--soak", type=int, metavar="SECONDS", help="of calls of all kinds, in plaintext and over TLS; 600, with --quick none")
    parser.add_argument("--client", dest="clients", action="append", metavar="NAME", help="this client alone; may be repeated")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    args = parser.parse_args()
    args.build = args.build.resolve()
    if args.soak is None:
        args.soak = 0 if args.quick else 600
    args.clients = args.clients or (peers.QUICK if args.quick else ["lend", "grpc-run", *(peer.name for peer in peers.all_peers(args.build))])
    os.environ["LEND_MODULE_DIR"] = str(args.build)
    table = Table(args)
    with tempfile.TemporaryDirectory() as folder:
        for files in dict.fromkeys([None, make_certificate(folder)]):
            run_server(table, files)
            if "lend" in args.clients:
                run_stock_servers(table, files)
    run_bridge(table)
    if "grpc-run" in args.clients:
        run_native(table)
    failed, passed, skipped = (table.count(result) for result in ("failed", "passed", "skipped"))
    if args.json:
        print(json.dumps({"cells": table.cells, "passed": passed, "failed": failed, "skipped": skipped}))
    elif not passed + failed:
        print("interop: no client is installed: apt install python3-grpcio, or install Go and run scripts/interop.sh again")
    else:
        print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0 if passed + failed else 77


if __name__ == "__main__":
    sys.exit(main())
