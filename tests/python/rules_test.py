"""Rules from live models, without the frameworks: stand-ins with the attributes of
their arrays, boxes and meshes. The program matches the written rules again."""

import contextlib
import itertools
import os
import random
import re
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
os.environ["SHARDC"] = os.environ.get(
    "SHARDC_BIN", os.path.join(ROOT, "build", "src", "cli", "shardc"))
sys.path[:0] = [os.path.join(ROOT, "python")]

from shardc.declared import DeclarationError  # noqa: E402
from shardc.folding import folded  # noqa: E402
from shardc.frameworks import easydel, maxtext  # noqa: E402
from shardc.mesh import Axis, Mesh  # noqa: E402
from shardc.placement import splits_of  # noqa: E402
from shardc.rules import Declaration, from_model  # noqa: E402
from shardc.rulesfile import RESERVED  # noqa: E402

FLOAT = types.SimpleNamespace(name="float32")


class P:
    """A PartitionSpec: iterable, and no tuple, as in JAX since 0.6."""

    def __init__(self, *entries, **more):
        self.entries = entries
        self.__dict__.update(more)

    def __iter__(self):
        return iter(self.entries)


P.__name__ = "PartitionSpec"


def mesh(**axes):
    return types.SimpleNamespace(axis_names=tuple(axes), shape=axes, empty=False)


def array(*shape, **more):
    return types.SimpleNamespace(shape=shape, dtype=FLOAT, **more)


def named(on, *entries):
    return types.SimpleNamespace(mesh=on, spec=P(*entries))


class Box:
    """What with_partitioning puts around an array."""

    def __init__(self, value, names):
        self.value, self.names = value, names

    def unbox(self):
        return self.value


class LogicalBox(Box):
    rules = None


class Variable:
    """Of flax.nnx."""

    def __init__(self, value, **metadata):
        self.value, self.metadata = value, metadata

    def get_metadata(self):
        return self.metadata


class Replicate:
    pass


class Shard:
    def __init__(self, dim):
        self.dim = dim


class _StridedShard(Shard):
    def __init__(self, dim, split_factor):
        super().__init__(dim)
        self.split_factor = split_factor


class Partial:
    def __repr__(self):
        return "Partial(sum)"


class Module:
    """Of PyTorch."""

    def __init__(self, **parameters):
        self.parameters = {name.replace("__", "."): value
                           for name, value in parameters.items()}

    def named_parameters(self):
        return self.parameters.items()


def tensor(shape, placements, **axes):
    device_mesh = types.SimpleNamespace(
        mesh_dim_names=tuple(axes), shape=tuple(axes.values()))
    return array(*shape, placements=placements, device_mesh=device_mesh)


def specs(rules):
    return {one.name: one.spec for one in rules.declared.parameters}


