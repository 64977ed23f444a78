"""Exported files run by the systems that they are for: JAX takes the Python
module and parses the MLIR, XLA runs programs with the shardings, orbax restores by
the `_sharding` file."""

import importlib.util
import json
import math
import os
import random
import sys
import tempfile
import unittest

import jax_answers

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax._src import xla_bridge
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir
from jax.sharding import NamedSharding, PartitionSpec

import device_lists
import random_shardings
import records
import shardc_answers

# A module is written again within the second that stamps compiled files.
sys.dont_write_bytecode = True
MODELS = os.path.join(records.ROOT, "testdata", "models")
# Meshes of 16 and of 64 devices.
MESHES = ("dp:2,fsdp:2,tp:4", "fsdp:8,tp:2", "dp:2,fsdp:8,tp:4",
          "tp:4,fsdp:4,sp:4")
RANDOM_MESHES = 25


def module_of(path, name="exported"):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def export(folder, form, plan, *more):
    path = os.path.join(folder, f"exported_{form}.py")
    shardc_answers.run("export", form, "--plan", plan, "-o", path, *more)
    return path


def manifests():
    for name in sorted(os.listdir(MODELS)):
        if name.endswith((".manifest.json", ".manifest.json.gz")):
            yield os.path.join(MODELS, name)


def real_plans(folder):
    """(name, mesh, plan's path) of models under their packs."""
    out = os.path.join(folder, "plan.json")
    for path in manifests():
        for mesh in MESHES:
            done = shardc_answers.run(
                "plan", "--no-project", "-q", "--mesh", mesh, "--rules",
                "auto", "--manifest", path, "--illegal", "shrink",
                "--unmatched", "replicate", "-o", out, check=False)
            if done.returncode == 0:
                yield os.path.basename(path), mesh, out


def planned(path):
    with open(path, encoding="utf-8") as file:
        plan = json.load(file)
    mesh = {axis["name"]: axis["size"] for axis in plan["mesh"]["axes"]}
    return mesh, plan["params"]


def held(sharding, shape):
    """By device number, JAX's slices as ranges."""
    by_device = {}
    for device, cut in sharding.devices_indices_map(tuple(shape)).items():
        by_device[device.id] = [s.indices(n)[:2] for s, n in zip(cut, shape)]
    return [by_device[number] for number in sorted(by_device)]


