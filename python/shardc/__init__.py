"""Plans of the sharding compiler shardc, in Python.

>>> plan = Plan.load("plan.json")                              # doctest: +SKIP
>>> plan["model.layers.0.mlp.up_proj.weight"].spec("decode")   # doctest: +SKIP
('tp', None)

The frameworks are imported only where they are used: `plan.named_shardings()`
and `plan.shard()` need JAX (shardc.jax), `plan.placements()` and
`plan.distribute()` need PyTorch (shardc.torch). `run`, `compile`, `check` and
`verify` call the program.
"""

from shardc.mesh import Axis, Mesh, PlanError, Spec
from shardc.names import fold
from shardc.plan import (
    Difference,
    Folded,
    Parameter,
    Placement,
    Plan,
    Summary,
)
from shardc.program import (
    Finding,
    ShardcError,
    Verification,
    check,
    compile,
    find_program,
    run,
    verify,
)

__all__ = [
    "Axis",
    "Difference",
    "Finding",
    "Folded",
    "Mesh",
    "Parameter",
    "Placement",
    "Plan",
    "PlanError",
    "ShardcError",
    "Spec",
    "Summary",
    "Verification",
    "check",
    "compile",
    "find_program",
    "fold",
    "run",
    "verify",
]
