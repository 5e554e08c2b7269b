"""What the documents promise of the tree itself, checked on the files, the objects and the headers.

  structure_test.py --source ROOT [--build TREE --cxx CXX --cc CC [--library FILE]] [Text|Includes|Objects|Headers]...

Text and Includes read the tree; Objects and Headers need a build tree with compile_commands.json. Rules are data at the
top of each class; an exception carries its reason there, and one that is no longer needed is a failure. Writes nothing
into the tree.
"""

import argparse
import re
import sys
import tempfile
import unittest
from pathlib import Path, PurePosixPath

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import compilers  # noqa: E402
from tree import CODE, Tree, cycle, reachable, without_comments_and_strings  # noqa: E402

tree = None     # Tree
build = None    # compilers.Build
library = None  # Path of the shared library, if there is one


class Case(unittest.TestCase):
    longMessage = False

    def expect_none(self, violations, rule):
        violations = list(violations)
        if violations:
            self.fail(f"{rule}: {len(violations)} violations\n  " + "\n  ".join(violations))

    def expect_none_but(self, exceptions, found, rule):
        """found: (file, what, "file:line: what"); exceptions: {file: (pattern of what is allowed there, reason)}."""
        used, violations = set(), []
        for name, what, place in found:
            if name in exceptions and re.search(exceptions[name][0], what):
                used.add(name)
            else:
                violations.append(place)
        violations += [f"{name}: an exception that nothing needs any more" for name in sorted(set(exceptions) - used)]
        self.expect_none(violations, rule)


