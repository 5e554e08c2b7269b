"""One work after the other: every answer is checked against fp64, and only then do those that are right take turns."""

import importlib
import math
import os
from collections.abc import Callable

from arrays import Arrays, Reference, random_arrays
from contestant import Call, Contestant
from library import Library
from ours import Flashtile
from table import Result, Row, Setting
from turns import Contest, seconds_of
from works import Work

PEERS = {"torch": "torch_peers", "ONNX Runtime": "onnx_runtime_peer", "OpenVINO": "openvino_peer"}  # and our modules
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_NUM_THREADS", "FLASHTILE_ISA")
# All works are gone through so many times: another program's burst then hits some rounds of many works, not one alone.
PASSES = 4
EMPTY_CALLS, EMPTY_BATCHES = 500, 100  # the best batch counts, as in a turn


class WrongAnswer(RuntimeError):
    """Ours: nothing is timed after it."""


def found_peers(threads: int) -> tuple[list[Contestant], list[str]]:
    """Those that can be imported, and why others cannot."""
    peers, missing = [], []
    for name, module in PEERS.items():
        try:
            peers += importlib.import_module(module).contestants(threads)
        except ImportError as error:
            missing.append(f"{name} ({error})")
    return peers, missing


def prepared(contestant: Contestant, work: Work, arrays: Arrays, reference: Reference) -> tuple[Call | None, Result]:
    """A call whose answer is right, or none and the reason."""
    result = Result(contestant.name, reason=contestant.refusal(work))
    if result.reason:
        return None, result
    try:
        call = contestant.prepare(work, arrays)
        with call.context():
            call.run()
        result.error = reference.error_of(call.out())
    except Exception as failure:  # a peer may raise anything; it is said below the table
        result.reason = f"{type(failure).__name__}: {(str(failure).splitlines() or [''])[0][:200]}"
        return None, result
    if not result.error <= reference.bound:
        result.reason = f"wrong answer on {work.name}, relative rms error {result.error:.1e}, bound {reference.bound:.1e}"
        return None, result
    return call, result


def prepared_row(work: Work, contestants: list[Contestant]) -> tuple[Row, Contest]:
    """A row without times, and the contest of those that answer right. Ours is the last of the contestants."""
    arrays = random_arrays(work)
    reference = Reference(work, arrays)
    entries = [prepared(contestant, work, arrays, reference) for contestant in contestants]
    *peers, ours = [result for _, result in entries]
    if ours.reason:
        raise WrongAnswer(f"{ours.contestant}: {ours.reason}")
    contest = Contest([call for call, _ in entries if call])
    for (_, result), seconds in zip((entry for entry in entries if entry[0]), contest.seconds):
        result.seconds = seconds  # grows with the contest
    return Row(work, peers, ours), contest


def measure(works: list[Work], contestants: list[Contestant], rounds: int, seconds: float,
            progress: Callable[[str], None]) -> list[Row]:
    """rounds and seconds are those of a work, over all passes."""
    rows, contests = [], []
    for work in works:
        progress(f"checking {work.name}")
        row, contest = prepared_row(work, contestants)
        rows.append(row)
        contests.append(contest)
    for done in range(PASSES):
        for work, contest in zip(works, contests):
            progress(f"measuring, {done + 1} of {PASSES}: {work.name}")
            contest.go_on(math.ceil(rounds / PASSES), seconds / PASSES)
    return rows


def setting_of(library: Library, ours: Flashtile, peers: list[Contestant], missing: list[str], threads: int) -> Setting:
    versions = dict.fromkeys([f"{ours.name} {ours.version}", *(p.version for p in peers)])
    empty = min(seconds_of(library.empty_call(), EMPTY_CALLS) for _ in range(EMPTY_BATCHES))
    return Setting(library.cpu(), threads, library.instruction_sets(), list(versions), missing,
                   [f"{name}={os.environ[name]}" for name in WAITING if name in os.environ], 1e9 * empty, os.getloadavg()[0])
