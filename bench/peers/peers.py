"""flashtile beside PyTorch, ONNX Runtime and OpenVINO: the same numbers, the same threads, in turns, in one process.

    python3 bench/peers/peers.py [options]

It runs whatever peers the Python environment has and installs nothing. NumPy is needed. All of them, in an environment
of their own:

    python3 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy onnxruntime==1.31.1 onnx openvino==2026.4.1
    cmake --preset release && cmake --build --preset release
    peers/bin/python bench/peers/peers.py

How it measures: each answer is compared with the definition in fp64 on some rows of each head; one that is wrong is said
and not timed, one of ours that is wrong ends the program. Then contestants take turns, another one first in each round. A
turn is 20 ms of calls, or one call that takes longer, and begins when no thread of the process works any more: the workers
of thread pools spin after a call, and would slow down the next contestant (turns.py). The set is gone through four times,
so that a busy neighbour's minute does not fall on one work alone; the best counts. All contestants get the same count of
threads and keep their own defaults otherwise; OMP_WAIT_POLICY and KMP_BLOCKTIME are said when they are set. All read the
same arrays (B, H, S, D), ours by strides; only ONNX Runtime needs (B, S, H·D) and gets a copy before the clock starts.
Outputs lie where a contestant puts them: ours in an array given to it, torch's in a new one at each call. All are called
from Python, as their users call them, and nothing is subtracted: what ctypes costs ours is said.
"""

import argparse
import importlib.util
import os
import re
import sys
from pathlib import Path

from works import WORKS, Work

DEFAULT_LIBRARY = Path(__file__).resolve().parents[2] / "build" / "release" / "libflashtile.so"


class Unusable(Exception):
    """What the caller can mend, in one line."""


def positive(word: str) -> int:
    if (number := int(word)) < 1:
        raise ValueError
    return number


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage="%(prog)s [options]")
    parser.add_argument("--only", metavar="REGEX", default="", help="works whose name matches: 'bf16', '--causal', …")
    parser.add_argument("--threads", type=positive, default=len(os.sched_getaffinity(0)), metavar="N",
                        help="of every contestant; default: the CPUs that this process may use, %(default)s")
    parser.add_argument("--rounds", type=positive, default=20, metavar="N", help="at most; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=8, metavar="S",
                        help="of a work, after which it begins no round; default: %(default)s")
    parser.add_argument("--library", type=Path, default=DEFAULT_LIBRARY, metavar="FILE",
                        help="libflashtile.so; default: that of build/release")
    parser.add_argument("--output", choices=("md", "csv", "json"), default="md", help="default: %(default)s")
    return parser.parse_args(words)


def chosen_works(only: str) -> list[Work]:
    try:
        chosen = [work for work in WORKS if re.search(only, work.name)]
    except re.error as error:
        raise Unusable(f"--only = {only!r}; expected a regular expression: {error}") from error
    if not chosen:
        raise Unusable(f"--only = {only!r} matches no work; there are: {'; '.join(work.name for work in WORKS)}")
    return chosen


def progress(line: str) -> None:
    if sys.stderr.isatty():
        print(line, file=sys.stderr)


def run(given: argparse.Namespace) -> None:
    works = chosen_works(given.only)
    if importlib.util.find_spec("numpy") is None:
        raise Unusable("NumPy is not installed in this Python; --help says how to set up an environment")
    if not given.library.is_file():
        raise Unusable(f"--library = {given.library}; expected the shared library: cmake --preset release && "
                       "cmake --build --preset release")
    # Here, not above: --help and the lines above work without NumPy.
    import measure
    import table
    from library import Library
    from ours import Flashtile

    library = Library(given.library)
    ours = Flashtile(library, given.threads)
    peers, missing = measure.found_peers(given.threads)
    setting = measure.setting_of(library, ours, peers, missing, given.threads)
    rows = measure.measure(works, [*peers, ours], given.rounds, given.seconds, progress)
    table.print_rows(rows, setting, given.output)


def main() -> int:
    """0, 1 for a wrong answer of ours, 2 for what the caller can mend."""
    try:
        run(arguments(sys.argv[1:]))
    except (Unusable, OSError) as reason:
        print(f"peers.py: {reason}", file=sys.stderr)
        return 2
    except RuntimeError as wrong:
        print(f"peers.py: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
