"""ONNX Runtime: a model of one MultiHeadAttention, or of one GroupQueryAttention where keys are hidden or shared.

MultiHeadAttention is fast without a mask only. GroupQueryAttention is always causal and also writes the cache of keys and
values that it is made for. Both read (B, S, H·D): the arrays are transposed before anything is timed.
"""

from functools import partial

import numpy as np
import onnx
import onnxruntime
from arrays import Arrays
from contestant import Call
from onnx import TensorProto, helper
from works import Work

TYPES = {"fp32": TensorProto.FLOAT, "fp16": TensorProto.FLOAT16}


def model_of(work: Work) -> onnx.ModelProto:
    batch, sequence, width = work.batch, work.sequence, work.heads * work.head_dim
    key_width = work.key_heads * work.head_dim

    def value(name, *shape, kind=TYPES[work.dtype]):
        return helper.make_tensor_value_info(name, kind, shape)

    inputs = [value("q", batch, sequence, width), value("k", batch, sequence, key_width),
              value("v", batch, sequence, key_width)]
    outputs = [value("out", batch, sequence, width)]
    if work.causal:
        inputs += [value("last_key", batch, kind=TensorProto.INT32), value("keys", 1, kind=TensorProto.INT32)]
        outputs += [value(name, batch, work.key_heads, sequence, work.head_dim) for name in ("key_cache", "value_cache")]
        node = helper.make_node("GroupQueryAttention", ["q", "k", "v", "", "", "last_key", "keys"],
                                ["out", "key_cache", "value_cache"], domain="com.microsoft", num_heads=work.heads,
                                kv_num_heads=work.key_heads)
    else:
        node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["out"], domain="com.microsoft",
                                num_heads=work.heads)
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph([node], "attention", inputs, outputs), opset_imports=versions, ir_version=8)


def sequence_first(x: np.ndarray) -> np.ndarray:
    """(B, H, S, D) → (B, S, H·D), a copy."""
    batch, heads, sequence, head_dim = x.shape
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(batch, sequence, heads * head_dim)


class OnnxRuntime:
    name = "ONNX Runtime"
    version = f"ONNX Runtime {onnxruntime.__version__}"

    def __init__(self, threads: int):
        self._options = onnxruntime.SessionOptions()
        self._options.intra_op_num_threads = threads

    def refusal(self, work: Work) -> str:
        if work.dtype == "bf16":
            return "no bf16 on CPUs"
        if work.dtype == "fp16" and not work.causal:
            return "no fp16 but in GroupQueryAttention, which is causal"
        return ""

    def prepare(self, work: Work, arrays: Arrays) -> Call:
        session = onnxruntime.InferenceSession(model_of(work).SerializeToString(), self._options,
                                               providers=["CPUExecutionProvider"])
        feeds = {name: sequence_first(x) for name, x in vars(arrays).items()}
        if work.causal:
            feeds |= {"last_key": np.full(work.batch, work.sequence - 1, np.int32),
                      "keys": np.array([work.sequence], np.int32)}
        binding = session.io_binding()
        for name, x in feeds.items():
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(x))
        for output in session.get_outputs():
            binding.bind_output(output.name)

        def out() -> np.ndarray:
            answer = binding.copy_outputs_to_cpu()[0]  # (B, S, H·D)
            batch, heads, sequence, head_dim = work.query_shape
            return answer.reshape(batch, sequence, heads, head_dim).transpose(0, 2, 1, 3)
        return Call(partial(session.run_with_iobinding, binding), out, keeps=feeds)


def contestants(threads: int) -> list[OnnxRuntime]:
    return [OnnxRuntime(threads)]
