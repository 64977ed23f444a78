"""What shardc concludes from recorded programs of PyTorch (testdata/torch_programs):
their structure against the configurations, their values against PyTorch's, and the
plans that `suggest` makes of them. PyTorch is not imported."""

import concurrent.futures
import collections
import gzip
import json
import math
import os
import re
import tempfile
import unittest

import program_test
import verify_program_test as proofs
from driver import TESTDATA, Case, part_of, run

PROGRAMS = os.path.join(TESTDATA, "torch_programs")
ENDING = ".program.json.gz"
NAMES = sorted(name[:-len(ENDING)] for name in os.listdir(PROGRAMS)
               if name.endswith(ENDING))


def path_of(name):
    return os.path.join(PROGRAMS, name + ENDING)


def load(name):
    with open(os.path.join(PROGRAMS, name), encoding="utf-8") as file:
        return json.load(file)


def facts_of(path):
    done = run("explain", "--no-project", "--program", path, "--format", "json")
    assert done.rc == 0, done
    return done.json()


# The roles that a factor of the answers may have; others have those of their name.
HEADS = {"kv_heads", "heads", "group"}
ROLES = {"vocab": {"vocab", "out"}, "kv": HEADS - {"group"}, "group": HEADS - {"kv_heads"},
         "expert_inner": {"inner"}, "shared_inner": {"inner"}, "latent2": {"latent"},
         "nope": {"head_dim"}, "rope": {"head_dim"}, "value": {"head_dim"},
         "linear_kv": {"state_groups", "heads"}, "linear_group": HEADS - {"kv_heads"},
         "linear_key": {"head_dim"}, "linear_value": {"head_dim"},
         "groups": {"state_groups", "heads"}, "lanes": HEADS - {"kv_heads"},
         "channels": {"head_dim"}, "state": {"head_dim"}, "part": {"vocab", "position"}}


class Structure(Case):
    def verdicts(self, name):
        """How many dimensions are right, unknown and wrong, the factors that are
        two of the model, and those of another role."""
        answers = load(name + ".answers.json")
        judge = program_test.Answers()
        facts, names = facts_of(path_of(name)), {}
        found = {one["param"]: one["dims"] for one in facts["params"]}
        counts = {"right": 0, "unknown": 0, "wrong": []}
        for param, dims in answers["params"].items():
            for answer, dim in zip(dims, found[param], strict=True):
                verdict = judge.verdict(
                    program_test.parse(answer, answers["sizes"]),
                    judge.product(dim["factors"], facts["factors"]), names)
                if verdict == "wrong":
                    counts["wrong"].append((param, answer, dim))
                else:
                    counts[verdict] += 1
        roles = [(known, facts["factors"][str(one)]["role"])
                 for one, all_known in names.items() for known in all_known]
        return (counts, {one for one, known in names.items() if len(known) > 1},
                [(known, role) for known, role in roles
                 if role not in ROLES.get(known, {known})])

    def test_programs_have_the_structure_of_their_configurations(self):
        self.assertEqual(len(NAMES), 46)
        right = 0
        for name in NAMES:
            with self.subTest(name):
                counts, mixed, others = self.verdicts(name)
                self.assertEqual((counts["wrong"], mixed, others), ([], set(), []))
                self.assertEqual(counts["unknown"], 0)
                right += counts["right"]
        self.assertGreater(right, 2400)

    def test_names_of_parameters_change_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("qwen3_next", "deepseek_v3", "own"):
                with gzip.open(path_of(name), "rt", encoding="utf-8") as file:
                    program = json.load(file)
                new = {}
                for one in program["inputs"]:
                    if one["kind"] == "param":
                        new[one["name"]] = f"n{len(new) * 7919 % 1009}"
                        one["name"] = new[one["name"]]
                other = os.path.join(folder, name + ".json")
                with open(other, "w", encoding="utf-8") as file:
                    json.dump(program, file)
                one, two = facts_of(path_of(name)), facts_of(other)
                # Evidence and ties name parameters.
                for facts in (one, two):
                    facts["factors"] = {
                        number: (factor["size"], factor["role"], factor["parts"])
                        for number, factor in facts["factors"].items()}
                self.assertEqual(one["factors"], two["factors"])
                self.assertEqual(
                    {new[param["param"]]: param["dims"] for param in one["params"]},
                    {param["param"]: param["dims"] for param in two["params"]})

    def test_lines_of_a_library_of_models_are_shown(self):
        out = self.check(run(
            "explain", "model.layers.0.self_attn.qkv_proj.weight", "--no-project",
            "--program", path_of("phi3")), 0).out
        self.assertRegex(out, r"\(transformers/models/phi3/modeling_phi3\.py:\d+")
        self.assertIn("the 3 parts", out)

    def test_an_unknown_operation_is_listed(self):
        with gzip.open(path_of("own"), "rt", encoding="utf-8") as file:
            program = json.load(file)
        self.assertEqual(program["unknown"], [])
        self.assertEqual(program["traced"]["by"].split()[0], "torch")


