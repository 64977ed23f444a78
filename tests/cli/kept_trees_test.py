"""The tree of a checkpoint is kept through other formats: lists, empty nodes,
strings, numbers, random keys and keys that contain `/`; and the folders that
orbax writes around a tree."""

import json
import os
import shutil
import struct
import unittest

from checkpoint_case import Base, read_safetensors, write_safetensors
from stored_samples import SAMPLES, write_zarr

RECORD = "shardc.tree"


def read_json(*names):
    with open(os.path.join(*names), encoding="utf-8") as file:
        return json.load(file)


def leaves_of(folder):
    """{path: (whether each key is of a list, type of the value)}"""
    out = {}
    for leaf in read_json(folder, "_METADATA")["tree_metadata"].values():
        keys = leaf["key_metadata"]
        out[tuple(key["key"] for key in keys)] = (
            [key["key_type"] for key in keys],
            leaf["value_metadata"]["value_type"],
            leaf["value_metadata"]["skip_deserialize"])
    return out


class Trees(Base):
    def orbax(self, source, name, *args):
        out = self.path(name)
        self.shardc("checkpoint", "merge", source, "--as", "orbax", "--output", out, *args)
        return out

    def sample(self, name):
        """A copy of a sample without int4, which only orbax has."""
        out = self.path("copy-" + name)
        shutil.copytree(os.path.join(SAMPLES, name), out)
        metadata = read_json(out, "_METADATA")
        metadata["tree_metadata"] = {
            key: leaf for key, leaf in metadata["tree_metadata"].items()
            if "i4" not in key and "int4" not in key}
        with open(os.path.join(out, "_METADATA"), "w") as file:
            json.dump(metadata, file)
        return out

    def test_a_tree_is_the_same_through_other_formats(self):
        for name in ("orbax_trainstate", "orbax_ocdbt"):
            source = self.sample(name)
            want = leaves_of(self.orbax(source, name + "-direct"))
            self.assertTrue(any(1 in types for types, _, _ in want.values()))
            self.assertTrue(any(empty for _, _, empty in want.values()))
            params = json.loads(self.shardc(
                "show", "manifest", "--manifest", source, "--format",
                "json").stdout)["params"]
            plan = self.write_plan(name + ".plan.json", [("x", 2)], {
                one["name"]: (one["shape"], [None] * len(one["shape"]))
                for one in params})
            file = self.path(name + ".safetensors")
            self.shardc("checkpoint", "merge", source, "--output", file)
            parts = self.path(name + "-parts")
            self.shardc("checkpoint", "merge", file, "--output", parts, "--max-shard-size",
                        "100B")
            pieces = self.path(name + "-pieces")
            self.shardc("checkpoint", "reshard", parts, "--plan", plan, "--output", pieces)
            dcp = self.path(name + "-dcp")
            self.shardc("checkpoint", "merge", pieces, "--as", "dcp", "--output", dcp)
            for step in (file, parts, pieces, dcp):
                with self.subTest(step=os.path.basename(step)):
                    back = self.orbax(step, os.path.basename(step) + "-back")
                    self.assertEqual(leaves_of(back), want)
                    if os.path.exists(os.path.join(source, "_strings.json")):
                        self.assertEqual(
                            read_json(back, "_strings.json"),
                            read_json(source, "_strings.json"))
            again = self.path(name + "-again.safetensors")
            self.shardc("checkpoint", "merge", dcp, "--output", again)
            held = {name.replace("/", "."): value for name, value
                    in read_safetensors(file)[0].items()}
            self.same({name.replace("/", "."): value for name, value
                       in read_safetensors(again)[0].items()}, held)

    def test_lists_are_in_order_and_have_no_gaps(self):
        """orbax appends the elements as it meets them."""
        file = self.path("m.safetensors")
        numbers = list(range(12))
        write_safetensors(
            file, {"l/%d/w" % number: ("F32", [1], struct.pack("<f", number))
                   for number in sorted(numbers, key=str) if number != 2},
            {RECORD: '{"version": 1, "lists": [["l"]], "empty": [{"path": '
                     '["l", "2"], "type": "None"}]}'})
        listed = list(leaves_of(self.orbax(file, "all")).items())
        self.assertEqual([path[1] for path, _ in listed],
                         [str(number) for number in numbers])
        self.assertEqual({tuple(types[:2]) for _, (types, _, _) in listed},
                         {(2, 1)})
        some = leaves_of(self.orbax(file, "some", "--params", "l/[13]/w"))
        self.assertEqual({path: types for path, (types, _, _) in some.items()},
                         {("l", "1", "w"): [2, 2, 2],
                          ("l", "3", "w"): [2, 2, 2]})

    def test_the_separator_is_that_of_the_format(self):
        """Keys may contain the separator of another format."""
        for form, separator, other in (("dcp", ".", "/"), ("orbax", "/", ".")):
            names = {separator.join(("m", other.join(key))): ["m", other.join(
                key)] for key in ("ab", "cd")}
            file = self.path(form + ".safetensors")
            write_safetensors(
                file, {name: ("F32", [1], bytes(4)) for name in names},
                {RECORD: json.dumps({"version": 1, "paths": [
                    {"name": name, "path": path}
                    for name, path in names.items()]})})
            out = self.path(form)
            self.shardc("checkpoint", "merge", file, "--as", form, "--output", out)
            listed = json.loads(self.shardc(
                "show", "manifest", "--manifest", out, "--format", "json").stdout)
            self.assertEqual([one["name"] for one in listed["params"]],
                             list(names))
            self.assertEqual(listed["separator"], separator)

    def test_a_plan_finds_its_tensors_under_the_names_of_another_format(self):
        """DCP joins keys by dots, orbax by `/`; a plan may have either."""
        slashes = {f"m/{i}/w": ("F32", [4, 2], struct.pack("<8f", *range(
            8 * i, 8 * i + 8))) for i in range(2)}
        dots = {name.replace("/", "."): one for name, one in slashes.items()}
        file = self.path("file.safetensors")
        write_safetensors(file, slashes)
        plans = [self.write_plan(f"{i}.plan.json", [("tp", 2)], {
            name: ([4, 2], ["tp"]) for name in names})
                 for i, names in enumerate((slashes, dots))]
        for form in ("dcp", "orbax"):
            tree = self.path(form)
            self.shardc("checkpoint", "reshard", file, "--plan", plans[0], "--as", form,
                        "--output", tree)
            for i, want in enumerate((slashes, dots)):
                pieces, again = (self.path(f"{form}-{i}-{what}") for what in (
                    "pieces", "again.safetensors"))
                self.shardc("checkpoint", "reshard", tree, "--plan", plans[i], "--output",
                            pieces)
                self.shardc("checkpoint", "merge", pieces, "--output", again)
                self.assertEqual(read_safetensors(again)[0], want)

    def test_pieces_with_the_names_of_a_plan_keep_the_tree(self):
        """Lists, empty nodes and random keys of names joined by dots."""
        source = self.sample("orbax_trainstate")
        want = leaves_of(self.orbax(source, "direct"))
        self.assertTrue(any(1 in types for types, _, _ in want.values()))
        params = json.loads(self.shardc(
            "show", "manifest", "--manifest", source, "--format",
            "json").stdout)["params"]
        plan = self.write_plan("dots.plan.json", [("x", 2)], {
            one["name"].replace("/", "."):
                (one["shape"], [None] * len(one["shape"])) for one in params})
        pieces = self.path("pieces")
        self.shardc("checkpoint", "reshard", source, "--plan", plan, "--output", pieces)
        self.assertNotIn("/", " ".join(
            read_json(pieces, "shards.json")["params"]))
        self.assertEqual(leaves_of(self.orbax(pieces, "back")), want)

    def test_only_one_file_and_the_index_have_the_record(self):
        source = os.path.join(SAMPLES, "orbax_trainstate")
        out = self.path("parts")
        self.shardc("checkpoint", "merge", source, "--output", out, "--max-shard-size", "100B")
        files = sorted(name for name in os.listdir(out)
                       if name.endswith(".safetensors"))
        self.assertGreater(len(files), 3)
        self.assertEqual([RECORD in read_safetensors(os.path.join(out, name))[1]
                          for name in files], [True] + [False] * (len(files)
                                                                  - 1))

    def test_numbers_of_dcp_are_scalars_of_orbax(self):
        source = os.path.join(SAMPLES, "dcp_4ranks")
        run = self.shardc("checkpoint", "merge", source, "--as", "orbax", "--output",
                          self.path("refused"), status=2)
        self.assertNotIn("`step`", run.stderr)
        out = self.path("out")
        self.shardc("checkpoint", "merge", source, "--as", "orbax", "--output", out,
                    "--params", "^(step|none|model.i8)$")
        self.assertEqual(leaves_of(out), {
            ("model", "i8"): ([2, 2], "np.ndarray", False),
            ("none",): ([2], "None", True), ("step",): ([2], "scalar", False)})
        file = self.path("step.safetensors")
        self.shardc("checkpoint", "merge", out, "--output", file)
        dtype, shape, data = read_safetensors(file)[0]["step"]
        self.assertEqual((dtype, shape, struct.unpack("<q", data)),
                         ("I64", [], (3,)))

    def keys(self, impl="rbg"):
        """A tree with random keys named `rng`."""
        source = self.path("keys")
        arrays = self.path("arrays.safetensors")
        write_safetensors(arrays, {"rng": ("U32", [4], bytes(range(16))),
                                   "w": ("F32", [2], bytes(8))})
        self.orbax(arrays, "keys")
        os.makedirs(os.path.join(source, "array_metadatas"))
        with open(os.path.join(source, "array_metadatas", "process_0"),
                  "w") as file:
            json.dump({"array_metadatas": [{"array_metadata": {
                "param_name": name, "write_shape": [4], "chunk_shape": [4],
                "ext_metadata": more}} for name, more in (
                    ("w", None), ("rng", {"random_key_impl": impl}))]}, file)
        return source

    def test_random_keys_stay_random_keys(self):
        source = self.keys()
        file = self.path("keys.safetensors")
        self.shardc("checkpoint", "merge", source, "--output", file)
        plan = self.write_plan("plan.json", [("x", 2)], {
            "rng": ([4], [None]), "w": ([2], ["x"])})
        resharded = self.path("resharded")
        self.shardc("checkpoint", "split", "--checkpoint", file, "--plan", plan, "--as", "orbax",
                    "--output", resharded)
        for out in (self.orbax(source, "direct"), self.orbax(file, "file"),
                    resharded):
            listed = read_json(out, "array_metadatas", "process_0")
            self.assertEqual(
                [(one["array_metadata"]["param_name"],
                  one["array_metadata"]["ext_metadata"])
                 for one in listed["array_metadatas"]],
                [("rng", {"random_key_impl": "rbg"})])
            self.assertEqual(leaves_of(out)[("rng",)][1], "jax.Array")
            shardings = read_json(out, "_sharding")
            self.assertIn("cm5n", shardings)  # `rng`
        # Only orbax without the list restores them as their words.
        with open(os.path.join(source, "array_metadatas", "process_0"),
                  "w") as broken:
            broken.write("{")
        run = self.shardc("checkpoint", "merge", source, "--as", "orbax", "--output",
                          self.path("plain"))
        self.assertIn("random keys are arrays of their words", run.stderr)

    def test_a_malformed_record_leaves_nothing(self):
        for record, message in (
                ("{", "json"), ("[]", "states no version 1"),
                ('{"version": 2}', "states no version 1"),
                ('{"version": 1, "lists": {}}', "is no list"),
                ('{"version": 1, "lists": [3]}', "no list of texts"),
                ('{"version": 1, "lists": [[3]]}', "no list of texts"),
                ('{"version": 1, "paths": [{"path": ["a"]}]}', "text `name`"),
                ('{"version": 1, "paths": [{"name": "w", "path": []}]}',
                 "an empty path"),
                ('{"version": 1, "empty": [{"type": "None"}]}', "`path`"),
                ('{"version": 1, "empty": [{"path": ["a"]}]}', "text `type`"),
                ('{"version": 1, "strings": [{"path": [], "text": ""}]}',
                 "an empty path"),
                ('{"version": 1, "random_keys": [{"name": "w"}]}',
                 "text `type`")):
            with self.subTest(record):
                file = self.path("m.safetensors")
                write_safetensors(file, {"w": ("F32", [1], bytes(4))},
                                  {RECORD: record})
                run = self.shardc("checkpoint", "merge", file, "--as", "orbax", "--output",
                                  self.path("out"), status=2)
                self.assertIn(message, run.stderr)
                self.assertFalse(os.path.exists(self.path("out")))
                # Where no tree is written, metadata is only copied.
                self.shardc("checkpoint", "merge", file, "--output",
                            self.path("copy.safetensors"))

    def test_a_record_that_disagrees_with_the_tensors_is_refused(self):
        file = self.path("m.safetensors")
        write_safetensors(
            file, {"a/b": ("F32", [1], bytes(4)), "c": ("F32", [1], bytes(4))},
            {RECORD: '{"version": 1, "empty": [{"path": ["a"], "type": '
                     '"None"}], "paths": [{"name": "c", "path": ["a", "b"]}]}'})
        run = self.shardc("checkpoint", "merge", file, "--as", "orbax", "--output",
                          self.path("out"), status=2)
        self.assertIn("duplicate-key", run.stderr)
        self.assertFalse(os.path.exists(self.path("out")))


