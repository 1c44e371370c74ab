#!/usr/bin/env python3
"""Makes the man 3 pages of Lend (mdoc(7)) from the comments of its public headers.

usage: man3.py OUT HEADER.h... EXAMPLE.c...     writes OUT/PAGE.3, and a link for each other name
       man3.py --check HEADER.h... EXAMPLE.c... prints each declaration with an incomplete comment

The comment at the head of lend/NAME.h begins "lend/NAME.h - brief": page lend_NAME. A comment
"PAGE(3) - brief", with an empty line after it, begins another page. Each declaration, field and
enumerator has a comment of its own, before it or at the end of its line: its purpose, then the
sections Returns, Ownership, Threads and Source, in this order. Threads of a page's comment stand
for its functions. The example of a page is the function of the C files that uses most of the page's
functions; of a page without functions, the shortest C file that includes its header.
"""
import os
import pathlib
import re
import sys
import time

SECTIONS = ("Returns", "Ownership", "Threads", "Source")
COMMENT = r"/\*.*?\*/"


class Doc:
    """A comment: paragraphs of its purpose, and the sections' text by name."""

    def __init__(self, comment):
        self.paragraphs, self.sections = [], {}
        self.missing = comment is None
        text = re.sub(r"^[ \t]*\*? ?", "", (comment or "")[2:-2], flags=re.M)
        for paragraph in re.split(r"\n\s*\n", text):
            parts = re.split(rf"(?:^|\n)({'|'.join(SECTIONS)}): ", paragraph)
            if parts[0].strip():
                self.paragraphs.append(" ".join(parts[0].split()))
            for name, body in zip(parts[1::2], parts[2::2]):
                self.sections[name] = " ".join(body.split())

    def text(self):
        return " ".join(self.paragraphs + list(self.sections.values()))

    def is_ordered(self):
        return list(self.sections) == sorted(self.sections, key=SECTIONS.index)


class Member:
    """A field or an enumerator."""

    def __init__(self, declaration, comment):
        self.declaration = " ".join(declaration.split())
        self.doc = Doc(comment)


class Decl:
    """A function, callback (a function type), type or macro."""

    def __init__(self, text, comment):
        self.doc = Doc(comment)
        bare = re.sub(COMMENT, " ", text, flags=re.S)
        head = " ".join(re.sub(r"\{.*\}", " ", bare, flags=re.S).split())
        self.kind, self.name, self.args, self.members = "type", "", [], []
        self.is_typedef = head.startswith("typedef ")
        function = re.match(r"(?:typedef )?(.*?)(\w+) ?\((.*)\)$", head)
        if text.startswith("#"):
            self.kind = "macro"
            self.name, self.value = re.match(r"#\s*define (\w+)\s*(.*)", text, re.S).groups()
        elif function and "{" not in bare:
            self.kind = "callback" if self.is_typedef else "function"
            self.type, self.name = function[1].strip(), function[2]
            self.args = [arg.strip() for arg in re.split(r",(?![^(]*\))", function[3])]
        else:
            self.name = " ".join(re.sub(r"^typedef ", "", head).split())
            if self.is_typedef:
                self.name = self.name.split()[-1]
            self.members = members_of(text)
        self.is_opaque = self.kind == "type" and not self.is_typedef and "{" not in bare

    def title(self):
        if self.kind in ("function", "callback"):
            return self.name + "()"
        if self.name == "enum":
            return ", ".join(member.declaration.split()[0] for member in self.members)
        return self.name

    def names(self):
        """The names that have a man page."""
        return self.name.split()[-1:] if re.search(r"lend_\w+$", self.name) else []

    def is_callable(self):
        return self.kind in ("function", "callback")

    def passes_pointer(self, opaque, callbacks):
        """Whether it takes or gives a pointer, other than to an opaque object that it uses."""
        for arg in self.args:
            plain = re.sub(r"\b(const|struct)\b", " ", arg).split()
            if "*" in arg and not (arg.count("*") == 1 and plain and plain[0] in opaque):
                return True
            if "[" in arg or (plain and plain[0] in callbacks):
                return True
        return "*" in self.type


def members_of(text):
    body = re.search(r"\{(.*)\}", text, re.S)
    if not body:
        return []
    sep = "," if re.match(r"(typedef )?enum", text) else ";"
    member = rf"\s*({COMMENT})?\s*([^{sep}/]+?)\s*{sep}(?:[ \t]*({COMMENT}))?"
    return [Member(decl, before or after or None) for before, decl, after in re.findall(member, body[1], re.S)]


class Page:
    def __init__(self, name, brief, header, doc):
        self.name, self.brief, self.header, self.doc, self.decls = name, brief, header, doc, []

    def functions(self):
        return [decl for decl in self.decls if decl.kind == "function"]

    def text(self):
        docs = [self.doc] + [decl.doc for decl in self.decls]
        docs += [member.doc for decl in self.decls for member in decl.members]
        return " ".join(doc.text() for doc in docs)


