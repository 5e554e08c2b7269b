"""OpenVINO: a model of one scaled_dot_product_attention, on the arrays that the others read.

16-bit works compute in their type where the processor has it and in fp32 elsewhere: OpenVINO converts within its model.
"""

import numpy as np
import openvino
from arrays import STORAGE, Arrays
from contestant import Call, stores_too_much
from openvino import opset13
from works import Work

TYPES = {"fp32": openvino.Type.f32, "fp16": openvino.Type.f16, "bf16": openvino.Type.bf16}
# Of a causal mask and its copies for each (query, key) pair of one head, as the process's memory shows.
MASK_BYTES = 9


class OpenVino:
    name = "OpenVINO"
    version = f"OpenVINO {openvino.get_version().split('-')[0]}"

    def __init__(self, threads: int):
        self._core = openvino.Core()
        self._native = self._core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        self._threads = threads

    def refusal(self, work: Work) -> str:
        return stores_too_much(MASK_BYTES * work.sequence**2, "causal mask") if work.causal else ""

    def prepare(self, work: Work, arrays: Arrays) -> Call:
        kind = TYPES[work.dtype]
        groups = work.heads // work.key_heads
        parameters = [opset13.parameter(shape, kind, name) for name, shape in
                      (("q", work.query_shape), ("k", work.key_shape), ("v", work.key_shape))]
        node = opset13.scaled_dot_product_attention(*self._repeated(parameters, work, groups), causal=work.causal)
        compiled = self._core.compile_model(openvino.Model([node], parameters), "CPU", {
            "INFERENCE_NUM_THREADS": self._threads, "NUM_STREAMS": 1, "ENABLE_CPU_PINNING": False,
            "INFERENCE_PRECISION_HINT": kind if work.dtype.upper() in self._native else openvino.Type.f32})
        request = compiled.create_infer_request()
        for i, x in enumerate((arrays.q, arrays.k, arrays.v)):
            request.set_input_tensor(i, openvino.Tensor(x, openvino.Shape(x.shape), kind))  # shared, not copied
        return Call(request.infer, lambda: request.get_output_tensor(0).data.view(STORAGE[work.dtype]), keeps=arrays)

    @staticmethod
    def _repeated(parameters: list, work: Work, groups: int) -> list:
        """Keys and values for each query head. The node has no grouped heads of its own."""
        if groups == 1:
            return parameters
        batch, heads, sequence, head_dim = work.key_shape

        def repeated(x):
            five = opset13.reshape(x, np.array([batch, heads, 1, sequence, head_dim]), False)
            five = opset13.broadcast(five, np.array([batch, heads, groups, sequence, head_dim]))
            return opset13.reshape(five, np.array([batch, heads * groups, sequence, head_dim]), False)
        return [parameters[0], *map(repeated, parameters[1:])]


def contestants(threads: int) -> list[OpenVino]:
    return [OpenVino(threads)]
