#!/usr/bin/env python3
"""Goal: lend call and lend ping reach any server, print its reply as it is, and fail in one line with the status and the fix; with
a .proto file messages are JSON, and lend protoc compiles it.

Method: the example servers of the build answer them; the server is missing, stopped, killed, or lacks the method; JSON, .proto files
and protoc itself are wrong or missing.

Covers: src/rpc/method.c, src/rpc/stats_service.c, apps/tools/trace_command.c, apps/tools/trace_tree.c, apps/tools/trace_otlp.c

usage: tools.py BUILD_DIR [NAME...]      only tests whose name contains one of the names
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

from programs import BUILD, LEND, TEMP, lend, lend_json, one_line, run_tests


def is_listening(path):
    """The file is there before the server listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        return probe.connect_ex(str(path)) == 0


@contextlib.contextmanager
def example(name, *args):
    """An example server, once it listens at shm:NAME."""
    (TEMP / "lend" / name).unlink(missing_ok=True)  # of one that was killed
    server = subprocess.Popen([BUILD / "examples" / name, *args], stdout=subprocess.DEVNULL,
                              env={**os.environ, "LEND_MODULE_DIR": str(BUILD)})
    try:
        while not is_listening(TEMP / "lend" / name):
            assert server.poll() is None, name
            time.sleep(0.01)
        yield server
    finally:
        server.kill()
        server.wait(10)


def call(*args, code=0, text=None):
    done = subprocess.run([LEND, "call", *map(str, args)], capture_output=True, timeout=30, input=text)
    assert done.returncode == code, (args, done)
    return done


