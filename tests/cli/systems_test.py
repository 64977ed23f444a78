"""Configurations of other systems: the mesh, the coordinates and the shapes of
each rank equal those that the system's own code makes (testdata/systems), each
check of systems/ finds its example and not its right counterpart, and import,
targets and `check` without a project agree."""

import json
import os
import re
import resource
import shutil
import tempfile
import unittest

import yaml

from driver import ROOT, TESTDATA, Case, is_sanitized, run

SAMPLES = os.path.join(TESTDATA, "systems")
SYSTEMS = os.path.join(ROOT, "systems")


def described():
    """Returns the descriptions of all systems by name."""
    out = {}
    for name in sorted(os.listdir(SYSTEMS)):
        if name.endswith(".yaml"):
            with open(os.path.join(SYSTEMS, name), encoding="utf-8") as file:
                out[name[:-5]] = yaml.safe_load(file)
    return out


def read_json(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return json.load(file)


class Samples(Case):
    def deployment(self, name, file, *more, rc=0):
        got = run("show", "config", os.path.join(SAMPLES, name, file),
                  "--format", "json", *more)
        self.assertEqual(got.rc, rc, got.err + got.out)
        return json.loads(got.out), read_json(SAMPLES, name, "expect.json")

    def held(self, deployment, rank):
        for group in deployment["ranks"]:
            if rank in group["ranks"]:
                return group["params"]
        self.fail(f"no rank {rank}")

    def test_megatron_dense(self):
        got, want = self.deployment("megatron-dense", "run.sh")
        self.assertEqual(got["world"], want["mesh"]["world"])
        self.assertEqual(got["grids"], [want["mesh"]["axes"]])
        self.assertEqual(got["derived"]["padded_vocab"], "1024")
        self.compare_megatron(got, want)

    def test_megatron_experts(self):
        got, want = self.deployment("megatron-moe-mla", "run.sh")
        self.assertEqual(got["world"], want["mesh"]["world"])
        self.assertEqual(got["grids"],
                         [want["mesh"]["axes"], want["mesh"]["expert_axes"]])
        sizes = {axis["name"]: axis["size"] for axis in got["mesh"]["axes"]}
        self.assertEqual(list(sizes.values()), [2, 2, 2, 2])
        self.assertEqual(got["axes"]["dp"], ["edp", got["axes"]["dp"][1]])
        self.assertEqual(got["axes"]["ep"], [got["axes"]["dp"][1], "tp"])
        self.assertEqual(got["stages"]["layers"], [2, 1, 2, 0])
        self.compare_megatron(got, want)

    def compare_megatron(self, got, want):
        for one in got["coordinates"]:
            expected = want["coords"][str(one["rank"])]
            for axis, index in expected.items():
                if axis in one:
                    self.assertEqual(one[axis], index, (one, expected))
        compared = 0
        for rank in range(got["world"]):
            chunks = want["ranks"][str(rank)]
            if isinstance(chunks, str):
                chunks = want["ranks"][chunks.removeprefix("as ")]
            expected = {}
            for chunk in chunks:
                for name, shape in chunk["params"].items():
                    # Experts of a rank are counted there; the tree has all of
                    # them in one tensor.
                    local = re.sub(r"local_experts\.\d+\.", "", name)
                    if local != name:
                        count = expected.get(local, [0])[0] + 1
                        expected[local] = [count, *shape]
                    else:
                        expected[name] = shape
            self.assertEqual(self.held(got, rank), expected, rank)
            compared += len(expected)
        self.assertGreater(compared, 100)

    def test_torchtitan(self):
        got, want = self.deployment("torchtitan-moe-mla", "run.sh")
        self.assertEqual(got["world"], want["world"])
        by_rank = {one["rank"]: one for one in got["coordinates"]}
        for rank, axes in want["coords [size, index]"].items():
            for axis, value in axes.items():
                if value is not None:
                    self.assertEqual(by_rank[int(rank)][axis], value[1],
                                     (rank, axis))
        for rank, chunks in want["ranks"].items():
            if isinstance(chunks, str):
                chunks = want["ranks"][chunks.removeprefix("as ")]
            expected = {name: one["local"] for chunk in chunks
                        for name, one in chunk.items()}
            self.assertEqual(self.held(got, int(rank)), expected, rank)

    def compare_ranks(self, got, want):
        for rank, params in want["ranks"].items():
            self.assertEqual(self.held(got, int(rank)), params, rank)

    def test_accelerate(self):
        manifest = os.path.join(SAMPLES, "accelerate-fsdp2", "manifest.json")
        got, want = self.deployment("accelerate-fsdp2", "accelerate.yaml",
                                    "--manifest", manifest)
        sizes = {axis["name"]: axis["size"] for axis in got["mesh"]["axes"]}
        self.assertEqual(sizes, want["mesh"]["axes"])
        self.compare_ranks(got, want)

    def test_accelerate_tensor_axis_is_not_applied(self):
        manifest = os.path.join(SAMPLES, "accelerate-fsdp2", "manifest.json")
        file = os.path.join(SAMPLES, "accelerate-tp2-not-applied",
                            "accelerate.yaml")
        got, want = self.deployment("accelerate-tp2-not-applied",
                                    "accelerate.yaml", "--manifest", manifest)
        sizes = {axis["name"]: axis["size"] for axis in got["mesh"]["axes"]}
        self.assertEqual(sizes, want["mesh"]["axes"])
        self.compare_ranks(got, want)
        text = run("show", "config", file, "--manifest", manifest)
        self.assertIn("splits nothing by itself", text.err)

    def test_deepspeed(self):
        for name in ("deepspeed-autotp2-zero1", "deepspeed-autotp4-kv2"):
            with self.subTest(name):
                got, want = self.deployment(name, "ds_config.json", "--devices",
                                            "4")
                self.assertEqual(got["grids"], [want["mesh"]["axes"]])
                self.compare_ranks(got, want)

    def test_parts_that_a_plan_cannot_state_are_refused(self):
        got = run("import", "deepspeed",
                  os.path.join(SAMPLES, "deepspeed-autotp4-kv2",
                               "ds_config.json"), "--devices", "4")
        self.assertEqual(got.rc, 2)
        self.assertIn("which are 128, 128, 0, 0", got.err)

    def test_vllm(self):
        got, want = self.deployment("vllm-tp4", "serve.sh")
        self.assertEqual({axis: size for axis, size in got["grids"][0].items()
                          if axis in want["mesh"]["axes"]},
                         want["mesh"]["axes"])
        for rank, expected in want["ranks"].items():
            held = self.held(got, int(rank))
            layer = {re.sub(r"^model\.layers\.0\.", "", name): shape
                     for name, shape in held.items()}
            rows = [layer[f"self_attn.{one}_proj.weight"][0] for one in "qkv"]
            self.assertEqual(
                sum(rows), expected["qkv_proj.weight (8 heads, 2 KV heads of "
                                    "32)"][0])
            self.assertEqual(layer["self_attn.o_proj.weight"],
                             expected["o_proj.weight"])
            self.assertEqual(2 * layer["mlp.gate_proj.weight"][0],
                             expected["gate_up_proj.weight"][0])
            self.assertEqual(layer["mlp.down_proj.weight"],
                             expected["down_proj.weight"])
            self.assertEqual(held["model.embed_tokens.weight"],
                             expected["embed_tokens.weight (vocab 1001)"])
            self.assertEqual(held["lm_head.weight"],
                             expected["lm_head.weight (vocab 1001)"])

    def test_sglang(self):
        got, want = self.deployment("sglang-dp-attention", "serve.sh")
        self.assertEqual(got["world"], want["world"])
        for name, size in want["derived"].items():
            self.assertEqual(got["derived"][name], str(size))
        expected = want["every rank"]
        for rank in range(got["world"]):
            held = self.held(got, rank)
            rows = [held[f"model.layers.0.self_attn.{one}_proj.weight"][0]
                    for one in "qkv"]
            self.assertEqual(sum(rows), expected["qkv_proj.weight"][0])
            self.assertEqual(held["model.layers.0.self_attn.o_proj.weight"],
                             expected["o_proj.weight"])
            experts = [held["model.layers.0.mlp.experts." + one]
                       for one in ("gate_up_proj", "down_proj")]
            self.assertEqual(experts,
                             [expected["experts.w13"], expected["experts.w2"]])


class Checks(Case):
    """Each check finds its example, and not its right counterpart."""

    def files_of(self, system, description, text, folder):
        """Writes an example to files, and returns the configuration and the
        further options."""
        more, lines, environment = [], [], ""
        for line in text.split("\n"):
            found = re.match(r"(config|model_sizes)\.json: (.*)$", line)
            if found:
                with open(os.path.join(folder, found[1] + ".json"), "w",
                          encoding="utf-8") as file:
                    file.write(found[2])
            elif line.startswith("devices: "):
                more = ["--devices", line.removeprefix("devices: ")]
            elif line.startswith("environment: "):
                environment = line.removeprefix("environment: ") + " "
            else:
                lines.append(line)
        text = "\n".join(lines)
        if text.startswith("{"):
            name = "example.json"
        elif text.startswith("--"):
            name = "example.sh"
            text = f"{environment}{description['commands'][0]} {text}"
            if system == "vllm":
                text = text.replace("vllm serve", "vllm serve MODEL")
        else:
            name = "example.yaml"
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text + "\n")
        return os.path.join(folder, name), more

    def found(self, system, description, text):
        with tempfile.TemporaryDirectory() as folder:
            file, more = self.files_of(system, description, text, folder)
            got = run("show", "config", file, "--system", system, *more)
            self.assertIn(got.rc, (0, 1), got.err)
            return got.err

    def test_examples(self):
        for system, description in described().items():
            for check in description.get("checks", []):
                with self.subTest(system=system, check=check["name"]):
                    source = "source: " + check["source"]
                    wrong = self.found(system, description, check["example"])
                    code = "SHD702" if check.get("silent") else "SHD701"
                    self.assertIn(code, wrong)
                    self.assertIn(source, wrong)
                    said = re.split(r"\{[^}]*\}", check["says"])
                    self.assertTrue(all(one in wrong for one in said),
                                    (said, wrong))
                    right = self.found(system, description, check["right"])
                    self.assertNotIn("SHD701", right)
                    self.assertNotIn("SHD702", right)
                    self.assertNotIn("SHD703", right)


