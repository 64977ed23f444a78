"""Attention with cut operands and a softmax in 16 bits, with numpy.

Each rounding that a small error of float32 could change makes its row one
that is not sure, and is left out of the comparison.
"""

from dense_numpy import Inputs, np, rounded, softmax


def cut(x, axis, bits, slack=0.0):
    """Integers and steps of rows along an axis, and which rows keep their
    integers when each number changes by the relative slack."""
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
    size = np.abs(x.scale) * sizes * (x.q.shape[3] + 8)
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
