"""PyTorch's scaled_dot_product_attention on its two backends for CPUs: the flash kernel, and plain matrix products."""

from contextlib import ExitStack
from functools import partial

import torch
from arrays import Arrays
from contestant import Call, stores_too_much
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from works import Work


class Torch:
    version = f"torch {torch.__version__}"

    def __init__(self, name: str, backend: SDPBackend, threads: int):
        self.name, self._backend = name, backend
        torch.set_num_threads(threads)

    def refusal(self, work: Work) -> str:
        if self._backend != SDPBackend.MATH:
            return ""
        return stores_too_much(4 * work.batch * work.heads * work.sequence**2, "scores")

    def prepare(self, work: Work, arrays: Arrays) -> Call:
        def tensor(x):
            shared = torch.from_numpy(x)
            return shared.view(torch.bfloat16) if work.dtype == "bf16" else shared

        def out():
            with self._context():
                answer = run()  # (B, H, S, D)
            return (answer.view(torch.uint16) if work.dtype == "bf16" else answer).numpy()

        q, k, v = map(tensor, (arrays.q, arrays.k, arrays.v))
        grouped = {"enable_gqa": True} if work.kv_heads else {}
        run = partial(scaled_dot_product_attention, q, k, v, is_causal=work.causal, **grouped)
        return Call(run, out, keeps=arrays, context=self._context)

    def _context(self) -> ExitStack:
        stack = ExitStack()
        stack.enter_context(torch.inference_mode())
        stack.enter_context(sdpa_kernel(self._backend))
        return stack


def contestants(threads: int) -> list[Torch]:
    return [Torch("torch flash", SDPBackend.FLASH_ATTENTION, threads), Torch("torch unfused", SDPBackend.MATH, threads)]