def declaration_at(text, at):
    """Returns the end of the declaration that begins at that offset."""
    depth = 0
    for token in re.finditer(rf"{COMMENT}|[{{}};]", text[at:], re.S):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if token[0] == ";" and depth == 0:
            return at + token.end()
    return len(text)


def parse(path, stray):
    """Returns the pages of one header; appends comments that belong to nothing to stray."""
    text = pathlib.Path(path).read_text()
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif\n", "", text, flags=re.M | re.S)
    pages, comment, at = [], None, 0
    while at < len(text):
        found = re.compile(rf"(\s+)|({COMMENT})|(#(?:[^\n]*\\\n)*[^\n]*)", re.S).match(text, at)
        if found and found[1]:
            at = found.end()
            continue
        if found and found[2]:
            at, comment = found.end(), found[2]
            page = re.match(r"/\* (?:lend/(\w+)\.h|(lend_\w+)\(3\)) - (.*?)\.?(?: \*/)?\n", comment)
            if page:
                name = page[2] or "lend_" + page[1]
                intro = Doc("/*" + comment[page.end():] if "\n" in comment else "/**/")
                pages.append(Page(name, page[3], os.path.basename(path), intro))
                comment = None
            elif text[at:at + 2] == "\n\n":
                stray.append(f"{path}: a comment belongs to nothing: {' '.join(comment.split())[:60]}")
                comment = None
            continue
        end = found.end() if found else declaration_at(text, at)
        decl = text[at:end].rstrip(";").strip()
        if not found or re.match(r"#\s*define \w+[ \t]+\S", decl):
            pages[-1].decls.append(Decl(decl, comment))
        at, comment = end, None
    return pages


def faults_of(pages):
    decls = [(page, decl) for page in pages for decl in page.decls]
    opaque = {decl.name.split()[-1] for _, decl in decls if decl.is_opaque}
    callbacks = {decl.name for _, decl in decls if decl.kind == "callback"}
    for page, decl in decls:
        where, sections = f"{page.header}: {decl.title()}", decl.doc.sections
        if decl.doc.missing or not decl.doc.paragraphs:
            yield f"{where}: has no comment"
        for member in decl.members:
            if member.doc.missing:
                yield f"{where}: {member.declaration} has no comment"
        if not decl.doc.is_ordered():
            yield f"{where}: the order is {', '.join(SECTIONS)}"
        inside = re.search(rf"\b({'|'.join(SECTIONS)}): ", decl.doc.text())
        if inside:
            yield f"{where}: {inside[1]} does not begin a line"
        if not decl.is_callable():
            continue
        if not re.match(r"[A-Z]\w*s\b", decl.doc.text()):
            yield f"{where}: its comment does not begin with a verb"
        if decl.type != "void" and "Returns" not in sections:
            yield f"{where}: lacks Returns"
        for item in re.split(r"[;.] ", sections.get("Returns", "")):
            if re.match(r"-E[A-Z]+", item) and ": " not in item:
                yield f"{where}: {item} has no cause"
        if decl.passes_pointer(opaque, callbacks) and "Ownership" not in sections:
            yield f"{where}: lacks Ownership"
        if "Threads" not in sections and "Threads" not in page.doc.sections:
            yield f"{where}: lacks Threads, and so does page {page.name}"


def functions_of(source):
    """The functions of a C file, each with the comment before it."""
    return re.findall(r"(?:^/\*(?:(?!\*/).)*\*/\n)?^\w[^\n;{}]*\([^;{}]*\)\n\{\n.*?^\}\n", source, re.M | re.S)


def example_of(page, sources):
    """Returns the code; "" if there is none."""
    names = {decl.name for decl in page.functions()}
    if not names:
        users = [source for source in sources if f"<lend/{page.header}>" in source]
        return min(users, key=len, default="")
    best = (0, 0, "")
    for code in (code for source in sources for code in functions_of(source)):
        used = names & set(re.findall(r"\b(\w+)\(", code))
        best = max(best, (len(used), -code.count("\n"), code))
    return best[2] if best[0] else ""


def roff(text):
    text = text.replace("\\", r"\e")
    text = re.sub(r"(?<!\w)-(?=[\w-])", r"\\-", text)
    text = re.sub(r"\b(\w+)\(\)", r"\\fB\1\\fR()", text)
    text = re.sub(r"([.!?]\)?) (?=\S)", r"\1\n", text)
    return "\n".join(r"\&" + line if line[:1] in (".", "'") else line for line in text.split("\n"))


def literal(code):
    code = code.rstrip().replace("\\", r"\e").replace("-", r"\-")
    lines = (r"\&" + line if line[:1] in (".", "'") else line for line in code.split("\n"))
    return [".Bd -literal", *lines, ".Ed"]


def quoted(text):
    return '"' + text.replace('"', r"\(dq").replace("\\n", r"\en") + '"'


def synopsis(page):
    yield f".In lend/{page.header}"
    for decl in page.decls:
        if decl.kind == "type" and decl.names():
            yield f".Vt {decl.name} ;"
    for decl in page.decls:
        if decl.is_callable():
            yield f".Ft {'typedef ' if decl.kind == 'callback' else ''}{decl.type}"
            yield f".Fo {decl.name}"
            yield from (f".Fa {quoted(arg)}" for arg in decl.args)
            yield ".Fc"