class Forms(Case):
    """The same keys in a script, YAML, TOML, JSON and Python."""

    TITAN = {"tensor_parallel_degree": 2, "pipeline_parallel_degree": 2}

    def grids(self, name, text, *more):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            got = run("show", "config", path, "--format", "json", *more)
            self.assertEqual(got.rc, 0, got.err + got.out)
            return json.loads(got.out)["grids"]

    def test_torchtitan(self):
        flags = "torchrun -m torchtitan.train " + " ".join(
            f"--parallelism.{key} {value}" for key, value in
            self.TITAN.items())
        toml = "[parallelism]\n" + "\n".join(
            f"{key} = {value}  # a comment" for key, value in
            self.TITAN.items())
        python = ("def mine():\n    return Trainer.Config(\n"
                  "        parallelism=ParallelismConfig(\n" + "".join(
                      f"            {key}={value},\n" for key, value in
                      self.TITAN.items()) + "        ),\n    )\n")
        texts = [("a.sh", flags), ("a.toml", toml), ("a.py", python),
                 ("a.json", json.dumps({"parallelism": self.TITAN})),
                 ("a.yaml", yaml.safe_dump({"parallelism": self.TITAN}))]
        for name, text in texts:
            with self.subTest(name):
                self.assertEqual(self.grids(name, text, "--devices", "8"), [
                    {"pp": 2, "dp_replicate": 1, "dp_shard": 2, "cp": 1,
                     "tp": 2}])

    def test_python_that_follows_another_function(self):
        text = ("def base():\n    return Trainer.Config(parallelism="
                "ParallelismConfig(tensor_parallel_degree=4))\n\n"
                "def mine():\n    config = base()\n"
                "    config.parallelism.pipeline_parallel_degree = 2\n"
                "    return config\n")
        self.assertEqual(
            self.grids("a.py", text, "--devices", "8", "--symbol", "mine"),
            [{"pp": 2, "dp_replicate": 1, "dp_shard": 1, "cp": 1, "tp": 4}])

    def test_scripts(self):
        want = [{"pp": 2, "dp": 2, "cp": 1, "tp": 4}]
        call = "torchrun --nproc-per-node 8 --nnodes 2 pretrain_gpt.py "
        flags = ("--tensor-model-parallel-size {} "
                 "--pipeline-model-parallel-size {}")
        scripts = {
            "plain": call + flags.format(4, 2),
            "variables": "TP=4\nPP=$((TP / 2))\n" + call +
                         flags.format("$TP", "${PP}"),
            "array": "ARGS=(\n  " + flags.format(4, 2) +
                     "  # tensor and pipeline\n)\n" + call + "${ARGS[@]}",
            "quoted array": "ARGS=(" + flags.format(4, 2) + ")\n" + call +
                            '"${ARGS[@]}"',
            "string": 'ARGS="\n  ' + flags.format(4, 2).replace(
                " --pipe", " \\\n  --pipe") + '"\n' + call + "$ARGS",
            "default": call + flags.format("${TP:-4}", "${PP:-2}"),
            "appended": "ARGS=(--tensor-model-parallel-size 4)\n"
                        "ARGS+=(--pipeline-model-parallel-size 2)\n" + call +
                        "${ARGS[*]}",
            "equals": call + flags.format(4, 2).replace("size ", "size="),
            "underscores": call + flags.format(4, 2).replace(
                "-parallel-size", "_parallel_size").replace("-model", "_model"),
        }
        scripts["underscores"] = call + flags.format(4, 2)
        for name, text in scripts.items():
            with self.subTest(name):
                self.assertEqual(self.grids("a.sh", text), want)

    def test_arguments_of_a_script_are_not_known(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.sh")
            with open(path, "w", encoding="utf-8") as file:
                file.write("torchrun --nproc-per-node 8 pretrain_gpt.py \\\n"
                           "  --tensor-model-parallel-size $1\n")
            got = run("import", "megatron", path)
            self.assertEqual(got.rc, 2)
            self.assertIn("a.sh:2:3", got.err)
            self.assertIn("`$1` is an argument of the script", got.err)
            more = run("show", "config", path, "--format", "json", "--set",
                       "tensor-model-parallel-size=4")
            self.assertEqual(json.loads(more.out)["grids"],
                             [{"pp": 1, "dp": 2, "cp": 1, "tp": 4}])

    def test_a_size_that_is_not_known_is_an_error_where_nothing_is_shown(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.sh")
            with open(path, "w", encoding="utf-8") as file:
                file.write("torchrun --nproc-per-node 8 pretrain_gpt.py "
                           "--tensor-model-parallel-size $((1/0))\n")
            got = run("show", "config", path)
            self.assertEqual(got.rc, 2)
            self.assertIn("error[SHD704", got.err)
            self.assertIn("--set tensor_model_parallel_size=VALUE", got.err)

    def test_sizes_below_one_are_refused_by_name(self):
        for size in (0, -1):
            got = self.found_in("a.yaml", json.dumps(
                {"train_batch_size": 8, "sequence_parallel_size": size}),
                "--system", "deepspeed", "--devices", "16")
            self.assertEqual(got.rc, 2, got.err)
            self.assertIn("error[SHD70", got.err)
            self.assertRegex(got.err, "`(data_parallel|sequence)` is ")

    def test_branches_of_a_condition_are_not_known(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.sh")
            with open(path, "w", encoding="utf-8") as file:
                file.write("if [ $SIZE = 7b ]; then\n  TP=2\nelse\n  TP=8\nfi\n"
                           "torchrun --nproc-per-node 8 pretrain_gpt.py "
                           "--tensor-model-parallel-size $TP\n")
            got = run("import", "megatron", path)
            self.assertEqual(got.rc, 2)
            self.assertIn("several branches", got.err)

    def found_in(self, name, text, *more):
        """What `show config` reports of a file."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return run("show", "config", path, *more)

    def test_flags_of_one_branch_are_not_known(self):
        for script in (
                "if [ $A = 1 ]; then\n  X='--use-distributed-optimizer'\n"
                "else\n  X='--bf16'\nfi\n",
                "X=\nif [ $A = 1 ]; then\n"
                "  X='--use-distributed-optimizer'\nfi\n"):
            with self.subTest(script):
                got = self.found_in(
                    "a.sh", script + "torchrun --nproc-per-node 8 "
                    "pretrain_gpt.py --pipeline-model-parallel-size 2 $X "
                    "--overlap-param-gather --overlap-grad-reduce")
                self.assertNotIn("SHD701", got.err)

    def test_a_variable_without_a_value_is_reported(self):
        for extra in ("$EXTRA", '"$EXTRA"', "${MORE_ARGS[@]}"):
            with self.subTest(extra):
                got = self.found_in(
                    "a.sh", "torchrun --nproc-per-node 8 pretrain_gpt.py "
                    f"--pipeline-model-parallel-size 2 --bf16 true {extra}")
                self.assertIn("keys that it has are not in these figures",
                              got.err)

    def test_the_first_of_several_commands_is_read(self):
        got = self.found_in(
            "a.sh", "".join("torchrun --nproc-per-node 8 pretrain_gpt.py "
                            f"--tensor-model-parallel-size {size}\n"
                            for size in (2, 4)))
        self.assertIn("the first of 2 commands", got.err)
        self.assertIn("tp=2", got.out)

    def test_recomputed_modules(self):
        flags = ("torchrun --nproc-per-node 8 pretrain_gpt.py "
                 "--tensor-model-parallel-size 1 --recompute-granularity "
                 "selective --recompute-modules ")
        self.assertNotIn("no module", self.found_in("a.sh", flags + "moe").err)
        texts = {"a.sh": flags + "moe_atc",
                 "a.yaml": "tensor_model_parallel_size: 1\n"
                           "recompute_granularity: selective\n"
                           "recompute_modules: [core_attn, moe_atc]\n",
                 "a.json": json.dumps({
                     "tensor_model_parallel_size": 1,
                     "recompute_granularity": "selective",
                     "recompute_modules": ["core_attn", "moe_atc"]})}
        for name, text in texts.items():
            with self.subTest(name):
                got = self.found_in(name, text, "--system", "megatron",
                                    "--devices", "8").err
                self.assertIn("there is no module moe_atc to recompute", got)
                right = self.found_in(
                    name, text.replace("moe_atc", "moe_act"), "--system",
                    "megatron", "--devices", "8").err
                self.assertNotIn("no module", right)

    def shown(self, files, *command):
        """Runs a command in a folder with the files."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            return run(*command, cwd=folder)

    def test_variables_and_keys_that_the_user_sets(self):
        script = ("SIZE=$1\nif [ $SIZE = 8B ]; then\n  TP=2\nelse\n  TP=8\nfi\n"
                  "torchrun --nproc-per-node 8 pretrain_gpt.py "
                  "--tensor-model-parallel-size $TP --colour red\n")
        files = {"a.sh": script}
        for more, tp in ((["--set", "env.1=8B"], 2),
                         (["--set", "env.SIZE=70B"], 8),
                         (["--set", "tensor-model-parallel-size=4"], 4)):
            with self.subTest(more):
                got = self.shown(files, "show", "config", "a.sh", "--format",
                                 "json", *more)
                self.assertEqual(json.loads(got.out)["grids"][0]["tp"], tp)
        unset = self.shown(files, "import", "megatron", "a.sh")
        self.assertIn("`--set colour=`", unset.err)
        removed = self.shown(files, "import", "megatron", "a.sh", "--set",
                             "colour=", "--set", "env.1=8B")
        self.assertNotIn("colour", removed.err)
        for option, words in (("env.NOTHING=1", "has the variable `NOTHING`"),
                              ("shape=", "has no key `shape`")):
            got = self.shown(files, "import", "megatron", "a.sh", "--set",
                             option)
            self.assertEqual(got.rc, 2)
            self.assertIn(words, got.err)

    def test_files_that_a_script_sources(self):
        files = {"run/a.sh":
                     'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\n'
                     'source "$HERE/sizes/x.sh"\n. ./sizes/y.sh\n'
                     "torchrun --nproc-per-node 8 pretrain_gpt.py "
                     "--tensor-model-parallel-size $TP "
                     "--pipeline-model-parallel-size $PP\n",
                 "run/sizes/x.sh": "TP=2\n",
                 "run/sizes/y.sh": "PP=4\nsource sizes/y.sh\n"}
        got = self.shown(files, "show", "config", "run/a.sh", "--format",
                         "json")
        self.assertEqual(json.loads(got.out)["grids"],
                         [{"pp": 4, "dp": 1, "cp": 1, "tp": 2}])

    def test_commands_of_other_programs(self):
        flags = (" --tensor-model-parallel-size 2 --num-layers 2 "
                 "--hidden-size 64 --num-attention-heads 4 --vocab-size 128 "
                 "--max-position-embeddings 64\n")
        own = self.shown({"a.sh": "torchrun --nproc-per-node 8 mine.py" + flags},
                         "import", "megatron", "a.sh")
        self.assertEqual(own.rc, 0, own.err)
        self.assertIn("`mine.py` is read as `pretrain_gpt.py`", own.err)
        other = self.shown(
            {"a.sh": "torchrun --nproc-per-node 8 pretrain_t5.py" + flags},
            "import", "megatron", "a.sh")
        self.assertEqual(other.rc, 2)
        self.assertIn("T5 has an encoder and a decoder", other.err)

    def test_several_values_of_a_list(self):
        got = self.shown(
            {"values.yaml": "servingEngineSpec:\n  modelSpec:\n"
                            "    - vllmConfig: {tensorParallelSize: 2}\n"
                            "    - vllmConfig: {tensorParallelSize: 4}\n"},
            "import", "vllm", "values.yaml")
        self.assertEqual(got.rc, 2)
        self.assertIn("the file has several values of it", got.err)

    def test_sizes_of_a_config_json(self):
        files = {"a.yaml": "tensor_model_parallel_size: 2\n", "config.json":
                 json.dumps({"model_type": "qwen3", "vocab_size": 1024,
                             "hidden_size": 256, "head_dim": 64,
                             "intermediate_size": 640, "num_hidden_layers": 2,
                             "num_attention_heads": 8, "dtype": "bfloat16",
                             "num_key_value_heads": 2})}
        got = self.shown(files, "show", "config", "a.yaml", "--system",
                         "megatron", "--devices", "2", "--format", "json")
        held = json.loads(got.out)["ranks"][0]["params"]
        layer = "decoder.layers.0."
        self.assertEqual(held[layer + "self_attention.linear_qkv.weight"],
                         [(8 + 2 * 2) * 64 // 2, 256])
        self.assertEqual(held[layer + "self_attention.q_layernorm.weight"],
                         [64])
        self.assertEqual(held[layer + "mlp.linear_fc1.weight"], [640, 256])
        files["config.json"] = files["config.json"].replace("qwen3", "gpt2")
        refused = self.shown(files, "import", "megatron", "a.yaml",
                             "--devices", "2")
        self.assertEqual(refused.rc, 2)
        self.assertIn("of the type gpt2 is not described", refused.err)

    def test_manifest_of_a_container(self):
        text = ("apiVersion: apps/v1\nkind: Deployment\nspec:\n  containers:\n"
                "    - image: vllm/vllm-openai:latest\n"
                "      command: [vllm, serve, MODEL]\n      args:\n"
                "        - --tensor-parallel-size\n        - '4'\n---\n"
                "apiVersion: v1\nkind: Service\n")
        self.assertEqual(self.grids("a.yaml", text), [
            {"dp": 1, "pp": 1, "pcp": 1, "tp": 4}])


class Targets(Case):
    def folder_of(self, name):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        for file in os.listdir(os.path.join(SAMPLES, name)):
            if file != "expect.json":
                shutil.copy(os.path.join(SAMPLES, name, file), folder)
        return folder

    def test_import_and_target_agree(self):
        for name, system, file, more in (
                ("megatron-moe-mla", "megatron", "run.sh", []),
                ("megatron-dense", "megatron", "run.sh", []),
                ("torchtitan-moe-mla", "torchtitan", "run.sh", []),
                ("accelerate-fsdp2", "accelerate", "accelerate.yaml",
                 ["--manifest", "manifest.json"])):
            with self.subTest(name):
                folder = self.folder_of(name)
                done = run("import", system, file, *more, "-o", "rules.yaml",
                           "--mesh-output", "mesh.yaml", "--manifest-output",
                           "all.json", "--project-output", "shardc.yaml",
                           cwd=folder)
                self.assertEqual(done.rc, 0, done.err)
                files = run("plan", "--rules", "rules.yaml", "--mesh",
                            "mesh.yaml", "--manifest", "all.json",
                            "--no-project", cwd=folder)
                self.assertEqual(files.rc, 0, files.err)
                target = run("plan", cwd=folder)
                self.assertEqual(target.rc, 0, target.err)
                one, other = json.loads(files.out), json.loads(target.out)
                self.assertEqual(
                    {name: (param["spec"], param.get("shard_shape"))
                     for name, param in one["params"].items()},
                    {name: (param["spec"], param.get("shard_shape"))
                     for name, param in other["params"].items()})
                shown = json.loads(run("show", "config", file, "--format",
                                       "json", *more, cwd=folder).out)
                held = {}
                for group in shown["ranks"]:
                    for param, shape in group["params"].items():
                        before = held.get(param, shape)
                        held[param] = [max(a, b) for a, b in
                                       zip(before, shape)]
                self.assertEqual({name: param["shard_shape"] for name, param in
                                  one["params"].items()}, held)

    def test_a_family_of_the_user(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        os.mkdir(os.path.join(folder, "own"))
        files = {"own/narrow.yaml": "version: 1\nmodels: [narrow]\nlike: llama"
                                    "\n",
                 "serve.sh": "vllm serve MODEL --tensor-parallel-size 2\n",
                 "config.json": LLAMA.replace('"llama"', '"narrow"').replace(
                     "642", "640")}
        for name, text in files.items():
            with open(os.path.join(folder, name), "w",
                      encoding="utf-8") as file:
                file.write(text)
        without = run("import", "vllm", "serve.sh", cwd=folder)
        self.assertEqual(without.rc, 2, without.err)
        done = run("import", "vllm", "serve.sh", "--families", "own", "-o",
                   "rules.yaml", "--project-output", "shardc.yaml", cwd=folder)
        self.assertEqual(done.rc, 0, done.err)
        got = run("plan", cwd=folder)
        self.assertEqual(got.rc, 0, got.err)
        self.assertIn("model.layers.5.mlp.down_proj.weight",
                      json.loads(got.out)["params"])

    def test_check_of_a_target(self):
        folder = self.folder_of("megatron-dense")
        with open(os.path.join(folder, "shardc.yaml"), "w",
                  encoding="utf-8") as file:
            file.write("version: 1\ntargets:\n  t:\n"
                       "    from: {megatron: run.sh}\n")
        self.assertEqual(run("check", cwd=folder).rc, 0)
        path = os.path.join(folder, "run.sh")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("--num-layers 6", "--num-layers 7"))
        got = run("check", cwd=folder)
        self.assertEqual(got.rc, 1, got.err)
        self.assertIn("SHD701", got.out + got.err)
        self.assertIn("run.sh:4", got.out + got.err)

    def test_check_without_a_project(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        for name in sorted(os.listdir(SAMPLES)):
            shutil.copytree(os.path.join(SAMPLES, name),
                            os.path.join(folder, name))
        with open(os.path.join(folder, "maxtext.yml"), "w",
                  encoding="utf-8") as file:
            file.write("base_num_layers: 2\nlogical_axis_rules: []\n")
        with open(os.path.join(folder, "rules.py"), "w",
                  encoding="utf-8") as file:
            file.write("from jax.sharding import PartitionSpec as P\n"
                       "partition_rules = [('w', P('tp'))]\n")
        got = run("check", cwd=folder)
        self.assertEqual(got.rc, 0, got.err + got.out)
        for system in ("megatron", "torchtitan", "deepspeed", "accelerate",
                       "vllm", "sglang", "maxtext"):
            self.assertIn(f": {system}", got.err)
        self.assertIn("rules in Python", got.err)
        self.assertIn("AutoTP divides attention", got.out)
        self.assertIn("splits nothing by itself", got.out)

    def test_commands_and_tests_of_a_folder(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        command = "vllm serve MODEL --tensor-parallel-size {}\n"
        python = ("def {}():\n    return Config(tensor_model_parallel_size={},"
                  " colour=1, shape=2)\n")
        files = {"serve.sh": command.format(2) + command.format(4),
                 "recipe.py": python.format("plain", 1) +
                              python.format("divided", 2),
                 "tests/recipe.py": python.format("tested", 2),
                 "test_recipe.py": python.format("tested", 2)}
        for name, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)),
                        exist_ok=True)
            with open(os.path.join(folder, name), "w",
                      encoding="utf-8") as file:
                file.write(text)
        got = run("check", "--devices", "8", "--notes", cwd=folder)
        self.assertEqual(got.rc, 0, got.err)
        self.assertIn("serve.sh:1: vllm", got.err)
        self.assertIn("serve.sh:2: vllm", got.err)
        self.assertIn("recipe.py:divided: megatron", got.err)
        self.assertNotIn("plain", got.err)
        self.assertNotIn("tested", got.err)
        self.assertIn("2 keys of Megatron-LM are not known: `colour`, `shape`",
                      got.out)

    def test_ten_thousand_files(self):
        """The time of a search is that of its files' names and of one pass over
        the texts."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        text = "def f(x):\n    return x + 1  # tensor of a model\n" * 40
        for index in range(10000):
            below = os.path.join(folder, f"d{index // 100}")
            os.makedirs(below, exist_ok=True)
            name = f"f{index}" + (".py", ".cc", ".json", ".md")[index % 4]
            with open(os.path.join(below, name), "w",
                      encoding="utf-8") as file:
                file.write(text)
        with open(os.path.join(folder, "run.sh"), "w",
                  encoding="utf-8") as file:
            file.write("torchrun --nproc-per-node 8 pretrain_gpt.py "
                       "--tensor-model-parallel-size 2\n")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        got = run("check", cwd=folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(got.rc, 0, got.err)
        self.assertIn("run.sh: megatron: 8 ranks", got.err)
        used = (after.ru_utime + after.ru_stime - before.ru_utime -
                before.ru_stime)
        if not is_sanitized():
            self.assertLess(used, 1.5)


MEGATRON = ("torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 "
            "--hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
            "--max-position-embeddings 64 --seq-length 64 --bf16")
LLAMA = json.dumps({
    "model_type": "llama", "vocab_size": 1024, "hidden_size": 256,
    "intermediate_size": 642, "num_hidden_layers": 6,
    "num_attention_heads": 8, "num_key_value_heads": 4, "dtype": "bfloat16"})
TARGET = "version: 1\ntargets:\n  t:\n    from: {}\n"
# Files, a command, its exit status, and what it reports.
REFUSED = [
    ({"a.sh": MEGATRON}, "import megatron a.sh --format json", 2,
     "the rules of a configuration are written as YAML"),
    ({"a.sh": MEGATRON}, "import megatron a.sh -o x --mesh-output x", 2,
     "two outputs are one file:"),
    ({"a.yaml": "distributed_type: FSDP\nnum_processes: 4\n"},
     "import accelerate a.yaml", 2, "what a rank holds is not known:"),
    ({"a.sh": MEGATRON}, "init --format json", 2,
     "the targets of found configurations are printed as text"),
    ({"a.json": '{"zero_optimization": {"stage": 1}}'}, "init", 2,
     "no plan follows from the configurations of the folder"),
    ({"a.sh": MEGATRON, "shardc.yaml": TARGET.format("{megatron: a.sh}")},
     "check --runtime nope", 2, "there is no system"),
    ({"a.sh": MEGATRON, "shardc.yaml": TARGET.format("{nope: a.sh}")},
     "plan", 2, "there is no system"),
    ({"a.txt": "words"}, "show config a.txt", 2,
     "no system has a configuration like this"),
    ({"a.sh": MEGATRON,
      "shardc.yaml": TARGET.format("{megatron: a.sh, vllm: a.sh}")}, "check", 2,
     "`from` names two systems,"),
    ({"shardc.yaml": TARGET.format("{devices: 8}")}, "check", 2,
     "`from` names no system"),
    ({"a.sh": MEGATRON, "shardc.yaml": TARGET.format(
        "{megatron: a.sh}\n    mesh: tp:2")}, "check", 2,
     "the target has `from`, from which `mesh` follows"),
    ({"a.sh": MEGATRON}, "import megatron a.sh --set colour=red", 2,
     "has no key `colour` that changes what a rank holds"),
    ({"a.sh": MEGATRON + " --use-megatron-fsdp"}, "import megatron a.sh", 2,
     "the effect of `--use-megatron-fsdp` is not computed:"),
    ({"a.sh": MEGATRON, "config.json": "[]"}, "import megatron a.sh", 2,
     "the sizes of the model are no object"),
    ({"a.sh": MEGATRON}, "import megatron a.sh --devices 8388608", 2,
     "the configuration has more than"),
    ({"a.sh": MEGATRON + " --tensor-model-parallel-size 4 --num-experts 6 "
      "--expert-model-parallel-size 3 --expert-tensor-parallel-size 1 "
      "--pipeline-model-parallel-size 2 --sequence-parallel"},
     "import megatron a.sh --devices 24", 2,
     "no mesh of axes has both grids of ranks:"),
    ({"a.sh": "vllm serve x --tensor-parallel-size 4", "config.json": LLAMA},
     "import vllm a.sh", 2, "cannot divide dimension"),
    ({"a.sh": "export VLLM_PP_LAYER_PARTITION=3,4\n"
      "vllm serve x --pipeline-parallel-size 2", "config.json": LLAMA},
     "import vllm a.sh", 2, "layers cannot be divided among"),
    ({"a.py": "def f():\n    return C(tensor_parallel_degree=2)\n"},
     "show config a.py --symbol g --devices 8", 2,
     "there is no configuration `g`"),
    ({"a.txt": "words"}, "show config a.txt --system megatron", 2,
     "there is no configuration of Megatron-LM here"),
    ({"a.py": "def f():\n    return C(tensor_parallel_degree=2)\n"
      "def g():\n    return C(tensor_parallel_degree=4)\n"},
     "show config a.py --devices 8", 2, "there are 2 configurations here"),
    ({"a.json": '{"tensor_parallel": {"autotp_size": 8}}',
      "config.json": LLAMA}, "import deepspeed a.json --devices 8", 2,
     "a plan cannot state the parts of dimension"),
    ({"a.toml": "[a\nb = 1\n"}, "show config a.toml --system torchtitan", 2,
     "the name of a section does not end in `]`"),
    ({"a.toml": "[a]\nb\n"}, "show config a.toml --system torchtitan", 2,
     "a line of TOML has neither a section nor a key and a value"),
    ({"a.toml": "[a]\nb = \"c\n"}, "show config a.toml --system torchtitan", 2,
     "a string has no closing quote"),
    ({}, "plan --no-project --mesh tp:2 --rules config:x --manifest config:x",
     2, "names no configuration"),
]


class Refused(Case):
    def test_refused(self):
        for files, command, status, words in REFUSED:
            with self.subTest(command=command, words=words), \
                    tempfile.TemporaryDirectory() as folder:
                for name, text in files.items():
                    with open(os.path.join(folder, name), "w",
                              encoding="utf-8") as file:
                        file.write(text)
                got = run(*command.split(), cwd=folder)
                self.assertEqual(got.rc, status, got.out + got.err)
                self.assertIn(words, got.out + got.err)
                self.assertEqual(sorted(os.listdir(folder)), sorted(files))


class Exports(Case):
    """The keys of a plan, and back."""

    def test_import_and_export_agree(self):
        for name, system in (("megatron-dense", "megatron"),
                             ("megatron-moe-mla", "megatron"),
                             ("torchtitan-moe-mla", "torchtitan")):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                file = os.path.join(SAMPLES, name, "run.sh")
                done = run("import", system, file, "-o", "rules.yaml",
                           "--mesh-output", "mesh.yaml", "--manifest-output",
                           "all.json", cwd=folder)
                self.assertEqual(done.rc, 0, done.err)
                keys = run("export", system, "--rules", "rules.yaml", "--mesh",
                           "mesh.yaml", "--manifest", "all.json",
                           "--no-project", cwd=folder)
                self.assertEqual(keys.rc, 0, keys.err)
                back = "back.toml" if system == "torchtitan" else "back.sh"
                with open(os.path.join(folder, back), "w",
                          encoding="utf-8") as out:
                    out.write(keys.out)
                one = json.loads(run("show", "config", file, "--format",
                                     "json").out)
                other = json.loads(run(
                    "show", "config", back, "--system", system, "--devices",
                    str(one["world"]), "--format", "json", "--set",
                    "num_experts=8" if "moe" in name and system == "megatron"
                    else "tensor-model-parallel-size=4"
                    if system == "megatron" else
                    "parallelism.pipeline_parallel_degree=2",
                    cwd=folder).out)
                self.assertEqual(one["grids"], other["grids"])
                if "stages" in one and "layout" in keys.out:
                    self.assertIn("Ett|t|tt|L", keys.out)

    # A system, a configuration, the model, and the devices that the file lacks.
    ROUND = [
        ("deepspeed", "a.json", '{"train_micro_batch_size_per_gpu": 1, '
         '"zero_optimization": {"stage": 1}, '
         '"tensor_parallel": {"autotp_size": 2}}', 4),
        ("deepspeed", "a.json", '{"train_micro_batch_size_per_gpu": 1, '
         '"zero_optimization": {"stage": 1}}', 4),
        ("deepspeed", "a.json", '{"train_micro_batch_size_per_gpu": 1, '
         '"zero_optimization": {"stage": 3}}', 4),
        ("vllm", "a.sh", "vllm serve M --tensor-parallel-size 4", 0),
        ("vllm", "a.sh", "vllm serve M --tensor-parallel-size 2 "
         "--pipeline-parallel-size 2", 0),
        ("vllm", "a.sh", "VLLM_PP_LAYER_PARTITION=4,2 vllm serve M "
         "--pipeline-parallel-size 2", 0),
        ("vllm", "a.sh", "vllm serve M --tensor-parallel-size 2 "
         "--data-parallel-size 2", 0),
        ("sglang", "a.sh", "python -m sglang.launch_server --model-path M "
         "--tp-size 4", 0),
        ("sglang", "a.sh", "python -m sglang.launch_server --model-path M "
         "--tp-size 2 --pp-size 2", 0),
        ("sglang", "a.sh", "python -m sglang.launch_server --model-path M "
         "--tp-size 2 --dp-size 2", 0),
        ("accelerate", "a.yaml", "distributed_type: FSDP\nnum_processes: 8\n"
         "fsdp_config: {fsdp_version: 2}\nparallelism_config: "
         "{parallelism_config_dp_shard_size: 8}\n", 0),
        ("accelerate", "a.yaml", "distributed_type: FSDP\nnum_processes: 8\n"
         "fsdp_config: {fsdp_version: 2}\nparallelism_config: "
         "{parallelism_config_dp_replicate_size: 2, "
         "parallelism_config_dp_shard_size: 4}\n", 0),
        ("accelerate", "a.yaml", "distributed_type: MULTI_GPU\n"
         "num_processes: 4\n", 0),
        ("torchtitan", "a.toml", "[parallelism]\n"
         "data_parallel_replicate_degree = 2\n"
         "data_parallel_shard_degree = 2\ntensor_parallel_degree = 2\n", 8),
        ("torchtitan", "a.toml", "[parallelism]\n"
         "pipeline_parallel_degree = 2\ntensor_parallel_degree = 2\n", 8),
        ("megatron", "a.sh", MEGATRON.replace("--num-layers 4", "") +
         " --num-layers 6 --group-query-attention --num-query-groups 2 "
         "--tensor-model-parallel-size 2 --sequence-parallel "
         "--pipeline-model-parallel-size 2 --untie-embeddings-and-output-"
         "weights", 0)]

    def test_a_plan_of_keys_has_the_keys(self):
        """What ranks hold is the same after an import and an export."""
        for system, name, text, devices in self.ROUND:
            with self.subTest(system=system, text=text), \
                    tempfile.TemporaryDirectory() as folder:
                for file, content in ((name, text), ("config.json",
                                                     LLAMA.replace("642",
                                                                   "640"))):
                    with open(os.path.join(folder, file), "w",
                              encoding="utf-8") as out:
                        out.write(content)
                more = ["--devices", str(devices)] if devices else []
                done = run("import", system, name, *more, "-o", "rules.yaml",
                           "--mesh-output", "mesh.yaml", "--manifest-output",
                           "all.json", cwd=folder)
                self.assertEqual(done.rc, 0, done.err)
                keys = run("export", system, "--rules", "rules.yaml",
                           "--mesh", "mesh.yaml", "--manifest", "all.json",
                           *([] if system == "megatron" else
                             ["--model", "config.json"]),
                           "--no-project", cwd=folder)
                self.assertEqual(keys.rc, 0, keys.err)
                back = "back." + name.split(".")[1]
                with open(os.path.join(folder, back), "w",
                          encoding="utf-8") as out:
                    out.write(keys.out)
                one = json.loads(run("show", "config", name, *more, "--format",
                                     "json", cwd=folder).out)
                sizes = ["--set", "num-layers=6", "--set", "hidden-size=64",
                         "--set", "num-attention-heads=4", "--set",
                         "vocab-size=100", "--set", "group-query-attention"
                         "=true", "--set", "num-query-groups=2", "--set",
                         "max-position-embeddings=64", "--set", "bf16=true",
                         "--set",
                         "untie-embeddings-and-output-weights=true"]
                got = run("show", "config", back, "--system", system,
                          "--devices", str(one["world"]), "--format", "json",
                          *(sizes if system == "megatron" else []),
                          cwd=folder)
                other = json.loads(got.out)
                self.assertEqual(one["grids"], other["grids"], keys.out)
                self.assertEqual(one["ranks"], other["ranks"], keys.out)

    def test_what_a_system_cannot_state(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "config.json"), "w",
                      encoding="utf-8") as file:
                file.write(LLAMA)
            inputs = ["--mesh", "fsdp:2,tp:2", "--rules", "builtin:llama/hf",
                      "--model", "config.json", "--no-project"]
            got = run("export", "vllm", *inputs, cwd=folder)
            self.assertEqual(got.rc, 2)
            self.assertIn("weights are sharded over 2 data parallel ranks",
                          got.err)
            got = run("export", "torchtitan", *inputs, cwd=folder)
            self.assertEqual(got.rc, 0, got.err)
            self.assertIn("data_parallel_shard_degree = 2", got.out)
            verdict = run("check", *inputs, "--runtime", "vllm,torchtitan",
                          "--select", "SHD7", cwd=folder)
            self.assertEqual(verdict.rc, 1, verdict.out + verdict.err)
            self.assertIn("vLLM cannot run this plan", verdict.out)


if __name__ == "__main__":
    unittest.main()
