"""The results of eformer itself: for every input of the older vectors that is its
own, and over the public rule sets and parameter trees."""

import contextlib
import json
import os
import re
import sys
import unittest.mock

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from eformer import common_types
from eformer.escale import (
    PartitionAxis, PartitionManager, create_mesh,
    get_corrected_named_sharding, get_names_from_partition_spec,
    match_partition_rules, names_in_current_mesh, parse_mesh_from_string,
    with_sharding_constraint)
from eformer.escale.mesh import creation
from eformer.escale.partition import constraints
from eformer.escale.partition import manager as manager_module
from jax.sharding import Mesh, PartitionSpec

import records

sys.path.insert(0, os.path.join(records.ROOT, "tests", "cli"))
import corpus_rules  # noqa: E402

DEVICES = 2048
jax.config.update("jax_num_cpu_devices", DEVICES)

NOT_GIVEN = common_types.NOT_GIVEN


# JSON to eformer's values and back.

def tuples(value):
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def plain(value):
    """Specs, tuples and lists as JSON has them."""
    if isinstance(value, (PartitionSpec, tuple, list)):
        return [plain(item) for item in value]
    return value


def axis_of(fields):
    return PartitionAxis(**{key: tuples(value)
                            for key, value in fields.items()})


def mesh_of(sizes):
    if not sizes:
        return contextlib.nullcontext()
    count = int(np.prod(list(sizes.values())))
    return Mesh(np.array(jax.devices()[:count]).reshape(
        list(sizes.values())), tuple(sizes))


# The families of the older vectors.

def resolve_axis(given):
    axes = axis_of(given["partition_axis"]).resolve_axis(
        given["axes"], given["mode"])
    return {"axes": plain(axes), **spec_of(axes)}


def spec_of(axes):
    try:
        return {"spec": plain(PartitionSpec(*axes))}
    except ValueError as error:
        return {"spec_error": said(error)}


def manager_resolve(given):
    more = {}
    for key in ("axes", "mode", "shape"):
        if key in given:
            more[key] = tuples(given[key])
    if given.get("dynamic_axes", 0) is None:
        more["dynamic_axes"] = None
    elif "dynamic_axes" in given:
        more["dynamic_axes"] = common_types.DynamicShardingAxes(
            axes=tuples(given["dynamic_axes"]["axes"]),
            mode=given["dynamic_axes"]["mode"])
    spec = PartitionManager(axis_of(given["partition_axis"])).resolve(**more)
    return {"spec": plain(spec)}


def register(given):
    paxis = axis_of(given["partition_axis"])
    return {"steps": [registered_step(paxis, step)
                      for step in given["steps"]]}


def registered_step(paxis, step):
    try:
        if step["op"] == "register":
            generation = step.get("generation_rule", NOT_GIVEN)
            PartitionAxis.register(step["name"], tuples(step["rule"]),
                                   generation_axis_rule=tuples(generation),
                                   override=step.get("override", False))
        elif step["op"] == "unregister":
            PartitionAxis.unregister(
                step["name"], missing_ok=step.get("missing_ok", True))
        elif step["op"] == "clear":
            PartitionAxis.clear_registered_axes()
        elif step["op"] == "list":
            return {"registered": {
                name: {key: plain(value) for key, value in rule.items()
                       if value is not NOT_GIVEN}
                for name, rule in
                PartitionAxis.get_registered_axes().items()}}
        else:
            axes = paxis.resolve_axis(tuples(step["axes"]), step["mode"])
            return {"axes": plain(axes), **spec_of(axes)}
    except Exception as error:
        return {"error": said(error)}
    return {"ok": True}


def bundles(given):
    bundle = getattr(common_types, given["bundle"])
    if "instance" in given:
        bundle = bundle(axes=tuples(given["instance"]["axes"]),
                        mode=given["instance"]["mode"])
    manager = PartitionManager(axis_of(given["partition_axis"]))
    more = {given["via"]: bundle}
    if "mode_argument" in given:
        more["mode"] = given["mode_argument"]
    if "shape" in given:
        more["shape"] = tuple(given["shape"])
    spec = manager.resolve(**more)
    answer = {"axes": plain(bundle.axes), "bundle_mode": bundle.mode,
              "spec": plain(spec)}
    if "mesh" in given:
        with mesh_of(given["mesh"]):
            try:
                answer["corrected_spec"] = plain(get_corrected_named_sharding(
                    tuple(given["shape"]), spec).spec)
            except Exception as error:
                answer["corrected_error"] = said(error)
    return answer


