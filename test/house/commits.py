"""commits - subjects since a base: "area: verb object", imperative, at most 72 columns.

The base is the line 'commits base COMMIT' of ratchets.txt.
"""
import re
import subprocess

import tree

COLUMNS = 72
AREA = r"(?:README|[.a-z][\w/.+-]*)"
SUBJECT = re.compile(rf"{AREA}(?:, {AREA})*: (?P<verb>[a-z]+)(?:-\w+)* \S.*[^.]$")
NOT_A_VERB = re.compile(
    r"(?:an?|the|that|this|these|what|whatever|who|where|when|which|how|why|if|no|not"
    r"|nobody|nothing|none|each|every|all|any|some|one|it|its|they|their|there|his|he|she|of|in"
    r"|on|at|to|by|for|from|with|as|and|or|also|only|more|less|new|is|are|was|were|\w+[^su]s"
    r"|(?!(?:bring|ring|string|swing|ping)$)\w+ing"
    r"|(?!(?:need|embed|feed|seed|speed|shed|exceed|proceed)$)\w+ed)$"
)


def git(repo, *args):
    try:
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(repo), *args],
            capture_output=True,
            text=True,
            check=True,
        )
    except FileNotFoundError as no_git:
        raise tree.Skip("no git here") from no_git
    except subprocess.CalledProcessError as failed:
        raise tree.Skip(f"git {args[0]}: {failed.stderr.strip() or 'no such history'}") from failed
    return done.stdout


def fault(subject):
    """Returns what is wrong with a subject, or None."""
    if len(subject) > COLUMNS:
        return f"{len(subject)} columns, at most {COLUMNS}"
    m = SUBJECT.match(subject)
    if not m:
        return "not 'area: verb object'"
    return f"'{m['verb']}' is no imperative" if NOT_A_VERB.match(m["verb"]) else None


def measure(repo, stored):
    if git(repo, "rev-parse", "--is-shallow-repository").strip() != "false":
        raise tree.Skip("a shallow clone")
    git(repo, "merge-base", "--is-ancestor", stored["base"], "HEAD")
    log = git(repo, "log", "--no-merges", "--format=%h %s", f"{stored['base']}..HEAD").splitlines()
    hits = [f"{line}: {why}" for line in log for why in [fault(line.split(" ", 1)[1])] if why]
    yield tree.Number("subjects", len(hits), 0, hits)