class Call(unittest.TestCase):
    def test_the_request_is_a_text_a_file_or_standard_input(self):
        (TEMP / "name").write_bytes(b"file")
        with example("hello"):
            for data, text in (("text", None), (f"@{TEMP / 'name'}", None), ("-", b"pipe")):
                want = b"hello, " + {"text": b"text", "-": b"pipe"}.get(data, b"file")
                self.assertEqual(call("shm:hello", 1, "--data", data, text=text).stdout, want)
            self.assertEqual(call("shm:hello", "0x1").stdout, b"hello, ")

    def test_hex_and_json(self):
        with example("hello"):
            self.assertEqual(call("shm:hello", 1, "--data", "0123456789", "--hex").stdout.decode().splitlines(),
                             ["00000000  68 65 6c 6c 6f 2c 20 30  31 32 33 34 35 36 37 38  |hello, 012345678|",
                              "00000010  39" + " " * 48 + "|9|"])
            got = json.loads(call("shm:hello", 1, "--data", 'a"b\n', "--json").stdout)
            self.assertEqual((got["status"], got["status_name"], got["message"], got["path"]), (0, "OK", "", "shm"))
            self.assertEqual((got["ran"], got["bytes"], got["reply"]), ("yes", 11, 'hello, a"b\n'))
            got = json.loads(call("shm:hello", 1, "--data", "\xff", "--json").stdout)
            self.assertEqual(bytes.fromhex(got["reply_hex"]), "hello, \xff".encode())

    def test_bytes_come_back_as_they_are(self):
        with example("kv"):
            for size in (0, 1, 5000, 3 << 20):
                value = os.urandom(size)
                (TEMP / "value").write_bytes(b"key=" + value)
                call("shm:kv", 1, "--data", f"@{TEMP / 'value'}")
                self.assertEqual(call("shm:kv", 2, "--data", "key").stdout, value)

    def test_named_method(self):
        with example("named"):
            done = subprocess.run([BUILD / "examples" / "named", "Ada"], capture_output=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (0, b"hello, Ada\nserved-by: named\n"), done.stderr)
            self.assertEqual(call("shm:named", "/hello.Greeter/Greet").stdout, b"hello, stranger")
            done = call("shm:named", "/hello.Greeter/Greet", "--header", "user: Ada")
            self.assertEqual((done.stdout, done.stderr), (b"hello, Ada", b"served-by: named\n"))
            got = json.loads(call("shm:named", "/hello.Greeter/Greet", "--json").stdout)
            self.assertEqual((got["initial"], got["trailing"]), ({}, {"served-by": "named"}))
            self.failed("shm:named", "/hello.Greeter/Part", word="UNIMPLEMENTED: no handler for method /hello.Greeter/Part")

    @unittest.skipUnless((BUILD / "lend_gateway.so").exists() and (BUILD / "lend_proto.so").exists(), "parts are not built")
    def test_demo_of_the_server(self):
        proto = pathlib.Path(__file__).parents[2] / "apps/grpc/demo.proto"
        grpcurl = shutil.which("grpcurl", path=f"{os.path.expanduser('~/go/bin')}:{os.environ['PATH']}")
        env = {**os.environ, "LEND_MODULE_DIR": str(BUILD)}
        with subprocess.Popen([LEND, "serve", "shm:demo,http2:127.0.0.1:0", "--demo", "--json"], stdout=subprocess.PIPE, text=True,
                              env=env) as server:
            ready = server.stdout.readline().split()[1]
            self.assertEqual(call("shm:demo", "/demo.Demo/Greet", "--proto", proto, "--data", '{"name": "Ada"}').stdout,
                             b'{"text":"hello, Ada"}\n')
            self.failed("shm:demo", "/demo.Demo/Greet", "--proto", proto, word="INVALID_ARGUMENT: a greeting needs a name")
            two = '{"name": "Ada"} {"name": "Bob"}'
            for method, data, want in (("Greet", two[:15], ["Ada"]), ("GreetAll", two, ["Ada, Bob"]), ("GreetEach", two, ["Ada", "Bob"]),
                                       ("GreetTimes", '{"name": "Ada", "times": 100}', 100 * ["Ada"])) if grpcurl else ():
                done = subprocess.run([grpcurl, "-plaintext", "-d", data, ready.split("http2:")[1], "demo.Demo/" + method],
                                      capture_output=True, text=True, timeout=60)
                got = json.loads("[" + done.stdout.replace("}\n{", "},{") + "]")
                self.assertEqual(got, [{"text": "hello, " + name} for name in want], (method, done))
            server.terminate()
            http2 = 4 if grpcurl else 0
            self.assertEqual(json.loads(server.stdout.readline()),
                             {"listening": ready, "calls": 2 + http2, "native": 2, "http2": http2, "errors": 1})
        self.assertEqual(server.returncode, 0)

    def failed(self, *args, word):
        done = call(*args, code=1)
        one_line(self, done)
        self.assertRegex(done.stderr.decode(), word)
        return done

    def test_other_statuses(self):
        with example("kv"):
            self.failed("shm:kv", 7, word="UNIMPLEMENTED: no handler for method 7")
            self.failed("shm:kv", 2, "--data", "none", word="NOT_FOUND")
            self.failed("shm:kv", 1, "--data", "none", word="INVALID_ARGUMENT")
            got = json.loads(call("shm:kv", 7, "--json", code=1).stdout)
            self.assertEqual((got["status"], got["status_name"], got["ran"]), (12, "UNIMPLEMENTED", "no"))
            self.assertIn("no handler for method", got["message"])

    def test_timeout(self):
        (TEMP / "steps").write_bytes((1000).to_bytes(4, sys.byteorder))
        with example("slow"):
            began = time.monotonic()
            # The handler checks its deadline, too: its reply may come first.
            self.failed("shm:slow", 1, "--data", f"@{TEMP / 'steps'}", "--timeout", "200ms", word="DEADLINE_EXCEEDED: no reply in time|CANCELLED")
            self.assertLess(time.monotonic() - began, 5)

    def test_no_server(self):
        self.failed("shm:tools-none", 1, word="no server listens")
        self.failed("udp:127.0.0.1:9", 1, "--timeout", "200ms", word="UNAVAILABLE")
        with example("hello") as server:
            server.send_signal(signal.SIGSTOP)
            self.failed("shm:hello", 1, "--timeout", "200ms", word="start the server")

    def test_server_that_ends_during_the_call(self):
        (TEMP / "steps").write_bytes((1000).to_bytes(4, sys.byteorder))
        with example("slow") as server:
            caller = subprocess.Popen([LEND, "call", "shm:slow", "1", "--data", f"@{TEMP / 'steps'}"], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE)
            served = 0
            while served < 2:  # the call, and that of lend top
                top = lend_json("top", "shm:slow", "--once", "--interval", "10ms")["endpoints"][0]
                served = sum(sum(s["served"]) for s in top["sessions"])
            server.kill()
            out, err = caller.communicate(timeout=30)
            self.assertEqual((caller.returncode, out, err.count(b"\n")), (1, b"", 1), err)
            self.assertIn(b"UNAVAILABLE", err)

    def test_bad_input(self):
        for args in ([], ["shm:x", "greet"], ["shm:x", "-1"], ["shm:x", 1, 2], ["shm:x", 1 << 32],
                     ["shm:x", 1, "--timeout", "0"], ["shm:x", 1, "--header", "user"], ["shm:x", 1, "--header", "User:Ada"],
                     ["shm:x", 1, "--header", "a-bin:*"]):
            one_line(self, call(*args, code=2))
        one_line(self, call("shm:x", 1, "--data", "@/no/such/file", code=1))


