"""Writes testdata/program_costs: what XLA counts in the programs of this folder.

Usage: SHARDC_BIN=... record_costs.py [PROGRAM...], in an environment with JAX, Flax and
optax. XLA.json.gz has `cases`, the programs of testdata/programs, compiled for 4 CPU
devices with the specs of the plan that `shardc suggest` makes: the operations before
partitioning, and the bytes of a device's arguments, results and temporaries; and
`costed`, the functions of costed.py, which constrain their activations, under their
rules: also the operations of a device's matmuls, and what the busiest device sends by
collective and axes (compiled.py). NAME.program.json.gz is a traced function of
costed.py, step.hlo.txt.gz the compiled module of one of them, and
llama3_8b.program.json.gz a training step of Llama 3 8B's sizes, only traced. Prints how
shardc's figures compare (tests/cli/xla_rules.py). With names of programs the others
stay as they are. A function without gradients is compiled with the constraints of
`shardc.constrain`, since XLA by itself gathers weights for a few tokens."""

import gzip
import json
import math
import os
import re
import subprocess
import sys
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = ("--xla_force_host_platform_device_count=8 "
                           "--xla_backend_optimization_level=0 "
                           "--xla_llvm_disable_expensive_passes=true")
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "python"),
                os.path.join(ROOT, "tests", "runtimes"),
                os.path.join(ROOT, "tests", "cli")]
FOLDER = os.path.join(ROOT, "testdata", "program_costs")
SIZES = {"fsdp": 2, "tp": 2}

# The paths above must be set first.
# pylint: disable=wrong-import-position
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import costed
import shardc as package
import xla_rules
from compiled import Compiled
from layers import grouped_attention, next_token, rms, rope, shape, tokens
from interpreter import DTYPES
from dense_models import llama_shapes
from models import FORWARD, MODELS
from record import versions
from shardc import program


def shardc(*arguments):
    subprocess.run([os.environ["SHARDC_BIN"], *arguments], check=True)


def specs_of(made, plan, sizes, folder):
    """The sharding of each input, by the rules of `verify step --program`. States of no
    parameter have that of `export constraints`."""
    path = os.path.join(folder, "own.json")
    program.write(made, path)
    stated = {one["name"]: one["spec"] for one in json.loads(subprocess.run(
        [os.environ["SHARDC_BIN"], "export", "constraints", "--program", path, "--plan",
         plan, "--format", "json"], check=True, capture_output=True, text=True).stdout)[
             "inputs"]}
    with open(plan, encoding="utf-8") as file:
        plan = json.load(file)
    params = {name: one["spec"] for name, one in plan["params"].items()}
    shapes = {one["name"]: made["values"][one["value"]]["shape"]
              for one in made["inputs"] if one["kind"] == "param"}
    for one in made["inputs"]:
        sides = made["values"][one["value"]]["shape"]
        if one["kind"] == "data":
            axes, parts = [], 1
            for axis in costed.BATCH:
                if axis in sizes and sides and sides[0] % (parts * sizes[axis]) == 0:
                    axes.append(axis)
                    parts *= sizes[axis]
            yield [axes] if axes else []
            continue
        of = max((name for name in params if one["name"].endswith(name)
                  and shapes[name] == sides), key=len, default=None)
        yield params[of] if of else stated[one["name"]]


def grid_of(sizes):
    count = math.prod(sizes.values())
    return Mesh(np.array(jax.devices()[:count]).reshape(list(sizes.values())),
                list(sizes))


def given_of(made, rules, sizes, folder):
    """The abstract inputs of a program, sharded by rules."""
    mesh = ",".join(f"{axis}:{size}" for axis, size in sizes.items())
    plan, tree = (os.path.join(folder, one) for one in ("plan.json", "tree.json"))
    values = made["values"]
    with open(tree, "w", encoding="utf-8") as file:
        json.dump({one["name"]: values[one["value"]] for one in made["inputs"]
                   if one["kind"] == "param"}, file)
    shardc("plan", "--no-project", "--mesh", mesh, "--rules", rules, "--manifest", tree,
           "-o", plan, "-q")
    specs = list(specs_of(made, plan, sizes, folder))

    def sharding(spec):
        return NamedSharding(grid_of(sizes), PartitionSpec(
            *(tuple(axes) if isinstance(axes, list) else axes for axes in spec)))

    return [jax.ShapeDtypeStruct(values[one["value"]]["shape"],
                                 DTYPES[values[one["value"]]["dtype"]],
                                 sharding=sharding(spec))
            for one, spec in zip(made["inputs"], specs)]


def constrained(fn, arguments, made, rules, mesh):
    """The function of the leaves with the shardings that shardc chooses: XLA by itself
    gathers weights for a few tokens."""
    plan = package.compile(mesh=mesh, rules=rules, manifest={
        one["name"]: made["values"][one["value"]] for one in made["inputs"]
        if one["kind"] == "param"})
    own = package.constrain(fn, plan, mesh=grid_of(SIZES))
    tree = jax.tree.structure(arguments)

    def call(*leaves):
        return jax.tree.leaves(own(*jax.tree.unflatten(tree, leaves)))
    return call


