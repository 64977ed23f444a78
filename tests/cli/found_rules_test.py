"""`shardc check` in a folder without a project checks rules of other systems:
MaxText's YAML with the files that it names, and lists of patterns and specs in
Python."""

import os
import tempfile
import unittest

from driver import Case, run

AXES = "mesh_axes: ['data', 'stage', 'fsdp', 'tensor', 'expert']\n"
BASE = AXES + ("""\
ici_fsdp_parallelism: -1
dcn_data_parallelism: -1
ici_tensor_parallelism: 1
logical_axis_rules: [
  ['embed', ['fsdp']],
  ['mlp', ['tensor']],
  ['exp', 'expert'],
  ['norm', null],
]
""")
MODEL = "base_emb_dim: 64\nlogical_axis_rules: [['norm', 'tensor']]\n"
TREE = {"configs/base.yml": BASE, "configs/models/small.yml": MODEL}
PYTHON = "from jax.sharding import PartitionSpec as P\n"
# What was changed, the files, and what is reported: a level, a code and a part
# of the message, with the place.
MISTAKES = [
    ("an axis that MaxText does not have",
     {"configs/own.yml": "base_config: base.yml\n"
                         "mesh_axes: ['data', 'fsdp', 'tensr']\n"
                         "ici_fsdp_parallelism: 4\n"},
     "error[SHD701", "MaxText has no mesh axis `tensr`, and stops with a KeyError", "own.yml:2:29"),
    ("an axis that is given twice",
     {"configs/own.yml": "base_config: base.yml\n"
                         "mesh_axes: ['fsdp', 'data', 'fsdp']\n"
                         "ici_fsdp_parallelism: 4\n"},
     "error[SHD701", "`fsdp` is given twice", "own.yml:2:29"),
    ("two sizes of the rest",
     {"configs/own.yml": "base_config: base.yml\n"
                         "ici_tensor_parallelism: -1\n"},
     "error[SHD701", "`ici_tensor_parallelism` are both -1, and only one size can be that of "
     "the rest", "own.yml:2:1"),
    ("a size of an axis that the mesh lacks",
     {"configs/own.yml": "base_config: base.yml\n"
                         "ici_context_parallelism: 4\n"},
     "warning[SHD702", "the mesh has no axis of `ici_context_parallelism`, so that 4 is "
     "ignored", "own.yml:2:1"),
    ("a size of zero",
     {"configs/own.yml": "base_config: base.yml\n"
                         "ici_tensor_parallelism: 0\n"},
     "error[SHD701", "`ici_tensor_parallelism` is 0", "own.yml:2:1"),
    ("a rule over an axis that the mesh lacks",
     {"configs/own.yml": "base_config: base.yml\nlogical_axis_rules:\n"
                         "  - ['embed', ['fsdp', 'tensor_transpose']]\n"},
     "warning[SHD702", "which 1 rule of logical axes names; MaxText leaves it out without a word", "own.yml:3:5"),
    ("an axis twice in a rule",
     {"configs/own.yml": "base_config: base.yml\nlogical_axis_rules:\n"
                         "  - ['embed', ['fsdp', 'fsdp']]\n"},
     "error[SHD701", "the rule of `embed` has the mesh axis `fsdp` twice", "own.yml:3:5"),
    ("a model without a file",
     {"configs/own.yml": "base_config: base.yml\nmodel_name: smal\n"
                         "ici_fsdp_parallelism: 4\n"},
     "warning[SHD702", "of the model; MaxText logs a warning and trains a model of the sizes of "
     "`base.yml`", "own.yml:2:1"),
    ("no pair",
     {"configs/own.yml": "base_config: base.yml\nlogical_axis_rules:\n"
                         "  - ['embed', 'fsdp', 'tensor']\n"},
     "error[SHD701", "this is no pair of a logical axis and mesh axes", "own.yml:3:5"),
    ("a rule after one that matches all names",
     {"rules.py": PYTHON + "partition_rules = (\n"
                  "    (r'.*', P(None)),\n"
                  "    (r'mlp/up/kernel', P('fsdp', 'tp')),\n)\n"},
     "warning[SHD106", "never applies: earlier rules match all its names", "rules.py:4:6"),
    ("an axis twice in a spec",
     {"rules.py": PYTHON + "class A:\n  def get_partition_rules(self):\n"
                  "    return [('up', P('tp', ('fsdp', 'tp'))),\n"
                  "            ('.*', P())]\n"},
     "error[SHD701", "the spec of `up` has the mesh axis `tp` twice, which JAX refuses", "rules.py:4:14"),
    ("a pattern that nothing reads",
     {"rules.py": PYTHON + "PARTITION_RULES = [\n"
                  "    (\"layers/(q|k/kernel\", P('tp', None)),\n]\n"},
     "error[SHD030", "is not usable", "rules.py:3:"),
]
RIGHT = [
    {"configs/own.yml": "base_config: base.yml\nmodel_name: small\n"
                        "ici_tensor_parallelism: 4\n"},
    {"configs/deeper/own.yml": "base_config: base.yml\n"
                               "model_name: small-Instruct\n"
                               "dcn_fsdp_parallelism: 2\n"},
    # Another program's folder of models.
    {"other/models/x.yml": "a: 1\n",
     "other/own.yml": "mesh_axes: ['fsdp']\nmodel_name: wan\n"
                      "ici_fsdp_parallelism: 4\n"},
    {"configs/own.yml": "mesh_axes: ['fsdp']\n"
                        "logical_axis_rules: [['embed', ['fsdp']]]\n"},
    # Rules for several meshes name axes that one of them lacks.
    {"configs/own.yml": "base_config: base.yml\nmesh_axes: [fsdp]\n"
                        "logical_axis_rules: [['embed', [fsdp, tensor]]]\n"},
    {"rules.py": PYTHON + "partition_rules = (\n"
                 "    ('embed/embedding', P('tp', ('fsdp', 'sp'))),  # (\n"
                 "    (r'(q|k|v)_proj' '/kernel', P(('fsdp', 'sp'), 'tp')),\n"
                 "    ('scale', jax.sharding.PartitionSpec(None)),\n"
                 "    ('other', self.spec_of(P, 1)),\n"
                 "    ('.*', P(None)),\n)\n"},
    # RE2 lacks what Python's `re` has: this is a note.
    {"rules.py": PYTHON + "partition_rules = [\n"
                 "    (r'(?!x)up', P('tp')),\n    ('.*', P()),\n]\n"},
    # No lists of rules.
    {"rules.py": PYTHON + "def get_partition_rules(self):\n"
                 "    \"\"\"Returns (('a', P('b')),).\"\"\"\n"
                 "    return None\nx = [('a', 1), ('b', 2)]\n"},
]


