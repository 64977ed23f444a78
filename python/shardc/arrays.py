"""The spec of every array of a JAX tree: a model's parameters, or a train state.

`shardc export jax` copies this file, from the marked line on, into each module
that it writes, so that the package and those modules shard a tree in the same
way. An array belongs to the parameter whose name its path ends with, because
optimizer states hold trees of the same structure as the parameters:

    params/up/kernel             [8, 16]  ->  up/kernel, dimensions 0 and 1
    opt_state/0/mu/up/kernel     [8, 16]  ->  up/kernel, dimensions 0 and 1
    opt_state/0/v_row/up/kernel  [8]      ->  up/kernel, dimension 0
    opt_state/0/count            []       ->  no parameter: replicated
"""

import itertools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, NamedTuple, Optional

# Copied into exported modules from here on.


class Array(NamedTuple):
    """An array of a tree. `strict` is false where its container is known to be
    no parameter, such as the statistics of flax.nnx."""

    path: tuple[str, ...]
    shape: tuple[int, ...]
    strict: bool = True


class Owner(NamedTuple):
    """The parameter that an array belongs to, and for each dimension of the
    array the parameter's, or None. Several `ways` are equally likely."""

    name: str
    ways: tuple[tuple[Optional[int], ...], ...]

    def spec(self, spec: Sequence[Any]) -> tuple[Any, ...]:
        """The array's spec from its parameter's; () where ways disagree."""
        full = (*spec, *[None] * 32)
        out = {tuple(None if d is None else full[d] for d in w) for w in self.ways}
        return out.pop() if len(out) == 1 else ()


def _ways(shape: Sequence[int], of: Sequence[int]) -> tuple[Any, ...]:
    """The ways to take `shape` from the dimensions of a parameter, in order:
    fewer of them (factored moments), or all of them and more (histories)."""
    if len(shape) == len(of):
        if any(n not in (m, 1) for n, m in zip(shape, of)):
            return ()
        return (tuple(d if n == of[d] else None for d, n in enumerate(shape)),)
    out: list[tuple[Optional[int], ...]] = []
    if len(shape) < len(of):
        for taken in itertools.combinations(range(len(of)), len(shape)):
            if all(n == of[d] for n, d in zip(shape, taken)):
                out.append(taken)
    else:
        for at in itertools.combinations(range(len(shape)), len(of)):
            if all(shape[d] == n for d, n in zip(at, of)):
                out.append(
                    tuple(at.index(d) if d in at else None for d in range(len(shape)))
                )
    return tuple(out)


