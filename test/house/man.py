#!/usr/bin/env python3
"""Goal: each public function has a man page, its comment has the sections that its kind needs, and mandoc accepts every page.
Method: scripts/man3.py checks the headers, and must name each fault planted in a small one; the pages that the build wrote are looked
up by function, and all pages, also those written by hand, go through mandoc (77 without it: skipped).
Covers: scripts/man3.py, include/lend

usage: man.py REPO MAN_FOLDER
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

repo, folder = (pathlib.Path(arg) for arg in sys.argv[1:3])
sys.dont_write_bytecode = True
sys.path.insert(0, str(repo / "scripts"))
import check_symbols  # noqa: E402
import man3  # noqa: E402

WORDS_MIN = 40
HEADER = """/* lend/api.h - a header.
 *
 * Threads: any. */

/* An object. */
struct lend_thing;
/* A pair. */
struct lend_pair {
	int a; /* first */
	int b; /* second */
};
/* Takes a pair.
 * Returns: 0; -EINVAL: no pair.
 * Ownership: takes pair. */
int lend_take(struct lend_thing *thing, struct lend_pair *pair);
/* Counts things.
 * Returns: the number. */
unsigned lend_count(const struct lend_thing *thing);
"""
EXAMPLE = "#include <lend/api.h>\nstatic void use(void)\n{\n\tlend_take(0, 0);\n}\n"
FAULTS = [  # what, with what, the check's words
    (" * Returns: 0; -EINVAL: no pair.\n", "", "lend_take(): lacks Returns"),
    (" * Returns: the number. */", " */", "lend_count(): lacks Returns"),
    ("\n * Ownership: takes pair. */", " */", "lend_take(): lacks Ownership"),
    (" *\n * Threads: any. */", " */", "lend_count(): lacks Threads"),
    ("-EINVAL: no pair", "-EINVAL", "lend_take(): -EINVAL. has no cause"),
    (" Takes a pair.", " A pair.", "lend_take(): its comment does not begin with a verb"),
    ("0; -EINVAL: no pair.\n * Ownership: takes pair.", "0.\n * Source: RFC 1.\n * Ownership: takes pair.", "lend_take(): the order is"),
    ("things.\n * Returns:", "things. Returns:", "lend_count(): Returns does not begin a line"),
    ("/* Takes a pair.\n", "/* A stray comment. */\n\n/* Takes a pair.\n", "a comment belongs to nothing"),
    (" /* second */", "", "struct lend_pair: int b has no comment"),
    ("/* A pair. */\n", "", "struct lend_pair: has no comment"),
]


def faults_of(header, example):
    with tempfile.TemporaryDirectory() as tmp:
        files = [pathlib.Path(tmp) / "api.h", pathlib.Path(tmp) / "use.c"]
        files[0].write_text(header)
        files[1].write_text(example)
        return man3.load([str(file) for file in files])[2]


def check_planted():
    yield from (f"the sample header: {fault}" for fault in faults_of(HEADER, EXAMPLE))
    for what, instead, words in FAULTS:
        assert what in HEADER, what
        found = faults_of(HEADER.replace(what, instead, 1), EXAMPLE)
        if not any(words in fault for fault in found):
            yield f"man3.py --check says {found}, not: {words}"
    if not any("no example" in fault for fault in faults_of(HEADER, EXAMPLE.replace("lend_take", "take"))):
        yield "man3.py --check passes over a page without an example"


def check_functions(headers):
    for name in (name for header in headers for name in check_symbols.declared(header)):
        page = folder / "man3" / f"{name}.3"
        if not page.exists():
            yield f"{name}: has no page"
        elif not re.search(rf"^\.Fo {name}$", page.read_text(), re.M):
            yield f"{page}: does not describe {name}"


def check_page(page):
    lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True)
    if lint.returncode or lint.stdout:
        yield lint.stdout.strip() or f"{page}: mandoc -T lint returns {lint.returncode}"
    shown = subprocess.run(["mandoc", "-T", "utf8", page], capture_output=True, text=True).stdout
    shown = re.sub(".\b", "", shown)
    for section in "NAME", "SYNOPSIS", "DESCRIPTION":
        if section == "SYNOPSIS" and page.suffix == ".5":
            continue
        if not re.search(rf"^{section}$", shown, re.M):
            yield f"{page}: has no {section}"
    if len(shown.partition("\nDESCRIPTION\n")[2].split()) < WORDS_MIN:
        yield f"{page}: is empty"


def main():
    headers = sorted(repo.glob("include/lend/*.h"))
    examples = [*sorted(repo.glob("test/e2e/install/*.c")), repo / "apps/examples/hello.c", repo / "apps/examples/greeter.c",
                repo / "apps/examples/named.c", repo / "apps/examples/dictionary.cc"]
    faults = man3.load([str(file) for file in headers + examples])[2]
    faults += [*check_planted(), *check_functions(headers)]
    mandoc = shutil.which("mandoc")
    if mandoc:
        pages = [page for part in ("apps", "mn", "src/broker") for page in sorted((repo / part / "man").glob("*.[1-8]"))]
        if not pages:
            faults.append("there is no page written by hand")
        pages += [page for page in sorted((folder / "man3").glob("*.3")) if not page.is_symlink()]
        faults += [fault for page in pages for fault in check_page(page)]
    for fault in faults:
        print(fault)
    if not mandoc and not faults:
        print("mandoc is not installed: scripts/deps.sh test")
        return 77
    return bool(faults)


sys.exit(main())
