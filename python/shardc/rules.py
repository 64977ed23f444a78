"""python -m shardc.rules MODULE:FACTORY -- the rules that a live model declares.

FACTORY takes no arguments and returns what python -m shardc.manifest takes, or
shardc.rules.Declaration with specs, logical rules or a mesh next to the model.
Nothing is allocated. These declare shardings:

    arrays or jax.ShapeDtypeStruct with a NamedSharding
    Flax linen: with_partitioning, with_logical_partitioning and logical rules
    flax.nnx: variables with `out_sharding`, and `sharding_rules`
    EasyDeL: the partition rules that a module resolves
    Keras: a LayoutMap, or the distribution that is set
    PyTorch: DTensor, as parallelize_module and fully_shard make it; a process
    group of --devices processes is simulated

    python3 -m shardc.rules my_models.llama:build -o rules.yaml --mesh-out mesh.yaml

The models of two frameworks need no factory: EasyDeL's by their config.json, and
MaxText's by the arguments of its trainer.

    python3 -m shardc.rules --easydel config.json -o rules.yaml
    python3 -m shardc.rules --maxtext base.yml model_name=llama3-8b -o rules.yaml

Each written rule is matched again, by the program shardc where it is found: the
counts of parameters with an equal spec, a different one and none are printed. The
status is 0 where all are equal, 1 where not, and 2 without a declaration.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from shardc import files
from shardc.declared import (
    DeclarationError,
    LogicalRules,
    axes_of,
    declarations,
)
from shardc.frameworks import easydel, maxtext
from shardc.manifest import ManifestError, abstract, build, imported, is_factory
from shardc.command import ShardcError
from shardc.rulesfile import Proof, Rules
from shardc.tree import of_library, parameters_of


@dataclasses.dataclass(frozen=True)
class Declaration:
    """A model and what is declared next to it.

    `examples` are the inputs of a module of Flax linen or of Haiku. `shardings` is
    a tree of specs, a list of (pattern, spec), or a LayoutMap of Keras;
    `logical_rules` are those of Flax; `mesh` is a mesh of the library, or text
    such as "dp:2,tp:4"; `plan` is what parallelize_module of PyTorch takes."""

    model: Any
    examples: tuple[Any, ...] = ()
    shardings: Any = None
    logical_rules: LogicalRules | None = None
    mesh: Any = None
    plan: Any = None


# -- A live model -----------------------------------------------------------------


def from_model(
    model: Any,
    *examples: Any,
    shardings: Any = None,
    logical_rules: LogicalRules | None = None,
    mesh: Any = None,
    plan: Any = None,
    separator: str = "/",
    devices: int = 256,
) -> Rules:
    """The rules that a model declares: `from_model(...).text()`. The model is a
    factory, or what one returns; nothing is allocated. The other arguments are
    those of Declaration, and win over what the model has."""
    given = Declaration(model, examples, shardings, logical_rules, mesh, plan)
    seen: list[Declaration] = []

    def observe(made: Any) -> Any:
        one = _observed(made, given)
        seen.append(one)
        return (one.model, *one.examples) if one.examples else one.model

    with _groups(devices), _without_arrays():
        if is_factory(model) and not examples:
            made = build(model, seen=observe)
        else:
            observe(model)
            made = abstract(seen[0].model, seen[0].examples, {})
    last = seen[-1]
    found = declarations(
        parameters_of(made), last.shardings, last.logical_rules, last.mesh, separator
    )
    if not found.parameters:
        raise DeclarationError(f"{_named(model)} has no parameters")
    if all(one.spec is None and not one.refused for one in found.parameters):
        raise DeclarationError(
            f"none of the {len(found.parameters)} parameters of {_named(model)}"
            " declares a sharding: annotate the model, or return"
            " `shardc.rules.Declaration(model, shardings=...)` from the factory"
        )
    return Rules(found)


def _named(model: Any) -> str:
    kind = model if hasattr(model, "__qualname__") else type(model)
    return f"{kind.__module__}.{kind.__qualname__}"


def _observed(made: Any, given: Declaration) -> Declaration:
    """What the factory made, with what is declared next to it."""
    one = made if isinstance(made, Declaration) else Declaration(made)
    more = {
        field.name: getattr(given, field.name)
        for field in dataclasses.fields(Declaration)
        if field.name != "model" and getattr(given, field.name) not in (None, ())
    }
    one = dataclasses.replace(one, **more)
    model = one.model
    if one.plan is not None:
        model = _parallelized(one)
    shardings, mesh = one.shardings, one.mesh
    if shardings is None and of_library(type(model), "keras"):
        shardings = _keras_layouts(model)
    if shardings is None and hasattr(model, "_get_partition_rules"):  # EasyDeL
        shardings = list(model._get_partition_rules(None))
        mesh = mesh or _mesh_of(model)
    rules = one.logical_rules
    if rules is None:
        spmd = sys.modules.get("flax.core.spmd")
        rules = spmd.get_logical_axis_rules() if spmd else None
    return dataclasses.replace(
        one, model=model, shardings=shardings, mesh=mesh, logical_rules=rules or None
    )


def _mesh_of(model: Any) -> Any:
    return getattr(getattr(model, "config", None), "mesh", None)


def _keras_layouts(model: Any) -> Any:
    """The LayoutMap of the distribution that is set."""
    keras: Any = sys.modules.get("keras")
    found = keras.distribution.distribution() if keras else None
    return getattr(found, "_layout_map", None)


def _parallelized(one: Declaration) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import parallelize_module

    mesh = one.mesh
    if mesh is None:
        raise DeclarationError("a plan of parallelize_module needs a mesh")
    if isinstance(mesh, (str, Mapping)):
        axes = axes_of(mesh)
        mesh = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
    return parallelize_module(one.model, mesh, one.plan)


@contextlib.contextmanager
def _groups(devices: int) -> Iterator[None]:
    """A process group for PyTorch's device meshes, of which this process is rank 0
    and the others are simulated."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        yield
        return
    if torch.distributed.is_initialized():
        yield
        return
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group(
        "fake", store=FakeStore(), rank=0, world_size=devices
    )
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


