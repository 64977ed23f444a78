"""Whole train states on real JAX with eight devices: what optax, Flax linen,
flax.nnx, equinox and Haiku hold is sharded as its parameters are, equally by the
Python package and by exported modules; manifests of modules of each library."""

import base64
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

import states_answers as states

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from flax import nnx
from flax import linen as nn
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import records

ROOT = os.path.abspath(records.ROOT)
os.environ["SHARDC"] = os.environ.get(
    "SHARDC_BIN", os.path.join(ROOT, "build", "src", "cli", "shardc"))
sys.path.insert(0, os.path.join(ROOT, "python"))
sys.dont_write_bytecode = True

import shardc  # noqa: E402
import shardc.jax  # noqa: E402
from shardc.manifest import ManifestError, from_model, manifest  # noqa: E402

RULES = """version: 1
rules:
- match: (kernel|weight|w)$
  spec: [fsdp, tp]
- match: .*
  spec: [tp]
"""
# What specs must be, written down here again.
WANTED = {2: P("fsdp", "tp"), 1: P("tp")}


def shardings(tree):
    return [leaf.sharding for leaf in jax.tree.leaves(tree)
            if hasattr(leaf, "sharding")]


def arrays(tree):
    return [leaf for leaf in jax.tree.leaves(tree) if hasattr(leaf, "shape")]