class Arrays:
    """The parameters of a plan, found by the paths and shapes of arrays."""

    def __init__(
        self,
        shapes: Mapping[str, Optional[Sequence[int]]],
        separator: str,
        near: Callable[[str], str] = lambda name: "",
        unknown: type[Exception] = KeyError,
        unlike: type[Exception] = ValueError,
    ) -> None:
        self._shapes = shapes
        self._separator = separator
        self._near = near
        self._unknown = unknown
        self._unlike = unlike
        self._names = {tuple(name.split(separator)): name for name in shapes}
        self._longest = max(map(len, self._names), default=0) + 1

    def _parts(self, path: Sequence[str]) -> tuple[str, ...]:
        return tuple(part for key in path for part in key.split(self._separator))

    def _known(self, parts: tuple[str, ...]) -> Optional[str]:
        """A name by its parts. A `params` in front may be there or not."""
        found = self._names.get(parts)
        if found is None and parts[:1] == ("params",):
            found = self._names.get(parts[1:])
        return self._names.get(("params", *parts)) if found is None else found

    def name_at(self, path: Sequence[str]) -> Optional[str]:
        """The name of a whole path. A `params` in front, and a `value` at the end
        (of variables of flax.nnx), may be there or not."""
        parts = self._parts(path)
        found = self._known(parts)
        if found is None and parts[-1:] == ("value",):
            found = self._known(parts[:-1])
        return found

    def _inside(self, parts: tuple[str, ...]) -> Optional[tuple[int, int, str]]:
        """Where a path holds a name, as (first, past the last, name): the one
        that ends last, and the longest of those."""
        for end in range(len(parts), 0, -1):
            for start in range(max(0, end - self._longest), end):
                name = self._known(parts[start:end])
                if name is not None:
                    return start, end, name
        return None

    def owners(
        self, arrays: Sequence[Array], replicate: bool = False
    ) -> list[Optional[Owner]]:
        """The owner of each array, or None where it is replicated: scalars, and
        state next to the parameters. Among the parameters an array of another
        shape than in the plan is an error, and unless `replicate` is given so is
        an array that the plan lacks."""
        parts = [self._parts(array.path) for array in arrays]
        found = [self._inside(path) for path in parts]
        exact = [
            one is not None and self._is_shape(one[2], array.shape)
            for one, array in zip(found, arrays)
        ]
        # Where the copies of the parameters' tree are.
        roots = set()
        for path, one, same, array in zip(parts, found, exact, arrays):
            if one and same and math.prod(array.shape) > 1:
                start = one[0] + (path[one[0]] == "params")
                roots.add(path[:start])
        return [
            self._owner(array, path, one, same, roots, replicate)
            for array, path, one, same in zip(arrays, parts, found, exact)
        ]

    def _is_shape(self, name: str, shape: Sequence[int]) -> bool:
        known = self._shapes[name]
        return known is None or tuple(known) == tuple(shape)

    def _owner(
        self,
        array: Array,
        path: tuple[str, ...],
        found: Optional[tuple[int, int, str]],
        same: bool,
        roots: set[tuple[str, ...]],
        replicate: bool,
    ) -> Optional[Owner]:
        shape = array.shape
        name = found[2] if found else None
        if name is not None and same:
            return Owner(name, (tuple(range(len(shape))),))
        if array.strict and name is not None and self.name_at(array.path) == name:
            raise self._misfit(path, name, shape)
        # Optimizers put arrays of one element where they keep nothing.
        if not shape or (name is not None and math.prod(shape) <= 1):
            return None
        if array.strict and any(path[:n] in roots for n in range(len(path))):
            if name is not None:
                raise self._misfit(path, name, shape)
            if not replicate:
                raise self._missing(path)
        known = self._shapes[name] if name is not None else None
        ways = _ways(shape, known) if known is not None else ()
        if name is not None and ways:
            return Owner(name, ways)
        if array.strict and not (roots or name or replicate):
            raise self._missing(path)
        return None

    def _misfit(
        self, path: Sequence[str], name: str, shape: Sequence[int]
    ) -> Exception:
        shown = self._separator.join(path)
        known = list(self._shapes[name] or ())
        return self._unlike(f"{shown} is {known} in the plan and {list(shape)} here")

    def _missing(self, path: Sequence[str]) -> Exception:
        shown = self._separator.join(path)
        near = self._near(shown)
        return self._unknown(
            f"the plan has no parameter {shown}"
            + (f"; did you mean {near}?" if near else "")
            + '; pass unmatched="replicate" to replicate what the plan lacks'
        )


def key_text(key: Any) -> str:
    """The text of one key of a path of jax.tree_util."""
    for member in ("key", "idx", "name"):
        if hasattr(key, member):
            return str(getattr(key, member))
    return str(key)


