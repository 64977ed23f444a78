"""Recomputes dumped attention cases with numpy, from the definitions alone.

Written apart from the program: it shares no code and no constants but the
file format. For every case the stated reference must be the attention of the
stated inputs to float64 accuracy, the stated result must lie within the
stated tolerance of it, and the stated error must be the error.

Run by hand on a folder that `shardc verify --dump` wrote:
    recompute.py DIR
"""

import glob
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:  # the test is skipped, by hand it says so
    np = None

CASES = int(os.environ.get("SHARDC_RECOMPUTE_CASES", "200"))
SEED = int(os.environ.get("SHARDC_RECOMPUTE_SEED", "1"))

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
    if "blocks" in tensors:
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
        k = to_bthd(tensors["key"], layout)
        v = to_bthd(tensors["value"], layout)
        if "latent" in tensors:
            k, v = expand(tensors, layout)
        batch, rows, self.heads, _ = self.q.shape
        keys = k.shape[1]
        self.group = self.heads // k.shape[2]
        self.k = np.repeat(k, self.group, axis=2)
        self.v = np.repeat(v, self.group, axis=2)
        self.lengths = tensors.get("kv_lengths", np.full(batch, keys))
        self.pk = tensors.get("kv_positions",
                              np.broadcast_to(np.arange(keys), (batch, keys)))
        self.pq = tensors.get(
            "q_positions", self.lengths[:, None] - rows + np.arange(rows)[None])

    def logits(self, products):
        """Finished logits [B, H, T, S] of the products q.k, and which are
        visible."""
        settings, tensors = self.settings, self.tensors
        s = settings["scale"] * products
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


def cut(x, axis, bits, slack=0.0):
    """Integers and steps of rows along an axis, and which rows keep their
    integers when each number is off by the relative slack."""
    largest = np.abs(x).max(axis=axis, keepdims=True)
    step = largest / (2.0 ** (bits - 1) - 0.5)
    top = 2.0 ** (bits - 1) - 1
    ratio = x / np.where(step > 0, step, 1.0)
    whole = np.clip(np.rint(ratio), -top, top)
    same = (np.clip(np.rint(ratio * (1 - slack)), -top, top)
            == np.clip(np.rint(ratio * (1 + slack)), -top, top))
    return whole, step, same.all(axis=axis)


class Rounding:
    """Rounds to a dtype and notes which rows a small error could change."""

    def __init__(self, dtype, rows):
        self.dtype, self.clear = dtype, np.ones(rows, bool)

    def __call__(self, x, slack):
        out = rounded(x, self.dtype)
        with np.errstate(invalid="ignore"):
            same = (rounded(x - slack, self.dtype)
                    == rounded(x + slack, self.dtype)) | ~np.isfinite(x)
        self.clear &= same.all(axis=3) if same.ndim == 4 else same
        return out


def softmax_in(dtype, s, sinks, slack):
    """Every step rounded to the dtype; which rows it is sure of."""
    to = Rounding(dtype, s.shape[:3])
    lowest = -65504.0 if dtype == "F16" else -float.fromhex("0x1.fep127")
    finite = np.isfinite(s)
    masked = finite & (s < -1e30)
    s = np.where(masked, np.maximum(rounded(s, dtype), lowest),
                 to(np.where(masked, 0.0, s), slack))
    extra = [rounded(sink, dtype)[None, :, None] for sink in sinks]
    top = s.max(axis=3)
    for sink in extra:
        top = np.maximum(top, sink)
    safe = np.where(np.isfinite(top), top, 0.0)

    def power(x):
        far = to(x, np.abs(x) * 2.0 ** -23)
        e = np.exp(far)
        return to(e, e * 2.0 ** -22)

    p = power(s - safe[..., None])
    total = p.sum(axis=3)
    for sink in extra:
        total = total + power(np.broadcast_to(sink - safe, safe.shape))
    total = to(total, total * s.shape[3] * 2.0 ** -23)
    p = p / np.where(total > 0, total, 1.0)[..., None]
    return to(p, p * 2.0 ** -22), to.clear


