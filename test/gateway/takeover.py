#!/usr/bin/env python3
"""Goal: clients of gRPC lose no call when a server ends and another one has begun at its port. Method: threads
call by grpcio, while servers replace each other at SIGTERM. Covers: src/gateway/gateway.c, src/rpc/drain.c,
apps/common/bench_server.c

usage: takeover.py BUILD_DIR"""
import os
import signal
import subprocess
import sys
import threading

try:
    import grpc
except ImportError:
    sys.exit(77)

NAME, TIMES, CALLERS = f"shm:takeover{os.getpid()}", 4, 4
ended, counts, errors = threading.Event(), [0] * CALLERS, []


def serve(i, port):
    server = subprocess.Popen([os.path.join(sys.argv[1], "lend"), "serve", "--demo",
                               f"{NAME}-{i},http2:127.0.0.1:{port}?reuseport"], stdout=subprocess.PIPE, text=True)
    return server, server.stdout.readline().strip().rpartition(":")[2]


def call(i, port):
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        greet = channel.unary_unary("/demo.Demo/Greet")
        while not ended.is_set():
            try:
                assert b"hello" in greet(b"\n\5hello", timeout=20)
                counts[i] += 1
            except (grpc.RpcError, AssertionError) as error:
                errors.append(str(error))


def await_calls():
    """Waits until each thread has made calls since now."""
    before = list(counts)
    while not errors and any(now < then + 5 for now, then in zip(counts, before)):
        ended.wait(0.001)


server, port = serve(0, 0)
threads = [threading.Thread(target=call, args=(i, port)) for i in range(CALLERS)]
for thread in threads:
    thread.start()
for i in range(1, TIMES):
    await_calls()
    after, _ = serve(i, port)
    server.send_signal(signal.SIGTERM)
    if server.wait(30):
        errors.append(f"the server ended with {server.returncode}")
    server = after
await_calls()
ended.set()
for thread in threads:
    thread.join()
server.terminate()
server.wait(30)
print(sum(counts), "calls,", len(errors), "errors", errors[:3])
sys.exit(bool(errors))
