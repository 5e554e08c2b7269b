"""The numbers of a work, and how wrong an answer is.

bf16 has no type in NumPy: its arrays hold the bits as uint16. Everything is (B, H, S, D), dense.
"""

from dataclasses import dataclass

import numpy as np
from works import Work

STORAGE = {"fp32": np.float32, "fp16": np.float16, "bf16": np.uint16}
# Rows of each head that are compared: the definition takes its time. The first and the last are among them.
MOST_ROWS = 48
# Relative rms error that an answer may have: fp32 sums of any order, some five times what ours and the peers show; for
# 16-bit types this many times the rounding of the exact answer, so that weights may be rounded to 16 bits too.
FP32_BOUND = 2e-6
ROUNDINGS = 2.0


@dataclass(frozen=True)
class Arrays:
    q: np.ndarray  # (B, H, S, D)
    k: np.ndarray  # (B, Hkv, S, D)
    v: np.ndarray  # (B, Hkv, S, D)


def stored(x: np.ndarray, dtype: str) -> np.ndarray:
    """x rounded to the nearest number of a type, ties to even. x is finite."""
    if dtype != "bf16":
        return x.astype(STORAGE[dtype])
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widened(x: np.ndarray, dtype: str) -> np.ndarray:
    """Stored numbers in fp64, exactly."""
    if dtype == "bf16":
        x = (x.astype(np.uint32) << 16).view(np.float32)
    return x.astype(np.float64)


def random_arrays(work: Work) -> Arrays:
    """Normal deviates, the same in every run."""
    generator = np.random.default_rng(1)

    def normal(shape: tuple[int, ...]) -> np.ndarray:
        return stored(generator.standard_normal(shape, dtype=np.float32), work.dtype)
    return Arrays(normal(work.query_shape), normal(work.key_shape), normal(work.key_shape))


def relative_rms(got: np.ndarray, exact: np.ndarray) -> float:
    return float(np.sqrt(np.sum((got - exact) ** 2) / np.sum(exact**2)))


class Reference:
    """Some rows of softmax(q kᵀ / √D) v in fp64, by the definition."""

    def __init__(self, work: Work, arrays: Arrays):
        self.dtype = work.dtype
        self.rows = np.unique(np.linspace(0, work.sequence - 1, MOST_ROWS).round().astype(int))  # (R)
        q, k, v = (widened(x, work.dtype) for x in (arrays.q[:, :, self.rows], arrays.k, arrays.v))
        group = work.heads // work.key_heads
        self.exact = np.empty_like(q)  # (B, H, R, D)
        hidden = np.arange(work.sequence) > self.rows[:, None] if work.causal else False  # (R, S)
        for b, h in np.ndindex(q.shape[:2]):
            scores = q[b, h] @ k[b, h // group].T / np.sqrt(work.head_dim)  # (R, S)
            scores = np.where(hidden, -np.inf, scores)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            self.exact[b, h] = weights @ v[b, h // group] / weights.sum(axis=1, keepdims=True)
        rounding = relative_rms(widened(stored(self.exact, work.dtype), work.dtype), self.exact)
        self.bound = FP32_BOUND if work.dtype == "fp32" else ROUNDINGS * rounding

    def error_of(self, out: np.ndarray) -> float:
        """Relative rms error of an answer (B, H, S, D) in stored numbers; NaN when it holds one."""
        return relative_rms(widened(out[:, :, self.rows], self.dtype), self.exact)
