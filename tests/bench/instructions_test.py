"""bench/instructions from the outside.

  instructions_test.py --script FILE [--build FOLDER]

Without a build folder that holds the command, or without valgrind, nothing is counted.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

given = None  # the arguments


def run(*words, **environment):
    return subprocess.run([sys.executable, given.script, *words], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})


class Instructions(unittest.TestCase):
    def refused(self, done, *words):
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\Abench/instructions: ")
        self.assertNotIn("Traceback", done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_help_says_how_it_is_called_and_what_is_counted(self):
        done = run("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("build/old build/new", "--only", "callgrind", "try_attention"):
            self.assertIn(word, done.stdout)

    def test_a_missing_valgrind_is_named_with_its_package(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "flashtile").touch()
            self.refused(run(folder, PATH=folder), "valgrind is not installed", "Debian: valgrind")

    def test_a_folder_without_the_command_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            self.refused(run(folder), folder, "does not exist")

    def test_an_unknown_problem_is_answered_with_those_that_there_are(self):
        self.refused(run("--only", "1x2x3"), "1x2x3", "--q 1x512x1x64")

    def test_a_build_does_not_differ_from_itself(self):
        if given.build is None or shutil.which("valgrind") is None:
            self.skipTest("nothing to count, or nothing to count with")
        done = run(given.build, given.build, "--only", "1x1x1x64")
        if "no AVX2" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        row = done.stdout.splitlines()[-1]
        self.assertRegex(row, r"^\| --dtype fp32 --q 1x1x1x64 \| \d+ \| [\d.]+ \| \d+ \| [\d.]+ \| \+0\.00 % \|$")
        self.assertGreater(int(re.search(r"x64 \| (\d+)", row).group(1)), 64)  # one fma for each dim at the least


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--script", required=True)
    parser.add_argument("--build")
    given = parser.parse_args()
    unittest.main(argv=[sys.argv[0], "--verbose"])
