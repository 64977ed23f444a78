"""A plan with its methods for the program, JAX and PyTorch, and `compile`.

The frameworks are imported only by the methods that need them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from shardc import files, notebook, results
from shardc.command import (
    Manifest,
    Path,
    ShardcError,
    explained,
    input_flags,
    run,
    scratch_inputs,
    suggest,
)
from shardc.inputs import model_flags, rules_value
from shardc.mesh import Spec
from shardc.plan_data import Difference, Folded, PlanData, Summary

if TYPE_CHECKING:
    import jax
    import torch

__all__ = ["Difference", "Folded", "Plan", "Summary", "compile"]


class Plan(PlanData):
    """A plan: its parameters by name, in the manifest's order.

    `load` and `loads` also check that the plan is as `shardc` wrote it."""

    # The program.

    def cost(self, **settings: Any) -> results.Result:
        """What `shardc cost` computes: memory, communication and time. Keywords
        are its flags: `plan.cost(batch=64, seq=8192, profile="h100-sxm")`."""
        return results.cost(self, **settings)

    def diff(self, other: Plan | Path) -> results.Result:
        """What `shardc diff` finds from this plan to another."""
        return results.diff(self, other)

    def explain(self, name: str, **inputs: Any) -> results.Result:
        """Why a parameter got its spec, by `shardc explain`. The inputs are those
        of `shardc.compile`; a plan that it returned remembers its own, and of one
        that was loaded the rules are taken from the files that it names."""
        return results.explain(self, name, inputs)

    def report(
        self,
        path: Path | None = None,
        base: Plan | Path | None = None,
        **settings: Any,
    ) -> str:
        """The HTML page of `shardc report`, which is also written to `path`.
        `base` is a plan to compare with; other keywords are flags."""
        return results.report(self, path, base, **settings)

    def _repr_html_(self) -> str:
        """The plan in a notebook."""
        return notebook.html(self)

    # JAX.

    def jax_mesh(self, devices: Iterable[Any] | None = None) -> jax.sharding.Mesh:
        """The plan's mesh over JAX's devices (all of them unless given)."""
        import shardc.jax

        return shardc.jax.jax_mesh(self, devices)

    def named_shardings(
        self,
        mode: str = "train",
        like: Any = None,
        mesh: jax.sharding.Mesh | None = None,
        unmatched: str = "error",
    ) -> Any:
        """NamedShardings in the shape of `like`'s tree, or by name. The tree is
        a model's parameters or a whole train state, as for `shard`."""
        import shardc.jax

        return shardc.jax.named_shardings(self, mode, like, mesh, unmatched)

    def shard(
        self,
        tree: Any,
        mode: str = "train",
        mesh: jax.sharding.Mesh | None = None,
        unmatched: str = "error",
    ) -> Any:
        """The tree with its arrays on the devices that the plan gives them. The
        moments of optimizers are sharded as their parameters, scalars, random
        keys and statistics are replicated. An array among the parameters that
        the plan lacks is an error, unless `unmatched` is "replicate"."""
        import shardc.jax

        return shardc.jax.shard(self, tree, mode, mesh, unmatched)

    def abstract_tree(
        self,
        mode: str = "train",
        mesh: jax.sharding.Mesh | None = None,
        like: Any = None,
        unmatched: str = "error",
    ) -> Any:
        """ShapeDtypeStructs with shardings, in the shape of `like`'s tree or as
        nested dicts, for jax.eval_shape, compiling ahead and restoring."""
        import shardc.jax

        return shardc.jax.abstract_tree(self, mode, mesh, like, unmatched)

    def constrain(
        self,
        x: jax.Array,
        tensor: str | Spec,
        mode: str = "train",
        mesh: jax.sharding.Mesh | None = None,
    ) -> jax.Array:
        """`x` constrained to the plan's spec of an activation, such as "hidden" or
        attention's "query", or to a spec."""
        import shardc.jax

        return shardc.jax.constrain(self, x, tensor, mode, mesh)

    # PyTorch.

    def device_mesh(self, device_type: str = "cpu") -> torch.distributed.DeviceMesh:
        """The plan's mesh over the processes of torch.distributed."""
        import shardc.torch

        return shardc.torch.device_mesh(self, device_type)

    def placements(self, name: str, mode: str = "train") -> list[Any]:
        """DTensor's placements of a parameter, one for each mesh dimension."""
        import shardc.torch

        return shardc.torch.placements(self, name, mode)

    def distribute(
        self, module: torch.nn.Module, mode: str = "train", mesh: Any = None
    ) -> torch.nn.Module:
        """The module with its parameters as DTensors by the plan."""
        import shardc.torch

        return shardc.torch.distribute(self, module, mode, mesh)


@explained(
    'shardc.compile(model, mesh={"fsdp": 4, "tp": 2}, rules="rules.yaml"), and'
    " settings of a step where they count: plan.cost(batch=8)"
)
def compile(
    subject: Any = None,
    *,
    mesh: Any = None,
    rules: Any = None,
    manifest: Manifest | None = None,
    model: Any = None,
    target: str | None = None,
    project: Path | None = None,
    arguments: Sequence[str] = (),
) -> Plan:
    """Compiles a plan: `shardc plan`. `arguments` are further flags.

    compile(net, mesh=jax.make_mesh((4, 2), ("fsdp", "tp")), rules="auto")
    compile("config.json", mesh={"fsdp": 8}, rules=[("kernel", P("fsdp"))])

    `subject` is the model in any form: a module of flax, equinox or PyTorch, a tree
    of shapes, a TrainState, a manifest, or a config.json (shardc.inputs; so are the
    forms of a mesh and of rules). With `rules="auto"` a model that no pack knows gets
    the rules that `shardc suggest` writes for it. The keyword `manifest` may be what
    `shardc.manifest.from_model` returns."""
    if subject is not None:
        given = model_flags(subject)
        manifest, model = given.get("manifest", manifest), given.get("model", model)
    rules = rules_value(rules)
    with scratch_inputs() as folder:
        out = os.path.join(folder, "plan.json")
        inputs = input_flags(folder, mesh, rules, manifest, model, target, project)
        command = ["plan", *inputs, *arguments, "-o", out]
        done = run(command, check=rules != "auto")
        if done.returncode == 2 and "no pack knows" in done.stderr:
            text = suggest(mesh=mesh, manifest=manifest, model=model)
            path = files.scratch(folder, "suggested.yaml", text)
            inputs = input_flags(folder, mesh, path, manifest, model)
            done = run(["plan", *inputs, *arguments, "-o", out])
            rules = None  # in no file of the caller: `explain` then needs them
        if done.returncode != 0 or not os.path.exists(out):
            raise ShardcError(done.returncode, done.stderr)
        plan = Plan.load(out)
    plan.inputs = {
        "mesh": mesh,
        "rules": rules,
        "manifest": manifest,
        "model": model,
        "target": target,
        "project": project,
        "arguments": tuple(arguments),
    }
    return plan