class Folders(Base):
    def names(self, folder):
        run = self.shardc("show", "manifest", "--manifest", folder, "--format", "json")
        return [one["name"] for one in json.loads(run.stdout)["params"]]

    def merge(self, folder):
        return self.shardc("checkpoint", "merge", folder, "--output", self.path("m.safetensors"))

    def put(self, *names):
        shutil.copytree(os.path.join(SAMPLES, "orbax_trainstate"),
                        self.path(*names))

    def test_steps_with_a_prefix(self):
        for step in ("ckpt_9", "ckpt_20", "ckpt_3"):
            self.put("run", step)
        names = self.names(self.path("run"))
        self.assertIn("step", names)
        run = self.merge(self.path("run"))
        self.assertIn("step 20, the latest of 3 steps", run.stderr)
        # A folder that is no step next to steps without a prefix.
        self.put("plain", "100")
        os.makedirs(self.path("plain", "eval_3"))
        self.assertIn("step 100", self.merge(self.path("plain")).stderr)
        self.put("two", "a_1")
        self.put("two", "b_2")
        self.shardc("show", "manifest", "--manifest", self.path("two"), status=2)

    def test_items_of_the_v1_api(self):
        for item in ("params", "opt"):
            self.put("v1", item)
        with open(self.path("v1", "orbax.checkpoint"), "w") as file:
            file.write("{}")
        names = self.names(self.path("v1"))
        self.assertIn("params/step", names)
        self.assertIn("opt/step", names)

    def test_an_item_without_its_paths_is_refused(self):
        for item in ("params", "opt"):
            self.put("v1", item)
        os.makedirs(self.path("v1", "json"))
        with open(self.path("v1", "orbax.checkpoint"), "w") as file:
            file.write("{}")
        os.remove(self.path("v1", "params", "_METADATA"))
        run = self.shardc("show", "manifest", "--manifest", self.path("v1"), status=2)
        self.assertIn("the item `params` of the checkpoint holds arrays and no "
                      "`_METADATA`", run.stderr)
        # By itself it is a database, whose keys are names.
        self.assertIn("opt_state.0.mu.k", self.names(self.path("v1",
                                                               "params")))

    def test_groups_of_zarr(self):
        """Groups have a `zarr.json` too, or no file at all."""
        data = write_zarr(self.path("two", "a", "b"), {"w": ((3, 2), (2, 2))})
        out = self.path("m.safetensors")
        self.shardc("checkpoint", "merge", self.path("two"), "--output", out)
        self.same(read_safetensors(out)[0],
                  {"a/b/w": ("F32", [3, 2], data["w"])})
        os.makedirs(self.path("three", "a", "w", "c"))
        for where in ((), ("a",)):
            with open(self.path("three", *where, "zarr.json"), "w") as file:
                json.dump({"zarr_format": 3, "node_type": "group"}, file)
        with open(self.path("three", "a", "w", "zarr.json"), "w") as file:
            json.dump({"zarr_format": 3, "node_type": "array", "shape": [2],
                       "data_type": "int8", "chunk_grid": {
                           "name": "regular",
                           "configuration": {"chunk_shape": [2]}},
                       "codecs": [{"name": "bytes"}], "fill_value": 0}, file)
        with open(self.path("three", "a", "w", "c", "0"), "wb") as file:
            file.write(b"\1\2")
        os.remove(out)
        self.shardc("checkpoint", "merge", self.path("three"), "--output", out)
        self.same(read_safetensors(out)[0], {"a/w": ("I8", [2], b"\1\2")})

    def test_shards_of_dcp_with_more_bytes_than_tensors_are_refused(self):
        shutil.copytree(os.path.join(SAMPLES, "dcp_hf_4ranks"),
                        self.path("hf"))
        name = sorted(os.listdir(self.path("hf")))[0]
        with open(self.path("hf", name), "ab") as file:
            file.write(b"\0")
        run = self.shardc("show", "manifest", "--manifest", self.path("hf"), status=2)
        self.assertIn(" bytes of data, and its tensors end at byte ",
                      run.stderr)

    def test_folders_that_hold_no_checkpoint_are_named(self):
        os.makedirs(self.path("empty"))
        for command in (["checkpoint", "merge", self.path("empty"), "--output",
                         self.path("m.safetensors")],
                        ["checkpoint", "merge", self.path("empty"), "--as", "orbax", "--output",
                         self.path("m")]):
            run = self.shardc(*command, status=2)
            self.assertIn("no checkpoint of orbax, zarr or PyTorch DCP",
                          run.stderr)

    def orbax_zarr(self, name, about, stores):
        """A folder of orbax with an array of zarr that lacks a chunk."""
        folder = self.path(name)
        shutil.rmtree(folder, True)
        data = write_zarr(folder, {"w": ((4, 2), (2, 2))})["w"]
        os.remove(os.path.join(folder, "w", "1.0"))
        about = {**read_json(folder, "w", ".zarray"), **about}
        with open(os.path.join(folder, "w", ".zarray"), "w") as file:
            json.dump(about, file)
        metadata = {"tree_metadata": {"('w',)": {
            "key_metadata": [{"key": "w", "key_type": 2}],
            "value_metadata": {"value_type": "np.ndarray",
                               "skip_deserialize": False}}}}
        if stores is not None:
            metadata["store_array_data_equal_to_fill_value"] = stores
        with open(os.path.join(folder, "_METADATA"), "w") as file:
            json.dump(metadata, file)
        return folder, data

    def test_absent_chunks_hold_the_fill_value(self):
        out = self.path("z.safetensors")
        for fill, dtype, name, want in (
                (None, "<f4", "F32", bytes(4)),
                (0, "<f4", "F32", bytes(4)),
                (1.5, "<f4", "F32", struct.pack("<f", 1.5)),
                (-1, "<i2", "I16", struct.pack("<h", -1)),
                (255, "|u1", "U8", b"\xff"),
                (True, "|b1", "BOOL", b"\x01"),
                (False, "|b1", "BOOL", b"\x00"),
                ("-Infinity", "<f8", "F64", struct.pack("<d", -float("inf"))),
                (1, "<f2", "F16", b"\x00\x3c"),
                (3, "bfloat16", "BF16", b"\x40\x40")):
            with self.subTest(fill=fill, dtype=dtype):
                folder, _ = self.orbax_zarr(
                    "z", {"fill_value": fill, "dtype": dtype}, False)
                first = bytes(range(4 * len(want)))
                with open(os.path.join(folder, "w", "0.0"), "wb") as file:
                    file.write(first)
                run = self.shardc("checkpoint", "merge", folder, "--output", out)
                self.assertIn("1 chunk is absent", run.stderr)
                self.assertEqual(read_safetensors(out)[0],
                                 {"w": (name, [4, 2], first + 4 * want)})
                os.remove(out)
        for fill, dtype in ((300, "|u1"), (-1, "<u2"), (-1, "<u8"),
                            ("x", "<f4"), (True, "<f4"), (1, "<c8")):
            with self.subTest(fill=fill, dtype=dtype):
                folder, _ = self.orbax_zarr(
                    "z", {"fill_value": fill, "dtype": dtype}, False)
                size = 4 * {"1": 1, "2": 2, "4": 4, "8": 8}[dtype[2]]
                with open(os.path.join(folder, "w", "0.0"), "wb") as file:
                    file.write(bytes(size))
                run = self.shardc("checkpoint", "merge", folder, "--output", out, status=2)
                self.assertIn("cannot write the array's fill value",
                              run.stderr)
                self.assertFalse(os.path.exists(out))

    def test_absent_chunks_are_lost_if_orbax_has_stored_all(self):
        out = self.path("z.safetensors")
        for stores in (True, False, None):
            with self.subTest(stores=stores):
                folder, data = self.orbax_zarr("z", {}, stores)
                run = self.shardc("checkpoint", "merge", folder, "--output", out,
                                  status=2 if stores else 0)
                if stores:
                    self.assertIn("is missing", run.stderr)
                    continue
                self.assertEqual(read_safetensors(out)[0]["w"],
                                 ("F32", [4, 2], data[:16] + bytes(16)))


if __name__ == "__main__":
    unittest.main()
