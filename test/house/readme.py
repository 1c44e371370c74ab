#!/usr/bin/env python3
"""Goal: the README's example is the program that the install test builds and runs.
Method: one of its C blocks must equal the file. Without a C block there is nothing to compare (77: skipped).

usage: readme.py README FILE
"""
import pathlib
import re
import sys

readme, file = (pathlib.Path(arg).read_text() for arg in sys.argv[1:3])
blocks = re.findall(r"^```c\n(.*?)^```$", readme, flags=re.M | re.S)
if not blocks:
    sys.exit(77)
if file not in blocks:
    sys.exit(f"README.md: no C block equals {sys.argv[2]}; copy that file there, or mend it")