def tree_of(node):
    if isinstance(node, dict) and "$shape" in node:
        return jax.ShapeDtypeStruct(tuple(node["$shape"]), np.float32)
    if isinstance(node, dict) and "$value" in node:
        return node["$value"]
    if isinstance(node, dict):
        return {key: tree_of(value) for key, value in node.items()}
    return [tree_of(v) for v in node] if isinstance(node, list) else node


def match(given):
    rules = [(rule["pattern"], PartitionSpec(*tuples(rule["spec"])))
             for rule in given["rules"]]
    more = {key: given[key] for key in ("min_size", "strict")
            if key in given}
    specs = match_partition_rules(rules, tree_of(given["tree"]), **more)
    flat, _ = jax.tree_util.tree_flatten_with_path(
        specs, is_leaf=lambda leaf: isinstance(leaf, PartitionSpec))
    return {"specs": {
        jax.tree_util.keystr(path, simple=True, separator="/"): plain(spec)
        for path, spec in flat}}


def correct(given):
    with mesh_of(given["mesh"]):
        if given["op"] == "named_sharding":
            more = {key: given[key] for key in ("raise_mesh_error",)
                    if key in given}
            sharding = get_corrected_named_sharding(
                tuple(given["shape"]), PartitionSpec(*tuples(given["spec"])),
                **more)
            return {"spec": plain(sharding.spec)}
        with unittest.mock.patch.object(
                constraints, "_with_sharding_constraint",
                wraps=constraints._with_sharding_constraint) as applied:
            # Traced, so that no array is made: eformer has left out the axes that
            # do not divide, and JAX checks the others before it traces.
            jax.eval_shape(
                lambda x: with_sharding_constraint(
                    x, PartitionSpec(*tuples(given["spec"]))),
                jax.ShapeDtypeStruct(tuple(given["shape"]), np.float32))
        if not applied.called:
            return {"applied": False, "spec": None}
        return {"applied": True, "spec": plain(applied.call_args.args[1])}


def mesh(given):
    if given["op"] == "calculate_host_mesh_shape":
        return {"shape": list(creation.calculate_host_mesh_shape(
            tuple(given["global_mesh_shape"]), given["local_devices"],
            given["num_processes"]))}
    devices = jax.devices()[:given["device_count"]]
    with unittest.mock.patch.object(jax, "devices", lambda *_: devices), \
            unittest.mock.patch.object(jax, "local_devices",
                                       lambda *_, **__: devices), \
            unittest.mock.patch.object(jax, "device_count",
                                       lambda *_: len(devices)), \
            unittest.mock.patch.object(jax, "local_device_count",
                                       lambda *_: len(devices)):
        if given["op"] == "create_mesh":
            more = {key: tuple(given[key])
                    for key in ("axis_dims", "axis_names") if key in given}
            made = create_mesh(**more)
        else:
            made = parse_mesh_from_string(given["axis_dims"],
                                          tuple(given["names"]))
    ids = [device.id for device in made.devices.flat]
    return {"axis_names": list(made.axis_names),
            "shape": list(made.devices.shape), "mesh": dict(made.shape),
            "device_ids": ids if len(ids) <= 16 else None}


def value_of(node):
    if isinstance(node, dict) and "$spec" in node:
        return PartitionSpec(*tuples(node["$spec"]))
    if isinstance(node, dict):
        return {key: value_of(value) for key, value in node.items()}
    return [value_of(v) for v in node] if isinstance(node, list) else node


def fields_of(paxis):
    return {key: plain(value) for key, value in paxis.to_dict().items()}


