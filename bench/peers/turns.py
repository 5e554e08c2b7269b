"""Who is timed when: contestants take turns of a few milliseconds, each after the others' threads have gone to sleep.

Worker threads of OpenMP, TBB and other pools spin for a while after a call, waiting for the next, and would slow down
whoever comes then. So a turn begins when the whole process has stopped using its processors, and a peer keeps its own way
of waiting. Within a turn nothing pauses: calls follow each other as in a program that has nothing else to do. The clock is
read around batches of calls, and a turn's best batch counts: other programs take a processor away for milliseconds.
"""

import time
from collections.abc import Callable
from itertools import repeat

from contestant import Call

TURN = 0.02           # seconds of a turn, at least; a call that takes longer is a turn of its own
BATCH = 2e-4          # seconds of a batch, at least: thousands of times what reading the clock takes
LOOK, IDLE = 2e-3, 0.1  # the process is quiet when it used less than this share of one processor in so many seconds
LONGEST_PAUSE = 0.3   # seconds; longer than any pool's default spinning (200 ms)


def wait_until_quiet() -> None:
    """Sleeps until no thread of this process works, or for LONGEST_PAUSE."""
    end = time.perf_counter() + LONGEST_PAUSE
    while (wall := time.perf_counter()) < end:
        used = time.process_time()
        time.sleep(LOOK)
        if time.process_time() - used < IDLE * (time.perf_counter() - wall):
            return


def seconds_of(run: Callable[[], object], calls: int) -> float:
    """Mean seconds of calls one after the other."""
    start = time.perf_counter()
    for _ in repeat(None, calls):
        run()
    return (time.perf_counter() - start) / calls


def calls_of_batch(call: Call) -> int:
    """How many calls fill a batch: a power of two."""
    calls = 1
    with call.context():
        call.run()
        while min(seconds_of(call.run, calls) for _ in range(3)) * calls < BATCH:
            calls *= 2
    return calls


def turn(call: Call, calls: int) -> float:
    """Seconds of a call. The first one is not timed where a turn has many: it wakes threads and warms caches."""
    wait_until_quiet()
    with call.context():
        if calls > 1:
            call.run()
        end = time.perf_counter() + TURN
        best = seconds_of(call.run, calls)
        while time.perf_counter() < end:
            best = min(best, seconds_of(call.run, calls))
        return best


class Contest:
    """Calls that do the same work and take turns."""

    def __init__(self, calls: list[Call]):
        self._calls = calls
        self._batches = [calls_of_batch(call) for call in calls]
        self.seconds: list[list[float]] = [[] for _ in calls]  # of a call, one number a round, for each contestant

    def go_on(self, most_rounds: int, most_seconds: float) -> None:
        """At least one round more. Another contestant begins each of them."""
        begin = time.perf_counter()
        for done in range(most_rounds):
            if done > 0 and time.perf_counter() - begin > most_seconds:
                break
            first = len(self.seconds[0])
            for i in range(len(self._calls)):
                which = (first + i) % len(self._calls)
                self.seconds[which].append(turn(self._calls[which], self._batches[which]))
