"""The arrays of a model, whatever it is made of, with their paths.

A tree is walked without its framework where it is made of dicts, lists and
tuples; others are read by the attributes that they are known to have.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Callable

from shardc.arrays import is_array, is_nnx_object, key_text

# As safetensors writes data types; others keep the framework's name.
_DTYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
    "complex64": "C64",
}


@dataclasses.dataclass(frozen=True)
class Leaf:
    path: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    value: Any
    # The box of Flax linen or the variable of flax.nnx around the array.
    holder: Any = None


def dtype_text(dtype: Any) -> str:
    """`BF16` of a NumPy, JAX or PyTorch data type."""
    name = getattr(dtype, "name", None) or str(dtype).rpartition(".")[2]
    return _DTYPES.get(str(name), str(name))


def dtype_name(text: str) -> str:
    """`bfloat16` of `BF16`, as NumPy and JAX call it."""
    for name, short in _DTYPES.items():
        if short == text:
            return name
    raise ValueError(f"no framework's data type is {text}")


def _leaf(path: tuple[str, ...], x: Any) -> Leaf:
    return Leaf(path, tuple(int(n) for n in x.shape), dtype_text(x.dtype), x)


def parameters_of(state: Any) -> Any:
    """The model or the parameters of a train state; anything else as it is."""
    for members in (("params", "opt_state"), ("params", "tx"), ("model", "opt_state")):
        if isinstance(state, Mapping) and all(m in state for m in members):
            return state[members[0]]
        if not isinstance(state, Mapping) and all(hasattr(state, m) for m in members):
            return getattr(state, members[0])
    return state


def of_library(kind: type, library: str) -> bool:
    """Whether a class, or one that it derives from, is of this library."""
    return any(
        base.__module__ == library or base.__module__.startswith(library + ".")
        for base in kind.__mro__
    )


def is_holder(x: Any) -> bool:
    """Whether it is a box of Flax linen, or a variable of flax.nnx."""
    kind = type(x)
    return hasattr(kind, "get_metadata") or (
        hasattr(kind, "unbox") and hasattr(x, "names")
    )


def leaves(
    model: Any,
    path: tuple[str, ...] = (),
    unknown: Callable[[tuple[str, ...], Any], None] = lambda path, leaf: None,
) -> Iterator[Leaf]:
    """Every array of the model, in its order; of a module of PyTorch or of
    flax.nnx its parameters. `unknown` is called for leaves that are no arrays."""
    if is_holder(model):
        held = model.get_value() if hasattr(model, "get_value") else model.value
        for leaf in leaves(held, path, unknown):
            yield dataclasses.replace(leaf, holder=model)
    elif is_array(model):
        yield _leaf(path, model)
    elif hasattr(model, "named_parameters"):
        for name, parameter in model.named_parameters():
            yield _leaf((*path, *name.split(".")), parameter)
    elif of_library(type(model), "keras") and hasattr(model, "weights"):
        for variable in model.weights:
            yield _leaf((*path, *variable.path.split("/")), variable)
    elif isinstance(model, Mapping):
        for key, value in model.items():
            yield from leaves(value, (*path, str(key)), unknown)
    elif isinstance(model, tuple) and hasattr(model, "_fields"):
        for key, value in zip(model._fields, model):
            yield from leaves(value, (*path, key), unknown)
    elif isinstance(model, (list, tuple)):
        for index, value in enumerate(model):
            yield from leaves(value, (*path, str(index)), unknown)
    elif is_nnx_object(model):
        yield from _jax_leaves(_nnx().state(model, _nnx().Param), path, unknown)
    elif model is not None and "jax" in sys.modules:
        yield from _jax_leaves(model, path, unknown)
    elif model is not None:
        unknown(path, model)


def other_leaves(model: Any) -> Iterator[Leaf]:
    """What a plan may contain of a module besides its parameters: buffers, and tied
    parameters by their second names; of flax.nnx all other state."""
    if hasattr(model, "named_parameters") and hasattr(model, "named_buffers"):
        for name, parameter in model.named_parameters(remove_duplicate=False):
            yield _leaf(tuple(name.split(".")), parameter)
        for name, buffer in model.named_buffers(remove_duplicate=False):
            yield _leaf(tuple(name.split(".")), buffer)
    elif is_nnx_object(model):
        yield from _jax_leaves(_nnx().state(model), (), lambda path, leaf: None)


def _nnx() -> Any:
    return sys.modules["flax.nnx"]


def _jax_leaves(
    model: Any, path: tuple[str, ...], unknown: Callable[[tuple[str, ...], Any], None]
) -> Iterator[Leaf]:
    import jax

    # Variables of flax.nnx are leaves by their attribute `value`.
    variables = type(model).__module__.partition(".")[0] == "flax"
    flat = jax.tree_util.tree_flatten_with_path(model, is_leaf=is_holder)[0]
    for keys, value in flat:
        if variables and keys and getattr(keys[-1], "name", "") == "value":
            keys = keys[:-1]
        at = (*path, *map(key_text, keys))
        if is_holder(value):
            yield from leaves(value, at, unknown)
        elif is_array(value):
            yield _leaf(at, value)
        else:
            unknown(at, value)
