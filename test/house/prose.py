"""prose - comments and Markdown sentences whose subject is not technical.

A comment (adjacent lines are one) or a Markdown sentence counts once, whatever number of rules it
breaks. Code, quotations and link targets are left out. 'prose: ok' in a comment allows it.
"""
import ast
import io
import re
import tokenize

import tree

SHARE = 0.015  # of a folder's comments
STRICT = "include"  # where none is allowed
PEOPLE = (
    r"(?:people|persons?|users?|readers?|operators?|administrators?|developers?|engineers?"
    r"|attackers?|authors?|anyone|you)"
    r"(?: of \w+)?,? "
)
RULES = {
    "person": r"(?<!\w)(?<!-)(?:whom|whoever|nobody|somebody|everybody|anybody"
    r"|his|him|he|who)(?![\w-])",
    "headless": r"(?:^|[.;:] )(?:What|Who|Whoever|That which|All that) (?!if\b)[a-z]+\b(?!.*\?)",
    "archaic": r"\b(?:anew|beside|besides|in vain|of late|unasked|unforeseen|at hand"
    r"|whatever comes|mend|mends|mended|seldom|as ever)\b",
    "speech": r"\b(?:says?|said|told|tells?|(?:its|our|their) word|spoken|hush|mourns?)\b",
    "picture": r"\b(?:(?:stands?|wait|waits) in line|who is next|next in line|stands? aside"
    r"|gives? way|gave way|lets? go|go(?:es)? by(?! (?:value|reference|the reference))"
    r"|passes? by|lies|looks? (?:in vain|away)|hungry|riders?)\b",
}
RULES = {name: re.compile(rule, re.I if name != "headless" else 0) for name, rule in RULES.items()}
ALLOWED = re.compile(PEOPLE + r"who\b", re.I)
FRAGMENT = re.compile(r"(?:of|then|else|likewise|the same|which|that)\b")  # needs its line of code
QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|\]\([^)]*\)|(?<!\w)'[^']{0,40}'(?!\w)|\w+\(\)")
HASH = {".sh", ".cmake", ".txt", ".sim", ".yaml", ".in", ""}
C = {".c", ".h", ".cc", ".pml"}


def joined(lines):
    """Joins (line, text) pairs of adjacent lines."""
    start, text, last = 0, "", -1
    for line, part in lines:
        if text and line == last + 1:
            text += " " + part
        else:
            if text:
                yield start, text
            start, text = line, part
        last = line
    if text:
        yield start, text


def of_c(text):
    slashes = []
    for m in tree.TOKEN.finditer(text):
        if m.group().startswith("/*"):
            yield tree.line_at(text, m.start()), re.sub(
                r"\s*\n\s*\*?\s*", " ", m.group()[2:-2]
            ).strip(" *")
        elif m.group().startswith("//"):
            slashes.append((tree.line_at(text, m.start()), m.group()[2:].strip()))
    yield from joined(slashes)


def of_hash(text):
    found = (re.match(r"(?:.*\s)?#\s+(.*)|(?:does|seen) (.*)", line) for line in text.splitlines())
    yield from joined((n, m[1] or m[2]) for n, m in enumerate(found, 1) if m)


def of_python(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(
            node
        ):
            for part in ast.get_docstring(node).split("\n\n"):
                yield node.body[0].lineno, " ".join(part.split())
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    yield from joined(
        (t.start[0], t.string.lstrip("#! ")) for t in tokens if t.type == tokenize.COMMENT
    )


def paragraphs(text):
    """Yields (line, text) of the paragraphs, list items and table rows outside code blocks."""
    fenced, lines = False, []
    for n, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or not line.strip() or re.match(r"\s*(?:[-*] |\d+\. |[|#])", line):
            yield from joined(lines)
            lines = []
        if not fenced and not line.startswith(("```", "    ")) and line.strip():
            lines.append((n, line.strip()))
    yield from joined(lines)


def of_markdown(text):
    for line, part in paragraphs(text):
        for sentence in re.split(r"(?<=[.!])\s+|\|", part):
            if re.search(r"[a-z]{2}", sentence):
                yield line, sentence.lstrip("-*# ")


def comments(name, text):
    if name.suffix in C:
        return of_c(text)
    if name.suffix == ".py":
        return of_python(text)
    if name.suffix == ".md":
        return of_markdown(text)
    return of_hash(text) if name.suffix in HASH else ()


def faults(name, text):
    plain = ALLOWED.sub("people", QUOTED.sub("x", text))
    begin = FRAGMENT.match(text) if name.suffix in C else None
    return ([f"fragment ({begin.group()})"] if begin else []) + [
        f"{rule} ({m.group().strip(' .;:')})"
        for rule, rx in RULES.items()
        for m in [rx.search(plain)]
        if m
    ]


def measure(repo, stored):
    counts, hits = {}, {}
    for name in tree.files(repo):
        folder = tree.folder_of(name)
        for line, text in comments(name, tree.read(repo, name)):
            counts[folder] = counts.get(folder, 0) + 1
            found = faults(name, text)
            if found and "prose: ok" not in text:
                hits.setdefault(folder, []).append(
                    f"{name}:{line}: {', '.join(found)}: {text[:100]}"
                )
    for folder, count in counts.items():
        limit = 0 if folder.startswith(STRICT) else int(SHARE * count)
        yield tree.Number(folder, len(hits.get(folder, [])), limit, hits.get(folder, []))