class States(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(self.path("rules.yaml"), "w", encoding="utf-8") as file:
            file.write(RULES)

    def path(self, name):
        return os.path.join(self.folder, name)

    def plan(self, model, rules="rules.yaml"):
        return shardc.compile(mesh="fsdp:4,tp:2", rules=self.path(rules),
                              manifest=manifest(model))

    def module(self, plan):
        """The plan's exported module for JAX."""
        file = self.path("plan.json")
        with open(file, "w", encoding="utf-8") as out:
            json.dump(plan.data, out)
        shardc.run(["export", "jax", "--plan", file, "-o",
                    self.path("exported.py")])
        spec = importlib.util.spec_from_file_location(
            "exported", self.path("exported.py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def assert_same(self, got, wanted):
        self.assertEqual(jax.tree.structure(got), jax.tree.structure(wanted))
        for one, other in zip(arrays(got), arrays(wanted)):
            if not jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
                np.testing.assert_array_equal(np.asarray(one),
                                              np.asarray(other))

    def test_the_recorded_owners_are_the_libraries(self):
        (name, live), = states.record()
        recorded = records.load(name)
        self.assertEqual(live["cases"], recorded["cases"])

    def test_states_are_sharded_as_their_parameters(self):
        """The package and the exported module, arrays and shapes."""
        compared, plans = 0, {}
        for system, params, state, owners in states.states():
            key = str(jax.tree.structure(params))
            if key not in plans:
                plan = self.plan(params)
                plans[key] = plan, self.module(plan)
            plan, module = plans[key]
            sharded = plan.shard(state)
            self.assert_same(sharded, state)
            abstract = jax.tree.map(
                lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)
                if hasattr(x, "shape") else x, state)
            mesh = plan.jax_mesh()
            for other in (module.shard(state),
                          module.shard(abstract), plan.shard(abstract),
                          plan.abstract_tree(like=state),
                          module.shard(state, on=mesh)):
                self.assertEqual(shardings(other), shardings(sharded), system)
            given = plan.named_shardings(like=state)
            self.assertEqual(
                jax.tree.leaves(given), shardings(sharded), system)
            self.assertEqual(jax.tree.leaves(module.shardings(like=state)),
                             shardings(sharded), system)
            shapes = {"/".join(path): x.shape
                      for path, x in states.flat(params)}
            for leaf, owner in zip(arrays(sharded), owners):
                if owner is None or leaf.size == 1:
                    wanted = P()
                elif leaf.shape == shapes[owner]:
                    wanted = WANTED[leaf.ndim]
                else:
                    continue  # a factored moment, below
                self.assertTrue(leaf.sharding.is_equivalent_to(
                    NamedSharding(mesh, wanted), leaf.ndim),
                    (system, owner, leaf.sharding))
                compared += 1
        self.assertGreater(compared, 700)
        print(f"states: {compared} arrays of train states, "
              f"optax {optax.__version__}, JAX {jax.__version__}")

    def test_factored_moments_and_histories_keep_their_dimensions(self):
        params = {"w": jnp.ones((8, 16)), "b": jnp.ones(16)}
        plan = self.plan(params, "rules.yaml")
        factored = optax.adafactor(1e-3, min_dim_size_to_factor=4).init(params)
        placed = plan.shard(factored)
        found = {path[-2] + "/" + path[-1]: leaf.sharding.spec
                 for path, leaf in states.flat(placed)
                 if leaf.size > 1}
        self.assertEqual(found["v_row/w"], P("fsdp"))
        self.assertEqual(found["v_col/w"], P("tp"))
        self.assertEqual(found["v/b"], P("tp"))
        history = optax.scale_by_lbfgs(memory_size=3).init(params)
        placed = plan.shard(history)
        found = {"/".join(path[-2:]): leaf.sharding.spec
                 for path, leaf in states.flat(placed) if leaf.size > 3}
        self.assertEqual(found["diff_params_memory/w"], P(None, "fsdp", "tp"))
        self.assertEqual(found["diff_params_memory/b"], P(None, "tp"))

    def test_objects_of_nnx(self):
        """Modules with Dropout and BatchNorm, and both optimizers."""
        model = states.NnxNet(nnx.Rngs(0))
        plan = self.plan(model)
        module = self.module(plan)
        self.assertEqual(len(plan), 6)
        both = nnx.ModelAndOptimizer(model, optax.adam(1e-3), wrt=nnx.Param)
        for one in (model, nnx.Optimizer(model, optax.adamw(1e-3),
                                         wrt=nnx.Param), both):
            sharded = plan.shard(one)
            self.assertIs(type(sharded), type(one))
            self.assertEqual(shardings(module.shard(one)), shardings(sharded))
            self.assertEqual(jax.tree.leaves(plan.named_shardings(like=one)),
                             shardings(sharded))
            for path, leaf in states.flat(nnx.state(sharded)):
                path = [part for part in path if part != "value"]
                wanted = P()
                if path[-1] == "kernel":
                    wanted = P("fsdp", "tp")
                elif path[-1] in ("bias", "scale"):
                    wanted = P("tp")
                self.assertEqual(leaf.sharding.spec, wanted, path)
        sharded = plan.shard(both)
        out = nnx.jit(lambda m, x: m(x))(sharded.model, jnp.ones((2, 8)))
        np.testing.assert_allclose(out, both.model(jnp.ones((2, 8))),
                                   rtol=1e-5, atol=1e-6)

    def test_a_step_on_a_sharded_state_is_that_of_one_device(self):
        params = states.linen_variables()["params"]
        plan = self.plan(params)
        state = states.linen_state(optax.sgd(1e-2, momentum=0.9), params)
        batch = jax.random.normal(jax.random.key(2), (16, 8))

        def loss(params, state):
            out, _ = state.apply_fn(
                {"params": params, "batch_stats": state.batch_stats}, batch,
                rngs={"dropout": jax.random.key(1)},
                mutable=["batch_stats"])
            return (out ** 2).sum()

        def step(state):
            return state.apply_gradients(
                grads=jax.grad(loss)(state.params, state))

        where = plan.named_shardings(like=state)
        once = jax.jit(step, in_shardings=(where,))(plan.shard(state))
        where = plan.named_shardings(like=once)
        got = jax.jit(step, in_shardings=(where,), out_shardings=where)(
            plan.shard(once))
        wanted = step(step(state))
        for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted)):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)
        self.assertEqual(int(got.step), 2)

    def test_the_same_leaves_in_manifest_cost_and_checkpoint(self):
        """Statistics and random streams are in none of them; the bytes of
        cost are those that a device holds."""
        model = states.NnxNet(nnx.Rngs(0))
        tx = optax.adamw(1e-3)
        both = nnx.ModelAndOptimizer(model, tx, wrt=nnx.Param)
        made = manifest(both)
        self.assertEqual(made, manifest(model))
        plan = self.plan(model)
        file = self.path("plan.json")
        with open(file, "w", encoding="utf-8") as out:
            json.dump(plan.data, out)
        exported = json.loads(shardc.run(
            ["export", "orbax", "--plan", file]).stdout)
        names = {base64.urlsafe_b64decode(key).decode() for key in exported}
        self.assertEqual(names, {name.replace("/", ".")
                                 for name in made["params"]})
        sharded = plan.shard(nnx.state(both))
        held = {"model": 0, "opt_state": 0}
        for path, leaf in states.flat(sharded):
            path = [part for part in path if part != "value"]
            if path[0] == "step" or leaf.size == 1 or (
                    path[-1] in ("mean", "var", "key", "count")):
                continue
            held[path[0]] += leaf.addressable_shards[0].data.nbytes
        memory = plan.cost(optimizer="adamw")["memory"]
        self.assertEqual(memory["parameters"], held["model"])
        self.assertEqual(memory["optimizer"], held["opt_state"])

    def test_orbax_restores_a_state_onto_the_devices_of_the_plan(self):
        params = states.linen_variables()["params"]
        plan = self.plan(params)
        state = {"params": params, "opt_state": optax.adam(1e-3).init(params),
                 "step": jnp.int32(3)}
        saved = self.path("saved")
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(saved, state)
        with ocp.StandardCheckpointer() as checkpointer:
            restored = checkpointer.restore(
                saved, plan.abstract_tree(like=state))
        self.assert_same(restored, state)
        self.assertEqual(shardings(restored), shardings(plan.shard(state)))

    def test_names_that_begin_with_params(self):
        """In the plan, in the tree, in both or in neither."""
        variables = states.linen_variables()
        params = variables["params"]
        adam = optax.adam(1e-3)
        specs = None
        for planned in (variables, params):
            plan = self.plan(planned)
            module = self.module(plan)
            for tree in (params, {"params": params}, {"params": {
                    "params": params}}):
                state = (tree, adam.init(tree))
                for shard in (plan.shard, module.shard):
                    found = [s.spec for s in shardings(shard(state))]
                    specs = specs or found
                    self.assertEqual(found, specs)
            for shard in (plan.shard, module.shard):
                placed = shard(variables)
                self.assertEqual(
                    placed["batch_stats"]["norm"]["mean"].sharding.spec, P())
            (path, _), *_ = jax.tree_util.tree_flatten_with_path(params)[0]
            self.assertIn(module.name_of(path), plan)

    def test_what_does_not_fit_is_refused_by_both(self):
        params = states.linen_variables()["params"]
        plan = self.plan(params)
        module = self.module(plan)
        typo = {"up": {"kernel": jnp.ones((8, 16)), "bia": jnp.ones(16)}}
        wrong = {"up": {"kernel": jnp.ones((8, 15))}}
        for tree, said in ((typo, "no parameter up/bia"),
                           ({"params": typo}, "no parameter params/up/bia"),
                           ({"v": jnp.ones(3)}, "no parameter v"),
                           (wrong, r"\[8, 16\] in the plan and \[8, 15\]")):
            for shard in (plan.shard, module.shard):
                with self.assertRaisesRegex((ValueError, KeyError), said):
                    shard(tree)
        for shard in (plan.shard, module.shard):
            placed = shard(typo, unmatched="replicate")
            self.assertEqual(placed["up"]["bia"].sharding.spec, P())
            with self.assertRaisesRegex(ValueError, "unmatched is"):
                shard(typo, unmatched="ignore")
        devices = np.array(jax.devices())
        for shape, names in (((2, 4), ("fsdp", "tp")),
                             ((2, 4), ("tp", "fsdp")),
                             ((4, 2), ("dp", "tp")), ((8,), ("tp",))):
            mesh = Mesh(devices.reshape(shape), names)
            for call in (
                    lambda mesh=mesh: plan.shard(params, mesh=mesh),
                    lambda mesh=mesh: plan.named_shardings(mesh=mesh),
                    lambda mesh=mesh: plan.abstract_tree(mesh=mesh),
                    lambda mesh=mesh: plan.constrain(
                        jnp.ones((8, 16)), ("fsdp", "tp"), mesh=mesh),
                    lambda mesh=mesh: shardc.jax.sharding(
                        plan["up/kernel"], mesh),
                    lambda mesh=mesh: module.shard(params, on=mesh),
                    lambda mesh=mesh: module.shardings(on=mesh)):
                with self.assertRaisesRegex(ValueError, "the plan's is "
                                            "fsdp=4 tp=2"):
                    call()
        wider = Mesh(devices.reshape(1, 4, 2), ("dp", "fsdp", "tp"))
        self.assertEqual(plan.shard(params, mesh=wider)["up"]["kernel"]
                         .sharding.spec, P("fsdp", "tp"))


