#!/usr/bin/env python3
"""Goal: when a process of the social network ends, stops or is full, the rest continues: errors have
a status and come in time, and after its restart requests succeed again within 2 s, as many per second
as before.

Method: a network whose services are processes of their own, under load from threads. One process
after the other is killed and restarted, stopped and continued; so is the memory node, and one is
filled. At the end all processes end well, the node is empty, and the services have logged at most
one line per failed request.
Covers: apps/social/lend_transport.c, apps/social/process.c, apps/social/post_refs.c,
apps/social/user.c, apps/social/store_lmdb.c, apps/social/store_redis.c, apps/social/memcached.c,
apps/social/store_servers.c, apps/social/gateway_posts.c

usage: social_drills.py BUILD_DIR [NAME...]      only tests whose name contains one of the names
"""
import http.client
import itertools
import json
import os
import random
import shutil
import signal
import statistics
import sys
import threading
import time
import unittest

from programs import Node, run_tests, slowness
from social_network import SERVICES, Link, Social, photo, wait_until

SEED = 24
BOUND = 3.0     # seconds that any request takes, also during a failure
RECOVERED = 2.0  # seconds after a restart until goodput is back, on an idle machine
BACK = 0.95     # of the goodput before, and of the last requests
WINDOW = 40     # the last requests
GOODPUT_S = 0.5  # seconds that goodput is measured over
INTERVAL = 0.03  # seconds from a thread's request to its next, or longer if the reply is late

# The requests of the load, and the roles that each needs.
NEEDS = {
    "home": {"home-timeline", "post-storage"},
    "user": {"user-timeline", "post-storage"},
    "media": {"media"},
    "compose": {"compose-post", "text", "url-shorten", "user-mention", "user", "media", "unique-id", "post-storage",
                "user-timeline", "home-timeline", "social-graph"},
}


def apart(role):
    """Processes: one with this role alone."""
    return role, ",".join(r for r in SERVICES.split(",") if r != role), "gateway"


class Load:
    """Requests from threads, which repeat the same kinds, one request after the other. Results: [end, kind, status, seconds]."""

    def __init__(self, net, media, threads=3):
        self.net, self.media, self.results, self.running, self.normal = net, media, [], True, None
        self.threads = [threading.Thread(target=self.run, args=(SEED + i,)) for i in range(threads)]
        for thread in self.threads:
            thread.start()

    def run(self, seed):
        rng, due = random.Random(seed), time.monotonic()
        for kind in itertools.cycle(NEEDS):
            if not self.running:
                return
            begin = time.monotonic()
            status = self.send(kind, rng)
            end = time.monotonic()
            self.results.append((end, kind, status, end - begin))
            due = max(due + INTERVAL, end)
            time.sleep(due - end)

    def send(self, kind, rng):
        try:
            return self.send_kind(kind, rng)
        except (OSError, http.client.HTTPException):  # no gateway
            time.sleep(0.005)
            return 0

    def send_kind(self, kind, rng):
        user = rng.randrange(1, 5)
        if kind == "compose":
            text = "hello @username_2 http://a.b " + "x" * rng.choice((10, 40000))
            return self.net.compose(user, text)[0]
        if kind == "media":
            return self.net.get(f"/get-media?filename={self.media}.jpg")[0]
        status, body = self.net.timeline(kind, user)
        return 0 if b'"text":null' in body else status

    def stop(self):
        self.running = False
        for thread in self.threads:
            thread.join()
        logged, failed = self.net.log_lines(), sum(r[2] != 200 for r in self.results)
        assert len(logged) <= failed, (failed, logged[-20:])

    def goodput(self, begin, end, kinds):
        """Requests of these kinds that succeeded, per second."""
        return sum(r[2] == 200 and r[1] in kinds and begin <= r[0] < end for r in list(self.results)) / (end - begin)

    def measure_normal(self):
        """Measures the goodput of each kind, before the first failure."""
        begin = time.monotonic()
        time.sleep(1)
        self.normal = {kind: self.goodput(begin, begin + 1, {kind}) for kind in NEEDS}

    def since(self, begin):
        return [r for r in self.results if r[0] - r[3] >= begin]


