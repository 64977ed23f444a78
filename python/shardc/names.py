"""Names of parameters: their parts, and layers folded to one template."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

from shardc.arrays import Arrays
from shardc.mesh import PlanError

_NUMBER = re.compile(r"(?<![A-Za-z0-9_])[0-9]+(?![A-Za-z0-9_])")


def fold(name: str) -> str:
    """The name with `*` for each part that is a number.

    >>> fold("layers.12.mlp.up_proj.weight")
    'layers.*.mlp.up_proj.weight'
    """
    return _NUMBER.sub("*", name)


def separator_of(names: Iterable[str]) -> str:
    """The one of `/` and `.` that most names hold, as the program's exports have
    it; `/` where as many names hold either."""
    slashes = dots = 0
    for name in names:
        slashes += "/" in name
        dots += "." in name
    return "." if dots > slashes else "/"


# How many comparisons of two names all suggestions together may take.
_COMPARISONS = 20000


class Names:
    """The names of a plan, found by the paths of a model's tree."""

    def __init__(self, shapes: Mapping[str, Sequence[int] | None]) -> None:
        self.separator = separator_of(shapes)
        self.arrays = Arrays(shapes, self.separator, self.near, PlanError, PlanError)
        self._first: dict[str, str] = {}  # of each template
        for name in shapes:
            self._first.setdefault(fold(name), name)
        self._near: dict[str, str] = {}  # the template next to another one
        self._left = _COMPARISONS

    def at(self, path: tuple[str, ...]) -> str | None:
        """The name of a path. A `params` in front, and a `value` at the end (of
        nnx variables), may be there or not."""
        return self.arrays.name_at(path)

    def _longer(self, template: str) -> list[str]:
        """The shortest template with all parts of a name in their order, such as
        `layers.*.attn.q_proj.weight` of `layers.*.q_proj`, if there is one."""
        parts = template.split(self.separator)
        found = []
        for one in self._first:
            rest = iter(one.split(self.separator))
            if all(part in rest for part in parts):
                found.append(one)
        return [min(found, key=len)] if found else []

    def near(self, name: str) -> str:
        """The name that was probably meant, or nothing. Templates are compared,
        so that layers cost no more than one, and only so many of them."""
        template = fold(name)
        if template not in self._near:
            if self._left <= 0:
                return ""
            self._left -= len(self._first)
            close = self._longer(template) or difflib.get_close_matches(
                template, self._first, 1
            )
            self._near[template] = close[0] if close else ""
        near = self._near[template]
        if not near:
            return ""
        numbers = iter(_NUMBER.findall(name))
        filled = re.sub(r"\*", lambda _: next(numbers, "0"), near)
        return self.at((filled,)) or self._first[near]
