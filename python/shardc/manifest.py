"""python -m shardc.manifest MODULE:FACTORY -- a manifest of a live model.

FACTORY takes no arguments and returns a model, its parameters or its abstract
tree; nothing is allocated: JAX's are made by jax.eval_shape and nnx's by
nnx.eval_shape, PyTorch's on the meta device.

    python3 -m shardc.manifest my_models.llama:build > manifest.json
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from typing import Any, Callable

from shardc.tree import leaves

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
    if framework == "torch":
        import torch

        with torch.device("meta"):
            return factory()
    if framework == "nnx":
        from flax import nnx

        return nnx.state(nnx.eval_shape(factory), nnx.Param)
    if framework == "jax":
        import jax

        return _eval_shape(jax, factory)
    return factory()


def _eval_shape(jax: Any, factory: Callable[[], Any]) -> Any:
    """Of trees with leaves that are no arrays too, as equinox has them."""
    kept: list[Any] = []

    def arrays() -> list[Any]:
        flat, tree = jax.tree_util.tree_flatten(factory())
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
    if "jax" in sys.modules:
        return (
            "nnx"
            if "flax.nnx" in sys.modules and "flax.linen" not in sys.modules
            else "jax"
        )
    return None


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
