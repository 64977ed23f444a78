"""Whether a plan is as the compiler wrote it.

The fingerprint covers a plan's meaning: mesh, modes, attention specs, stages, and
the shape, dtype, specs, placement, stages, weight decay and unevenness of each
parameter. What it does not cover, such as shard shapes, follows from those and is
computed again:

    "shape": [8], "spec": ["tp"] with tp 4, "shard_shape": [4]
      ->  shard_shape is [4], and the rest of the plan gives [2]
"""

from __future__ import annotations

import decimal
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shardc.mesh import factor_of
from shardc.schema import Misfit, Path, check, plan_schema

# Bytes of types that are stored in blocks: elements of a block, and its bytes.
# The other types are blocks of one element, or of 8 where that is no whole byte.
_BLOCKS: dict[str, tuple[int, int]] = {
    "Q4_0": (32, 18),
    "Q4_1": (32, 20),
    "Q5_0": (32, 22),
    "Q5_1": (32, 24),
    "Q8_0": (32, 34),
    "Q8_1": (32, 36),
    "Q2_K": (256, 84),
    "Q3_K": (256, 110),
    "Q4_K": (256, 144),
    "Q5_K": (256, 176),
    "Q6_K": (256, 210),
    "Q8_K": (256, 292),
    "IQ2_XXS": (256, 66),
    "IQ2_XS": (256, 74),
    "IQ3_XXS": (256, 98),
    "IQ1_S": (256, 50),
    "IQ4_NL": (32, 18),
    "IQ3_S": (256, 110),
    "IQ2_S": (256, 82),
    "IQ4_XS": (256, 136),
    "IQ1_M": (256, 56),
    "TQ1_0": (256, 54),
    "TQ2_0": (256, 66),
    "MXFP4": (32, 17),
}
_BITS: dict[str, int] = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
    **dict.fromkeys(("F4", "I4", "U4"), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
}
_LIMIT = 2**63
_MOST_RANKS = 2**20  # of a pipeline: bytes are added up for each


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _canonical(value: Any) -> str:
    """The text by RFC 8785, which writes integers above 2^53 as doubles."""
    return _text(_as_doubles(value))


