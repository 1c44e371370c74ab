#!/usr/bin/env python3
"""Runs the store of apps/examples/grpc_store.cc without and with lend grpc-run; draws both as SVG.

usage: grpc_demo.py BUILD [--seconds S] [--out FILE]      `grpc-demo.sh` builds first

Ways to run it take turns; medians are shown.
"""
import argparse
import contextlib
import pathlib
import re
import socket
import statistics
import subprocess

ROUNDS, MANY = 3, 64
WAYS = {"gRPC C++ alone": False, "with lend grpc-run": True}  # whether both ends run by it
COLORS = ("#8a8f98", "#2f7d6b")
WIDTH, HEIGHT, BAR, LEFT = 720, 230, 26, 150


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def server(command):
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen([*command, "serve", address], stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout.readline() != "ready\n":
            raise SystemExit(f"grpc-demo: {' '.join(map(str, command))} does not serve")
        yield address
    finally:
        process.terminate()
        process.wait(10)


def measure(build, seconds):
    """Returns {way: ([us of one call], [calls per second])}."""
    store, run = [build / "examples" / "grpc_store"], [build / "lend", "grpc-run"]
    got = {way: ([], []) for way in WAYS}
    with contextlib.ExitStack() as stack:
        address = {carried: stack.enter_context(server(run * carried + store)) for carried in (False, True)}
        for _ in range(ROUNDS):
            for way, carried in WAYS.items():
                for kind, more in enumerate(([], [str(MANY)])):
                    out = subprocess.run([*run * carried, *store, address[carried], str(seconds), *more], text=True,
                                         check=True, stdout=subprocess.PIPE).stdout
                    us, rate = re.search(r"in ([\d.]+) us, (\d+) per second", out).groups()
                    got[way][kind].append(float(us) if kind == 0 else float(rate))
    return {way: tuple(map(statistics.median, figures)) for way, figures in got.items()}


def draw_panel(title, figures, text, y):
    high = max(figures.values())
    yield f'<text x="0" y="{y}" class="title">{title}</text>'
    for i, ((way, figure), color) in enumerate(zip(figures.items(), COLORS)):
        top, width = y + 14 + i * (BAR + 8), (WIDTH - LEFT - 130) * figure / high
        yield f'<text x="{LEFT - 10}" y="{top + 18}" text-anchor="end">{way}</text>'
        yield f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR}" fill="{color}"/>'
        yield f'<text x="{LEFT + width + 8:.1f}" y="{top + 18}">{text(figure)}</text>'


def draw(got):
    rows = [*draw_panel("Half of the calls took at most, one in flight", {w: g[0] for w, g in got.items()},
                        lambda us: f"{us:.1f} us", 20),
            *draw_panel(f"Calls per second, {MANY} in flight", {w: g[1] for w, g in got.items()},
                        lambda rate: f"{rate / 1000:.1f} k", 130)]
    style = "text{font:14px sans-serif;fill:#222}.title{font-weight:bold}"
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-20 -20 {WIDTH + 40} {HEIGHT}">',
                      "<title>An unmodified gRPC C++ store without and with lend grpc-run</title>",
                      f"<style>{style}</style>", f'<rect x="-20" y="-20" width="{WIDTH + 40}" height="{HEIGHT}" fill="#fff"/>',
                      *rows, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(usage="grpc_demo.py BUILD [--seconds S] [--out FILE]")
    parser.add_argument("build", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--seconds", type=float, default=1, help="of each run")
    parser.add_argument("--out", default="lend-grpc-demo.svg")
    args = parser.parse_args()
    got = measure(args.build, args.seconds)
    for way, (us, rate) in got.items():
        print(f"{way:20} {us:8.1f} us {rate:10.0f} calls/s")
    pathlib.Path(args.out).write_text(draw(got))
    print(f"picture: {args.out}")


if __name__ == "__main__":
    main()
