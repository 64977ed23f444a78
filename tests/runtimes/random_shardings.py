"""Random meshes, shapes and specs, from a seed: the inputs of the runtimes.

A mesh has 1 to 5 axes, sizes 1 among them, and up to 64 devices; a spec uses
some of its axes, in any order and grouping; every dimension divides.
"""

import itertools
import math
import random

AXIS_NAMES = ["dp", "fsdp", "tp", "sp", "ep", "pp", "data", "model", "x", "y",
              "stage", "replica"]
MAX_DEVICES = 64
MAX_ELEMENTS = 1 << 15


def random_mesh(rng):
    """{axis: size}, in order; at most 64 devices."""
    axes = rng.randint(1, 5)
    sizes = [1] * axes
    for _ in range(rng.choice([0, 1, 2, 3, 4, 5, 6, 6, 6])):
        factor = rng.choice([2, 2, 2, 2, 3, 3, 5, 7])
        if math.prod(sizes) * factor <= MAX_DEVICES:
            sizes[rng.randrange(axes)] *= factor
    return dict(zip(rng.sample(AXIS_NAMES, axes), sizes))


def groups_over(rng, axes, rank):
    """The axes dealt over `rank` dimensions, each group in any order."""
    groups = [[] for _ in range(rank)]
    for axis in rng.sample(axes, len(axes)):
        groups[rng.randrange(rank)].append(axis)
    return groups


def spec_of(rng, groups):
    spec = [None if not g else g[0] if len(g) == 1 else g for g in groups]
    while spec and spec[-1] is None and rng.random() < 0.5:
        spec.pop()
    return spec


def shape_for(rng, groups, mesh):
    parts = [math.prod(mesh[axis] for axis in group) for group in groups]
    while True:
        shape = [n * rng.choice([1, 1, 2, 2, 3, 4, 5, 8]) for n in parts]
        if math.prod(shape) <= MAX_ELEMENTS:
            return shape


def random_case(rng, mesh=None):
    mesh = mesh or random_mesh(rng)
    rank = rng.choice([0, 1, 1, 2, 2, 2, 2, 3, 3, 4])
    used = [axis for axis in mesh if rng.random() < 0.75]
    groups = groups_over(rng, used, rank) if rank else []
    return {"mesh": mesh, "shape": shape_for(rng, groups, mesh),
            "spec": spec_of(rng, groups)}


def permuted_cases():
    """Every order of three and of four axes in one group."""
    for mesh in ({"a": 2, "b": 3, "c": 2}, {"a": 2, "b": 2, "c": 2, "d": 3}):
        for order in itertools.permutations(mesh):
            yield {"mesh": mesh, "shape": [math.prod(mesh.values()), 2],
                   "spec": [list(order)]}


def shardings(count, seed):
    """`count` legal cases, the permuted ones first."""
    rng = random.Random(seed)
    cases = list(permuted_cases())
    while len(cases) < count:
        cases.append(random_case(rng))
    return cases[:count]


def break_case(rng, case, kind):
    """The case with one thing wrong with it, or nothing where none can be."""
    spec = [list(e) if isinstance(e, list) else e for e in case["spec"]]
    shape = list(case["shape"])
    sharded = [i for i, e in enumerate(spec) if e]
    if kind == "too_long":
        spec += [None] * (len(shape) + 1 - len(spec))
    elif not sharded:
        return None
    elif kind == "indivisible":
        dim = rng.choice(sharded)
        group = spec[dim] if isinstance(spec[dim], list) else [spec[dim]]
        parts = math.prod(case["mesh"][axis] for axis in group)
        if parts == 1:
            return None
        shape[dim] += rng.randint(1, parts - 1)
    elif kind == "unknown_axis":
        spec[rng.choice(sharded)] = "nowhere"
    elif kind == "repeated_axis":
        dim = rng.choice(sharded)
        group = spec[dim] if isinstance(spec[dim], list) else [spec[dim]]
        spec[dim] = group + [rng.choice(group)]
    return {"mesh": case["mesh"], "shape": shape, "spec": spec, "wrong": kind}


def refusals(count, seed):
    """Cases that are not legal, of each kind in turn."""
    rng = random.Random(seed)
    kinds = itertools.cycle(["indivisible", "unknown_axis", "repeated_axis",
                             "too_long"])
    cases = []
    for kind in kinds:
        if len(cases) == count:
            return cases
        broken = None
        while broken is None:
            broken = break_case(rng, random_case(rng), kind)
        cases.append(broken)


def slice_meshes(count, seed):
    """Meshes of several slices: sizes inside one, and between them."""
    rng = random.Random(seed)
    cases = []
    while len(cases) < count:
        inner = list(random_mesh(rng).values())
        outer = [rng.choice([1, 1, 2, 3, 4]) for _ in inner]
        devices = math.prod(inner) * math.prod(outer)
        if math.prod(outer) > 1 and devices <= MAX_DEVICES:
            cases.append({"inner": inner, "outer": outer})
    return cases


def random_sliced_mesh(rng):
    """{axis: size} and the number of slices along each axis: two or more in
    all, along one axis or several."""
    while True:
        mesh = random_mesh(rng)
        outer = [rng.choice([n for n in range(1, size + 1) if size % n == 0])
                 for size in mesh.values()]
        if math.prod(outer) > 1:
            return mesh, outer
