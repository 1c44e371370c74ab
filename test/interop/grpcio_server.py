#!/usr/bin/env python3
"""The server of gRPC's interoperability tests, by grpcio: grpcio_server.py PORT [CERT KEY]. It serves until it is killed."""
import concurrent.futures
import pathlib
import sys
import time

import grpc

from grpcio_client import body, each, fields, number, part

INITIAL, TRAILING = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"


def begin(request, context):
    """Echoes metadata, and ends the call with the status that a request asks for."""
    for key, value in context.invocation_metadata():
        if key == INITIAL:
            context.send_initial_metadata(((key, value),))
        elif key == TRAILING:
            context.set_trailing_metadata(((key, value),))
    status = fields(fields(request).get(7, b""))
    if status.get(1):
        code = next(code for code in grpc.StatusCode if code.value[0] == status[1])
        context.abort(code, status[2].decode())


def unary(request, context):
    begin(request, context)
    asked = fields(request)
    return part(1, part(2, bytes(asked.get(2, 0))))


def outputs(request):
    for one in each(request, 2):
        time.sleep(fields(one).get(2, 0) / 1e6)
        yield part(1, part(2, bytes(fields(one).get(1, 0))))


def stream_output(request, context):
    begin(request, context)
    yield from outputs(request)


def stream_input(requests, context):
    return number(1, sum(len(body(request)) for request in requests))


def full_duplex(requests, context):
    for i, request in enumerate(requests):
        begin(request, context) if not i else None
        yield from outputs(request)


METHODS = {
    "EmptyCall": grpc.unary_unary_rpc_method_handler(lambda request, context: b""),
    "UnaryCall": grpc.unary_unary_rpc_method_handler(unary),
    "StreamingOutputCall": grpc.unary_stream_rpc_method_handler(stream_output),
    "StreamingInputCall": grpc.stream_unary_rpc_method_handler(stream_input),
    "FullDuplexCall": grpc.stream_stream_rpc_method_handler(full_duplex),
}


def main(port, *files):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=32))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("grpc.testing.TestService", METHODS),))
    if files:
        cert, key = (pathlib.Path(file).read_bytes() for file in files)
        server.add_secure_port(f"127.0.0.1:{port}", grpc.ssl_server_credentials([(key, cert)]))
    else:
        server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main(*sys.argv[1:])
