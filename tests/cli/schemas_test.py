"""The JSON schemas accept what the program accepts."""

import gzip
import json
import os
import tempfile
import unittest

import jsonschema
import yaml

from driver import MODELS, ROOT, TESTDATA, Case, run

LLAMA = os.path.join(MODELS, "llama-3-8b.flax.manifest.json")
# Where the verdict is a recommendation and ours is the other one.
ACCEPTED = {"rules_rules_empty.yaml", "json_shape_null.json"}


class CoreLoader(yaml.SafeLoader):
    """YAML 1.2 core: `no` is a string, numbers are decimal."""

    yaml_implicit_resolvers = {}


for tag, pattern, first in [
        ("null", r"^(?:~|null|Null|NULL|)$", list("~nN") + [""]),
        ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
        ("int", r"^[-+]?[0-9]+$", list("-+0123456789")),
        ("float", r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$",
         list("-+.0123456789"))]:
    CoreLoader.add_implicit_resolver(
        "tag:yaml.org,2002:" + tag, yaml.resolver.re.compile(pattern), first)


def load_schema(name):
    path = os.path.join(ROOT, "schemas", name + ".schema.json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def validator(name):
    return jsonschema.Draft7Validator(load_schema(name))


def load(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        text = file.read().decode("utf-8")
    if path.endswith((".yaml", ".yml")):
        return yaml.load(text, CoreLoader)
    return json.loads(text)


class Schemas(Case):
    NAMES = ["audit", "audit-lock", "constraints", "cost", "cost-lock", "diff", "facts", "kv-map", "kv-proof", "manifest", "mesh", "meshes", "operations", "param-facts", "plan",
             "program", "program-cost", "program-proof", "program-search", "project", "report", "rules", "search", "serve", "shards", "verify"]

    def accepts(self, check, value, what):
        errors = [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}"
                  for e in check.iter_errors(value)]
        self.assertEqual(errors, [], what)

    def test_each_is_a_schema_with_a_description_everywhere(self):
        files = {n[:-len(".schema.json")]
                 for n in os.listdir(os.path.join(ROOT, "schemas"))
                 if n.endswith(".schema.json")}
        self.assertLessEqual(set(self.NAMES), files)
        for name in self.NAMES:
            schema = load_schema(name)
            jsonschema.Draft7Validator.check_schema(schema)
            seen = 0
            for place, definition in schema["definitions"].items():
                self.assertIn("description", definition, (name, place))
                for key, value in definition.get("properties", {}).items():
                    seen += 1
                    if set(value) != {"$ref"} and "anyOf" not in value:
                        self.assertIn("description", value, (name, key))
            self.assertGreater(seen, 0)
            self.assertEqual(json.loads(run("schema", name).out), schema)

    def test_shared_definitions_are_the_same(self):
        mesh, project = load_schema("mesh"), load_schema("project")
        rules = load_schema("rules")
        copy = project["definitions"]["mesh"]
        self.assertEqual({k: mesh[k] for k in copy}, copy)
        for name, definition in mesh["definitions"].items():
            self.assertEqual(project["definitions"][name], definition)
        for name in ("axisName", "size"):
            self.assertEqual(rules["definitions"][name],
                             mesh["definitions"][name])

    def test_rule_packs(self):
        check = validator("rules")
        folder = os.path.join(ROOT, "rules")
        packs = [n for n in os.listdir(folder) if n.endswith(".yaml")]
        self.assertGreater(len(packs), 0)
        for name in packs:
            self.accepts(check, load(os.path.join(folder, name)), name)

    def test_manifests_in_the_test_data(self):
        check = validator("manifest")
        seen = 0
        for base in ("models", os.path.join("corpus", "manifests")):
            folder = os.path.join(TESTDATA, base)
            for name in sorted(os.listdir(folder)):
                if ".manifest.json" not in name:
                    continue
                seen += 1
                value = load(os.path.join(folder, name))
                # The validator takes long: a hundred of a tree's parameters.
                params = value["params"]
                value["params"] = params[::len(params) // 100 + 1]
                self.accepts(check, value, name)
        self.assertGreater(seen, 20)

    def test_hostile_files(self):
        kinds = {"yaml-mesh": "mesh", "yaml-rules": "rules",
                 "json-manifest": "manifest"}
        folder = os.path.join(TESTDATA, "hostile")
        seen = {True: 0, False: 0}
        for case in load(os.path.join(folder, "EXPECT.json")):
            if case["kind"] not in kinds:
                continue
            accept = case["expect"] == "accept" or case["file"] in ACCEPTED
            classes = (case["class"] or "").split("|")
            # What a schema can see, once the text has been loaded.
            visible = {"unknown-key", "schema", "number", "axis-name", "name"}
            if not accept and not visible.issuperset(classes):
                continue
            try:
                value = load(os.path.join(folder, case["file"]))
            except (ValueError, yaml.YAMLError):
                continue
            seen[accept] += 1
            check = validator(kinds[case["kind"]])
            if accept:
                self.accepts(check, value, case["file"])
            elif case["file"] not in (
                    "mesh_two_wildcards.yaml",  # counts over all members
                    "mesh_size_hex.yaml",       # whole numbers all
                    "mesh_size_exp.yaml", "mesh_size_tagged.yaml",
                    "mesh_size_plus.yaml", "mesh_size_negzero.yaml",
                    "json_dim_exp.json", "json_dim_float.json",
                    "json_dim_negzero.json"):
                self.assertFalse(check.is_valid(value), case["file"])
        self.assertGreater(seen[True], 20)
        self.assertGreater(seen[False], 20)

    def test_plans(self):
        check = validator("plan")
        gpt2 = os.path.join(MODELS, "gpt2.hf.manifest.json.gz")
        mixtral = os.path.join(MODELS, "mixtral-8x7b.hf.manifest.json.gz")
        with tempfile.TemporaryDirectory() as folder:
            partial = os.path.join(folder, "r.yaml")
            with open(partial, "w", encoding="utf-8") as file:
                file.write("rules:\n"
                           "  - {match: q_proj, spec: [tp, fsdp, dp]}\n"
                           "  - {match: wte, spec: [tp, fsdp]}\n")
            for rc, manifest, mesh, *args in [
                    (0, LLAMA, "dp:2,fsdp:8,tp:4"),
                    (0, LLAMA, "dp:2,fsdp:8,tp:4", "--modes", "train,decode"),
                    (0, LLAMA, "dp:2,tp:3", "--illegal", "shrink"),
                    (0, LLAMA, "dp:2,tp:3", "--illegal", "drop"),
                    (0, LLAMA, "tp:2", "--weight-decay-exclude", "norm"),
                    (0, gpt2, "tp:4", "--illegal", "drop", "--min-size",
                     "100000"),
                    (0, mixtral, "ep:8,tp:4", "--compat", "eformer"),
                    (1, gpt2, "fsdp:2,tp:8,dp:1", "--keep-going",
                     "--rules", partial)]:
                rules = [] if "--rules" in args else ["--rules", "auto"]
                result = run("plan", "--manifest", manifest, "--mesh", mesh,
                             *rules, *args, "--quiet")
                self.assertEqual(result.rc, rc, result.err[:2000])
                self.accepts(check, result.json(), args)

    BROKEN = {
        "mesh": [
            "axes: []", "axes: {}", "axis: {dp: 2}", "axes: {dp: 0}",
            "axes: {dp: -2}", "axes: {dp: x}", "axes: {dp: '2'}",
            "axes: {dp: 2.5}", "axes: {'d p': 2}", "axes: {_: 2}",
            "axes: {1: 2}", "{axes: {dp: 2}, devices: 0}",
            "{axes: {dp: 2}, axis_types: manually}",
            "{axes: {dp: 2}, axis_types: {dp: 3}}",
            "{axes: {dp: 2}, dcn: [2]}", "{axes: {dp: 2}, slices: two}",
            "{axes: {dp: 2}, device: {memory: 80gigs}}",
            "{axes: {dp: 2}, device: {speed: 1}}",
            "{axes: {dp: 2}, device: nope}",
            "{axes: {dp: 2}, device: {profile: nope, memory: 1GiB}}", "[]", "x"],
        "rules": [
            "version: 2", "rules: {}", "rules: [x]", "rules: [{spec: []}]",
            "rules: [{match: a}]", "rules: [{match: 1, spec: []}]",
            "rules: [{match: a, spec: null}]",
            "rules: [{match: a, spec: [[[tp]]]}]",
            "rules: [{match: a, spec: [1]}]",
            "rules: [{match: a, spec: [tp null]}]",
            "rules: [{match: a, spec: [None]}]",
            "rules: [{match: a, spec: ['null']}]",
            "rules: [{match: a, spec: [{axis: [tp]}]}]",
            "rules: [{match: a, spec: [{axis: tp, x: 1}]}]",
            "rules: [{match: a, spec: {like: ''}}]",
            "rules: [{match: a, spec: [], modes: {decoding: []}}]",
            "rules: [{match: a, spec: [], modes: {decode: {like: x}}}]",
            "rules: [{match: a, spec: [], illegal: skip}]",
            "rules: [{match: a, spec: [], min_size: -1}]",
            "rules: [{match: a, spec: [], place: {axis: ep, count: 8}}]",
            "rules: [{match: a, spec: [], notes: x}]",
            "separator: ':'", "extends: {a: b}", "extends: ['']",
            "axes: {heads: tp}", "axes: {head: 1}", "axes: {head: [[tp]]}",
            "axes: {heads_axis: tp}", "axes: {head_axis: 1}",
            "register: {X: head}", "register: {X: {}}",
            "register: {my axis: {rule: tp}}", "register: {ÄXIS: {rule: tp}}",
            "register: [{'null': {rule: tp}}]",
            "register: {X: {rule: [[tp]]}}",
            "register: {X: {rule: tp, override: 1}}",
            "register: {X: {rule: tp, unregister: true}}",
            "register: {X: {rule: tp, missing_ok: true}}",
            "register: {X: {unregister: false}}", "register: [X]",
            "bundles: {B: TP}", "bundles: {B: {axes: [TP], mode: never}}",
            "policy: {unmatched: ignore}", "policy: {compat: jax}",
            "policy: {min: 3}", "zebra: 1"],
        "manifest": [
            "[]", "null", '"x"', '{"w": 3}', '{"w": {"shape": [4]}}',
            '{"w": {"dtype": "F32"}}',
            '{"w": {"shape": [2.5], "dtype": "F32"}}',
            '{"w": {"shape": [-1], "dtype": "F32"}}',
            '{"w": {"shape": "4", "dtype": "F32"}}',
            '{"w": {"shape": [4], "dtype": 3}}',
            '{"": {"shape": [4], "dtype": "F32"}}',
            '{"a\\u0007": {"shape": [4], "dtype": "F32"}}',
            '{"a": {"b": {"c": true}}}',
            '{"schema": "shardc.manifest/v2", "params": []}',
            '{"schema": "shardc.manifest/v1"}',
            '{"schema": "shardc.manifest/v1", "params": 3}',
            '{"schema": "shardc.manifest/v1", "params": [{"name": "w"}]}',
            '{"schema": "shardc.manifest/v1", "params": [], "separator": 1}'],
    }
    GOOD = {
        "mesh": ["axes: {dp: 2, fsdp: -1}\ndevices: 8",
                 "axes: {no: 2, on: 1}\naxis_types: {no: manual}\n"
                 "processes: 2\nslices: 2\ndcn: {no: -1}\n"
                 "device: {profile: trn2, memory: 1.5 PiB}",
                 "{axes: {dp: 2}, device: h100-80gb}"],
        "rules": ["rules: [{match: a, spec: [{axis: tp}, [{axis: x}, y]]}]",
                  "axes: {head_axis: tp, decode_kv_head_axis: [tp, ep]}",
                  "register: {' X ': {rule: head_axis}}",
                  "{}", "rules:\nextends:\naxes:\npolicy:",
                  "register: [{X: {rule: tp}}, {X: {unregister: true, "
                  "missing_ok: false}}, {X: {rule: sp, unregister: false}}]",
                  "version: 1\nseparator: '.'\n"
                  "axes: {head: tp, batch: [fsdp, null], decode_head: []}\n"
                  "register: {X: {rule: [{axis: expert}, tp]}}\n"
                  "bundles: {B: [[FSDP, null], TP], C: {axes: [], mode: 1}}\n"
                  "rules:\n"
                  "  - {match: 'a', spec: [[fsdp, _], ~, TP], note: 3}\n"
                  "  - {match: 'b', spec: B, modes: {decode: B}}\n"
                  "  - {match: '(c)', spec: {like: '\\1'}}\n"
                  "  - {match: 'e(\\d)', spec: [], min_size: 0, "
                  "place: {axis: ep, index: 'e(\\d)', count: 8}}\n"
                  "policy: {illegal: shrink, min_size: 3, compat: none}"],
        "manifest": ['{}', '{"a": [{"shape": [], "dtype": null}, null]}',
                     '{"shape": {"shape": [1], "dtype": "F32"}}',
                     '{"params": {"w": {"shape": [1], "dtype": "F32"}}}',
                     '{"params": [{"name": "w", "shape": null, '
                     '"dtype": null, "x": 1}]}',
                     '{"schema": "shardc.manifest/v1", "model": null, '
                     '"other": 1, "params": {}}'],
    }

    def both(self, name, text, good):
        """The schema's verdict and the program's are the same."""
        ending = ".json" if name == "manifest" else ".yaml"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "file" + ending)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            value = load(path)
            self.check(run("show", name, "--" + name, path), 0 if good else 2)
        check = validator(name)
        if good:
            self.accepts(check, value, text)
        else:
            self.assertFalse(check.is_valid(value), text)

    def test_the_cost_of_an_encoder(self):
        config = os.path.join(TESTDATA, "configs", "t5-small.config.json")
        tree = run("show", "manifest", "--no-project", "--model", config, "--format",
                   "json").out
        done = self.check(run(
            "cost", "--no-project", "--mesh", "dp:2,tp:2", "--rules", "auto",
            "--manifest", "-", "--model", config, "--illegal", "shrink",
            "--batch", "8", "--seq", "64", "--format", "json", stdin=tree), 0)
        value = json.loads(done.out)
        self.assertIn("encoder", {key for one in value["activations"]
                                  ["tensors"] for key in one})
        self.accepts(validator("cost"), value, "t5-small")

    def test_the_cost_of_matrices_without_a_known_name(self):
        params = {f"layers.{layer}.{name}.weight":
                  {"shape": shape, "dtype": "BF16"}
                  for layer in range(2)
                  for name, shape in (("gathering", [512, 64]),
                                      ("mixing", [64, 512]))}
        params["embed_tokens.weight"] = {"shape": [100, 64], "dtype": "BF16"}
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nrules:\n"
                           "  - {match: 'gathering', spec: [tp, null]}\n"
                           "  - {match: 'mixing', spec: [null, tp]}\n"
                           "  - {match: '.*', spec: []}\n")
            done = self.check(run(
                "cost", "--no-project", "--mesh", "tp:8", "--rules", rules,
                "--manifest", "-", "--batch", "2", "--seq", "64", "--format",
                "json", stdin=json.dumps({"schema": "shardc.manifest/v1",
                                          "params": params})), 0)
        value = json.loads(done.out)
        self.assertEqual(value["communication"], [])
        self.assertEqual([one["params"] for one in value["not_known"]][0],
                         ["layers.*.gathering.weight",
                          "layers.*.mixing.weight"])
        self.accepts(validator("cost"), value, "matrices of unknown names")

    def test_the_program_agrees(self):
        for name, texts in self.BROKEN.items():
            for text in texts:
                with self.subTest(file=name, text=text):
                    self.both(name, text, False)
        for name, texts in self.GOOD.items():
            for text in texts:
                with self.subTest(file=name, text=text):
                    self.both(name, text, True)

    def test_projects(self):
        check = validator("project")
        self.accepts(check, yaml.load("""
version: 1
targets:
  a:
    mesh: dp:2,tp:4
    rules: [ours.yaml, builtin:llama]
    manifest: m.json
    model: config.json
    modes: [train, __autoregressive__]
    operations: {train: ring, __autoregressive__: [flash_decoding], insert: }
    layout: [bthd, thd]
    dtype: bfloat16
    kv_dtype: int8
    settings: {defaults: {soft_cap: 30}}
    batch: 64
    kv_len: 8192
    memory: 16GiB
    plan: plan.json
  b: {mesh: {axes: {dp: 2}}, rules: auto, modes: decode}
lint: {select: [SHD203], ignore:, severity: {SHD203: note}, fail_on: never,
       baseline: known.json}
""", CoreLoader), "a whole project")
        for text in ["targets: [a]", "targets: {a: {mesh: [1]}}",
                     "targets: {a: {mesh: {axis: {dp: 2}}}}",
                     "targets: {a: {modes: [decod]}}",
                     "targets: {a: {batch: 0}}",
                     "targets: {a: {memory: lots}}",
                     "targets: {a: {kv_length: 3}}",
                     "targets: {a: {operations: {decod: [ring]}}}",
                     "targets: {a: {operations: [[ring]]}}",
                     "targets: {a: {layout: tbhd}}",
                     "targets: {a: {kv_dtype: [int8]}}",
                     "targets: {a: {settings: [x]}}",
                     "lint: {severity: {SHD203: fatal}}",
                     "lint: {fail_on: always}", "lint: {baseline: [b]}",
                     "version: 2", "lints: {}"]:
            self.assertFalse(check.is_valid(yaml.load(text, CoreLoader)),
                             text)


if __name__ == "__main__":
    unittest.main()
