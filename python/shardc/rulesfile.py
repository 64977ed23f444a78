"""A rules file of what a model declares, its mesh file, and the proof that each
parameter gets from the rules what it declares."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import tempfile
from collections.abc import Mapping
from typing import Any

from shardc import files
from shardc.declared import DeclarationError, Declarations
from shardc.folding import Folded, folded
from shardc.logical_axes import RESERVED
from shardc.manifest import SCHEMA as MANIFEST
from shardc.mesh import Spec
from shardc.command import find_program, run


@dataclasses.dataclass(frozen=True)
class Proof:
    """How many parameters get their declared spec from the rules. `different` has
    what they get in its place, and `refused` the reason."""

    judge: str
    equal: int
    different: Mapping[str, str]
    refused: Mapping[str, str]

    def __bool__(self) -> bool:
        return not (self.different or self.refused)

    def __str__(self) -> str:
        return (
            f"{self.judge}: {self.equal} equal, {len(self.different)} different,"
            f" {len(self.refused)} refused"
        )


class Rules:
    """The rules that a model declares, its mesh, and the proof."""

    def __init__(self, declared: Declarations) -> None:
        self.declared = declared
        values = {
            one.name: (one.spec is not None, one.spec or ())
            for one in declared.parameters
            if not one.refused
        }
        self.rules: list[Folded] = folded(values, declared.separator)
        # What declares nothing comes last, under a comment of its own.
        self.rules.sort(key=lambda rule: not _value(rule)[0])
        self._shapes = {one.name: one.shape for one in declared.parameters}

    @property
    def silent(self) -> tuple[str, ...]:
        """Names of the parameters that declare nothing."""
        return tuple(
            one.name
            for one in self.declared.parameters
            if one.spec is None and not one.refused
        )

    def text(self, source: str = "a live model") -> str:
        """The rules file."""
        out = [f"# What {source} declares.", "version: 1"]
        out.append(f'separator: "{self.declared.separator}"')
        reserved = sorted(self._used() & RESERVED)
        if reserved:
            out.append("register:")
            for axis in reserved:
                out.append(f"  {axis}: {{rule: {{axis: {axis}}}, override: true}}")
        for one in self.declared.parameters:
            if one.refused:
                out.append(f"# No rule for {one.name}: it declares {one.refused}.")
        out.append("rules:" if self.rules else "rules: []")
        declares = True
        for rule in self.rules:
            if declares and not _value(rule)[0]:
                out.append("  # These declare no sharding, and are replicated.")
                declares = False
            quoted = rule.pattern.replace("'", "''")
            out.append(f"  - match: '{quoted}'")
            out.append(f"    spec: {self._spec_text(rule)}")
        return "\n".join(out) + "\n"

    def mesh_text(self) -> str:
        """The mesh file."""
        if not self.declared.axes:
            raise DeclarationError(
                "the model declares no mesh: pass one, such as `--mesh dp:2,tp:4`"
            )
        devices = 1
        for size in self.declared.axes.values():
            devices *= size
        axes = ", ".join(f"{_quoted(n)}: {s}" for n, s in self.declared.axes.items())
        out = f"axes: {{{axes}}}\ndevices: {devices}\n"
        if self.declared.axis_types:
            types = ", ".join(
                f"{_quoted(n)}: {t}" for n, t in self.declared.axis_types.items()
            )
            out += f"axis_types: {{{types}}}\n"
        return out

    def prove(self, program: bool = True) -> Proof:
        """Matches the rules again: by the program where it is found and `program`
        is true, else by this package's own matching."""
        refused = {
            one.name: f"declares {one.refused}"
            for one in self.declared.parameters
            if one.refused
        }
        wanted = {
            one.name: one.spec or ()
            for one in self.declared.parameters
            if not one.refused
        }
        judge, got = "matched again without the program shardc", self._matched()
        if program and wanted:
            with contextlib.suppress(FileNotFoundError):
                find_program()
                got, found = self._planned()
                judge = (
                    f"matched again by {run(['--version']).stdout.split(chr(10))[0]}"
                )
                refused.update(found)
        different = {
            name: f"{_shown(spec)} declared, {_shown(got.get(name))} from the rules"
            for name, spec in wanted.items()
            if name not in refused and got.get(name) != spec
        }
        equal = len(self.declared.parameters) - len(different) - len(refused)
        return Proof(judge, equal, different, refused)

    def _matched(self) -> dict[str, Spec]:
        compiled = [(re.compile(r.pattern), _value(r)[1]) for r in self.rules]
        out = {}
        for name in self._shapes:
            for pattern, spec in compiled:
                if pattern.search(name):
                    out[name] = spec
                    break
        return out

    def _planned(self) -> tuple[dict[str, Spec], dict[str, str]]:
        """Specs of the program's plan, and why it refuses the others."""
        params = {
            one.name: {"shape": list(one.shape), "dtype": "F32"}
            for one in self.declared.parameters
            if not one.refused
        }
        manifest = {
            "schema": MANIFEST,
            "separator": self.declared.separator,
            "params": params,
        }
        # Without a mesh every size is 1, which divides every dimension.
        axes = self.declared.axes or dict.fromkeys(sorted(self._used()), 1) or {"dp": 1}
        mesh = ", ".join(f"{_quoted(n)}: {s}" for n, s in axes.items())
        with tempfile.TemporaryDirectory() as folder:
            paths = {
                name: files.scratch(folder, name, text)
                for name, text in (
                    ("m.json", json.dumps(manifest)),
                    ("r.yaml", self.text()),
                    ("mesh.yaml", f"axes: {{{mesh}}}\n"),
                )
            }
            out = os.path.join(folder, "plan.json")
            flags = ["--mesh", paths["mesh.yaml"], "--rules", paths["r.yaml"]]
            flags += ["--manifest", paths["m.json"], "--no-project", "--quiet"]
            run(["plan", *flags, "--keep-going", "--modes", "train", "-o", out])
            with open(out, encoding="utf-8") as file:
                plan = json.load(file)
        refused = {}
        for finding in plan.get("diagnostics", ()):
            if finding["level"] == "error":
                reason = f"{finding['code']} {finding['message']}"
                refused.update(dict.fromkeys(finding["params"], reason))
        return {
            name: _trimmed(p["spec"]) for name, p in plan["params"].items()
        }, refused

    def _used(self) -> set[str]:
        used = set(self.declared.axes)
        for rule in self.rules:
            for entry in _value(rule)[1]:
                used.update((entry,) if isinstance(entry, str) else entry or ())
        return used

    def _spec_text(self, rule: Folded) -> str:
        spec = _value(rule)[1]
        if not spec:
            return "[]"
        ranks = {len(self._shapes[name]) for name in rule.names}
        length = ranks.pop() if len(ranks) == 1 else 0
        full = (*spec, *[None] * (length - len(spec)))
        entries = []
        for entry in full:
            if entry is None or isinstance(entry, str):
                entries.append("null" if entry is None else _quoted(entry))
            else:
                entries.append(f"[{', '.join(map(_quoted, entry))}]")
        return f"[{', '.join(entries)}]"


def _value(rule: Folded) -> tuple[bool, Spec]:
    value: Any = rule.value
    return value  # type: ignore[no-any-return]


def _quoted(name: str) -> str:
    """A name of an axis in YAML."""
    return name if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) else json.dumps(name)


def _trimmed(spec: list[Any]) -> Spec:
    out = [tuple(e) if isinstance(e, list) else e for e in spec]
    while out and out[-1] is None:
        out.pop()
    return tuple(out)


def _shown(spec: Spec | None) -> str:
    return "nothing" if spec is None else json.dumps(spec)
