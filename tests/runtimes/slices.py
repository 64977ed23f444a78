"""The elements that a slice of a tensor holds, by arithmetic."""

import itertools
import math


def elements(shape, offset, shard_shape):
    """Row-major numbers of the elements in a slice, in its own order."""
    strides = [math.prod(shape[i + 1:]) for i in range(len(shape))]
    ranges = [range(b * s, (b + n) * s, s)
              for b, n, s in zip(offset, shard_shape, strides)]
    return [sum(at) for at in itertools.product(*ranges)]


def disagreements(case, answer, tensors):
    """Devices that hold other elements than the recorded ones."""
    return [device for device, (offset, (shape, held))
            in enumerate(zip(answer["offsets"], tensors, strict=True))
            if shape != answer["shard_shape"] or
            held != elements(case["shape"], offset, shape)]
