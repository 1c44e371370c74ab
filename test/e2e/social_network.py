"""Shared by the tests of the social network: a deployment of its processes, and an HTTP client that
sends requests as the original's scripts for wrk do."""
import http.client
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from programs import BUILD, TEMP, Node

SERVICES = ("unique-id,text,url-shorten,user-mention,user,media,compose-post,post-storage,user-timeline,"
            "home-timeline,social-graph")
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
BOUNDARY = "lend-boundary"


def photo(n, size):
    """Bytes that begin as a JPEG does, others for each n."""
    return b"\xff\xd8\xff\xe0" + (b"%08d" % n) * (size // 8)


def multipart(fields, files):
    """The headers and the body of a form with files: [(name, filename, bytes)]."""
    parts = [(f'name="{name}"', value.encode()) for name, value in fields.items()]
    parts += [(f'name="{name}"; filename="{filename}"', data) for name, filename, data in files]
    body = b"".join(f"--{BOUNDARY}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + data + b"\r\n" for head, data in parts)
    return {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}, body + f"--{BOUNDARY}--\r\n".encode()


class Link:
    """A network namespace for one role, behind a link that can be cut. Needs root."""

    def __init__(self, role):
        pid = os.getpid()
        self.role, self.name, self.device = role, f"lend-social-{pid}", f"ls{pid}"
        self.net = f"10.{pid >> 8 & 255}.{pid & 255}"

    def __enter__(self):
        commands = (f"netns add {self.name}", f"link add {self.device} type veth peer name peer netns {self.name}",
                    f"addr add {self.net}.1/30 dev {self.device}", f"link set {self.device} up",
                    f"-n {self.name} addr add {self.net}.2/30 dev peer", f"-n {self.name} link set peer up",
                    f"-n {self.name} link set lo up")
        for command in commands:
            if subprocess.run(["ip", *command.split()], stderr=subprocess.DEVNULL, check=False).returncode != 0:
                self.__exit__()
                raise unittest.SkipTest(f"ip {command}: needs root, iproute2 and network namespaces")
        return self

    def __exit__(self, *_):
        subprocess.run(["ip", "netns", "del", self.name], stderr=subprocess.DEVNULL, check=False)

    def cut(self, cut):
        subprocess.run(["ip", "link", "set", self.device, "down" if cut else "up"], check=True)

    def address(self, name):
        return f"{self.net}.{2 if name == self.role else 1}"

    def prefix(self, name):
        return ("ip", "netns", "exec", self.name) if name == self.role else ()


class Social:
    """All processes of a social network: a memory node, the roles of each process, and the
    gateway's URL."""

    def __init__(self, by, carrier="shm", processes=(SERVICES, "gateway"), node=True, options=(), link=None, node_options=()):
        self.dir = tempfile.mkdtemp(dir=TEMP)
        self.log = open(f"{self.dir}/log", "a+", encoding="utf-8", errors="replace")  # stderr of the services
        self.carrier, self.options, self.link = carrier, ["--by", by, *options], link
        self.node = Node(self.listen("node"), *node_options) if node else None
        os.mkdir(f"{self.dir}/addr")
        if node:
            self.write_node()
        self.process = {}
        self.stores = self.start_stores() if "real" in options else {}
        for roles in processes:
            self.start(roles)

    def start_stores(self, names=("redis", "memcached")):
        """redis, and memcached in front of it. Returns their processes."""
        commands = {"redis": ["redis-server", "--port", "0", "--unixsocket", f"{self.dir}/redis.sock", "--save", "", "--dir", self.dir,
                              "--appendonly", "yes"],
                    "memcached": ["memcached", "-s", f"{self.dir}/memcached.sock", "-m", "32", "-u", "root"]}
        processes = {}
        for name in names:
            processes[name] = subprocess.Popen(commands[name], stdout=subprocess.DEVNULL)
            wait_until(lambda name=name: os.path.exists(f"{self.dir}/{name}.sock"))
            with open(f"{self.dir}/addr/{name}", "w", encoding="ascii") as file:
                file.write(f"{self.dir}/{name}.sock\n")
        return processes

    def write_node(self):
        with open(f"{self.dir}/addr/node", "w", encoding="ascii") as file:
            file.write(self.node.address + "\n")

    def listen(self, name):
        if self.carrier == "shm":
            return f"shm:social-{os.getpid()}-{os.path.basename(self.dir)}-{name}"
        return f"udp:{self.link.address(name) if self.link else '127.0.0.1'}:0"

    def start(self, roles):
        name = roles.split(",")[0]
        more = ["--http", f"127.0.0.1:{self.port}"] if name == "gateway" and hasattr(self, "port") else []
        self.process[roles] = subprocess.Popen(
            [*(self.link.prefix(name) if self.link else ()), BUILD / "lend-social", "--role", roles, "--dir", self.dir, "--listen", self.listen(name), *self.options, *more],
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        assert self.process[roles].stdout.readline().startswith("ready "), (roles, self.log_lines()[-20:])
        if name == "gateway":
            with open(f"{self.dir}/addr/gateway", encoding="ascii") as file:
                self.port = int(file.read().rsplit(":", 1)[1])

    def log_lines(self):
        """The lines that the services have logged."""
        self.log.seek(0)
        return self.log.readlines()

    def kill(self, roles, how=signal.SIGKILL):
        process = self.process.pop(roles)
        process.send_signal(how)
        code = process.wait(timeout=20)
        process.stdout.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Ends all processes: each with success, and the node then has no page in use. A reference
        between two processes, of which one was killed, ends after its ttl of 6 s."""
        try:
            codes = {roles: self.kill(roles, signal.SIGTERM) for roles in reversed(list(self.process))}
            assert not any(codes.values()), (codes, "".join(self.log_lines()[-200:]))
            if self.node:
                wait_until(lambda: time.sleep(0.01) or not self.node.stat()["pages_used"])
        finally:
            self.log.close()
            if self.node:
                self.node.__exit__()
            for process in self.stores.values():
                process.kill()
                process.wait()

    def request(self, method, target, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            # As wrk does: the whole URL as the target, and a body with raw characters.
            connection.request(method, f"http://localhost:{self.port}{target}", body, headers or (FORM if body is not None else {}))
            reply = connection.getresponse()
            return reply.status, reply.read(), reply.headers
        finally:
            connection.close()

    def get(self, target):
        return self.request("GET", target)[:2]

    def post(self, target, form):
        return self.request("POST", target, form.encode())[:2]

    def upload(self, data, filename="x.jpg"):
        headers, body = multipart({}, [("file", filename, data)])
        return self.request("POST", "/upload-media", body, headers)[:2]

    def register(self, n):
        return self.post("/wrk2-api/user/register", f"first_name=first_name_{n}&last_name=last_name_{n}&username=username_{n}"
                         f"&password=password_{n}&user_id={n}")

    def follow(self, user, followee):
        return self.post("/wrk2-api/user/follow", f"user_name=username_{user}&followee_name=username_{followee}")

    def compose(self, user, text, media_ids="", media_types=""):
        more = f"&media_ids={media_ids}&media_types={media_types}" if media_ids else ""
        return self.post("/wrk2-api/post/compose", f"username=username_{user}&user_id={user}&text={text}{more}&post_type=0")

    def compose_photo(self, user, text, data):
        headers, body = multipart({"username": f"username_{user}", "user_id": str(user), "text": text, "post_type": "0"},
                                  [("media", "photo.jpg", data)])
        return self.request("POST", "/wrk2-api/post/compose", body, headers)[:2]

    def timeline(self, kind, user, start=0, stop=10):
        return self.get(f"/wrk2-api/{kind}-timeline/read?user_id={user}&start={start}&stop={stop}")

    def raw(self, data):
        """Returns the answer to bytes, until the server closes or 2 s have passed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=2) as s:
            s.sendall(data)
            reply = b""
            try:
                while piece := s.recv(65536):
                    reply += piece
            except OSError:
                pass
        return reply


def without_chance(body):
    """A timeline without what differs from run to run: times, ids of posts and requests, short URLs."""
    body = re.sub(rb'"(post_id|req_id|timestamp)":"\d+"', rb'"\1":"N"', body)
    body = re.sub(rb'"media_id":"\d{15,}"', b'"media_id":"N"', body)
    return re.sub(rb"http://short-url/\w{10}", b"http://short-url/S", body)


def wait_until(check, seconds=10.0):
    """Waits until check() is true. Returns the seconds that this took."""
    begin = time.monotonic()
    while not check():
        assert time.monotonic() - begin < seconds, "it did not become true in time"
    return time.monotonic() - begin
