"""A plan as shardc-plan(5) describes it: what every device holds.

Nothing but the standard library is used. A device is known by its number, as
frameworks count; `Mesh.coordinates` returns its place in the mesh.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from shardc import files
from shardc.arrays import Arrays
from shardc.mesh import Axis, Mesh, PlanError, Spec
from shardc.names import Names, fold
from shardc.parameter import Parameter, no_attribute, not_planned, shape_of, spec_of
from shardc.schema import Misfit, path_text, position
from shardc.seal import check_form, check_seal, rule_index
from shardc.stages import Stages
from shardc.stages import read as read_stages
from shardc.tree import Leaf, leaves, other_leaves, parameters_of

SCHEMA = "shardc.plan/v1"
SCHEMA_WITH_STAGES = "shardc.plan/v2"

Own = TypeVar("Own", bound="PlanData")

# What an attribute that a plan lacks is written as.
_WRITTEN = {
    "axes": "plan.mesh.sizes",
    "devices": "plan.mesh.devices",
    "layout": "plan[name].spec(mode)",
    "params": "plan.items()",
    "parameters": "plan.items()",
    "partition_spec": "plan[name].spec(mode)",
    "sharding": "plan.named_shardings()",
    "shardings": "plan.named_shardings()",
    "spec": "plan[name].spec(mode)",
    "specs": "{name: parameter.spec(mode) for name, parameter in plan.items()}",
}


@dataclasses.dataclass(frozen=True)
class Summary:
    """Totals; None where shapes are unknown."""

    params: int
    elements: int | None
    bytes: int | None
    bytes_per_device: int | None
    unmatched: int
    corrected: int


@dataclasses.dataclass(frozen=True)
class Difference:
    """What a model has unlike the plan. `kind` is "missing" (from the model),
    "unexpected" (not in the plan), "shape" or "dtype"."""

    kind: str
    name: str
    plan: str = ""
    model: str = ""

    def __str__(self) -> str:
        if self.kind == "missing":
            return f"{self.name}: in the plan, not in the model"
        if self.kind == "unexpected":
            near = f"; did you mean {self.plan}?" if self.plan else ""
            return f"{self.name}: in the model, not in the plan{near}"
        return f"{self.name}: {self.kind} {self.plan} in the plan, {self.model} in the model"


@dataclasses.dataclass(frozen=True)
class Folded:
    """Parameters of one template with one layout: layers, experts."""

    template: str
    names: tuple[str, ...]
    parameter: Parameter  # the first of them


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is given twice")
    return out


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _where(text: str, error: Misfit) -> str:
    line, column = position(text, error.path)
    return f"line {line}, column {column}: {path_text(error.path)}"


def _read_regular(path: str) -> bytes:
    """The bytes of a regular file; a FIFO or a device is refused, not awaited."""
    try:
        return files.read(path)
    except files.FileError as error:
        raise PlanError(error.message) from None


class PlanData(Mapping[str, Parameter]):
    """What a plan's file states: its parameters by name, in the manifest's order."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        known = (SCHEMA, SCHEMA_WITH_STAGES)
        if isinstance(data, (str, bytes, os.PathLike)):
            raise PlanError(
                "a plan is made of its data; to read a file write Plan.load(path)"
            )
        if not isinstance(data, Mapping) or data.get("schema") not in known:
            raise PlanError(f"this is no plan: its schema is not {SCHEMA!r}")
        try:
            check_form(data)
        except Misfit as error:
            raise PlanError(
                f"this is no plan: {path_text(error.path)} {error.message}"
            ) from None
        self._read(data)

    # The inputs that shardc.compile compiled it from.
    inputs: Mapping[str, Any] | None = None

    def _read(self, data: Mapping[str, Any]) -> None:
        mesh = data["mesh"]
        self.data = data
        self.mesh = Mesh(
            tuple(Axis(a["name"], a["size"], a["type"]) for a in mesh["axes"]),
            mesh["devices"],
            mesh.get("processes", 1),
            mesh.get("slices", 1),
            tuple(mesh.get("dcn", ())),
        )
        self.modes: tuple[str, ...] = tuple(data["modes"])
        self.fingerprint: str = data["fingerprint"]
        # The stages of a pipeline; None in a plan without.
        self.stages: Stages | None = (
            read_stages(data["stages"]) if "stages" in data else None
        )
        self.rules: tuple[dict[str, Any], ...] = tuple(data["rules"])
        self._rules = rule_index(data["rules"])
        self.summary = Summary(
            **{
                field.name: data["summary"][field.name]
                for field in dataclasses.fields(Summary)
            }
        )
        self._params: Mapping[str, Any] = dict(data["params"].items())

    @classmethod
    def load(
        cls: type[Own], path: str | os.PathLike[str], allow_edited: bool = False
    ) -> Own:
        """Reads a plan that `shardc plan -o` wrote. A plan that was edited since
        is an error, unless `allow_edited`."""
        name = os.fspath(path)
        try:
            return cls.loads(_read_regular(name), allow_edited)
        except PlanError as error:
            raise PlanError(f"{name}: {error}") from None

    @classmethod
    def loads(cls: type[Own], text: str | bytes, allow_edited: bool = False) -> Own:
        """Reads a plan's text, as `load` does."""
        try:
            if isinstance(text, bytes):
                text = text.decode()
            data = json.loads(
                text, object_pairs_hook=_distinct, parse_constant=_no_constant
            )
            text.encode()
        except (ValueError, RecursionError) as error:
            raise PlanError(
                f"this is no JSON: {error}; a plan is what `shardc plan -o` writes"
            ) from None
        try:
            plan = cls(data)
            if not allow_edited:
                check_seal(data)
            return plan
        except PlanError:
            # A second time for the place in the text.
            try:
                check_form(data)
            except Misfit as error:
                raise PlanError(
                    f"this is no plan: {_where(text, error)} {error.message}"
                ) from None
            except (AttributeError, TypeError):
                pass
            raise
        except Misfit as error:
            raise PlanError(
                f"the plan was edited: {_where(text, error)} {error.message}; write"
                " it again with `shardc plan -o`, or pass `allow_edited=True`"
            ) from None
        except UnicodeEncodeError as error:
            raise PlanError(f"this is no JSON: {error}") from None

    def __getitem__(self, name: str) -> Parameter:
        try:
            return Parameter(
                name,
                self._params[name],
                self.mesh,
                self.modes,
                self.stages,
                self._rules,
            )
        except KeyError:
            near = self._names.near(str(name))
            hint = f" (did you mean {near}?)" if near else ""
            if not near and self._params:
                hint = f": the plan's names are such as {next(iter(self._params))}"
            raise KeyError(f"{name}{hint}") from None

    if not TYPE_CHECKING:  # or every attribute would be one to a type checker

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute("a plan", name, _WRITTEN)

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def __contains__(self, name: object) -> bool:
        return name in self._params

    def __repr__(self) -> str:
        axes = " ".join(f"{axis.name}={axis.size}" for axis in self.mesh.axes)
        return f"Plan({axes}; {len(self)} parameters)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlanData) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @functools.cached_property
    def _names(self) -> Names:
        return Names(
            {name: shape_of(data["shape"]) for name, data in self._params.items()}
        )

    @property
    def arrays(self) -> Arrays:
        """Finds the parameters that the arrays of a tree belong to."""
        return self._names.arrays

    @property
    def separator(self) -> str:
        """Between the parts of its names: "/" or "."."""
        return self._names.separator

    def attention(self, mode: str = "train") -> dict[str, Spec]:
        """The specs of attention's tensors: "query", "key", ..."""
        specs = self.data["attention"]
        if mode not in specs:
            raise not_planned(mode, self.modes)
        return {name: spec_of(spec) for name, spec in specs[mode].items()}

    def activations(self, mode: str = "train") -> dict[str, Spec]:
        """The specs of the other activations: "hidden" [batch, length, width], "mlp",
        "logits", "experts" [batch, expert, rows, width], and those that the rules
        name. Empty for a plan without them."""
        specs = self.data.get("activations")
        if specs is None:
            return {}
        if mode not in specs:
            raise not_planned(mode, self.modes)
        return {name: spec_of(spec) for name, spec in specs[mode].items()}

    def activation(self, name: str, mode: str = "train") -> Spec:
        """The spec of an activation or of a tensor of attention, by its name."""
        specs = {**self.attention(mode), **self.activations(mode)}
        if name not in specs:
            raise PlanError(f"no activation is called {name!r}: {', '.join(specs)}")
        return specs[name]

    def folded(self) -> Iterator[Folded]:
        """Parameters of one template, shape and layout together, in order."""
        groups: dict[tuple[str, str], list[str]] = {}
        for name, data in self._params.items():
            same = {key: data[key] for key in data if key not in ("rule", "placement")}
            key = (fold(name), json.dumps(same, sort_keys=True))
            groups.setdefault(key, []).append(name)
        for (template, _), names in groups.items():
            yield Folded(template, tuple(names), self[names[0]])

    # Models.

    def name_of(self, path: tuple[str, ...]) -> str | None:
        """The parameter at a path into a model's tree. A `params` in front, and
        a `value` at the end (of nnx variables), may be there or not."""
        return self._names.at(path)

    def near(self, name: str) -> str:
        """The parameter that was probably meant, or nothing."""
        return self._names.near(name)

    def check(self, model: Any, dtypes: bool = True) -> list[Difference]:
        """Compares names, shapes and data types with a live model's: a tree of
        arrays, a state dict, a TrainState, or a module of PyTorch, equinox or
        flax. Buffers and other state are compared where the plan has them."""
        model = parameters_of(model)
        out: list[Difference] = []
        seen: set[str] = set()
        for leaf in leaves(model):
            name = self.name_of(leaf.path)
            if name is None:
                shown = self.separator.join(leaf.path)
                out.append(Difference("unexpected", shown, self.near(shown)))
            else:
                seen.add(name)
                out.extend(self._unlike(name, leaf, dtypes))
        for leaf in other_leaves(model):
            name = self.name_of(leaf.path)
            if name is not None and name not in seen:
                seen.add(name)
                out.extend(self._unlike(name, leaf, dtypes))
        out.extend(
            Difference("missing", name) for name in self._params if name not in seen
        )
        return out

    def _unlike(self, name: str, leaf: Leaf, dtypes: bool) -> Iterator[Difference]:
        param = self[name]
        if param.shape is not None and leaf.shape != param.shape:
            yield Difference(
                "shape", name, str(list(param.shape)), str(list(leaf.shape))
            )
        if dtypes and param.dtype and leaf.dtype and leaf.dtype != param.dtype:
            yield Difference("dtype", name, param.dtype, leaf.dtype)
