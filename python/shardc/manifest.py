"""python -m shardc.manifest MODULE:FACTORY -- a manifest of a live model.

FACTORY takes no arguments and returns one of these; nothing is allocated:

    a tree of arrays, or of jax.ShapeDtypeStruct
    a module of flax.nnx, equinox, Keras or PyTorch
    (module, example input...) of Flax linen; (transformed, example...) of Haiku
    a TrainState, of which the parameters are taken

It may also be a module's class that needs nothing but `rngs` (flax.nnx) or `key`
(equinox).

    python3 -m shardc.manifest my_models.llama:build > manifest.json
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import importlib
import inspect
import json
import os
import sys
from collections.abc import Mapping
from typing import Any, Callable

from shardc import files
from shardc.arrays import is_array, is_nnx_object
from shardc.tree import Leaf, leaves, of_library, parameters_of

SCHEMA = "shardc.manifest/v1"

# What Flax linen keeps next to `params`, which a plan replicates.
_STATE = ("batch_stats", "cache", "intermediates", "perturbations")


class ManifestError(ValueError):
    """The model has no manifest; the message has the call to write."""


def named(model: Any, separator: str = "/") -> tuple[dict[str, Leaf], str]:
    """The parameters of a model by name, and the separator of the names' parts.
    Two arrays with one name are an error."""
    model = parameters_of(model)
    _check_kind(model)
    if hasattr(model, "named_parameters"):
        separator = "."
    if isinstance(model, Mapping) and isinstance(model.get("params"), Mapping):
        model = {key: value for key, value in model.items() if key not in _STATE}
    out: dict[str, Leaf] = {}
    for leaf in leaves(model, unknown=_unknown):
        name = separator.join(leaf.path)
        if name in out:
            raise ManifestError(
                f"two parameters are named {name!r}, at the paths"
                f" {list(out[name].path)} and {list(leaf.path)}: rename one, or pass"
                " another separator (`--separator`)"
            )
        out[name] = leaf
    if not out:
        raise ManifestError(f"{_shown(model)} gives no arrays")
    return out, separator


def manifest(model: Any, separator: str = "/") -> dict[str, Any]:
    """The manifest of a model as JSON data, its names joined by `separator`."""
    found, separator = named(model, separator)
    params = {
        name: {"shape": list(leaf.shape), "dtype": leaf.dtype}
        for name, leaf in found.items()
    }
    made: dict[str, Any] = {"schema": SCHEMA, "params": params}
    # Readers infer the separator from the names, and refuse names that leave
    # it open.
    other = "/" if separator == "." else "."
    if any(other in name for name in params):
        made = {"schema": SCHEMA, "separator": separator, "params": params}
    return made


def from_model(
    module: Any, *args: Any, separator: str = "/", **kwargs: Any
) -> dict[str, Any]:
    """The manifest of a module, without allocating its arrays:

    from_model(Net(), jnp.ones((1, 8)))      a module of Flax linen and its inputs
    from_model(hk.transform(f), x)           a transformed function of Haiku
    from_model(Net, 64, rngs=nnx.Rngs(0))    a class of flax.nnx (`rngs` may be
                                             left out), equinox (so may `key`) or
                                             PyTorch, and its arguments
    from_model(net)                          a module, a tree or a TrainState

    Inputs may be jax.ShapeDtypeStruct. Keyword arguments go to the module."""
    return manifest(abstract(module, args, kwargs), separator)


def build(
    factory: Callable[[], Any],
    framework: str | None = None,
    seen: Callable[[Any], Any] = lambda made: made,
) -> Any:
    """What the factory makes, or initialises from (module, example...), without
    its arrays. `seen` gets the result before, and returns what to use in its
    place."""
    framework = framework or _framework()
    if framework == "none":
        return seen(factory())
    if framework == "torch":
        import torch

        with torch.device("meta"):
            return _built(factory, seen)
    if framework in ("jax", "nnx"):
        # A factory among modules of both may make one of PyTorch.
        torch_ = sys.modules.get("torch")
        with torch_.device("meta") if torch_ else contextlib.nullcontext():
            return _eval_shape(lambda: _built(factory, seen))
    return _built(factory, seen)


def _built(factory: Callable[[], Any], seen: Callable[[Any], Any]) -> Any:
    """The factory's result, with (module, example...) or (module, (example, ...))
    initialised."""
    if inspect.isclass(factory):
        return seen(_constructed(factory, (), {}))
    made = seen(factory())
    if isinstance(made, tuple) and made and _initialises(made[0]):
        return _with_inputs(made[0], made[1:])
    if isinstance(made, tuple) and made and _is_module(made[0]):
        return made[0]
    return made


def _with_inputs(module: Any, inputs: tuple[Any, ...]) -> Any:
    """The module initialised with (example, ...), or with ((example, ...),) and
    ((example, ...), {name: value}), as `init` would be called."""
    if inputs and type(inputs[0]) in (tuple, list):
        named = inputs[1] if len(inputs) == 2 else {}
        if len(inputs) == 1 or isinstance(named, dict):
            try:
                return _initialised(module, tuple(inputs[0]), named)
            except ManifestError as error:
                # The tuple may be one input of the module.
                try:
                    return _initialised(module, inputs, {})
                except ManifestError:
                    raise error from None
    return _initialised(module, inputs, {})


def abstract(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A module's parameters as shapes."""
    if inspect.isclass(module) and of_library(module, "torch"):
        import torch

        with torch.device("meta"):
            return _constructed(module, args, kwargs)
    if inspect.isclass(module):
        return _eval_shape(lambda: _constructed(module, args, kwargs))
    if _initialises(module):
        return _initialised(module, args, kwargs)
    if (args or kwargs) and not callable(module):
        raise ManifestError(f"{_shown(module)} takes no arguments")
    if not (args or kwargs or _is_function(module)):
        return module
    if _is_module(module):
        return module
    return _eval_shape(lambda: module(*args, **kwargs))


