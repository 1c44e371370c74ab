"""spelling - misspellings that codespell knows, in names and text; words.txt lists those meant."""
import pathlib
import shutil
import subprocess

import tree

WORDS = pathlib.Path(__file__).with_name("words.txt")
SKIPPED = {".svg"}


def measure(repo, stored):
    if not shutil.which("codespell"):
        raise tree.Skip("no codespell here: scripts/deps.sh test")
    names = [str(name) for name in tree.files(repo) if name.suffix not in SKIPPED]
    done = subprocess.run(
        ["codespell", "--check-filenames", "--ignore-words", str(WORDS), *names],
        cwd=repo,
        capture_output=True,
        text=True,
        check=False,
    )
    hits = done.stdout.splitlines()
    if done.returncode and not hits:
        raise tree.Skip(f"codespell: {done.stderr.strip()}")
    yield tree.Number("words", len(hits), 0, hits)