# Rules of a user, without `parts`, and with a bias and norms that tp does not shard.
OWN_RULES = r"""separator: "."
rules:
  - match: '(q|k|v)_proj[.](weight|bias)$|sinks$'
    spec: [tp]
  - match: 'o_proj[.]weight$'
    spec: [null, tp]
  - match: 'experts[.]gate_up_proj$'
    spec: [null, null, tp]
  - match: 'experts[.]gate_up_proj_bias$'
    spec: [null, tp]
  - match: 'experts[.]down_proj$'
    spec: [null, tp]
  - match: 'gate_up_proj[.]weight$'
    spec: [tp]
  - match: 'down_proj[.]weight$'
    spec: [null, tp]
  - match: '.*'
    spec: []
"""


class TensorPlans(Case):
    """transformers' tensor parallel plans that follow from programs alone."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.rules = os.path.join(cls.folder.name, "own.yaml")
        with open(cls.rules, "w", encoding="utf-8") as file:
            file.write(OWN_RULES)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def exported(self, name):
        """The plan of a program, and the sentence of each module without style."""
        out = os.path.join(self.folder.name, name + ".plan.json")
        done = self.check(run("export", "hf-tp-plan", "--no-project", "--mesh", "tp:2",
                              "--program", path_of(name), "-o", out, "--format",
                              "json"), 0)
        with open(out, encoding="utf-8") as file:
            plan = json.load(file)
        said = {}
        for one in json.loads(done.err or "[]"):
            module, why = re.match(r"`hf-tp-plan` leaves `(.*?)` replicated: (.*)",
                                   one["message"]).groups()
            said[module] = why
        return plan, said

    def test_each_matrix_has_a_style_or_a_sentence(self):
        for name in NAMES:
            if name.endswith(".step") or name == "own":
                continue
            plan, said = self.exported(name)
            with gzip.open(path_of(name), "rt", encoding="utf-8") as file:
                program = json.load(file)
            values = program["values"]
            for one in program["inputs"]:
                if one["kind"] != "param" or len(values[one["value"]]["shape"]) < 2:
                    continue
                param = re.sub(r"\.\d+(?=\.)", ".*", one["name"])
                module = param.rpartition(".")[0]
                styles = {plan.get(param, "replicate"), plan.get(module, "replicate")}
                with self.subTest(name, param=param):
                    self.assertTrue(styles != {"replicate"} or {param, module} & set(said))

    def test_equal_parts_are_divided(self):
        plan, said = self.exported("phi3")
        block = "model.layers.*."
        self.assertEqual((plan[block + "mlp.gate_up_proj"], plan[block + "mlp.down_proj"]),
                         ("packed_colwise", "rowwise"))
        self.assertRegex(said[block + "self_attn.qkv_proj"],
                         r"holds 3 parts of different sizes at .*modeling_phi3\.py:\d+")

    def test_rules_with_parts_are_suggested_if_wanted(self):
        rules = os.path.join(self.folder.name, "parts.yaml")
        suggest = ("suggest", "--no-project", "--mesh", "tp:2", "--force", "-o", rules)
        self.check(run(*suggest, "--program", path_of("phi3"), "--divide-parts"), 0)
        with open(rules, encoding="utf-8") as file:
            self.assertIn("gate_up_proj\\.weight$'\n    spec: [TP, [FSDP, SP]]\n"
                          "    parts: [2]\n", file.read())
        done = self.check(run("verify", "step", "--no-project", "--mesh", "tp:2",
                              "--program", path_of("phi3"), "--rules", rules), 0)
        self.assertNotIn("gate_up_proj", done.out)
        self.check(run(*suggest, "--program", path_of("phi3")), 0)
        with open(rules, encoding="utf-8") as file:
            self.assertNotIn("parts:", file.read())
        done = self.check(run(*suggest, "--manifest", rules, "--divide-parts"), 2)
        self.assertIn("`--divide-parts` has an effect only with `--program`", done.err)

    def test_parts_are_proved_and_send_less_than_contiguous_ranges(self):
        """The dense results stay those of the program; the halves of a gate and up
        projection are not exchanged, as they are in contiguous ranges."""
        given = ("--no-project", "--mesh", "fsdp:2,tp:2")
        mlp = (r"'mlp\.gate_up_proj.weight$': [TP] | [2]",
               r"'mlp\.down_proj.weight$': [null, TP]")
        experts = (r"'experts\.gate_up_proj$': [null, TP] | [null, 2]",
                   r"'experts\.down_proj$': [null, null, TP]")
        models = {
            "phi3": mlp, "glm4": mlp, "mixtral.step": experts, "olmoe": experts,
            "granitemoe.step": experts,
            "gpt2": (r"'c_attn\.weight$': [null, TP] | [null, 3]",
                     r"'c_attn\.bias$': [TP] | [3]", r"'attn\.c_proj\.weight$': [TP]"),
            "jamba": (*experts, r"'mamba\.in_proj\.weight$': [TP] | [2]",
                      r"'mamba\.(conv1d|dt_proj)\.\w+$': [TP]",
                      r"'mamba\.(x|out)_proj\.weight$': [null, TP]",
                      r"'mamba\.(A_log|D)$': [TP]")}
        for name, shards in part_of(models.items(), 2):
            with self.subTest(name):
                rules = os.path.join(self.folder.name, name + ".yaml")
                contiguous = rules + ".contiguous"
                text = "rules:\n"
                for one in (*shards, "'.*': Replicated"):
                    match, _, spec = one.partition(": ")
                    spec, _, parts = spec.partition(" | ")
                    text += f"  - match: {match}\n    spec: {spec}\n"
                    text += f"    parts: {parts}\n" if parts else ""
                for file_name, of in ((rules, text),
                                      (contiguous, re.sub(r"\n    parts: .*", "", text))):
                    with open(file_name, "w", encoding="utf-8") as file:
                        file.write(of)
                proofs, costs = ([
                    run(*command, *given, "--program", path_of(name), "--rules", one,
                        "--format", "json").json() for one in (rules, contiguous)]
                    for command in (("verify", "step"), ("cost",)))
                self.assertEqual([one["status"] for one in proofs], ["equal", "equal"])
                sums = [[(one["shape"], one["sum"], one["sum_of_squares"])
                         for one in proof["results"]] for proof in proofs]
                self.assertEqual(sums[0], sums[1])
                self.assertLess(costs[0]["communication_bytes"],
                                costs[1]["communication_bytes"])

    def test_experts_without_biases_are_divided(self):
        plan, _ = self.exported("deepseek_v3")
        experts = "model.layers.*.mlp.experts"
        self.assertEqual(
            (plan[experts], plan[experts + ".gate_up_proj"], plan[experts + ".down_proj"]),
            ("moe_tp_experts", "packed_colwise", "rowwise"))

    def test_norms_over_all_heads_gather(self):
        """The norm needs all columns, so no device computes with a part of them."""
        plan, _ = self.exported("olmo2")
        attention = "model.layers.*.self_attn."
        self.assertEqual((plan[attention + "q_proj"], plan[attention + "q_norm"],
                          plan[attention + "o_proj"]),
                         ("colwise_gather_output", "replicate", "rowwise_split_input"))

    def findings(self, name, *command):
        manifest = os.path.join(self.folder.name, name + ".manifest.json")
        with gzip.open(path_of(name), "rt", encoding="utf-8") as file:
            program = json.load(file)
        with open(manifest, "w", encoding="utf-8") as file:
            json.dump({one["name"]: program["values"][one["value"]]
                       for one in program["inputs"] if one["kind"] == "param"}, file)
        done = run(*command, "--no-project", "--mesh", "tp:2", "--rules", self.rules,
                   "--manifest", manifest, "--format", "json")
        said = done.err if command[0] == "export" else done.out
        return [(one["code"], one["message"], one["line"])
                for one in json.loads(said) if one["file"] == self.rules]

    def line_of(self, text):
        return 1 + next(i for i, line in enumerate(OWN_RULES.splitlines()) if text in line)

    def checked(self, name):
        return self.findings(name, "check", "--program", path_of(name), "--notes")

    def test_a_gate_and_up_projection_that_is_sharded_as_one(self):
        at = self.line_of("'gate_up_proj[.]weight$'")
        self.assertTrue([one for one in self.checked("phi3")
                         if one[0] == "SHD230" and one[2] == at and
                         re.search(r"mlp\.gate_up_proj\.weight` \(3 parameters\) holds 2 parts one after "
                                   r"the other, \(inner \d+ \| inner \d+\), which the "
                                   r"program separates at .*modeling_phi3\.py", one[1])])

    def test_a_norm_over_heads_that_are_sharded(self):
        at = self.line_of("'.*'")
        self.assertTrue([one for one in self.checked("olmo2")
                         if one[0] == "SHD214" and one[2] == at and
                         re.search(r"q_norm\.weight` \(3 parameters\).* not sharded over "
                                   "`tp`", one[1])])

    def test_experts_whose_bias_each_device_would_add(self):
        found = self.findings("gpt_oss", "export", "hf-tp-plan", "-o", os.path.join(
            self.folder.name, "gpt_oss.json"))
        self.assertIn(
            ("SHD062", "`hf-tp-plan` leaves `model.layers.*.mlp.experts` replicated: "
             "each device would add all of `down_proj_bias`",
             self.line_of("'experts[.]gate_up_proj$'")), found)

    def test_rules_and_a_program_exclude_each_other(self):
        done = self.check(run("export", "hf-tp-plan", "--no-project", "--mesh", "tp:2",
                              "--rules", self.rules, "--program", path_of("phi3")), 2)
        self.assertIn("`--rules` has no effect on a traced program", done.err)


class Sections(Case):
    def test_sections_of_packs_and_configs_agree_with_the_programs(self):
        """The heads, KV heads, parts and experts that the packs' `model:` sections and
        the configs state are those that the programs show."""
        with open(os.path.join(PROGRAMS, "CONFIGS.json"), encoding="utf-8") as file:
            configs = json.load(file)
        described = set()
        for name, config in configs.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "config.json")
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(config, file)
                given = ("--no-project", "--mesh", "tp:2", "--manifest", path_of(name))
                done = run("check", *given, "--rules", "auto", "--program", path_of(name),
                           "--model", path, "--format", "json", "--notes", "--fail-on",
                           "never")
                if done.rc == 2:
                    continue
                found = {(one["code"], one["message"]) for one in done.json()}
                self.assertEqual([one for one in found if one[0] == "SHD223" or
                                  one[0] == "SHD235" and "traced program" in one[1]], [])
                described.add(name)
        # The others are of families without a pack, or of sizes that no step has.
        self.assertGreater(len(described), 34)

    # Without a pack of rules: no section describes their step. The rotary dimension of
    # `glm4` is odd, which no step has.
    UNDESCRIBED = {"glm4", "jamba", "mamba", "mamba.decode", "mamba.step", "mamba2",
                   "nanochat.step", "qwen3_next"}
    # Why `cost` counts other multiplications than the program has.
    COUNTED_OTHERWISE = {
        "clip": "the tower and the text have other lengths than one `--seq`",
        "t5": "the decoder reads fewer tokens than the encoder",
        "whisper": "the encoder has the length of its table of positions",
        "deepseek_v3.decode": "the class expands the latent of all cached tokens",
        "llama4_text": "the class computes all experts for all tokens",
        "gpt_oss": "the program's mask of the values' product is not seen behind sinks"}
    # Dimensions that a pack leaves unsharded although a factor of them is sharded.
    SHARDED_ALONE = {
        "bert": "the table is stored in slices of its width, and gathered",
        "whisper": "the first convolution's output is gathered"}

    @staticmethod
    def _configs():
        with open(os.path.join(PROGRAMS, "CONFIGS.json"), encoding="utf-8") as file:
            return json.load(file)

    def _printed(self, config, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file)
            return self.check(run(*arguments, "--no-project", "--rules", "auto", "--model",
                                  path, "--format", "json"), 0).json()

    def test_sections_count_the_multiplications_of_the_programs(self):
        """Apart from a convention: a prefill has the logits of the last token only."""
        counted = set()
        for name, config in self._configs().items():
            if name in self.UNDESCRIBED:
                continue
            step = name.partition(".")[2]
            mode = {"step": "train", "decode": "decode"}.get(step, "prefill")
            # A class and three by three patches of 48 numbers.
            length = 10 if name == "vit" else 7
            shown = self._printed(
                config, "cost", "--mesh", "dp:1", "--manifest", path_of(name), "--batch", "2",
                "--seq", str(length), "--mode", mode,
                *(("--kv-len", "8") if mode == "decode" else ()))["time"]["flops"]
            with tempfile.TemporaryDirectory() as folder:
                rules = os.path.join(folder, "rules.yaml")
                with open(rules, "w", encoding="utf-8") as file:
                    file.write("rules:\n  - match: '.*'\n    spec: Replicated\n")
                own = self.check(run("cost", "--no-project", "--mesh", "dp:1", "--rules", rules,
                                     "--program", path_of(name), "--format", "json"),
                                 0).json()["flops"]["program"]
            width = config.get("hidden_size") or config.get("n_embd", 0)
            logits = 2 * 2 * (length - 1) * width * config.get("vocab_size", 0)
            wanted = logits if mode == "prefill" else 0
            if name == "vit":
                wanted = 2 * 2 * 9 * 48 * width  # the convolution of the patches
            with self.subTest(name):
                self.assertEqual(own == shown + wanted, name not in self.COUNTED_OTHERWISE,
                                 (own, shown, wanted))
            counted.add(name)
        self.assertGreater(len(counted), 34)

    def _leading(self, facts, numbers):
        """The factors of which each shard of a dimension has a range."""
        if not numbers:
            return []
        factor = facts["factors"][str(numbers[0])]
        if factor["parts"]:
            return [x for part in factor["parts"] for x in self._leading(facts, part)]
        if factor["role"] == "parts":
            return self._leading(facts, numbers[1:])
        return [numbers[0]]

    def test_packs_shard_both_sides_of_what_a_program_contracts(self):
        """Of a factor of a program, a pack shards all dimensions that it leads, or none: a
        projection into heads and the one out of them, for instance."""
        pairs = 0
        for name, config in self._configs().items():
            if name in self.UNDESCRIBED:
                continue
            plan = self._printed(config, "plan", "--mesh", "tp:2", "--manifest", path_of(name))
            facts = self.check(run("explain", "--no-project", "--program", path_of(name),
                                   "--format", "json"), 0).json()
            sharded = collections.defaultdict(list)
            for one in facts["params"]:
                spec = plan["params"].get(one["param"], {}).get("spec") or []
                for d, dim in enumerate(one["dims"]):
                    for factor in self._leading(facts, dim["factors"] or []):
                        sharded[factor].append(d < len(spec) and bool(spec[d]))
            mixed = [factor for factor, found in sharded.items() if any(found) and
                     not all(found)]
            pairs += sum(all(found) and len(found) > 1 for found in sharded.values())
            with self.subTest(name):
                self.assertEqual(bool(mixed), name in self.SHARDED_ALONE, mixed)
        self.assertGreater(pairs, 200)


class Literals(Case):
    """DINOv3 views queries, keys and values with the number of all heads, and its
    feed-forward layer has no such size."""

    def exported(self, folder, program):
        path = os.path.join(folder, "program.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(program, file)
        done = run("export", "hf-tp-plan", "--no-project", "--mesh", "tp:2", "--program",
                   path, "-o", os.path.join(folder, "plan.json"))
        self.assertEqual(done.rc, 0, done)
        with open(os.path.join(folder, "plan.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_heads_whose_number_is_a_literal_are_gathered(self):
        with gzip.open(os.path.join(TESTDATA, "reports", "literal-heads",
                                    "dinov3_vit.program.json.gz")) as file:
            program = json.load(file)
        block = "model.layer.*.attention."
        with tempfile.TemporaryDirectory() as folder:
            plan = self.exported(folder, program)
            for name in ("q_proj", "k_proj", "v_proj"):
                self.assertEqual(plan[block + name], "colwise_gather_output")
            self.assertEqual(plan[block + "o_proj"], "rowwise_split_input")
            self.assertEqual(plan["model.layer.*.mlp.up_proj"], "colwise")
            # The same code with -1 in place of the number.
            del program["literals"]
            plan = self.exported(folder, program)
            self.assertEqual(plan[block + "q_proj"], "colwise")
            self.assertEqual(plan[block + "o_proj"], "rowwise")

    def test_a_literal_of_no_value_is_refused(self):
        base = {"value": 0, "dims": [0]}
        with gzip.open(path_of("own")) as file:
            program = json.load(file)
        for literal, text in (
                ({**base, "value": 10 ** 6}, "`value` of `literals` must be a number"),
                ({**base, "dims": [7]}, "`dims` of `literals` must be a number from 0"),
                ({**base, "dims": 7}, "`dims` of `literals` must be a list"),
                ({"dims": [0]}, "`value` of `literals` must be a number"),
                ({**base, "at": [99, 1]}, "`at` of `literals` must be a number from 0"),
                ({**base, "at": 3}, "`at` must be the index of a file and a line"),
                (5, "an entry of `literals` must be an object")):
            with self.subTest(literal), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "program.json")
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({**program, "literals": [literal]}, file)
                done = run("export", "hf-tp-plan", "--no-project", "--mesh", "tp:2",
                           "--program", path)
                self.assertEqual(done.rc, 2, done)
                self.assertIn(text, repr(done))


class Types(Case):
    """What was measured over the model types of transformers, where PyTorch is
    (tests/runtimes/torch_programs_answers.py and torch_plans_answers.py)."""

    def recorded(self, kind):
        types = load("TYPES.json")["types"]
        return {name: one[kind] for name, one in types.items()
                if "operations" in one.get(kind, {})}

    def test_types_are_recorded_and_computed_as_pytorch_does(self):
        for kind, least in (("prefill", 106), ("decode", 97), ("step", 100)):
            found = self.recorded(kind)
            self.assertGreaterEqual(len(found), least)
            for name, one in found.items():
                with self.subTest(name, kind=kind):
                    self.assertEqual(one["unknown"], [])
                    # The chunks of this one's training step have too many elements
                    # for a proof, whose refusal counts as nothing proved.
                    if (name, kind) == ("kimi_linear", "step"):
                        self.assertIn("more than 33,554,432 elements", one["proof"])
                    else:
                        self.assertEqual(one["proof"], "equal")
                    # Identity experts are chosen by data, which no branch has.
                    # AdamW divides a gradient that is zero but for rounding, such as
                    # that of a key's bias, by its own size: such parameters differ by
                    # up to the learning rate.
                    most = 2e-3 if kind == "step" else 2e-5
                    if name != "longcat_flash":
                        self.assertLessEqual(one["difference"], most)

    def test_no_structure_is_wrong(self):
        counts = {}
        for kind in ("prefill", "decode", "step"):
            for name, one in self.recorded(kind).items():
                with self.subTest(name, kind=kind):
                    self.assertEqual((one["facts"]["wrong"], one["mixed"]), (0, []))
                for key, count in one["facts"].items():
                    counts[key] = counts.get(key, 0) + count
        self.assertGreater(counts["right"], 17000)
        self.assertLess(counts["unknown"], 240)

    def test_no_plan_of_a_program_changes_logits(self):
        """Two processes compute the logits of one, under the plan of each program that
        is recorded. Each matrix has a style, or a sentence that states why not."""
        plans = load("PLANS.json")["types"]
        self.assertEqual({name for name, one in plans.items() if "no_plan" in one},
                         {"dbrx", "jetmoe", "llama4", "xglm"})
        self.assertGreaterEqual(len(plans), 120)
        for name, one in plans.items():
            if "no_plan" in one:
                continue
            with self.subTest(name):
                self.assertLess(one["logits"], 1e-5)
                self.assertGreater(one["sharded"], 0)
                self.assertEqual(one["neither"], [])


    def test_distributed_models_compute_what_one_device_does(self):
        """Of each model its results and gradients under plan.distribute, whose plan
        follows from its program, on two and on four processes
        (tests/runtimes/distribute_answers.py, which also compares bytes). Where DTensor
        stops, the error has the line and what to write there."""
        recorded = load("DISTRIBUTED.json")
        models = recorded["models"]
        self.assertGreaterEqual(len(models), 40)
        self.assertEqual({name.partition(".")[0] for name in models}, {
            "diffusers", "litgpt", "own", "peft", "timm", "transformers"})
        stopped = []
        for name, found in models.items():
            self.assertEqual(set(found), set(recorded["meshes"]))
            for ranks, one in found.items():
                with self.subTest(name, ranks=ranks):
                    if "error" in one:
                        self.assertRegex(one["error"], r"\.py:\d+, in `.*\. Write ")
                        stopped.append(name)
                        continue
                    self.assertGreater(one["sharded"], 0)
                    self.assertLess(one["results"], 1e-4)
                    self.assertLess(one["gradients"], 1e-4)
        self.assertEqual(stopped, ["timm.swin", "timm.vit"])


class Values(Case):
    def proved(self, name, folder):
        rules = os.path.join(folder, name + ".yaml")
        path = path_of(name)
        done = run("suggest", "--no-project", "--mesh", "tp:2", "--program", path, "-o",
                   rules)
        if done.rc:
            return name, repr(done)[:2000]
        plan = proofs.plan_of(folder, name, proofs.manifest_of(proofs.load(path)),
                              "tp:2", rules)
        done = proofs.prove(path, plan)
        if done.rc:
            return name, repr(done)[:2000]
        report = done.json()
        if report["status"] != "equal" or not report["complete"]:
            return name, "the verdict is " + report["status"]
        if not report["collectives"]:
            return name, "nothing is sent"
        if self.off(name, report) > 1e-4:
            return name, f"PyTorch computes other values: {self.off(name, report)}"
        return name, ""

    def off(self, name, report):
        """How far the dense results are from those of PyTorch for the same inputs
        (tests/traced/record_torch.py), which computes in float32."""
        values, results = load("VALUES.json")[name], report["results"]
        assert len(values) == len(results)
        worst = 0
        for (total, squares), one in zip(values, results):
            if not math.isfinite(squares):
                continue
            size = math.prod(one["shape"])
            most = math.sqrt(size * max(squares, one["sum_of_squares"])) + 1e-9
            worst = max(worst, abs(one["sum"] - total) / most,
                        abs(one["sum_of_squares"] - squares) / (squares + 1e-12))
        return worst

    def test_suggested_plans_are_proved_and_values_are_those_of_pytorch(self):
        with tempfile.TemporaryDirectory() as folder, \
                concurrent.futures.ThreadPoolExecutor(2) as pool:
            made = [pool.submit(self.proved, name, folder) for name in part_of(NAMES, 3)]
            for one in made:
                name, fault = one.result()
                with self.subTest(name):
                    self.assertEqual(fault, "")

    def test_the_flops_of_a_model_are_those_of_its_matmuls(self):
        """Llama at these sizes: two for each multiplication of a weight and a token,
        and the matmuls of attention, without a share for the causal half."""
        answers = load("llama.answers.json")
        sizes = answers["sizes"]
        tokens, length = 14, 7
        weights = sum(math.prod(math.prod(program_test.size_of([factor]) for factor in
                                          program_test.parse(dim, sizes)) for dim in dims)
                      for name, dims in answers["params"].items()
                      if len(dims) == 2 and "embed_tokens" not in name)
        layers = sum("q_proj" in name for name in answers["params"])
        width = sizes["kv"] * sizes["group"] * sizes["head_dim"]
        want = 2 * tokens * weights + layers * 2 * 2 * tokens * length * width
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("rules:\n  - match: '.*'\n    spec: Replicated\n")
            cost = self.check(run(
                "cost", "--no-project", "--program", path_of("llama"), "--mesh", "tp:1",
                "--rules", rules, "--format", "json"), 0).json()
        flops = cost["flops"]["program"] + cost["flops"]["masked"]
        self.assertEqual(flops, want)


if __name__ == "__main__":
    unittest.main()