def narrow_attention(tensors, settings, layout):
    """[B, T, H, Dv] as cut operands and a softmax in 16 bits give it, rows
    that are sure [B, T, H], and how far float32 may be off."""
    x = Inputs(tensors, settings, layout)
    bits, dtype = settings["dot_bits"], settings["softmax_dtype"]
    sizes = np.einsum("bthd,bshd->bhts", np.abs(x.q), np.abs(x.k))
    if bits > 0:
        q, q_step, _ = cut(x.q, 3, bits)
        k, k_step, _ = cut(x.k, 3, bits)
        products = np.einsum("bthd,bshd->bhts", q, k)
        products *= q_step.transpose(0, 2, 1, 3)
        products *= k_step.transpose(0, 2, 3, 1)
    else:
        products = np.einsum("bthd,bshd->bhts", x.q, x.k)
    s, see = x.logits(products)
    size = np.abs(settings["scale"]) * sizes * (x.q.shape[3] + 8)
    slack = np.where(see, size + 8 * np.abs(s), 0.0) * 2.0 ** -24
    slack = np.where(np.isfinite(slack), slack, 0.0)
    clear = np.ones(s.shape[:3], bool)
    off = 4 * slack.max() + s.shape[3] * 2.0 ** -22
    if dtype != "F32":
        weights, clear = softmax_in(dtype, s, x.sinks(), slack)
        off = s.shape[3] * 2.0 ** -22
    else:
        weights = softmax(s, x.sinks())
    weights = x.drop(weights)
    keys = s.shape[3]
    blocked = bits > 0 and settings["blocked"]
    block = settings["blocksize_k"] if blocked else keys
    out = 0.0
    for begin in range(0, keys, block):
        p, v = weights[..., begin:begin + block], x.v[:, begin:begin + block]
        if bits == 0:
            out = out + np.einsum("bhts,bshd->bthd", p, v)
            continue
        p, p_step, same = cut(p, 3, bits, 2 * off)
        v, v_step, _ = cut(v, 1, bits)
        clear &= same
        out = out + (np.einsum("bhts,bshd->bthd", p, v)
                     * p_step.transpose(0, 2, 1, 3)
                     * v_step)
    return out, clear.transpose(0, 2, 1), off


# Rows of narrow cases, and those that were sure.
ROWS = {"narrow": 0, "sure": 0}


def check_narrow(tensors, settings, layout, result, dtype):
    own, clear, off = narrow_attention(tensors, settings, layout)
    unit = {"F32": 2.0 ** -24, "F16": 2.0 ** -11, "BF16": 2.0 ** -8}[dtype]
    size = float(np.abs(own).max(initial=1.0))
    size = max(size, float(np.abs(tensors["value"]).max(initial=0.0)))
    wrong = (np.abs(result - own).max(axis=3) > (unit + 4 * off) * size) & clear
    ROWS["narrow"] += clear.size
    ROWS["sure"] += int(clear.sum())
    if wrong.any():
        return f"narrow rows {np.argwhere(wrong)[:3].tolist()} are off"
    return None


def check_case(path):
    """What is wrong with a case, or nothing."""
    with open(path) as file:
        document = json.load(file)
    case, settings = document["case"], document["settings"]
    dtypes = {}
    tensors = read_safetensors(path[:-len(".json")] + ".safetensors", dtypes)
    layout = case["layout"]
    want = computed_in(settings, dtypes["query"], dtypes["key"])
    if dtypes["output"] != want:
        return f"the output is {dtypes['output']}, computed in {want}"
    tensors = dict(in_runtime_dtype(tensors, settings))
    if case["kv_dtype"] == "I8":  # written to pages after that
        tensors.update({name: from_int8(tensors[name], want)
                        for name in ("key", "value")})
    own = attention(tensors, settings, layout)
    reference = tensors["reference"]
    if own.shape != reference.shape:
        return f"reference {reference.shape}, recomputed {own.shape}"
    size = max(1.0, float(np.abs(own).max(initial=0.0)))
    off = float(np.abs(own - reference).max(initial=0.0))
    if not off <= 1e-11 * size:
        return f"the stated reference is off by {off}"
    result = to_bthd(tensors["output"], layout)
    error = float(np.abs(result - own).max(initial=0.0))
    if case["status"] == "pass" and not error <= case["tolerance"]:
        return f"the result is off by {error}, tolerance {case['tolerance']}"
    if abs(error - case["max_abs_error"]) > 1e-11 * size:
        return f"error {error}, stated {case['max_abs_error']}"
    if settings["dot_bits"] > 0 or settings["softmax_dtype"] != "F32":
        settings["blocked"] = case["operation"] == "flash_attn2"
        return check_narrow(tensors, settings, layout, result,
                            dtypes["output"])
    return None


def cases_in(folder):
    return [path[:-len(".safetensors")] + ".json"
            for path in sorted(glob.glob(os.path.join(
                glob.escape(folder), "*.safetensors")))]


