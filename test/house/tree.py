"""tree - input of the checks: files of the tree, text of C files, their functions."""
import dataclasses
import pathlib
import re

CARRIERS = re.compile(r"src/io/\w+/")
TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
FUNCTION = re.compile(
    r"^(?P<head>[A-Za-z_][^\n;{}#]*\n(?:[^\n;{}#]+\n)*)\{\n(?P<body>.*?)^\}", re.M | re.S
)
ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)")


@dataclasses.dataclass
class Number:
    """One measured number: `value` may not exceed `limit`; `hits` name what was counted."""

    key: str
    value: int
    limit: int
    hits: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Function:
    name: str
    static: bool
    body: str
    line: int


class Skip(Exception):
    """The check has nothing to read on this machine."""


def files(repo, suffixes=None):
    """Yields the project's own files as paths relative to `repo`; never those of a build."""
    for path in sorted(repo.rglob("*")):
        name = path.relative_to(repo)
        if name.parts[0].startswith(("build", ".cache")) or {".git", "__pycache__", "corpus"} & set(
            name.parts
        ):
            continue
        if path.is_file() and (not suffixes or path.suffix in suffixes):
            yield name


def read(repo, name):
    return (repo / name).read_text(errors="replace")


def folder_of(name, depth=2):
    return "/".join(name.parts[:-1][:depth]) or "."


def line_at(text, offset):
    return text.count("\n", 0, offset) + 1


def blanked(text):
    """Returns C text with comments and literals blanked; offsets and lines stay."""
    return TOKEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def functions(text):
    """Yields the functions that a clang-formatted C file defines."""
    text = blanked(text)
    for m in FUNCTION.finditer(text):
        head = ATTRIBUTE.sub("", m["head"])
        name = re.search(r"(\w+)\s*\(", head)
        if name:
            yield Function(
                name[1], "static" in head.split(name[1])[0], m["body"], line_at(text, m.start())
            )