PROTO = """syntax = "proto3";
package every;
import "lend/lend.proto";
import "google/protobuf/descriptor.proto";
extend google.protobuf.FieldOptions { optional string note = 50001; }
message All {
  message Inner { optional bool flag = 1; extend google.protobuf.MessageOptions { optional int32 size = 50002; } }
  optional int32 number = 1 [(note) = "n"];
  optional Inner inner = 2;
  oneof choice { string name = 3; bytes blob = 4 [(lend.by_ref) = true]; }
}
"""


@unittest.skipUnless((BUILD / "lend_proto.so").exists(), "this build has no protobuf C++")
class Proto(unittest.TestCase):
    """lend protoc, and lend call --proto."""
    GREETER = pathlib.Path(__file__).parents[2] / "apps/examples/greeter.proto"
    GREET = "shm:greeter", "/greeter.Greeter/Greet", "--proto", GREETER

    def bad(self, *args, word, code=2, text=None):
        done = call(*args, code=code, text=text)
        one_line(self, done)
        self.assertRegex(done.stderr.decode(), word)

    def test_json_in_and_out(self):
        (TEMP / "name").write_text('{"name": "file"}')
        with example("greeter"):
            for data, text, name in (('{"name":"Ada"}', None, "Ada"), (f"@{TEMP / 'name'}", None, "file"), ("-", b'{"name":"\\u00e9"}', "\u00e9")):
                got = call(*self.GREET, "--data", data, text=text)
                self.assertEqual((json.loads(got.stdout), got.stderr), ({"text": f"hello, {name}"}, b""))
            got = json.loads(call(*self.GREET, "--data", '{"name": "Ada"}', "--json").stdout)
            self.assertEqual({k: got[k] for k in ("status", "status_name", "message", "reply", "initial", "trailing", "path", "ran")},
                             {"status": 0, "status_name": "OK", "message": "", "reply": {"text": "hello, Ada"}, "initial": {}, "trailing": {},
                              "path": "shm", "ran": "yes"})
            self.assertGreater(got["us"], 0)
            self.bad(*self.GREET, code=1, word="INVALID_ARGUMENT: a greeting needs a name")  # no data: an empty message
            got = json.loads(call(*self.GREET, "--json", code=1).stdout)
            self.assertEqual((got["status"], got["message"], got["reply"]), (3, "a greeting needs a name", None))

    def test_list(self):
        self.assertEqual(call("--proto", self.GREETER).stdout, b"/greeter.Greeter/Greet (greeter.Name) returns (greeter.Greeting)\n")
        self.assertEqual(call("--proto", "greeter.proto", "--proto-path", self.GREETER.parent).stdout.count(b"\n"), 1)

    def test_bad_input(self):
        with example("greeter"):
            self.bad(*self.GREET, "--data", '{"nickname": "Ada"}', word="nickname: Cannot find field.*greeter.Name has name$")
            self.bad(*self.GREET, "--data", '{"name": 1', word="--data: .*greeter.Name has name$")
            self.bad(*self.GREET, "--data", "@/no/such/file", code=1, word="name a file that can be read")
        self.bad("shm:x", "/greeter.Greeter/Great", "--proto", self.GREETER, word="no such method; there are /greeter.Greeter/Greet$")
        self.bad("shm:x", "/a/b", "--proto", "/no/such.proto", word="No such file")
        (TEMP / "wrong.proto").write_text("message M { text name = 1; }")
        self.bad("--proto", TEMP / "wrong.proto", word="wrong.proto:1:13")

    def run_protoc(self, *args, **env):
        return subprocess.run([LEND, "protoc", *map(str, args)], capture_output=True, timeout=30, cwd=TEMP, env={**os.environ, **env})

    def test_protoc(self):
        (TEMP / "every.proto").write_text(PROTO)
        done = self.run_protoc("--c_out=.", "every.proto")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))
        self.assertRegex((TEMP / "every.pb-c.h").read_text(), r"EVERY__ALL__INNER___FLAG_FLAG\b")

    def test_protoc_says_what_to_install(self):
        (TEMP / "bin").mkdir()
        self.assertRegex(self.run_protoc("--c_out=.", "x.proto", PATH=str(TEMP / "bin")).stderr.decode(),
                         r"^lend protoc: protoc: .*; apt install protobuf-compiler protobuf-c-compiler\n$")
        (TEMP / "bin/protoc").symlink_to(shutil.which("protoc"))
        (TEMP / "every.proto").write_text(PROTO)
        done = self.run_protoc("--c_out=.", "every.proto", PATH=str(TEMP / "bin"))
        self.assertRegex(done.stderr.decode(), r"^[^\n]*protoc-gen-c is missing: apt install protobuf-c-compiler\n$")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.run_protoc().returncode, 2)