class Text(Case):
    """Rules about the characters of a file, and about words of code that belong into one room."""

    MOST_LINES = 400  # without an exception: data and the licence are not among the files looked at (tree.py)
    MOST_COLUMNS = 125
    # A row of a table is one line in Markdown; a list of checks is one in .clang-tidy; JSON is laid out by its kind.
    FREE_COLUMNS = (".md", ".json", ".clang-tidy")
    MOST_OPTIONS = 8

    INTRINSICS = (r"#\s*include\s*<(\w*intrin|arm_\w+|cpuid)\.h>|\b_mm\d*_\w+|\b_MM_\w+|\b__m(64|128|256|512)\w*"
                  r"|\b__mmask\d+|\b_tile_\w+|\b__builtin_(ia32|aarch64|neon|arm)_\w+"
                  r"|\b(v[a-z]+\d?q?_(lane|laneq|n)?_?[fsup]\d+\w*)\b"
                  r"|\b(u?int|float|poly|bfloat)(8|16|32|64)x\d+(x\d)?_t\b|\b(asm|__asm|__asm__)\b[^;{]*"
                  r"|\b_xgetbv\b|\b__cpuid\w*|\bvector_size\b|\(\s*\(?\s*target(_clones)?\b|\bGCC\s+target\b")
    INTRINSICS_ELSEWHERE = {
        "src/run/environment.cpp": (r"^__asm__ volatile", "the floating-point mode: CPU modes belong to run/"),
        "src/run/threads.cpp": (r"^__builtin_ia32_pause$|^__asm__ volatile", "a pause between two looks at a lock"),
        "tests/support/fp_mode.h": (r"^asm volatile", "the mode that a caller set, and finds again"),
        "tools/roofs/amx.cpp": (r"^asm volatile|^_tile_|immintrin", "the unit's own limit, without the kernels' loads"),
        "tools/roofs/loops_of.h": (r"^asm volatile", "empty: what is measured may not be optimised away"),
    }

    SYSTEM = (r"#\s*include\s*<(thread|mutex|shared_mutex|condition_variable|future|semaphore|latch|barrier|stop_token"
              r"|atomic|filesystem|fstream|pthread\.h|sched\.h|unistd\.h|signal\.h|csignal|time\.h|ctime|chrono"
              r"|fcntl\.h|poll\.h|dirent\.h|dlfcn\.h|(sys|linux|asm|bits)/[^>]*)>"
              r"|\bstd::(j?thread|this_thread|\w*mutex|\w*_lock|lock_guard|condition_variable\w*|future|promise|async"
              r"|\w+_semaphore|latch|barrier|call_once|once_flag|atomic\w*)\b|\bpthread_\w+|\bthread_local\b|\bfutex\w*"
              r"|\bSYS_\w+|\b(secure_)?getenv\b|\bsysconf\b|\bsched_\w+|\.(wait|notify_one|notify_all)\s*\(")
    SYSTEM_ELSEWHERE = {
        "src/c_api.cpp": (r"^thread_local$", "flashtile_last_error() answers for the calling thread"),
    }

    PRINTS = (r"\b(printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|fwrite|perror|abort|exit|_exit|_Exit|quick_exit"
              r"|raise|assert|__builtin_trap)\s*\(|\bstd::(cout|cerr|clog|terminate)\b"
              r"|#\s*include\s*<(iostream|cassert)>")
    PRINTS_ANYWAY = {"src/run/attention.cpp": (r"^fprintf", "FLASHTILE_VERBOSE asks for one line (docs/semantics.md)")}

    def test_no_file_is_longer_than_400_lines(self):
        self.expect_none((f"{n}: {tree.text(n).count(chr(10))} lines" for n in tree.files
                          if not n.endswith(".toml") and tree.text(n).count("\n") > self.MOST_LINES), "length of files")

    def test_no_line_is_longer_than_125_characters(self):
        self.expect_none((f"{n}:{i}: {len(line)} characters" for n in tree.files
                          if not n.endswith(self.FREE_COLUMNS)
                          for i, line in enumerate(tree.text(n).split("\n"), 1) if len(line) > self.MOST_COLUMNS),
                         "length of lines")

    def test_there_are_no_tabs_trailing_spaces_or_carriage_returns_and_files_end_with_one_line_end(self):
        places = [place for _, _, place in tree.found(r"^.*(\t|\r| $).*$", tree.files, code_only=False)]
        ends = [f"{n}: end of file" for n in tree.files if not re.search(r"[^\n]\n\Z", tree.text(n))]
        self.expect_none(places + ends, "white space")

    def test_no_work_is_left_as_a_note(self):
        words = r"\b(TO[D]O|FIX[M]E|XX[X]|HAC[K])\b"
        self.expect_none((p for _, _, p in tree.found(words, tree.files, code_only=False)), "unfinished work")

    def test_no_path_of_a_machine_is_written_down(self):
        paths = r"(?<![\w.)}\]/-])/((work|home|root|Users|mnt)/[\w.-]+|work\b)|/tmp/[\w./-]*build\w*"
        self.expect_none((p for _, _, p in tree.found(paths, tree.files, code_only=False)), "paths of a machine")

    def test_intrinsics_and_assembly_stand_in_isa_only(self):
        names = [n for n in tree.code if not n.startswith("src/isa/")]
        self.expect_none_but(self.INTRINSICS_ELSEWHERE, tree.found(self.INTRINSICS, names),
                             "intrinsics outside src/isa/")

    def test_threads_waiting_and_linux_stand_in_run_only(self):
        names = [n for n in tree.below("src", "include") if not n.startswith("src/run/")]
        self.expect_none_but(self.SYSTEM_ELSEWHERE, tree.found(self.SYSTEM, names),
                             "threads or Linux outside src/run/")

    def test_the_core_neither_prints_nor_ends_the_process(self):
        self.expect_none_but(self.PRINTS_ANYWAY, tree.found(self.PRINTS, tree.below("src", "include")),
                             "prints and exits")

    def test_no_header_opens_a_namespace_for_its_readers(self):
        names = [n for n in tree.code if n.endswith(".h") and n != "tests/docs/surroundings.h"]
        self.expect_none((p for _, _, p in tree.found(r"\busing\s+namespace\b", names)), "using namespace in a header")

    def test_every_header_is_guarded(self):
        guarded = re.compile(r"\s*(#pragma once\n|#ifndef (\w+)\n#define \2\n)")
        self.expect_none((n for n in tree.code if n.endswith(".h")
                          and not guarded.match(without_comments_and_strings(tree.text(n)))), "headers without a guard")

    def test_code_files_are_named_in_snake_case(self):
        names = [n for n in tree.files if PurePosixPath(n).suffix in CODE | {".py", ".sh"}]
        self.expect_none((n for n in names if not re.fullmatch(r"([.a-z0-9_]+/)*[a-z][a-z0-9_]*\.\w+", n)), "names")

    def test_no_two_files_of_a_folder_share_a_stem_but_a_header_and_its_source(self):
        # A program in both languages is the other pair: examples and consumers of an installed copy.
        stems, violations = {}, []
        for path in map(PurePosixPath, tree.code):
            stems.setdefault(path.with_suffix(""), []).append(path.suffix)
        for stem, endings in stems.items():
            pairs = [[".cpp", ".h"]]
            if stem.parts[0] not in ("src", "include", "tools"):
                pairs.append([".c", ".cpp"])
            if len(endings) > 1 and sorted(endings) not in pairs:
                violations.append(f"{stem}: {' '.join(endings)}")
        self.expect_none(violations, "stems")

    def test_there_are_at_most_eight_options(self):
        names = [n for n in tree.files if n.endswith((".cmake", "CMakeLists.txt")) and "/consumer/" not in n]
        pattern = (r"^\s*(option|cmake_dependent_option)\s*\(\s*\w+"
                   r"|^\s*set\s*\(\s*FLASHTILE_\w+[^)]*\bCACHE\b(?![^)]*INTERNAL)")
        options = [place for _, _, place in tree.found(pattern, names, code_only=False)]
        self.assertTrue(options, "no option found: the pattern is out of date")
        self.assertLessEqual(len(options), self.MOST_OPTIONS, "too many options\n  " + "\n  ".join(options))


