"""flashtile, through its C interface, on the arrays that the peers read."""

import ctypes

import library
import numpy as np
from arrays import Arrays
from contestant import Call
from library import Library, Options, heads_first
from works import Work

DTYPES = {"fp32": library.F32, "fp16": library.F16, "bf16": library.BF16}


class Flashtile:
    name = "flashtile"

    def __init__(self, loaded: Library, threads: int):
        self.version = loaded.version
        self._library, self._threads = loaded, threads

    def refusal(self, work: Work) -> str:
        return ""

    def prepare(self, work: Work, arrays: Arrays) -> Call:
        out = np.zeros_like(arrays.q)
        options = Options(struct_size=ctypes.sizeof(Options), causal=work.causal, threads=self._threads)
        tensors = [heads_first(x.ctypes.data, DTYPES[work.dtype], x.shape) for x in (arrays.q, arrays.k, arrays.v, out)]
        run = self._library.attention(*tensors, options)
        if run() != 0:
            raise RuntimeError(self._library.last_error())
        return Call(run, lambda: out, keeps=arrays)
