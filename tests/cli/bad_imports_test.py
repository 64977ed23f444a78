"""Broken, truncated, hostile and wrong-version files of every format that
`import` reads: a located error and exit 2, and nothing is written."""

import json
import os
import random
import re
import tempfile
import time
import unittest

from driver import ROOT, Case, run

NAMES = {"m/up": ["embed", "mlp"], "m/norm": ["norm"]}
MESH = ["--mesh", "data:2,model:2"]
NAMED = ["--names", "NAMES", *MESH]
DUMP = {"mesh": {"axis_names": ["data", "model"],
                 "shape": {"data": 2, "model": 2}},
        "partition_spec": ["data", None, "model"], "shape": [4, 4, 4]}
# Of every format a good file, its flags, and files that other versions or
# other programs write, which are not to be read as something else.
FORMATS = {
    "maxtext": ("mesh_axes: [data, model]\nlogical_axis_rules: [\n"
                "  ['mlp', ['model']], ['embed', 'data']]\n", NAMED,
                ["logical_axis_rules: {mlp: model}\n",
                 "logical_axis_rules: [['mlp', {axes: model}]]\n",
                 "base_config: base.yml\n"]),
    "maxtext-dump": (json.dumps({".params/['params']/['up']": DUMP}), [],
                     ['{"w": {"mesh": "data=2", "partition_spec": []}}',
                      '{"w": ["data"]}', "{}",
                      json.dumps({"w": {**DUMP, "partition_spec": "P()"}})]),
    "levanter": ("trainer:\n  tensor_parallel_axes: [mlp]\n"
                 "  fsdp_axis: embed\n", NAMED,
                 ["trainer: {mesh: {}, fsdp_axis: embed}\n",
                  "trainer: {}\n", "mesh: {}\n",
                  "trainer: {mesh: {param_mapping: [embed]}}\n"]),
    "hlo": ('ENTRY %main (p: f32[2,4]) -> f32[] {\n  %p = f32[4,2]{1,0} '
            'parameter(0), sharding={devices=[2,1,2]<=[4] '
            'last_tile_dim_replicate}, metadata={op_name="up"}\n}\n', MESH,
            ['"w": {devices=[2,2]<=[4] last_tile_dims={reduced}}',
             '"w": {v4 mesh[data=2], [{data}]}',
             "module { sdy.mesh @m = <[]> }"]),
    "shardy": ('sdy.mesh @mesh = <["data"=2, "model"=2]>\nfunc.func @main('
               '%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, '
               '[{"data"}, {"model"}]>}) {\n', [],
               ['mhlo.sharding = "{devices=[2,1]<=[2]}"',
                'sdy.mesh @mesh = {"data"=2}',
                "HloModule jit_f\nENTRY %main (p: f32[2]) -> f32[] {}\n"]),
    "dtensor": (json.dumps({"mesh": {"mesh_dim_names": ["data", "model"],
                                     "shape": [2, 2]},
                            "params": {"up": ["S(0)", "R"]}}), [],
                ['{"mesh": [2, 2], "params": {}}',
                 '{"device_mesh": {}, "placements": {}}',
                 json.dumps({"mesh": {"mesh_dim_names": ["a"], "shape": [2]},
                             "params": {"up": ["MaskPartial()"]}})]),
    "hf-tp-plan": (json.dumps({"layers.*.up": "colwise",
                               "layers.*.down": "rowwise"}), [],
                   ['{"layers.*.up": "colwise_v9"}', '["colwise"]',
                    '{"layers.*.up": {"style": "colwise"}}']),
    "eformer": (json.dumps({"paxis": {"head_axis": "model",
                                      "batch_axis": ["data", "model"]}}), [],
                ['{"paxis": {"head_axis": 3}}', '{"paxis": []}',
                 '{"paxis": {"no_such_axis": "model"}}']),
}
HOSTILE = [
    b"", b"\0", b"\xff\xfe{\0}\0", b"\xed\xa0\x80", b"{" * 100_000,
    b"[" * 100_000, b"(" * 100_000, b'{"a": ' * 20_000, b"- " * 50_000,
    b"a: &a [*a]\n", b"a: &a [1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\n" * 2,
    b'{"a": 1, "a": 2}', b"1e999999999", b'{"w": ' + b"9" * 10_000 + b"}",
    b"\x1f\x8b\x08\0\0\0\0\0", b"GGUF\3\0\0\0", b"\x80\x04\x95.",
    b"x = " + b"1 + " * 30_000 + b"1\n", b"\n" * 100_000 + b"}",
    b"version: 1\nrules: []\n", b'{"schema": "shardc.plan/v1"}',
]