def random_settings(rng, path):
    """A settings file of random values, written where they go."""
    def pick(**choices):
        return {key: rng.choice(values) for key, values in choices.items()
                if rng.random() < 0.5}

    blocks = {"blocksize_q": [1, 3, 64], "blocksize_k": [1, 2, 5, 512]}
    document = {
        "defaults": pick(softmax_scale=[0.1, 0.5], soft_cap=[0, 2, 30],
                         dropout=[0, 0.2], **blocks),
        "operations": {
            "ring": pick(order=["contiguous", "zig_zag", "striped"],
                         soft_cap=[5], scan_ring_attention=[True, False]),
            "blocksparse": pick(
                block_mask=["causal", "sliding", "global", "custom"],
                global_blocks=[0, 2], **blocks),
            "vanilla": pick(dot_bits=[0, 8], runtime_dtype=["float32", "F16"],
                            softmax_dtype=["float32", "bfloat16"]),
            "flash_decoding": pick(merge=["all_reduce", "all_gather"]),
            "unified_attention": pick(page_size=[1, 3, 64])}}
    with open(path, "w") as file:
        json.dump(document, file)  # YAML too


def random_run(rng, folder):
    """Arguments of a verification of random sizes."""
    dp, sp, tp = (rng.choice([1, 2]) for _ in range(3))
    key_heads = tp * rng.choice([1, 2])
    heads = key_heads * rng.choice([1, 2, 4]) * sp
    length = 4 * sp * rng.choice([1, 2, 3])
    queries = rng.choice([length, length // 2])
    sizes = (f"heads={heads},kv_heads={key_heads},head_dim="
             f"{rng.choice([4, 8, 16])},batch={dp * rng.choice([1, 2])},"
             f"q_len={queries},kv_len={length}")
    return ["verify", "--no-project", "--mesh", f"dp:{dp},sp:{sp},tp:{tp}",
            "--attention", sizes, "--seed", str(rng.randrange(2 ** 32)),
            "--layout", rng.choice(["bthd", "bhtd", "thd"]),
            "--mode", rng.choice(["train", "prefill", "decode"]),
            "--dtype", rng.choice(["float32", "bfloat16", "float16"]),
            "--kv-dtype", rng.choice(["float32", "bfloat16", "float16", "int8"]),
            "--settings", os.path.join(os.path.dirname(folder), "s.yaml"),
            "--features", "all", "--full", "--dump", folder]


@unittest.skipIf(np is None, "numpy is not installed")
class Recompute(unittest.TestCase):
    def check_folder(self, folder):
        paths = cases_in(folder)
        for path in paths:
            with self.subTest(case=os.path.basename(path)):
                with open(path) as file:
                    text = file.read()
                self.assertIsNone(check_case(path), text)
        return len(paths)

    def test_random_cases_with_every_feature(self):
        program = os.environ["SHARDC_DUMP_RANDOM"]
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([program, folder, str(SEED), str(CASES)],
                           check=True)
            self.assertEqual(self.check_folder(folder), CASES)
        if CASES >= 200:
            self.assertGreater(ROWS["narrow"], 500)
            self.assertGreater(ROWS["sure"], 0.5 * ROWS["narrow"])

    def test_what_the_command_dumps(self):
        rng = random.Random(SEED)
        seen = 0
        for _ in range(3):
            with tempfile.TemporaryDirectory() as top:
                folder = os.path.join(top, "dump")
                random_settings(rng, os.path.join(top, "s.yaml"))
                done = subprocess.run(
                    [os.environ["SHARDC_BIN"]] + random_run(rng, folder),
                    capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                seen += self.check_folder(folder)
        self.assertGreater(seen, 20)

    def test_a_wrong_result_is_noticed(self):
        program = os.environ["SHARDC_DUMP_RANDOM"]
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([program, folder, "3", "1"], check=True)
            (path,) = cases_in(folder)
            self.assertIsNone(check_case(path))
            with open(path) as file:
                document = json.load(file)
            document["settings"]["scale"] *= 1.01
            with open(path, "w") as file:
                json.dump(document, file)
            self.assertIsNotNone(check_case(path))


if __name__ == "__main__":
    if len(sys.argv) == 2 and os.path.isdir(sys.argv[1]):
        wrong = 0
        for case_path in cases_in(sys.argv[1]):
            problem = check_case(case_path)
            if problem:
                wrong += 1
                print(os.path.basename(case_path), problem)
        print(f"{len(cases_in(sys.argv[1]))} cases, {wrong} wrong")
        sys.exit(1 if wrong else 0)
    unittest.main()