class Includes(Case):
    """Who may include whom."""

    # As ARCHITECTURE.md draws it: a ◄ b, b includes a; a ► b, a includes b. A room may include all that arrows reach.
    ARROWS = "problem ◄ plan ◄ run ► isa ► tile ► problem"
    REFERENCE = {"reference": {"problem"}}
    EXCEPTIONS = {("src/tile/finish.h", "src/isa/scalar.h"): "`tile/` also uses the scalar vector of `isa/scalar.h`"}
    # The C and C++ run times, and what run/ and isa/ need of Linux and of compilers. Nothing else is a dependency.
    RUN_TIMES = re.compile(r"[a-z_]+|(stddef|stdint|signal|time|pthread|sched|unistd|sys/\w+)\.h"
                           r"|(immintrin|arm_neon|cpuid)\.h")

    @classmethod
    def arrows(cls):
        edges = {room: set(to) for room, to in cls.REFERENCE.items()}
        words = cls.ARROWS.split()
        for left, arrow, right in zip(words[0::2], words[1::2], words[2::2]):
            user, used = (right, left) if arrow == "◄" else (left, right)
            edges.setdefault(user, set()).add(used)
        return edges

    @staticmethod
    def room(name):
        """Where a file belongs: include, a room of src, src for the files beside the rooms, another folder."""
        parts = name.split("/")
        return parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0]

    def edges(self, names):
        return [(n, used) for n in names for _, used in tree.own_includes(n) if used]

    def test_the_arrows_checked_here_are_those_of_the_architecture(self):
        words = " ".join(tree.text("ARCHITECTURE.md").split())
        self.assertIn(f"`{self.ARROWS}`", words, "ARCHITECTURE.md draws other arrows")
        self.assertIn("`reference/` knows `problem/` only", words)
        for reason in self.EXCEPTIONS.values():
            self.assertIn(reason, words, "an exception that ARCHITECTURE.md does not name")

    def test_every_room_of_the_source_has_its_arrows(self):
        rooms = {self.room(n) for n in tree.below("src")} - {"src"}
        known = set(self.arrows()) | {used for to in self.arrows().values() for used in to}
        self.expect_none((f"{room}: a folder of src/ or an arrow, not both" for room in sorted(rooms ^ known)), "rooms")

    def test_every_quoted_include_names_a_file_of_the_tree(self):
        generated = {"consumer/known.h"}
        self.expect_none((f'{n}: "{what}"' for n in tree.code for what, used in tree.own_includes(n)
                          if used is None and what not in generated), "includes of no file")

    def test_rooms_include_along_the_arrows_only(self):
        arrows, used_exceptions, violations = self.arrows(), set(), []
        for user, used in self.edges(tree.below("src")):
            own, other = self.room(user), self.room(used)
            allowed = {"include", own} | (reachable(arrows, own) if own != "src" else set())
            if other in allowed and used.startswith(("src/", "include/")):
                continue
            if (user, used) in self.EXCEPTIONS:
                used_exceptions.add((user, used))
            else:
                violations.append(f"{user} includes {used}")
        violations += [f"{user} includes {used}: an exception that nothing needs"
                       for user, used in set(self.EXCEPTIONS) - used_exceptions]
        self.expect_none(violations, "against the arrows")

    def test_public_headers_include_public_headers_only(self):
        self.expect_none((f"{n} includes {used or what}" for n in tree.below("include")
                          for what, used in tree.own_includes(n) if not (used or "").startswith("include/")),
                         "public headers")

    def test_files_of_arrays_know_public_headers_only(self):
        self.expect_none((f"{user} includes {used}" for user, used in self.edges(tree.below("tools/flashtile/files"))
                          if not used.startswith(("tools/flashtile/files/", "include/"))), "tools/flashtile/files")

    def test_nothing_shipped_includes_tests_or_benchmarks(self):
        self.expect_none((f"{n} includes {used or what}" for n in tree.below("src", "include", "tools")
                          for what, used in tree.own_includes(n)
                          if (used or what).startswith(("tests/", "bench/", "examples/"))), "shipped code")

    def test_the_core_includes_the_run_times_of_c_and_cpp_only(self):
        self.expect_none((f"{n}: <{what}>" for n in tree.below("src", "include") for what in tree.system_includes(n)
                          if not what.startswith("flashtile/") and not self.RUN_TIMES.fullmatch(what)), "dependencies")

    def test_no_file_includes_itself_by_way_of_others(self):
        graph = {}
        for user, used in self.edges(tree.code):
            graph.setdefault(user, set()).add(used)
        self.assertGreater(len(graph), 50, "the graph of includes is too small to be true")
        found = cycle(graph)
        self.assertIsNone(found, "a cycle: " + " → ".join(found or []))


