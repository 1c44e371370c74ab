"""circles - the largest cycle of calls in each layer: between its files, and between its functions.

Read from the source: functions that a file defines, and the names that their bodies call. A C file
and the header of its name count as one file. Calls through pointers and macros are not seen.
"""
import collections
import pathlib
import re
import sys

import tree

sys.path.append(str(pathlib.Path(__file__).parents[2] / "scripts"))
from check_layers import layer_of  # noqa: E402

LIMITS = {"files": 6, "functions": 3}
CALL = re.compile(r"(?<![\w.>])(\w+)\s*\(")


def cycles(edges):
    """Returns the sets of nodes that reach each other (Tarjan)."""
    number, low, stack, found = {}, {}, [], []

    def visit(root):
        work = [(root, iter(sorted(edges[root])))]
        number[root] = low[root] = len(number)
        stack.append(root)
        while work:
            node, rest = work[-1]
            for to in rest:
                if to not in number:
                    number[to] = low[to] = len(number)
                    stack.append(to)
                    work.append((to, iter(sorted(edges[to]))))
                    break
                if to in stack:
                    low[node] = min(low[node], number[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    at = stack.index(node)
                    found.append(stack[at:])
                    del stack[at:]

    for node in list(edges):
        if node not in number:
            visit(node)
    return found


def calls(sources):
    """Returns {(file, function): the functions of `sources` that it calls}."""
    defined = [(name.as_posix(), f) for name, text in sources for f in tree.functions(text)]
    owner = {f.name: file for file, f in defined if not f.static or file.endswith(".h")}
    local = {(file, f.name) for file, f in defined}
    edges = collections.defaultdict(set)
    for file, f in defined:
        edges[file, f.name]
        for called in CALL.findall(f.body):
            home = file if (file, called) in local else owner.get(called)
            if home:
                edges[file, f.name].add((home, called))
    return edges


def between_files(edges):
    files = collections.defaultdict(set)
    for (file, _), called in edges.items():
        files[file] |= {to for to, _ in called} - {file}
    return files


def length(kind, cycle):
    """Returns the number of its functions, or of its files without their suffixes."""
    return len({pathlib.Path(node).stem for node in cycle} if kind == "files" else cycle)


def measure(repo, stored):
    layers = collections.defaultdict(list)
    for name in tree.files(repo, {".c", ".h"}):
        layer = None if name.parts[0] in ("test", "third_party") else layer_of(name.as_posix())
        if layer:
            layers[layer].append((name, tree.read(repo, name)))
    for layer, sources in layers.items():
        edges = calls(sources)
        for kind, graph in (("files", between_files(edges)), ("functions", edges)):
            largest = max(cycles(graph), key=lambda cycle: length(kind, cycle), default=[])
            hits = [
                f"{node}: calls {', '.join(map(str, sorted(graph[node] & set(largest))))}"
                for node in sorted(largest)
            ]
            yield tree.Number(f"{layer}:{kind}", length(kind, largest), LIMITS[kind], hits)
