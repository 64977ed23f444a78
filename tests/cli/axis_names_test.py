"""Names of mesh axes, of axis rules and of logical axes, where they are equal,
and meshes whose axes have names of their own."""

import json
import os
import unittest

from driver import MODELS, TESTDATA, FolderCase, run

# Each axis rule with the logical axis that it maps, if there is one, and its
# mesh axes by default.
RULES = {
    "data_parallel": ("DP", ["dp"]),
    "fully_sharded_data_parallel": ("FSDP", ["fsdp"]),
    "tensor_parallel": ("TP", ["tp"]),
    "sequence_parallel": ("SP", ["sp"]),
    "expert_parallel": ("EP", ["ep"]),
    "batch": ("BATCH", ["fsdp", "dp"]),
    "sequence": ("LENGTH", ["sp"]),
    "query_sequence": ("QUERY_LENGTH", ["sp"]),
    "head": ("HEAD", ["tp"]),
    "key_sequence": ("KV_LENGTH", ["sp"]),
    "hidden_state": ("EMBED", ["tp"]),
    "mlp_intermediate": ("MLP_INTERMEDIATE", ["tp"]),
    "vocab": ("VOCAB", ["tp"]),
    "expert": ("EXPERT", ["ep"]),
    "expert_gate": ("EXPERT_GATE", []),
    "attention_dim": ("HEAD_DIM", []),
    "kv_head": ("KV_HEAD", ["tp"]),
    "attention_kv_dim": ("KV_HEAD_DIM", []),
    "bias_head_sequence": ("BIAS_HEAD_SEQ", []),
    "bias_key_sequence": ("BIAS_KV_SEQ", []),
    "decode_batch": (None, ["fsdp", "dp"]),
    "decode_query_sequence": (None, []),
    "decode_head": (None, ["tp"]),
    "decode_key_sequence": (None, ["sp"]),
    "decode_attention_dim": (None, []),
    "decode_kv_head": (None, ["tp"]),
    "decode_attention_kv_dim": (None, []),
}
REPORT = os.path.join(TESTDATA, "reports", "axis-named-batch")
MANIFEST = {"schema": "shardc.manifest/v1", "separator": "/", "params": {
    "dense/kernel": {"shape": [1024, 4096], "dtype": "F32"},
    "out/kernel": {"shape": [4096, 1024], "dtype": "F32"}}}
LLAMA = os.path.join(MODELS, "llama-3-8b.hf.manifest.json")


class Folder(FolderCase):
    def setUp(self):
        super().setUp()
        self.write("m.json", json.dumps(MANIFEST))

    def shardc(self, *args, **kwargs):
        return run(*args, cwd=self.folder, **kwargs)

    def plan(self, mesh, rules, *args, rc=0, manifest="m.json",
             command="plan"):
        self.write("r.yaml", rules)
        files = rules if rules.startswith("builtin:") else "r.yaml"
        return self.check(self.shardc(
            command, "--no-project", "--mesh", mesh, "--rules", files,
            "--manifest", manifest, *args), rc)

    def spec(self, mesh, spec, *args, before=""):
        """The spec of one parameter of a plan, in train and in decode."""
        done = self.plan(mesh, f"{before}rules: [{{match: '.*', spec: {spec}}}]"
                         "\n", "-q", *args)
        param = done.json()["params"]["dense/kernel"]
        decode = param.get("modes", {}).get("decode", param)
        return param["spec"], decode["spec"]


