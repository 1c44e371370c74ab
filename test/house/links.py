#!/usr/bin/env python3
"""Goal: no link between the project's documents is broken. Method: resolves every relative link of each Markdown file
in the repository, and its #anchor where the target is a Markdown file.
Covers: README.md, src/README.md

usage: links.py ROOT
"""
import pathlib
import re
import sys

from tree import files

ROOT = pathlib.Path(sys.argv[1]).resolve()
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s[^)]*)?\)")


def anchors(path):
    heads = re.findall(r"^#+ +(.*?)\s*$", re.sub(r"```.*?```", "", path.read_text(), flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def fault(page, link):
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    if not target.exists():
        return "no such file"
    return "no such heading" if anchor and target.suffix == ".md" and anchor not in anchors(target) else None


pages = [ROOT / name for name in files(ROOT, (".md",))]
bad = []
for page in pages:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)
    links = [link for link in LINK.findall(text) if not re.match(r"[a-z]+:", link)]
    bad += [f"{page.relative_to(ROOT)}: {link}: {fault(page, link)}" for link in links if fault(page, link)]
print("\n".join(bad) or f"{len(pages)} documents: every link has its target")
sys.exit(bool(bad))