def field(number, value):
    """A field of protobuf, shorter than 16 KiB."""
    return bytes([number << 3 | 2, len(value) & 127 | 128, len(value) >> 7]) + value


@contextlib.contextmanager
def stock_server(describe):
    """grpcio with shop.Cart/Add, which echoes, and v1alpha of reflection: describe() answers a request's field and text."""
    from concurrent import futures

    import grpc
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([
        grpc.method_handlers_generic_handler("shop.Cart", {"Add": grpc.unary_unary_rpc_method_handler(lambda request, _: request)}),
        grpc.method_handlers_generic_handler("grpc.reflection.v1alpha.ServerReflection", {
            "ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(lambda requests, _: (describe(r[0] >> 3, r[2:].decode()) for r in requests))})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http2:127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


@unittest.skipUnless((BUILD / "lend_proto.so").exists(), "this build has no protobuf C++")
class Reflection(unittest.TestCase):
    """lend call without --proto."""
    FILES = {"item.proto": "package shop; import 'google/protobuf/timestamp.proto'; message Item { string name = 1; google.protobuf.Timestamp at = 2; }",
             "cart.proto": "package shop; import 'item.proto'; service Cart { rpc Add(Item) returns (Item); rpc All(Item) returns (stream Item); }",
             "loop.proto": "package bad; service Loop { }"}

    def describe(self, kind, text):
        files = {(4, "shop.Cart"): "cart.proto", (3, "item.proto"): "item.proto", (4, "bad.Loop"): "loop.proto"}
        endless = (kind, text) in ((4, "bad.Endless"), (3, text)) and text.startswith(("bad.", "more"))
        if kind == 7:
            return field(6, field(1, field(1, b"shop.Cart")))
        if endless:
            return field(4, field(1, field(1, text.encode()) + field(3, f"more{time.monotonic_ns()}".encode())))
        if text == "bad.Bytes":
            return b"\xff\xff"
        if (kind, text) not in files:
            return field(7, b"\x08\x05" + field(2, b"no such symbol"))
        out = TEMP / "set"
        subprocess.run(["protoc", f"-I{TEMP}", f"--descriptor_set_out={out}", files[kind, text]], check=True)
        one = out.read_bytes()
        one = one[2 if one[1] < 128 else 3:]
        return field(4, field(1, one + (field(3, b"loop.proto") if text == "bad.Loop" else b"")))

    def test_server_of_lend(self):
        greet = "shm:greeter", "/greeter.Greeter/Greet"
        with example("greeter", "at", "shm:greeter,http2:127.0.0.1:0"):
            self.assertIn(b"/greeter.Greeter/Greet (greeter.Name) returns (greeter.Greeting)\n", call("shm:greeter").stdout)
            self.assertEqual(json.loads(call(*greet, "--data", '{"name": "Ada"}').stdout), {"text": "hello, Ada"})
            self.assertEqual(call(*greet, "--raw", "--data", "\n\3Ada").stdout, b"\n\nhello, Ada")
            self.assertRegex(call(*greet, "--data", '{"nick": 1}', code=2).stderr, b"greeter.Name has name$")
            self.assertRegex(call("shm:greeter", "/greeter.Greeter/Great", code=2).stderr, b"there are /greeter.Greeter/Greet$")
        with example("hello"):
            done = call("shm:hello", code=1)
            one_line(self, done)
            self.assertIn(b"the server has no reflection service; give --proto FILE", done.stderr)

    def test_stock_server(self):
        try:
            import grpc  # noqa: F401
        except ImportError:
            self.skipTest("grpcio is missing")
        item = {"name": "tea", "at": "2020-01-02T03:04:05Z"}
        for name, text in self.FILES.items():
            (TEMP / name).write_text(f'syntax = "proto3"; {text}')
        with stock_server(self.describe) as address:
            self.assertEqual(call(address).stdout.decode().splitlines(),
                             ["/shop.Cart/Add (shop.Item) returns (shop.Item)", "/shop.Cart/All (shop.Item) returns (stream shop.Item)"])
            self.assertEqual(json.loads(call(address, "/shop.Cart/Add", "--data", json.dumps(item)).stdout), item)
            for method, code, word in (("/shop.Cart/All", 2, "a stream"), ("/none/X", 1, "no such symbol; give --proto FILE, or --raw"),
                                       ("/bad.Loop/X", 1, "do not fit"), ("/bad.Bytes/X", 1, "sent no message"), ("/bad.Endless/X", 1, "too many files")):
                done = call(address, method, "--data", "{}", code=code)
                one_line(self, done)
                self.assertIn(word, done.stderr.decode())


class Ping(unittest.TestCase):
    def test_any_server_answers(self):
        with example("hello"):
            got = lend_json("ping", "shm:hello", "--count", 7, "--interval", "1ms")
            self.assertEqual((got["calls"], got["replies"]), (7, 7))
            self.assertGreater(got["connect_us"], 0)
            self.assertTrue(0 < got["min_us"] <= got["median_us"] <= got["max_us"], got)
            lines = lend("ping", "shm:hello", "--count", 2, "--interval", "1ms").stdout.decode().splitlines()
            self.assertEqual(len(lines), 4, lines)
            self.assertRegex(lines[3], r"^2 calls, 2 replies; min/median/max = [0-9.]+/[0-9.]+/[0-9.]+ us$")

    def test_no_server(self):
        one_line(self, lend("ping", "shm:tools-none", code=1))
        one_line(self, lend("ping", "udp:127.0.0.1:9", "--timeout", "200ms", code=1))
        one_line(self, lend("ping", code=2))

    def ends(self, how, word):
        with example("hello") as server:
            ping = subprocess.Popen([LEND, "ping", "shm:hello", "--count", "1000", "--interval", "1ms", "--timeout", "300ms"],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(3):
                ping.stdout.readline()
            server.send_signal(how)
            if how == signal.SIGSTOP:
                self.assertIn(word, ping.stderr.readline())
                ping.send_signal(signal.SIGINT)
            out, err = ping.communicate(timeout=30)
            self.assertEqual(ping.returncode, 1)
            self.assertIn("min/median/max", out.splitlines()[-1])
            return err

    def test_server_that_ends(self):
        self.assertIn("UNAVAILABLE", self.ends(signal.SIGKILL, None))

    def test_server_that_stops(self):
        self.ends(signal.SIGSTOP, "DEADLINE_EXCEEDED")


class Help(unittest.TestCase):
    def test_groups(self):
        """What a new user needs comes first; measurements are one level down."""
        text = lend("--help").stdout.decode()
        at = [text.index(word) for word in ("\nUse\n", "\n  put", "\n  get", "\n  call", "\n  ping", "\n  doctor", "\nOperate", "\n  mem ",
                                            "\n  top", "\nMeasure", "\n  bench")]
        self.assertEqual(at, sorted(at))
        self.assertNotIn("mem-lat", text)

    def test_old_names_are_aliases(self):
        names = [line.split()[0] for line in lend("bench", "--help").stdout.decode().splitlines() if line.startswith("  ")]
        self.assertGreater(len(names), 10)
        for name in names:
            was = subprocess.run([LEND, name, "--help"], capture_output=True, text=True).stdout
            now = subprocess.run([LEND, "bench", name, "--help"], capture_output=True, text=True).stdout
            self.assertEqual(now.replace("lend bench", "lend"), was.replace("lend bench", "lend"))
        one_line(self, lend("bench", "put", code=2))


class Trace(unittest.TestCase):
    def trace(self, *args, code=0):
        done = lend("trace", *args, code=code)
        if code:
            one_line(self, done)
        return (done.stderr if code else done.stdout).decode()

    def test_tree_and_otlp_of_a_server(self):
        with example("named"):
            call("shm:named", "/hello.Greeter/Greet")
            self.assertIn("no traces", self.trace("--connect", "shm:named", code=1))
            for status, method in ((0, "Greet"), (1, "Greet"), (0, "Greet")):
                call("shm:named", f"/hello.Greeter/{method}", "--trace", 1, *["--header", "user: " + "x" * 40] * status)
            text = self.trace("--connect", "shm:named", "-n", 10)
            trees = re.findall(r"^trace ([0-9a-f]{32})\n +start_us +call_us +handler_us  method\n"
                               r" +0\.0 +- +\d+\.\d  /hello.Greeter/Greet  shm:named \(\d+\)\n", text, re.M)
            self.assertEqual((len(set(trees)), text.count("\n")), (3, 9), text)
            newest = self.trace("--connect", "shm:named")
            self.assertIn(trees[0], newest)
            self.assertEqual(self.trace("--connect", "shm:named", "--id", trees[0]), newest)
            # two addresses of one process: each span once
            otlp = json.loads(self.trace("--connect", "shm:named,shm:named", "--otlp", "-"))
            first, second = (r["scopeSpans"][0]["spans"] for r in otlp["resourceSpans"])
            spans = first + second
            self.assertEqual({s["traceId"] for s in spans}, set(trees))
            self.assertEqual(len(spans), 3)
            now = time.time()
            for s in spans:
                self.assertRegex(s["spanId"], "^[0-9a-f]{16}$")
                self.assertRegex(s["parentSpanId"], "^[0-9a-f]{16}$")
                self.assertEqual((s["kind"], s["name"], s["status"]), (2, "/hello.Greeter/Greet", {"code": 1}))
                self.assertLess(now - 60, int(s["startTimeUnixNano"]) / 1e9)
                self.assertLess(int(s["startTimeUnixNano"]), int(s["endTimeUnixNano"]))
                self.assertLess(int(s["endTimeUnixNano"]) / 1e9, now + 1)
            path = TEMP / "spans.json"
            self.trace("--connect", "shm:named", "--otlp", path)
            self.assertEqual(len(json.loads(path.read_text())["resourceSpans"][0]["scopeSpans"][0]["spans"]), 3)
            self.assertIn("32 lower-case hex", self.trace("--connect", "shm:named", "--id", "12", code=2))
            self.assertIn("no such trace", self.trace("--connect", "shm:named", "--id", "0" * 32, code=1))
            self.assertIn("LEND_TRACE", self.trace("--connect", "shm:named", "--trace", "7", code=1))
        self.assertIn("shm:named", self.trace("--connect", "shm:named", code=1))
        self.assertIn("--connect", self.trace(code=2))


if __name__ == "__main__":
    sys.exit(not run_tests(sys.argv[2:]))
