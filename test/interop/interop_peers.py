"""interop_peers - the stock clients and servers of scripts/interop.sh: which are here, their cases, and their commands."""
import glob
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
CASES = """empty_unary large_unary client_streaming server_streaming ping_pong empty_stream custom_metadata status_code_and_message
special_status_message unimplemented_method unimplemented_service cancel_after_begin cancel_after_first_response
timeout_on_sleeping_server""".split()
COMPRESSED = "client_compressed_unary server_compressed_unary client_compressed_streaming server_compressed_streaming".split()
LARGE = ["very_large_request", "rpc_soak", "channel_soak", "concurrent_large_unary"]
ALL = CASES + COMPRESSED + LARGE
SERVED = CASES + [LARGE[1], LARGE[3]]
QUICK = {"grpc-go", "grpcio", "grpcurl", "h2spec", "lend"}
SERVICE = "grpc.testing.TestService"
GRPCURL = {"reflection_list": ["list"], "reflection_describe": ["describe"], "health_list": ["grpc.health.v1.Health/List"],
           "reflection_method": ["describe", SERVICE + ".StreamingOutputCall"], "reflection_call": [SERVICE + "/EmptyCall"]}
RUBY = "/usr/lib/*/rubygems-integration/*/gems/grpc-*/src/ruby/pb/test/client.rb"


class Peer:
    """A client. command: from host, port, case and the CA's file to a command. cases: those that it lacks are skipped by name."""

    def __init__(self, name, here, command, cases=CASES, wanted=ALL, env=None):
        self.name, self.here, self.command, self.cases, self.wanted, self.env = name, here, command, cases, wanted, env or {}


def go_program(name):
    gopath = os.environ.get("GOPATH", os.path.expanduser("~/go"))
    return shutil.which(name, path=f"{gopath}/bin:{os.environ.get('PATH', '')}")


def has_grpcio(python):
    return bool(shutil.which(str(python))) and subprocess.run([python, "-c", "import grpc"], capture_output=True).returncode == 0


def has_grpc_js(cache):
    return (cache / "node_modules" / "@grpc").is_dir() and shutil.which("node")


def js_env(cache):
    return {"NODE_PATH": str(cache / "node_modules")}


def flags(host, port, case, ca, dash="--"):
    """Returns the usual arguments of gRPC's own interoperability clients."""
    return [f"{dash}server_host={host}", f"{dash}server_port={port}", f"{dash}test_case={case}", f"{dash}use_tls={'true' if ca else 'false'}"]


