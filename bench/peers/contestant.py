"""What every contestant offers: a name, what it cannot do, and a call that is ready to be repeated."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from arrays import Arrays
from works import Work

# Programs that store something for each (query, key) pair are not asked for more than this.
MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class Call:
    run: Callable[[], object]         # one forward pass
    out: Callable[[], np.ndarray]     # the answer (B, H, S, D), in stored numbers; REQUIRES: run() was called
    keeps: object                     # what run() reads by its address: lives as long as the call
    context: Callable[[], AbstractContextManager] = field(default=nullcontext)  # entered around many run()s


class Contestant(Protocol):
    name: str     # heading of its column
    version: str  # of its program

    def refusal(self, work: Work) -> str:
        """Why it cannot do a work; empty when it can."""

    def prepare(self, work: Work, arrays: Arrays) -> Call:
        """Compiles, converts layouts, allocates: nothing of this is timed. REQUIRES: refusal(work) is empty."""


def stores_too_much(size: int, what: str) -> str:
    """A refusal for programs that store `size` bytes of something; empty when that is not much."""
    return f"would store {size / 1e9:.1f} GB of {what}" if size > MOST_BYTES else ""
