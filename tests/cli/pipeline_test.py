"""`shardc cost --stages`: bytes by rank, times, assignments and refusals."""

import json
import os
import random
import re
import tempfile
import unittest

from described import DescribedCase
from driver import MODELS, TESTDATA, Case, run


def inputs(model, ending="json.gz"):
    return ["--manifest",
            os.path.join(MODELS, f"{model}.hf.manifest.{ending}"),
            "--model", os.path.join(TESTDATA, "configs",
                                    f"{model}.config.json"),
            "--rules", "auto", "--no-project"]


LLAMA = inputs("llama-3-8b", "json")
SIZES = ["--batch", "16", "--seq", "4096"]


def counts(value):
    return [stage["layers"][1] - stage["layers"][0]
            for stage in value["stages"]]


class Pipeline(DescribedCase):
    SCHEMA = "pipeline"

    def pipeline(self, *arguments, mesh="pp:4,tp:2", model=LLAMA,
                 sizes=SIZES, rc=0):
        return self.described(run("cost", *model, "--mesh", mesh, "--stages",
                                  "pp", *sizes, *arguments, "--format", "json"),
                              rc)

    def test_each_rank_has_the_parameters_of_its_stages(self):
        value = self.pipeline("--assign", "even", "--microbatches", "8")
        self.assertEqual([rank["parameters"] for rank in value["ranks"]],
                         [2270298112, 1744961536, 1744961536, 2270306304])
        self.assertEqual(counts(value), [8, 8, 8, 8])
        self.assertEqual(value["message_bytes"], 32 << 20)
        self.assertEqual([rank["sent_forward"] for rank in value["ranks"]],
                         [256 << 20] * 3 + [0])
        self.assertEqual([rank["sent_back"] for rank in value["ranks"]],
                         [0] + [256 << 20] * 3)

    def test_the_ranks_together_have_the_whole_model(self):
        for model in ("llama-3-8b", "llama-2-7b", "mixtral-8x7b", "gpt2"):
            arguments = inputs(model, "json" if model == "llama-3-8b"
                               else "json.gz")
            whole = json.loads(run("cost", *arguments, "--mesh", "tp:2",
                                   *SIZES, "--format", "json").out)
            # The head of gpt2 is its embedding, which the last rank copies.
            copy = 50257 * 768 * 4 if model == "gpt2" else 0
            for schedule, times in (("1f1b", 1), ("zbv", 1), ("dualpipe", 2),
                                    ("interleaved", 1)):
                with self.subTest(model, schedule=schedule):
                    value = self.pipeline(
                        "--schedule", schedule, "--microbatches", "8",
                        model=arguments, mesh="pp:2,tp:2")
                    total = sum(rank["parameters"] for rank in value["ranks"])
                    held = times * whole["memory"]["parameters"]
                    # A rank with both ends needs no copy.
                    if copy and schedule in ("1f1b", "interleaved"):
                        self.assertGreater(total, held)
                        self.assertLessEqual(total, held + copy)
                    else:
                        self.assertEqual(total, held)

    def test_one_rank_takes_the_time_of_the_plan(self):
        """Exactly where `cost` takes collectives from formulas, as stages do;
        with a `model:` section it takes them from the step's program."""
        more = ["--profile", "h100-sxm", "--microbatches", "4",
                "--memory", "1TiB"]
        sizes = ["--batch", "32", "--seq", "4096"]
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                json.dump({"version": 1, "rules": [
                    {"match": r"(q|k|v|gate|up)_proj\.weight$",
                     "spec": ["tp", "fsdp"]},
                    {"match": r"(o|down)_proj\.weight$",
                     "spec": ["fsdp", "tp"]},
                    {"match": r"(embed_tokens|lm_head)\.weight$",
                     "spec": ["tp", "fsdp"]},
                    {"match": r"norm\.weight$", "spec": []}]}, file)
            plain = [rules if word == "auto" else word for word in LLAMA]
            for model, share in ((plain, 1e-6), (LLAMA, 0.03)):
                with self.subTest(share=share):
                    value = self.pipeline(*more, mesh="pp:1,fsdp:2,tp:2",
                                          sizes=sizes, model=model)
                    plan = json.loads(run("cost", *model, "--mesh",
                                          "fsdp:2,tp:2", *sizes, *more,
                                          "--format", "json").out)
                    self.assertAlmostEqual(value["time"]["step"],
                                           plan["time"]["expected_s"],
                                           delta=share * value["time"]["step"])
                    self.assertAlmostEqual(value["time"]["step_bubble"], 0)

    def test_a_rank_holds_the_gathered_weights_of_all_its_stages(self):
        more = ["--microbatches", "8", "--schedule", "interleaved",
                "--virtual", "2", "--assign", "even"]
        whole = self.pipeline(*more, mesh="pp:2,tp:2")
        shards = self.pipeline(*more, mesh="pp:2,fsdp:2,tp:2")
        for rank, other in zip(shards["ranks"], whole["ranks"]):
            # The weights of norms are not sharded.
            self.assertAlmostEqual(rank["gathered"], other["parameters"],
                                   delta=1 << 20)
            self.assertEqual(rank["gradients"], other["gradients"])
            self.assertLess(rank["parameters"], 0.51 * other["parameters"])
            self.assertEqual(
                rank["total"], sum(rank[key] for key in (
                    "parameters", "gradients", "optimizer", "activations",
                    "logits", "gathered")))
        self.assertTrue(any("gathered once a step" in one
                            for one in shards["assumptions"]))
        self.assertFalse(any("gathered once a step" in one
                             for one in whole["assumptions"]))
        xla = self.pipeline(*more, "--stack", "xla", mesh="pp:2,fsdp:2,tp:2")
        self.assertLess(xla["ranks"][0]["gathered"],
                        0.2 * shards["ranks"][0]["gathered"])

    def test_ranks_of_dualpipe_share_the_micro_batches_of_a_stage(self):
        def sent(schedule, mesh, *more):
            value = self.pipeline("--assign", "even", "--microbatches", "8",
                                  "--schedule", schedule, *more, mesh=mesh)
            return sum(rank["communication"] - rank["sent_forward"] -
                       rank["sent_back"] for rank in value["ranks"])

        # Both ranks of a stage run half of its micro-batches, and both gather
        # its weights and reduce its gradients.
        for mesh, times in (("pp:4,tp:2", 1), ("pp:4,fsdp:2", 2)):
            self.assertGreater(sent("1f1b", mesh), 0)
            self.assertEqual(sent("dualpipe", mesh),
                             times * sent("1f1b", mesh), mesh)
        # XLA's programs gather the weights for each micro-batch, so that each
        # of the two ranks sends half. Both reduce the gradients of norms.
        mesh, xla = "pp:4,fsdp:2", ("--stack", "xla")
        self.assertGreater(sent("1f1b", mesh, *xla), 2 * sent("1f1b", mesh))
        self.assertAlmostEqual(
            sent("dualpipe", mesh, *xla) / sent("1f1b", mesh, *xla), 1, 4)

    def test_activations_are_those_in_flight(self):
        one = self.pipeline("--assign", "even", "--microbatches", "8")
        kept = one["stages"][1]["kept"]
        held = [rank["activations"] for rank in one["ranks"]]
        self.assertEqual(held[1] - held[2], kept)
        all_at_once = self.pipeline("--assign", "even", "--microbatches", "8",
                                    "--schedule", "gpipe")
        self.assertEqual(
            all_at_once["ranks"][1]["activations"] - held[1], 5 * kept)

    def test_the_search_shortens_the_longest_stage(self):
        sizes = ["--batch", "32", "--seq", "4096", "--microbatches", "16",
                 "--profile", "h100-sxm"]
        even = self.pipeline("--assign", "even", sizes=sizes)
        best = self.pipeline(sizes=sizes)
        self.assertLess(best["time"]["step"], even["time"]["step"])
        self.assertEqual(even["better"]["step"], best["time"]["step"])
        self.assertEqual(even["better"]["layers"], counts(best))
        self.assertEqual(sum(counts(best)), 32)
        given = self.pipeline("--assign", ",".join(map(str, counts(best))),
                              sizes=sizes)
        self.assertEqual(given["time"], best["time"])
        self.assertIsNone(best["better"])

    def test_the_head_takes_what_it_adds_to_a_stage_of_layers(self):
        # A stage of the head alone has no collectives of layers.
        def longest(*assign):
            stages = self.pipeline(
                "--microbatches", "16", "--schedule", "zb-h1", "--profile",
                "h100-sxm", *assign, sizes=["--batch", "32", "--seq", "4096"])
            return max(one["forward"] + one["input"] + one["weight"]
                       for one in stages["stages"])
        self.assertLess(longest(), longest("--assign", "9,8,8,7"))

    def test_the_layers_of_llama_405b_fill_128_stages(self):
        value = self.pipeline(
            "--schedule", "interleaved", "--virtual", "8", "--microbatches",
            "16", "--profile", "h100-sxm", "--memory", "1TiB",
            model=inputs("llama-3.1-405b"), mesh="pp:16,dp:128,tp:8",
            sizes=["--batch", "2048", "--seq", "8192"])
        self.assertEqual(counts(value), [0] + [1] * 126 + [0])
        self.assertTrue(value["fits"])

    def test_memory_that_is_exceeded(self):
        value = self.pipeline("--memory", "20GiB", "--microbatches", "8",
                              rc=1)
        self.assertFalse(value["fits"])

    def test_exposed_messages_take_longer(self):
        more = ["--microbatches", "8", "--profile", "h100-sxm", "--assign",
                "even"]
        self.assertLess(
            self.pipeline(*more)["time"]["step"],
            self.pipeline(*more, "--p2p", "exposed")["time"]["step"])

    def test_stages_that_cannot_be_made(self):
        for axis, more, rc, words in (
                ("tp", [], 1, "the spec of `model.embed_tokens.weight` splits"),
                ("zz", [], 2, "the mesh has no axis `zz`"),
                ("pp", ["--mode", "decode"], 2, "`stages` are for training: a schedule has backward tasks"),
                ("pp", ["--assign", "8,8,8,9"], 1,
                 "`--assign` has 33 layers in 4 stages"),
                ("pp", ["--assign", "16,16"], 1, "has 32 layers in 2 stages"),
                ("pp", ["--assign", "8,x"], 2, "`x` is not a whole number"),
                ("pp", ["--microbatches", "3"], 1,
                 "a batch of 16 is not divided by 3 micro-batches"),
                ("pp", ["--schedule", "zb"], 2, "there is no schedule `zb`"),
                ("pp", ["--schedule", "dualpipev", "--microbatches", "4"], 1,
                 "dualpipev needs at least 8 micro-batches"),
                ("pp", ["--schedule", "interleaved", "--virtual", "9",
                        "--microbatches", "4"], 1,
                 "36 stages are more than 32 layers, an embedding and a head"),
                ("pp", ["--plan", "p.json"], 2, "give the inputs")):
            with self.subTest(axis=axis, more=more):
                base = [] if "--plan" in more else [
                    *LLAMA, "--mesh", "pp:4,tp:2"]
                done = run("cost", *base, "--stages", axis, *SIZES, *more)
                self.assertEqual(done.rc, rc)
                self.assertEqual(done.out, "")
                self.assertIn(words, done.err)
        done = run("cost", *LLAMA, "--mesh", "pp:4,tp:2", "--stages", "pp")
        self.assertEqual(done.rc, 2)
        self.assertIn("the times and activations of stages need a batch and "
                      "a length", done.err)

    def test_a_batch_that_replicas_or_micro_batches_do_not_divide(self):
        for batch, words in (
                ("16", 'a batch of 16 over "dp" is 8 rows a replica, not '
                 "divided by 3 micro-batches"),
                ("17", 'a batch of 17 is not divided by the 2 replicas over '
                 '"dp"')):
            done = run("cost", *LLAMA, "--mesh", "pp:4,dp:2", "--stages", "pp",
                       "--batch", batch, "--seq", "4096", "--microbatches",
                       "3")
            self.assertEqual((done.rc, done.out), (1, ""), done)
            self.assertIn(words, done.err)
            self.assertIn("a `--batch` that is a multiple of 6", done.err)

    def test_flags_without_stages(self):
        """A flag of stages is refused where nothing divides the model."""
        base = [*LLAMA, *SIZES]
        meshed = [*base, "--mesh", "pp:4,tp:2"]
        for command in (["cost", *meshed], ["verify", "step", *meshed],
                        ["search", "--all", *base, "--devices", "8"]):
            for flag, value in (("--schedule", "zbv"), ("--assign", "even"),
                                ("--virtual", "2"), ("--p2p", "exposed")):
                with self.subTest(command=command[0], flag=flag):
                    done = run(*command, flag, value)
                    self.assertEqual((done.rc, done.out), (2, ""))
                    self.assertIn(
                        f"`{flag}` has an effect only if the model is divided "
                        "into stages, and nothing divides it", done.err)
                    self.assertIn("with `--stages`", done.err)

    def test_trees_that_have_no_chain_of_layers(self):
        for names, rc, words in (
                (["layers.0.w", "layers.2.w"], 1,
                 "no parameter is of layer 1 of 3"),
                (["layers.w"], 2,
                 "no parameter's name has the number of its layer, so that "
                 "layers cannot be divided into stages"),
                (["encoder.0.w", "decoder.0.w"], 2,
                 "and below `encoder`: stages divide one chain of layers"),
                (["layers.123456789.w"], 2,
                 "a name has layer 123,456,789, beyond 100,000 layers"),
                (["layers.0.w", "extra.w"], 1,
                 "`extra.w` is of no layer, and nothing shows")):
            with self.subTest(names), tempfile.TemporaryDirectory() as folder:
                tree = os.path.join(folder, "m.json")
                with open(tree, "w", encoding="utf-8") as file:
                    json.dump({"schema": "shardc.manifest/v1", "params": {
                        name: {"shape": [8, 8], "dtype": "BF16"}
                        for name in ["embed_tokens.weight", *names]}}, file)
                rules = os.path.join(folder, "r.yaml")
                with open(rules, "w", encoding="utf-8") as file:
                    file.write("version: 1\nrules: [{match: '.*', "
                               "spec: []}]\n")
                done = run("cost", "--manifest", tree, "--rules", rules,
                           "--no-project", "--mesh", "pp:2", "--stages", "pp",
                           "--batch", "4", "--seq", "8")
                self.assertEqual(done.rc, rc, done.err)
                self.assertIn(words, done.err)

    def test_an_axis_of_the_batch_has_no_stages(self):
        done = run("cost", *LLAMA, "--mesh", "dp:4,tp:2", "--stages", "dp",
                   *SIZES)
        self.assertEqual(done.rc, 1)
        self.assertIn("is the axis of the stages, and the axis rules split "
                      "the tokens over it", done.err)


