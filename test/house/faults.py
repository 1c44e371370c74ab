#!/usr/bin/env python3
"""Goal: the checks of house.py see what they are for, and ratchets hold. Covers: test/house
Method: a small tree in order, then one fault at a time, each of which must be named.

usage: faults.py
"""
import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import house

LOOP = "#include \"{0}.h\"\nint lend_{0}(void)\n{{\n\treturn lend_{1}();\n}}\n"
MISSPELT = "recie" "ved"
RING = {f"src/core/n{i}.c": LOOP.format(f"n{i}", f"n{(i + 1) % 7}") for i in range(7)}
ORDER = {
    "README.md": "# Tree\n\nIt sends 12 datagrams to people who read it.\n",
    "src/core/README.md": "# core\n\nIt sends datagrams.\n",
    "src/core/sess.c": "/* Returns the socket. */\nstatic int open_sess(void)\n{\n\treturn 0;\n}\n",
    "src/io/udp/rx.c": "/* Reads the socket. */\n",
    "src/io/dpdk/rx.c": "/* Reads the queue. */\n",
    "test/sim/run.sh": "# Runs the simulator.\ntrue\n",
    "test/house/ratchets.txt": "commits base {base}\n",
}
FAULTS = [  # check, file, text, what must be named
    ("prose", "src/core/rx.c", "/* A frame who waits. */\n", "src/core/rx.c:1: person (who)"),
    ("prose", "src/core/rx.h", "// What is lost comes again.\n", "headless (What is)"),
    (
        "prose",
        "include/lend/mem.h",
        "/* Nobody reads it. */\n" + "/* Fine. */\n" * 99,
        "include/lend is 1, at most 0",
    ),
    ("prose", "cn/rx.h", "int n; /* of the reply */\n", "cn/rx.h:1: fragment (of)"),
    ("prose", "scripts/run.py", '"""Tells the node."""\n', "speech (Tells)"),
    (
        "prose",
        "src/core/README.md",
        "| a | b |\n|---|---|\n| rx | the call stands in line |\n",
        "README.md:3: picture",
    ),
    (
        "prose",
        "test/sim/planted/core.txt",
        "plant x\n" "does a call sends anew\n",
        "archaic (anew)",
    ),
    ("docs", "README.md", "line\n" * 121, "README.md:lines is 121, at most 120"),
    ("docs", "README.md", "1 and 2.5, " * 7 + "\n", "README.md:numbers is 14, at most 12"),
    ("docs", "src/core/README.md", "x\n" * 61, "src/core/README.md:lines is 61"),
    ("docs", "mn/OPERATING.md", "word " * 21, "mn/OPERATING.md:1: 105 columns"),
    ("names", "src/core/grant.c", "int lend_hungry_n;\n", "src/core/grant.c: lend_hungry_n"),
    ("names", "cn/left.c", "\n", "cn/left.c: left in the file name"),
    ("names", "mn/sess.c", "\n", "sess.c: mn/sess.c src/core/sess.c"),
    (
        "names",
        "src/core/tx.c",
        "static int open(void)\n{\n\treturn 0;\n}\n",
        "src/core/tx.c:1: open()",
    ),
    ("circles", RING, None, "src/core:files is 7, at most 6"),
    (
        "circles",
        "src/rpc/a.c",
        "".join(f"void a{i}(void)\n{{\n\ta{(i + 1) % 4}();\n}}\n" for i in range(4)),
        "src/rpc:functions is 4",
    ),
    ("spelling", "src/core/ack.c", f"/* Returns the {MISSPELT} bytes. */\n", MISSPELT),
]
SUBJECTS = {
    "core: resend lost replies": None,
    "core: " + "resend " * 10: "75 columns",
    "core: what is lost": "'what' is no imperative",
    "fix things": "not 'area: verb object'",
    "core: resends replies": "'resends' is no imperative",
    "core: add it.": "not 'area",
}


def write(repo, files):
    for name, text in files.items():
        path = repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def run_house(repo, *args):
    """Returns the exit code and the output."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = house.main(["--repo", str(repo), *args])
    return code, out.getvalue()


def expect(what, said, code, text=""):
    if said[0] != code or text not in said[1]:
        sys.exit(f"{what}: exit code {said[0]}, not {code}, with '{text}':\n{said[1]}")


def try_faults(repo):
    for check, name, text, named in FAULTS:
        if check == "spelling" and not shutil.which("codespell"):
            continue
        fault = name if text is None else {name: text}
        write(repo, fault)
        expect(f"{check} with {named}", run_house(repo, check), 1, named)
        for file in fault:
            (repo / file).unlink()
        write(repo, {file: ORDER[file] for file in fault if file in ORDER})
        expect(f"{check} in order", run_house(repo, check), 0)


def try_ratchet(repo):
    ratchets = repo / "test/house/ratchets.txt"
    write(
        repo,
        {
            "src/core/wire.c": "/* Nobody. */\n/* Whoever. */\n",
            ratchets: "# kept\nprose src/core 3\nprose gone 5\n",
        },
    )
    expect("a number below its ratchet", run_house(repo, "prose"), 0, "src/core fell from 3 to 2")
    expect("a number that is stored", run_house(repo, "--lower", "prose"), 0)
    assert ratchets.read_text() == "# kept\nprose src/core 2\n", ratchets.read_text()
    write(repo, {"src/core/tell.c": "/* He. */\n"})
    expect(
        "a number above its ratchet",
        run_house(repo, "--lower", "prose"),
        1,
        "src/core is 3, at most 2",
    )
    assert ratchets.read_text() == "# kept\nprose src/core 2\n", ratchets.read_text()


def try_commits(repo):
    expect("no repository", run_house(repo, "commits"), 77, "skipped")
    who = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a",
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }

    def git(*args):
        return subprocess.run(
            ["git", "-C", repo, *args],
            env=os.environ | who,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "Whatever came before the base")
    write(repo, {"test/house/ratchets.txt": f"commits base {git('rev-parse', 'HEAD')}\n"})
    for subject, why in SUBJECTS.items():
        git("commit", "-q", "--allow-empty", "-m", subject)
        expect(subject, run_house(repo, "commits"), *((1, why) if why else (0,)))
        if why:
            git("reset", "-q", "--soft", "HEAD^")


def main():
    with tempfile.TemporaryDirectory() as folder:
        repo = pathlib.Path(folder)
        write(repo, ORDER)
        try_faults(repo)
        try_ratchet(repo)
        if shutil.which("git"):
            try_commits(repo)


main()
