"""Compilers for the structure tests: which are there, the build's own flags for a file, symbols of what they make."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

CROSS = "aarch64-linux-gnu-g++"


class Build:
    """A build tree: how each file of the core is compiled, and into which object."""

    def __init__(self, root, source, cc, cxx):
        self.source = Path(source).resolve()
        self.cc, self.cxx = cc, cxx
        self._commands = {}
        for entry in json.loads((Path(root) / "compile_commands.json").read_text(encoding="utf-8")):
            words = shlex.split(entry["command"])
            object_file = Path(entry["directory"], words[words.index("-o") + 1])
            if "flashtile_core.dir" in object_file.parts:
                name = Path(entry["file"]).resolve().relative_to(self.source).as_posix()
                self._commands[name] = (words, object_file)

    def files(self):
        return sorted(self._commands)

    def object_of(self, name):
        return self._commands[name][1]

    def flags(self, name):
        """The flags of one file, without warnings, dependency files, input and output."""
        words = self._commands[name][0]
        first = next(i for i, word in enumerate(words) if word.startswith("-"))  # after launcher and compiler
        kept, skip = [], False
        for word in words[first:]:
            if skip or word in ("-o", "-MF", "-MT", "-MQ", "-c", "-MD", "-MMD") or word.startswith("-W"):
                skip = word in ("-o", "-MF", "-MT", "-MQ", "-c") and not skip
                continue
            kept.append(word)
        return [*kept, "-w"]

    def cxx_compilers(self):
        return _both_families(self.cxx, "g++", "clang++")

    def c_compilers(self):
        return _both_families(self.cc, "gcc", "clang")


def _is_clang(compiler):
    return "clang" in subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout.lower()


def _both_families(own, gnu, clang):
    """The build's own compiler, and one of the other family where there is one."""
    others = [gnu] if _is_clang(own) else [clang, *(f"{clang}-{n}" for n in range(30, 13, -1))]
    return [own, *[c for c in others if shutil.which(c)][:1]]


def cross_compiler():
    return shutil.which(CROSS)


def errors_of(command, text=None):
    """Runs a compiler; what it complains about, or an empty string."""
    done = subprocess.run([str(word) for word in command], input=text, capture_output=True, text=True, check=False)
    if done.returncode == 0 and not done.stderr.strip():
        return ""
    return f"{shlex.join(str(word) for word in command)}\n{done.stderr.strip() or f'exit status {done.returncode}'}"


def symbols(path, *options):
    """[(name, letter)] as nm prints them."""
    done = subprocess.run(["nm", "-P", *options, str(path)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"nm {path}: {done.stderr.strip()}")
    return [(re.sub(r"@.*$", "", words[0]), words[1]) for words in map(str.split, done.stdout.splitlines())]


def defined(listed):
    return [(name, letter) for name, letter in listed if letter not in "Uw" or letter == "u"]


def undefined(listed):
    return sorted(name for name, letter in listed if letter in "Uw")