class Objects(Case):
    """What the linker sees."""

    # Sources in isa/ that are ordinary code; every other one is an instruction set.
    BASELINE = {"src/isa/cpu_features.cpp", "src/isa/dispatch.cpp"}
    # What compilers call by themselves, and the fma of a processor without one.
    RUN_TIME = {"memcpy", "memmove", "memset", "fma", "fmaf", "_GLOBAL_OFFSET_TABLE_"}
    FLASHTILE = re.compile(r"_ZNK?9flashtile|flashtile_")
    STANDARD = re.compile(r"_ZNK?S[a-z]|_ZS[a-z]|_ZNK?9__gnu_cxx|_ZZNK?S|DW\.ref\.")

    @classmethod
    def isa_sources(cls):
        return [n for n in build.files() if n.startswith("src/isa/") and n not in cls.BASELINE]

    def check(self, name, path, what):
        """One object of an instruction set: one strong symbol, nothing that could be shared, no calls."""
        listed = compilers.symbols(path)
        table = f"kernels_{Path(name).stem}"
        expected = f"_ZN9flashtile{len(table)}{table}Ev"
        outside = [(n, letter) for n, letter in compilers.defined(listed) if letter.isupper() or letter in "uvw"]
        wrong = [f"{n} ({letter})" for n, letter in outside if (n, letter) != (expected, "T")]
        wrong += [f"{expected} is missing"] if (expected, "T") not in outside else []
        calls = sorted(set(compilers.undefined(listed)) - self.RUN_TIME)
        return [f"{name} {what}: {x}" for x in wrong + [f"calls {c}" for c in calls]]

    def test_each_object_of_an_instruction_set_exports_its_table_and_calls_nothing(self):
        self.assertTrue(self.isa_sources())
        self.expect_none((line for n in self.isa_sources() for line in self.check(n, build.object_of(n), "as built")),
                         "symbols")

    def test_the_same_holds_without_optimisation_for_every_compiler(self):
        wrong = []
        with tempfile.TemporaryDirectory() as folder:
            for compiler in build.cxx_compilers():
                for name in self.isa_sources():
                    made = Path(folder, "made.o")
                    errors = compilers.errors_of(
                        [compiler, *build.flags(name), "-O0", "-c", build.source / name, "-o", made])
                    wrong += [errors] if errors else self.check(name, made, f"by {compiler} -O0")
        self.expect_none(wrong, "symbols at -O0")

    def test_the_same_holds_for_instruction_sets_of_the_other_architecture(self):
        names = [n for n in tree.below("src/isa") if n.endswith(".cpp") and n not in self.BASELINE]
        names = sorted(set(names) - set(self.isa_sources()))
        compiler = compilers.cross_compiler()
        if not names or not compiler or "src/isa/neon.cpp" not in names:
            self.skipTest(f"no {compilers.CROSS}, or it is no other architecture here; not checked: {' '.join(names)}")
        wrong = []
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                for level in ("-O0", "-O2"):
                    made = Path(folder, "made.o")
                    flags = build.flags("src/isa/scalar.cpp")
                    errors = compilers.errors_of([compiler, *flags, level, "-c", build.source / name, "-o", made])
                    wrong += [errors] if errors else self.check(name, made, f"by {compilers.CROSS} {level}")
        self.expect_none(wrong, "symbols")

    def test_every_symbol_of_the_core_is_in_its_namespace(self):
        wrong = []
        for name in build.files():
            for symbol, letter in compilers.defined(compilers.symbols(build.object_of(name))):
                shared = letter in "uvwVW"
                if (letter.isupper() or shared) and not self.FLASHTILE.match(symbol) and not (
                        shared and self.STANDARD.match(symbol)):
                    wrong.append(f"{name}: {symbol} ({letter})")
        self.expect_none(wrong, "symbols outside the namespace")

    def test_the_shared_library_exports_its_own_names_and_none_that_could_be_replaced(self):
        if library is None:
            self.skipTest("no shared library is built (FLASHTILE_SHARED=OFF)")
        listed = [(n, letter) for n, letter in compilers.symbols(library, "-D", "--defined-only") if letter != "A"]
        self.assertTrue(listed)
        self.expect_none((f"{n} ({letter})" for n, letter in listed if letter != "T" or not self.FLASHTILE.match(n)),
                         "exports")