@contextlib.contextmanager
def _without_arrays() -> Iterator[None]:
    """Keras makes no values, and flax.nnx places none on a mesh."""
    keras: Any = sys.modules.get("keras")
    nnx: Any = sys.modules.get("flax.nnx")
    with contextlib.ExitStack() as stack:
        if keras is not None:
            stack.enter_context(keras.StatelessScope(initialize_variables=False))
        if nnx is not None and hasattr(nnx, "use_eager_sharding"):
            stack.enter_context(nnx.use_eager_sharding(False))
        yield


# -- The command --------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m shardc.rules",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("factory", metavar="MODULE:FACTORY", nargs="?")
    parser.add_argument(
        "--easydel",
        metavar="CONFIG",
        help="a config.json, or the folder of one: the model that EasyDeL makes of it",
    )
    parser.add_argument(
        "--maxtext",
        metavar="ARGUMENT",
        nargs="+",
        help="MaxText's configuration, such as base.yml, and KEY=VALUE",
    )
    parser.add_argument(
        "-o", "--output", help="file for the rules (default: standard output)"
    )
    parser.add_argument("--mesh-out", metavar="FILE", help="file for the mesh")
    parser.add_argument(
        "--mesh", help="the mesh, as dp:2,tp:4 or MODULE:NAME, where none is declared"
    )
    parser.add_argument(
        "--logical-rules",
        metavar="MODULE:NAME",
        help="the mesh axes of logical axes: a list of pairs, or a function",
    )
    parser.add_argument(
        "--shardings",
        metavar="MODULE:NAME",
        help="a tree of specs, a list of (pattern, spec) or a LayoutMap, or a"
        " function that returns one",
    )
    parser.add_argument(
        "--separator", default="/", help="between the parts of names (default: /)"
    )
    parser.add_argument(
        "--devices",
        type=int,
        default=256,
        help="processes or devices that the meshes of PyTorch and MaxText may use"
        " (default: 256)",
    )
    options = parser.parse_args(arguments)
    asked = [o for o in (options.factory, options.easydel, options.maxtext) if o]
    if len(asked) != 1:
        parser.error("give one of MODULE:FACTORY, --easydel and --maxtext")
    source = asked[0] if isinstance(asked[0], str) else " ".join(asked[0])
    passing = (ImportError, AttributeError, ManifestError, DeclarationError)
    try:
        with files.running(source, passing):
            factory = _factory(options)
            mesh = options.mesh
            if mesh and re.fullmatch(r"[\w.]+:[A-Za-z_][\w.]*", mesh):
                mesh = _called(imported(mesh))
            made = from_model(
                factory,
                shardings=_called(imported(options.shardings))
                if options.shardings
                else None,
                logical_rules=_called(imported(options.logical_rules))
                if options.logical_rules
                else None,
                mesh=mesh,
                separator=options.separator,
                devices=options.devices,
            )
            mesh_text = made.mesh_text() if options.mesh_out else ""
    except (ImportError, AttributeError) as error:
        needs = ""
        if isinstance(error, ImportError) and not options.factory:
            needs = (
                "; run this with the Python in which EasyDeL is installed, or read its"
                " source with `python3 -m shardc.import_python`"
                if options.easydel
                else "; run this with the Python in which MaxText is installed, or read"
                " the configuration alone with `shardc import maxtext`"
            )
        parser.error(files.printable(f"{error}{needs}"))
    except (ManifestError, DeclarationError) as error:
        parser.error(files.printable(f"{source}: {error}"))
    try:
        proof = made.prove()
    except ShardcError as error:
        parser.error(f"{source}: the program refuses the rules: {error}")
    wanted: list[tuple[files.Path, str | bytes]] = []
    if options.mesh_out:
        wanted.append((options.mesh_out, mesh_text))
    wanted.append((options.output or "-", made.text(source)))
    files.write_set(wanted)
    _report(made, proof)
    return 0 if proof else 1


def _factory(options: argparse.Namespace) -> Any:
    """The model, or what makes it."""
    if options.easydel:
        return easydel(options.easydel)
    if options.maxtext:
        return maxtext(options.maxtext, options.devices)
    return imported(options.factory)


def _called(found: Any) -> Any:
    return found() if is_factory(found) and not hasattr(found, "shape") else found


def _report(made: Rules, proof: Proof) -> None:
    shown = made.silent[:3]
    print(
        f"{len(made.declared.parameters)} parameters, {len(made.rules)} rules;"
        f" {len(made.silent)} parameters declare nothing"
        + (f": {', '.join(shown)}" if shown else "")
        + (", ..." if len(made.silent) > len(shown) else ""),
        file=sys.stderr,
    )
    print(proof, file=sys.stderr)
    for found in (proof.different, proof.refused):
        reasons = Counter(found.values())
        for reason, count in reasons.most_common(10):
            name = next(n for n, r in found.items() if r == reason)
            more = f" and {count - 1} more" if count > 1 else ""
            print(f"  {name}{more}: {reason}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(files.exit_status(main))