MODELS = '''
import jax, jax.numpy as jnp, optax
import flax.linen as nn, equinox as eqx, haiku as hk
from flax import nnx
from states_answers import Net, NnxNet, equinox_net, linen_state
from states_answers import linen_variables

class Wide(nnx.Module):
    def __init__(self, width, rngs):
        self.up = nnx.Linear(8, width, rngs=rngs)

class Sized(nn.Module):
    width: int
    @nn.compact
    def __call__(self, x):
        return nn.Dense(self.width)(x)

class Keyed(eqx.Module):
    up: eqx.nn.Linear
    def __init__(self, key):
        self.up = eqx.nn.Linear(4, 8, key=key)

class Inner(hk.Module):
    def __call__(self, x):
        return hk.Linear(5)(x)

class Plain:
    def __init__(self):
        self.w = jnp.ones((2, 3))

net, transformed = Net(), hk.transform(lambda x: Inner()(x))
def pair(): return Net(), jnp.ones((1, 8))
def shapes(): return Net(), jax.ShapeDtypeStruct((1, 8), jnp.float32)
def variables(): return linen_variables()
def state(): return linen_state(optax.adam(1e-3), linen_variables()["params"])
def module(): return Net()
def nnx_module(): return NnxNet(nnx.Rngs(0))
def nnx_pair(): return NnxNet(nnx.Rngs(0)), jnp.ones((1, 8))
def optimizer(): return nnx.Optimizer(nnx_module(), optax.adam(1e-3),
                                      wrt=nnx.Param)
def trained(): return nnx.ModelAndOptimizer(
    nnx_module(), optax.adam(1e-3), wrt=nnx.Param)
def haiku(): return transformed, jnp.ones((1, 3))
def haiku_state(): return hk.transform_with_state(
    lambda x: Inner()(x)), jnp.ones((1, 3))
def only_transformed(): return transformed
def twice(): return {"a/b": jnp.ones(2), "a": {"b": jnp.ones(3)}}
def hidden(): return {"x": Plain()}
def function(): return pair
def huge(): return {"w": jnp.ones((1 << 20, 1 << 20))}
'''
LINEN = {"down/bias": [8], "down/kernel": [16, 8], "norm/bias": [16],
         "norm/scale": [16], "up/bias": [16], "up/kernel": [8, 16]}
