"""Checks JSON against the schema of plans, and finds places in JSON text.

schemas/plan.schema.json is what `shardc schema plan` prints, so the program and
this package accept the same plans. Only the keywords that this schema has are
implemented:

    check({"size": "2"}, {"properties": {"size": {"type": "integer"}}}, schema)
      ->  Misfit(("size",), "is not an integer")
"""

from __future__ import annotations

import functools
import json
import pathlib
import re
from collections.abc import Mapping
from typing import Any

Path = tuple[object, ...]

_TYPES: dict[str, str] = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "integer": "an integer of 64 bits",
    "boolean": "true or false",
    "null": "null",
}


class Misfit(Exception):
    """A value that does not have the form of the schema."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


@functools.cache
def plan_schema() -> dict[str, Any]:
    """The schema of plans: installed with this module, or of the sources."""
    here = pathlib.Path(__file__)
    path = here.with_name("plan.schema.json")
    if not path.is_file():
        path = here.parents[2] / "schemas" / "plan.schema.json"
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def _is(value: Any, kind: str) -> bool:
    if kind == "object":
        return isinstance(value, Mapping)
    if kind == "array":
        return isinstance(value, (list, tuple))
    if kind == "string":
        return isinstance(value, str)
    if kind == "integer":
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole and -(2**63) <= value < 2**63
    if kind == "boolean":
        return isinstance(value, bool)
    return value is None


def check(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> None:
    """Raises Misfit where the value does not have the form of the schema."""
    _check(value, schema, root, ())


def _check(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], path: Path
) -> None:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _check(value, root["definitions"][name], root, path)
    if "type" in schema:
        kinds = schema["type"]
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not any(_is(value, kind) for kind in kinds):
            known = " or ".join(_TYPES[kind] for kind in kinds)
            raise Misfit(path, f"is not {known}")
    if "const" in schema and value != schema["const"]:
        raise Misfit(path, f"is not {schema['const']!r}")
    if "enum" in schema and not (isinstance(value, str) and value in schema["enum"]):
        raise Misfit(path, f"is none of {', '.join(schema['enum'])}")
    if "minimum" in schema and isinstance(value, (int, float)) and value < schema["minimum"]:
        raise Misfit(path, f"is less than {schema['minimum']}")
    if "pattern" in schema and not re.fullmatch(schema["pattern"], value, re.ASCII):
        raise Misfit(path, f"does not match {schema['pattern']}")
    for one in schema.get("allOf", ()):
        _check(value, one, root, path)
    if "anyOf" in schema:
        _check_any(value, schema["anyOf"], root, path)
    if isinstance(value, Mapping):
        _check_object(value, schema, root, path)
    elif isinstance(value, (list, tuple)):
        if len(value) < schema.get("minItems", 0):
            raise Misfit(path, "has too few items")
        if len(value) > schema.get("maxItems", len(value)):
            raise Misfit(path, "has too many items")
        if "items" in schema:
            for number, item in enumerate(value):
                _check(item, schema["items"], root, (*path, number))


def _check_any(value: Any, choices: Any, root: Mapping[str, Any], path: Path) -> None:
    deepest = Misfit(path, "has none of the forms that are known")
    for choice in choices:
        try:
            return _check(value, choice, root, path)
        except Misfit as error:
            # The choice that fits furthest is the one that was meant.
            if len(error.path) > len(deepest.path):
                deepest = error
    raise deepest


def _check_object(
    value: Mapping[Any, Any],
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    path: Path,
) -> None:
    known = schema.get("properties", {})
    other = schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            raise Misfit(path, f"has no {name!r}")
    for name, member in value.items():
        if not isinstance(name, str):
            raise Misfit(path, f"has a key that is no string: {name!r}")
        if "propertyNames" in schema:
            _check(name, schema["propertyNames"], root, (*path, name))
        if name in known:
            _check(member, known[name], root, (*path, name))
        elif other is False:
            raise Misfit((*path, name), "is not a member of this object")
        elif isinstance(other, Mapping):
            _check(member, other, root, (*path, name))


def path_text(path: Path) -> str:
    """`params["a/b"].shape[0]`."""
    out = ""
    for part in path:
        if isinstance(part, str) and part.isidentifier():
            out += f".{part}" if out else part
        else:
            out += f"[{json.dumps(part)}]"
    return out or "the plan"


_SPACE = re.compile(r"[ \t\n\r]*")


def position(text: str, path: Path) -> tuple[int, int]:
    """Returns line and column, from 1, of the value at a path of valid JSON."""
    decode = json.JSONDecoder().raw_decode

    def skip(at: int) -> int:
        found = _SPACE.match(text, at)
        return found.end() if found else at

    at = skip(0)
    for part in path:
        is_list = text[at] == "["
        at = skip(at + 1)
        number = 0
        while at < len(text) and text[at] not in "]}":
            key: object = number
            if not is_list:
                key, at = decode(text, at)
                at = skip(skip(at) + 1)
            if key == part:
                break
            at = skip(decode(text, at)[1])
            if at < len(text) and text[at] == ",":
                at = skip(at + 1)
            number += 1
    before = text[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
