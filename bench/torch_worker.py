"""Attention in PyTorch: its scaled_dot_product_attention where it has one."""

import protocol

HEADS, DIM = 8, 128


def make(words):
    import torch

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    kind = words[0]
    keys = int(words[1])
    rows = keys if kind == "prefill" else 1
    query = torch.randn(1, HEADS, rows, DIM)
    key = torch.randn(1, HEADS, keys, DIM)
    value = torch.randn(1, HEADS, keys, DIM)
    causal = kind == "prefill" and words[2] == "causal"
    fused = getattr(torch.nn.functional, "scaled_dot_product_attention", None)
    if fused is not None:
        return lambda: fused(query, key, value, is_causal=causal)
    hidden = torch.ones(rows, keys, dtype=torch.bool).triu(1)

    def run():
        logits = torch.matmul(query, key.transpose(-1, -2)) * DIM ** -0.5
        if causal:
            logits.masked_fill_(hidden, float("-inf"))
        return torch.matmul(torch.softmax(logits, -1), value)

    return run


protocol.serve(make)
