"""The activations of a user's function with the shardings of a plan.

A plan states how parameters are sharded. How activations are sharded follows from it,
but a compiler finds out by propagation, and may gather activations instead of weights
or rematerialise values. `constrain` traces the function, lets the program compute the
sharding of each product and lookup (`shardc export constraints`), and adds a
sharding constraint to each in the function's jaxpr. Its code stays as it is:

    step = jax.jit(shardc.constrain(train_step, plan))

Equations are found by their paths, which the recorder has noted: equation 3 of the
body of equation 7 is (jaxpr, 7, body, 3).
"""

from __future__ import annotations

import dataclasses
import functools
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from shardc.command import Path, json_of
from shardc.mesh import PlanError
from shardc.plan import Plan
from shardc.results import plan_file

if TYPE_CHECKING:
    import jax

    from shardc.program import Traced
    from shardc.program_ops import Path as EquationPath


def constrain(
    fn: Callable[..., Any],
    plan: Plan | Path,
    *,
    mesh: jax.sharding.Mesh | None = None,
    mode: str = "train",
) -> Callable[..., Any]:
    """`fn` with its activations sharded as the plan implies, for jax.jit.

    The arguments are as for `shardc.program.trace`: the parameters, then the state of
    an optimizer or a cache if there is one, then the batch. The function is traced once
    for each form of its arguments. `mesh` is the mesh of JAX if it is not that of the
    plan over all devices. Its axes must be of type Auto."""
    from jax.sharding import AxisType

    import shardc.jax

    held = plan if isinstance(plan, Plan) else Plan.load(plan)
    on = shardc.jax.mesh_of(held, mesh)
    if any(kind != AxisType.Auto for kind in on.axis_types):
        raise PlanError(
            "the mesh has axes whose type is not Auto, and arrays have their shardings"
            " over those in their types: a constraint may not state them"
        )
    made: dict[Any, _Constrained] = {}

    @functools.wraps(fn)
    def constrained(*arguments: Any) -> Any:
        arrays, key = _form(arguments)
        if key not in made:
            made[key] = _constrained(fn, held, on, mode, arguments)
        return made[key](arrays, arguments)

    return constrained


@dataclasses.dataclass(frozen=True)
class _Constrained:
    """A function for arguments of one form."""

    function: Callable[..., Sequence[Any]]
    result: Callable[[Sequence[Any], Sequence[Any]], Any]

    def __call__(self, arrays: Sequence[Any], arguments: Sequence[Any]) -> Any:
        return self.result(self.function(*arrays), arguments)


def _form(arguments: Sequence[Any]) -> tuple[list[Any], Any]:
    """The arrays of the arguments, and what a trace depends on."""
    import jax

    from shardc.arrays import is_array
    from shardc.program import split

    arrays: list[Any] = []
    key: list[Any] = []
    for argument in arguments:
        graph, tree = split(argument)
        leaves, form = jax.tree_util.tree_flatten(tree)
        key += [graph is not None and graph, form]
        for leaf in leaves:
            if is_array(leaf):
                arrays.append(leaf)
                key.append((tuple(leaf.shape), leaf.dtype))
            else:
                key.append(repr(leaf))
    return arrays, tuple(key)


def _constrained(
    fn: Callable[..., Any],
    plan: Plan,
    mesh: jax.sharding.Mesh,
    mode: str,
    arguments: Sequence[Any],
) -> _Constrained:
    from jax.extend import core

    from shardc import program

    traced = program.traced(fn, arguments, program.name_of(fn))
    assert traced.source is not None
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "program.json")
        program.write(traced.program, file)
        given = ["--plan", plan_file(plan, folder, "plan.json"), "--program", file]
        stated = json_of(["export", "constraints", *given, "--mode", mode])[1]
    specs = {one["value"]: one["spec"] for one in stated["constraints"]}
    editor = _Editor(_by_path(traced, specs), mesh)
    return _Constrained(
        core.jaxpr_as_fun(editor.edited(traced.source.jaxpr, ())), traced.source.result
    )


def _by_path(
    traced: Traced, specs: dict[int, Any]
) -> dict[EquationPath, dict[int, Any]]:
    """The specs of results by the path of their equation and their position. An
    equation that passes a value on gets none."""
    assert traced.source is not None
    out: dict[EquationPath, dict[int, Any]] = {}
    left = dict(specs)
    # Inner equations come first where a call gives their value.
    for path, values in traced.source.equations.items():
        for position, value in enumerate(values):
            spec = left.pop(traced.source.numbers.get(value, -1), None)
            if spec is not None:
                out.setdefault(path, {})[position] = spec
    return out


class _Editor:
    """Adds constraints to a jaxpr and to those of its calls and loops."""

    def __init__(
        self, specs: dict[EquationPath, dict[int, Any]], mesh: jax.sharding.Mesh
    ) -> None:
        self.specs = specs
        self.mesh = mesh
        # The paths of equations and jaxprs that change.
        self.changed = {path[:n] for path in specs for n in range(1, len(path) + 1)}

    def edited(self, value: Any, path: EquationPath) -> Any:
        """A parameter of an equation: the jaxprs in it are changed."""
        from jax.extend import core

        if isinstance(value, (tuple, list)) and any(map(_is_jaxpr, value)):
            return type(value)(self.edited(one, path) for one in value)
        if not _is_jaxpr(value):
            return value
        jaxpr = _opened(value)
        path = (*path, id(jaxpr))
        if path not in self.changed:
            return value
        equations = []
        for number, equation in enumerate(jaxpr.eqns):
            equations += self._equations(equation, (*path, number))
        made = jaxpr.replace(eqns=equations)
        return made if value is jaxpr else core.ClosedJaxpr(made, value.consts)

    def _equations(self, equation: Any, path: EquationPath) -> list[Any]:
        if path not in self.changed:
            return [equation]
        params = {
            name: self.edited(value, path) for name, value in equation.params.items()
        }
        outs, constraints = list(equation.outvars), []
        for position, spec in self.specs.get(path, {}).items():
            # The constraint takes the result's name, so that those that read it stay.
            one = self._constraint(outs[position].aval, spec)
            constraints.append(
                one.eqns[0].replace(
                    outvars=[outs[position]], source_info=equation.source_info
                )
            )
            outs[position] = one.invars[0]
        return [equation.replace(params=params, outvars=outs), *constraints]

    def _constraint(self, aval: Any, spec: Any) -> Any:
        """A jaxpr of one equation, of a new variable."""
        import jax
        from jax.sharding import NamedSharding

        from shardc.jax import partition_spec

        axes = [tuple(one) or None for one in spec]
        sharding = NamedSharding(self.mesh, partition_spec(axes))
        like = jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
        return jax.make_jaxpr(
            lambda x: jax.lax.with_sharding_constraint(x, sharding)
        )(like).jaxpr


def _opened(jaxpr: Any) -> Any:
    return getattr(jaxpr, "jaxpr", jaxpr)


def _is_jaxpr(value: Any) -> bool:
    return hasattr(_opened(value), "eqns")
