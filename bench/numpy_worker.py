"""Attention in numpy: whole matrices of logits, as people write it."""

import numpy as np

import protocol

HEADS, DIM = 8, 128


def make(words):
    kind = words[0]
    keys = int(words[1])
    rows = keys if kind == "prefill" else 1
    random = np.random.default_rng(0)

    def tensor(length):
        return random.standard_normal((HEADS, length, DIM), dtype=np.float32)

    scale = np.float32(DIM ** -0.5)
    hidden = None
    if kind == "prefill" and words[2] == "causal":
        hidden = np.triu(np.ones((rows, keys), dtype=bool), 1)

    def attend(query, key, value):
        logits = np.matmul(query, key.transpose(0, 2, 1)) * scale
        if hidden is not None:
            logits[:, hidden] = -np.inf
        logits -= logits.max(axis=-1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=-1, keepdims=True)
        return np.matmul(logits, value)

    def call():
        query, key, value = tensor(rows), tensor(keys), tensor(keys)
        return lambda: attend(query, key, value)

    if kind == "prefill":
        return call()
    cache = 2 * keys * HEADS * DIM * 4
    return protocol.in_turn([call() for _ in range(protocol.turns(cache))])


protocol.serve(make)
