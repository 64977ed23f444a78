"""Writes testdata/constraints: what XLA makes of the plans of wide_models.py.

Usage: SHARDC_BIN=... record_constraints.py [MODEL...], in an environment with JAX and
optax. MODEL.program.json.gz is a training step with Adam, or what a model without a loss
computes, whose parameters have random names. XLA.json has for each model what XLA compiles for eight CPU devices, on
fsdp 2 x tp 4, under three plans: how many values are rematerialised, how many
collectives there are, what a device sends, and the bytes of its temporaries:

    facts  rules and constraints from the program (suggest --program, shardc.constrain)
    names  rules from natural names (suggest --manifest), without constraints
    hand   the specs of the answers, and constraints of the residual stream

`digest` is that of the shardings under `facts`, which a test compares with today's."""

import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = ("--xla_force_host_platform_device_count=8 "
                           "--xla_backend_optimization_level=0 "
                           "--xla_llvm_disable_expensive_passes=true")
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "python")]
FOLDER = os.path.join(ROOT, "testdata", "constraints")
SIZES = {"fsdp": 2, "tp": 4}
MESH = "fsdp:2,tp:4"

# The paths above must be set first.
# pylint: disable=wrong-import-position
import jax
from jax.sharding import NamedSharding, PartitionSpec

import shardc
import wide_models
from record import versions
from shardc import program


def command(*arguments):
    done = subprocess.run([os.environ["SHARDC_BIN"], *arguments], check=False,
                          capture_output=True, text=True)
    assert done.returncode < 2, done.stderr
    return done.stdout


def digest(stated):
    """That of the shardings in `export constraints --format json`."""
    rows = [[one["value"], one["spec"]] for one in stated["constraints"]]
    rows += [[one["name"], one["spec"]] for one in stated["inputs"]]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def hand_specs(model):
    """The usual plan by the answers: heads, inner widths, the vocabulary and experts
    over tp, and the stream over fsdp."""
    over = {"kv": "tp", "heads": "tp", "inner": "tp", "vocab": "tp", "experts": "tp",
            "channels": "tp", "stream": "fsdp"}
    out = {}
    for name in model.natural:
        spec, folder = [], name.split("/")
        shape = model.params[folder[0]][folder[1]].shape
        answers = model.answer_of(name)
        for answer, size in zip(answers, shape, strict=True):
            axis = over.get(answer.split("*")[0].rstrip("0123456789"))
            if len(answers) == 1 and axis == "fsdp" or axis in spec or \
                    axis is not None and size % SIZES[axis]:
                axis = None
            spec.append(axis)
        out[name] = spec
    return out


