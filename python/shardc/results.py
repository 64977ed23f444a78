"""What the program computes from a plan: its cost, differences, explanations
and its page. The plan is written to a temporary file for each call."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union

from shardc import files
from shardc.command import (
    Path,
    flags_of,
    input_flags,
    json_of,
    run,
    scratch_inputs,
)
from shardc.inputs import model_flags
from shardc.mesh import PlanError
from shardc.plan_data import PlanData

PlanOrPath = Union[PlanData, Path]


class Result(Mapping[str, Any]):
    """The JSON output of a command as a mapping; printed, its text."""

    def __init__(self, data: Mapping[str, Any], text: str) -> None:
        self.data = data
        self.text = text

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def plan_file(plan: PlanOrPath, folder: str, name: str) -> str:
    """The path of a plan, which is written to the folder if it is an object.
    TypeError: it is neither."""
    if isinstance(plan, (str, os.PathLike)):
        return os.fspath(plan)
    if not hasattr(plan, "data"):
        raise TypeError(
            f"{plan!r} is no plan: give what shardc.compile returns, or a plan's path"
        )
    return files.scratch(folder, name, json.dumps(plan.data))


def _result(arguments: Sequence[str]) -> Result:
    text = run(arguments).stdout
    return Result(json_of(arguments)[1], text)


def cost(
    plan: Any, *, mesh: Any = None, rules: Any = "auto", **settings: Any
) -> Result:
    """`shardc cost`. Keywords are its flags: `batch=64` is `--batch 64`. `plan` is a
    plan, or a model in any form of shardc.inputs with its mesh and rules."""
    with scratch_inputs() as folder:
        if mesh is not None:
            inputs = input_flags(folder, mesh, rules, **model_flags(plan))
            return _result(["cost", *inputs, *flags_of(settings)])
        file = plan_file(plan, folder, "plan.json")
        return _result(
            ["cost", "--plan", file, "--allow-edited", *_scope(settings)]
            + flags_of(settings)
        )


def search(subject: Any, *, devices: int, rules: Any = None, **settings: Any) -> Result:
    """`shardc search`: the cheapest sharding of a model, in any form of
    shardc.inputs, on so many devices. Keywords are its flags."""
    with scratch_inputs() as folder:
        inputs = input_flags(folder, None, rules, **model_flags(subject))
        return _result(
            ["search", *inputs, "--devices", str(devices), *flags_of(settings)]
        )


def _scope(settings: Mapping[str, Any]) -> list[str]:
    """Without the nearest project file, unless it is named."""
    named = any(settings.get(name) for name in ("target", "project"))
    return [] if named else ["--no-project"]


def diff(plan: PlanData, other: PlanOrPath) -> Result:
    """`shardc diff`: what changes from the plan to the other."""
    with scratch_inputs() as folder:
        before = plan_file(plan, folder, "before.plan.json")
        after = plan_file(other, folder, "after.plan.json")
        return _result(["diff", before, after, "--allow-edited", "--no-project"])


def report(
    plan: PlanData,
    path: Path | None = None,
    base: PlanOrPath | None = None,
    **settings: Any,
) -> str:
    """`shardc report`: the page's HTML, which is also written to `path`."""
    with scratch_inputs() as folder:
        arguments = ["report", "--plan", plan_file(plan, folder, "plan.json")]
        if base is not None:
            arguments += ["--base", plan_file(base, folder, "base.plan.json")]
        arguments += ["--allow-edited", *_scope(settings)]
        page = run([*arguments, *flags_of(settings)]).stdout
    if path is not None:
        files.write(path, page)
    return page


def explain(plan: PlanData, name: str, inputs: Mapping[str, Any]) -> Result:
    """`shardc explain`: why a parameter got its spec. A plan's file has no
    rules: they come from `inputs`, from shardc.compile, or from the files that
    the plan names. They must give the parameter the plan's spec."""
    wanted = plan[name]
    given = {**(plan.inputs or {}), **{k: v for k, v in inputs.items() if v}}
    with scratch_inputs() as folder:
        if not given.get("target") and not given.get("project"):
            given.setdefault("mesh", plan.mesh)
            given.setdefault("manifest", _manifest(plan))
            if not given.get("rules"):
                given["rules"] = _rules(plan)
        extra = list(given.pop("arguments", ()))
        arguments = ["explain", name, *input_flags(folder, **given), *extra]
        if not plan.inputs and "--modes" not in extra:
            arguments += ["--modes", ",".join(plan.modes)]
        result = _result(arguments)
    modes = result["modes"]
    for mode in plan.modes:
        spec = [list(e) if isinstance(e, tuple) else e for e in wanted.spec(mode)]
        found = modes.get(mode, {}).get("spec")
        if (
            found is not None
            and list(found) + [None] * (len(spec) - len(found)) != spec
        ):
            raise PlanError(
                f"these rules give {name} the spec {found} in {mode} and the plan"
                f" {spec}: pass the inputs that the plan was compiled from"
            )
    return result


def _manifest(plan: PlanData) -> dict[str, Any]:
    params = {}
    for name, parameter in plan.items():
        shape = parameter.shape
        params[name] = {
            "shape": None if shape is None else list(shape),
            "dtype": parameter.dtype,
        }
    return {"schema": "shardc.manifest/v1", "params": params}


def _rules(plan: PlanData) -> list[str]:
    """The files that the plan's rules come from, if they are there."""
    found: dict[str, None] = {}
    for rule in plan.rules:
        found[re.sub(r"(:\d+)+$", "", str(rule.get("source", "")))] = None
    for file in found:
        if not file.startswith("builtin:") and not os.path.isfile(file):
            raise PlanError(
                f"the plan's rules are from {file or 'an unknown file'}, which is not"
                " there: pass `rules=`"
            )
    if not found:
        raise PlanError("the plan has no rules: pass `rules=`")
    return list(found)
