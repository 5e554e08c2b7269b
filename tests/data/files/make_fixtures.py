#!/usr/bin/env python3
"""Writes the files of this folder with the formats' own libraries, so that our readers and writers are compared with
somebody else's. The tests themselves need no Python: the results are kept beside this script.

    python3 -m venv venv && venv/bin/pip install numpy safetensors ml_dtypes && venv/bin/python make_fixtures.py

Element i of an array, in C order, is i - 5; of a boolean array: whether i is odd.
"""
import io
import pathlib
import zipfile

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent
TYPES = {"fp64": "<f8", "fp32": "<f4", "fp16": "<f2", "bf16": ml_dtypes.bfloat16, "bool": "?", "int32": "<i4", "int64": "<i8"}


def counting(shape, dtype):
    n = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    return np.asarray((n % 2 == 1) if dtype == "?" else (n - 5), dtype=dtype)


def save(name, array, **how):
    np.lib.format.write_array(open(HERE / name, "wb"), array, **how)


for word, dtype in TYPES.items():
    save(f"{word}.npy", counting((2, 3, 4), dtype))
for word in ("fp64", "fp32", "fp16", "int32", "int64"):
    save(f"{word}_big_endian.npy", counting((2, 3, 4), TYPES[word]).astype(np.dtype(TYPES[word]).newbyteorder(">")))
save("fp32_fortran.npy", np.asfortranarray(counting((2, 3, 4), "<f4")))
save("fp32_version_2.npy", counting((2, 3, 4), "<f4"), version=(2, 0))
save("fp32_version_3.npy", counting((2, 3, 4), "<f4"), version=(3, 0))
save("fp32_scalar.npy", counting((), "<f4"))
save("fp32_empty.npy", counting((3, 0, 2), "<f4"))
save("uint8.npy", np.zeros(3, np.uint8))
save("structured.npy", np.zeros(2, [("a", "<f4"), ("b", "<i4", (2,))]))

ARRAYS = {
    "q": counting((2, 3, 4), "<f4"),
    "k": np.asfortranarray(counting((5, 6), "<f8")),
    "empty": counting((0, 7), "<f2"),
    "scalar": counting((), "<i8"),
    "mask": counting((3, 3), "?"),
}
np.savez(HERE / "stored.npz", **ARRAYS)  # local headers in zip64 form
np.savez_compressed(HERE / "deflated.npz", **ARRAYS)
np.savez_compressed(HERE / "mixed.npz", q=ARRAYS["q"], text=np.array(["a", "bc"]), bytes=np.zeros(4, np.uint8))


def put(z, name, data, method):
    info = zipfile.ZipInfo(name)  # dated 1980, so that the same bytes come out every time
    info.compress_type = method
    z.writestr(info, data)


class Pipe(io.RawIOBase):
    """Cannot seek, so that sizes and CRC follow the data."""

    def __init__(self):
        self.got = bytearray()

    def writable(self):
        return True

    def write(self, b):
        self.got += bytes(b)
        return len(b)


pipe = Pipe()
FP32 = (HERE / "fp32.npy").read_bytes()
with zipfile.ZipFile(pipe, "w") as z:
    put(z, "q.npy", FP32, zipfile.ZIP_DEFLATED)
(HERE / "streamed.npz").write_bytes(pipe.got)
with zipfile.ZipFile(HERE / "foreign.npz", "w") as z:
    put(z, "q.npy", FP32, zipfile.ZIP_STORED)
    put(z, "k.npy", FP32, zipfile.ZIP_BZIP2)
    put(z, "readme.txt", b"not an array", zipfile.ZIP_STORED)

save_file({w: counting((2, 3, 4), d) for w, d in TYPES.items()}, HERE / "every_type.safetensors")
save_file({"q": ARRAYS["q"], "empty": ARRAYS["empty"], "scalar": ARRAYS["scalar"]}, HERE / "metadata.safetensors",
          metadata={"model": "a \"quoted\" name\nand a second line"})
save_file({"q": ARRAYS["q"], "weight": np.zeros((3, 5), np.int8)}, HERE / "int8_extra.safetensors")