class NamesOfMeshAxes(Folder):
    def test_the_axis_of_the_report_is_used(self):
        done = self.check(run(
            "plan", "--no-project", "-q", "--mesh", "batch:4,model:2",
            "--rules", os.path.join(REPORT, "r.yaml"), "--manifest",
            os.path.join(REPORT, "m.json")), 0)
        self.assertEqual(
            {name: param["spec"]
             for name, param in done.json()["params"].items()},
            {"dense/kernel": ["batch", "model"],
             "out/kernel": ["model", "batch"]})

    def test_a_name_of_every_rule_may_be_an_axis(self):
        for rule, (token, axes) in RULES.items():
            for name in (rule, rule + "_axis", token):
                if name is None:
                    continue
                with self.subTest(name=name):
                    mesh = f"{name}:4,model:2"
                    self.assertEqual(self.spec(mesh, f"[{name}, model]"),
                                     ([name, "model"],) * 2)
                    out = self.check(run("resolve", "--no-project", "--mesh",
                                         mesh, f"[[{name}, model]]"), 0).out
                    self.assertEqual(json.loads(out), [[name, "model"]])
                    # Under compat the name is the axis rule, as there.
                    old, _ = self.spec(mesh, f"[{name}, model]", "--compat",
                                       "eformer")
                    self.assertEqual(old, [None, "model"])

    def test_two_meanings_are_an_error_that_shows_both_ways(self):
        for rule, (token, axes) in RULES.items():
            if not axes:
                continue
            with self.subTest(rule=rule):
                mesh = f"{rule}:2,{axes[0]}:2"
                rules = f"rules:\n  - match: '.*'\n    spec: [null, {rule}]\n"
                done = self.plan(mesh, rules, rc=2)
                self.assertIn(f"`{rule}` is an axis of the mesh and an axis "
                              "rule", done.err)
                self.assertIn("--> r.yaml:3:18\n", done.err)
                other = token or rule + "_axis"
                self.assertIn(f"write `{{axis: {rule}}}` for the mesh axis, or "
                              f"`{other}` for ", done.err)
                self.assertEqual(
                    self.spec(mesh, f"[{{axis: {rule}}}, {other}]")[0],
                    [rule, axes[0]])

    def test_names_are_read_so_wherever_a_spec_is(self):
        mesh = "batch:4,model:2"
        both = "batch:4,dp:2"
        for rules, spec in (
                ("bundles: {B: [batch, model]}\n"
                 "rules: [{match: '.*', spec: B}]\n", ["batch", "model"]),
                ("bundles: {B: {axes: [[{axis: batch}, model]], mode: decode}}"
                 "\nrules: [{match: '.*', spec: B}]\n", [["batch", "model"]]),
                ("rules: [{match: 'out', spec: [batch, model]}, "
                 "{match: 'dense', spec: {like: 'out/kernel'}}]\n",
                 ["batch", "model"]),
                ("register: {X: {rule: batch}}\n"
                 "rules: [{match: '.*', spec: [X, model]}]\n",
                 ["batch", "model"])):
            with self.subTest(rules=rules):
                done = self.plan(mesh, rules, "-q")
                self.assertEqual(done.json()["params"]["dense/kernel"]["spec"],
                                 spec)
        modes = self.plan(mesh, "rules: [{match: '.*', spec: [null, model], "
                          "modes: {decode: [[batch, model]]}}]\n", "-q").json()
        self.assertEqual(
            modes["params"]["dense/kernel"]["modes"]["decode"]["spec"],
            [["batch", "model"]])
        for rules, at in (
                ("bundles: {B: [batch]}\nrules: [{match: '.*', spec: B}]\n",
                 "r.yaml:1:15"),
                ("rules: [{match: '.*', spec: [dp], modes: {decode: [batch]}}]"
                 "\n", "r.yaml:1:52")):
            with self.subTest(rules=rules):
                done = self.plan(both, rules, rc=2)
                self.assertIn("both could be meant", done.err)
                self.assertIn(f"--> {at}\n", done.err)
        done = self.check(run("resolve", "--no-project", "--mesh", both,
                              "[batch]"), 2)
        self.assertIn("--> AXES:1:2\n", done.err)
        self.write("shardc.yaml", "version: 1\ntargets: {t: {mesh: 'batch:4,"
                   "model:2', rules: [r.yaml], manifest: m.json}}\n")
        self.write("r.yaml", "rules: [{match: '.*', spec: [batch, model]}]\n")
        done = self.check(self.shardc("plan", "-q"), 0)
        self.assertEqual(done.json()["params"]["out/kernel"]["spec"],
                         ["batch", "model"])
        self.assertEqual(self.check(self.shardc("resolve", "[batch]"), 0).out,
                         '["batch"]\n')

    def test_an_axis_in_braces_is_always_the_axis(self):
        for spec, want in (("[{axis: tp}, null]", ["tp", None]),
                           ("[[{axis: tp}, dp]]", [["tp", "dp"]]),
                           ("[{axis: sp}, tp]", [None, "tp"])):
            with self.subTest(spec=spec):
                self.assertEqual(self.spec("dp:2,tp:4", spec)[0], want)
        for spec, words in (
                ("[{axis: nope}]", "the mesh has no axis `nope`"),
                ("[{axis: TP}]", "the mesh has no axis `TP`"),
                ("[{axis: [tp]}]", "a list, not a string"),
                ("[{axis: tp, x: 1}]", "unknown key `x`"),
                ("[{axis: tp}, tp]", "given twice in one spec")):
            with self.subTest(spec=spec):
                done = self.plan("dp:2,tp:4", "rules: [{match: '.*', spec: "
                                 f"{spec}}}]\n", rc=2)
                self.assertIn(words, done.err)

    def test_written_rules_keep_the_braces(self):
        self.write("r.yaml", "rules: [{match: '.*', spec: "
                   "[[{axis: head}, x], {axis: y}]}]\n")
        done = self.check(self.shardc("show", "rules", "--rules", "r.yaml",
                                      "--format", "json"), 0)
        self.assertEqual(done.json()["rules"][0]["spec"],
                         [[{"axis": "head"}, "x"], "y"])
        (rule,) = done.json()["rules"]
        self.write("again.yaml", json.dumps({"rules": [
            {key: rule[key] for key in ("match", "spec")}]}))
        again = self.check(self.shardc("show", "rules", "--rules", "again.yaml",
                                       "--format", "json"), 0)
        self.assertEqual(again.json()["rules"][0]["spec"], rule["spec"])

    def test_rules_alone_are_checked_without_a_mesh(self):
        self.write("r.yaml", "rules: [{match: '.*', spec: [head, tp]}]\n")
        self.check(self.shardc("show", "rules", "--rules", "r.yaml"), 0)
        self.write("r.yaml", "register: {X: {rule: HEAD}, Y: {rule: X}}\n"
                   "rules: []\n")
        for axes in ("[Y]", "[X]", "[HEAD]"):
            with self.subTest(axes=axes):
                self.assertEqual(
                    self.check(self.shardc("resolve", "--no-project",
                                           "--rules", "r.yaml", axes), 0).out,
                    '["tp"]\n')


