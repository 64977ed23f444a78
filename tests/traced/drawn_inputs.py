"""The numbers that a proof of a program draws for its inputs from a seed, as
src/exec/machine/random.cc (Philox) and src/verify/program/proof.cc have them."""

import numpy as np

from interpreter import DTYPES

MASK = (1 << 32) - 1


def philox(counter, key):
    """Philox 4x32-10 of arrays of counters."""
    counter = [np.asarray(one, np.uint64) for one in counter]
    for _ in range(10):
        a, b = (counter[i] * np.uint64(m) for i, m in ((0, 0xD2511F53), (2, 0xCD9E8D57)))
        low, high = ([one & np.uint64(MASK) for one in (a, b)],
                     [one >> np.uint64(32) for one in (a, b)])
        counter = [high[1] ^ counter[1] ^ np.uint64(key[0]), low[1],
                   high[0] ^ counter[3] ^ np.uint64(key[1]), low[0]]
        key = (key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK
    return counter


def words(number):
    return number & MASK, number >> 32


def split(key, index):
    low, high = words(index)
    out = philox((low, high, 0, 1), words(key))
    return int(out[0]) | int(out[1]) << 32


def uniform(key, count):
    at = np.arange(count, dtype=np.uint64)
    out = philox((at & np.uint64(MASK), at >> np.uint64(32), np.zeros_like(at),
                  np.zeros_like(at)), words(key))
    bits = out[0] | out[1] << np.uint64(32)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0 ** -53


def drawn(index, value, kind, below):
    """The numbers of an input, as src/verify/program/proof.cc draws them."""
    dtype = np.dtype(DTYPES[value["dtype"]])
    u = uniform(split(0, index), int(np.prod(value["shape"], dtype=np.int64)))
    if dtype.kind == "b":
        out = u < 0.5
    elif dtype.kind in "iu" and kind == "state":
        out = np.full_like(u, 3)
    elif dtype.kind in "iu" and kind == "param":
        out = np.floor(u * 254) - (127 if dtype.kind == "i" else 0)
    elif dtype.kind in "iu":
        out = np.floor(u * below)
    else:
        out = 0.01 + 0.19 * u if kind == "state" else 1.4 * u - 0.7
    return out.reshape(value["shape"]).astype(dtype)
