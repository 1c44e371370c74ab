#!/usr/bin/env python3
"""Writes the table of carriers and traits into src/io/README.md.

usage: carriers.py [--check] [ROOT]      --check: write nothing, fail when the table is out of date

Traits and their meaning are in include/lend/carrier.h, carriers in src/io/carrier_kind.c.
"""
import pathlib
import re
import sys

BEGIN, END = "<!-- carriers -->\n", "<!-- end -->\n"
README = "src/io/README.md"


def read_traits(text):
    """{name: meaning} in the order of the enum."""
    return {name: " ".join(meaning.split()) for name, meaning in re.findall(r"LEND_CARRIER_(\w+) = 1 << \d+,?\s*/\*(.*?)\*/", text, re.S)}


def read_carriers(text):
    """[(address, traits, traits in part, mtu)] in the order of the table."""
    rows = []
    for row in re.findall(r"\{(\s*\.begin = .*?)\}", text, re.S):
        field = {key: " ".join(value.split()) for key, value in re.findall(r"\.(\w+) = ([^,]+)(?:,|$)", row)}
        words = {key: set(re.findall(r"\w+", field.get(key, ""))) for key in ("traits", "some")}
        name = field["begin"].strip('"') + ("NAME" + field["part"].strip('"') + "PATH" if "part" in field else "")
        rows.append((name, words["traits"], words["some"], field["mtu"]))
    return rows


def table(traits, carriers):
    lines = ["| trait | " + " | ".join(f"`{name}`" for name, *_ in carriers) + " |", "|---" * (len(carriers) + 1) + "|"]
    for trait, meaning in traits.items():
        cells = ["yes" if trait in has else "in part" if trait in some else "" for _, has, some, _ in carriers]
        lines.append(f"| {meaning} | " + " | ".join(cells) + " |")
    lines.append("| longest datagram, bytes | " + " | ".join(mtu for *_, mtu in carriers) + " |")
    return "\n".join(lines) + "\n"


def main(argv):
    root = pathlib.Path(next((a for a in argv if not a.startswith("-")), pathlib.Path(__file__).resolve().parent.parent))
    traits = read_traits((root / "include/lend/carrier.h").read_text())
    carriers = read_carriers((root / "src/io/carrier_kind.c").read_text())
    unknown = {t for _, has, some, _ in carriers for t in has | some} - set(traits)
    if unknown or not carriers:
        print(f"carriers.py: no such traits: {', '.join(sorted(unknown))}" if unknown else "carriers.py: no carrier found")
        return 1
    was = (root / README).read_text()
    before, _, rest = was.partition(BEGIN)
    text = before + BEGIN + table(traits, carriers) + END + rest.partition(END)[2]
    if "--check" not in argv:
        (root / README).write_text(text)
    elif text != was:
        print(f"{README}: the table is out of date; run scripts/carriers.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
