"""Requests the recorded answers about meshes, names and lists of axes."""

import json

from product import (BEYOND, PASSED, Ask, ask_resolve, differs, failed,
                     judge_spec, same, spec)
from product_match import broken, tree


def mesh_case(case):
    given = dict(case["input"])
    op = given.pop("op")
    if op == "calculate_host_mesh_shape":
        ask = Ask(op, **given)
        yield ask
        if "error" in case:
            return PASSED if ask.error else failed(ask)
        return same(ask, "shape", case["expect"]["shape"])
    sizes = given.get("axis_dims")
    if op in ("create_mesh", "fjformer_create_mesh"):
        ask = Ask("create_mesh", implementation="fjformer"
                  if op.startswith("fj") else "eformer", **given)
    else:
        ask = Ask("parse_mesh_from_string", text=given.pop("axis_dims"),
                  **given)
    yield ask
    if "error" in case:
        if ask.error:
            return PASSED
        return differs("leading-bang", op == "parse_mesh_from_string" and
                       ask.given["text"].startswith("!"),
                       f"{ask}, {case['error']}")
    expect = case["expect"]
    if ask.error:
        if odd_sizes(sizes):
            return differs("plain-integers")
        if expect["axis_names"] == [] or any(
                name != name.strip() or not name
                for name in expect["axis_names"]):
            return differs("mesh-names")
    if ask.error or ask.answer["shape"] != expect["shape"]:
        total = 1
        for size in expect["shape"]:
            total *= size
        ours = 1
        for size in (ask.answer or {"shape": []})["shape"]:
            ours *= size
        other = total != given["device_count"] and op != "get_jax_mesh"
        return differs("remembered-mesh",
                       other and (ask.error is not None or
                                  ours == given["device_count"]),
                       f"{ask}, expected {expect}")
    ids = expect.get("device_ids")
    if ids is not None and ask.answer.get("device_ids") != ids:
        return failed(f"{ask}, expected {expect}")
    return same(ask, "axis_names", expect["axis_names"])


def odd_sizes(sizes):
    """Whether sizes are written as only NumPy and Python's int() read them."""
    if isinstance(sizes, list):
        return any(size < -1 or size == 0 for size in sizes)
    parts = [part.rpartition(":")[2]
             for part in (sizes or "").removeprefix("!").split(",")]
    return any(str(int(part)) != part.strip() or part != part.strip() or
               int(part) < -1 or int(part) == 0
               for part in parts if part.strip(" +-_0123456789") == ""
               and part.strip())


def names_case(case):
    given = dict(case["input"])
    op = given.pop("op")
    return (yield from NAMES[op](given, case))


def spec_names(given, case):
    def plain(value):
        if isinstance(value, dict) and "$spec" in value:
            return spec(value["$spec"])
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return [plain(v) for v in value] if isinstance(value, list) else value
    ask = Ask("get_names_from_partition_spec", value=plain(given["value"]))
    yield ask
    return same(ask, "names", case["expect"]["names"])


def in_mesh(given, case):
    ask = Ask("names_in_mesh", **given)
    yield ask
    return same(ask, "result", case["expect"]["result"])


def path_string(given, case):
    keys = [next(part[key] for key in ("key", "index", "name") if key in part)
            for part in given["path"]]
    ask = Ask("tree_path_to_string", keys=keys, separator=given["sep"])
    yield ask
    if given["sep"] is None:
        return same(ask, "keys", case["expect"]["keys"])
    return same(ask, "path", case["expect"]["string"])


def named_map(given, case):
    ask = Ask("named_tree_map", tree=tree(given["tree"]))
    yield ask
    if tree(given["tree"]) is None:
        return differs("nameless-leaf", ask.error is not None, ask)
    separator = given["sep"]
    visited = [name if separator is not None else "/".join(name)
               for name in case["expect"]["visited"]]
    if ask.error:
        return failed(f"{ask}, expected {visited}")
    ours = ask.answer["names"]
    if separator not in (None, "/"):
        ours = [name.replace("/", separator) for name in ours]
    # The manifest's order is that of the file.
    return PASSED if sorted(ours) == sorted(visited) else failed(
        f"{ask}, expected {visited}")


def decay_mask(given, case):
    ask = Ask("get_weight_decay_mask", exclusions=given["exclusions"],
              tree=tree(given["tree"]))
    yield ask
    if "error" in case:
        return PASSED if ask.error else failed(ask)
    if ask.error and ask.error["name"].startswith("regex"):
        if "python_only_syntax" in case.get("tags", []):
            return BEYOND
        return differs("eager-patterns", broken(
            [{"pattern": p} for p in given["exclusions"]]), ask)
    return same(ask, "mask", case["expect"]["mask"])


def ranks(given, case):
    ask = Ask("get_ranks_and_size", **given)
    yield ask
    if "error" in case:
        missing = not {"tp", "sp"} <= set(given["mesh"])
        return PASSED if ask.error else differs("ranks-without-axes", missing)
    for key, want in case["expect"].items():
        if ask.error or ask.answer[key] != want:
            return failed(f"{ask}, expected {case['expect']}")
    return PASSED


def fields_case(given, case):
    ask = Ask("partition_axis",
              partition_axis=given.get("partition_axis", given.get("dict")))
    yield ask
    want = case["expect"]["dict"]
    if ask.error:
        return failed(ask)
    for name, value in want.items():
        if spec([ask.answer["fields"][name]]) != spec([value]):
            return failed(f"{name}: {ask}, expected {want}")
    if "spec" not in case["expect"]:
        return PASSED
    again = ask_resolve(ask.answer["fields"], given["axes"], given["mode"])
    yield again
    return judge_spec(again, case["expect"]["spec"])


def manager_json(given, case):
    record = json.loads(given["json"])
    ask = Ask("partition_axis", partition_axis=record)
    yield ask
    fields = record.get("paxis", record)
    return differs("manager-json", not ask.error and all(
        spec([ask.answer["fields"][name]]) == spec([value])
        for name, value in fields.items()), ask)


def safe_hash(given, case):
    ask = Ask("get_safe_hash_int", **given)
    yield ask
    if "error" in case:
        return PASSED if ask.error else failed(ask)
    return same(ask, "decimal", case["expect"]["decimal"])


NAMES = {
    "get_names_from_partition_spec": spec_names, "names_in_mesh": in_mesh,
    "tree_path_to_string": path_string, "named_tree_map": named_map,
    "get_weight_decay_mask": decay_mask, "get_ranks_and_size": ranks,
    "partition_axis_to_dict": fields_case,
    "partition_axis_round_trip": fields_case,
    "partition_axis_from_dict": fields_case,
    "partition_manager_from_json": manager_json,
    "get_safe_hash_int": safe_hash}
