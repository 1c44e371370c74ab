#!/usr/bin/env python3
"""Goal: stock gRPC clients, and a test program for HTTP/2, get from a Lend server what gRPC and HTTP/2 specify, and a Lend client
from stock servers, in plaintext and over TLS. Method: the cases of gRPC's interoperability tests, by the clients and servers that
are installed: see scripts/interop.sh. Covers: src/gateway/tls.c, src/gateway/forward_reply.c"""
import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
CASES = """empty_unary large_unary client_streaming server_streaming ping_pong empty_stream custom_metadata status_code_and_message
special_status_message unimplemented_method unimplemented_service cancel_after_begin cancel_after_first_response
timeout_on_sleeping_server""".split()
TIMEOUT = 60  # seconds of one case


def go_program(name):
    gopath = os.environ.get("GOPATH", os.path.expanduser("~/go"))
    return shutil.which(name, path=f"{gopath}/bin:{os.environ.get('PATH', '')}")


def clients():
    """Yields name, its cases, and a function from address and case to a command."""
    if go_program("client"):
        yield "grpc-go", CASES, lambda address, case, ca: [
            go_program("client"), "--server_host=" + address.rpartition(":")[0], "--server_port=" + address.rpartition(":")[2],
            "--test_case=" + case, *(["--use_tls", "--use_test_ca", "--ca_file=" + ca, "--server_host_override=localhost"] if ca else [])]
    if subprocess.run([sys.executable, "-c", "import grpc"], capture_output=True).returncode == 0:
        yield "grpcio", [*CASES, "concurrent_large_unary"], lambda address, case, ca: [
            sys.executable, "-B", str(HERE / "grpcio_client.py"), *(["--ca", ca] if ca else []), address, case]
    if go_program("grpcurl"):
        service = "grpc.testing.TestService"
        words = {"reflection_list": ["list"], "reflection_describe": ["describe"], "health_list": ["grpc.health.v1.Health/List"],
                 "reflection_method": ["describe", service + ".StreamingOutputCall"], "reflection_call": [service + "/EmptyCall"]}
        yield "grpcurl", list(words), lambda address, case, ca: [
            go_program("grpcurl"), *(["-cacert", ca, "-authority", "localhost"] if ca else ["-plaintext"]), address, *words[case]]
    if go_program("h2spec"):
        yield "h2spec", ["http2", "hpack"], lambda address, case, ca: [
            go_program("h2spec"), case, *(["-t", "-k"] if ca else []), "-h", address.rpartition(":")[0], "-p", address.rpartition(":")[2], "-o", "1",
            "-P", "/grpc.testing.TestService/EmptyCall"]


def make_certificate(folder):
    """Returns the paths of a certificate for localhost and of its key; None: without OpenSSL's program."""
    if not shutil.which("openssl"):
        return None
    cert, key = f"{folder}/cert.pem", f"{folder}/key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                    "-out", cert, "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
                   check=True, capture_output=True)
    return cert, key


def run_cases(peers, server, quick, address, ca):
    for name, cases, command in peers:
        for case in cases:
            if quick and case == "concurrent_large_unary":
                continue
            try:
                run = subprocess.run(command(address, case, ca), capture_output=True, text=True, errors="replace", timeout=TIMEOUT)
                why = (run.stderr or run.stdout).strip().splitlines()[-1:] if run.returncode else []
            except subprocess.TimeoutExpired:
                run, why = None, [f"no end after {TIMEOUT} s"]
            passed = run is not None and run.returncode == 0
            yield {"client": name, "server": server, "case": case, "tls": bool(ca), "result": "passed" if passed else "failed",
                   **({} if passed else {"why": "".join(why)[:200]})}


def show(args, cells):
    for cell in cells:
        if not args.json:
            print(f"{cell['client']:10} {cell['server']:10} {'tls' if cell['tls'] else 'plain':6} {cell['case']:30} {cell['result']} "
                  f"{cell.get('why', '')}", flush=True)
        yield cell


def run_client(args, files):
    """Returns the cells of Lend's client and a stock server."""
    if not go_program("server"):
        return []
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = subprocess.Popen([go_program("server"), f"-port={port}",
                               *(["-use_tls", "-tls_cert_file=" + files[0], "-tls_key_file=" + files[1]] if files else [])],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_port(port)
    program = [args.build / "test" / "interop_client"]
    peers = [("lend", CASES, lambda address, case, ca: program + ["http2:" + address + (f"?name=localhost&ca={ca}" if ca else ""), case])]
    try:
        return list(show(args, run_cases(peers, "grpc-go", args.quick, f"127.0.0.1:{port}", files and files[0])))
    finally:
        server.kill()
        server.wait()


def wait_for_port(port):
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.01)


def run_server(args, files):
    """Returns the cells of one server, with TLS if it has files of a certificate and its key."""
    address = "http2:127.0.0.1:0" + (f"?cert={files[0]}&key={files[1]}" if files else "")
    server = subprocess.Popen([args.build / "test" / "interop_server", address], stdout=subprocess.PIPE, text=True)
    cells = []
    try:
        ready = server.stdout.readline().split()
        if len(ready) != 2:
            sys.exit("interop: the server did not start: see its line above")
        cells += show(args, run_cases(clients(), "lend", args.quick, ready[1].removeprefix("http2:"), files and files[0]))
    finally:
        server.terminate()
    if server.wait() != 0:
        cells.append({"client": "-", "server": "lend", "case": "end", "tls": bool(files), "result": "failed", "why": "its exit code"})
    return cells


def main():
    parser = argparse.ArgumentParser(description="Stock gRPC clients against a Lend server, and a Lend client against stock servers.")
    parser.add_argument("build", type=pathlib.Path, help="folder of the build")
    parser.add_argument("--quick", action="store_true", help="without the long cases")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    args = parser.parse_args()
    os.environ["LEND_MODULE_DIR"] = str(args.build)
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        for files in [None, make_certificate(folder)][:2]:
            if files or not cells:
                cells += run_server(args, files) + run_client(args, files)
    failed = sum(cell["result"] != "passed" for cell in cells)
    if args.json:
        print(json.dumps({"cells": cells, "passed": len(cells) - failed, "failed": failed}))
    elif not cells:
        print("interop: no client is installed: apt install python3-grpcio, or install Go and run scripts/interop.sh again")
    else:
        print(f"{len(cells) - failed} passed, {failed} failed")
    return 77 if not cells else failed > 0


if __name__ == "__main__":
    sys.exit(main())