class Declared(unittest.TestCase):
    def proved(self, model, **more):
        """The rules of a model, all of whose parameters are equal."""
        rules = from_model(model, **more)
        for program in (True, False):
            proof = rules.prove(program)
            self.assertEqual(
                (proof.different, proof.refused, proof.equal),
                ({}, {}, len(rules.declared.parameters)), rules.text())
            self.assertEqual("0.1.0" in proof.judge, program)
        return rules

    def test_named_shardings_give_rules_and_a_mesh(self):
        on = mesh(fsdp=2, tp=4)
        layer = {"up": array(8, 16, sharding=named(on, "fsdp", "tp")),
                 "down": array(16, 8, sharding=named(on, ("tp", "fsdp"))),
                 "norm": array(8, sharding=named(on))}
        rules = self.proved({"layers": [layer, layer]})
        self.assertEqual(rules.text("m:f"), """\
# What m:f declares.
version: 1
separator: "/"
rules:
  - match: '^layers/[0-9]+/up$'
    spec: [fsdp, tp]
  - match: '^layers/[0-9]+/down$'
    spec: [[tp, fsdp], null]
  - match: '^layers/[0-9]+/norm$'
    spec: []
""")
        self.assertEqual(rules.mesh_text(), "axes: {fsdp: 2, tp: 4}\ndevices: 8\n")

    def test_what_declares_nothing_is_listed(self):
        on = mesh(tp=2)
        rules = self.proved({"w": array(4, sharding=named(on, "tp")),
                             "b": array(4), "c": array(2, sharding=None)})
        self.assertEqual(rules.silent, ("b", "c"))
        self.assertIn("  # These declare no sharding, and are replicated.\n"
                      "  - match: '^(?:b|c)$'\n    spec: []\n", rules.text())

    def test_boxes_of_linen_name_mesh_axes_or_logical_ones(self):
        model = {"params": {"a": Box(array(4, 8), ("fsdp", "tp")),
                            "b": LogicalBox(array(4, 8), ("embed", "mlp")),
                            "c": LogicalBox(array(8, 4), ("mlp", None)),
                            "d": LogicalBox(array(8, 4), ("mlp", "heads"))}}
        # The first rule whose mesh axes are free counts.
        rules = self.proved(model, mesh="fsdp:2,tp:2", logical_rules=[
            ("embed", "tp"), ("mlp", ("tp", "fsdp")), ("mlp", "fsdp"),
            ("heads", "tp")])
        self.assertEqual(specs(rules), {
            "params/a": ("fsdp", "tp"), "params/b": ("tp", "fsdp"),
            "params/c": (("tp", "fsdp"),), "params/d": (("tp", "fsdp"),)})

    def test_logical_axes_without_rules_are_refused(self):
        rules = from_model({"a": LogicalBox(array(4), ("embed",)),
                            "b": Box(array(4), ("tp",))})
        proof = rules.prove()
        self.assertEqual((proof.equal, list(proof.refused)), (1, ["a"]))
        self.assertIn("logical axes embed without logical rules",
                      proof.refused["a"])
        self.assertIn("# No rule for a: it declares the logical axes embed",
                      rules.text())
        self.assertFalse(proof)

    def test_variables_of_nnx_carry_their_rules(self):
        model = {"w": Variable(array(4, 8), out_sharding=("embed", "mlp"),
                               sharding_rules=(("mlp", "tp"),)),
                 "v": Variable(array(4, 8), sharding_names=(None, "tp")),
                 "u": Variable(array(4))}
        rules = self.proved(model, logical_rules=[("embed", "fsdp")],
                            mesh="fsdp:2,tp:2")
        self.assertEqual(specs(rules), {
            "w": ("fsdp", "tp"), "v": (None, "tp"), "u": None})

    def test_placements_of_dtensor_are_specs_again(self):
        """Every spec of two dimensions over three axes, as PyTorch places it."""
        axes = {"pp": 2, "dp": 3, "tp": 5}
        on = Mesh(tuple(Axis(*one) for one in axes.items()), 30)
        parameters = {}
        for count in range(4):
            for order in itertools.permutations(axes, count):
                for split in range(count + 1):
                    spec = [order[:split], order[split:]]
                    spec = tuple(None if not group else group[0]
                                 if len(group) == 1 else group
                                 for group in spec)
                    placements = [
                        Replicate() if one is None else Shard(one[0])
                        if one[1] == 1 else _StridedShard(*one)
                        for one in splits_of(spec, on)]
                    parameters[f"p{len(parameters)}"] = (
                        spec, tensor((30, 30), placements, **axes))
        rules = self.proved(Module(**{
            name: value for name, (_, value) in parameters.items()}))
        self.assertEqual(len(parameters), 1 + 6 + 18 + 24)
        for name, (spec, _) in parameters.items():
            while spec and spec[-1] is None:
                spec = spec[:-1]
            self.assertEqual(specs(rules)[name], spec)

    def test_placements_without_a_spec_are_refused(self):
        rules = from_model(Module(
            a=tensor((4,), [Partial()], tp=2),
            b=tensor((4,), [_StridedShard(0, 3)], tp=2),
            c=tensor((4,), [Shard(0)], tp=2)))
        proof = rules.prove()
        self.assertEqual((proof.equal, sorted(proof.refused)), (1, ["a", "b"]))
        self.assertIn("Partial(sum) on `tp`", proof.refused["a"])

    def test_an_uneven_dimension_is_refused_by_the_program(self):
        rules = from_model(Module(w=tensor((5, 2), [Shard(0)], tp=2)))
        proof = rules.prove()
        self.assertRegex(proof.refused["w"], "SHD202 .* 5 % 2 = 1")

    def test_sharding_trees_and_patterns_next_to_a_model(self):
        model = {"a": {"w": array(4, 8), "b": array(8)}, "s": array()}
        tree = {"a": {"w": P("fsdp", "tp"), "b": None}, "s": P()}
        pairs = [("w$", P("fsdp", "tp")), (".*", P())]
        for given in (tree, pairs):
            rules = self.proved(Declaration(model, shardings=given),
                                mesh="fsdp:2,tp:2")
            self.assertEqual(specs(rules)["a/w"], ("fsdp", "tp"))
        self.assertEqual(specs(rules)["s"], ())

    def test_partition_rules_that_a_module_resolves(self):
        """As modules of EasyDeL do, over the mesh of their configuration."""
        class Net(dict):
            config = types.SimpleNamespace(mesh=mesh(fsdp=2, tp=2))

            def _get_partition_rules(self, rules):
                return ((r"^(?:.*/)?\d+/kernel(?:/value)?$", P("fsdp", "tp")),
                        (".*", P()))

        rules = self.proved(Net({"0": {"kernel": array(4, 4), "bias": array(4)}}))
        self.assertEqual(specs(rules), {"0/kernel": ("fsdp", "tp"), "0/bias": ()})
        self.assertEqual(rules.declared.axes, {"fsdp": 2, "tp": 2})

    def framework(self, **modules):
        """Stand-ins for modules of a framework, until the test ends."""
        modules = {name.replace("__", "."): module
                   for name, module in modules.items()}
        patch = unittest.mock.patch.dict(sys.modules, modules)
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_model_of_easydel_by_its_config(self):
        read = []

        class Net(dict):
            def _get_partition_rules(self, rules):
                return (("kernel", P("fsdp", "tp")), (".*", P()))

        class Found:
            class config:
                from_pretrained = staticmethod(lambda path: path)

            class module:
                @staticmethod
                def lazy_init(config, rngs):
                    read.append(config)
                    return Net(kernel=array(4, 4), bias=array(4))

        class registry:
            @staticmethod
            def get_module_registration(task, kind):
                return {("causal", "llama"): Found}[task, kind]

        self.framework(
            easydel__modules=types.SimpleNamespace(),
            easydel__infra__factory=types.SimpleNamespace(
                registry=registry,
                TaskType=types.SimpleNamespace(CAUSAL_LM="causal")),
            flax__nnx=types.SimpleNamespace(Rngs=lambda seed: seed))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "config.json")
        for text, words in (("{}", "no config.json"), ("[", "no config.json"),
                            ('{"model_type": "odd"}', "no odd")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            with self.assertRaisesRegex(DeclarationError, words):
                easydel(path)
        # A file of another name is read itself, not the config.json of its folder.
        other = os.path.join(folder.name, "small.json")
        for name in (path, other):
            with open(name, "w", encoding="utf-8") as file:
                file.write('{"model_type": "llama"}')
        for given in (path, folder.name, other):
            rules = self.proved(easydel(given), mesh="fsdp:2,tp:2")
            self.assertEqual(specs(rules),
                             {"kernel": ("fsdp", "tp"), "bias": ()})
        self.assertEqual(read, [path, path, other])
        with self.assertRaisesRegex(DeclarationError, "no task X"):
            easydel(path, "X")

    def test_a_model_of_maxtext_by_its_arguments(self):
        on = mesh(fsdp=4, tensor=2)
        asked = []

        class Param(types.SimpleNamespace):
            def get_value(self):
                return self.value

        variables = [(("decoder", "wi"), Param(value=array(8, 8), at=(
            "fsdp", "tensor"))), (("decoder", 0, "norm"), Param(
                value=array(8), at=("fsdp",))),
            (("rng",), types.SimpleNamespace())]
        jax = types.SimpleNamespace(
            config=types.SimpleNamespace(
                update=lambda *given: asked.append(given)),
            ShapeDtypeStruct=lambda shape, dtype, sharding: array(
                *shape, sharding=sharding))
        self.framework(
            jax=jax,
            maxtext__configs__pyconfig=types.SimpleNamespace(
                initialize=lambda given: asked.append(given) or
                types.SimpleNamespace(logical_axis_rules=())),
            maxtext__utils__maxtext_utils=types.SimpleNamespace(
                get_mesh_from_config=lambda config: on),
            maxtext__utils__model_creation_utils=types.SimpleNamespace(
                get_nnx_create_model_fn=lambda config, mesh: None),
            maxtext__utils__sharding=types.SimpleNamespace(
                get_nnx_var_named_sharding_with_scan_axis=lambda one, mesh:
                Param(value=named(on, *one.at))),
            flax__nnx=types.SimpleNamespace(
                eval_shape=lambda made: made, split=lambda made: (None, made),
                to_flat_state=lambda state: variables, Param=Param),
            flax__core__spmd=types.SimpleNamespace(
                get_logical_axis_rules=tuple,
                logical_axis_rules=lambda rules: contextlib.nullcontext()))
        made = maxtext(["base.yml", "model_name=x", "run_name=mine"], 8)
        self.assertEqual(asked[0], ("jax_num_cpu_devices", 8))
        self.assertEqual(asked[1][:4], ["", "base.yml", "model_name=x",
                                        "run_name=mine"])
        self.assertNotIn("run_name=shardc", asked[1])
        self.assertIn("hardware=cpu", asked[1])
        rules = self.proved(made)
        self.assertEqual(specs(rules), {
            "decoder/wi": ("fsdp", "tensor"), "decoder/0/norm": ("fsdp",)})
        self.assertEqual(rules.declared.axes, {"fsdp": 4, "tensor": 2})

    def test_a_layout_map_of_keras(self):
        class LayoutMap(dict):
            device_mesh = types.SimpleNamespace(
                axis_names=("batch", "model"), shape=(2, 4))

            def __missing__(self, name):
                return None

        layout = LayoutMap({"dense/kernel": types.SimpleNamespace(
            axes=("batch", "model"), device_mesh=LayoutMap.device_mesh)})
        rules = self.proved({"dense": {"kernel": array(8, 8), "bias": array(8)}},
                            shardings=layout)
        # `batch` is an axis rule of rules files unless it is registered.
        self.assertIn("register:\n  batch: {rule: {axis: batch}, override: true}",
                      rules.text())

    def test_every_reserved_name_is_registered(self):
        on = mesh(**dict.fromkeys(sorted(RESERVED), 1))
        self.proved({f"of_{name}": array(4, sharding=named(on, name))
                     for name in RESERVED})
        with open(os.path.join(ROOT, "man", "shardc-rules.5"),
                  encoding="utf-8") as file:
            page = file.read()
        listed = re.findall(r"^\.It ([A-Z_]+) Ta Ic (\w+)", page, re.M)
        self.assertEqual(len(listed), 20)
        decode = re.findall(r"^\.Ic (decode_\w+)", page, re.M)
        self.assertEqual(RESERVED, {n for pair in listed for n in pair}
                         | {name.removesuffix("_axis") for name in decode})

    def test_odd_names_are_quoted(self):
        on = mesh(**{"a-b": 2, "no": 2, "c.d": 2})
        rules = self.proved({"it's (a) + [w]": {"b.c|d": array(
            8, 4, sharding=named(on, ("a-b", "no"), "c.d"))}})
        self.assertIn("it''s", rules.text())
        self.assertIn('axes: {"a-b": 2, no: 2, "c.d": 2}', rules.mesh_text())

    def test_names_of_axes_that_shardc_does_not_read(self):
        for name in ("a b", "0", "null", "_"):
            rules = from_model({"v": array(4), "w": array(4)}, shardings=[
                ("w", P(name)), ("v", P("tp"))])
            proof = rules.prove()
            self.assertEqual(proof.equal, 1)
            self.assertIn(f"axis name `{name}`", proof.refused["w"])
            with self.assertRaisesRegex(DeclarationError, f"axis name `{name}`"):
                from_model({"w": array(4, sharding=named(mesh(**{name: 2}), name))})

    def test_parts_of_one_mesh_are_one(self):
        rules = self.proved(Module(
            a=tensor((8,), [Shard(0)], tp=2),
            b=tensor((8, 8), [Shard(0), Shard(1)], dp=4, tp=2)))
        self.assertEqual(rules.declared.axes, {"dp": 4, "tp": 2})
        with self.assertRaisesRegex(DeclarationError, "tp=2 and tp=4"):
            from_model(Module(a=tensor((8,), [Shard(0)], tp=2),
                              b=tensor((8,), [Shard(0)], tp=4)))

    def test_unusual_partition_specs_are_refused(self):
        on = mesh(tp=2)
        unconstrained = type("U", (), {"__repr__": lambda self: "UNCONSTRAINED"})()
        for spec, reason in ((P("tp", unreduced={"x"}), "unreduced"),
                             (P(unconstrained), "UNCONSTRAINED"),
                             (P("tp", "tp"), "twice"),
                             (P("tp", None, None), "too long"),
                             (P(None, None, "tp"), "too long")):
            rules = from_model({"w": array(4, 4, sharding=types.SimpleNamespace(
                mesh=on, spec=spec))})
            self.assertIn(reason, rules.prove().refused["w"])

    def test_axes_that_are_not_auto_are_written(self):
        on = mesh(dp=2, tp=2)
        on.axis_types = (types.SimpleNamespace(name="Auto"),
                         types.SimpleNamespace(name="Explicit"))
        rules = self.proved({"w": array(4, sharding=named(on, "tp"))})
        self.assertIn("axis_types: {tp: explicit}", rules.mesh_text())

    def test_a_difference_is_detected(self):
        rules = from_model({"w": array(4, 4, sharding=named(mesh(tp=2), "tp"))})
        wrong = rules.rules[0]
        rules.rules[0] = type(wrong)(wrong.pattern, (True, (None, "tp")),
                                     wrong.names)
        for program in (True, False):
            self.assertEqual(dict(rules.prove(program).different), {
                "w": '["tp"] declared, [null, "tp"] from the rules'})


class Folding(unittest.TestCase):
    def check(self, values, separator="/"):
        """The first pattern that matches a name has its value."""
        rules = folded(values, separator)
        for name, value in values.items():
            first = next(rule for rule in rules if re.search(rule.pattern, name))
            self.assertEqual(first.value, value, name)
            self.assertIn(name, first.names)
        return [rule.pattern for rule in rules]

    def test_few_rules_for_many_layers(self):
        values = {}
        for layer in range(80):
            for name in ("q", "k", "v"):
                values[f"layers.{layer}.attn.{name}.weight"] = "column"
            values[f"layers.{layer}.attn.o.weight"] = "row"
            values[f"layers.{layer}.norm.weight"] = "none"
        values["norm.weight"] = "none"
        self.assertEqual(self.check(values, "."), [
            r"^layers\.[0-9]+\.attn\.(?:k|q|v)\.weight$",
            r"^layers\.[0-9]+\.attn\.o\.weight$",
            r"^layers\.[0-9]+\.norm\.weight$", r"^norm\.weight$"])

    def test_numbers_that_decide_are_kept(self):
        values = {}
        for block in range(12):
            values[f"block_{block}/Dense_0/kernel"] = "column"
            values[f"block_{block}/Dense_1/kernel"] = "row"
        self.assertEqual(self.check(values), [
            r"^block_[0-9]+/Dense_0/kernel$", r"^block_[0-9]+/Dense_1/kernel$"])

    def test_layers_of_their_own_come_first(self):
        values = {f"h/{i}/w": "dense" if i in (0, 1, 10) else "sparse"
                  for i in range(20)}
        self.assertEqual(self.check(values),
                         ["^h/(?:0|1|10)/w$", "^h/[0-9]+/w$"])

    def test_random_values_are_given_back(self):
        draw = random.Random(40)
        for _ in range(150):
            values = {}
            for i, j, k in itertools.product(range(draw.randint(1, 7)),
                                             range(draw.randint(1, 4)), "abc"):
                by = draw.choice(((), (i,), (j,), (i, j), (k,), (i % 2, k)))
                name = draw.choice((f"l/{i}/e_{j}/{k}", f"l/{i}.{j}/{k}",
                                    f"x/{k}/{i}/{j}", f"{k}{i}/{j}"))
                values[name] = (len(by), draw.random() < 0.1) + by
            self.check(values)


class Command(unittest.TestCase):
    def run_in(self, folder, *arguments, **env):
        return subprocess.run(
            [sys.executable, "-m", "shardc.rules", *arguments], cwd=folder,
            capture_output=True, text=True, check=False,
            env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"), **env))

    def test_files_and_statuses(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "models.py"), "w",
                      encoding="utf-8") as file:
                file.write(
                    "from types import SimpleNamespace as N\n"
                    "def array(*s, **more):\n"
                    "    return N(shape=s, dtype=N(name='bfloat16'), **more)\n"
                    "def build():\n"
                    "    return {'layers': [{'w': array(4, 2)}, {'w': array(4, 2)}]}\n"
                    "PAIRS = [('w$', ('tp', None))]\n"
                    "def odd():\n    return [('w$', ('tp', 'tp'))]\n")
            done = self.run_in(
                folder, "models:build", "--shardings", "models:PAIRS", "--mesh",
                "tp:2", "-o", "rules.yaml", "--mesh-out", "mesh.yaml")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("2 parameters, 1 rules; 0 parameters declare nothing",
                          done.stderr)
            self.assertRegex(done.stderr, r"by shardc 0[.\d]+: 2 equal, "
                             "0 different, 0 refused")
            with open(os.path.join(folder, "rules.yaml"), encoding="utf-8") as file:
                self.assertIn("spec: [tp, null]", file.read())
            with open(os.path.join(folder, "mesh.yaml"), encoding="utf-8") as file:
                self.assertEqual(file.read(), "axes: {tp: 2}\ndevices: 2\n")
            done = self.run_in(folder, "models:build", "--shardings",
                               "models:PAIRS", SHARDC="", PATH="")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("without the program shardc: 2 equal", done.stderr)
            done = self.run_in(folder, "models:build", "--shardings", "models:odd")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("layers/0/w and 1 more: declares a mesh axis twice",
                          done.stderr)
            for arguments, message in (
                    (["models:build"], "none of the 2 parameters of models.build"
                     " declares a sharding"),
                    (["models:build", "--shardings", "models:PAIRS",
                      "--mesh-out", "mesh.yaml"], "the model declares no mesh"),
                    (["models:build", "--mesh", "tp"], "`tp` is no mesh"),
                    (["models:none"], "`models` has no `none`; "
                     "it defines"),
                    (["models"], "write MODULE:FACTORY")):
                done = self.run_in(folder, *arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(message, done.stderr)

    def test_without_the_framework_there_is_another_way(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("easydel", "maxtext", "jax"):
                with open(os.path.join(folder, name + ".py"), "w",
                          encoding="utf-8") as file:
                    file.write(f"raise ImportError('no {name} here')\n")
            with open(os.path.join(folder, "config.json"), "w",
                      encoding="utf-8") as file:
                file.write('{"model_type": "llama"}')
            for arguments, name, way in (
                    (["--easydel", "config.json"], "EasyDeL",
                     "shardc.import_python"),
                    (["--maxtext", "base.yml"], "MaxText",
                     "shardc import maxtext")):
                done = self.run_in(folder, *arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertRegex(done.stderr, f"no \\w+ here; run this with the "
                                 f"Python in which {name} is installed")
                self.assertIn(way, done.stderr)


if __name__ == "__main__":
    unittest.main()