def layout_of(text):
    """The layers of each stage of Megatron's layout: `Et*9|(t*8|)*2t*7L`."""
    text = re.sub(r"\(([^()]*)\)\*(\d+)",
                  lambda found: found[1] * int(found[2]), text)
    out = []
    for number, stage in enumerate(text.split("|")):
        stage = stage.removeprefix("E") if number == 0 else stage
        stage = stage.removesuffix("L")
        match = re.fullmatch(r"|t(?:\*(\d+))?", stage)
        assert match, stage
        out.append(int(match[1] or 1) if stage else 0)
    return out


class Exports(Case):
    def export(self, form, *arguments, mesh="pp:4,tp:2", rc=0, model=LLAMA):
        return self.check(run("export", form, *model, "--mesh", mesh,
                              "--stages", "pp", *arguments), rc)

    def test_torch_reads_the_schedule_and_the_modules(self):
        made = self.export("torch-pipeline", "--schedule", "zb-h1",
                           "--microbatches", "3", mesh="pp:2").out
        self.assertEqual(made,
                         "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2\n"
                         "1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2\n")
        modules = self.export("torch-pipeline", "--assign", "9,9,8,6",
                              "--microbatches", "8", "--format",
                              "json").json()
        self.assertEqual([len(modules[str(s)]) for s in range(4)],
                         [10, 9, 8, 8])
        self.assertEqual(modules["0"][:2],
                         ["model.embed_tokens", "model.layers.0"])
        self.assertEqual(modules["3"][-2:], ["model.norm", "lm_head"])
        tied = self.export("torch-pipeline", "--microbatches", "8", "--format",
                           "json", model=inputs("llama-3.2-1b")).json()
        self.assertEqual(tied["3"][0], "model.embed_tokens")

    def test_the_settings_of_other_systems(self):
        flags = "--pipeline-model-parallel-size 4 " \
            "--pipeline-model-parallel-layout "
        self.assertEqual(
            self.export("megatron-pipeline", "--assign", "9,9,8,6",
                        "--microbatches", "8").out,
            flags + '"Et*9|t*9|t*8|t*6L"\n')
        self.assertEqual(
            self.export("vllm-pipeline", "--assign", "9,9,8,6").out,
            "VLLM_PP_LAYER_PARTITION=9,9,8,6\n--pipeline-parallel-size 4\n")
        self.assertEqual(
            self.export("maxtext-pipeline", "--schedule", "interleaved",
                        "--virtual", "2", "--microbatches", "8").out,
            "ici_pipeline_parallelism: 4\nnum_layers_per_pipeline_stage: 4\n"
            "num_pipeline_repeats: 2\nnum_pipeline_microbatches: 8\n")
        layers = ",".join(["0", *["1"] * 126, "0"])
        self.assertIn('"E|(t|)*126L"', self.export(
            "megatron-pipeline", "--schedule", "interleaved", "--virtual",
            "8", "--microbatches", "16", "--assign", layers,
            mesh="pp:16,tp:8", model=inputs("llama-3.1-405b")).out)

    def test_layouts_of_random_divisions_are_read_again(self):
        draw = random.Random(3)
        for _ in range(40):
            stages = draw.choice((2, 4, 8))
            cuts = sorted(draw.choices(range(33), k=stages - 1))
            counts = [b - a for a, b in zip([0, *cuts], [*cuts, 32])]
            text = self.export(
                "megatron-pipeline", "--assign", ",".join(map(str, counts)),
                "--microbatches", "8", mesh=f"pp:{stages}").out
            self.assertEqual(layout_of(text.split('"')[1]), counts)

    def test_a_table_may_place_its_stages_in_any_order(self):
        """PyTorch reads the ranks of stages from the table."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "blocks.csv")
            text = "0F0,1F0,1B0,0B0\n2F0,3F0,3B0,2B0\n"
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            done = self.export("torch-pipeline", "--schedule", path,
                               "--microbatches", "1", mesh="pp:2")
            self.assertEqual(done.out, text)

    def test_what_a_format_cannot_express(self):
        eight = ["--microbatches", "8"]
        for form, arguments, rc, words in (
                ("torch-pipeline", ["--schedule", "dualpipe", *eight], 2,
                 "PyTorch has each stage on one rank, and `dualpipe`"),
                ("megatron-pipeline", ["--schedule", "gpipe", *eight], 2,
                 "`megatron-pipeline` has no schedule `gpipe`"),
                ("megatron-pipeline",
                 ["--schedule", "interleaved", "--microbatches", "6"], 2,
                 "with several stages on a rank, 4 ranks must divide the 6"),
                ("maxtext-pipeline", [*eight], 2, "has no schedule `1f1b`"),
                ("maxtext-pipeline",
                 ["--schedule", "gpipe", "--assign", "9,9,8,6", *eight], 2,
                 "every stage has the same number of layers"),
                ("maxtext-pipeline",
                 ["--schedule", "gpipe", "--microbatches", "6"], 2,
                 "`maxtext-pipeline`: 4 ranks must divide the 6"),
                ("vllm-pipeline", ["--assign", "16,17,0,0"], 2,
                 "`--assign` has 33 layers in 4 stages, and the plan has 32"),
                ("vllm-pipeline", ["--schedule", "zbv"], 2,
                 "`--schedule` does not apply to the format `vllm-pipeline`"),
                ("torch-pipeline", [], 2, "`--microbatches` is missing"),
                ("torch-pipeline", [], 2, "help: add `--microbatches 8`")):
            with self.subTest(form, arguments=arguments):
                done = self.export(form, *arguments, rc=rc)
                self.assertEqual(done.out, "")
                self.assertIn(words, done.err)
        for arguments, words in (
                ([], "`vllm-pipeline` needs the axis of the stages"),
                (["--stages", "zz"], "the mesh has no axis `zz`"),
                (["--stages", "tp"], "the spec of `model.embed_tokens.weight` "
                 "splits over `tp`, the axis of the stages")):
            done = run("export", "vllm-pipeline", *LLAMA, "--mesh",
                       "pp:4,tp:2", *arguments)
            self.assertEqual(done.rc, 2)
            self.assertIn(words, done.err)

    def small(self, rules, *more, layers=4):
        """The arguments of a model of few layers, with the text of rules."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        paths = []
        for name, text in (
                ("m.json", json.dumps({
                    "schema": "shardc.manifest/v1", "params": {
                        name: {"shape": [8, 8], "dtype": "BF16"} for name in
                        (*(f"layers.{i}.w" for i in range(layers)), *more)}})),
                ("r.yaml", rules)):
            paths.append(os.path.join(folder.name, name))
            with open(paths[-1], "w", encoding="utf-8") as file:
                file.write(text)
        return ["--manifest", paths[0], "--rules", paths[1], "--no-project"]

    def test_a_spec_of_any_mode_over_the_stages_is_refused(self):
        model = self.small("version: 1\nrules:\n  - {match: w, spec: [], "
                           "modes: {decode: [pp]}}\n")
        for form in ("torch-pipeline", "vllm-pipeline"):
            flags = ["--microbatches", "4"] if form.startswith("torch") else []
            done = self.export(form, *flags, mesh="pp:2", rc=2, model=model)
            self.assertIn("the spec of `layers.0.w` splits over `pp`",
                          done.err)

    def test_modules_are_in_the_stages_that_the_plan_states(self):
        model = self.small(
            "version: 1\nstages: {axis: pp, assign: [1, 3], microbatches: 4, "
            "first: [start], last: [pooler, end]}\n"
            "rules: [{match: '.*', spec: []}]\n",
            "start.norm.w", "pooler.w", "end.w")
        done = self.check(run("export", "torch-pipeline", *model, "--mesh",
                              "pp:2", "--format", "json"), 0)
        self.assertEqual(done.json(), {
            "0": ["layers.0", "start.norm"],
            "1": ["layers.1", "layers.2", "layers.3", "pooler", "end"]})

    def test_declared_stages_of_stacked_layers(self):
        model = self.small(
            "version: 1\nstages: {axis: pp, schedule: gpipe, assign: even, "
            "microbatches: 4, stacked: [{match: '^stack/', dim: 0}]}\n"
            "rules: [{match: '.*', spec: []}]\n", "embed/embedding",
            "stack/w", layers=0)
        for form, words in (("maxtext-pipeline", "_per_pipeline_stage: 4\n"),
                            ("vllm-pipeline", "PARTITION=4,4\n"),
                            ("torch-pipeline", "0F0,0F1,")):
            done = self.check(run("export", form, *model, "--mesh", "pp:2"), 0)
            self.assertIn(words, done.out)
        done = self.check(run("export", "torch-pipeline", *model, "--mesh",
                              "pp:2", "--format", "json"), 2)
        self.assertIn("`stack/w` holds layers of several stages", done.err)

    def test_vllm_has_one_stage_on_each_rank(self):
        for stages in ("schedule: interleaved, virtual: 2", "schedule: zbv",
                       "schedule: dualpipe"):
            model = self.small(f"version: 1\nstages: {{axis: pp, {stages}, "
                               "assign: even}\nrules:\n"
                               "  - {match: w, spec: []}\n")
            with self.subTest(stages):
                done = self.check(run("export", "vllm-pipeline", *model,
                                      "--mesh", "pp:2"), 2)
                self.assertEqual(done.out, "")
                self.assertIn("vLLM has stage n on rank n, and", done.err)


if __name__ == "__main__":
    unittest.main()