def is_array(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")


def is_nnx_object(x: Any) -> bool:
    """Whether it is a module or an optimizer of flax.nnx."""
    nnx: Any = sys.modules.get("flax.nnx")
    if nnx is None or isinstance(x, nnx.State):
        return False
    return isinstance(x, (nnx.Module, getattr(nnx, "Pytree", nnx.Module)))


def _is_random(leaf: Any) -> bool:
    """Whether an array holds keys of jax.random, typed or as raw words."""
    if str(leaf.dtype).startswith("key<"):
        return True
    return str(leaf.dtype) == "uint32" and tuple(leaf.shape[-1:]) in ((2,), (4,))


def _strict(tree: Any) -> Iterator[bool]:
    """For each leaf whether it may be a parameter: those of flax.nnx know."""
    import jax

    nnx: Any = sys.modules.get("flax.nnx")
    if nnx is None:
        return itertools.repeat(True)

    def is_variable(x: Any) -> bool:
        return isinstance(x, nnx.Variable)

    out = []
    for leaf in jax.tree_util.tree_leaves(tree, is_leaf=is_variable):
        strict = not is_variable(leaf) or isinstance(leaf, nnx.Param)
        out += [strict] * len(jax.tree_util.tree_leaves(leaf))
    return iter(out)


def map_arrays(
    arrays: Arrays,
    tree: Any,
    sharding: Callable[[Optional[Owner]], Any],
    use: Callable[[list[Any], list[Any]], list[Any]],
    other: Callable[[Any], Any],
    unmatched: str = "error",
) -> Any:
    """The tree with `use(arrays, shardings)` in place of its arrays and
    `other(leaf)` in place of what is no array."""
    import jax

    if unmatched not in ("error", "replicate"):
        raise ValueError(f'unmatched is {unmatched!r}: write "error" or "replicate"')
    if is_nnx_object(tree):
        nnx: Any = sys.modules["flax.nnx"]
        graph, state = nnx.split(tree)
        made = map_arrays(arrays, state, sharding, use, other, unmatched)
        return nnx.merge(graph, made)
    flat, form = jax.tree_util.tree_flatten_with_path(tree)
    strict = _strict(tree)
    places, known = [], []
    for place, ((keys, leaf), may_be) in enumerate(zip(flat, strict)):
        if is_array(leaf):
            may_be = may_be and not _is_random(leaf)
            shape = tuple(int(n) for n in leaf.shape)
            places.append(place)
            known.append(Array(tuple(map(key_text, keys)), shape, may_be))
    owners = arrays.owners(known, unmatched == "replicate")
    used = use(
        [flat[place][1] for place in places],
        [sharding(owner) for owner in owners],
    )
    out = [other(leaf) for _, leaf in flat]
    for place, one in zip(places, used):
        out[place] = one
    return jax.tree_util.tree_unflatten(form, out)


def put(leaves: list[Any], shardings: list[Any]) -> list[Any]:
    """The arrays on the devices of their shardings; a ShapeDtypeStruct, which
    has no data, gets its sharding."""
    import jax

    out = list(leaves)
    real = []
    for place, (leaf, sharding) in enumerate(zip(leaves, shardings)):
        if isinstance(leaf, jax.ShapeDtypeStruct):
            out[place] = abstract(leaf, sharding)
        else:
            real.append(place)
    moved = jax.device_put(
        [leaves[place] for place in real], [shardings[place] for place in real]
    )
    for place, array in zip(real, moved):
        out[place] = array
    return out


def abstract(leaf: Any, sharding: Any) -> Any:
    """The array's ShapeDtypeStruct, with a sharding."""
    import jax

    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def check_mesh(
    mesh: Any, axes: Mapping[str, int], wrong: type[Exception] = ValueError
) -> None:
    """Raises an error where the mesh is not the plan's: with other sizes or
    another order of axes, devices would hold other slices than planned. Axes of
    size 1 that the plan lacks do not matter."""
    given = {n: s for n, s in mesh.shape.items() if s != 1 or n in axes}
    if list(given.items()) != list(axes.items()):
        shown, wanted = (
            " ".join(f"{name}={size}" for name, size in one.items()) or "no axes"
            for one in (given, axes)
        )
        raise wrong(
            f"the mesh is {shown} and the plan's is {wanted}: make the mesh"
            " from the plan, or compile a plan for this mesh"
        )


def nested(
    values: Mapping[str, Any],
    separator: str,
    remedy: str,
    wrong: type[Exception] = ValueError,
) -> dict[str, Any]:
    """Nested dicts of the values, by the parts of their names. A name that is
    also the beginning of another one is an error."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        *folders, last = name.split(separator)
        at = out
        for folder in folders:
            at = at.setdefault(folder, {})
            if not isinstance(at, dict):
                raise wrong(f"{name} is below a parameter: {remedy}")
        if last in at:
            raise wrong(f"other parameters are below {name}: {remedy}")
        at[last] = value
    return out