NAMED = {"params/" + name: shape for name, shape in LINEN.items()}
INNER = {"inner/linear/b": [5], "inner/linear/w": [3, 5]}
FACTORIES = {
    "pair": NAMED, "shapes": NAMED, "variables": NAMED, "state": LINEN,
    "NnxNet": LINEN, "nnx_module": LINEN, "nnx_pair": LINEN, "trained": LINEN,
    "Keyed": {"up/bias": [8], "up/weight": [8, 4]},
    "equinox_net": {"layers/0/bias": [16], "layers/0/weight": [16, 8],
                    "layers/1/bias": [8], "layers/1/weight": [8, 16]},
    "haiku": INNER, "haiku_state": INNER,
    "huge": {"w": [1 << 20, 1 << 20]}}
REFUSED = {
    "net": "return (module, example input)",
    "Net": "from_model(module, example)", "module": "Flax linen",
    "Sized": "`def build(): return Sized(...), jnp.ones((1, 8))`",
    "Wide": "`def build(): return Wide(width=...)`",
    "Inner": "exists only inside hk.transform",
    "optimizer": "return the model",
    "transformed": "(transformed, example input)",
    "only_transformed": "from_model(transformed, example)",
    "twice": "two parameters are named 'a/b'",
    "hidden": "Plain at x have no paths", "function": "return its result"}