class FoundRules(Case):
    def check(self, files, *options):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (TREE | files).items():
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            return run("check", *options, cwd=folder)

    def test_mistakes(self):
        for name, files, level, message, place in MISTAKES:
            with self.subTest(name):
                got = self.check(files)
                self.assertEqual(got.rc, int(level.startswith("error")),
                                 got.out + got.err)
                findings = got.out.split("\n" + level.split("[")[0])
                self.assertTrue(
                    any(level in one and message in one and place in one
                        for one in [got.out, *findings]), got.out)
                self.assertEqual(got.out.count("error[") +
                                 got.out.count("warning["), 1, got.out)

    def test_right_rules(self):
        for index, files in enumerate(RIGHT):
            with self.subTest(index):
                got = self.check(files)
                self.assertEqual((got.rc, got.out), (0, ""), got.err)

    def test_lines(self):
        got = self.check(RIGHT[0])
        self.assertIn("configs/own.yml: maxtext: 4 logical axis rules; mesh "
                      "data, stage, fsdp, tensor, expert; "
                      "ici_tensor_parallelism=4 ici_fsdp_parallelism=-1 "
                      "dcn_data_parallelism=-1; model small;", got.err)
        got = self.check(RIGHT[5])
        self.assertIn("rules.py: rules in Python: 1 list of 5 rules, 1 spec of "
                      "which are no literals and not checked", got.err)
        got = self.check(RIGHT[7])
        self.assertIn("1 file of Python named partition rules, without a list "
                      "of them: not checked", got.err)

    def test_init_states_what_is_not_planned(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "base.yml"), "w",
                      encoding="utf-8") as file:
                file.write(BASE)
            with open(os.path.join(folder, "run.sh"), "w",
                      encoding="utf-8") as file:
                file.write("torchrun --nproc-per-node 8 pretrain_gpt.py "
                           "--num-layers 4 --hidden-size 64 "
                           "--num-attention-heads 4 --vocab-size 100 "
                           "--max-position-embeddings 64 --seq-length 64 "
                           "--tensor-model-parallel-size 2 --bf16\n")
            got = run("init", cwd=folder)
            self.assertEqual(got.rc, 0, got.err)
            with open(os.path.join(folder, "shardc.yaml"),
                      encoding="utf-8") as file:
                text = file.read()
            self.assertIn('from: {megatron: "run.sh"}', text)
            self.assertIn("#   Not planned yet: the rules of base.yml are over "
                          "logical axes", text)
            self.assertEqual(run("check", cwd=folder).rc, 0)

    def test_a_base_that_is_not_there(self):
        got = self.check({"configs/own.yml":
                          "base_config: other/gone.yml\n"
                          "ici_tensr_parallelism: 4\n"
                          "mesh_axes: [fsdp]\n"}, "--notes")
        self.assertEqual(got.rc, 0, got.err)
        self.assertIn("the file `other/gone.yml` of `base_config` is not in "
                      "this folder", got.out)
        self.assertIn("the key `ici_tensr_parallelism` of MaxText is not known",
                      got.out)


if __name__ == "__main__":
    unittest.main()