class FieldNames(Folder):
    AXES = ("axes: {head: [tp, ep], decode_head: ep, batch: dp, "
            "decode_batch: [], attention_dim: sp, decode_kv_head: sp}\n")

    def resolve(self, rules, axes, mode):
        self.write("r.yaml", rules)
        return self.check(self.shardc(
            "resolve", "--no-project", "--rules", "r.yaml", axes, "--mode",
            mode), 0).out

    def test_each_field_serves_for_its_rule(self):
        for rule in RULES:
            field = rule + "_axis"
            with self.subTest(field=field):
                for mode in ("train", "decode"):
                    def both(before, axes):
                        texts = [self.resolve(
                            self.AXES + before.replace("NAME", name),
                            axes.replace("NAME", name), mode)
                            for name in (rule, field)]
                        self.assertEqual(*texts)
                        return texts[0]
                    plain = both("", "[NAME]")
                    both("", "[[NAME, other]]".replace(", other", ""))
                    both("register: {X: {rule: NAME}}\n", "[X]")
                    both("register: {X: {rule: [NAME]}}\n", "[X]")
                    both("register: {X: {rule: dp, generation: NAME}}\n",
                         "[X]")
                    self.assertNotIn(field, plain)
                texts = [self.resolve(f"axes: {{{name}: [ep, tp]}}\n",
                                      f"[{rule}]", "train")
                         for name in (rule, field)]
                self.assertEqual(*texts)
                self.assertEqual(texts[0], '[["ep", "tp"]]\n')

    def test_one_rule_under_two_names_is_an_error(self):
        self.write("r.yaml", "axes: {head: tp, head_axis: ep}\nrules: []\n")
        done = self.check(self.shardc("resolve", "--no-project", "--rules",
                                      "r.yaml", "[HEAD]"), 2)
        self.assertIn("`head_axis` and `head` are the same axis rule",
                      done.err)

    def test_eval_distinguishes_a_rule_from_a_literal(self):
        done = self.check(run("eval", "registered", stdin=json.dumps({
            "rules": {"register": {
                "A": {"rule": "head_axis"}, "B": {"rule": "head"},
                "C": {"rule": "tp"}, " D ": {"rule": ["kv_head_axis", "x"]},
                "E": {"rule": {"axis": "head"}},
                "F": {"rule": {"axis": "head_axis"}}}}})), 0)
        rule = {"axis_rule": "head_axis",
                "generation_axis_rule": "decode_head_axis"}
        self.assertEqual(done.json()["registered"], {
            "A": rule, "B": rule, "C": {"axis_rule": "tp"},
            "D": {"axis_rule": ["kv_head_axis", "x"]},
            "E": {"axis_rule": "head"},
            "F": {"axis_rule": {"axis": "head_axis"}}})

    def test_names_of_constants_are_logical_axes(self):
        for name, spec in (("TENSOR_PARALLEL", "tp"), ("DATA_PARALLEL", "dp"),
                           ("FULLY_SHARDED_DATA_PARALLEL", "fsdp"),
                           ("EXPERT_PARALLEL", "ep"),
                           ("SEQUENCE_PARALLEL", "sp"), ("EMPTY", None)):
            with self.subTest(name=name):
                self.assertEqual(
                    json.loads(self.resolve("rules: []\n", f"[{name}, tp]",
                                            "train")), [spec, "tp"])
                text = self.resolve(f"register: {{X: {{rule: {name}}}}}\n",
                                    "[X]", "train")
                self.assertEqual(json.loads(text), [spec])
                self.write("r.yaml", f"register: {{{name}: {{rule: dp}}}}\n")
                self.check(self.shardc("resolve", "--no-project", "--rules",
                                       "r.yaml", "[dp]"), 2)