def names(given):
    op = given["op"]
    if op == "get_names_from_partition_spec":
        return {"names": sorted(get_names_from_partition_spec(
            value_of(given["value"])))}
    if op == "names_in_mesh":
        with mesh_of(given["mesh"]):
            return {"result": names_in_current_mesh(*given["names"])}
    if op == "partition_axis_to_dict":
        paxis = axis_of(given["partition_axis"])
        return {"dict": fields_of(paxis), "dict_of_manager": {
            "paxis": {key: plain(value) for key, value in
                      PartitionManager(paxis).to_dict()["paxis"].items()}}}
    if op == "partition_axis_from_dict":
        return {"dict": fields_of(PartitionAxis.from_dict(given["dict"]))}
    if op == "partition_axis_round_trip":
        paxis = axis_of(given["partition_axis"])
        again = PartitionAxis.from_dict(json.loads(json.dumps(
            paxis.to_dict())))
        return {"dict": fields_of(again), "equal_to_original": again == paxis,
                "spec": plain(again.resolve_spec(tuples(given["axes"]),
                                                 given["mode"]))}
    if op == "get_safe_hash_int":
        return {"decimal": str(manager_module.get_safe_hash_int(
            given["text"], given["algorithm"]))}
    raise NotImplementedError(op)


def said(error):
    kind = "RegexError" if isinstance(error, re.error) else \
        type(error).__name__
    return {"type": kind, "message": str(error)}


# Family: its functions by op, and which inputs are another system's.
VECTORS = {
    "resolve": lambda given: {"resolve_axis": resolve_axis,
                              "manager_resolve": manager_resolve}[
                                  given["op"]](given),
    "register": register, "bundles": bundles, "match": match,
    "correct": correct, "mesh": mesh, "names": names}
OTHERS = {"fjformer", "fjformer_create_mesh", "get_jax_mesh",
          "get_ranks_and_size", "get_weight_decay_mask",
          "partition_manager_from_json", "tree_path_to_string",
          "named_tree_map"}


def vector_cases(family):
    path = os.path.join(records.ROOT, "testdata", "vectors", family + ".json")
    with open(path, encoding="utf-8") as file:
        for case in json.load(file)["cases"]:
            given = case["input"]
            if OTHERS.isdisjoint({given.get("op"), given.get("impl")}):
                yield case


def answer(family, given):
    """With nothing remembered of earlier calls: eformer keeps registrations
    for the process, and a mesh once made, whatever the devices are then."""
    PartitionAxis.clear_registered_axes()
    creation._cached_mesh_impl.cache_clear()
    try:
        return {"expect": json.loads(json.dumps(VECTORS[family](given)))}
    except Exception as error:
        return {"error": said(error)}


def same_error(recorded, now):
    return (recorded["type"] == now["type"]
            and recorded.get("contains", "") in now["message"])


def same(recorded, now):
    """Whether an answer is the vector's, key by key of the vector."""
    if isinstance(recorded, dict) and "kind" in recorded:
        return isinstance(now, dict) and "type" in now and \
            same_error(recorded, now)
    if isinstance(recorded, dict):
        return isinstance(now, dict) and all(
            key in now and same(value, now[key])
            for key, value in recorded.items())
    if isinstance(recorded, list):
        return isinstance(now, list) and len(recorded) == len(now) and \
            all(map(same, recorded, now))
    return recorded == now


def differences(family):
    """The number of inputs, and the cases whose results differ now from those
    of the vectors."""
    asked, differing = 0, []
    for case in vector_cases(family):
        asked += 1
        now = answer(family, case["input"])
        recorded = {key: case[key] for key in ("expect", "error")
                    if key in case}
        if "expect" in recorded:  # read from the source, not by a call
            recorded["expect"].pop("effective_mode", None)
        if not same(recorded, now):
            differing.append({"id": case["id"], "input": case["input"],
                              **now})
    return asked, differing


def is_for_other_devices(case):
    """Whether a vector's mesh is what eformer makes of these arguments for
    another number of devices."""
    return any(
        same({"expect": case["expect"]},
             answer("mesh", {**case["input"], "device_count": devices}))
        for devices in range(1, 65))


# The public rule sets over the public trees.

