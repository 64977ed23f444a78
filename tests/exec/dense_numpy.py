"""Attention in float64 with numpy, of what `shardc verify --dump` wrote.

From the definitions alone: shares no code and no constants with the program
but the file format. Read by recompute.py and narrow_numpy.py.
"""

import json
import struct

try:
    import numpy as np
except ImportError:  # recompute.py skips its tests
    np = None

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I32": "<i4",
          "I8": "|i1", "BOOL": "|i1"}


def read_safetensors(path, dtypes=None):
    """Name -> float64 or int64 array; each one's dtype goes to `dtypes`."""
    with open(path, "rb") as file:
        data = file.read()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = data[8 + size + begin:8 + size + end]
        if dtypes is not None:
            dtypes[name] = entry["dtype"]
        if entry["dtype"] == "BF16":
            wide = np.frombuffer(raw, "<u2").astype(np.uint32) << 16
            value = wide.view(np.float32).astype(np.float64)
        else:
            value = np.frombuffer(raw, DTYPES[entry["dtype"]])
            kind = np.float64 if entry["dtype"].startswith("F") else np.int64
            value = value.astype(kind)
        out[name] = value.reshape(entry["shape"])
    return out


def philox(counter, key):
    """Philox4x32-10 on arrays of four words; only the first is returned."""
    c = [np.asarray(x, np.uint64) for x in counter]
    k = [int(x) for x in key]
    low = np.uint64(0xffffffff)
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c[0]
        p1 = np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), p1 & low,
             (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), p0 & low]
        k = [(k[0] + 0x9E3779B9) & 0xffffffff,
             (k[1] + 0xBB67AE85) & 0xffffffff]
    return c[0]


def rounded(x, dtype):
    """The nearest values of a dtype, ties to even."""
    if dtype == "F16":
        with np.errstate(over="ignore"):
            return x.astype(np.float16).astype(np.float64)
    if dtype == "F32":
        return x.astype(np.float32).astype(np.float64)
    # Eight bits: half a unit in the last place is 2^-9 of the power of two
    # above.
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.rint(mantissa * 256.0), exponent - 8)


def in_runtime_dtype(tensors, settings):
    """What an operation in another dtype casts its inputs to."""
    dtype = settings["runtime_dtype"]
    if dtype is None:
        return tensors
    cast = ("query", "key", "value", "latent", "rope_key", "up_key",
            "up_value")
    return {name: rounded(x, dtype) if name in cast else x
            for name, x in tensors.items()}


def from_int8(x, dtype):
    """Rows of 8 bits with a scale each, read back and cast to a dtype.

    In float32 throughout: the scale is the largest |x| of a row, a step
    scale/127.5.
    """
    x = x.astype(np.float32)
    scale = np.abs(x).max(axis=-1, keepdims=True)
    factor = np.float32(127.5) / np.where(scale > 0, scale, np.float32(1))
    q = np.clip(np.rint(x * factor), -128, 127).astype(np.float32)
    return rounded((q * scale / np.float32(127.5)).astype(np.float64), dtype)


PROMOTED = {("BF16", "F16"): "F32", ("F16", "BF16"): "F32"}


def computed_in(settings, query, key):
    """The dtype of the output, by JAX's promotion of two real dtypes."""
    if settings["runtime_dtype"] is not None:
        return settings["runtime_dtype"]
    if query == key:
        return query
    return PROMOTED.get((query, key), "F32")


def to_bthd(x, layout):
    if layout == "bhtd":
        return x.transpose(0, 2, 1, 3)
    if layout == "thd":
        return x[None]
    return x


def expand(tensors, layout):
    """Keys and values of all heads, from the latent of each token."""
    c = tensors["latent"]
    heads = tensors["up_key"].shape[0]
    nope = np.einsum("bsr,hrd->bshd", c, tensors["up_key"])
    rope = np.repeat(tensors["rope_key"][:, :, None], heads, axis=2)
    key = np.concatenate([nope, rope], axis=3)
    value = np.einsum("bsr,hrd->bshd", c, tensors["up_value"])
    if layout == "thd":
        key = key.reshape((1, -1) + key.shape[2:])
        value = value.reshape((1, -1) + value.shape[2:])
    return key, value


def packed_positions(query_ids, key_ids):
    """[1, T] and [1, S] of packed tokens: a key's number in its sequence; a
    sequence's last query is at its last key."""
    pq, pk = np.full(len(query_ids), -1), np.full(len(key_ids), -1)
    for sequence in set(query_ids) | set(key_ids):
        if sequence < 0:
            continue
        keys = np.flatnonzero(key_ids == sequence)
        queries = np.flatnonzero(query_ids == sequence)
        pk[keys] = np.arange(len(keys))
        pq[queries] = len(keys) - len(queries) + np.arange(len(queries))
    return pq[None], pk[None]