class MeshesWithOtherNames(Folder):
    # The mesh, the same mesh under shardc's names, and the axis rules to write.
    MESHES = (
        ("data:8,model:4", "fsdp:8,tp:4",
         "fully_sharded_data_parallel: data, tensor_parallel: model"),
        ("replica:2,data:4,tensor:4", "dp:2,fsdp:4,tp:4",
         "data_parallel: replica, fully_sharded_data_parallel: data, "
         "tensor_parallel: tensor"),
        ("shard:4,mp:2", "fsdp:4,tp:2",
         "fully_sharded_data_parallel: shard, tensor_parallel: mp"),
        ("DP:2,TP:4", "dp:2,tp:4", "data_parallel: DP, tensor_parallel: TP"),
        ("data:2,context:2,model:4", "fsdp:2,sp:2,tp:4",
         "fully_sharded_data_parallel: data, tensor_parallel: model, "
         "sequence_parallel: context"),
        ("data:8", "fsdp:8", "fully_sharded_data_parallel: data"),
    )

    def test_a_pack_on_a_mesh_of_other_names_is_an_error(self):
        for mesh, _, axes in self.MESHES:
            for command in ("plan", "check"):
                with self.subTest(mesh=mesh, command=command):
                    done = self.plan(mesh, "builtin:llama", rc=1,
                                     manifest=LLAMA, command=command)
                    text = done.out if command == "check" else done.err
                    self.assertIn("error[SHD207 large-replicated]", text)
                    self.assertIn("the whole model", text)
                    self.assertIn(f"`axes: {{{axes}}}`", text)
                    if command == "plan":
                        self.assertEqual(done.out, "")
            going = self.plan(mesh, "builtin:llama", "--keep-going", rc=1,
                              manifest=LLAMA)
            self.assertEqual(going.json()["diagnostics"][0]["code"], "SHD207")

    def test_the_block_that_help_shows_mends_it(self):
        for mesh, plain, axes in self.MESHES:
            with self.subTest(mesh=mesh):
                rules = (f"extends: [builtin:llama]\naxes: {{{axes}}}\n"
                         "rules: []\n")
                mended = self.plan(mesh, rules, "-q", manifest=LLAMA).json()
                same = self.plan(plain, "builtin:llama", "-q",
                                 manifest=LLAMA).json()
                self.assertEqual(mended["summary"], same["summary"])
                self.check_names(mesh, plain, mended, same)

    def check_names(self, mesh, plain, mended, same):
        names = dict(zip([one.split(":")[0] for one in mesh.split(",")],
                         [one.split(":")[0] for one in plain.split(",")]))

        def renamed(spec):
            return [names[axes] if isinstance(axes, str) else
                    axes and [names[axis] for axis in axes] for axes in spec]
        for name, param in mended["params"].items():
            self.assertEqual(renamed(param["spec"]),
                             same["params"][name]["spec"], name)

    def test_init_and_suggest_write_the_block(self):
        for mesh, plain, axes in self.MESHES[:3]:
            with self.subTest(mesh=mesh):
                plans = []
                for number, one in enumerate((mesh, plain)):
                    folder = os.path.join(self.folder, mesh[:4] + str(number))
                    self.check(run("init", LLAMA, "--mesh", one, "--folder",
                                   folder), 0)
                    with open(os.path.join(folder, "rules.yaml"),
                              encoding="utf-8") as file:
                        text = file.read()
                    self.assertEqual("extends: [builtin:" in text, True)
                    self.assertEqual(f"axes: {{{axes}}}\n" in text,
                                     number == 0)
                    self.check(run("check", "--locked", cwd=folder), 0)
                    plans.append(self.check(run("plan", "-q", cwd=folder),
                                            0).json())
                self.check_names(mesh, plain, *plans)
                text = self.check(run("suggest", "--no-project", "--mesh",
                                      mesh, "--manifest", LLAMA), 0).out
                for line in axes.split(", "):
                    self.assertIn(f"  {line}\n", text)

    def test_placed_experts_follow_the_block(self):
        params = {f"model.layers.0.mlp.experts.{i}.{name}.weight":
                  {"shape": shape, "dtype": "BF16"} for i in range(4)
                  for name, shape in (("gate_proj", [512, 256]),
                                      ("down_proj", [256, 512]))}
        self.write("e.json", json.dumps(
            {"schema": "shardc.manifest/v1", "params": params}))
        rules = ("axes: {expert_parallel: expert}\n"
                 "rules: [{match: 'experts\\.(\\d+)\\.', spec: [], "
                 "place: {axis: ep, index: 'experts\\.(\\d+)\\.'}}]\n")
        plan = self.plan("expert:4", rules, "-q", manifest="e.json").json()
        places = [param["placement"] for param in plan["params"].values()]
        self.assertEqual(places, [{"axis": "expert", "coordinate": i}
                                  for i in range(4) for _ in range(2)])

    def whole(self, mesh, rules, *args, rc=1, manifest="m.json"):
        """What plan and check say of rules that replicate the model."""
        texts = []
        for command in ("plan", "check"):
            done = self.plan(mesh, rules, *args, rc=rc, manifest=manifest,
                             command=command)
            text = done.out if command == "check" else done.err
            self.assertEqual("error[SHD207" in text, rc == 1, text)
            texts.append(text)
        return texts

    REPLICATED = "rules: [{match: '.*', spec: Replicated}]\n"
    LOGICAL = "rules: [{match: '.*', spec: [FSDP, TP]}]\n"

    def test_replicas_are_an_error_unless_the_axis_is_for_them(self):
        for mesh, rc in (("tp:4", 1), ("fsdp:4", 1), ("ep:2", 1),
                         ("dp:2,tp:4", 1), ("dp:8", 0), ("sp:4", 0),
                         ("dp:4,sp:2", 0), ("dp:8,tp:1", 0), ("tp:1", 0)):
            with self.subTest(mesh=mesh):
                self.whole(mesh, self.REPLICATED, rc=rc)
        self.whole("data:8", "axes: {data_parallel: data}\n" + self.REPLICATED,
                   rc=0)
        self.whole("data:8", "axes: {batch: data}\n" + self.REPLICATED, rc=0)
        for text in self.whole("data:8", self.REPLICATED):
            self.assertIn("`axes: {data_parallel: data}`", text)

    def test_small_vectors_alone_are_no_model_to_shard(self):
        for shape, rules, rc in (
                ([4096], self.REPLICATED, 0), ([], self.REPLICATED, 0),
                ([65536], self.REPLICATED, 1), ([8, 8], self.REPLICATED, 1),
                ([8], "rules: [{match: '.*', spec: [FSDP]}]\n", 1)):
            with self.subTest(shape=shape, rules=rules):
                self.write("v.json", json.dumps({
                    "schema": "shardc.manifest/v1", "separator": "/",
                    "params": {"norm/scale": {"shape": shape,
                                              "dtype": "I8"}}}))
                self.whole("model:4", rules, rc=rc, manifest="v.json")

    def test_other_causes_of_replicas(self):
        for rules, args in (
                ("rules: [{match: '.*', spec: []}]\n", ()),
                ("rules: []\npolicy: {unmatched: replicate}\n", ()),
                ("rules: [{match: '.*', spec: [[], null]}]\n", ()),
                ("rules: [{match: '.*', spec: [FSDP, EP]}]\n", ()),
                (self.LOGICAL, ("--compat", "eformer", "--illegal", "drop"))):
            with self.subTest(rules=rules):
                self.whole("model:4", rules, *args)

    def test_one_sharded_parameter_is_not_the_whole(self):
        params = dict(MANIFEST["params"])
        rules = ("rules:\n  - {match: 'bias', spec: [model]}\n"
                 "  - {match: 'kernel', spec: [FSDP, TP]}\n")
        for size in (4096, 1 << 20):
            params["out/bias"] = {"shape": [size], "dtype": "F32"}
            self.write("b.json", json.dumps({**MANIFEST, "params": params}))
            with self.subTest(size=size):
                self.whole("data:2,model:4", rules, rc=0, manifest="b.json")

    def test_names_without_shapes_count_as_parameters(self):
        self.write("n.json", json.dumps({
            "schema": "shardc.manifest/v1", "separator": "/", "params": {
                name: {"shape": None, "dtype": None}
                for name in MANIFEST["params"]}}))
        self.whole("data:2,model:4", self.LOGICAL, manifest="n.json")
        self.whole("fsdp:2,tp:4", self.LOGICAL, manifest="n.json", rc=0)

    def test_purposes_that_a_name_does_not_state(self):
        for mesh, words in (
                ("x:4,y:2", "what `x` and `y` are for is not known from the "
                            "name: give it a purpose in the rules file, such "
                            "as `axes: {tensor_parallel: x}`"),
                ("stage:4", "declare them with `stages: {axis: stage}`"),
                ("pipe:4,model:2", "`axes: {tensor_parallel: model}`")):
            with self.subTest(mesh=mesh):
                for text in self.whole(mesh, self.LOGICAL):
                    self.assertIn(words, text)
        for text in self.whole("data:4,model:2",
                               "rules: [{match: '.*', spec: [fsdp, tp]}]\n"):
            self.assertIn("write logical axes such as `FSDP` and `TP` in the "
                          "specs instead of `fsdp` and `tp`", text)
        for text in self.whole(
                "data:4,model:2", "axes: {vocab: [tp, fsdp], batch: [fsdp]}\n"
                "rules: [{match: '.*', spec: [VOCAB]}]\n"):
            self.assertIn("batch: data, vocab: [model, data]}", text)
        done = self.check(run("suggest", "--no-project", "--mesh", "x:4,y:2",
                              "--manifest", LLAMA), 1)
        self.assertIn("the purpose of these axes is unknown: `x`, `y`",
                      done.err)
        self.assertIn("`axes: {tensor_parallel: x}`", done.err)

    def test_rules_are_suggested_for_no_axis_of_stages(self):
        for mesh, axis in (("stage:4", "stage"), ("data:2,pp:4", "pp"),
                           ("pipe:2,x:4", "pipe")):
            done = self.check(run("suggest", "--no-project", "--mesh", mesh,
                                  "--manifest", LLAMA), 1)
            with self.subTest(mesh=mesh):
                self.assertIn("no rules are suggested for these axes of "
                              f"pipeline stages: `{axis}`", done.err)
                self.assertIn(f"`stages: {{axis: {axis}}}`", done.err)
                self.assertNotIn(f"tensor_parallel: {axis}", done.err)
                self.assertEqual("tensor_parallel: x" in done.err,
                                 "x" in mesh)

    def test_an_unused_axis_may_be_one_that_the_rules_name(self):
        """`zz` may be the axis that the rules call FSDP; `ep` has a purpose."""
        for mesh, expected in (("zz:4,tp:2", True), ("ep:4,tp:2", False),
                               ("zz:4,fsdp:2", False)):
            self.write("u.yaml", "version: 1\nrules:\n"
                                 "  - {match: '.*', spec: [FSDP]}\n"
                                 if "fsdp" in mesh else
                       "version: 1\nrules:\n"
                       "  - {match: 'lm_head', spec: [TP]}\n"
                       "  - {match: '.*', spec: [FSDP, TP]}\n")
            done = self.shardc("check", "--no-project", "--mesh", mesh,
                               "--rules", "u.yaml", "--manifest", LLAMA,
                               "--select", "SHD206")
            axis = mesh.split(":")[0]
            with self.subTest(mesh=mesh):
                self.assertIn(f"nothing uses mesh axis `{axis}`",
                              done.out + done.err)
                self.assertEqual(
                    "write `axes: {fully_sharded_data_parallel: zz}` in the "
                    "rules file if it is the axis `fsdp` of the rules" in
                    done.out + done.err, expected)

    def test_the_error_can_be_ignored_or_lowered(self):
        comment = ("rules:\n  # shardc: ignore[SHD207] a test of replicas\n"
                   "  - {match: '.*', spec: Replicated}\n")
        self.whole("tp:4", comment, rc=0)
        self.plan("tp:4", self.REPLICATED, "--ignore", "SHD207",
                  command="check")
        self.plan("tp:4", self.REPLICATED, "--severity", "SHD207=warning",
                  command="check")
        for lint in ("{ignore: [SHD207]}", "{severity: {SHD207: warning}}"):
            with self.subTest(lint=lint):
                self.write("r.yaml", self.REPLICATED)
                self.write("shardc.yaml", "version: 1\ntargets: {t: {mesh: "
                           "'tp:4', rules: [r.yaml], manifest: m.json}}\n"
                           f"lint: {lint}\n")
                for command in ("plan", "check"):
                    self.check(self.shardc(command), 0)


if __name__ == "__main__":
    unittest.main()
