#!/usr/bin/env python3
"""The cases of gRPC's interoperability tests, by grpcio: grpcio_client.py [--ca FILE] HOST:PORT CASE... (soak:SECONDS is
one, too). Messages are encoded here: the cases need few fields. Exit code 0: all cases passed."""
import sys
import threading
import time
import traceback

import grpc

SERVICE = "/grpc.testing.TestService/"
REQUESTS = (27182, 8, 1828, 45904)
RESPONSES = (31415, 9, 2653, 58979)
ROUND = """empty_unary large_unary client_streaming server_streaming ping_pong empty_stream custom_metadata status_code_and_message
cancel_after_begin cancel_after_first_response timeout_on_sleeping_server unimplemented_method compressed"""


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n) if n else b""


def part(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def read_varint(data, at):
    n = shift = 0
    while True:
        n, shift, at = n | (data[at] & 127) << shift, shift + 7, at + 1
        if data[at - 1] < 128:
            return n, at


def pairs(data):
    """Returns the fields, with an int or bytes for each."""
    found, at = [], 0
    while at < len(data):
        key, at = read_varint(data, at)
        n, at = read_varint(data, at)
        if key & 7 == 2:
            n, at = data[at:at + n], at + n
        found.append((key >> 3, n))
    return found


def fields(data):
    """Returns the last value of each field."""
    return dict(pairs(data))


def each(data, field):
    """Returns all values of a field."""
    return [value for key, value in pairs(data) if key == field]


def payload(n):
    return part(3, part(2, bytes(n)))


def unary_request(size, n, more=b""):
    return number(2, size) + payload(n) + more


def stream_request(sizes, n, interval=0, more=b""):
    return b"".join(part(2, number(1, size) + number(2, interval)) for size in sizes) + payload(n) + more


def body(data):
    return fields(fields(data).get(1, b"")).get(2, b"")


def echo_status(code, message):
    return part(7, number(1, code) + part(2, message.encode()))


class Cases:
    def __init__(self, channel):
        self.channel = channel

    def unary(self, name, service=SERVICE):
        return self.channel.unary_unary(service + name)

    def duplex(self, requests, **options):
        return self.channel.stream_stream(SERVICE + "FullDuplexCall")(requests, **options)

    def fails(self, run, code, details=None):
        try:
            run()
        except grpc.RpcError as error:
            assert error.code() == code, error
            assert details is None or error.details() == details, error
        else:
            raise AssertionError("no error")

    def empty_unary(self):
        assert self.unary("EmptyCall")(b"") == b""

    def large_unary(self):
        assert body(self.unary("UnaryCall")(unary_request(314159, 271828))) == bytes(314159)

    def compressed(self):
        """Requests are, and so are the replies of a server that supports it."""
        how = {"compression": grpc.Compression.Gzip}
        assert body(self.unary("UnaryCall")(unary_request(314159, 271828), **how)) == bytes(314159)
        call = self.channel.unary_stream(SERVICE + "StreamingOutputCall")
        assert [len(body(m)) for m in call(stream_request(RESPONSES, 0), **how)] == list(RESPONSES)

    def client_streaming(self):
        call = self.channel.stream_unary(SERVICE + "StreamingInputCall")
        got = fields(call(iter([part(1, part(2, bytes(n))) for n in REQUESTS])))
        assert got == {1: sum(REQUESTS)}, got

    def server_streaming(self):
        call = self.channel.unary_stream(SERVICE + "StreamingOutputCall")
        assert [len(body(m)) for m in call(stream_request(RESPONSES, 0))] == list(RESPONSES)

    def ping_pong(self):
        turn = threading.Semaphore(1)

        def requests():
            for size, n in zip(RESPONSES, REQUESTS):
                turn.acquire()
                yield stream_request([size], n)

        got = []
        for message in self.duplex(requests()):
            got.append(len(body(message)))
            turn.release()
        assert got == list(RESPONSES), got

    def empty_stream(self):
        assert list(self.duplex(iter([]))) == []

    def custom_metadata(self):
        key, bin_key = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"
        sent = ((key, "test_initial_metadata_value"), (bin_key, b"\xab\xab\xab"))
        _, call = self.unary("UnaryCall").with_call(unary_request(314159, 271828), metadata=sent)
        assert (key, sent[0][1]) in call.initial_metadata() and (bin_key, sent[1][1]) in call.trailing_metadata()
        call = self.duplex(iter([stream_request([314159], 271828)]), metadata=sent)
        assert (key, sent[0][1]) in call.initial_metadata()
        assert len(list(call)) == 1 and (bin_key, sent[1][1]) in call.trailing_metadata()

    def status_code_and_message(self, text="test status message"):
        more = echo_status(2, text)
        self.fails(lambda: self.unary("UnaryCall")(more), grpc.StatusCode.UNKNOWN, text)
        self.fails(lambda: list(self.duplex(iter([more]))), grpc.StatusCode.UNKNOWN, text)

    def special_status_message(self):
        self.status_code_and_message("\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \U0001f608\t\n")

    def unimplemented_method(self):
        self.fails(lambda: self.unary("UnimplementedCall")(b""), grpc.StatusCode.UNIMPLEMENTED)

    def unimplemented_service(self):
        self.fails(lambda: self.unary("UnimplementedCall", "/grpc.testing.UnimplementedService/")(b""), grpc.StatusCode.UNIMPLEMENTED)

    def cancel_after_begin(self):
        hold = threading.Event()
        call = self.channel.stream_unary(SERVICE + "StreamingInputCall").future(iter(hold.wait, True))
        call.cancel()
        assert call.code() == grpc.StatusCode.CANCELLED
        hold.set()

    def cancel_after_first_response(self):
        hold = threading.Event()

        def requests():
            yield stream_request([31415], 27182)
            hold.wait()

        call = self.duplex(requests())
        assert len(body(next(call))) == 31415
        call.cancel()
        self.fails(lambda: next(call), grpc.StatusCode.CANCELLED)
        hold.set()

    def timeout_on_sleeping_server(self):
        hold = threading.Event()

        def requests():
            yield stream_request([31415], 27182, interval=5000000)
            hold.wait()

        self.fails(lambda: list(self.duplex(requests(), timeout=0.05)), grpc.StatusCode.DEADLINE_EXCEEDED)
        hold.set()

    def concurrent_large_unary(self):
        calls = [self.unary("UnaryCall").future(unary_request(314159, 271828)) for _ in range(1000)]
        assert all(body(call.result()) == bytes(314159) for call in calls)

    def soak(self, seconds):
        end, cases, failures = time.monotonic() + seconds, ROUND.split(), []

        def run(i):
            try:
                while time.monotonic() < end and not failures:
                    getattr(self, cases[i % len(cases)])()
                    i += 1
            except (AssertionError, grpc.RpcError) as error:
                failures.append(f"{cases[i % len(cases)]}: " + " ".join(traceback.format_exc().split()))

        threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures[0]


def open_channel(address, ca):
    if not ca:
        return grpc.insecure_channel(address)
    with open(ca, "rb") as file:
        credentials = grpc.ssl_channel_credentials(file.read())
    return grpc.secure_channel(address, credentials, [("grpc.ssl_target_name_override", "localhost")])


def main(arguments):
    ca = arguments[1] if arguments[0] == "--ca" else None
    address, *cases = arguments[2:] if ca else arguments
    with open_channel(address, ca) as channel:
        for case in cases:
            try:
                name, _, seconds = case.partition(":")
                getattr(Cases(channel), name)(*([int(seconds)] if seconds else []))
                print(f"{case}: passed", flush=True)
            except (AssertionError, grpc.RpcError) as error:
                sys.exit(f"{case}: failed: {str(error)[:900]}")


if __name__ == "__main__":
    main(sys.argv[1:])