def visible(tensors, settings, shape, positions):
    """[B, H, T, S]: what may attend to what."""
    batch, heads, rows, keys = shape
    pq, pk, lengths = positions
    see = np.ones(shape, bool)
    see &= (pk < lengths[:, None])[:, None, None]
    see &= (pk >= 0)[:, None, None]
    if "kv_starts" in tensors:
        see &= (pk >= tensors["kv_starts"][:, None])[:, None, None]
    distance = pq[:, None, :, None] - pk[:, None, None, :]
    if settings["causal"]:
        see &= distance >= 0
    if settings["window"] is not None:
        left, right = settings["window"]
        if left is not None:
            see &= distance <= left
        if right is not None:
            see &= -distance <= right
    if "q_segment_ids" in tensors:
        a = tensors["q_segment_ids"][:, None, :, None]
        b = tensors["kv_segment_ids"][:, None, None, :]
        see &= (a == b) & (a >= 0)
        if settings["padding_segment"] is not None:
            see &= a != settings["padding_segment"]
    if "mask" in tensors:
        see &= tensors["mask"] != 0
    if "additive_mask" in tensors:
        see &= tensors["additive_mask"] > settings["mask_value"] / 2
    # Tables that follow from the masks hide nothing that those show.
    if settings.get("block_mask") == "custom" and "blocks" in tensors:
        i = np.arange(rows) // settings["blocksize_q"]
        j = np.arange(keys) // settings["blocksize_k"]
        see &= tensors["blocks"][:, :, i][:, :, :, j] != 0
    return see


def dropped(settings, shape, pq, pk):
    """[B, H, T, S]: which weights dropout takes away."""
    batch, heads = shape[:2]
    seed = int(settings["dropout_seed"])
    grid = np.broadcast_arrays(
        np.arange(batch)[:, None, None, None],
        np.arange(heads)[None, :, None, None],
        pq[:, None, :, None], pk[:, None, None, :])
    counter = [(x.astype(np.int64) & 0xffffffff) for x in grid]
    word = philox(counter, (seed & 0xffffffff, seed >> 32))
    return word.astype(np.float64) * 2.0 ** -32 < settings["dropout"]


class Inputs:
    """What the formulas need, heads repeated to the query's."""

    def __init__(self, tensors, settings, layout):
        self.tensors, self.settings = tensors, settings
        self.q = to_bthd(tensors["query"], layout)
        if "latent" in tensors:
            k, v = expand(tensors, layout)
        else:
            k = to_bthd(tensors["key"], layout)
            v = to_bthd(tensors["value"], layout)
        batch, rows, self.heads, _ = self.q.shape
        keys = k.shape[1]
        self.group = self.heads // k.shape[2]
        self.k = np.repeat(k, self.group, axis=2)
        self.v = np.repeat(v, self.group, axis=2)
        self.lengths = tensors.get("kv_lengths", np.full(batch, keys))
        self.scale = settings["scale"]
        if self.scale is None:
            self.scale = self.q.shape[3] ** -0.5
        if layout == "thd":
            self.pq, self.pk = packed_positions(tensors["q_segment_ids"][0],
                                                tensors["kv_segment_ids"][0])
            return
        self.pk = tensors.get("kv_positions",
                              np.broadcast_to(np.arange(keys), (batch, keys)))
        self.pq = tensors.get(
            "q_positions", self.lengths[:, None] - rows + np.arange(rows)[None])

    def logits(self, products):
        """Finished logits [B, H, T, S] of the products q.k, and which are
        visible."""
        settings, tensors = self.settings, self.tensors
        s = self.scale * products
        if settings["soft_cap"] > 0:
            s = settings["soft_cap"] * np.tanh(s / settings["soft_cap"])
        if "bias" in tensors:
            s = s + tensors["bias"]
        if "additive_mask" in tensors:
            s = s + tensors["additive_mask"]
        see = visible(tensors, settings, s.shape,
                      (self.pq, self.pk, self.lengths))
        mean = settings["masked_rows"] == "mean"
        hidden = settings["mask_value"] if mean else -np.inf
        return np.where(see, s, hidden), see

    def sinks(self):
        """[sinks, H]."""
        if "softmax_aux" not in self.tensors:
            return np.zeros((0, self.heads))
        aux = self.tensors["softmax_aux"]
        return aux[None] if aux.ndim == 1 else np.repeat(aux, self.group,
                                                         axis=1)

    def drop(self, weights):
        rate = self.settings["dropout"]
        if rate <= 0:
            return weights
        gone = dropped(self.settings, weights.shape, self.pq, self.pk)
        return np.where(gone, 0.0, weights / (1 - rate))


def softmax(s, sinks):
    top = s.max(axis=3, initial=-np.inf)
    if len(sinks):
        top = np.maximum(top, sinks.max(axis=0)[None, :, None])
    safe = np.where(np.isfinite(top), top, 0.0)
    p = np.exp(s - safe[..., None])
    total = p.sum(axis=3)
    for sink in sinks:
        total = total + np.exp(sink[None, :, None] - safe)
    return p / np.where(total > 0, total, 1.0)[..., None]


def attention(tensors, settings, layout):
    """[B, T, H, Dv] in float64."""
    x = Inputs(tensors, settings, layout)
    s, _ = x.logits(np.einsum("bthd,bshd->bhts", x.q, x.k))
    weights = x.drop(softmax(s, x.sinks()))
    return np.einsum("bhts,bshd->bthd", weights, x.v)