MESHES = {
    "whole": {"dp": 2, "fsdp": 4, "ep": 1, "tp": 4, "sp": 1},
    "wide": {"dp": 1, "fsdp": 16, "ep": 2, "tp": 16, "sp": 2},
    "other": {"data": 3, "fsdp": 5, "tp": 7, "mp": 2},
}


def bundle_spec(name):
    """A bundle by eformer itself; those that only EasyDeL had, as written
    in the corpus."""
    if name in corpus_rules.GPT_OSS:
        return PartitionSpec(*tuples(corpus_rules.GPT_OSS[name]))
    return PartitionManager(PartitionAxis()).resolve(
        getattr(common_types, name))


def rules_of(pair):
    params = corpus_rules.load(pair["manifest"])["params"]
    rules = corpus_rules.Rules(corpus_rules.load(pair["ruleset"]), params)
    return params, [
        (pattern, bundle_spec(spec) if isinstance(spec, str)
         else PartitionSpec(*tuples(spec))) for pattern, spec in rules.rules]


def matched(params, rules):
    """By parameter, eformer's spec; nothing where it finds no rule."""
    leaves = {param["name"]: jax.ShapeDtypeStruct(
        tuple(param["shape"]), np.float32) for param in params}
    try:
        return match_partition_rules(rules, leaves)
    except ValueError:
        return {name: matched_one(rules, name, leaf)
                for name, leaf in leaves.items()}


def matched_one(rules, name, leaf):
    try:
        return match_partition_rules(rules, {name: leaf})[name]
    except ValueError as error:
        assert str(error).startswith("Partition rule not found"), error
        return None


class Numbered:
    """Distinct values by number, and runs of them: [[number, count], ...]."""

    def __init__(self):
        self.values = []
        self.runs = []
        self.numbers = {}

    def add(self, value):
        key = json.dumps(value)
        if key not in self.numbers:
            self.numbers[key] = len(self.values)
            self.values.append(value)
        number = self.numbers[key]
        if self.runs and self.runs[-1][0] == number:
            self.runs[-1][1] += 1
        else:
            self.runs.append([number, 1])

    def record(self):
        return {"specs": self.values, "runs": self.runs}


class Corrections:
    """eformer's correction of a spec to a shape on a mesh, asked once."""

    def __init__(self, sizes):
        self.mesh = mesh_of(sizes)
        self.known = {}

    def correct(self, shape, spec):
        key = (tuple(shape), spec)
        if key not in self.known:
            with self.mesh:
                try:
                    answer = plain(get_corrected_named_sharding(*key).spec)
                except Exception as error:
                    answer = type(error).__name__
            self.known[key] = answer
        return self.known[key]


def corpus_case(pair, corrections):
    params, rules = rules_of(pair)
    if any(param["shape"] is None for param in params):
        return {"pair": pair["pair"], "shapes": False}
    specs = matched(params, rules)
    case = {"pair": pair["pair"], "parameters": len(params)}
    numbered = Numbered()
    for param in params:
        spec = specs[param["name"]]
        numbered.add(None if spec is None else plain(spec))
    case["matched"] = numbered.record()
    case["corrected"] = {}
    for name, correction in corrections.items():
        numbered = Numbered()
        for param in params:
            spec = specs[param["name"]]
            numbered.add(None if spec is None else
                         correction.correct(param["shape"], spec))
        case["corrected"][name] = numbered.record()
    return case


def pairs():
    return corpus_rules.pairs()


def corpus_cases(asked):
    corrections = {name: Corrections(sizes)
                   for name, sizes in MESHES.items()}
    for pair in asked:
        yield corpus_case(pair, corrections)


def record():
    """The records by name."""
    used = records.versions("eformer", "jax")
    asked = {family: differences(family) for family in VECTORS}
    yield "eformer/vectors", {
        "format": "shardc.runtimes.vectors/v1", "versions": used,
        "asked": {family: count for family, (count, _) in asked.items()},
        "differences": [{"family": family, **case}
                        for family, (_, differing) in asked.items()
                        for case in differing]}
    yield "eformer/corpus", {
        "format": "shardc.runtimes.corpus/v1", "versions": used,
        "meshes": MESHES, "cases": list(corpus_cases(pairs()))}
