"""GGUF: bytes of quantised tensors are exact, and their innermost dimension
is split between blocks only; sizes are ggml's, written apart from shardc."""

import json
import math
import os
import random
import struct
import subprocess
import tempfile
import unittest

from driver import Case, run

# ggml's number: name, elements of a block, bytes of a block.
TYPES = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18),
         3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24),
         8: ("Q8_0", 32, 34), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
         12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176),
         14: ("Q6_K", 256, 210), 16: ("IQ2_XXS", 256, 66),
         20: ("IQ4_NL", 32, 18), 23: ("IQ4_XS", 256, 136),
         30: ("BF16", 1, 2), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17)}


def size(shape, kind):
    _, elements, per_block = TYPES[kind]
    return math.prod(shape[:-1]) * -(-shape[-1] // elements) * per_block


def typed(of):
    """A value of the metadata with its type."""
    if isinstance(of, str):
        return struct.pack("<IQ", 8, len(of)) + of.encode()
    if isinstance(of, list):
        return struct.pack(f"<IIQ{len(of)}i", 9, 5, len(of), *of)
    return struct.pack("<II", 4, of)


def gguf(tensors, split=None, config=()):
    """A file of {name: (shape, type)}; `split`: its number, the count of files
    and of all tensors, as llama.cpp's gguf-split writes them; `config`: the
    keys of the model."""
    keys = {key: typed(of) for key, of in dict(config).items()}
    if split:
        keys |= {"split.no": struct.pack("<IH", 2, split[0]),
                "split.count": struct.pack("<IH", 2, split[1]),
                "split.tensors.count": struct.pack("<Ii", 5, split[2])}
    out, offset = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)), 0
    for key, value in keys.items():
        out += struct.pack("<Q", len(key)) + key.encode() + value
    for name, (shape, kind) in tensors.items():
        out += struct.pack("<Q", len(name)) + name.encode()
        out += struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
        out += struct.pack("<IQ", kind, offset)
        offset += -(-size(shape, kind) // 32) * 32
    return out + b"\0" * (-len(out) % 32 + offset)


class Gguf(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, content):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes)
                       else json.dumps(content).encode())
        return path

    def plan(self, tensors, spec, mesh, rc=0, illegal="error", again=False):
        model = self.write("m.gguf", gguf(tensors))
        if again:
            # The same through a manifest of our own.
            model = self.write("m.json", self.check(run(
                "show", "manifest", "--manifest", model, "--format", "json"),
                0).out.encode())
        rules = self.write("r.yaml", (json.dumps({
            "version": 1, "separator": ".",
            "rules": [{"match": ".*", "spec": spec, "illegal": illegal}]}) +
            "  # shardc: ignore[SHD207] axes of size 1\n").encode())
        return self.check(run("plan", "--no-project", "-q", "--mesh", mesh,
                              "--rules", rules, "--manifest", model), rc)

    def test_bytes_are_exact_and_cuts_are_between_blocks(self):
        rng, legal, illegal = random.Random(3), 0, 0
        for number in range(80):
            kind = rng.choice(list(TYPES))
            name, block, _ = TYPES[kind]
            parts = {"a": rng.choice([1, 2, 3, 4]),
                     "b": rng.choice([1, 2, 4, 6])}
            shape = [rng.choice([4, 8, 12]) for _ in range(rng.randint(0, 2))]
            shape.append(block * rng.choice([1, 2, 4, 6, 12]))
            spec = [None] * len(shape)
            spec[-1] = "b"
            if len(shape) > 1:
                spec[0] = "a"
            held = [n // parts[axis] if axis else n
                    for n, axis in zip(shape, spec)]
            fits = all(h * parts[axis] == n for h, n, axis
                       in zip(held, shape, spec) if axis) and (
                           held[-1] % block == 0 or parts["b"] == 1)
            mesh = f"a:{parts['a']},b:{parts['b']}"
            done = self.plan({"blk.0.w": (shape, kind)}, spec, mesh,
                             0 if fits else 1, again=number % 4 == 0)
            if fits:
                param = done.json()["params"]["blk.0.w"]
                self.assertEqual(param["dtype"], name)
                self.assertEqual(param["shard_shape"], held)
                self.assertEqual(param["bytes_per_device"], size(held, kind),
                                 (name, shape, spec, mesh))
                legal += 1
            else:
                self.assertIn("indivisible-dimension", done.err)
                self.assertEqual(done.out, "")
                illegal += 1
        self.assertGreater(legal, 20)
        self.assertGreater(illegal, 20)

    def test_a_split_block_is_reported_with_a_way_out(self):
        wide = {"blk.0.ffn_down.weight": ([64, 1280], 12)}
        told = self.plan(wide, [None, "tp"], "tp:4", 1).err
        self.assertIn("r.yaml:1:", told)
        self.assertIn("is 1280, which is 5 blocks of 256, axis `tp` has 4: "
                      "5 % 4 = 1", told)
        self.assertIn("illegal: shrink", told)
        for how, spec in (("drop", [None, None]), ("shrink", [None, "b"])):
            plan = self.plan(wide, [None, ["b", "a"]], "a:4,b:5",
                             illegal=how).json()
            param = plan["params"]["blk.0.ffn_down.weight"]
            self.assertEqual(param["spec"], spec)
            self.assertEqual(param["corrections"][0]["reason"], "indivisible")
        # Rows may be split anywhere.
        self.plan(wide, ["tp", None], "tp:64")

    def test_the_file_states_the_heads_of_each_layer(self):
        """llama.cpp writes an array where layers have different numbers of KV
        heads. No config.json is needed."""
        kv = [8, 8, 4, 2]
        config = {"general.architecture": "deci", "deci.block_count": 4,
                  "deci.embedding_length": 2048,
                  "deci.feed_forward_length": 256,
                  "deci.attention.head_count": [16] * 4,
                  "deci.attention.head_count_kv": kv,
                  "deci.attention.key_length": 128,
                  "deci.attention.value_length": 128}
        tensors = {"token_embd.weight": ([512, 2048], 30)}
        for layer, heads in enumerate(kv):
            tensors |= {f"blk.{layer}.{name}.weight": (shape, 30)
                        for name, shape in (
                            ("attn_q", [2048, 2048]),
                            ("attn_k", [heads * 128, 2048]),
                            ("attn_v", [heads * 128, 2048]),
                            ("attn_output", [2048, 2048]),
                            ("ffn_gate", [256, 2048]), ("ffn_up", [256, 2048]),
                            ("ffn_down", [2048, 256]))}
        rules = self.write("r.yaml", json.dumps({
            "version": 1, "separator": ".", "rules": [
                {"match": "attn_(q|k|v)|ffn_(gate|up)", "spec": ["tp", None]},
                {"match": "attn_output|ffn_down", "spec": [None, "tp"]},
                {"match": "token_embd", "spec": ["tp", None]}]}).encode())

        def given(keys, files=1):
            names, count = list(tensors), len(tensors)
            if files == 1:
                path = self.write("one.gguf", gguf(tensors, None, keys))
            for part in range(files if files > 1 else 0):
                path = self.write(
                    f"m-{part + 1:05}-of-{files:05}.gguf",
                    gguf({name: tensors[name] for name in names[part::files]},
                         (part, files, count), () if part else keys))
            return ["--no-project", "--rules", rules, "--manifest", path]

        def cache(keys):
            done = run("cost", *given(keys), "--mesh", "tp:1", "--mode",
                       "decode", "--batch", "1", "--kv-len", "10",
                       "--format", "json")
            return done.json()["memory"]["kv_cache"]

        for files in (1, 3):
            found = self.check(run("check", *given(config, files), "--mesh",
                                   "tp:8", "--format", "json"), 0).json()
            self.assertEqual(
                sorted((one["message"].split(" KV heads")[0][-1],
                        sorted(one["params"]))
                       for one in found if one["code"] == "SHD220"),
                [(str(kv[layer]), [f"blk.{layer}.attn_{name}.weight"
                                   for name in "kv"]) for layer in (3, 2)])
        self.assertEqual(cache(config), 10 * sum(kv) * 128 * 2 * 2)
        # The keys do not show which layers have a window, no heads or a state.
        for changed in ({"deci.attention.sliding_window": 4},
                        {"deci.attention.head_count_kv": [8, 8, 4, 0]},
                        {"deci.ssm.state_size": 16},
                        {"deci.attention.kv_lora_rank": 64},
                        {"deci.attention.head_count": "16"}):
            self.assertIsNone(cache(config | changed), changed)

    def test_models_have_sizes(self):
        model = self.write("m.gguf", gguf({
            "a": ([32, 512], 14), "b": ([256], 0), "c": ([3, 64], 8)}))
        shown = self.check(run("show", "manifest", "--manifest", model), 0).out
        self.assertIn("Q6_K", shown)
        total = sum(size(*t) for t in (([32, 512], 14), ([256], 0),
                                       ([3, 64], 8)))
        plan = self.plan({"a": ([32, 512], 14), "b": ([256], 0),
                          "c": ([3, 64], 8)}, [], "tp:2").json()
        self.assertEqual(plan["summary"]["bytes"], total)

    def test_what_blocks_are_not_for(self):
        manifest = self.write("m.json", {
            "schema": "shardc.manifest/v1", "separator": ".", "params": [
                {"name": "w", "shape": [4, 100], "dtype": "Q4_K"}]})
        result = self.check(run("show", "manifest", "--manifest", manifest), 2)
        self.assertIn("not a multiple of the 256 elements of a block of Q4_K",
                      result.err)
        plan = self.write("plan.json", self.plan(
            {"w": ([4, 256], 12)}, ["tp"], "tp:2").out.encode())
        result = self.check(run("export", "shardy", "--plan", plan), 2)
        self.assertEqual(result.out, "")
        self.assertIn("stored in blocks", result.err)
        # Placements need no type.
        self.check(run("export", "hlo", "--plan", plan), 0)
        # A checkpoint of tensors has no such type.
        self.assertIn("Q4_K", self.check(run(
            "show", "manifest", "--manifest", self.write(
                "m.safetensors", self.safetensors("Q4_K"))), 2).err)

    @staticmethod
    def safetensors(dtype):
        header = json.dumps({"w": {"dtype": dtype, "shape": [256],
                                   "data_offsets": [0, 144]}}).encode()
        return struct.pack("<Q", len(header)) + header + b"\0" * 144

    def manifest(self, name, rc, words=""):
        run_ = run("show", "manifest", "--manifest", os.path.join(
            self.folder.name, name), "--format", "json")
        out = self.check(run_, rc)
        self.assertIn(words, out.err)
        return rc or [param["name"] for param in json.loads(out.out)["params"]]

    def test_a_model_in_several_files_is_read_from_any_of_them(self):
        names = ["m-%05d-of-00003.gguf" % i for i in (1, 2, 3)]
        # The first file may hold metadata only.
        parts = [{}, {"a": ((4, 32), 2), "b": ((8,), 0)}, {"c": ((4,), 0)}]
        for number, (name, part) in enumerate(zip(names, parts)):
            self.write(name, gguf(part, (number, 3, 3)))
        for name in names:
            self.assertEqual(self.manifest(name, 0), ["a", "b", "c"])
        # Files that another program divided state nothing but their names.
        for name, part in zip(names, parts):
            self.write(name, gguf(part))
        self.assertEqual(self.manifest(names[0], 0), ["a", "b", "c"])

    def test_a_model_with_a_missing_or_foreign_file_is_refused(self):
        names = ["m-%05d-of-00003.gguf" % i for i in (1, 2, 3)]
        parts = [{"a": ((4, 32), 2)}, {"b": ((8,), 0)}, {"c": ((4,), 0)}]

        def write(number, split, part=None):
            self.write(names[number], gguf(part or parts[number], split))

        for number in range(3):
            write(number, (number, 3, 3))
        for number in range(3):
            os.unlink(os.path.join(self.folder.name, names[number]))
            self.manifest(names[(number + 1) % 3], 2, names[number])
            write(number, (number, 3, 3))
        for split, words in (((2, 3, 3), "has the number 3 of 3"),
                             ((1, 4, 3), "has the number 2 of 4"),
                             ((1, 3, 4), "another number of tensors")):
            write(1, split)
            self.manifest(names[0], 2, words)
        write(1, (1, 3, 3), {"a": ((8,), 0)})
        self.manifest(names[0], 2, "an earlier file holds")
        for number in range(3):
            write(number, (number, 3, 4))
        self.manifest(names[0], 2, "hold 3 tensors of 4")
        # One file by another name, and by standard input.
        self.write("alone.gguf", gguf(parts[0], (0, 3, 3)))
        self.manifest("alone.gguf", 2, "one of the 3 files")
        with open(os.path.join(self.folder.name, "alone.gguf"), "rb") as file:
            done = subprocess.run(
                [os.environ["SHARDC_BIN"], "show", "manifest", "--manifest", "-"],
                stdin=file, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("one of the 3 files", done.stderr)


if __name__ == "__main__":
    unittest.main()
