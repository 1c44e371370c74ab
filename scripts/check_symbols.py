#!/usr/bin/env python3
"""Fails unless a library exports exactly the functions that the given public headers declare, and it and the programs and
modules next to it resolve all symbols at their start, so that their tables of addresses are read-only.

usage: check_symbols.py LIBRARY HEADER...
"""
import pathlib
import re
import subprocess
import sys

PROGRAMS = ("lend", "lend-mn", "lend-broker")


def declared(header):
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", pathlib.Path(header).read_text(), flags=re.S)
    text = re.sub(r"^[ \t]*#([^\n]*\\\n)*[^\n]*$", " ", text, flags=re.M)
    text = text.replace('extern "C" {', " ")
    while re.search(r"\{[^{}]*\}", text):  # bodies of structs, enums and inline functions
        text = re.sub(r"\)\s*\{[^{}]*\}", ");", text)
        text = re.sub(r"\{[^{}]*\}", " ", text)
    for statement in text.split(";"):
        name = re.search(r"\b(lend_\w+)\s*\(", statement)
        if name and not re.search(r"\b(typedef|static)\b", statement):
            yield name.group(1)


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines() if line.split()[-2] != "A"}


def binds_late(path):
    flags = subprocess.run(["readelf", "-dlW", path], capture_output=True, text=True, check=True).stdout
    return "GNU_RELRO" not in flags or not re.search(r"BIND_NOW|Flags:.* NOW", flags)


def main(library, headers):
    api, symbols = {name for header in headers for name in declared(header)}, exported(library)
    for name in sorted(api - symbols):
        print(f"{library}: declared but not exported: {name}")
    for name in sorted(symbols - api):
        print(f"{library}: exported but not declared: {name}")
    folder = pathlib.Path(library).parent
    late = [path for path in (pathlib.Path(library), *folder.glob("lend_*.so"), *(folder / name for name in PROGRAMS)) if path.exists() and binds_late(path)]
    for path in late:
        print(f"{path}: not linked with -z relro -z now")
    return api != symbols or not api or bool(late)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