class Drills(unittest.TestCase):
    def start(self, by, carrier="shm", processes=(*SERVICES.split(","), "gateway"), **more):
        net = Social(by, carrier, processes, **more)
        try:
            self.fill(net)
        except BaseException:
            net.__exit__()
            raise
        return net

    def fill(self, net):
        for n in range(1, 5):
            self.assertEqual(net.register(n)[0], 200)
        for n in range(1, 5):
            self.assertEqual(net.follow(n, n % 4 + 1)[0], 200)
            self.assertEqual(net.compose(n, "first " * 6000)[0], 200)

    def upload(self, net):
        status, reply = net.upload(photo(1, 30000))
        self.assertEqual(status, 200)
        return json.loads(reply)["media_id"]

    def check_failures(self, results, role):
        """Requests that do not need the role succeed; the others end with a status, in time."""
        self.assertTrue(results)
        for _, kind, status, seconds in results:
            self.assertLess(seconds, BOUND, (role, kind, status))
            if role not in NEEDS[kind]:
                self.assertEqual(status, 200, (role, kind))
            else:
                self.assertIn(status, (200, 404, 503, 504), (role, kind))

    def check_recovery(self, load, begin, kinds):
        """Soon after begin, 95 % of the last requests of these kinds succeed, and 95 % as many per second as before the failure."""
        def recovered():
            time.sleep(0.005)
            last = [r for r in load.since(begin) if r[1] in kinds][-WINDOW:]
            now = time.monotonic()
            rates.append(load.goodput(now - GOODPUT_S, now, kinds))
            return (now - begin >= GOODPUT_S and len(last) >= WINDOW / 2 and sum(r[2] == 200 for r in last) >= BACK * len(last)
                    and rates[-1] >= BACK * normal)
        rates, normal = [], sum(load.normal[kind] for kind in kinds)
        self.assertLess(wait_until(recovered), RECOVERED * slowness(), (normal, max(rates)))

    def wait_for_requests(self, load, begin, n):
        wait_until(lambda: time.sleep(0.005) or len(load.since(begin)) >= n)

    def test_kill_and_restart_each_service(self):
        with self.start("auto") as net:
            load = Load(net, self.upload(net))
            try:
                load.measure_normal()
                for role in SERVICES.split(","):
                    begin = time.monotonic()
                    net.kill(role)
                    killed = time.monotonic()
                    self.wait_for_requests(load, killed, 12)
                    net.start(role)
                    restarted = time.monotonic()
                    self.check_failures([r for r in load.since(begin) if r[0] < restarted], role)
                    if role == "media":  # they are on the node only while their process lives
                        load.media = self.upload_when_up(net)
                    self.check_recovery(load, time.monotonic(), set(NEEDS))
            finally:
                load.stop()

    def test_cut_off_and_reconnect_a_service(self):
        """Its network is cut: both ends find out by themselves."""
        with Link("social-graph") as link, self.start("auto", "udp", apart("social-graph"), link=link) as net:
            load = Load(net, self.upload(net))
            try:
                load.measure_normal()
                begin = time.monotonic()
                link.cut(True)
                wait_until(lambda: time.sleep(0.01) or sum(r[2] != 200 for r in load.since(begin)) > 5)
                self.wait_for_requests(load, time.monotonic(), 12)
                link.cut(False)
                joined = time.monotonic()
                self.check_failures([r for r in load.since(begin) if r[0] < joined], "social-graph")
                self.check_recovery(load, joined, set(NEEDS))
            finally:
                load.stop()

    def test_stop_and_continue_a_service(self):
        """A process that does not answer: as behind a network that is cut."""
        with self.start("auto", "udp", apart("home-timeline")) as net:
            load = Load(net, self.upload(net))
            try:
                load.measure_normal()
                begin = time.monotonic()
                net.process["home-timeline"].send_signal(signal.SIGSTOP)
                wait_until(lambda: time.sleep(0.01) or any(r[2] != 200 for r in load.since(begin)))
                net.process["home-timeline"].send_signal(signal.SIGCONT)
                continued = time.monotonic()
                self.check_failures([r for r in load.since(begin) if r[0] < continued], "home-timeline")
                self.check_recovery(load, continued, set(NEEDS))
            finally:
                load.stop()

    def test_kill_and_restart_the_memory_node(self):
        """Texts come from post-storage meanwhile; media are lost with the node."""
        with self.start("auto", processes=(SERVICES, "gateway")) as net:
            self.upload(net)
            load = Load(net, self.upload(net))
            try:
                load.measure_normal()
                begin = time.monotonic()
                net.node.process.kill()
                self.wait_for_requests(load, begin, 12)
                net.node.__exit__()
                net.node = Node(net.listen("node"))
                restarted = time.monotonic()
                for _, kind, status, seconds in load.since(begin):
                    self.assertLess(seconds, 6, (kind, status))
                    self.assertIn(status, (200, 404, 503, 504), kind)
                self.check_recovery(load, restarted, {"home", "user", "compose"})
                load.media = self.upload_when_up(net)
                self.check_recovery(load, time.monotonic(), set(NEEDS))
                body = json.loads(net.timeline("user", 1, 0, 1000)[1])
                self.assertEqual([post["text"] for post in body][-1], "first " * 6000)
            finally:
                load.stop()

    def upload_when_up(self, net):
        replies = []
        wait_until(lambda: replies.append(net.upload(photo(2, 30000))) or replies[-1][0] == 200, RECOVERED * slowness())
        return json.loads(replies[-1][1])["media_id"]

    @unittest.skipUnless(shutil.which("redis-server") and shutil.which("memcached"), "redis-server or memcached is not installed")
    def test_kill_memcached_then_redis(self):
        """Without the cache all goes on; without the store requests are refused until it is back."""
        with self.start("auto", processes=(SERVICES, "gateway"), options=("--stores", "real")) as net:
            load = Load(net, self.upload(net))
            try:
                load.measure_normal()
                for name, need in (("memcached", "none"), ("redis", "post-storage")):
                    begin = time.monotonic()
                    net.stores[name].kill()
                    net.stores[name].wait()
                    self.wait_for_requests(load, begin, 12)
                    self.check_failures(load.since(begin), need)
                    os.unlink(f"{net.dir}/{name}.sock")
                    restarted = time.monotonic()
                    net.stores |= net.start_stores([name])
                    self.check_recovery(load, restarted, set(NEEDS))
            finally:
                load.stop()

    @unittest.skipUnless(shutil.which("redis-server") and shutil.which("memcached"), "redis-server or memcached is not installed")
    def test_stores_that_do_not_answer(self):
        """The cache is passed by, the store's requests end at their deadline; uploads, which need neither, go on."""
        with self.start("auto", processes=(SERVICES, "gateway"), options=("--stores", "real")) as net:
            load = Load(net, self.upload(net))
            try:
                load.measure_normal()
                for name, need in (("memcached", "none"), ("redis", "post-storage")):
                    begin = time.monotonic()
                    net.stores[name].send_signal(signal.SIGSTOP)
                    self.assertEqual(net.upload(photo(3, 30000))[0], 200)
                    self.wait_for_requests(load, begin, 4)
                    if name == "redis":
                        wait_until(lambda begin=begin: time.sleep(0.01) or sum(r[2] != 200 for r in load.since(begin)) > 5)
                    stopped = load.since(begin)
                    net.stores[name].send_signal(signal.SIGCONT)
                    self.check_failures(stopped, need)
                    self.assertEqual({r[2] for r in stopped} - {200} != set(), name == "redis")
                    self.check_recovery(load, time.monotonic(), set(NEEDS))
            finally:
                load.stop()

    @unittest.skipUnless(shutil.which("redis-server") and shutil.which("memcached"), "redis-server or memcached is not installed")
    def test_a_store_that_answers_slowly(self):
        """redis, stopped and continued in turns: within its deadline requests take longer, but succeed; beyond it they are refused. Media, which are
        on the memory node, take no longer. No answer that comes late goes to another request."""
        with self.start("auto", processes=(SERVICES, "gateway"), options=("--stores", "real")) as net:
            load = Load(net, self.upload(net))
            try:
                load.measure_normal()
                for pause, run, turns, need in ((0.2, 0.02, 12, "none"), (1.4, 0.3, 2, "post-storage")):
                    begin = time.monotonic()
                    for _ in range(turns):
                        net.stores["redis"].send_signal(signal.SIGSTOP)
                        time.sleep(pause)
                        net.stores["redis"].send_signal(signal.SIGCONT)
                        time.sleep(run)
                    slowed = load.since(begin)
                    self.check_failures(slowed, need)
                    self.assertEqual({r[2] for r in slowed} - {200} != set(), need != "none")
                    self.assertGreater(max(r[3] for r in slowed if r[1] != "media"), pause / 2)
                    self.assertLess(statistics.median(r[3] for r in slowed if r[1] == "media"), pause / 4)
                self.check_recovery(load, time.monotonic(), set(NEEDS))
            finally:
                load.stop()
            for n in range(1, 5):
                posts = json.loads(net.timeline("user", n, 0, 1000)[1])
                self.assertEqual({post["creator"]["user_id"] for post in posts}, {str(n)})

    def test_kill_and_restart_the_gateway(self):
        """Clients lose their connections; the services go on, and nothing of the requests in progress stays."""
        with self.start("auto", processes=(SERVICES, "gateway")) as net:
            load = Load(net, self.upload(net))
            try:
                load.measure_normal()
                net.kill("gateway")
                self.wait_for_requests(load, time.monotonic(), 12)
                net.start("gateway")
                self.check_recovery(load, time.monotonic(), set(NEEDS))
            finally:
                load.stop()

    def test_a_failed_compose_leaves_nothing(self):
        for by in ("value", "ref"):
            with self.start(by, processes=apart("text")) as net:
                used = net.node.stat()["pages_used"]
                net.kill("text")
                self.assertEqual(net.compose_photo(1, "never " * 3000, photo(1, 100000))[0], 503)
                wait_until(lambda net=net, used=used: net.node.stat()["pages_used"] == used, 3)

    def test_a_failed_registration_can_be_repeated(self):
        with self.start("value", processes=apart("social-graph")) as net:
            net.kill("social-graph")
            self.assertEqual(net.register(9)[0], 503)
            net.start("social-graph")
            statuses = []
            wait_until(lambda: statuses.append(net.register(9)[0]) or statuses[-1] != 503)
            self.assertEqual((statuses[-1], net.register(9)[0], net.follow(9, 1)[0]), (200, 409, 200))

    def test_a_full_memory_node(self):
        """Texts go by value then; media are refused, and their compose leaves nothing."""
        with self.start("ref", processes=(SERVICES, "gateway")) as net:
            statuses = [net.upload(photo(n, 7 << 20))[0] for n in range(12)]
            self.assertEqual((statuses[0], statuses[-1]), (200, 503), statuses)
            self.assertEqual(net.compose(1, "long " * 5000)[0], 200)
            before = len(json.loads(net.timeline("user", 1)[1]))
            self.assertEqual(net.compose_photo(1, "never seen", photo(1, 7 << 20))[0], 503)
            body = json.loads(net.timeline("user", 1)[1])
            self.assertEqual((len(body), body[0]["text"]), (before, "long " * 5000))


if __name__ == "__main__":
    print("seed", SEED)
    sys.exit(not run_tests(sys.argv[2:]))