class Exports(unittest.TestCase):
    def check_module(self, plan, folder):
        """Every parameter's slices in every mode; how many were compared."""
        module = module_of(export(folder, "jax", plan))
        mesh, params = planned(plan)
        on = module.mesh()
        compared = 0
        for mode in ("train", "decode"):
            shardings = module.shardings(mode, on)
            self.assertEqual(list(shardings), list(params))
            known = {}
            for name, param in params.items():
                spec = param.get("modes", {}).get(mode, param)["spec"]
                shape = param["shape"]
                key = json.dumps([spec, shape])
                if key not in known:
                    known[key] = (device_lists.of_spec(mesh, shape, spec),
                                  held(shardings[name], shape))
                    self.assertEqual(*known[key], (name, mode))
                ours = shardings[name]
                self.assertTrue(ours.is_equivalent_to(NamedSharding(
                    on, PartitionSpec(*[tuple(e) if isinstance(e, list) else e
                                        for e in spec])), len(shape)), name)
                compared += 1
        return compared

    def test_the_module_gives_models_the_plans_slices(self):
        compared, plans, devices = 0, 0, set()
        with tempfile.TemporaryDirectory() as folder:
            for _, _, plan in real_plans(folder):
                compared += self.check_module(plan, folder)
                plans += 1
                devices.add(math.prod(planned(plan)[0].values()))
        self.assertEqual(devices, {16, 64})
        self.assertGreater(plans, 40)
        print(f"{compared} shardings of {plans} plans of models on 16 and 64 "
              f"devices: the exported module's slices are the plans'; "
              f"jax {jax.__version__}")

    def test_the_module_gives_random_plans_slices_and_shards_trees(self):
        rng, compared = random.Random(31), 0
        for _ in range(RANDOM_MESHES):
            mesh = random_shardings.random_mesh(rng)
            cases = [random_shardings.random_case(rng, mesh)
                     for _ in range(8)]
            with tempfile.TemporaryDirectory() as folder:
                plan = shardc_answers.plan(folder, mesh, cases)
                self.check_module(plan, folder)
                module = module_of(export(folder, "jax", plan))
            arrays = {f"w{i}": np.arange(math.prod(case["shape"]),
                                         dtype=np.int32).reshape(
                                             case["shape"])
                      for i, case in enumerate(cases)}
            placed = module.shard(arrays)
            for i, case in enumerate(cases):
                slices = device_lists.of_spec(mesh, case["shape"],
                                              case["spec"])
                for piece in placed[f"w{i}"].addressable_shards:
                    cut = tuple(slice(b, e)
                                for b, e in slices[piece.device.id])
                    np.testing.assert_array_equal(
                        np.asarray(piece.data), arrays[f"w{i}"][cut])
                compared += 1
        with self.assertRaises(KeyError):
            module.shard({"none": np.zeros(1)})
        print(f"{compared} arrays placed by `shard`: every piece is the "
              "plan's")

    def test_shardys_own_reader_takes_the_module(self):
        parsed = 0
        with tempfile.TemporaryDirectory() as folder:
            for name, mesh, plan in real_plans(folder):
                for flags in ((), ("--open",), ("--replicated",),
                              ("--priorities", "tp,fsdp"),
                              ("--open", "--replicated", "--priorities",
                               "fsdp")):
                    path = export(folder, "shardy", plan, *flags)
                    with open(path, encoding="utf-8") as file:
                        text = file.read()
                    with mlir.make_ir_context():
                        module = ir.Module.parse(text)
                        self.assertTrue(module.operation.verify(),
                                        (name, mesh, flags))
                        # What it prints again is the same.
                        again = str(module)
                    for line in text.splitlines()[4:5]:
                        sharding = line[line.index("#sdy.sharding"):
                                        line.rindex("}")]
                        self.assertIn(sharding, again)
                    parsed += 1
                if parsed > 100:
                    break
        print(f"{parsed} exported modules are read and verified by Shardy")

    def test_orbax_restores_by_the_exported_file(self):
        rng, compared = random.Random(41), 0
        for number in range(6):
            mesh = random_shardings.random_mesh(rng)
            cases = [random_shardings.random_case(rng, mesh)
                     for _ in range(6)]
            cases = [case for case in cases if case["shape"]]
            arrays = {f"w{i}": jax.numpy.arange(
                math.prod(case["shape"]), dtype=np.int32).reshape(
                    case["shape"]) for i, case in enumerate(cases)}
            if not arrays:
                continue
            with tempfile.TemporaryDirectory() as folder:
                saved = os.path.join(folder, "saved")
                with ocp.StandardCheckpointer() as checkpointer:
                    checkpointer.save(saved, arrays)
                plan = shardc_answers.plan(folder, mesh, cases)
                # It was saved from one device; the file has the plan's.
                target = os.path.join(saved, "_sharding")
                self.assertTrue(os.path.exists(target))
                os.replace(export(folder, "orbax", plan), target)
                count = math.prod(mesh.values())
                everything = jax.devices
                try:
                    jax.devices = lambda *args: everything(*args)[:count]
                    with ocp.StandardCheckpointer() as checkpointer:
                        restored = checkpointer.restore(saved)
                finally:
                    jax.devices = everything
            for i, case in enumerate(cases):
                array = restored[f"w{i}"]
                self.assertEqual(
                    [tuple(map(tuple, one)) for one in
                     held(array.sharding, case["shape"])],
                    [tuple(map(tuple, one)) for one in
                     device_lists.of_spec(mesh, case["shape"],
                                          case["spec"])], case)
                np.testing.assert_array_equal(np.asarray(array),
                                              np.asarray(arrays[f"w{i}"]))
                compared += 1
        self.assertGreater(compared, 20)
        print(f"{compared} arrays restored by the exported `_sharding` have "
              f"the plan's shardings; orbax {ocp.__version__}")