def answer(name, fn, arguments, folder):
    """A program of testdata/programs under the rules that shardc suggests."""
    made = program.traced(fn, arguments, f"models:{name}")
    path, rules = (os.path.join(folder, one) for one in ("program.json", "rules.yaml"))
    program.write(made.program, path)
    mesh = ",".join(f"{axis}:{size}" for axis, size in SIZES.items())
    shardc("suggest", "--no-project", "--mesh", mesh, "--program", path, "-o", rules, "-q")
    given = given_of(made.program, rules, SIZES, folder)
    whole = jax.jit(made.function).lower(
        *(jax.ShapeDtypeStruct(one.shape, one.dtype) for one in given))
    trains = name.endswith(".step")
    function = made.function if trains else constrained(fn, arguments, made.program,
                                                        rules, mesh)
    compiled = Compiled(jax.jit(function).lower(*given), SIZES)
    with open(rules, encoding="utf-8") as file:
        rules_text = file.read()
    return {"name": name, "mesh": mesh, "rules": rules_text,
            "flops": whole.cost_analysis()["flops"], **compiled.memory(),
            **({} if trains else {"sent": compiled.sent()})}


def costed_answer(name, folder):
    """A function of costed.py."""
    fn, arguments, sizes = costed.COSTED[name]
    costed.GRID[0] = grid_of(sizes)
    made = program.traced(fn, arguments, f"costed:{name}")
    path = os.path.join(FOLDER, name + ".program.json.gz")
    program.write(made.program, path)
    rules = os.path.join(folder, "rules.yaml")
    with open(rules, "w", encoding="utf-8") as file:
        file.write(costed.RULES)
    given = given_of(made.program, rules, sizes, folder)
    compiled = Compiled(jax.jit(made.function).lower(*given), sizes)
    if name == "step":
        keep(name, compiled.made.as_text())
    return {"name": name, "rules": costed.RULES,
            "mesh": ",".join(f"{axis}:{size}" for axis, size in sizes.items()),
            "products": compiled.products(), **compiled.memory(),
            "sent": compiled.sent()}


def block(x, w):
    b, t, _ = x.shape
    h = rms(x, w["norm1"])
    q = rope((h @ w["q"]).reshape(b, t, 8, 4, 128)).astype(x.dtype)
    k = rope((h @ w["k"]).reshape(b, t, 8, 128)).astype(x.dtype)
    v = (h @ w["v"]).reshape(b, t, 8, 128)
    x = x + grouped_attention(q, k, v).reshape(b, t, -1) @ w["o"]
    h = rms(x, w["norm2"])
    return x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"], None


def llama3_8b():
    """A training step of Llama 3 8B's sizes, whose layers are scanned."""
    names = llama_shapes(4096, 8, 4, 128, 14336)
    layers = {name: shape(32, *of, dtype=jnp.bfloat16) for name, of in names.items()}
    params = {"layers": layers, "emb": shape(128256, 4096, dtype=jnp.bfloat16),
              "norm": shape(4096, dtype=jnp.bfloat16),
              "head": shape(4096, 128256, dtype=jnp.bfloat16)}

    def loss(params, batch):
        x = params["emb"][batch["tokens"]]
        x, _ = jax.lax.scan(block, x, params["layers"])
        x = rms(x, params["norm"]) @ params["head"]
        return next_token(x, batch)

    def step(params, batch):
        value, gradients = jax.value_and_grad(loss)(params, batch)
        return value, jax.tree.map(lambda p, g: p - 1e-3 * g, params, gradients)

    return step, (params, tokens(8, 8192))


def keep(name, text):
    """Keeps a compiled module, with paths from this repository."""
    short = re.sub(r'"[^"]*/site-packages/', '"site-packages/', text.replace(ROOT + "/", ""))
    with open(os.path.join(FOLDER, name + ".hlo.txt.gz"), "wb") as raw, \
            gzip.GzipFile("", "wb", 9, raw, 0) as packed:
        packed.write(short.encode())


def calls(names):
    for name, build in MODELS.items():
        model = build()
        both = {f"{name}.step": model.step} if name not in FORWARD else {}
        if name in FORWARD or name == "llama":
            both[name] = model.call
        yield from ((file, call) for file, call in both.items()
                    if not names or file in names)


def main(names):
    os.chdir(ROOT)
    os.makedirs(FOLDER, exist_ok=True)
    step, arguments = llama3_8b()
    made = program.traced(step, arguments, "record_costs:llama3_8b").program
    program.write(made, os.path.join(FOLDER, "llama3_8b.program.json.gz"))
    out = {"versions": versions(), "cases": [], "costed": []}
    with tempfile.TemporaryDirectory() as folder:
        for file, call in calls(names):
            fn, params, batch, *state = call()
            out["cases"].append(answer(file, fn, (params, *state, batch), folder))
            print(json.dumps({**out["cases"][-1], "rules": ""}), flush=True)
        for name in costed.COSTED:
            if not names or name in names:
                out["costed"].append(costed_answer(name, folder))
    print(xla_rules.table(out["costed"]))
    path = os.path.join(FOLDER, "XLA.json.gz")
    if names:
        with gzip.open(path) as file:
            known = json.load(file)
        for kind in ("cases", "costed"):
            new = {one["name"]: one for one in out[kind]}
            out[kind] = [new.get(one["name"], one) for one in known[kind]]
    with open(path, "wb") as raw, \
            gzip.GzipFile("", "wb", 9, raw, 0) as packed:
        packed.write((json.dumps(out, indent=1) + "\n").encode())


if __name__ == "__main__":
    main(sys.argv[1:])
