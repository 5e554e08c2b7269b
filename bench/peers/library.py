"""flashtile's C interface (include/flashtile/flashtile_c.h) for ctypes: the structs and calls that are needed here.

Needs nothing but Python. tests/peers/ compares every struct and constant below with the header.
"""

import ctypes
from collections.abc import Callable
from ctypes import POINTER, c_char, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from functools import partial
from pathlib import Path

F32, F16, BF16 = 0, 2, 3
MOST_REPORTS = 16


class Tensor(ctypes.Structure):
    """A view of an array; strides count elements."""

    _fields_ = [("data", c_void_p), ("dtype", c_int32), ("rank", c_int32), ("shape", c_int64 * 4), ("stride", c_int64 * 4)]


class ScoreModifier(ctypes.Structure):
    _fields_ = [("apply", c_void_p), ("coverage", c_void_p), ("context", c_void_p)]


def _tensors(names: str) -> list[tuple[str, type]]:
    return [(name, POINTER(Tensor)) for name in names.split()]


class Options(ctypes.Structure):
    """Zeros are neutral; struct_size must be set."""

    _fields_ = [
        ("struct_size", c_size_t),
        *((name, c_int32) for name in "causal alignment has_window has_scale arithmetic isa threads".split()),
        ("window_left", c_int64), ("window_right", c_int64), ("scale", c_double), ("softcap", c_double),
        *_tensors("mask alibi_slopes sinks row_scale key_begin key_end cu_seqlens_q cu_seqlens_k query_lengths key_lengths"),
        *_tensors("query_offset first_key_position"),
        ("dropout_probability", c_double), ("dropout_seed", c_uint64), ("dropout_offset", c_uint64),
        *_tensors("lse largest_weight entropy logit_mean logit_deviation key_weights"),
        ("score_modifier", ScoreModifier),
    ]


class Machine(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("cpu", c_char * 64), ("threads", c_int32), ("affinity", c_int32),
                ("cgroup_quota", c_double), ("l1", c_int64), ("l2", c_int64), ("l3", c_int64)]


class IsaReport(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("isa", c_int32), ("built", c_int32), ("available", c_int32),
                ("chosen", c_int32), ("reason", c_char * 120)]


STRUCTS = {"flashtile_tensor": Tensor, "flashtile_score_modifier": ScoreModifier, "flashtile_options": Options,
           "flashtile_machine": Machine, "flashtile_isa_report": IsaReport}
CONSTANTS = {"FLASHTILE_OK": 0, "FLASHTILE_F32": F32, "FLASHTILE_F16": F16, "FLASHTILE_BF16": BF16}


def heads_first(data: int, dtype: int, shape: tuple[int, int, int, int]) -> Tensor:
    """A dense array (B, H, S, D) at an address, as the (B, S, H, D) that the library expects: strides, no copy."""
    batch, heads, sequence, head_dim = shape
    matrix = sequence * head_dim
    return Tensor(data, dtype, 4, (batch, sequence, heads, head_dim), (heads * matrix, head_dim, matrix, 1))


class Library:
    """A loaded libflashtile. Raises OSError when the file is none."""

    def __init__(self, path: Path):
        self._calls = ctypes.CDLL(str(path.resolve()))
        for name in ("flashtile_version", "flashtile_commit", "flashtile_last_error"):
            getattr(self._calls, name).restype = c_char_p

    def attention(self, q: Tensor, k: Tensor, v: Tensor, out: Tensor, options: Options) -> Callable[[], int]:
        """A call that is ready to be repeated; it returns 0, or last_error() says why not. Keeps the structs alive."""
        return partial(self._calls.flashtile_attention, *map(ctypes.byref, (q, k, v, out, options)))

    def empty_call(self) -> Callable[[], int]:
        """Five pointers in, a number out, like attention(), and no work between: what ctypes costs."""
        return partial(self._calls.flashtile_version_number, *(ctypes.byref(Tensor()) for _ in range(5)))

    @property
    def version(self) -> str:
        return f"{self._calls.flashtile_version().decode()} ({self._calls.flashtile_commit().decode()})"

    def last_error(self) -> str:
        return self._calls.flashtile_last_error().decode()

    def cpu(self) -> str:
        machine = Machine(struct_size=ctypes.sizeof(Machine))
        self._calls.flashtile_machine_report(ctypes.byref(machine))
        return machine.cpu.decode()

    def instruction_sets(self) -> list[str]:
        """Those that the library chooses on this machine, best first."""
        reports = (IsaReport * MOST_REPORTS)()
        count = self._calls.flashtile_isa_reports(reports, c_size_t(ctypes.sizeof(IsaReport)), c_int32(MOST_REPORTS))
        return [r.name.decode() for r in reports[:max(0, count)] if r.chosen]
