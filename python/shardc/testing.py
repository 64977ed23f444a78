"""Assertions about programs, compiled or traced, for any test runner.

def test_the_step_sends_what_it_should():
    compiled = jax.jit(step).lower(params, batch).compile()
    shardc.testing.assert_collectives(
        compiled,
        {"all_gather": {"fsdp": "160 KiB"}, "all_reduce": ["dp", "tp"]},
        mesh={"dp": 2, "fsdp": 2, "tp": 2},
    )

def test_the_plan_computes_the_step():
    shardc.testing.assert_plan(step, plan, params, state, batch)
"""

from __future__ import annotations

import dataclasses
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union

from shardc.audits import Audit, audit
from shardc.command import Path, json_of
from shardc.notebook import size_text
from shardc.plan import Plan
from shardc.results import plan_file

# Bytes, as a number or as `160 KiB`.
Size = Union[int, str]
# By kind: the axes, or by axes the bytes that a device sends.
Expected = Mapping[str, Union[Iterable[str], Mapping[str, Size]]]

_UNITS = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}
_KINDS = (
    "all_gather",
    "all_reduce",
    "reduce_scatter",
    "all_to_all",
    "ppermute",
    "broadcast",
)


def assert_collectives(
    program: Any,
    expected: Expected,
    *,
    tolerance: float = 0.0,
    **settings: Any,
) -> Audit:
    """Asserts that a program runs these collectives over these axes and no other,
    and returns its audit. `expected` has the axes by kind, in any order of their
    names: `{"all_gather": ["fsdp"]}`, or with the bytes that a device sends in a
    step: `{"all_reduce": {"dp+fsdp": 1536}}`. The bytes may differ by `tolerance`,
    a fraction. `program` is an Audit, or what `shardc.audit` takes, with its
    keywords. The AssertionError lists each difference, with the source line of
    what is sent, and what to expect instead."""
    wanted = _wanted(expected)
    made = program if isinstance(program, Audit) else audit(program, **settings)
    sent = {_route(*route): size for route, size in made.bytes_by_route.items()}
    problems = []
    for route in [*sent, *(route for route in wanted if route not in sent)]:
        size = sent.get(route, 0)
        limit = wanted.get(route, 0)
        if limit is None:
            equal = size > 0
        else:
            equal = abs(size - limit) <= tolerance * limit
        if not equal:
            problems.append(_difference(made, route, size, limit, route in wanted))
    if problems:
        raise AssertionError(
            f"the collectives of {made.program} are not the expected ones:\n"
            + "\n".join(problems)
            + f"\nthe program sends:\n{_literal(made)}"
        )
    return made


def _difference(
    made: Audit, route: tuple[str, str], size: int, limit: int | None, listed: bool
) -> str:
    kind, over = route
    if limit is None:
        return f"  {kind} over {over}: expected, but the program has none"
    text = f"  {kind} over {over}: {_sizes(size, limit)}"
    if not listed:
        text = f"  {kind} over {over}: {_bytes(size)}, not expected"
    of_route = [one for one in made.collectives if _route(one.kind, one.over) == route]
    of_route.sort(key=lambda one: -one.bytes_per_device)
    for one in of_route[:3]:
        text += f"\n    {one}"
    if len(of_route) > 3:
        text += f"\n    and {len(of_route) - 3} more"
    return text


def _bytes(size: int) -> str:
    return f"{size} bytes" + (f" ({size_text(size)})" if size >= 1024 else "")


def _sizes(size: int, limit: int) -> str:
    return f"{_bytes(size)}, expected {_bytes(limit)}"


def _literal(made: Audit) -> str:
    """Returns what `expected` would be for the program, to copy into the test."""
    by_kind: dict[str, dict[str, int]] = {}
    for (kind, over), size in made.bytes_by_route.items():
        by_kind.setdefault(kind, {})[over] = size
    lines = [f"    {kind!r}: {sizes!r}," for kind, sizes in by_kind.items()]
    return "\n".join(["  {", *lines, "  }"])


def _route(kind: str, over: str) -> tuple[str, str]:
    """Returns the key of a route; `tp+dp` and `dp+tp` have the same."""
    return kind, "+".join(sorted(over.split("+")))