def _as_doubles(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_doubles(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_doubles(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and value > 2**53:
        return int(decimal.Decimal(repr(float(value))))
    return value


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be")


def _product(numbers: Any) -> int:
    out = 1
    for number in numbers:
        out *= number
    return out


def _bytes(elements: int, dtype: str) -> int | None:
    """None where the number does not fit in 64 bits."""
    if dtype in _BLOCKS:
        of_block, size = _BLOCKS[dtype]
        out = -(-elements // of_block) * size
    else:
        out = -(-elements * _BITS[dtype] // 8)
    return out if out < _LIMIT else None


def _axes(entry: Any) -> list[str]:
    return [entry] if isinstance(entry, str) else list(entry or ())


def _size(axis: str, sizes: Mapping[str, int]) -> int | None:
    """Of an axis or a factor of one; None if the mesh lacks it."""
    factor = factor_of(axis)
    if factor is None:
        return sizes.get(axis)
    name, before, size = factor
    whole = sizes.get(name, 0)
    return size if before * size and whole and whole % (before * size) == 0 else None


def check_form(data: Any) -> None:
    """Raises Misfit where the plan has not the form of a plan, or names an axis
    that its mesh lacks."""
    schema = plan_schema()
    params = data.get("params") if isinstance(data, Mapping) else None
    if not isinstance(params, Mapping):
        check(data, schema, schema)
    check({**data, "params": {}}, schema, schema)
    sizes = _mesh_sizes(data["mesh"])
    stages = _checked_stages(data, sizes)
    known: dict[str, None] = {}
    for name, param in params.items():  # type: ignore[union-attr]
        if not isinstance(name, str):
            raise Misfit(("params",), f"has a key that is no string: {name!r}")
        try:
            text = _text(param)
            if text in known:
                continue
            check(param, schema["definitions"]["param"], schema)
            _check_names(param, sizes)
            if stages is not None:
                _check_stages(param, stages)
        except Misfit as error:
            raise Misfit(("params", name, *error.path), error.message) from None
        except (TypeError, ValueError, RecursionError) as error:
            raise Misfit(("params", name), f"is no JSON: {error}") from None
        known[text] = None


def _mesh_sizes(mesh: Mapping[str, Any]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for number, axis in enumerate(mesh["axes"]):
        if axis["name"] in sizes:
            raise Misfit(("mesh", "axes", number), "has the name of another axis")
        sizes[axis["name"]] = axis["size"]
    devices = _product(sizes.values())
    if devices >= _LIMIT or mesh["devices"] != devices:
        raise Misfit(("mesh", "devices"), f"is not {devices}, the product of the axes")
    if devices % mesh.get("processes", 1):
        raise Misfit(("mesh", "processes"), f"does not divide {devices} devices")
    if "slices" in mesh or "dcn" in mesh:
        dcn = mesh.get("dcn", ())
        fits = len(dcn) == len(sizes) and not any(
            size % factor for size, factor in zip(sizes.values(), dcn)
        )
        if not fits or mesh.get("slices") != _product(dcn):
            raise Misfit(("mesh",), "has `slices` and `dcn` that do not agree")
    return sizes


def _checked_stages(
    data: Mapping[str, Any], sizes: Mapping[str, int]
) -> Mapping[str, Any] | None:
    stages: Mapping[str, Any] | None = data.get("stages")
    if (stages is not None) != (data["schema"] == "shardc.plan/v2"):
        raise Misfit((), "has `stages` exactly if its schema is shardc.plan/v2")
    if stages is None:
        return None
    if stages["axis"] not in sizes:
        raise Misfit(("stages", "axis"), f"is no axis of the mesh: {stages['axis']!r}")
    ranks, end = sizes[stages["axis"]], 0
    if ranks > _MOST_RANKS:
        raise Misfit(("stages", "axis"), f"has {ranks} ranks, more than {_MOST_RANKS}")
    for number, axis in enumerate(stages.get("hidden", ())):
        if axis not in sizes:
            raise Misfit(
                ("stages", "hidden", number), f"is no axis of the mesh: {axis!r}"
            )
    for number, stage in enumerate(stages["of"]):
        path = ("stages", "of", number)
        if any(rank >= ranks for rank in stage["ranks"]):
            raise Misfit((*path, "ranks"), f"has a rank beyond the {ranks} of the axis")
        begin, after = stage["layers"]
        if begin != end or after < begin:
            raise Misfit((*path, "layers"), "does not follow the stage before")
        end = after
    if not stages["of"]:
        raise Misfit(("stages", "of"), "has no stage")
    for number, copy in enumerate(stages.get("copies", ())):
        path = ("stages", "copies", number)
        if any(stage >= len(stages["of"]) for stage in copy["stages"]):
            raise Misfit((*path, "stages"), "has a stage that is none")
        if any(rank >= ranks for rank in copy["ranks"]):
            raise Misfit((*path, "ranks"), f"has a rank beyond the {ranks} of the axis")
    return stages


def _check_stages(param: Mapping[str, Any], stages: Mapping[str, Any]) -> None:
    if ("stages" in param) == ("slices" in param):
        raise Misfit((), "has `stages` or `slices`, one of them")
    for path, layout in _layouts(param):
        if any(stages["axis"] in _axes(entry) for entry in layout["spec"]):
            raise Misfit(
                (*path, "spec"), f"uses {stages['axis']!r}, the axis of the stages"
            )
    if "stages" in param:
        own = param["stages"]
        ascends = all(a < b for a, b in zip(own, own[1:]))
        if not own or not ascends or own[-1] >= len(stages["of"]):
            raise Misfit(("stages",), "is no list of stages, ascending")
        return
    slices = param["slices"]
    dims, shape = slices.get("dims", 1), param["shape"]
    if dims not in (1, 3):
        raise Misfit(("slices", "dims"), "is neither 1 nor 3")
    if len(slices["of"]) != len(stages["of"]):
        raise Misfit(("slices", "of"), "has no range for each stage")
    if shape is None or slices["dim"] + dims > len(shape):
        raise Misfit(("slices", "dim"), "is no dimension of the shape")
    end = 0
    for begin, after in slices["of"]:
        if begin < after and begin == end:
            end = after
        elif begin != after:
            raise Misfit(
                ("slices", "of"), "does not have all layers, one after the other"
            )
    if end != _product(shape[slices["dim"] : slices["dim"] + dims]) or not end:
        raise Misfit(("slices", "of"), "does not have all layers, one after the other")


def _layouts(param: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    yield (), param
    for mode, layout in param.get("modes", {}).items():
        yield ("modes", mode), layout


def _check_names(param: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    for path, layout in _layouts(param):
        for dim, entry in enumerate(layout["spec"]):
            for axis in _axes(entry):
                if _size(axis, sizes) is None:
                    raise Misfit(
                        (*path, "spec", dim), f"names no axis of the mesh: {axis!r}"
                    )
    placed = param.get("placement")
    if placed and placed["coordinate"] >= sizes.get(placed["axis"], 0):
        raise Misfit(
            ("placement",),
            f"is no coordinate of the mesh: {placed['coordinate']} along"
            f" {placed['axis']!r}",
        )
    dtype = param["dtype"]
    if dtype is not None and dtype not in _BITS and dtype not in _BLOCKS:
        raise Misfit(("dtype",), f"is not known: {dtype!r}")


def held(
    shape: Any,
    dtype: str | None,
    spec: Any,
    sizes: Mapping[str, int],
    uneven: bool = False,
    dim_parts: Any = (),
) -> tuple[list[int] | None, int | None]:
    """The largest shard and its bytes; None where unknown. An illegal spec, which a
    plan has under --keep-going only, has no sizes. With `uneven`, axes may shard a
    dimension that they do not divide, unless its elements are stored in blocks or
    it has several parts (`dim_parts`), each of which the axes divide."""
    if shape is None or len(spec) > len(shape):
        return None, None
    out, used = list(shape), set()
    for dim, entry in enumerate(spec):
        parts = 1
        for axis in _axes(entry):
            name = (factor_of(axis) or (axis,))[0]
            if name in used:
                return None, None
            used.add(name)
            parts *= _size(axis, sizes) or 1
        block = 1
        if dim + 1 == len(shape) and dtype in _BLOCKS:
            block = _BLOCKS[dtype][0]
        several = dim_parts[dim] or 1 if dim < len(dim_parts) else 1
        if not isinstance(several, int):
            if _axes(entry) and not _each_divides(several, shape[dim], block, parts):
                return None, None
        elif shape[dim] and parts > 1 and not (uneven and block == 1 and several == 1):
            if shape[dim] % several:
                return None, None
            size = shape[dim] // several
            if size % block or size // block % parts:
                return None, None
        out[dim] = -(-out[dim] // parts)
    return out, None if dtype is None else _bytes(_product(out), dtype)


def _each_divides(sizes: Any, size: int, block: int, shards: int) -> bool:
    """Whether sizes of parts sum to the dimension, and each is shards of blocks."""
    return sum(sizes) == size and (
        shards == 1 or all(one % block == 0 and one // block % shards == 0 for one in sizes)
    )


def uneven_dims(shape: Any, spec: Any, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The dimensions that their axes do not divide."""
    return tuple(
        dim
        for dim, (size, entry) in enumerate(zip(shape, spec))
        if size % _product(sizes[axis] for axis in _axes(entry))
    )


def fullest(everywhere: int, placed: Mapping[tuple[str, int], int]) -> int | None:
    most: dict[str, int] = {}
    for (axis, _), size in placed.items():
        most[axis] = max(size, most.get(axis, 0))
    out = everywhere + sum(most.values())
    return out if out < _LIMIT else None


def _entry(param: Mapping[str, Any]) -> str:
    """The members of a parameter that the fingerprint covers."""
    keys = ("dtype", "parts", "placement", "shape", "slices", "spec", "stages", "uneven")
    out = {
        key: param[key] for key in (*keys, "weight_decay") if param.get(key) is not None
    }
    modes = {mode: of["spec"] for mode, of in param.get("modes", {}).items()}
    return _canonical({**out, "modes": modes} if modes else out)


def fingerprint(data: Mapping[str, Any]) -> str:
    """The fingerprint of a plan's content."""
    params = data["params"]
    names = sorted(params, key=_utf16)
    return _fingerprint(data, [f"{_text(n)}:{_entry(params[n])}" for n in names])


def _activations_digest(data: Mapping[str, Any]) -> str | None:
    """The digest of the activations; None in a plan without them."""
    if "activations" not in data:
        return None
    covered = ("activations", "activations_stated", "axes")
    whole = _canonical({key: data[key] for key in covered if key in data})
    return "sha256:" + hashlib.sha256(whole.encode()).hexdigest()


def _fingerprint(data: Mapping[str, Any], params: list[str]) -> str:
    members = [
        f'"{key}":{_canonical(data[key])}'
        for key in ("activations", "attention", "kv", "mesh", "modes")
        if key in data
        and (key != "attention" or data[key])
        and (key != "activations" or "activations_stated" in data)
    ]
    members.append(f'"params":{{{",".join(params)}}}')
    if "stages" in data:
        # The schedule is covered by its table.
        stages = {key: of for key, of in data["stages"].items() if key != "schedule"}
        members.append(f'"stages":{_canonical(stages)}')
    whole = "{" + ",".join(members) + "}"
    return "sha256:" + hashlib.sha256(whole.encode()).hexdigest()


def rule_index(rules: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The index of each rule by its name, as parameters of a plan name it: its
    pattern, followed by ` (2)`, ` (3)` ... if earlier rules have the same one."""
    patterns = {rule["match"] for rule in rules}
    last: dict[str, int] = {}
    out: dict[str, int] = {}
    for index, rule in enumerate(rules):
        name = pattern = rule["match"]
        last[pattern] = last.get(pattern, 0) + 1
        while last[pattern] > 1:
            name = f"{pattern} ({last[pattern]})"
            if name not in patterns:
                break
            last[pattern] += 1
        out[name] = index
    return out


def check_seal(data: Mapping[str, Any]) -> None:
    """Raises Misfit where a plan of the right form is not as it was written."""
    sizes = {axis["name"]: axis["size"] for axis in data["mesh"]["axes"]}
    params = data["params"]
    entries: dict[str, str] = {}
    helds: dict[str, int | None] = {}
    won = [0] * len(data["rules"])
    rules = rule_index(data["rules"])
    totals: dict[str, int | None] = {"elements": 0, "bytes": 0}
    everywhere, placed = 0, {}  # type: ignore[var-annotated]
    ranks = _Ranks(data["stages"], sizes) if "stages" in data else None
    unmatched = corrected = 0
    known = True
    canonical = []

    def add(name: str, term: int | None) -> None:
        total = totals[name]
        fits = total is not None and term is not None and total + term < _LIMIT
        totals[name] = total + term if fits else None  # type: ignore[operator]

    for name in sorted(params, key=_utf16):
        param = params[name]
        text = _text(param)
        if text not in entries:
            try:
                helds[text] = _check_sizes(param, sizes)
            except Misfit as error:
                raise Misfit(("params", name, *error.path), error.message) from None
            entries[text] = _entry(param)
        canonical.append(f"{_text(name)}:{entries[text]}")
        shape, dtype, size = param["shape"], param["dtype"], helds[text]
        elements = None if shape is None else _product(shape)
        add("elements", elements)
        add(
            "bytes",
            None if elements is None or dtype is None else _bytes(elements, dtype),
        )
        known = known and size is not None
        if ranks is not None:
            ranks.add(param, size or 0)
        if "placement" in param:
            place = (param["placement"]["axis"], param["placement"]["coordinate"])
            placed[place] = placed.get(place, 0) + (size or 0)
        else:
            everywhere += size or 0
        corrected += "corrections" in param
        rule = param["rule"]
        if rule is None:
            unmatched += shape is None or len(shape) > 0
            continue
        if isinstance(rule, str):
            rule = rules.get(rule, len(won))
        if rule >= len(won):
            raise Misfit(("params", name, "rule"), "is no rule of the plan")
        won[rule] += 1

    for number, count in enumerate(won):
        planned = data["rules"][number]
        _equal(planned["params"], count, ("rules", number, "params"))
        # A pattern may match parameters that earlier rules won.
        if not count <= planned.get("matched", count) <= len(params):
            _equal(planned["matched"], count, ("rules", number, "matched"))
    summary = data["summary"]
    _equal(summary["params"], len(params), ("summary", "params"))
    for key, total in totals.items():
        _equal(summary[key], total, ("summary", key))
    most = fullest(everywhere, placed) if known else None
    if ranks is not None:
        by_rank = ranks.summary(known)
        _equal(summary.get("bytes_by_rank"), by_rank, ("summary", "bytes_by_rank"))
        most = by_rank["most"]
    _equal(summary["bytes_per_device"], most, ("summary", "bytes_per_device"))
    _equal(summary["unmatched"], unmatched, ("summary", "unmatched"))
    # It counts corrections of modes that are not listed, too.
    if not corrected <= summary["corrected"] <= len(params):
        _equal(summary["corrected"], corrected, ("summary", "corrected"))

    if _activations_digest(data) != data.get("activations_digest"):
        key = "activations_digest" if "activations_digest" in data else "activations"
        raise Misfit((key,), "the digest is not that of the activations")

    now = _fingerprint(data, canonical)
    if now != data["fingerprint"]:
        raise Misfit(
            ("fingerprint",), f"is not that of the plan's content, which is {now}"
        )


class _Ranks:
    """Adds up the bytes on the fullest device of each rank of a pipeline."""

    def __init__(self, stages: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        self._of = [frozenset(stage["ranks"]) for stage in stages["of"]]
        count = sizes[stages["axis"]]
        self._everywhere = [0] * count
        self._placed: list[dict[tuple[str, int], int]] = [{} for _ in range(count)]

    def add(self, param: Mapping[str, Any], size: int) -> None:
        shares: dict[int, int] = {}
        if "slices" in param:
            ranges = param["slices"]["of"]
            of_layer = size // max(
                (end for begin, end in ranges if begin < end), default=1
            )
            for stage, (begin, end) in enumerate(ranges):
                for rank in self._of[stage] if begin < end else ():
                    shares[rank] = shares.get(rank, 0) + (end - begin) * of_layer
        else:
            shares = {
                rank: size for stage in param["stages"] for rank in self._of[stage]
            }
        for rank, share in shares.items():
            if "placement" in param:
                place = (param["placement"]["axis"], param["placement"]["coordinate"])
                placed = self._placed[rank]
                placed[place] = placed.get(place, 0) + share
            else:
                self._everywhere[rank] += share

    def summary(self, known: bool) -> dict[str, Any]:
        of = [
            fullest(everywhere, placed) if known else None
            for everywhere, placed in zip(self._everywhere, self._placed)
        ]
        sums = [size for size in of if size is not None]
        complete = known and len(sums) == len(of)
        return {
            "most": max(sums) if complete else None,
            "least": min(sums) if complete else None,
            "of": of,
        }


def _check_sizes(param: Mapping[str, Any], sizes: Mapping[str, int]) -> int | None:
    """Returns the bytes that the fullest device holds in training."""
    marked, uneven = "uneven" in param, False
    for path, layout in _layouts(param):
        spec = layout["spec"]
        shard, size = held(
            param["shape"], param["dtype"], spec, sizes, marked, param.get("parts", ())
        )
        _equal(layout["shard_shape"], shard, (*path, "shard_shape"))
        _equal(layout["bytes_per_device"], size, (*path, "bytes_per_device"))
        if shard is not None and uneven_dims(param["shape"], spec, sizes):
            uneven = True
    if marked and not uneven:
        raise Misfit(("uneven",), "is true, and the rest of the plan has no uneven shard")
    out: int | None = param["bytes_per_device"]
    return out


def _equal(written: Any, given: Any, path: Path) -> None:
    if written != given:
        raise Misfit(
            path,
            f"is {json.dumps(written)}, and the rest of the plan gives"
            f" {json.dumps(given)}",
        )
