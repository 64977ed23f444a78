"""Numbers that follow from a name, so that no record needs to hold them:
steps_test.cc and xla_test.cc draw the same."""

import numpy

MASK = (1 << 64) - 1


def scrambled(value):
    """SplitMix64's step, of an array."""
    with numpy.errstate(over="ignore"):
        value = value + numpy.uint64(0x9E3779B97F4A7C15)
        value = (value ^ (value >> numpy.uint64(30))) * numpy.uint64(
            0xBF58476D1CE4E5B9)
        value = (value ^ (value >> numpy.uint64(27))) * numpy.uint64(
            0x94D049BB133111EB)
        return value ^ (value >> numpy.uint64(31))


def units(name, count):
    """`count` numbers in [0, 1)."""
    key = 0xCBF29CE484222325
    for byte in name.encode():
        key = ((key ^ byte) * 0x100000001B3) & MASK
    with numpy.errstate(over="ignore"):
        at = numpy.arange(count, dtype=numpy.uint64) + numpy.uint64(key)
    return (scrambled(at) >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53


def weights(name, shape):
    """Numbers in [-1/2, 1/2); a vector's are 1/2 more, so that norms scale."""
    unit = units(name, int(numpy.prod(shape, dtype=numpy.int64)))
    return (unit if len(shape) == 1 else unit - 0.5).reshape(shape)
