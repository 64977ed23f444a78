"""Folded lists of tensors: those that differ only in the numbers of their
names are one entry, and nothing is lost.

`{"name": "layers.{}.w", "indices": [[0, 1, 2]], ...}` is three tensors; with
several `{}` every combination of one number from each list is one.
"""

import itertools
import re

NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def rectangles(rows):
    """The rows, tuples of one length, as products of lists of numbers."""
    if not rows or not rows[0]:
        return [[]] * len(rows)
    rest = {}
    for row in rows:
        rest.setdefault(row[0], []).append(row[1:])
    alike = {}
    for first, tails in rest.items():
        alike.setdefault(tuple(sorted(tails)), []).append(first)
    return [[sorted(firsts), *tail] for tails, firsts in alike.items()
            for tail in rectangles(list(tails))]


def fold(tensors):
    groups = {}
    for tensor in tensors:
        name = NUMBER.sub("{}", tensor["name"])
        numbers = tuple(map(int, NUMBER.findall(tensor["name"])))
        more = {key: value for key, value in tensor.items() if key != "name"}
        groups.setdefault((name, str(more)), (name, more, []))[2].append(
            numbers)
    return [{"name": name, **({"indices": lists} if lists else {}), **more}
            for name, more, rows in groups.values()
            for lists in rectangles(rows)]


def unfold(folded):
    for entry in folded:
        more = {key: value for key, value in entry.items()
                if key not in ("name", "indices")}
        for numbers in itertools.product(*entry.get("indices", [])):
            yield {"name": entry["name"].format(*numbers), **more}