def java(paths):
    classes = paths.read_text() if paths.is_file() else ""

    def command(host, port, case, ca):
        trust = []
        if ca:
            store = pathlib.Path(ca).with_suffix(".p12")
            if not store.exists():
                subprocess.run(["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", ca, "-keystore", store, "-storetype",
                                "PKCS12", "-storepass", "interop"], check=True, capture_output=True)
            trust = [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=interop"]
        return ["java", *trust, "-cp", classes, "io.grpc.testing.integration.TestServiceClient", *flags(host, port, case, ca),
                "--server_host_override=localhost", "--soak_iterations=100", "--soak_overall_timeout_seconds=60",
                "--soak_per_iteration_max_acceptable_latency_ms=5000"]

    return Peer("grpc-java", classes and shutil.which("java"), command, CASES + COMPRESSED + LARGE[:3])


def ruby():
    script = (glob.glob(RUBY) or [""])[-1]
    return Peer("grpc-ruby", script and shutil.which("ruby"), lambda host, port, case, ca: [
        "ruby", script, *flags(host, port, case, ca), *(["--server_host_override=localhost"] if ca else [])],
        [case for case in CASES if case != "special_status_message"] + [COMPRESSED[0], COMPRESSED[2]])


def python(name, program):
    return Peer(name, has_grpcio(program), lambda host, port, case, ca: [
        program, "-B", HERE / "grpcio_client.py", *(["--ca", ca] if ca else []), f"{host}:{port}", case], CASES + LARGE[3:])


def lend_client(build):
    program = build / "test" / "interop_client"
    return Peer("lend", program.exists(), lambda host, port, case, ca: [
        program, f"http2:{host}:{port}" + (f"?name=localhost&ca={ca}" if ca else ""), case], SERVED + COMPRESSED, SERVED + COMPRESSED)


def native_clients(build):
    """Returns the clients of a server that listens on shm:grpc-PORT: C++ as it is and under lend grpc-run, and Lend's."""
    cpp, lend = build / "test" / "grpcpp_client", build / "test" / "interop_client"
    preload = (build / "liblend-grpc-preload.so").exists()
    carried = [*CASES, "callback_unary", "rpc_soak", "channel_soak"]
    return [
        Peer("grpc-run", cpp.exists() and preload, lambda host, port, case, ca: [build / "lend", "grpc-run", cpp, f"{host}:{port}", case],
             carried, [*CASES, *COMPRESSED, *LARGE[1:3]]),
        Peer("grpc-c++", cpp.exists() and preload, lambda host, port, case, ca: [cpp, f"{host}:{port}", case], carried + COMPRESSED),
        Peer("lend", lend.exists() and preload, lambda host, port, case, ca: [lend, f"shm:grpc-{port}", case], CASES, CASES + COMPRESSED),
    ]


class Server:
    """A server of Lend's client. command: from port and files of a certificate and its key, or (), to a command; tls: it takes such files.
    cases: the others need what it does not do."""

    def __init__(self, name, here, command, tls=True, cases=SERVED, env=None):
        self.name, self.here, self.command, self.tls, self.cases, self.env = name, here, command, tls, cases, env or {}


def all_servers(build):
    """Returns all servers. Most neither check that a request is compressed nor compress a response."""
    cache = build / "interop"
    classes, python, cpp = cache / "java.classpath", cache / "python" / "bin" / "python", build / "test" / "grpcpp_server"
    script = (glob.glob(RUBY.replace("client.rb", "server.rb")) or [""])[-1]
    return [
        Server("grpc-go", go_program("server"), lambda port, files: [
            go_program("server"), f"-port={port}", *(["-use_tls", "-tls_cert_file=" + files[0], "-tls_key_file=" + files[1]] if files else [])]),
        Server("grpc-java", classes.is_file() and shutil.which("java"), lambda port, files: [
            "java", "-cp", classes.read_text(), "io.grpc.testing.integration.TestServiceServer", f"--port={port}", "--use_tls=false"],
            False, [*SERVED, "server_compressed_unary"]),
        Server("grpc-ruby", script and shutil.which("ruby"), lambda port, files: ["ruby", script, "--port", port, "--use_tls", "false"],
               False, SERVED[:-1]),  # it refuses more than a few calls at once
        Server("grpc-c++", cpp.exists(), lambda port, files: [cpp, port, *files], cases=SERVED + COMPRESSED),
        Server("grpcio-1.85", has_grpcio(python), lambda port, files: [python, "-B", HERE / "grpcio_server.py", port, *files]),
        Server("grpc-js", has_grpc_js(cache), lambda port, files: ["node", HERE / "grpc_js_server.js", port, *files], env=js_env(cache)),
    ]


def all_peers(build):
    """Returns all clients."""
    cache = build / "interop"
    cpp = build / "test" / "grpcpp_client"
    return [
        Peer("grpc-go", go_program("client"), lambda host, port, case, ca: [
            go_program("client"), *flags(host, port, case, ca),
            *(["--use_test_ca", "--ca_file=" + ca, "--server_host_override=localhost"] if ca else [])]),
        python("grpcio", "/usr/bin/python3"),  # for which Debian's package is
        python("grpcio-1.85", cache / "python" / "bin" / "python"),
        java(cache / "java.classpath"),
        ruby(),
        Peer("grpc-js", has_grpc_js(cache), lambda host, port, case, ca: [
            "node", HERE / "grpc_js_client.js", f"{host}:{port}", case, *([ca] if ca else [])], env=js_env(cache)),
        Peer("grpc-c++", cpp.exists(), lambda host, port, case, ca: [
            cpp, *(["--ca", ca] if ca else []), f"{host}:{port}", case], [*CASES, *COMPRESSED, "callback_unary", *LARGE[1:3]]),
        Peer("grpcurl", go_program("grpcurl"), lambda host, port, case, ca: [
            go_program("grpcurl"), *(["-cacert", ca, "-authority", "localhost"] if ca else ["-plaintext"]), f"{host}:{port}", *GRPCURL[case]],
            GRPCURL, GRPCURL),
        Peer("ghz", go_program("ghz"), lambda host, port, case, ca: [
            sys.executable, "-B", HERE / "run_ghz.py", go_program("ghz"), *(["--cacert", ca, "--cname", "localhost"] if ca else ["--insecure"]),
            "--call", SERVICE + "/EmptyCall", "-n", "20000", "-c", "50", "--connections", "5", f"{host}:{port}"],
            ["load"], ["load"]),
        Peer("h2spec", go_program("h2spec"), lambda host, port, case, ca: [
            go_program("h2spec"), case, *(["-t", "-k"] if ca else []), "-h", host, "-p", port, "-o", "1", "-P", f"/{SERVICE}/EmptyCall"],
            ["http2", "hpack"], ["http2", "hpack"]),
    ]
