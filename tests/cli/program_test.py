"""What shardc concludes from traced programs: the recorded ones in
testdata/programs against their answers, and the commands that read one."""

import collections
import gzip
import json
import os
import re
import tempfile
import unittest

import jsonschema

from driver import ROOT, TESTDATA, Case, run

PROGRAMS = os.path.join(TESTDATA, "programs")
# Those of models of JAX libraries (tests/traced/record_libraries.py).
LIBRARIES = os.path.join(TESTDATA, "library_programs")


# What a factor of an answer is called where its uses show what it counts.
ROLES = {"stream": "stream", "heads": "heads", "kv": "kv_heads", "group": "group",
         "head_dim": "head_dim", "inner": "inner latent", "experts": "experts",
         "vocab": "vocab out", "layers": "layers", "latent": "latent",
         "rank": "latent"}
# Names that differ: the head of umt5 is never read; dense nets have no residual stream;
# the heads of linear attention and Mamba are those of products without a sequence, and
# their groups share a state and no cached keys; an adapter on the stream is a block with
# a function between its projections; MLA's latent width is more than half of what it
# connects; a scale of experts is looked up.
OTHERS = {("bonsai_umt5", "stream", "unknown"), ("bonsai_umt5", "vocab", "unknown"),
          ("flax_ppo", "inner", "stream"), ("flax_vae", "latent", "stream"),
          ("flax_sst2", "stream", "in"), ("bonsai_mamba2", "head_dim", "inner"),
          ("gdn", "head_dim", "inner"), ("mamba2", "head_dim", "inner"),
          ("gdn", "kv", "state_groups"), ("mamba2", "kv", "state_groups"),
          ("lora", "rank", "inner"), ("mla", "latent", "inner"),
          ("tunix_gemma4", "experts", "vocab")}


def load(name):
    with open(os.path.join(PROGRAMS, name), encoding="utf-8") as file:
        return json.load(file)


def size_of(product):
    out = 1
    for item in product:
        out *= item[0]
    return out


def parse(text, sizes):
    """An answer as [(size, name or None, parts or None)]; a number has no
    name, and `(group+2)` and `sum(a,b)` have parts."""
    words = re.findall(r"[a-z_]+\d*|\d+|[*()+,]", text)

    def product():
        out = atom()
        while words and words[0] == "*":
            words.pop(0)
            out += atom()
        return out

    def parts(separator):
        out = [product()]
        while words.pop(0) == separator:
            out.append(product())
        return out

    def atom():
        word = words.pop(0)
        if word == "sum":
            words.pop(0)
            found = parts(",")
            return [(sum(map(size_of, found)), None, found)]
        if word == "(":
            found = []
            for part in parts("+"):
                number = len(part) == 1 and part[0][1:] == (None, None)
                found += [[]] * part[0][0] if number else [part]
            return [(sum(map(size_of, found)), None, found)]
        size = int(word) if word.isdigit() else sizes[word]
        return [] if size == 1 else [(size, None if word.isdigit() else word,
                                      None)]

    return product()