def named_specs(model, made, folder):
    """Those of the rules that natural names give."""
    manifest = {model.natural[one["name"]]: made["values"][one["value"]]
                for one in made["inputs"] if one["kind"] == "param"}
    path, rules = (os.path.join(folder, one) for one in ("manifest.json", "names.yaml"))
    with open(path, "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    command("suggest", "--manifest", path, "--mesh", MESH, "--force", "-q", "-o", rules)
    plan = json.loads(command("plan", "--manifest", path, "--mesh", MESH, "--rules",
                              rules, "--format", "json", "--keep-going"))
    return {name: [tuple(one) if isinstance(one, list) else one
                   for one in plan["params"][natural]["spec"]]
            for name, natural in model.natural.items()}


def compiled(function, made, spec_of, mesh, trains):
    """What XLA makes of a step of the program's inputs, if `spec_of` has the sharding
    of each. The results of training that replace inputs are sharded as these."""
    inputs = [NamedSharding(mesh, PartitionSpec(*spec_of(one))) for one in made["inputs"]]
    kept = sum(one["kind"] != "data" for one in made["inputs"]) if trains else 0
    results = [inputs[i] if i < kept else None for i in range(len(made["outputs"]))]
    given = [jax.ShapeDtypeStruct(tuple(made["values"][one["value"]]["shape"]),
                                  {"F32": "float32", "I32": "int32", "I8": "int8"}[
                                      made["values"][one["value"]]["dtype"]])
             for one in made["inputs"]]
    with tempfile.TemporaryFile() as said:
        held = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            done = jax.jit(function, in_shardings=inputs, out_shardings=results).lower(
                *given).compile()
        finally:
            os.dup2(held, 2)
        said.seek(0)
        # XLA also partitions an operation alone, with fake parameters, to estimate
        # what ways of sharding it cost. The program that it compiles is not concerned.
        again = sum(b"nvoluntary full remat" in line and b"%fake_parameter" not in line
                    for line in said.read().splitlines())
    with tempfile.NamedTemporaryFile("w", suffix=".hlo") as file:
        file.write(done.as_text())
        file.flush()
        audit = json.loads(command("audit", file.name, "--mesh", MESH, "--format",
                                   "json"))
    return {"rematerialised": again, "collectives": len(audit["collectives"]),
            "sent": sum(one["bytes_per_device"] for one in audit["collectives"]),
            "temporaries": done.memory_analysis().temp_size_in_bytes}


def record(name, mesh, folder):
    model = wide_models.MODELS[name]()
    trains = model.loss is not None
    fn, params, batch, *state = model.step() if trains else model.call()
    given = [params, *state, batch]
    path = os.path.join(FOLDER, name + ".program.json.gz")
    traced = program.traced(fn, tuple(given), f"wide_models:{name}")
    made = traced.program
    program.write(made, path)
    rules = os.path.join(folder, "rules.yaml")
    command("suggest", "--program", path, "--mesh", MESH, "--force", "-q", "-o", rules)
    stated = json.loads(command("export", "constraints", "--program", path, "--mesh",
                                MESH, "--rules", rules, "--format", "json"))
    plan = shardc.compile(mesh=MESH, rules=rules, manifest={
        one["name"]: made["values"][one["value"]] for one in made["inputs"]
        if one["kind"] == "param"})
    # States of no parameter, such as a KV cache, are sharded in the same way by all.
    stated_specs = {one["name"]: [tuple(axes) or None for axes in one["spec"]]
                    for one in stated["inputs"]}
    constrained = shardc.constrain(fn, plan, mesh=mesh)
    forms = [jax.tree.structure(one) for one in given]

    def of_leaves(fn):
        """The function of the program's inputs."""
        def call(*leaves):
            left, trees = list(leaves), []
            for form in forms:
                trees.append(jax.tree.unflatten(form, left[:form.num_leaves]))
                del left[:form.num_leaves]
            return jax.tree.leaves(fn(*trees))
        return call

    def by_name(specs):
        def spec(one):
            if one["kind"] == "data":
                return ["fsdp"]
            return next((specs[name] for name in specs if one["name"] == name or
                         one["name"].endswith("/" + name)), stated_specs[one["name"]])
        return spec

    out = {"digest": digest(stated)}
    out["facts"] = compiled(of_leaves(constrained), made,
                            lambda one: stated_specs[one["name"]], mesh, trains)
    out["names"] = compiled(of_leaves(fn), made,
                            by_name(named_specs(model, made, folder)), mesh, trains)
    wide_models.by_hand[:] = [NamedSharding(mesh, PartitionSpec("fsdp", None, None))]
    own = (model.step() if trains else model.call())[0]
    # A new function, whose trace has the constraints.
    out["hand"] = compiled(of_leaves(lambda *given: own(*given)), made,
                           by_name(hand_specs(model)), mesh, trains)
    wide_models.by_hand.clear()
    return out


def main(names):
    os.chdir(ROOT)
    os.makedirs(FOLDER, exist_ok=True)
    path = os.path.join(FOLDER, "XLA.json")
    known = {}
    if names and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            known = json.load(file)["models"]
    kinds = (jax.sharding.AxisType.Auto,) * len(SIZES)
    mesh = jax.make_mesh(tuple(SIZES.values()), tuple(SIZES), axis_types=kinds)
    for name in names or wide_models.MODELS:
        with tempfile.TemporaryDirectory() as folder:
            known[name] = record(name, mesh, folder)
        rows = [known[name][plan] for plan in ("facts", "names", "hand")]
        print(f"{name:18}", *(f"{one['rematerialised']}/{one['collectives']}/"
                              f"{one['sent'] // 1024}/{one['temporaries'] // 1024}"
                              for one in rows),
              f"{rows[0]['sent'] / min(rows[1]['sent'], rows[2]['sent']):.3f}",
              flush=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"versions": versions(), "mesh": MESH, "models": known}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1:])
