"""What is measured: forward passes whose shapes and masks every contestant knows. Needs nothing but Python."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """One forward pass. q (B, H, S, D), k and v (B, Hkv, S, D), out like q; scale 1/√D; as many keys as queries."""

    dtype: str  # fp32, fp16 or bf16: of inputs and output
    batch: int
    sequence: int
    heads: int
    head_dim: int
    causal: bool = False
    kv_heads: int = 0  # 0: as many as heads

    @property
    def key_heads(self) -> int:
        return self.kv_heads or self.heads

    @property
    def name(self) -> str:
        """In the grammar of `flashtile bench`, B×S×H×D."""
        def shape(heads: int) -> str:
            return f"{self.batch}x{self.sequence}x{heads}x{self.head_dim}"
        keys = f" --k {shape(self.kv_heads)}" if self.kv_heads else ""
        return f"{self.dtype} --q {shape(self.heads)}{keys}{' --causal' if self.causal else ''}"

    @property
    def query_shape(self) -> tuple[int, int, int, int]:
        return self.batch, self.heads, self.sequence, self.head_dim

    @property
    def key_shape(self) -> tuple[int, int, int, int]:
        return self.batch, self.key_heads, self.sequence, self.head_dim

    @property
    def visible_pairs(self) -> int:
        """(query, key) pairs over all heads."""
        keys_seen = self.sequence * (self.sequence + 1) // 2 if self.causal else self.sequence**2
        return self.batch * self.heads * keys_seen

    @property
    def flops(self) -> int:
        """Of both products, on visible pairs."""
        return 4 * self.head_dim * self.visible_pairs


WORKS = (
    Work("fp32", 1, 2048, 8, 64),
    Work("fp32", 1, 2048, 8, 128),
    Work("fp32", 1, 2048, 8, 128, causal=True),
    Work("fp32", 1, 4096, 8, 64, causal=True),
    Work("fp32", 4, 512, 8, 64, causal=True),
    Work("fp32", 1, 32768, 1, 64, causal=True),
    Work("fp32", 1, 2048, 32, 128, causal=True, kv_heads=8),
    Work("bf16", 1, 2048, 8, 64),
    Work("bf16", 1, 2048, 8, 128),
    Work("bf16", 1, 2048, 8, 128, causal=True),
    Work("bf16", 4, 512, 8, 64, causal=True),
    Work("fp16", 1, 2048, 8, 128),
    Work("fp16", 1, 2048, 8, 128, causal=True),
    Work("fp32", 1, 128, 12, 32),
    Work("bf16", 1, 128, 12, 32),
    Work("fp32", 1, 16, 12, 32),
    Work("fp32", 1, 1, 1, 64),
)
