"""The tree as the structure tests see it: the files written by hand, their code without comments, who includes whom."""

import re
from pathlib import Path

# Folders with files written by hand, and the files beside them. Data of others (tests/data, examples/data) is none.
FOLDERS = (".ci", "bench", "cmake", "docs", "examples", "include", "src", "tests", "tools")
TOP_FILES = (".clang-format", ".clang-tidy", ".clangd", ".gitignore")
TOP_ENDINGS = {".md", ".txt", ".json", ".sh"}
DATA = ("tests/data/", "examples/data/")
WRITTEN_IN_DATA = (".py", ".md")
CODE = {".h", ".cpp", ".c"}

# A raw string, a comment, a string, or a character; ' between digits separates thousands.
_NOT_CODE = re.compile(
    r'R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.DOTALL)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def without_comments_and_strings(text):
    """Code alone; line numbers stay. Include lines keep their names."""
    def blank(match):
        line = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
        if match.group().startswith('"') and re.fullmatch(r"\s*#\s*include\s*", line):
            return match.group()
        return " " + "\n" * match.group().count("\n")
    return _NOT_CODE.sub(blank, text)


class Tree:
    """All paths are relative to the root and use slashes."""

    def __init__(self, root):
        self.root = Path(root).resolve()
        self._texts = {}
        found = [p for folder in FOLDERS for p in (self.root / folder).rglob("*") if p.is_file()]
        found += [p for p in self.root.iterdir()
                  if p.is_file() and (p.name in TOP_FILES or p.suffix in TOP_ENDINGS)]
        names = sorted(p.relative_to(self.root).as_posix() for p in found)
        self.files = [n for n in names if "__pycache__" not in n and
                      (not n.startswith(DATA) or (n.endswith(WRITTEN_IN_DATA) and n.count("/") == 2))]
        self.code = [n for n in self.files if Path(n).suffix in CODE]

    def text(self, name):
        if name not in self._texts:
            self._texts[name] = (self.root / name).read_text(encoding="utf-8")
        return self._texts[name]

    def below(self, *folders):
        return [n for n in self.code if n.startswith(tuple(f + "/" for f in folders))]

    def headers(self, folder):
        return [n for n in self.below(folder) if n.endswith(".h")]

    def found(self, pattern, names, code_only=True):
        """Yields "file:line: what" for each match, with the file's name and what matched."""
        for name in names:
            text = self.text(name)
            if code_only:
                text = without_comments_and_strings(text)
            for match in re.finditer(pattern, text, re.MULTILINE):
                line = text.count("\n", 0, match.start()) + 1
                yield name, match.group().strip(), f"{name}:{line}: {match.group().strip()}"

    def system_includes(self, name):
        code = without_comments_and_strings(self.text(name))
        return [what for bracket, what in _INCLUDE.findall(code) if bracket == "<"]

    def own_includes(self, name):
        """Pairs (as written, the file it names or None)."""
        code = without_comments_and_strings(self.text(name))
        parents = [(self.root / name).parent, *(self.root / p for p in self.include_path(name))]
        pairs = []
        for bracket, what in _INCLUDE.findall(code):
            if bracket == "<" and not what.startswith("flashtile/"):
                continue
            file = next((p / what for p in parents if (p / what).is_file()), None)
            pairs.append((what, file and file.resolve().relative_to(self.root).as_posix()))
        return pairs

    def include_path(self, name):
        folder = name.split("/")[0]
        return {"include": ["include"], "src": ["include", "src"], "tools": ["include", "src", "tools", "tools/flashtile"],
                "tests": ["include", "src", "tests", "tests/install", "tools", "tools/flashtile", "."],
                "bench": ["include", "src", "."], "examples": ["include", "tests", "."]}.get(folder, [])


def cycle(edges):
    """One cycle of a graph {node: successors} as a list of nodes, or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        path.append(node)
        for following in sorted(edges.get(node, ())):
            found = visit(following)
            if found:
                return found
        path.pop()
        done.add(node)
        return None

    return next(filter(None, map(visit, sorted(edges))), None)


def reachable(edges, start):
    """All nodes to which arrows lead from start."""
    seen, todo = set(), list(edges.get(start, ()))
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo.extend(edges.get(node, ()))
    return seen
