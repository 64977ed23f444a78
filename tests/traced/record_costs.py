"""Writes testdata/program_costs: what XLA counts in the programs of this folder.

Usage: SHARDC_BIN=... record_costs.py [PROGRAM...], in an environment with JAX, Flax and optax. The
programs are those of testdata/programs, compiled for 4 CPU devices with the specs of
the plan that `shardc suggest` makes. XLA.json.gz has of each: the rules, the floating
point operations of the module before partitioning, the bytes of a device's arguments,
results and temporaries, and with constraints on the activations the bytes that the
busiest device sends by collective and axes, unless a loop sends.
llama.step.hlo.txt.gz is the compiled module of one of them.
llama3_8b.program.json.gz is a training step of Llama 3 8B's sizes, only traced.
With names of programs XLA.json.gz stays as it is."""

import gzip
import json
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
                os.path.join(ROOT, "tests", "runtimes")]
FOLDER = os.path.join(ROOT, "testdata", "program_costs")
SIZES = {"fsdp": 2, "tp": 2}

# The paths above must be set first.
# pylint: disable=wrong-import-position
import jax
import jax.numpy as jnp
import numpy as np
from jax._src.source_info_util import user_context
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import xla_hlo
from layers import grouped_attention, next_token, rms, rope, shape, tokens
from interpreter import DTYPES
from dense_models import llama_shapes
from models import FORWARD, MODELS
from record import versions
from shardc import program


def shardc(*arguments):
    subprocess.run([os.environ["SHARDC_BIN"], *arguments], check=True)


def specs_of(made, plan):
    """The sharding of each input, by the rules of `verify step --program`."""
    params = {name: one["spec"] for name, one in plan["params"].items()}
    shapes = {one["name"]: made["values"][one["value"]]["shape"]
              for one in made["inputs"] if one["kind"] == "param"}
    for one in made["inputs"]:
        sides = made["values"][one["value"]]["shape"]
        if one["kind"] == "data":
            axes, parts = [], 1
            for axis in ("fsdp",):
                if sides and sides[0] % (parts * SIZES[axis]) == 0:
                    axes.append(axis)
                    parts *= SIZES[axis]
            yield [axes] if axes else []
            continue
        of = max((name for name in params if one["name"].endswith(name)
                  and shapes[name] == sides), key=len, default=None)
        yield params[of] if of else []


def with_batches(fn, given, grid, batch):
    """The function with a constraint on each value whose first dimension is that of
    the batch, as a user writes them: it is sharded over fsdp. Without them XLA may
    move activations in place of weights."""
    closed = jax.make_jaxpr(fn)(*given)
    free = PartitionSpec.UNCONSTRAINED

    def evaluate(jaxpr, constants, arrays):
        values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arrays]))
        for eqn in jaxpr.eqns:
            given = [one.val if hasattr(one, "val") else values[one]
                     for one in eqn.invars]
            inner = next((eqn.params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr")
                          if key in eqn.params), None)
            if inner is not None and eqn.primitive.name not in ("scan", "while"):
                open_jaxpr = getattr(inner, "jaxpr", inner)
                made = evaluate(open_jaxpr, getattr(inner, "consts", ()), given)
            else:
                params = eqn.primitive.get_bind_params(eqn.params)
                with user_context(eqn.source_info.traceback):
                    made = eqn.primitive.bind(*given, **params)
                if not eqn.primitive.multiple_results:
                    made = [made]
                made = [jax.lax.with_sharding_constraint(one, NamedSharding(
                    grid, PartitionSpec("fsdp", *[free] * (one.ndim - 1))))
                        if one.ndim > 1 and one.shape[0] == batch and
                        batch % SIZES["fsdp"] == 0 else one for one in made]
            values.update(zip(eqn.outvars, made))
        return [one.val if hasattr(one, "val") else values[one] for one in jaxpr.outvars]

    return lambda *arrays: evaluate(closed.jaxpr, closed.consts, arrays)


def sent(text):
    """Bytes of the busiest device by collective and axes; None where a loop sends."""
    module = xla_hlo.Module(text, SIZES)
    out = {}
    entry = 0
    for one in module.all.values():
        kind = xla_hlo.KINDS.get(one.opcode.removesuffix("-start"))
        if not kind:
            continue
        entry += 1
        held = sum(xla_hlo.size(module.all[o].shape) for o in one.operands)
        width = xla_hlo.WIDTHS[xla_hlo.sides(module.all[one.operands[0]].shape)[0]]
        if kind == "ppermute":
            axes, n = ("?",), 2
        else:
            axes = module.axes_of(one.groups()) or ("?",)
            n = len(xla_hlo.groups_of(one.groups())[0])
        key = f"{kind} {'+'.join(axes)}"
        out[key] = out.get(key, 0) + xla_hlo.sent_bytes(kind, n, held, width)
    everywhere = sum(f" {name}(" in line or f" {name}-start(" in line
                     for line in text.splitlines() for name in xla_hlo.KINDS)
    return out if entry == everywhere else None


