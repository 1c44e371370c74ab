"""docs - README.md at the top: 120 lines, 12 numbers; a folder's README: 60 lines; 100 columns.

Tables, code blocks, lines of a single link and generated files ("do not edit" at the head) may be
wider. A number is a numeral in prose or in a table that starts a word ("12", "1.5", "64K"), outside
code, link targets and list markers; "2-3" and a date are one.
"""
import re

import tree

COLUMNS, LINES, TOP_LINES, TOP_NUMBERS = 100, 60, 120, 12
NUMERAL = re.compile(r"(?<![\w.,])\d[\d.,]*(?<![.,])(?:-\d+)*")
LINK = re.compile(r"\[[^]]*\]\([^)]*\)")
CODE = re.compile(r"`[^`]*`|\]\([^)]*\)|https?://\S+|^\s*\d+\. ")


def text_lines(text):
    """Yields (number, line) of what is not in a code block."""
    fenced = False
    for n, line in enumerate(text.splitlines(), 1):
        fence = line.lstrip().startswith("```")
        if not fenced and not fence:
            yield n, line
        fenced ^= fence


def is_wide(line):
    words = LINK.sub("", line).split()
    return len(line) > COLUMNS and len(words) > 1 and not words[0].startswith("|")


def measure(repo, stored):
    for name in tree.files(repo, {".md"}):
        text = tree.read(repo, name)
        lines = list(text_lines(text))
        wide = [f"{name}:{n}: {len(line)} columns" for n, line in lines if is_wide(line)]
        if "do not edit" not in "".join(text.splitlines()[:5]):
            yield tree.Number(f"{name}:wide", len(wide), 0, wide)
        if name.name == "README.md":
            yield tree.Number(
                f"{name}:lines", len(text.splitlines()), LINES if name.parent.parts else TOP_LINES
            )
        if str(name) == "README.md":
            found = [
                (n, number) for n, line in lines for number in NUMERAL.findall(CODE.sub(" ", line))
            ]
            numbers = [f"{name}:{n}: {number}" for n, number in found]
            yield tree.Number(f"{name}:numbers", len(numbers), TOP_NUMBERS, numbers)