class Manifests(unittest.TestCase):
    def test_factories_of_every_library(self):
        """From the command line, in one process each."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "models.py"), "w",
                      encoding="utf-8") as file:
                file.write(MODELS)
            code = ("import sys, io, json, contextlib, shardc.manifest as m\n"
                    "for name in sys.argv[1:]:\n"
                    "  out, err = io.StringIO(), io.StringIO()\n"
                    "  with contextlib.redirect_stdout(out), "
                    "contextlib.redirect_stderr(err):\n"
                    "    try: status = m.main(['models:' + name])\n"
                    "    except SystemExit as end: status = end.code\n"
                    "  print(json.dumps([name, status, out.getvalue(), "
                    "err.getvalue()]))\n")
            done = subprocess.run(
                [sys.executable, "-c", code, *FACTORIES, *REFUSED],
                cwd=folder, capture_output=True, text=True, check=False,
                env=dict(os.environ, PYTHONPATH=os.pathsep.join(
                    [os.path.join(ROOT, "python"), records.HERE])))
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(lines), len(FACTORIES) + len(REFUSED))
        for name, status, out, err in lines:
            if name in FACTORIES:
                self.assertEqual(status, 0, (name, err))
                self.assertEqual(
                    {key: one["shape"] for key, one
                     in json.loads(out)["params"].items()},
                    FACTORIES[name], name)
            else:
                self.assertEqual((status, out), (2, ""), name)
                self.assertIn(REFUSED[name], err)
        print(f"states: {len(FACTORIES)} factories, {len(REFUSED)} refused")

    def test_from_model_runs_abstractly(self):
        def shapes(*args, **kwargs):
            made = from_model(*args, **kwargs)
            return {name: one["shape"] for name, one
                    in made["params"].items()}

        x = jax.ShapeDtypeStruct((1, 8), jnp.float32)
        self.assertEqual(shapes(states.Net(), x), NAMED)
        self.assertEqual(shapes(states.Net(), x, False), NAMED)
        self.assertEqual(shapes(states.Net(), jnp.ones((1, 8)), train=False),
                         NAMED)
        for given in ({}, {"rngs": nnx.Rngs(0)}):
            self.assertEqual(shapes(states.NnxNet, **given), LINEN)
        self.assertEqual(shapes(states.NnxNet(nnx.Rngs(0))), LINEN)
        self.assertEqual(shapes(nnx.Linear, 1 << 20, 1 << 20), {
            "bias": [1 << 20], "kernel": [1 << 20, 1 << 20]})
        self.assertEqual(
            shapes(hk.transform(lambda x: hk.Linear(1 << 20)(x)),
                   jax.ShapeDtypeStruct((1, 1 << 20), jnp.float32)),
            {"linear/b": [1 << 20], "linear/w": [1 << 20, 1 << 20]})
        self.assertEqual(
            shapes(nn.Dense(1 << 20),
                   jax.ShapeDtypeStruct((1, 1 << 20), jnp.bfloat16)),
            {"params/bias": [1 << 20], "params/kernel": [1 << 20, 1 << 20]})
        self.assertEqual(shapes(lambda: {"w": jnp.ones((1 << 40,))}),
                         {"w": [1 << 40]})
        for wrong in ((states.Net(),), (states.Net, x), (3, x)):
            with self.assertRaises(ManifestError):
                from_model(*wrong)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
