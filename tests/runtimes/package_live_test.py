"""The Python package on real JAX: the shardings of a plan have the plan's
slices, trees of every library find their parameters, and the example's step on
eight devices equals the same on one."""

import gzip
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=16"
os.environ["JAX_PLATFORMS"] = "cpu"
ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
os.environ["SHARDC"] = os.environ.get(
    "SHARDC_BIN", os.path.join(ROOT, "build", "src", "cli", "shardc"))
sys.path.insert(0, os.path.join(ROOT, "python"))

import equinox as eqx  # noqa: E402
import flax.linen as nn  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from flax import nnx  # noqa: E402

import shardc  # noqa: E402
import shardc.jax  # noqa: E402
import shardc.manifest  # noqa: E402

PLANS = 60
AXES = ("dp", "fsdp", "ep", "tp")


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(8, name="down")(nn.Dense(16, name="up")(x))


def equinox_net():
    return eqx.nn.MLP(8, 8, 16, 1, key=jax.random.key(0))


class Dropping(nnx.Module):
    """With state that is no parameter: statistics and random streams."""

    def __init__(self, rngs):
        self.up = nnx.Linear(8, 16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.down = nnx.Linear(16, 8, rngs=rngs)


def dropping():
    return Dropping(nnx.Rngs(0))


def nnx_net():
    return nnx.Sequential(nnx.Linear(8, 16, rngs=nnx.Rngs(0)),
                          nnx.Linear(16, 8, rngs=nnx.Rngs(0)))


def page(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def compiled(folder, params, rules, mesh, *arguments, stages=""):
    """The plan of parameters by name, lines of rules, and stages."""
    manifest, text = (os.path.join(folder, name)
                      for name in ("manifest.json", "rules.yaml"))
    with open(manifest, "w", encoding="utf-8") as file:
        json.dump({"schema": "shardc.manifest/v1", "params": params}, file)
    with open(text, "w", encoding="utf-8") as file:
        file.write("version: 1\n" + stages + "rules:\n" + "".join(rules))
    return shardc.compile(mesh=mesh, rules=text, manifest=manifest,
                          arguments=arguments)


def rule(pattern, spec, more=""):
    return f"  - match: '{pattern}'\n    spec: {json.dumps(spec)}\n{more}"


class Package(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def random_plan(self, chance):
        sizes = [chance.choice([1, 2, 2, 4]) for _ in AXES]
        while math.prod(sizes) > 16:
            sizes[chance.randrange(4)] = 1
        mesh = dict(zip(AXES, sizes))
        params, rules = {}, []
        for number in range(6):
            rank = chance.randint(0, 3)
            axes = chance.sample(AXES, 4)
            spec = []
            for _ in range(rank):
                group = [axes.pop() for _ in range(chance.randint(0, 2))
                         if axes]
                spec.append(group or None)
            params[f"layers/{number}/w"] = {
                "shape": [16 * chance.randint(1, 3) for _ in range(rank)],
                "dtype": chance.choice(["F32", "BF16", "I32"])}
            rules.append(rule(f"/{number}/", spec))
        params["experts/1/w"] = {"shape": [16, 4], "dtype": "F32"}
        rules.append(rule("experts", [["tp"]], "    place: {axis: ep, index: "
                          "'experts/(\\d+)/', count: 4}\n"))
        text = ",".join(f"{axis}:{size}" for axis, size in mesh.items())
        if mesh["dp"] > 1 and chance.random() < 0.5:
            # Two slices: devices are numbered slice by slice.
            text = os.path.join(self.folder, "mesh.yaml")
            with open(text, "w", encoding="utf-8") as file:
                file.write(f"axes: {json.dumps(mesh)}\nslices: 2\n"
                           "dcn: {dp: 2}\n")
        return compiled(self.folder, params, rules, text,
                        "--illegal", "shrink")

    def check_slices(self, plan):
        """The number of devices' slices that JAX has as the plan does."""
        checked = 0
        mesh = plan.jax_mesh(jax.devices()[:plan.mesh.devices])
        for name, where in plan.named_shardings(mesh=mesh).items():
            held = where.devices_indices_map(plan[name].shape)
            by_id = {device.id: parts for device, parts in held.items()}
            for device in range(plan.mesh.devices):
                want = plan[name].slices(device)
                self.assertEqual(want is None, device not in by_id)
                if want is None:
                    continue
                got = [part.indices(size)[:2] for part, size in
                       zip(by_id[device], plan[name].shape)]
                self.assertEqual(
                    got, [(part.start, part.stop) for part in want])
                checked += 1
        return checked

    def test_stages_are_on_the_devices_of_their_ranks(self):
        # A tied embedding on two ranks of four, layers by name, and layers of
        # one tensor: evenly, and three dimensions with two stages a rank.
        names = {"embed_tokens.weight": {"shape": [32, 8], "dtype": "F32"}}
        for layer in range(7):
            names[f"layers.{layer}.up.weight"] = {"shape": [8, 16],
                                                  "dtype": "F32"}
        even = {"layers/up": {"shape": [8, 8, 16], "dtype": "F32"}}
        strided = {"layers/up": {"shape": [2, 4, 1, 8, 16], "dtype": "F32"}}
        stacked = "stacked: [{match: '^layers/', dim: 0}], assign: even"
        cases = [(names, "assign: [1, 3, 2, 1]", [None, "tp"]),
                 (names, "schedule: zbv, assign: even", [None, "tp"]),
                 (even, stacked, [None, None, "tp"]),
                 (strided, "schedule: interleaved, virtual: 2, " + stacked,
                  [None, None, None, None, "tp"])]
        checked = 0
        for params, stages, spec in cases:
            plan = compiled(self.folder, params,
                            [rule("up", spec), rule(".*", [])],
                            "pp:4,tp:2", stages=f"stages: {{axis: pp, {stages}}}\n")
            self.assertIsNotNone(plan.stages)
            checked += self.check_slices(plan)
            if params is names:
                tree = {name: jnp.ones(one["shape"]) for name, one
                        in params.items()}
                put = plan.shard(tree, mesh=plan.jax_mesh(jax.devices()[:8]))
                for name, value in put.items():
                    at = {device.id // 2 for device in value.devices()}
                    self.assertEqual(tuple(sorted(at)), plan[name].ranks)
        self.assertEqual(checked, 2 * (2 + 7) + 2 * (1 + 7) + 8 + 8)

    def test_shardings_hold_the_plans_slices(self):
        chance = random.Random(5)
        checked = 0
        for _ in range(PLANS):
            checked += self.check_slices(self.random_plan(chance))
        self.assertGreater(checked, 1000)
        print(f"package: {checked} devices' slices of {PLANS} plans, "
              f"JAX {jax.__version__}")

    def test_trees_of_flax_find_their_parameters(self):
        linen = Net().init(jax.random.key(0), jnp.ones((1, 8)))
        for model, factory, framework in (
                (linen, lambda: Net().init(jax.random.key(0),
                                           jnp.ones((1, 8))), "jax"),
                (nnx.state(nnx_net(), nnx.Param), nnx_net, "nnx")):
            made = shardc.manifest.manifest(
                shardc.manifest.build(factory, framework))
            self.assertEqual(len(made["params"]), 4)
            plan = compiled(
                self.folder, made["params"],
                [rule("kernel$", ["fsdp", "tp"]), rule("bias$", ["tp"])],
                "fsdp:4,tp:4")
            self.assertEqual(plan.check(model), [])
            shardings = plan.named_shardings(like=model)
            sharded = plan.shard(model)
            for leaf, want in zip(jax.tree.leaves(sharded),
                                  jax.tree.leaves(shardings)):
                self.assertTrue(leaf.sharding.is_equivalent_to(want,
                                                               leaf.ndim))
            for got, want in zip(jax.tree.leaves(sharded),
                                 jax.tree.leaves(model)):
                np.testing.assert_array_equal(got, want)
            abstract = shardc.jax.abstract_tree(plan, like=model)
            self.assertEqual(
                [x.shape for x in jax.tree.leaves(abstract)],
                [x.shape for x in jax.tree.leaves(model)])

    def test_a_module_of_nnx_keeps_what_is_no_parameter(self):
        """Its manifest is made without saying that it is one of nnx, though
        linen is imported too."""
        made = shardc.manifest.manifest(shardc.manifest.build(dropping))
        self.assertEqual(list(made["params"]), [
            "down/bias", "down/kernel", "norm/bias", "norm/scale", "up/bias",
            "up/kernel"])
        plan = compiled(self.folder, made["params"],
                        [rule("kernel$", ["fsdp", "tp"]), rule(".*", [])],
                        "fsdp:4,tp:4")
        model = dropping()
        self.assertEqual(plan.check(model), [])
        sharded = plan.shard(model)
        self.assertEqual(sharded.up.kernel[...].sharding.spec,
                         jax.sharding.PartitionSpec("fsdp", "tp"))
        for got, want in zip(jax.tree.leaves(nnx.state(sharded, nnx.Param)),
                             jax.tree.leaves(nnx.state(model, nnx.Param))):
            np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(sharded.norm.mean[...],
                                      model.norm.mean[...])
        self.assertEqual(sharded.norm.mean[...].sharding.spec,
                         jax.sharding.PartitionSpec())
        sharded.drop(jnp.ones(8))  # its stream still draws

    def test_a_module_a_mesh_and_rules_of_jax(self):
        spec = jax.sharding.PartitionSpec
        rules = [("up/kernel$", spec("fsdp", "tp")),
                 ("down/kernel$", spec(("fsdp", "tp"))), (".*", spec())]
        kind = jax.sharding.AxisType.Auto
        meshes = (jax.make_mesh((4, 4), ("fsdp", "tp"), (kind, kind)),
                  jax.sharding.AbstractMesh((4, 4), ("fsdp", "tp"),
                                            (kind, kind)),
                  {"fsdp": 4, "tp": 4})
        variables = jax.eval_shape(Net().init, jax.random.key(0),
                                   jnp.ones((1, 8)))
        for model in (dropping(), variables, nnx.eval_shape(dropping)):
            plans = [shardc.compile(model, mesh=mesh, rules=rules)
                     for mesh in meshes]
            for plan in plans:
                specs = {name.split("/", 1)[-1] if name.startswith("params/")
                         else name: one.spec() for name, one in plan.items()}
                self.assertEqual(specs["up/kernel"], ("fsdp", "tp"))
                self.assertEqual(specs["down/kernel"],
                                 (("fsdp", "tp"), None))
            own = shardc.compile(model, mesh=meshes[0], rules="auto")
            self.assertEqual(len(own), len(plans[0]))

    def test_constraints_on_axes_of_every_type(self):
        """Explicit ones are resharded over; no constraint may name them."""
        params = {"w": {"shape": [16, 16], "dtype": "F32"}}
        wanted = jax.sharding.PartitionSpec("tp", "fsdp")
        for types in ("auto", "explicit", "{fsdp: explicit, tp: auto}",
                      "{fsdp: auto, tp: explicit}"):
            mesh_file = os.path.join(self.folder, "types.yaml")
            with open(mesh_file, "w", encoding="utf-8") as file:
                file.write("axes: {fsdp: 4, tp: 4}\naxis_types: "
                           + types + "\n")
            plan = compiled(self.folder, params,
                            [rule("w", ["fsdp", "tp"])], mesh_file)
            mesh = plan.jax_mesh()
            x = jnp.arange(256.0).reshape(16, 16)
            given = plan.shard({"w": x}, mesh=mesh)["w"]
            with jax.set_mesh(mesh):
                out = jax.jit(lambda a, plan=plan, mesh=mesh: plan.constrain(
                    a * 2, ("tp", "fsdp"), mesh=mesh))(given)
            self.assertTrue(out.sharding.is_equivalent_to(
                jax.sharding.NamedSharding(mesh, wanted), 2),
                f"{types}: {out.sharding}")
            np.testing.assert_array_equal(out, x * 2)

    def test_an_equinox_module_keeps_what_is_no_array(self):
        made = shardc.manifest.manifest(
            shardc.manifest.build(equinox_net, "jax"))
        self.assertEqual(
            {name: entry["shape"] for name, entry in made["params"].items()},
            {"layers/0/weight": [16, 8], "layers/0/bias": [16],
             "layers/1/weight": [8, 16], "layers/1/bias": [8]})
        plan = compiled(
            self.folder, made["params"],
            [rule("0/weight", ["tp", "fsdp"]), rule("1/weight",
                                                    ["fsdp", "tp"]),
             rule("0/bias", ["tp"]), rule("bias", [])], "fsdp:4,tp:4")
        model = equinox_net()
        self.assertEqual(plan.check(model), [])
        sharded = plan.shard(model)
        self.assertIs(sharded.activation, model.activation)
        where = plan.named_shardings(like=model)
        self.assertEqual(where.layers[0].weight.spec,
                         jax.sharding.PartitionSpec("tp", "fsdp"))
        self.assertTrue(sharded.layers[0].weight.sharding.is_equivalent_to(
            where.layers[0].weight, 2))
        x = jnp.arange(8.0)
        np.testing.assert_allclose(eqx.filter_jit(sharded)(x), model(x),
                                   rtol=1e-5, atol=1e-6)

    def test_what_is_no_array_stays(self):
        plan = compiled(
            self.folder, {"w": {"shape": [16], "dtype": "F32"}},
            [rule("w", ["tp"])], "tp:16")
        tree = {"w": jnp.zeros(16), "act": jax.nn.relu, "none": None}
        self.assertIs(plan.shard(tree)["act"], jax.nn.relu)
        self.assertIsNone(plan.named_shardings(like=tree)["act"])
        with self.assertRaisesRegex(shardc.PlanError, "no parameter v"):
            plan.shard({"v": jnp.zeros(16)})
        with self.assertRaisesRegex(shardc.PlanError, r"\[16\] in the plan"):
            plan.shard({"w": jnp.zeros(8)})
        with self.assertRaisesRegex(shardc.PlanError, "for 16 devices"):
            plan.jax_mesh(jax.devices()[:4])
        with self.assertRaisesRegex(shardc.PlanError,
                                    "no activation is called 'querry'"):
            plan.constrain(jnp.zeros(16), "querry")
        self.assertEqual(
            plan.jax_mesh(iter(jax.devices())),
            plan.jax_mesh(np.array(jax.devices()).reshape(4, 4)))
        for params, said in (
                ({"a": {"shape": [16], "dtype": "F32"},
                  "a/b": {"shape": [16], "dtype": "F32"}},
                 "below a parameter"),
                ({"a": {"shape": [16], "dtype": "F4"}}, "JAX has no F4"),
                ({"a": {"shape": None, "dtype": None}}, "no shape or data")):
            other = compiled(self.folder, params, [
                "  # shardc: ignore[SHD207] Only the tree is of interest.\n",
                rule(".", [])], "tp:16")
            with self.assertRaisesRegex(shardc.PlanError, said):
                shardc.jax.abstract_tree(other)
        tree = shardc.jax.abstract_tree(plan)
        self.assertEqual(tree["w"].sharding.spec,
                         jax.sharding.PartitionSpec("tp"))

    def test_the_blocks_of_the_pages(self):
        """What README.md and the guide show of JAX, as it stands there."""
        plan = compiled(
            self.folder, {"w": {"shape": [16], "dtype": "F32"}},
            [rule("w", ["tp"])], "tp:16")
        file = os.path.join(self.folder, "plan.json")
        with open(file, "w", encoding="utf-8") as out:
            json.dump(plan.data, out)
        guide = page("docs", "guides", "python.md").partition("## JAX")[2]
        for block in (page("README.md"), guide.partition("## PyTorch")[0]):
            text = "".join(
                re.findall(r"^```python\n(.*?)^```$", block, re.M | re.S))
            names = {"plan": plan, "devices": jax.devices(),
                     "params": {"w": jnp.arange(16.0)},
                     "state": {"mu": {"w": jnp.arange(16.0)}}}
            exec(text.replace('"plan.json"', repr(file)), names)
            self.assertEqual(names["params"]["w"].sharding.spec,
                             jax.sharding.PartitionSpec("tp"))
        self.assertEqual(names["shardings"]["w"].spec,
                         jax.sharding.PartitionSpec("tp"))

    def run_example(self, name, *arguments):
        done = subprocess.run(
            [sys.executable, os.path.join(ROOT, "examples", "jax", name), *arguments],
            capture_output=True, text=True, check=False,
            env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"),
                     XLA_FLAGS="--xla_force_host_platform_device_count=8"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_the_example(self):
        self.assertIn("21 parameters), 0 parameters have another sharding",
                      self.run_example("llama.py"))

    def test_the_recipes(self):
        """Training, a checkpoint and decoding, equal to those on one device; the
        audit of the compiled step has no finding."""
        for name in ("train_linen.py", "train_nnx.py"):
            with self.subTest(name):
                out = self.run_example(name)
                self.assertIn("restored as planned: True", out)
                self.assertIn("0 findings, 0 arguments differ", out)

    def test_names_of_ones_own(self):
        """The program is that of the guide, and the run under the plan that follows
        from it computes the losses of one device."""
        folder = os.path.join(ROOT, "examples", "jax")
        recorded = os.path.join(folder, "own_names.program.json.gz")
        given = ["--mesh", "fsdp:2,tp:4", "--rules"]
        with tempfile.TemporaryDirectory() as out:
            traced, rules, plan = (os.path.join(out, name) for name in (
                "step.program.json.gz", "rules.yaml", "plan.json"))
            for arguments in (
                    ["shardc.program", "own_names:step", "-o", traced],
                    ["shardc", "suggest", "--program", traced, *given[:2], "-o", rules],
                    ["shardc", "plan", *given, rules, "--manifest", traced, "-o", plan]):
                subprocess.run(
                    [sys.executable, "-m", *arguments], check=True, cwd=folder,
                    env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python")))
            with gzip.open(traced) as made, gzip.open(recorded) as known:
                made, known = json.load(made), json.load(known)
                self.assertEqual({**made, "traced": 0}, {**known, "traced": 0})
            self.assertIn("equal to those on one device",
                          self.run_example("own_names.py", plan))

    def test_the_guide_shows_the_recipes(self):
        guide = page("docs", "guides", "train-jax.md")
        recipe = page("examples", "jax", "train_linen.py")
        lines = {line.strip() for line in recipe.splitlines()}
        blocks = re.findall(r"^```python\n(.*?)^```$", guide, re.M | re.S)
        self.assertGreater(len(blocks), 4)
        for block in blocks:
            for line in block.splitlines():
                self.assertIn(line.strip(), lines | {""})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