class BadImports(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.names = self.path("names.json")
        with open(self.names, "w", encoding="utf-8") as file:
            json.dump(NAMES, file)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def read(self, form, content):
        """The run, and whether anything was written."""
        source, out, mesh = (self.path(n) for n in ("in", "out", "mesh.out"))
        with open(source, "wb") as file:
            file.write(content)
        flags = [self.names if flag == "NAMES" else flag
                 for flag in FORMATS[form][1]]
        begin = time.monotonic()
        result = run("import", form, source, "-o", out, *flags, timeout=60)
        self.assertLess(time.monotonic() - begin, 30, (form, content[:80]))
        written = os.path.exists(out) or os.path.exists(mesh)
        if os.path.exists(out):
            os.remove(out)
        self.assertIn(result.rc, (0, 2), (form, content[:200], result))
        self.assertEqual(written, result.rc == 0, (form, content[:200]))
        self.assertEqual(result.out, "")
        return result, source

    def refused(self, form, content):
        result, source = self.read(form, content)
        self.assertEqual(result.rc, 2, (form, content[:200], result))
        self.assertRegex(result.err, r"error\[SHD\d{3} ", (form, content))
        # The file at least, and the place where the file has one.
        self.assertRegex(result.err, "--> " + re.escape(source)
                         + r"(:\d+:\d+)?\n", (form, content[:200]))
        self.assertLess(len(result.err), 20_000)

    def test_every_format_is_here(self):
        known = run("import", "none", "-").err
        # Configurations of systems are judged by systems_test.py.
        systems = {name.removesuffix(".yaml")
                   for name in os.listdir(os.path.join(ROOT, "systems"))}
        self.assertEqual(
            sorted(set(re.findall(r"`([\w-]+)`", known.split("are ")[1])) - systems),
            sorted(FORMATS))

    def test_the_good_ones_are_read(self):
        for form, (text, *_) in FORMATS.items():
            result, _ = self.read(form, text.encode())
            self.assertEqual(result.rc, 0, (form, result))

    def test_other_versions_are_refused(self):
        for form, (*_, others) in FORMATS.items():
            for text in others:
                self.refused(form, text.encode())

    def test_hostile_files_are_refused(self):
        for form in FORMATS:
            for content in HOSTILE:
                self.refused(form, content)

    def test_truncated_files_are_refused_or_shorter(self):
        """What is cut off is an error wherever the rest is no file."""
        rng, refused = random.Random(8), dict.fromkeys(FORMATS, 0)
        for form, (text, *_) in FORMATS.items():
            whole = text.rstrip().encode()
            ends = rng.sample(range(1, len(whole)), min(25, len(whole) - 1))
            for end in ends:
                result, source = self.read(form, whole[:end])
                if result.rc == 2:
                    self.assertIn("--> " + source, result.err)
                    refused[form] += 1
                elif json_like(whole):
                    self.fail((form, whole[:end]))
        self.assertGreater(min(refused.values()), 10, refused)

    def test_changed_bytes_never_break_anything(self):
        rng, refused = random.Random(9), 0
        for form, (text, *_) in FORMATS.items():
            for _ in range(30):
                content = bytearray(text.encode())
                for _ in range(rng.randint(1, 4)):
                    at = rng.randrange(len(content))
                    content[at:at + rng.randint(0, 2)] = rng.choice(
                        [b"", b"\0", b"\xff", b"{", b"]", b"'", b'"', b"-1",
                         b"99999999999999999999", b"\\", b":", b",,"])
                result, source = self.read(form, bytes(content))
                if result.rc == 2:
                    self.assertIn("-->", result.err, (form, content))
                    refused += 1
        self.assertGreater(refused, 150)

    def test_files_that_are_none(self):
        for form in FORMATS:
            flags = [self.names if flag == "NAMES" else flag
                     for flag in FORMATS[form][1]]
            for source in (self.folder.name, self.path("absent")):
                result = run("import", form, source, "-o", self.path("out"),
                             *flags)
                self.check(result, 2)
                self.assertIn(source, result.err)
                self.assertFalse(os.path.exists(self.path("out")))


def json_like(text):
    return text.startswith(b"{") and text.endswith(b"}")


if __name__ == "__main__":
    unittest.main()
