#!/usr/bin/env python3
"""Goal: the README's first example is the program that the install test builds and runs, the second one compiles, and its
length stays that of a first page.
Method: the first C block must equal the file; the second one is compiled inside a function that declares its variables.

Covers: apps/examples/hello.c

usage: readme.py README FILE INCLUDE_DIR CC
"""
import pathlib
import re
import subprocess
import sys

LINES, COLUMNS = 120, 100
FRAME = """#include <lend/mem.h>
int frame(struct lend_ep *ep, lend_session session, struct lend_call call, void *bytes, size_t len)
{
	enum { RESIZE = 1 };
	struct lend_mem *mem;
	%s
	return 0;
}
"""

readme, file = (pathlib.Path(arg).read_text() for arg in sys.argv[1:3])
include, cc = sys.argv[3:5]
blocks = re.findall(r"^```c\n(.*?)^```$", readme, flags=re.M | re.S)
if len(blocks) != 2 or blocks[0] != file:
    sys.exit(f"README.md: its first of two C blocks must equal {sys.argv[2]}: copy the file there")
done = subprocess.run([cc, "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", include, "-x", "c", "-"],
                      input=FRAME % blocks[1], capture_output=True, text=True)
if done.returncode:
    sys.exit(f"README.md: its second C block does not compile:\n{done.stderr}")
lines = readme.expandtabs(8).splitlines()
wide = [n for n, line in enumerate(lines, 1) if len(line) > COLUMNS and not line.startswith("|")]
if len(lines) > LINES or wide:
    sys.exit(f"README.md: {len(lines)} lines of {LINES}; wider than {COLUMNS} columns: lines {wide}")