class Answers(Case):
    """A factor of the program may be finer than the answer's: the halves that
    a rotary embedding exchanges are parts of `head_dim`. A boundary of the
    answer that the program lacks counts as unknown, and a boundary or a tie
    that contradicts the answer as wrong."""

    def product(self, numbers, factors):
        out = []
        for number in numbers:
            factor = factors[str(number)]
            parts = [self.product(part, factors) for part in factor["parts"]]
            out.append((factor["size"], number, parts or None))
        return out

    def blocks(self, item, size):
        """The parts of each of the blocks of this size of which a sum
        consists; None if a part is in two of them."""
        blocks, own = [[]], 0
        for part in item[2]:
            if own == size:
                blocks.append([])
                own = 0
            blocks[-1].append(part)
            own += size_of(part)
            if own > size:
                return None
        return blocks if own == size else None

    def verdict(self, answer, found, names):
        answer, found = list(answer), list(found)
        while answer and found:
            want, have = answer[0], found[0]
            if want[0] == have[0]:
                if want[2] and have[2]:
                    rest = list(have[2])
                    for part in want[2]:
                        own, size = [], 0
                        while rest and size < size_of(part):
                            own.append(rest.pop(0))
                            size += size_of(own[-1])
                        if size != size_of(part):
                            return "wrong"
                        if len(own) == 1:
                            inner = self.verdict(part, own[0], names)
                            if inner != "right":
                                return inner
                elif want[2]:
                    return "unknown"
                elif want[1] and not have[2]:
                    names.setdefault(have[1], set()).add(want[1])
                answer.pop(0)
                found.pop(0)
            elif want[0] > have[0]:
                if want[2] or want[0] % have[0]:
                    return "wrong"
                answer[0] = (want[0] // have[0], None, None)
                found.pop(0)
            elif have[2]:
                # A number of equal blocks one after the other.
                inside, size = [], answer.pop(0)[0]
                while answer and size < have[0]:
                    inside.append(answer.pop(0))
                    size *= inside[-1][0]
                blocks = self.blocks(have, have[0] // want[0])
                if want[1] or size != have[0] or not blocks:
                    return "wrong"
                for block in blocks:
                    whole = block[0] if len(block) == 1 else [
                        (have[0] // want[0], None, block)]
                    verdict = self.verdict(inside, whole, names)
                    if verdict != "right":
                        return verdict
                found.pop(0)
            else:
                return "unknown"
        return "wrong" if answer or found else "right"

    def judged(self, path, answers, sizes, schema):
        """How many dimensions of a program are as the answers have them, and how many
        are not."""
        counts = collections.Counter()
        names = {}
        facts = self.check(run("explain", "--program", path, "--format", "json"),
                           0).json()
        self.assertEqual(list(schema.iter_errors(facts)), [])
        found = {one["param"]: one["dims"] for one in facts["params"]}
        self.assertEqual(set(found), set(answers))
        for param, dims in answers.items():
            for answer, dim in zip(dims, found[param], strict=True):
                verdict = self.verdict(
                    parse(answer, sizes),
                    self.product(dim["factors"], facts["factors"]), names)
                counts[verdict] += 1
                with self.subTest(path=path, param=param, answer=answer):
                    self.assertEqual(verdict, "right")
        # One factor of the program is one of the model.
        for number, known in names.items():
            with self.subTest(path=path, factor=number):
                self.assertEqual(len(known), 1, known)
            name = min(known).rstrip("0123456789")
            role = facts["factors"][str(number)]["role"]
            if name in ROLES:
                counts["named"] += 1
            if name in ROLES and role not in ROLES[name].split():
                self.others.add((os.path.basename(path).split(".")[0], name, role))
        return counts

    def test_recorded_programs_have_the_structure_of_their_models(self):
        sizes = load("SIZES.json")
        with open(os.path.join(LIBRARIES, "ANSWERS.json"), encoding="utf-8") as file:
            libraries = json.load(file)
        with open(os.path.join(ROOT, "schemas", "param-facts.schema.json"),
                  encoding="utf-8") as file:
            schema = jsonschema.Draft7Validator(json.load(file))
        cases = []
        for file in sorted(os.listdir(LIBRARIES)):
            if file.endswith(".program.json.gz"):
                one = libraries[file.split(".")[0]]
                cases.append((os.path.join(LIBRARIES, file), one["params"],
                              one["sizes"]))
        for file in sorted(os.listdir(PROGRAMS)):
            if file.endswith(".program.json.gz"):
                model = file.split(".")[0]
                cases.append((os.path.join(PROGRAMS, file),
                              load(model + ".answers.json"), sizes[model]))
        self.assertEqual(len(libraries), 31)
        self.assertEqual(sum(".step." in one[0] for one in cases[:35]), 4)
        self.others = set()
        counts = sum((self.judged(*one, schema) for one in cases),
                     collections.Counter())
        self.assertGreater(counts["right"], 2900, counts)
        self.assertEqual(set(counts), {"right", "named"})
        self.assertGreater(counts["named"], 400, counts)
        self.assertEqual(self.others, OTHERS)

    def test_training_steps_of_libraries_compute_what_the_dense_ones_do(self):
        for name in ("equinox_lm", "tunix_qwen3_moe", "maxtext_llama2_scanned",
                     "maxtext_deepseek"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                rules = os.path.join(folder, "rules.yaml")
                step = ("--mesh", "fsdp:2,tp:2", "--program", os.path.join(
                    LIBRARIES, name + ".step.program.json.gz"))
                self.check(run("suggest", *step, "--force", "-q", "-o", rules), 0)
                proof = self.check(run("verify", "step", *step, "--rules", rules), 0)
                self.assertRegex(proof.out.splitlines()[-1], "^equal")

    def test_programs_of_libraries_have_lines_and_name_what_is_not_known(self):
        """Each operation has a line of the library, and what has no class is listed."""
        unknown = {}
        for file in sorted(os.listdir(LIBRARIES)):
            if not file.endswith(".program.json.gz"):
                continue
            with gzip.open(os.path.join(LIBRARIES, file)) as opened:
                program = json.load(opened)
            for op in program["ops"]:
                self.assertTrue("at" in op or op["op"] == "const", (file, op))
            for name in program["files"]:
                self.assertRegex(name, r"^(bonsai|flax/examples|google_tunix|maxtext|tests)/")
            if program["unknown"]:
                unknown[file.split(".")[0]] = [o["primitive"] for o in program["unknown"]]
        self.assertEqual(unknown, {
            "flax_seq2seq": ["constant"]})


class Commands(Case):
    def program(self, name):
        return os.path.join(PROGRAMS, name + ".program.json.gz")

    def params(self, name):
        with gzip.open(self.program(name)) as file:
            return [i["name"] for i in json.load(file)["inputs"]
                    if i["kind"] == "param"]

    def fused(self):
        """A parameter of gpt_fused whose queries, keys and values follow each
        other in dimension 1."""
        answers = load("gpt_fused.answers.json")
        return next(name for name, dims in sorted(answers.items())
                    if len(dims) == 2 and "3*" in dims[1] or
                    len(dims) == 2 and dims[1].startswith("sum"))

    def test_a_fused_dimension_has_parts_and_the_line_that_separates_them(self):
        out = self.check(run("explain", self.fused(), "--program",
                             self.program("gpt_fused")), 0).out
        self.assertIn("devices    none: contiguous ranges would mix its 3 parts",
                      out)
        self.assertRegex(out, r"slices separate its parts \(\S+\.py:\d+\)")
        self.assertEqual(len(re.findall(r"    part ", out)), 3)

    def test_a_name_that_the_program_lacks_is_refused(self):
        result = self.check(run("explain", "nothing/here", "--program",
                                self.program("mqa")), 2)
        self.assertIn("nothing/here", result.err)

    def test_a_malformed_program_is_refused_by_each_command(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "p.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"schema": "shardc.program/v1", "traced": 3}')
            for command in (["explain", "w"],
                            ["suggest", "--mesh", "tp:2"],
                            ["check", "--mesh", "tp:2", "--rules",
                             "builtin:llama", "--manifest", path]):
                with self.subTest(command):
                    result = self.check(
                        run(*command, "--program", path), 2)
                    self.assertEqual(result.out, "")
                    self.assertIn("`traced` must be an object", result.err)

    def test_a_suggestion_from_a_program_needs_a_mesh(self):
        result = self.check(run("suggest", "--program", self.program("mqa"),
                                "--devices", "8"), 2)
        self.assertIn("`--program` needs a mesh", result.err)

    def suggested(self, name, mesh, folder):
        rules = os.path.join(folder, "rules.yaml")
        self.check(run("suggest", "--program", self.program(name), "--mesh",
                       mesh, "--force", "-o", rules), 0)
        manifest = os.path.join(folder, "manifest.json")
        with gzip.open(self.program(name)) as file:
            program = json.load(file)
        with open(manifest, "w", encoding="utf-8") as file:
            json.dump({i["name"]: program["values"][i["value"]]
                       for i in program["inputs"] if i["kind"] == "param"},
                      file)
        plan = json.loads(self.check(
            run("plan", "--mesh", mesh, "--rules", rules, "--manifest",
                manifest), 0).out)
        return {n: p["spec"] for n, p in plan["params"].items()}

    def test_suggested_rules_shard_the_factors_that_experts_shard(self):
        """Names of the recorded programs are random: `tp` is on heads, on the
        inner width of MLPs and on the vocabulary, and on nothing else."""
        answers = load("llama.answers.json")
        with tempfile.TemporaryDirectory() as folder:
            specs = self.suggested("llama", "fsdp:2,tp:2", folder)
        self.assertEqual(set(specs), set(answers))
        for name, dims in answers.items():
            for d, dim in enumerate(dims):
                first = dim.split("*")[0]
                spec = specs[name][d] if d < len(specs[name]) else None
                with self.subTest(name=name, dim=dim):
                    self.assertEqual("tp" in (spec or []),
                                     first in ("kv", "inner", "vocab"))

    def test_check_reports_specs_that_the_program_contradicts(self):
        fused = self.fused()
        with tempfile.TemporaryDirectory() as folder:
            self.suggested("gpt_fused", "tp:2", folder)
            rules = os.path.join(folder, "own.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("rules:\n"
                           f"  - match: '^{fused}$'\n    spec: [null, TP]\n"
                           "  - match: '.*'\n    spec: Replicated\n")
            out = self.check(
                run("check", "--mesh", "tp:2", "--rules", rules, "--manifest",
                    os.path.join(folder, "manifest.json"), "--program",
                    self.program("gpt_fused"), "--format", "json", "--fail-on",
                    "never", "--select", "SHD230"), 0).json()
        found = [f for f in out if "the program separates" in f["message"]]
        self.assertEqual(len(found), 1, out)
        self.assertRegex(found[0]["message"],
                         r"3 parts one after the other.*\.py:\d+")
        self.assertEqual(found[0]["code"], "SHD230")

    def test_a_program_is_the_manifest_of_its_parameters(self):
        """In each command, from a file or standard input; `check --program` alone."""
        path = self.program("llama.step")
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.yaml")
            given = ["--mesh", "fsdp:2,tp:2", "--rules", rules]
            self.check(run("suggest", *given[:2], "--program", path, "-o", rules), 0)
            plan = self.check(run("plan", *given, "--manifest", path), 0).json()
            self.assertEqual(sorted(plan["params"]), sorted(self.params("llama.step")))
            with gzip.open(path, "rt", encoding="utf-8") as file:
                read = self.check(run("plan", *given, "--manifest", "-",
                                      stdin=file.read()), 0).json()
            self.assertEqual(read["params"], plan["params"])
            named = self.check(run("check", *given, "--manifest", path, "--program",
                                   path), 0)
            alone = self.check(run("check", *given, "--program", path), 0)
            self.assertEqual(alone.out, named.out)
            with open(rules, "w", encoding="utf-8") as file:
                file.write("rules:\n  - match: nothing\n    spec: [TP]\n")
            self.assertIn("SHD", self.check(run("check", *given, "--program", path), 1).out)

    def checked(self, folder, rules, out=4, ops=()):
        """The findings about y = (x a) b, whose inner width is 64, and further ops of
        y, for these rules."""
        f32 = {"dtype": "F32"}
        program = {
            "schema": "shardc.program/v1", "traced": {"by": "test", "function": "own:f"},
            "files": ["own.py"], "assumptions": [], "unknown": [],
            "values": [{"shape": shape, **f32} for shape in (
                [8, 4], [4, 64], [64, out], [8, 64], [8, out], [8, out])],
            "inputs": [{"value": 0, "kind": "data", "name": "x"},
                       {"value": 1, "kind": "param", "name": "a"},
                       {"value": 2, "kind": "param", "name": "b"}],
            "ops": [{"op": "dot", "in": [left, right], "out": [to], "at": [0, line],
                     "lhs_contract": [1], "rhs_contract": [0], "lhs_batch": [],
                     "rhs_batch": []}
                    for left, right, to, line in ((0, 1, 3, 7), (3, 2, 4, 8))] +
            list(ops),
            "outputs": [4 + len(ops)]}
        texts = {"own.json": json.dumps(program), "rules.yaml": rules,
                 "tree.json": json.dumps({"a": program["values"][1],
                                          "b": program["values"][2]})}
        for name, text in texts.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        found = run("check", "--no-project", "--mesh", "fsdp:2,tp:2", "--rules",
                    os.path.join(folder, "rules.yaml"), "--manifest",
                    os.path.join(folder, "tree.json"), "--program",
                    os.path.join(folder, "own.json"), "--format", "json",
                    "--fail-on", "never", "--select", "SHD237").json()
        return [(one["line"], one["message"], one.get("help")) for one in found]

    def test_a_dot_that_reshards_a_weight_is_found_if_less_can_be_sent(self):
        """A device of tp has 2 columns of b [64, 4], and needs 32 rows: it sends 256 of
        its 512 bytes. The partial sums of 4 rows are 64 bytes."""
        clash = ("rules:\n  - match: a\n    spec: [null, tp]\n"
                 "  - match: b\n    spec: [null, tp]\n")
        right = clash.replace("match: b\n    spec: [null, tp]",
                              "match: b\n    spec: [tp, null]")
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.checked(folder, clash), [
                (4, "a dot at own.py:8 reshards its weight `b` over `tp`, which shards its "
                    "activation [8, 64] on another dimension. The program sends 320 B a "
                    "device, and 64 B with `tp` on dimension 0 of the weight",
                 "shard dimension 0 over `tp`")])
            self.assertEqual(self.checked(folder, right), [])

    def test_an_unknown_op_that_gathers_its_operand_is_found(self):
        op = {"op": "opaque", "primitive": "my_kernel", "reason": "no class",
              "in": [4], "out": [5], "at": [0, 9]}
        rules = "rules:\n  - match: '.*'\n    spec: Replicated\n"
        with tempfile.TemporaryDirectory() as folder:
            found = self.checked(folder, rules, ops=[op])
        self.assertEqual([(message, way) for _, message, way in found], [
            ("an op that is not known, `my_kernel` at own.py:9, gathers dimension 0 of "
             "its operand [8, 4] over `fsdp` of size 2", "run the op in `jax.shard_map`")])


# Rules of a section that takes the heads of testdata's llama for others.
SECTION = """version: 1
rules:
  - match: '(q|k|v|gate|up)_proj\\.weight$'
    spec: [TP, FSDP]
  - match: '(o|down)_proj\\.weight$'
    spec: [FSDP, DOWN]
  - match: 'norm\\.weight$'
    spec: Replicated
  - match: 'weight$'
    spec: [FSDP, null]
model:
  dims: {d: hidden_size, n: N, h: 60 // n, k: 20 // h, v: vocab_size, f: intermediate_size}
  repeat: num_hidden_layers
  params:
    embed: ['embed_tokens\\.weight$', [v, d]]
    n1: ['layers\\.$i\\.input_layernorm\\.weight$', [d]]
    q: ['layers\\.$i\\.self_attn\\.q_proj\\.weight$', [n h, d]]
    k: ['layers\\.$i\\.self_attn\\.k_proj\\.weight$', [k h, d]]
    v: ['layers\\.$i\\.self_attn\\.v_proj\\.weight$', [k h, d]]
    o: ['layers\\.$i\\.self_attn\\.o_proj\\.weight$', [d, n h]]
    up: ['layers\\.$i\\.mlp\\.(up|gate|down)_proj\\.weight$', [f, d]]
  skip: [norm, head, gate, down]
  begin: x = lookup(embed, ids) @resid
  layer:
    - y = rmsnorm(x, n1) @normed
    - q = linear(y, q)
    - k = linear(y, k)
    - v = linear(y, v)
    - a = attention(q, k, v)
    - m = linear(a, o)
    - x = add(x, m) @resid
  end: []
"""
CONFIG = {"model_type": "llama", "hidden_size": 48, "num_attention_heads": 6,
          "num_key_value_heads": 2, "head_dim": 10, "intermediate_size": 112,
          "num_hidden_layers": 3, "vocab_size": 160}


class Evidence(Case):
    """Where a program shows what names, a config.json or a section state, it is the
    better evidence."""

    def found(self, program, rules, config=None, traced=True, mesh="fsdp:2,tp:2"):
        with tempfile.TemporaryDirectory() as folder:
            given = {"rules.yaml": rules}
            if config:
                given["config.json"] = json.dumps(config)
            for name, text in given.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            path = os.path.join(TESTDATA, program)
            result = run(
                "check", "--no-project", "--mesh", mesh, "--rules",
                os.path.join(folder, "rules.yaml"), "--manifest", path,
                *(["--program", path] if traced else []),
                *(["--model", os.path.join(folder, "config.json")] if config else []),
                "--format", "json", "--notes", "--fail-on", "never")
        return {(one["code"], one["message"]) for one in result.json()}

    def test_what_names_make_of_a_parameter_is_not_reported_with_a_program(self):
        program = "library_programs/flax_imagenet.program.json.gz"
        rules = self.check(run("suggest", "--program", os.path.join(TESTDATA, program),
                               "--mesh", "fsdp:2,tp:2"), 0).out
        by_name = self.found(program, rules, traced=False)
        self.assertIn("SHD227", {code for code, _ in by_name})
        self.assertEqual({one for one in self.found(program, rules)
                          if one[0] == "SHD227"}, set())

    def test_rules_of_a_program_are_not_refused_because_of_names(self):
        """The last projection of Bonsai's ConvNeXt ends in another tower's width, so
        that its bias is sharded and the projection is not."""
        self.check(run("suggest", "--mesh", "fsdp:2,tp:2", "--program", os.path.join(
            TESTDATA, "library_programs/bonsai_convnext.program.json.gz")), 0)

    def test_a_config_that_the_program_contradicts(self):
        llama = "torch_programs/llama.program.json.gz"
        rules = "rules:\n  - match: '.*'\n    spec: Replicated\n"
        wrong = dict(CONFIG, num_attention_heads=3, num_key_value_heads=1, head_dim=20,
                     vocab_size=200)
        q_proj = ("in `model.layers.0.self_attn.q_proj.weight` at "
                  "transformers/models/llama/modeling_llama.py:244; lints that count "
                  "heads are skipped")
        self.assertEqual(
            {one[1] for one in self.found(llama, rules, wrong) if one[0] == "SHD223"},
            {f"the configuration gives 3 attention heads, and the program shows 6 {q_proj}",
             f"the configuration gives 1 KV heads, and the program shows 2 {q_proj}",
             "the configuration gives 20 elements for each attention head, and the "
             f"program shows 10 {q_proj}",
             "the configuration gives 200 rows of the vocabulary, and the program shows "
             "160 in `model.embed_tokens.weight` at "
             "transformers/models/llama/modeling_llama.py:372"})
        self.assertEqual([one for one in self.found(llama, rules, wrong, traced=False)
                          if one[0] == "SHD223" and "program" in one[1]], [])
        self.assertEqual([one for one in self.found(llama, rules, CONFIG)
                          if one[0] == "SHD223"], [])

    def test_a_config_whose_sizes_the_program_has_in_parts(self):
        """BLOOM's slopes split its heads in (4 | 2), DeepSeek's router its experts in
        2 x 2, and the groups of a Mamba mixer have the form of KV heads."""
        rules = "rules:\n  - match: '.*'\n    spec: Replicated\n"
        for name, config in {
                "bloom": {"hidden_size": 48, "n_head": 6, "vocab_size": 160},
                "deepseek_v3": {"hidden_size": 48, "num_attention_heads": 6,
                                "n_routed_experts": 4, "kv_lora_rank": 16,
                                "qk_rope_head_dim": 4, "qk_nope_head_dim": 8,
                                "v_head_dim": 6, "vocab_size": 160},
                "mamba2": {"hidden_size": 48, "num_heads": 8, "head_dim": 12,
                           "n_groups": 2, "state_size": 20, "vocab_size": 160}}.items():
            with self.subTest(name):
                found = self.found(f"torch_programs/{name}.program.json.gz", rules,
                                   {"model_type": name, **config})
                self.assertEqual([one for one in found if one[0] == "SHD223"], [])

    def test_a_config_of_linear_attention(self):
        """The elements of a value are read from a state as a group's scores are from
        keys, and the program does not show as many heads."""
        found = self.found(
            "steps/linear_attention.program.json.gz",
            "rules:\n  - match: '.*'\n    spec: Replicated\n",
            {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 8,
             "num_key_value_heads": 8, "vocab_size": 96})
        self.assertEqual([one for one in found if one[0] == "SHD223"], [])

    def test_experts_that_the_program_contradicts(self):
        mixtral = "torch_programs/mixtral.program.json.gz"
        rules = "rules:\n  - match: '.*'\n    spec: Replicated\n"
        found = {one[1] for one in self.found(
            mixtral, rules, {"model_type": "mixtral", "num_local_experts": 77})
            if "experts" in one[1]}
        self.assertRegex("".join(found), r"^the configuration gives 77 experts, and the "
                         rf"program shows \d+ in `model\.layers\.0\.mlp\.")

    def test_a_section_that_divides_a_dimension_in_another_way(self):
        """Three heads of 20 have the sizes of six heads of 10."""
        llama = "torch_programs/llama.program.json.gz"
        right = SECTION.replace("DOWN", "TP")
        self.assertEqual(
            {one[1] for one in self.found(llama, right.replace("N,", "3,"), CONFIG)
             if one[0] == "SHD235" and "traced" in one[1]},
            {f"`model.layers.*.self_attn.{name}_proj.weight` (3 parameters) has the role "
             f"`{name}`, whose dimension `{heads} h` the traced program divides as {text}"
             for name, heads, text in (
                 ("q", "n", "kv_heads 2 x group 3 x (head_dim 5 | head_dim 5)"),
                 ("k", "k", "kv_heads 2 x (head_dim 5 | head_dim 5)"),
                 ("v", "k", "kv_heads 2 x head_dim 10"),
                 ("o", "n", "kv_heads 2 x group 3 x head_dim 10"))})
        self.assertEqual(
            [one for one in self.found(llama, right.replace("N,", "6,"), CONFIG)
             if one[0] == "SHD235" and "traced" in one[1]], [])

    def test_parameters_of_layers_are_one_finding(self):
        found = self.found("torch_programs/llama.program.json.gz",
                           SECTION.replace("DOWN", "null").replace("N,", "6,"), CONFIG)
        self.assertEqual(
            {one for one in found if one[0] in ("SHD214", "SHD215")},
            {("SHD214", "`model.layers.*.self_attn.o_proj.weight` (3 parameters) is not "
              "sharded over `tp` of size 2 as `model.layers.*.self_attn.v_proj.weight` "
              "is, but both have kv_heads 2, which a dot contracts at "
              "transformers/models/llama/modeling_llama.py:270"),
             ("SHD215", "`model.layers.*.mlp.down_proj.weight` (3 parameters) is not "
              "sharded over `tp` of size 2 as `model.layers.*.mlp.up_proj.weight` is, "
              "but both have inner 112, which a dot contracts at "
              "transformers/models/llama/modeling_llama.py:164")})

    def test_a_sharded_dimension_that_a_loop_runs_over(self):
        scanned = "constraints/scan_llama.program.json.gz"
        name = self.check(run("explain", "--program", os.path.join(TESTDATA, scanned)),
                          0).out.partition(" ")[0]
        rules = f"rules:\n  - match: '{name}$'\n    spec: [AXIS]\n" \
            "  - match: '.*'\n    spec: Replicated\n"
        for axis in ("fsdp", "tp"):
            with self.subTest(axis):
                self.assertRegex(
                    next(one[1] for one in self.found(
                        scanned, rules.replace("AXIS", axis), mesh="fsdp:3,tp:3")
                        if one[0] == "SHD224"),
                    rf"^dimension 0 of `{name}` counts layers 3, which a loop runs over at "
                    rf"[\w/.]+:\d+, and is sharded over `{axis}` of size 3: every turn of "
                    "the loop gathers its layer$")


if __name__ == "__main__":
    unittest.main()
