"""Attention in PyTorch: scaled_dot_product_attention on the processor."""

import protocol

HEADS, DIM = 8, 128


def make(words):
    import torch

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    dtypes = {"f32": torch.float32, "bf16": torch.bfloat16}
    kind = words[0]
    keys = int(words[1])
    dtype = dtypes[words[-1]]
    rows = keys if kind == "prefill" else 1
    causal = kind == "prefill" and words[2] == "causal"
    attend = torch.nn.functional.scaled_dot_product_attention

    def call():
        query = torch.randn(1, HEADS, rows, DIM).to(dtype)
        key = torch.randn(1, HEADS, keys, DIM).to(dtype)
        value = torch.randn(1, HEADS, keys, DIM).to(dtype)
        return lambda: attend(query, key, value, is_causal=causal)

    if kind == "prefill":
        return call()
    cache = 2 * keys * HEADS * DIM * dtype.itemsize
    return protocol.in_turn([call() for _ in range(protocol.turns(cache))])


protocol.serve(make)
