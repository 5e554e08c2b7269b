"""bench/peers without peers: what it says when something is missing, and that its structs are those of the C header.

  peers_test.py --source ROOT --cc CC [--library FILE]

Needs neither NumPy nor a peer. Where NumPy is installed, the whole program runs once. Decides nothing by a clock.
"""

import argparse
import ctypes
import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True

source = None   # Path of the tree
library = None  # Path of the shared library, if there is one
cc = None       # the C compiler

ALONE = ("-B", "-E", "-S")  # Python without the packages that this machine may have


def peers(*words, python=ALONE):
    return subprocess.run([sys.executable, *python, source / "bench/peers/peers.py", *words], capture_output=True, text=True,
                          encoding="utf-8", timeout=300)


class Program(unittest.TestCase):
    """What the program says."""

    def refused(self, done, words):
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(words, done.stderr)

    def test_help_names_every_option_and_how_to_set_up(self):
        done = peers("--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("--only", "--threads", "--rounds", "--seconds", "--library", "--output", "pip install torch=="):
            self.assertIn(word, done.stdout)

    def test_without_numpy_it_says_so_in_one_line(self):
        self.refused(peers(), "NumPy is not installed")

    def test_a_pattern_that_matches_nothing_names_the_works(self):
        self.refused(peers("--only", "fp8"), "fp32 --q 1x2048x8x64;")

    def test_a_pattern_that_is_none_is_refused(self):
        self.refused(peers("--only", "("), "expected a regular expression")

    def test_counts_are_at_least_one(self):
        self.assertEqual(peers("--rounds", "0").returncode, 2)

    def test_every_module_compiles_where_its_packages_are_missing(self):
        modules = sorted((source / "bench/peers").glob("*.py"))
        self.assertGreater(len(modules), 5)
        for module in modules:
            compile(module.read_text(encoding="utf-8"), module.name, "exec")

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "no NumPy")
    def test_with_numpy_our_answers_are_right_and_a_missing_library_is_named(self):
        self.refused(peers("--library", "nowhere.so", python=["-B"]), "--library = nowhere.so")
        if library is None:
            self.skipTest("no shared library is built (FLASHTILE_SHARED=OFF)")
        done = peers("--library", library, "--only", "1x16x12x32|1x1x1x64|bf16.*4x512", "--rounds", "1", "--output", "json",
                     python=["-B"])
        self.assertEqual(done.returncode, 0, done.stderr)
        ours = [m for m in json.loads(done.stdout)["measurements"] if m["contestant"] == "flashtile"]
        self.assertEqual(len(ours), 3)
        for m in ours:
            self.assertGreater(m["gflops"], 0)
            self.assertLess(m["relative_rms_error"], 5e-3)


class Works(unittest.TestCase):
    """The list of what is measured."""

    def test_names_differ_and_visible_pairs_are_counted_as_the_mask_says(self):
        import works
        names = [w.name for w in works.WORKS]
        self.assertEqual(len(names), len(set(names)))
        small = works.Work("fp32", 2, 5, 6, 8, causal=True, kv_heads=3)
        self.assertEqual(small.name, "fp32 --q 2x5x6x8 --k 2x5x3x8 --causal")
        self.assertEqual(small.visible_pairs, 2 * 6 * sum(j <= i for i in range(5) for j in range(5)))
        self.assertEqual(works.Work("fp32", 2, 5, 6, 8).visible_pairs, 2 * 6 * 25)


class Binding(unittest.TestCase):
    """The structs and constants in Python are those of C."""

    def test_structs_and_constants_are_those_of_the_header(self):
        import library as binding
        lines, expected = [], []
        for name, struct in binding.STRUCTS.items():
            lines.append(f'  printf("{name} %zu\\n", sizeof({name}));')
            expected.append(f"{name} {ctypes.sizeof(struct)}")
            for field, *_ in struct._fields_:
                place, size = f"offsetof({name}, {field})", f"sizeof((({name}*)0)->{field})"
                lines.append(f'  printf("{name}.{field} %zu %zu\\n", {place}, {size});')
                at = getattr(struct, field)
                expected.append(f"{name}.{field} {at.offset} {at.size}")
        for name, value in binding.CONSTANTS.items():
            lines.append(f'  printf("{name} %d\\n", (int){name});')
            expected.append(f"{name} {value}")
        program = "\n".join(["#include <flashtile/flashtile_c.h>", "#include <stdio.h>", "int main(void) {", *lines,
                             "  return 0;", "}", ""])
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder, "layout")
            built = subprocess.run([cc, "-std=c99", "-I", source / "include", "-x", "c", "-", "-o", made], input=program,
                                   capture_output=True, text=True)
            self.assertEqual(built.returncode, 0, built.stderr)
            printed = subprocess.run([made], capture_output=True, text=True, check=True).stdout
        self.assertEqual(printed.splitlines(), expected)

    def test_a_call_sees_the_heads_first_arrays_that_peers_have(self):
        import library as binding
        if library is None:
            self.skipTest("no shared library is built (FLASHTILE_SHARED=OFF)")
        # (B, H, S, D) = (1, 2, 3, 1). A query of 0 sees its keys alike: causal, row i is the mean of v_0 … v_i.
        array = ctypes.c_float * 6
        q, k, v, out = array(), array(1, 2, 3, 4, 5, 6), array(6, 0, 3, -8, 2, 0), array()
        loaded = binding.Library(library)
        tensors = [binding.heads_first(ctypes.addressof(x), binding.F32, (1, 2, 3, 1)) for x in (q, k, v, out)]
        options = binding.Options(struct_size=ctypes.sizeof(binding.Options), causal=1, threads=1)
        self.assertEqual(loaded.attention(*tensors, options)(), 0, loaded.last_error())
        for got, mean in zip(out, (6, 3, 3, -8, -3, -2)):
            self.assertAlmostEqual(got, mean, places=5)
        options.isa = 999
        self.assertNotEqual(loaded.attention(*tensors, options)(), 0)
        self.assertIn("isa = 999", loaded.last_error())
        self.assertTrue(loaded.cpu() and loaded.instruction_sets() and loaded.version)


def main():
    global source, library, cc
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--library", type=Path)
    given = parser.parse_args()
    source, library, cc = given.source.resolve(), given.library, given.cc
    sys.path.insert(0, str(source / "bench/peers"))
    unittest.main(module=__name__, argv=["peers_test.py", "--verbose"])


if __name__ == "__main__":
    main()
