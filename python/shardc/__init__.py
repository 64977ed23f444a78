"""Plans of the sharding compiler shardc, in Python.

>>> plan = Plan.load("plan.json")                              # doctest: +SKIP
>>> plan["model.layers.0.mlp.up_proj.weight"].spec("decode")   # doctest: +SKIP
('tp', None)

The frameworks are imported only where they are used: `plan.named_shardings()`
and `plan.shard()` need JAX (shardc.jax), `plan.placements()` and
`plan.distribute()` need PyTorch (shardc.torch). `run`, `compile`, `check`,
`verify`, `audit` and the plan's `cost`, `diff`, `explain` and `report` call the
program. `shardc.testing` has assertions about compiled steps.
`shardc.manifest.from_model` makes the manifest of a module; `compile`, `cost` and
`search` also take the module, with a mesh and rules of a framework (shardc.inputs).
"""

import importlib
import sys
import types
from typing import Any, NoReturn

from shardc.audits import Audit, audit
from shardc.constraints import constrain
from shardc.mesh import Axis, Mesh, PlanError, Spec
from shardc.names import fold
from shardc.parameter import Parameter, Placement
from shardc.plan import Difference, Folded, Plan, Summary, compile
from shardc.command import (
    Finding,
    ShardcError,
    Verification,
    check,
    find_program,
    resolve,
    run,
    suggest,
    verify,
)
from shardc.results import cost, search

__version__ = "0.1.0"

# Loaded where they are used, because they need a framework, run as programs, or
# are for tests.
_MODULES = (
    "import_python",
    "jax",
    "manifest",
    "program",
    "rules",
    "testing",
    "torch",
    "torch_programs",
)


# What a name that the package lacks is written as here.
_WRITTEN = {
    "load": "shardc.Plan.load(path)",
    "load_plan": "shardc.Plan.load(path)",
    "read": "shardc.Plan.load(path)",
    "make_plan": "shardc.compile(mesh=..., rules=..., manifest=...)",
    "compile_plan": "shardc.compile(mesh=..., rules=..., manifest=...)",
    "shard": "plan.shard(params)",
    "diff": "plan.diff(other)",
    "explain": "plan.explain(name)",
    "report": "plan.report()",
    "export": "shardc.run('export', 'jax', '--plan', path)",
    "trace": "shardc.program.trace(function, params, batch)",
    "from_model": "shardc.manifest.from_model(module)",
    "lint": "shardc.check(...)",
}


# What a module that is called like a function is written as.
_CALLED = {
    "manifest": "shardc.manifest.from_model(module)",
    "mesh": "a mapping of sizes, such as mesh={'fsdp': 4, 'tp': 2}",
    "plan": "shardc.Plan.load(path) to read a plan, or shardc.compile(mesh=...,"
    " rules=..., manifest=...) to make one",
    "program": "shardc.program.trace(function, params, batch)",
    "rules": "the keyword rules=[(pattern, spec), ...] of shardc.compile",
}


class _Module(types.ModuleType):
    """A module that states what to call in its place."""

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        written = _CALLED[self.__name__.rpartition(".")[2]]
        raise TypeError(f"{self.__name__} is a module and no function; write {written}")


for _name in ("mesh", "plan"):
    sys.modules[f"shardc.{_name}"].__class__ = _Module


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        module = importlib.import_module(f"shardc.{name}")
        if name in _CALLED:
            module.__class__ = _Module
        return module
    written = f"; write {_WRITTEN[name]}" if name in _WRITTEN else ""
    raise AttributeError(f"module 'shardc' has no attribute {name!r}{written}")


__all__ = [
    "Audit",
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
    "audit",
    "check",
    "compile",
    "constrain",
    "cost",
    "find_program",
    "fold",
    "resolve",
    "run",
    "search",
    "suggest",
    "verify",
]
