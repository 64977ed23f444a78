"""python -m shardc.manifest MODULE:FACTORY -- a manifest of a live model.

FACTORY takes no arguments and returns a model, its parameters or its abstract
tree; nothing is allocated: those of JAX, flax, nnx and equinox are made by
jax.eval_shape, PyTorch's on the meta device.

    python3 -m shardc.manifest my_models.llama:build > manifest.json
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import sys
from typing import Any, Callable

from shardc.tree import is_nnx_module, leaves

SCHEMA = "shardc.manifest/v1"


def manifest(model: Any, separator: str = "/") -> dict[str, Any]:
    """The manifest of a model as JSON data, its names joined by `separator`."""
    if hasattr(model, "named_parameters"):
        separator = "."
    params = {}
    for leaf in leaves(model):
        params[separator.join(leaf.path)] = {
            "shape": list(leaf.shape),
            "dtype": leaf.dtype,
        }
    return {"schema": SCHEMA, "params": params}


def build(factory: Callable[[], Any], framework: str | None = None) -> Any:
    """What the factory makes, without its arrays."""
    framework = framework or _framework()
    if framework == "none":
        return factory()
    if framework == "torch":
        import torch

        with torch.device("meta"):
            return factory()
    if framework == "nnx":
        from flax import nnx

        return nnx.state(nnx.eval_shape(factory), nnx.Param)
    if framework == "jax":
        import jax

        # A factory among modules of both may make one of PyTorch.
        torch_ = sys.modules.get("torch")
        with torch_.device("meta") if torch_ else contextlib.nullcontext():
            return _eval_shape(jax, factory)
    return factory()


def _eval_shape(jax: Any, factory: Callable[[], Any]) -> Any:
    """Of trees with leaves that are no arrays too, as equinox has them; of a
    module of flax.nnx its parameters."""
    kept: list[Any] = []

    def arrays() -> list[Any]:
        model = factory()
        if is_nnx_module(model):
            nnx: Any = sys.modules["flax.nnx"]
            model = nnx.state(model, nnx.Param)
        flat, tree = jax.tree_util.tree_flatten(model)
        kept[:] = [(tree, [None if hasattr(x, "shape") else x for x in flat])]
        return [x for x in flat if hasattr(x, "shape")]

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
    module, colon, name = options.factory.partition(":")
    if not colon:
        parser.error("write MODULE:FACTORY, such as my_models.llama:build")
    sys.path.insert(0, os.getcwd())
    try:
        factory: Any = importlib.import_module(module)
        for part in name.split("."):
            factory = getattr(factory, part)
    except (ImportError, AttributeError) as error:
        parser.error(str(error))
    made = manifest(build(factory, options.framework), options.separator)
    if not made["params"]:
        parser.error(f"{options.factory} gives no arrays")
    text = json.dumps(made, indent=1) + "\n"
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