class Headers(Case):
    """Each header compiles alone: it includes what it needs."""

    WAYS = (["-std=c++20"], ["-std=c++20", "-fno-exceptions", "-fno-rtti"])
    STRICT = ["-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror"]

    def alone(self, header, command):
        """The errors of a file that consists of the one include."""
        return compilers.errors_of([*command, "-"], f'#include "{header}"\n')

    def test_public_headers_compile_alone_with_and_without_exceptions(self):
        headers = tree.headers("include")
        self.assertGreaterEqual(len(headers), 5)
        self.expect_none(filter(None, (
            self.alone(h.removeprefix("include/"), [c, *way, *self.STRICT, "-I", tree.root / "include", "-x", "c++"])
            for c in build.cxx_compilers() for way in self.WAYS for h in headers)), "public headers")

    def test_the_c_header_compiles_alone_as_c99_and_as_cpp(self):
        include = [*self.STRICT, "-pedantic-errors", "-I", tree.root / "include"]
        ways = [[c, "-std=c99", *include, "-x", "c"] for c in build.c_compilers()]
        ways += [[c, standard, *include, "-x", "c++"] for c in build.cxx_compilers()
                 for standard in ("-std=c++11", "-std=c++20")]
        self.expect_none(filter(None, (self.alone("flashtile/flashtile_c.h", way) for way in ways)), "C header")

    def test_calls_that_throw_exist_with_exceptions_only_and_the_others_are_noexcept(self):
        calls = Path(__file__).resolve().parent / "public_calls.cpp"
        self.expect_none(filter(None, (
            compilers.errors_of([c, *way, "-fsyntax-only", "-w", "-I", tree.root / "include", calls])
            for c in build.cxx_compilers() for way in self.WAYS)), "public calls")

    def test_every_header_of_the_source_compiles_alone(self):
        wrong, unchecked = [], []
        for header in tree.headers("src"):
            own = header.removesuffix(".h") + ".cpp"
            compiler = build.cxx
            model = own if own in build.files() else "src/isa/scalar.cpp"
            if own not in build.files() and (tree.root / own).is_file():  # another architecture's
                compiler = compilers.cross_compiler()
            if compiler is None:
                unchecked.append(header)
                continue
            wrong.append(self.alone(header.removeprefix("src/"),
                                    [compiler, *build.flags(model), "-fsyntax-only", "-x", "c++"]))
        self.expect_none(filter(None, wrong), "headers of src")
        if unchecked:
            self.skipTest(f"no {compilers.CROSS}; the others passed, not checked: {' '.join(unchecked)}")


def main():
    global tree, build, library
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--library")
    parser.add_argument("tests", nargs="*")
    given = parser.parse_args()
    tree = Tree(given.source)
    library = Path(given.library) if given.library else None
    if given.build:
        build = compilers.Build(given.build, given.source, given.cc, given.cxx)
    names = given.tests or ["Text", "Includes", *(["Objects", "Headers"] if build else [])]
    unittest.main(module=__name__, argv=["structure_test.py", "--verbose", *names])


if __name__ == "__main__":
    main()
