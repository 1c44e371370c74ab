#!/usr/bin/env python3
"""Goal: lend load --target offers the requests of a social network to any HTTP server, and reports what the replies were: goodput,
latency from the due time, errors by status, posts, and wrong bytes.

Method: a small HTTP server in this process takes the requests apart, and answers as each test needs: chunked, with a status, late,
damaged, never, or by hanging up.

Covers: apps/load/load_command.c, apps/load/load_run.c, apps/load/load_mix.c, apps/load/load_form.c, apps/load/load_http.c,
apps/load/http_client.c

usage: load.py BUILD_DIR [NAME...]      only tests whose name contains one of the names
"""
import asyncio
import collections
import contextlib
import json
import re
import subprocess
import sys
import threading
import unittest
import urllib.parse

from programs import LEND, TEMP, run_tests

POST = '{"post_id":"1","text":"a"}'
PHOTO = b"\xff\xd8\xff\xe0" + bytes(range(256)) * 40 + b"\xff\xd9"


class Server:
    """Answers with what the function answer(server, path, body) returns: a status and bytes, raw bytes to send, or None to hang up."""

    def __init__(self, answer):
        self.answer, self.seen, self.connections, self.media = answer, collections.Counter(), 0, {}
        self.loop = asyncio.new_event_loop()
        self.server = self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    async def serve(self, reader, writer):
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError), contextlib.closing(writer):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = re.search(r"Content-Length: (\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                assert re.search(r"\r\nHost: 127\.0\.0\.1:\d+\r\n", head), head
                path = head.split()[1]
                self.seen[path.partition("?")[0]] += 1
                reply = self.answer(self, path, body)
                if asyncio.iscoroutine(reply):
                    reply = await reply
                if reply is None:
                    break
                if isinstance(reply, tuple):
                    reply = b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (reply[0], len(reply[1]), reply[1])
                writer.write(reply)
                await writer.drain()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        async def end():
            self.server.close()
            for task in asyncio.all_tasks():
                if task is not asyncio.current_task():
                    task.cancel()
            await asyncio.sleep(0.01)  # the tasks end, and close their connections
        asyncio.run_coroutine_threadsafe(end(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


def load(server, *args, code=0):
    done = subprocess.run([LEND, "load", "--target", server.url, "--json", "--seconds", "0.25", "--rate", "400", *map(str, args)],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done
    return json.loads(done.stdout)


def posts(n):
    return 200, f"[{','.join([POST] * n)}]".encode()


def social(server, path, body):
    """A service without faults, which checks what it is sent."""
    path, _, query = path.partition("?")
    if path in ("/wrk2-api/home-timeline/read", "/wrk2-api/user-timeline/read"):
        field = {k: int(v) for k, v in urllib.parse.parse_qsl(query, strict_parsing=True)}
        assert list(field) == ["user_id", "start", "stop"] and field["user_id"] < 962, field
        assert field["start"] <= 100 and field["stop"] == field["start"] + 10, field
        return posts(10)
    if path == "/wrk2-api/post/compose" and not body.startswith(b"--"):
        field = dict(pair.split("=", 1) for pair in body.decode().split("&"))
        assert list(field) == ["username", "user_id", "text", "media_ids", "media_types", "post_type"], field
        assert field["username"] == f"username_{field['user_id']}" and int(field["user_id"]) < 962, field
        assert re.fullmatch(r"[A-Za-z0-9]{256}( @username_\d{1,3}){1,6}( http://[A-Za-z0-9]{64}){1,6}", field["text"]), field
        ids = json.loads(field["media_ids"])
        assert 1 <= len(ids) <= 5 and all(re.fullmatch(r"\d{18}", i) for i in ids), ids
        assert json.loads(field["media_types"]) == ["png"] * len(ids) and field["post_type"] == "0"
        return 200, b"Successfully upload post\n"
    if path in ("/wrk2-api/post/compose", "/upload-media"):
        photo = re.search(rb'name="media"; filename="photo.jpg"\r\nContent-Type: image/jpeg\r\n\r\n(.*)\r\n--[\w-]+--\r\n$', body, re.S)[1]
        comment = re.match(rb"\xff\xd8\xff\xfe\x00\x12([0-9a-f]{16})", photo)
        assert photo[:2] + photo[22:] == PHOTO and comment, photo[:40]
        server.media[f"{len(server.media)}.jpg"] = photo
        return 200, b'{"media_id":"%d","media_type":"jpg"}' % (len(server.media) - 1)
    assert path == "/get-media", path
    return 200, server.media[query.partition("=")[2]]


class Load(unittest.TestCase):
    def test_a_service_without_faults(self):
        with Server(social) as server:
            got = load(server, "--mix", "60/30/10", "--seconds", "0.8", "--connections", "32")
        self.assertEqual((got["errors"], got["wrong_bytes"], got["errors_by_status"]), (0, 0, {}))
        self.assertEqual(got["posts_per_read"], 10)
        self.assertTrue(got["check_ends"] and got["check_order"], got)
        self.assertAlmostEqual(got["offered_per_s"], 400, delta=120)
        total = sum(server.seen.values())
        for path, share in (("home-timeline/read", 0.6), ("user-timeline/read", 0.3), ("post/compose", 0.1)):
            self.assertAlmostEqual(server.seen[f"/wrk2-api/{path}"] / total, share, delta=0.1)
        self.assertLessEqual(server.connections, 33)  # with that of the test at the start
        self.assertGreater(got["bytes_per_request"], 200)

    def test_same_seed_same_requests(self):
        seen = []
        for seed in (1, 1, 2):
            with Server(lambda s, path, body: s.media.setdefault(len(s.media), (path, body)) and posts(1)) as server:
                load(server, "--seed", seed, "--connections", 1, "--rate", 100, code=0)
            seen.append(list(server.media.values())[:5])
        self.assertEqual(seen[0], seen[1])
        self.assertNotEqual(seen[0], seen[2])

    def test_photos(self):
        (TEMP / "photo.jpg").write_bytes(PHOTO)
        args = "--mix", "25/40/30/5", "--photo", TEMP / "photo.jpg", "--get-photo", TEMP / "photo.jpg"
        with Server(social) as server:
            got = load(server, *args)
            self.assertEqual((got["errors"], got["wrong_bytes"]), (0, 0))
            self.assertEqual(server.seen["/upload-media"], 64)
            self.assertEqual(len(set(server.media.values())), 64 + server.seen["/wrk2-api/post/compose"])
        for change, wrong in ((lambda m: m[:-1], 1), (lambda m: m + b"xy", 2), (lambda m: m[:99] + b"\0\0" + m[101:], None)):
            def damage(server, path, body):
                status, reply = social(server, path, body)
                return status, change(reply) if path.startswith("/get-media") else reply
            with Server(damage) as server:
                got = load(server, *args, code=1)
                self.assertGreater(got["wrong_bytes"], 0)
                if wrong:
                    self.assertEqual(got["wrong_bytes"] % wrong, 0)
                self.assertGreater(got["errors"], 0)

    def test_each_kind_of_reply(self):
        body = posts(3)[1]
        closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (body[:5], len(body) - 5, body[5:])
        table = [(posts(3), {}, 3), (chunks, {}, 3), (closing, {}, 3), ((503, b"busy"), "503", 0), ((404, body), "404", 0),
                 (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "malformed", 0), (b"\0\1\2\3\r\n\r\n", "malformed", 0), (None, "lost", 0)]
        for reply, status, n in table:
            with self.subTest(reply=reply), Server(lambda *_: reply) as server:
                got = load(server, "--mix", "1/1/0", code=1 if status else 0)
                self.assertEqual(list(got["errors_by_status"]), [status] if status else [])
                self.assertEqual(got["posts_per_read"], n)
                self.assertEqual(got["errors"] > 0, bool(status))
                self.assertTrue(got["check_ends"])

    def test_some_errors_are_no_failure(self):
        with Server(lambda s, *_: (503, b"") if sum(s.seen.values()) % 4 == 0 else posts(1)) as server:
            got = load(server)
            self.assertAlmostEqual(got["errors_by_status"]["503"] / sum(server.seen.values()), 0.25, delta=0.02)

    def test_reads_without_posts_fail(self):
        with Server(lambda *_: (200, b"[]")) as server:
            self.assertEqual(load(server, code=1)["posts_per_read"], 0)

    def test_a_stall_delays_all_that_was_due(self):
        async def stall(server, *_):
            if sum(server.seen.values()) == 60:
                server.stalled = server.loop.time() + 0.3
            await asyncio.sleep(max(0, getattr(server, "stalled", 0) - server.loop.time()))
            return posts(1)
        with Server(stall) as server:
            got = load(server, "--seconds", "0.8", "--connections", 256)
        self.assertGreater(got["p99_ms"], 200)
        self.assertLess(got["p50_ms"], 200)
        self.assertGreater(got["mean_ms"], 20)
        self.assertAlmostEqual(got["rate_x_mean"] / got["in_flight"], 1, delta=0.2)

    def test_no_reply_and_no_connection_left(self):
        async def never(server, *_):
            await asyncio.sleep(100)
        with Server(never) as server:
            got = load(server, "--deadline", "50ms", code=1)
            self.assertEqual(list(got["errors_by_status"]), ["late"])
            self.assertGreater(got["expired"], 10)
            got = load(server, "--connections", 4, "--deadline", "5s", "--seconds", "0.1", "--deadline", "200ms", code=1)
            self.assertGreater(got["exhausted"], 10)

    def test_ramp_ends_at_saturation(self):
        async def slow(server, *_):
            await asyncio.sleep(0.02)
            return posts(1)
        with Server(slow) as server:
            got = load(server, "--ramp", "--connections", 4, "--rate", 60, "--seconds", "0.4")
        self.assertGreater(len(got["steps"]), 2)
        rates = [step["rate"] for step in got["steps"]]
        self.assertAlmostEqual(rates[1] / rates[0], 1.3, delta=0.01)
        self.assertLess(got["saturation_per_s"], 260)
        self.assertLessEqual(got["saturation_per_s"], got["goodput_per_s"])

    def test_saturation_is_not_what_a_queue_hides(self):
        """A server of 50 requests per second, with a queue that takes all of a short step."""
        lock = asyncio.Lock()
        async def one_by_one(server, *_):
            async with lock:
                await asyncio.sleep(0.02)
            return posts(1)
        with Server(one_by_one) as server:
            got = load(server, "--ramp", "--connections", 16, "--rate", 60, "--seconds", "0.3")
        self.assertGreater(max(step["goodput_per_s"] for step in got["steps"]), 1.2 * got["saturation_per_s"])
        self.assertLess(got["saturation_per_s"], 55)
        self.assertGreater(got["saturation_per_s"], 5)

    def test_bad_command_lines(self):
        with Server(social) as server:
            for args, why in ((("--mix", "1/2"), "HOME/USER/COMPOSE"), (("--mix", "1/2/x"), "HOME/USER/COMPOSE"), (("--mix", "0/0/0"), "HOME/USER"),
                              (("--mix", "1/1/1/1"), "--get-photo"), (("--mix", "1/1/1/1/1"), "HOME/USER"), (("--rate", "1"), "raise one"),
                              (("--photo", "/nowhere"), "No such file"), (("--photo", __file__), "no JPEG")):
                done = subprocess.run([LEND, "load", "--target", server.url, *args], capture_output=True, text=True, timeout=20)
                self.assertEqual(done.returncode, 2, args)
                self.assertIn(why, done.stderr)
        for url, code in ((server.url, 1), ("https://127.0.0.1", 1), ("nonsense", 1)):
            done = subprocess.run([LEND, "load", "--target", url], capture_output=True, text=True, timeout=20)
            self.assertEqual(done.returncode, code, url)
            self.assertIn("--target", done.stderr)


if __name__ == "__main__":
    run_tests(sys.argv[2:])
