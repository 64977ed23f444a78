"""What other systems' texts mean, read without shardc: which block of a
tensor each device holds, as index ranges per dimension."""

import itertools
import math
import re


def positions(sizes):
    """Coordinates of every device, in row-major order."""
    return list(itertools.product(*(range(size) for size in sizes)))


def blocks(shape, parts, index):
    """Ranges of one block, by how many parts each dimension has and which part it is."""
    return [(i * (n // p), (i + 1) * (n // p))
            for n, p, i in zip(shape, parts, index)]


def of_spec(mesh, shape, spec):
    """By device, what a plan's spec gives it."""
    groups = [[e] if isinstance(e, str) else e or [] for e in spec]
    groups += [[]] * (len(shape) - len(groups))
    parts = [math.prod(mesh[a] for a in g) for g in groups]
    held = []
    for at in positions(mesh.values()):
        where = dict(zip(mesh, at))
        index = []
        for group in groups:
            i = 0
            for axis in group:
                i = i * mesh[axis] + where[axis]
            index.append(i)
        held.append(blocks(shape, parts, index))
    return held


def ints(text):
    return [int(n) for n in text.split(",") if n]


def unravel(number, sizes):
    index = []
    for size in reversed(sizes):
        index.insert(0, number % size)
        number //= size
    return index


def tile_devices(text, count):
    """The device numbers of an HLO text in the order of its tiles."""
    iota = re.search(r"<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text)
    if not iota:
        listed = re.search(r"\]([\d,]+)(?: last|\})", text)
        return ints(listed.group(1))
    sizes = ints(iota.group(1))
    order = ints(iota.group(2)) if iota.group(2) else range(len(sizes))
    strides = [math.prod(sizes[i + 1:]) for i in range(len(sizes))]
    devices = [sum(i * strides[axis] for i, axis in zip(index, order))
               for index in positions([sizes[axis] for axis in order])]
    assert sorted(devices) == list(range(count))
    return devices


def of_hlo(text, count, shape):
    """Of the tiled forms of HloSharding."""
    if text == "{replicated}":
        return [[(0, n) for n in shape]] * count
    dims = ints(re.search(r"devices=\[([\d,]+)\]", text).group(1))
    held = [None] * count
    for tile, device in enumerate(tile_devices(text, count)):
        index = unravel(tile, dims)
        held[device] = blocks(shape, dims[:len(shape)], index[:len(shape)])
    return held


def of_groups(mesh, shape, groups):
    """Of named axes per dimension, the first of a group most significant."""
    return of_spec(mesh, shape, groups)


def by_device(held, devices):
    """By device number, what is listed in the order of the mesh."""
    out = [None] * len(held)
    for block, device in zip(held, devices or range(len(held)), strict=True):
        out[device] = block
    return out


def of_hlo_mesh(text, shape):
    """Of the form that names axes, which may list its devices."""
    listed = re.search(r", device_ids=\((\[.*?)\)(?=, [\[r])", text)
    if listed:
        text = text.replace(listed.group(0), "")
        count = math.prod(map(int, re.findall(r"=(\d+)", text)))
        devices = tile_devices("<=" + listed.group(1), count)
        return by_device(of_hlo_mesh(text, shape), devices)
    head, _, dims = text.partition("], ")
    mesh = {name: int(size)
            for name, size in re.findall(r"'(\w+)'=(\d+)", head)}
    groups = [re.findall(r"'(\w+)'", group)
              for group in re.findall(r"\{(.*?)\}", dims.rstrip("}]") + "}")]
    if dims == "replicated}":
        groups = []
    return of_groups(mesh, shape, groups)


def of_shardy(mesh_text, text, shape):
    """Of `sdy.mesh` and one `#sdy.sharding`."""
    mesh = {name: int(size)
            for name, size in re.findall(r'"(\w+)"=(\d+)', mesh_text)}
    dims = re.search(r"\[(.*)\]", text).group(1)
    groups = [re.findall(r'"(\w+)"', group)
              for group in re.findall(r"\{(.*?)\}", dims)]
    assert len(groups) == len(shape)
    listed = re.search(r"device_ids=\[(.*?)\]", mesh_text)
    return by_device(of_groups(mesh, shape, groups),
                     listed and ints(listed.group(1)))


def of_orbax(sharding, shape):
    """Of the JSON of one parameter in `_sharding`."""
    mesh = dict(zip(sharding["axis_names"], sharding["shape"], strict=True))
    grid = sharding.get("device_mesh", {}).get("mesh")
    while grid and isinstance(grid[0], list):
        grid = [one for part in grid for one in part]
    return by_device(of_spec(mesh, shape, sharding["partition_spec"]),
                     grid and [one["id"] for one in grid])


def sliced_order(mesh, outer):
    """The device numbers in row-major order of a mesh whose axes are the given
    number of slices each: slices count before the devices in them."""
    inner = [size // n for size, n in zip(mesh.values(), outer, strict=True)]
    order = []
    for at in positions(mesh.values()):
        number = 0
        digits = [(i // n, s) for i, n, s in zip(at, inner, outer)]
        digits += [(i % n, n) for i, n in zip(at, inner)]
        for digit, size in digits:
            number = number * size + digit
        order.append(number)
    return order


def of_dtensor(sizes, placements, shape):
    """Of placements, applied one mesh axis after the other to what the ranks
    hold by then: index lists, as a strided part is in several pieces."""
    held = {at: [list(range(n)) for n in shape] for at in positions(sizes)}
    for axis, placement in enumerate(placements):
        kind = re.fullmatch(r"(R|_?S)(?:\((\d+)(?:, (\d+))?\))?", placement)
        if kind.group(1) == "R":
            continue
        dim, factor = int(kind.group(2)), int(kind.group(3) or 1)
        for at, lists in held.items():
            have, taken = lists[dim], []
            block = len(have) // factor
            piece = block // sizes[axis]
            for f in range(factor):
                begin = f * block + at[axis] * piece
                taken += have[begin:begin + piece]
            lists[dim] = taken
    ranges = []
    for at in positions(sizes):
        for one in held[at]:
            assert one == list(range(one[0], one[-1] + 1)), placements
        ranges.append([(one[0], one[-1] + 1) for one in held[at]])
    return ranges