def _is_function(x: Any) -> bool:
    return inspect.isfunction(x) or inspect.ismethod(x) or inspect.isbuiltin(x)


def _is_linen(x: Any) -> bool:
    linen = sys.modules.get("flax.linen")
    return linen is not None and isinstance(x, linen.Module)


def _is_haiku(x: Any) -> bool:
    """Whether it is a pair of functions that hk.transform returns."""
    return isinstance(x, tuple) and getattr(x, "_fields", ())[:2] == ("init", "apply")


def _initialises(x: Any) -> bool:
    """Whether shapes are known by `init` with an example alone."""
    return _is_linen(x) or _is_haiku(x)


def _is_module(x: Any) -> bool:
    equinox = sys.modules.get("equinox")
    return (
        hasattr(x, "named_parameters")
        or is_nnx_object(x)
        or (equinox is not None and isinstance(x, equinox.Module))
    )


def _initialised(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    import jax

    if not args and not kwargs:
        _check_kind(module)
    # Arguments such as `train=False` keep their values.
    flat, form = jax.tree_util.tree_flatten((args, kwargs))

    def init(key: Any, arrays: list[Any]) -> Any:
        given = iter(arrays)
        full = [next(given) if is_array(x) else x for x in flat]
        inputs, named = jax.tree_util.tree_unflatten(form, full)
        return module.init(key, *inputs, **named)

    arrays = [x for x in flat if is_array(x)]
    try:
        made = jax.eval_shape(init, jax.random.PRNGKey(0), arrays)
    except Exception as error:
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ManifestError(
            f"{_shown(module)} cannot be initialised with these inputs: {text}"
            " (return (module, example input) from the factory, with as many inputs"
            " as its call takes)"
        ) from error
    # hk.transform_with_state gives (parameters, state).
    return made[0] if isinstance(made, tuple) else made


# What a module's class is given unless it is passed.
_DEFAULTS: dict[str, Callable[[], Any]] = {
    "rngs": lambda: sys.modules["flax.nnx"].Rngs(0),
    "key": lambda: sys.modules["jax"].random.key(0),
}


def _constructed(kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An object of a module's class."""
    shown = f"{kind.__module__}.{kind.__qualname__}"
    if of_library(kind, "haiku"):
        raise ManifestError(
            f"{shown} is a module of Haiku, which exists only inside hk.transform:"
            " write a factory that returns (hk.transform(lambda x:"
            f" {kind.__name__}(...)(x)), example input)"
        )
    # Not the class's own signature: metaclasses of flax.nnx hide it.
    try:
        parameters = list(inspect.signature(kind.__init__).parameters.items())[1:]
    except (TypeError, ValueError):
        parameters = []
    linen = of_library(kind, "flax.linen")
    needed = [
        name
        for name, one in parameters
        if one.default is one.empty
        and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    given = dict(kwargs)
    library = {"rngs": "flax.nnx", "key": "jax"}
    for name, make in _DEFAULTS.items():
        last = needed[len(args) :]
        if name in last and name not in given and library[name] in sys.modules:
            given[name] = make()
    missing = [name for name in needed[len(args) :] if name not in given]
    if missing or (linen and args):
        example = "(module, example input)" if linen else "the module"
        raise ManifestError(
            f"{shown} needs {', '.join(missing) or 'an instance'}: write a factory"
            f" that returns {example}, such as `def build(): return"
            + (
                f" {kind.__name__}(...), jnp.ones((1, 8))`"
                if linen
                else f" {kind.__name__}({', '.join(f'{n}=...' for n in missing)})`"
            )
        )
    return kind(*map(_copied, args), **{n: _copied(x) for n, x in given.items()})


def _copied(x: Any) -> Any:
    """Random streams of flax.nnx change only where they were made."""
    nnx = sys.modules.get("flax.nnx")
    return nnx.clone(x) if nnx is not None and isinstance(x, nnx.Rngs) else x


def _check_kind(model: Any) -> None:
    """Objects that hold no parameters, with the call to write instead."""
    shown = _shown(model)
    if _is_linen(model):
        raise ManifestError(
            f"{shown} is a module of Flax linen, whose shapes depend on its input:"
            " return (module, example input) from the factory, or call"
            " `shardc.manifest.from_model(module, example)`"
        )
    if _is_haiku(model):
        raise ManifestError(
            f"{shown} is a transformed function of Haiku, whose shapes depend on its"
            " input: return (transformed, example input) from the factory, or call"
            " `shardc.manifest.from_model(transformed, example)`"
        )
    if is_nnx_object(model) and hasattr(model, "opt_state"):
        raise ManifestError(
            f"{shown} is an optimizer and holds no parameters: return the model"
        )
    if _is_function(model):
        raise ManifestError(
            f"{shown} is a function: return its result, or call"
            " `shardc.manifest.from_model(function)`"
        )


def _unknown(path: tuple[str, ...], leaf: Any) -> None:
    """Refuses a leaf whose arrays no library would find."""
    if _is_function(leaf) or inspect.isclass(leaf):
        return
    members = getattr(leaf, "__dict__", {})
    if dataclasses.is_dataclass(leaf):
        members = {
            f.name: getattr(leaf, f.name, None) for f in dataclasses.fields(leaf)
        }
    if _holds_arrays(members):
        at = f" at {'/'.join(path)}" if path else ""
        raise ManifestError(
            f"the arrays inside {_shown(leaf)}{at} have no paths, because its class is"
            " no tree of JAX: return a dict of them, or register the class with"
            " jax.tree_util.register_dataclass"
        )


def _holds_arrays(x: Any) -> bool:
    if isinstance(x, Mapping):
        return any(map(_holds_arrays, x.values()))
    if isinstance(x, (list, tuple)):
        return any(map(_holds_arrays, x))
    return is_array(x)


def _shown(model: Any) -> str:
    if inspect.isclass(model) or _is_function(model):
        return f"{model.__module__}.{model.__qualname__}"
    return f"an object of {type(model).__module__}.{type(model).__qualname__}"


def _eval_shape(factory: Callable[[], Any]) -> Any:
    """The factory's result with shapes for its arrays; of a module of flax.nnx
    its parameters. Leaves that are no arrays stay, as equinox has them."""
    if "jax" not in sys.modules:
        return factory()
    import jax

    kept: list[Any] = []

    def is_made(x: Any) -> bool:
        return is_array(x) and not isinstance(x, jax.ShapeDtypeStruct)

    def arrays() -> list[Any]:
        model = parameters_of(factory())
        if is_nnx_object(model) and not hasattr(model, "opt_state"):
            nnx: Any = sys.modules["flax.nnx"]
            model = nnx.state(model, nnx.Param)
        flat, tree = jax.tree_util.tree_flatten(model)
        kept[:] = [(tree, [None if is_made(x) else x for x in flat])]
        return [x for x in flat if is_made(x)]

    shapes = iter(jax.eval_shape(arrays))
    tree, flat = kept[0]
    return jax.tree_util.tree_unflatten(
        tree, [next(shapes) if x is None else x for x in flat]
    )


def _framework() -> str | None:
    """Of those that the module imported."""
    if "torch" in sys.modules and "jax" not in sys.modules:
        return "torch"
    return "jax" if "jax" in sys.modules else None


def imported(text: str) -> Any:
    """The object of MODULE:NAME, modules of the working directory among them."""
    module, colon, name = text.partition(":")
    if not colon:
        raise ManifestError("write MODULE:FACTORY, such as my_models.llama:build")
    if module.endswith(".py"):
        written = module[:-3].replace(os.sep, ".").lstrip(".")
        raise ManifestError(f"write the module's name: {written}:{name}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        if not hasattr(found, part):
            raise ManifestError(f"`{module}` has no `{part}`{_near(part, found)}")
        found = getattr(found, part)
    return found


def _near(name: str, module: Any) -> str:
    """What may be meant, of the functions that the module defines itself."""
    own = [
        one
        for one, value in vars(module).items()
        if callable(value)
        and getattr(value, "__module__", None) == getattr(module, "__name__", "")
    ]
    near = difflib.get_close_matches(name, own, n=1)
    if near:
        return f"; did you mean `{near[0]}`?"
    return f"; it defines {', '.join(map('`{}`'.format, own[:8]))}" if own else ""


def is_factory(x: Any) -> bool:
    """Whether it is called for a model, and is none itself."""
    return callable(x) and not (_initialises(x) or _is_module(x))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m shardc.manifest",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("factory", metavar="MODULE:FACTORY")
    parser.add_argument(
        "--framework",
        choices=["jax", "nnx", "torch", "none"],
        help="how to build without allocating (default: by what is imported)",
    )
    parser.add_argument(
        "--separator", default="/", help="between the parts of names (default: /)"
    )
    parser.add_argument("-o", "--output", help="where to (default: standard output)")
    options = parser.parse_args(arguments)
    try:
        with files.running(options.factory, (ImportError, AttributeError, ManifestError)):
            factory = imported(options.factory)
    except (ImportError, AttributeError, ManifestError) as error:
        parser.error(files.printable(str(error)))
    try:
        with files.running(options.factory, (ManifestError,)):
            if is_factory(factory):
                factory = build(factory, options.framework)
            made = manifest(factory, options.separator)
    except ManifestError as error:
        parser.error(files.printable(f"{options.factory}: {error}"))
    text = json.dumps(made, indent=1) + "\n"
    files.write(options.output or "-", text)
    return 0


if __name__ == "__main__":
    sys.exit(files.exit_status(main))