def _wanted(expected: Expected) -> dict[tuple[str, str], int | None]:
    out: dict[tuple[str, str], int | None] = {}
    for kind, axes in expected.items():
        if kind not in _KINDS:
            raise ValueError(f"{kind!r} is no collective: {', '.join(_KINDS)}")
        if isinstance(axes, str):
            raise TypeError(
                f"the axes of {kind} are a list, such as [{axes!r}], or a mapping"
                " from axes to bytes"
            )
        for over in axes:
            size = axes[over] if isinstance(axes, Mapping) else None
            out[_route(kind, over)] = None if size is None else _size(size)
    return out


def _size(size: Size) -> int:
    if isinstance(size, int):
        return size
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]iB|B)", size)
    if match is None:
        raise ValueError(f"{size!r} is no size: write bytes, or `160 KiB`")
    return round(float(match[1]) * (1 << _UNITS[match[2]]))


# ---- Proofs of traced functions


@dataclasses.dataclass(frozen=True)
class Proof:
    """That a plan computes a function: `shardc.program-proof/v1`. It is true if every
    value of the sharded run is that of the dense one, and no op ran as a stand-in."""

    data: Mapping[str, Any]

    def __bool__(self) -> bool:
        return self.data["status"] == "equal" and bool(self.data["complete"])

    def __str__(self) -> str:
        data = self.data
        lines = [f"{data['function']} on {data['mesh']}"]
        lines += [f"  note: {note}" for note in data["notes"]]
        for one in data["not_proved"]:
            what = one["what"] if one["drawn"] else f"nothing is known of `{one['what']}`"
            lines.append(f"  not proved at {_place(one)}: {what}")
        failure = data["failure"]
        if failure:
            lines.append(f"  {data['status']} at {_place(failure)}: {failure['message']}")
        else:
            sent = sum(one["bytes_per_device"] for one in data["collectives"])
            lines.append(
                f"  equal{'' if self else ' but for stand-ins'}: {data['values']} values and"
                f" {len(data['results'])} results; the busiest device sends {size_text(sent)}"
            )
        return "\n".join(lines)

    __repr__ = __str__


def assert_plan(
    fn: Callable[..., Any] | Mapping[str, Any] | Path,
    plan: Plan | Path,
    *inputs: Any,
    reference: Callable[..., Any] | Mapping[str, Any] | Path | None = None,
    stand_ins: bool = False,
    mode: str = "train",
    seed: int = 0,
) -> Proof:
    """Asserts that a function computes the same when it is sharded by a plan, by
    `shardc verify step --program`, and returns the proof.

    `fn(*inputs)` is traced without devices, as `shardc.program` does: the inputs are
    its parameters, then the state of an optimizer or a cache if it has one, then the
    batch. Arrays may be jax.ShapeDtypeStruct, with small sizes. With PyTorch, `fn` is a
    module, or a function of which one input is a module. `fn` may also be a
    program that was traced, or its file, without inputs. With `reference`, another
    function of the same inputs must have the same results, such as the one without
    `shard_map`. An op that nothing is known of, such as a kernel of Pallas, is not
    proved, which fails unless `stand_ins` is true."""
    with tempfile.TemporaryDirectory() as folder:
        file = plan_file(plan, folder, "plan.json")
        arguments = ["verify", "step", "--plan", file, "--mode", mode]
        arguments += ["--seed", str(seed), "--program"]
        arguments.append(_program(fn, inputs, folder, "program.json"))
        if reference is not None:
            arguments += ["--reference", _program(reference, inputs, folder, "other.json")]
        proof = Proof(json_of(arguments)[1])
    if proof.data["status"] != "equal" or not (proof or stand_ins):
        raise AssertionError(f"the plan does not prove {proof}")
    return proof


def _program(fn: Any, inputs: tuple[Any, ...], folder: str, name: str) -> str:
    """The file of a function's program."""
    if isinstance(fn, (str, os.PathLike)):
        return os.fspath(fn)
    import shardc.program

    if not isinstance(fn, Mapping):
        if len(inputs) < 2 and not hasattr(fn, "named_parameters"):
            raise TypeError("give the inputs of the function: its parameters and its batch")
        fn = shardc.program.of_inputs(fn, inputs)
    path = os.path.join(folder, name)
    shardc.program.write(dict(fn), path)
    return path


def _place(one: Mapping[str, Any]) -> str:
    return one["line"] or "an unknown line"