class Programs(unittest.TestCase):
    """XLA runs programs that gather an argument with an exported sharding, on its
    own device assignment: partition n on device n. Each device is given the plan's
    shard of its number, over meshes of slices too; the result must be the tensor."""

    MESHES = (((2, 4), (1, 2)), ((2, 4), (1, 1)), ((2, 2, 2), (1, 2, 1)),
              ((2, 2, 2), (1, 1, 2)), ((4, 2), (2, 2)), ((6, 2), (1, 2)),
              ((2, 3, 2), (1, 3, 2)), ((3, 2), (3, 1)))

    def gathered(self, texts, shardy, shape, blocks):
        """What each device returns."""
        mesh, sharding, whole = texts
        kind = "sdy.sharding" if shardy else "mhlo.sharding"
        tensor = "tensor<" + "x".join(map(str, [*shape, "i32"])) + ">"
        count = len(blocks)
        text = (f"module @m attributes {{mhlo.num_partitions = {count} : i32, "
                f"mhlo.num_replicas = 1 : i32}} {{\n{mesh}\n"
                f"func.func public @main(%x: {tensor} {{{kind} = {sharding}}})"
                f" -> ({tensor} {{{kind} = {whole}}}) {{\n"
                f"return %x : {tensor}\n}}\n}}")
        options = xla_client.CompileOptions()
        build = options.executable_build_options
        for one in (options, build):
            one.num_partitions, one.num_replicas = count, 1
            one.device_assignment = xla_client.DeviceAssignment.create(
                np.arange(count).reshape(1, count))
        build.use_spmd_partitioning = True
        build.use_shardy_partitioner = shardy
        devices = sorted(jax.devices(), key=lambda one: one.id)[:count]
        with mlir.make_ir_context():
            code = mlir.module_to_bytecode(ir.Module.parse(text))
        program = xla_bridge.get_backend().compile_and_load(
            code, xla_client.DeviceList(tuple(devices)), options)
        # The shards one after the other, which JAX does not look into.
        whole = (count * blocks[0].shape[0], *blocks[0].shape[1:])
        given = jax.make_array_from_single_device_arrays(
            whole, NamedSharding(jax.sharding.Mesh(np.array(devices), ("d",)),
                                 PartitionSpec("d")),
            [jax.device_put(block, device)
             for block, device in zip(blocks, devices)])
        out = program.execute_sharded([given])
        return [np.asarray(one) for one in
                out.disassemble_into_single_device_arrays()[0]]

    def test_programs_gather_the_plans_shards(self):
        rng, compared = random.Random(83), 0
        for sizes, slices in self.MESHES:
            mesh = {f"a{i}": size for i, size in enumerate(sizes)}
            cases = [case for case in (random_shardings.random_case(rng, mesh)
                                       for _ in range(8)) if case["shape"]]
            devices = device_lists.sliced_order(mesh, slices)
            with tempfile.TemporaryDirectory() as folder:
                plan = shardc_answers.plan(folder, mesh, cases, slices=slices)
                exported = {form: json.loads(shardc_answers.run(
                    "export", *form, "--plan", plan, "--format",
                    "json").stdout) for form in (
                        ("shardy",), ("hlo",), ("hlo", "--form", "list"))}
            for i, case in enumerate(cases):
                shape = case["shape"]
                full = np.arange(math.prod(shape), dtype=np.int32).reshape(
                    shape)
                blocks = [full[tuple(slice(*one) for one in block)]
                          for block in device_lists.by_device(
                              device_lists.of_spec(mesh, shape, case["spec"]),
                              devices)]
                for form, made in exported.items():
                    text = made["params"][f"w{i}"]
                    shardy = form == ("shardy",)
                    texts = (made["mesh"], text, "#sdy.sharding<@mesh, [" +
                             ", ".join(["{}"] * len(shape)) + "]>") \
                        if shardy else ("", f'"{text}"', '"{replicated}"')
                    for result in self.gathered(texts, shardy, shape, blocks):
                        np.testing.assert_array_equal(
                            result, full, str((form, mesh, slices, case)))
                    compared += 1
        self.assertGreater(compared, 100)
        print(f"{compared} programs gather the shards of devices by an "
              f"exported sharding; jax {jax.__version__}")


