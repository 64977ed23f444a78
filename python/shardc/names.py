"""Names of parameters: their parts, and layers folded to one template."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBER = re.compile(r"(?<![A-Za-z0-9_])[0-9]+(?![A-Za-z0-9_])")


def fold(name: str) -> str:
    """The name with `*` for each part that is a number.

    >>> fold("layers.12.mlp.up_proj.weight")
    'layers.*.mlp.up_proj.weight'
    """
    return _NUMBER.sub("*", name)


def separator_of(names: Iterable[str]) -> str:
    """`/` where any name has one, else `.`."""
    return "/" if any("/" in name for name in names) else "."


def parts(name: str, separator: str) -> tuple[str, ...]:
    return tuple(name.split(separator))
