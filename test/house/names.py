"""names - coined nouns in identifiers and files, equal basenames, static functions of one word.

old_names.txt lists the nouns, one a line: NOUN | the term to use | folders (all, if none is named).
A noun is a part of a name split at '_'; 'NOUN.*' is a whole file name. Folders of carriers may
repeat basenames: each has the same files.
"""
import collections
import pathlib
import re

import tree

LIST = pathlib.Path(__file__).with_name("old_names.txt")
SHARED = {"README.md", "CMakeLists.txt", "main.c"}
TEXTBOOK = {
    "main",
    "push",
    "pop",
    "peek",
    "hash",
    "min",
    "max",
    "swap",
    "clamp",
    "insert",
    "remove",
    "find",
    "compare",
    "usage",
}
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def old_names(text):
    """Yields (noun, for file names only, term, folders) of the list."""
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            noun, term, folders = (part.strip() for part in line.split("|"))
            yield noun.removesuffix(".*"), noun.endswith(".*"), term, folders.split()


def is_old(name, words, entry):
    noun, _, _, folders = entry
    return noun in words and (not folders or any(str(name).startswith(f + "/") for f in folders))


def parts(text):
    return set(text.lower().split("_"))


def old_files(names, entries):
    for name in names:
        for entry in entries:
            if is_old(
                name, {name.stem.removesuffix("_test")} if entry[1] else parts(name.stem), entry
            ):
                yield f"{name}: {entry[0]} in the file name; use: {entry[2]}"


def old_identifiers(texts, entries):
    """Returns {noun: [hit of each identifier]}."""
    first = {}
    for name, text in texts:
        for identifier in IDENTIFIER.findall(tree.blanked(text)):
            first.setdefault((identifier, tree.folder_of(name)), name)
    hits = {entry[0]: {} for entry in entries if not entry[1]}
    for (identifier, _), name in first.items():
        words = parts(identifier)
        for entry in entries:
            if not entry[1] and is_old(name, words, entry):
                hits[entry[0]].setdefault(identifier, f"{name}: {identifier}; use: {entry[2]}")
    return {noun: list(found.values()) for noun, found in hits.items()}


def twins(names):
    places = collections.defaultdict(list)
    for name in names:
        if (
            name.name not in SHARED
            and not name.name.startswith(".")
            and not tree.CARRIERS.match(str(name))
        ):
            places[name.name].append(str(name))
    return [f"{base}: {' '.join(found)}" for base, found in places.items() if len(found) > 1]


def one_word(texts):
    for name, text in texts:
        for f in tree.functions(text):
            if f.static and "_" not in f.name and f.name not in TEXTBOOK:
                yield tree.folder_of(
                    name
                ), f"{name}:{f.line}: {f.name}() has one word; use verb_object"


def measure(repo, stored):
    entries = list(old_names(LIST.read_text()))
    names = [name for name in tree.files(repo) if name.parts[0] != "third_party"]
    texts = [(name, tree.read(repo, name)) for name in names if name.suffix in (".c", ".h")]
    found = list(old_files(names, entries))
    yield tree.Number("files", len(found), 0, found)
    for noun, hits in old_identifiers(texts, entries).items():
        yield tree.Number(f"noun:{noun}", len(hits), 0, hits)
    found = twins(names)
    yield tree.Number("basenames", len(found), 0, found)
    short = collections.defaultdict(list)
    for folder, hit in one_word(texts):
        short[folder].append(hit)
    for folder in sorted({tree.folder_of(name) for name, _ in texts}):
        yield tree.Number(f"static:{folder}", len(short[folder]), 0, short[folder])