def sections(doc):
    for name in SECTIONS[1:]:
        if name in doc.sections:
            yield ".Pp"
            yield roff(f"{name}: {doc.sections[name]}")


def describe(decl):
    yield f".Ss {decl.title()}"
    yield roff(" ".join(decl.doc.paragraphs))
    if decl.kind == "macro" and "\n" not in decl.value:
        yield from [".Pp", f"Value: {roff(decl.value)}"]
    if decl.members:
        yield ".Bl -tag -width Ds"
        for member in decl.members:
            yield f".It {quoted(member.declaration)}"
            yield roff(" ".join(member.doc.paragraphs))
        yield ".El"
    yield from sections(decl.doc)


def results(page):
    """Returns per function; an item that begins with -errno has a tag of its own."""
    for decl in (decl for decl in page.decls if "Returns" in decl.doc.sections):
        yield f".It Fn {decl.name}"
        text, errors = [], []
        for item in decl.doc.sections["Returns"].rstrip(".").split("; "):
            error = re.match(r"(-E[A-Z]+)[:,] (.*)", item)
            if error:
                errors += [f".It \\{error[1]}", roff(error[2])]
            else:
                text.append(item)
        if text:
            yield roff("; ".join(text) + ".")
        if errors:
            yield from [".Bl -tag -width Ds -compact", *errors, ".El"]


def see_also(page, pages):
    """The pages that own the functions which this page's text names, and explicit references."""
    owner = {name: other.name for other in pages for decl in other.decls for name in decl.names()}
    text = page.text()
    refs = {(3, owner[name]) for name in re.findall(r"\b(lend_\w+)\(\)", text) if name in owner}
    refs |= {(3, other.name) for other in pages if other.header == page.header and other.name[5:] == page.header[:-2]}
    refs |= {(int(number), name) for name, number in re.findall(r"\b([a-z][\w-]*)\((\d)\)", text)}
    refs = sorted(refs - {(3, page.name)})
    return [f".Xr {name} {number} ,".rstrip(" ," if i == len(refs) - 1 else "")
            for i, (number, name) in enumerate(refs)]


def render(page, pages, sources, date):
    names = [decl.name for decl in page.functions()] or [page.name]
    out = [f".Dd {date}", f".Dt {page.name.upper()} 3", ".Os", ".Sh NAME"]
    out += [f".Nm {name} ," for name in names[:-1]] + [f".Nm {names[-1]}", f".Nd {roff(page.brief)}"]
    library = "lend-grpc" if page.header == "grpc.h" else "lend"
    out += [".Sh LIBRARY", f"Lend (lib{library}, pkg-config {library})", ".Sh SYNOPSIS", *synopsis(page)]
    intro = [line for text in page.doc.paragraphs for line in (".Pp", roff(text))]
    out += [".Sh DESCRIPTION", *[*intro, *sections(page.doc)][1:]]
    others = [other for other in pages if other.header == page.header and other is not page]
    if others and page.name == "lend_" + page.header[:-2]:
        out += [".Pp", "Other pages of this header:", ".Bl -tag -width Ds"]
        for other in others:
            out += [f".It Xr {other.name} 3", roff(other.brief)]
        out += [".El"]
    for decl in page.decls:
        out += describe(decl)
    returned = list(results(page))
    if returned:
        out += [".Sh RETURN VALUES", ".Bl -tag -width Ds", *returned, ".El"]
    code = example_of(page, sources)
    if code:
        out += [".Sh EXAMPLES", *literal(code.expandtabs(8))]
    refs = see_also(page, pages)
    if refs:
        out += [".Sh SEE ALSO", *refs]
    return "\n".join(out) + "\n"


def write(folder, pages, sources, headers):
    newest = max(int(os.stat(header).st_mtime) for header in headers)
    at = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH") or newest))
    date = f"{time.strftime('%B', at)} {at.tm_mday}, {at.tm_year}"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.3"):
        old.unlink()
    for page in pages:
        (folder / f"{page.name}.3").write_text(render(page, pages, sources, date))
    for page in pages:
        for name in (name for decl in page.decls for name in decl.names()):
            link = folder / f"{name}.3"
            if not link.exists():
                link.symlink_to(f"{page.name}.3")


def load(files):
    """Returns pages, the examples' texts, and the faults."""
    stray, pages = [], []
    for header in (file for file in files if file.endswith(".h")):
        pages += parse(header, stray)
    sources = [pathlib.Path(file).read_text() for file in files if file.endswith((".c", ".cc"))]
    faults = stray + list(faults_of(pages))
    faults += [f"page {page.name}: no example uses it" for page in pages if not example_of(page, sources)]
    return pages, sources, faults


def main(args):
    if len(args) < 2:
        sys.exit(__doc__)
    pages, sources, faults = load(args[1:])
    if args[0] == "--check":
        print("\n".join(faults), end="\n" if faults else "")
        return bool(faults)
    write(pathlib.Path(args[0]), pages, sources, [file for file in args[1:] if file.endswith(".h")])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