def answer(name, made, folder):
    path = os.path.join(folder, "program.json")
    program.write(made.program, path)
    mesh = ",".join(f"{axis}:{size}" for axis, size in SIZES.items())
    rules, plan, tree = (os.path.join(folder, one)
                         for one in ("rules.yaml", "plan.json", "tree.json"))
    shardc("suggest", "--no-project", "--mesh", mesh, "--program", path, "-o", rules, "-q")
    values = made.program["values"]
    with open(tree, "w", encoding="utf-8") as file:
        json.dump({one["name"]: values[one["value"]] for one in made.program["inputs"]
                   if one["kind"] == "param"}, file)
    shardc("plan", "--no-project", "--mesh", mesh, "--rules", rules, "--manifest", tree,
           "-o", plan, "-q")
    with open(plan, encoding="utf-8") as file:
        specs = list(specs_of(made.program, json.load(file)))
    with open(rules, encoding="utf-8") as file:
        rules_text = file.read()
    grid = Mesh(np.array(jax.devices()[:4]).reshape(list(SIZES.values())), list(SIZES))

    def sharding(spec):
        return NamedSharding(grid, PartitionSpec(
            *(tuple(axes) if isinstance(axes, list) else axes for axes in spec)))

    given = [jax.ShapeDtypeStruct(values[one["value"]]["shape"],
                                  DTYPES[values[one["value"]]["dtype"]],
                                  sharding=sharding(spec))
             for one, spec in zip(made.program["inputs"], specs)]
    batch = next(values[one["value"]]["shape"][0] for one in made.program["inputs"]
                 if one["kind"] == "data")
    constrained = with_batches(made.function, given, grid, batch)
    text = kept(name, jax.jit(constrained).lower(*given).compile().as_text())
    whole = jax.jit(made.function).lower(
        *(jax.ShapeDtypeStruct(one.shape, one.dtype) for one in given))
    memory = jax.jit(made.function).lower(*given).compile().memory_analysis()
    return {"name": name, "mesh": mesh, "rules": rules_text,
            "flops": whole.cost_analysis()["flops"],
            "arguments": memory.argument_size_in_bytes,
            "results": memory.output_size_in_bytes,
            "temporaries": memory.temp_size_in_bytes,
            "sent": sent(text)}


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


def kept(name, text):
    """Keeps the compiled module of one step, with paths from this repository."""
    if name == "llama.step":
        short = re.sub(r'"[^"]*/site-packages/', '"site-packages/',
                       text.replace(ROOT + "/", ""))
        with open(os.path.join(FOLDER, name + ".hlo.txt.gz"), "wb") as raw, \
                gzip.GzipFile("", "wb", 9, raw, 0) as packed:
            packed.write(short.encode())
    return text


def main(names):
    os.chdir(ROOT)
    os.makedirs(FOLDER, exist_ok=True)
    step, arguments = llama3_8b()
    made = program.traced(step, arguments, "record_costs:llama3_8b").program
    program.write(made, os.path.join(FOLDER, "llama3_8b.program.json.gz"))
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for name, build in MODELS.items():
            model = build()
            calls = [(f"{name}.step", model.step)] if name not in FORWARD else []
            if name in FORWARD or name == "llama":
                calls.append((name, model.call))
            for file, call in calls:
                if names and file not in names:
                    continue
                fn, params, batch, *state = call()
                made = program.traced(fn, (params, *state, batch), f"models:{file}")
                cases.append(answer(file, made, folder))
                print(json.dumps({**cases[-1], "rules": ""}), flush=True)
    if names:
        return
    with open(os.path.join(FOLDER, "XLA.json.gz"), "wb") as raw, \
            gzip.GzipFile("", "wb", 9, raw, 0) as packed:
        lines = ",\n".join(json.dumps(one) for one in cases)
        packed.write((json.dumps({"versions": versions()})[:-1] +
                      f',"cases":[\n{lines}\n]}}\n').encode())


if __name__ == "__main__":
    main(sys.argv[1:])