class TrainStates(unittest.TestCase):
    """orbax restores a train state without a target, onto the plan's devices."""

    PARAMS = {"embed": {"kernel": (48, 16)},
              "up": {"kernel": (16, 96), "bias": (96,)},
              "down": {"kernel": (96, 16)}, "scale": (1,)}
    RULES = """version: 1
separator: "/"
rules:
  - match: 'up/kernel$'
    spec: [null, [tp, fsdp]]
  - match: 'down/kernel$'
    spec: [[fsdp, tp], null]
  - match: 'up/bias$'
    spec: [tp]
  - match: 'embed/kernel$'
    spec: [[tp, fsdp]]
  - match: '.*'
    spec: []
"""
    # Axes, and the slices along each: 2 or 3 slices, and one of fewer devices
    # than there are.
    MESHES = (({"fsdp": 2, "tp": 4}, (1, 2)), ({"fsdp": 4, "tp": 2}, (2, 1)),
              ({"fsdp": 2, "rep": 1, "tp": 6}, (1, 1, 3)),
              ({"fsdp": 4, "tp": 4}, (2, 2)), ({"tp": 2, "fsdp": 3}, (1, 1)))

    def states(self):
        import optax
        params = jax.tree.map(
            lambda shape: jax.numpy.arange(
                math.prod(shape), dtype=np.float32).reshape(shape),
            self.PARAMS, is_leaf=lambda x: isinstance(x, tuple))
        for optimizer in (optax.adam(1e-3), optax.sgd(1e-3, momentum=0.9),
                          optax.adafactor(1e-3, min_dim_size_to_factor=8),
                          optax.chain(optax.clip(1.0), optax.lion(1e-3))):
            yield {"step": jax.numpy.int32(7), "params": params,
                   "opt_state": optimizer.init(params)}

    def planned(self, folder, axes, slices):
        file = {"axes": axes}
        if math.prod(slices) > 1:
            file |= {"slices": math.prod(slices),
                     "dcn": dict(zip(axes, slices))}
        shardc_answers.write(os.path.join(folder, "mesh.yaml"), file)
        flat, _ = jax.tree_util.tree_flatten_with_path(
            self.PARAMS, is_leaf=lambda x: isinstance(x, tuple))
        shardc_answers.write(os.path.join(folder, "m.json"), {
            "schema": "shardc.manifest/v1", "separator": "/", "params": {
                "/".join(key.key for key in path): {
                    "shape": list(shape), "dtype": "F32"}
                for path, shape in flat}})
        with open(os.path.join(folder, "r.yaml"), "w",
                  encoding="utf-8") as out:
            out.write(self.RULES)
        plan = os.path.join(folder, "plan.json")
        shardc_answers.run(
            "plan", "--no-project", "-q", "--mesh",
            os.path.join(folder, "mesh.yaml"), "--rules",
            os.path.join(folder, "r.yaml"), "--manifest",
            os.path.join(folder, "m.json"), "-o", plan)
        return plan

    def test_orbax_restores_every_leaf(self):
        compared = moments = 0
        for state in self.states():
            for axes, slices in self.MESHES:
                with tempfile.TemporaryDirectory() as folder:
                    one, two = self.check_state(folder, state, axes, slices)
                    compared, moments = compared + one, moments + two
        self.assertGreater(moments, 60)
        print(f"{compared} arrays of train states restored without a target "
              f"by an exported `_sharding`, {moments} of them sharded; orbax "
              f"{ocp.__version__}")

    def check_state(self, folder, state, axes, slices):
        plan = self.planned(folder, axes, slices)
        saved = os.path.join(folder, "saved")
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(saved, state)
        target = os.path.join(saved, "_sharding")
        text = shardc_answers.run("export", "orbax", "--plan", plan,
                                  "--state", saved).stdout
        with open(target, "w", encoding="utf-8") as file:
            file.write(text)
        with ocp.StandardCheckpointer() as checkpointer:
            restored = checkpointer.restore(saved)
        module = module_of(export(folder, "jax", plan))
        wanted = module.shard(state)
        # orbax restores tuples as lists or dicts: compared by their names.
        want = {name_of_path(path): leaf for path, leaf in
                jax.tree_util.tree_flatten_with_path(wanted)[0]}
        got = {name_of_path(path): leaf for path, leaf in
               jax.tree_util.tree_flatten_with_path(restored)[0]}
        self.assertEqual(sorted(want), sorted(got))
        specs, sharded = planned(plan)[1], 0
        for name, array in want.items():
            self.assertEqual(held(array.sharding, array.shape),
                             held(got[name].sharding, array.shape),
                             (name, axes, slices))
            if name.startswith("params/"):
                self.assertEqual(
                    held(array.sharding, array.shape),
                    device_lists.by_device(device_lists.of_spec(
                        axes, array.shape, specs[name[7:]]["spec"]),
                        device_lists.sliced_order(axes, slices)), name)
            np.testing.assert_array_equal(np.asarray(array),
                                          np.asarray(got[name]))
            sharded += not array.sharding.is_fully_replicated
        return len(want), sharded


def name_of_path(path):
    return "/".join(str(getattr(key, "key", getattr(
        key, "name", getattr(key, "idx", key)))) for key in path)


class Eformer(unittest.TestCase):
    def test_eformer_reads_the_exported_axes(self):
        from eformer.escale import PartitionAxis, PartitionManager
        compared = 0
        for axes in ({}, {"head": "x", "batch": ["dp", "fsdp"]},
                     {"sequence": None, "kv_head": [], "decode_head": "x"},
                     {"tensor_parallel": "x", "vocab": ["x", "dp"]}):
            with tempfile.TemporaryDirectory() as folder:
                rules = os.path.join(folder, "rules.yaml")
                shardc_answers.write(rules, {
                    "version": 1, "axes": axes, "separator": "/",
                    "rules": [{"match": "w", "spec": []}]})
                manifest = os.path.join(folder, "m.json")
                shardc_answers.write(manifest, {
                    "schema": "shardc.manifest/v1", "separator": "/",
                    "params": [{"name": "w", "shape": [8], "dtype": "F32"}]})
                text = shardc_answers.run(
                    "export", "eformer", "--no-project", "-q", "--mesh",
                    "dp:2,fsdp:2,x:2", "--rules", rules, "--manifest",
                    manifest).stdout
            fields = json.loads(text)["paxis"]
            paxis = PartitionAxis(**{
                name: tuple(value) if isinstance(value, list) else value
                for name, value in fields.items()})
            PartitionManager(paxis=paxis)
            for name, value in fields.items():
                wanted = tuple(value) if isinstance(value, list) else value
                self.assertEqual(getattr(paxis, name), wanted, (axes, name))
                compared += 1
        print(f"{compared} fields of exported axes are eformer's own")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
