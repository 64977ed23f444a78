"""`shardc init`: the project that it writes is one that `check` and `plan`
take; what is there stays."""

import gzip
import json
import os
import re
import shutil
import struct
import subprocess
import unittest

import yaml
from driver import BIN, MODELS, ROOT, TESTDATA, FolderCase, run

LLAMA = os.path.join(MODELS, "llama-3-8b.hf.manifest.json")
CONFIG = os.path.join(TESTDATA, "configs", "llama-3-8b.config.json")


def tensors_of(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        params = json.load(file)["params"]
    if isinstance(params, dict):
        params = [{"name": name, **of} for name, of in params.items()]
    return params


def write_header(path, tensors):
    """A safetensors file whose tensors are a hole."""
    header, at = {}, 0
    for one in tensors:
        size = 2
        for n in one["shape"]:
            size *= n
        header[one["name"]] = {"dtype": "BF16", "shape": one["shape"],
                               "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)


SCRIPT = ("torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 30 "
          "--hidden-size 64 --num-attention-heads 4 --vocab-size 128 "
          "--seq-length 64 --max-position-embeddings 64 "
          "--tensor-model-parallel-size 2 --pipeline-model-parallel-size {}\n")


class Configurations(FolderCase):
    """A project whose targets follow the configurations of other systems."""

    def shardc(self, *words, rc=0):
        return self.check(run(*words, cwd=self.folder), rc)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, *names):
        with open(os.path.join(self.folder, *names), encoding="utf-8") as file:
            return file.read()

    def test_what_is_refused_is_a_target_and_what_is_unknown_is_named(self):
        self.write("good.sh", SCRIPT.format(2))
        self.write("bad.sh", SCRIPT.format(4))
        self.write("ds.json", '{"zero_optimization": {"stage": 3}}')
        out = self.shardc("init").out
        self.assertIn("refused     bad.sh: 30 layers are not a multiple of 4 "
                      "pipeline stages", out)
        self.assertIn("left out    ds.json: ", out)
        self.assertIn("wrote       .github/workflows/shardc.yaml\n", out)
        self.assertIn("wrote       shardc.yaml: 2 targets\n", out)
        self.assertEqual(set(yaml.safe_load(self.read("shardc.yaml"))["targets"]),
                         {"good", "bad"})
        self.assertIn('#     from: {deepspeed: "ds.json"}\n',
                      self.read("shardc.yaml"))
        self.assertIn("bad.sh:1:", self.shardc("check", "--format", "concise",
                                               rc=1).out)
        self.write("bad.sh", SCRIPT.format(2))
        self.shardc("check")

    def test_an_engine_decodes(self):
        """Its target states so, and `cost` is that of a decode step."""
        sample = os.path.join(TESTDATA, "systems", "vllm-tp4")
        for name in ("serve.sh", "config.json"):
            shutil.copy(os.path.join(sample, name),
                        os.path.join(self.folder, name))
        self.assertIn("linted only in a project, which `shardc init` writes",
                      self.shardc("check").err)
        self.shardc("init")
        target = yaml.safe_load(self.read("shardc.yaml"))["targets"]["serve"]
        self.assertEqual(target["modes"], ["decode"])
        self.assertNotIn("linted only", self.shardc("check").err)
        self.assertTrue(self.shardc("cost").out.startswith("decode on tp=4"))
        self.assertTrue(self.shardc("cost", "--mode", "train").out.startswith(
            "train on tp=4"))
        self.write("good.sh", SCRIPT.format(2))
        self.write("both.yaml", "version: 1\ntargets:\n  t:\n    from: "
                   "{megatron: good.sh}\n    modes: [decode, train]\n")
        done = self.shardc("cost", "--project", "both.yaml", "--batch", "8",
                           "--seq", "64")
        self.assertTrue(done.out.startswith("train on "), done)

    def test_the_workflow_checks_without_committed_plans(self):
        self.write("good.sh", SCRIPT.format(2))
        self.shardc("init")
        text = self.read(".github", "workflows", "shardc.yaml")
        self.assertIn('shardc" check --format github', text)
        self.assertNotIn("--locked", text)
        yaml.safe_load(text)
        self.shardc("check", "--format", "github")

    def test_no_workflow_is_replaced(self):
        self.write("good.sh", SCRIPT.format(2))
        os.makedirs(os.path.join(self.folder, ".github", "workflows"))
        self.write(".github/workflows/shardc.yaml", "mine")
        self.assertIn("exists already", self.shardc("init", rc=2).err)
        self.assertEqual(self.read(".github", "workflows", "shardc.yaml"), "mine")
        self.assertFalse(os.path.exists(os.path.join(self.folder, "shardc.yaml")))

    def test_an_import_replaces_no_project(self):
        self.write("good.sh", SCRIPT.format(2))
        self.write("shardc.yaml", "mine")
        words = ["import", "megatron", "good.sh", "-o", "rules.yaml",
                 "--project-output"]
        self.assertIn("`shardc.yaml` exists already",
                      self.shardc(*words, "shardc.yaml", rc=2).err)
        self.assertEqual(self.read("shardc.yaml"), "mine")
        self.assertFalse(os.path.exists(os.path.join(self.folder, "rules.yaml")))
        self.shardc(*words, "new.yaml")
        self.assertIn('from: {megatron: "good.sh"}', self.read("new.yaml"))

    def test_a_finding_in_the_rules_of_a_configuration_is_in_the_project(self):
        """They are no file, in which GitHub could show it."""
        self.write("job.toml", "[parallelism]\ndata_parallel_shard_degree = 4\n"
                   "tensor_parallel_degree = 2\n")
        shutil.copy(CONFIG, os.path.join(self.folder, "config.json"))
        self.shardc("init")
        found = False
        for line in self.shardc("check", "--format", "github").out.splitlines():
            if line.startswith("::"):
                found = True
                self.assertRegex(line, r"^::\w+ file=shardc\.yaml,line=\d+,")
                self.assertIn("config:torchtitan:job.toml:", line)
        self.assertTrue(found)
        places = [one["physicalLocation"]["artifactLocation"]["uri"]
                  for result in json.loads(self.shardc(
                      "check", "--format", "sarif").out)["runs"][0]["results"]
                  for one in result["locations"]]
        self.assertEqual(set(places), {"shardc.yaml"})


class Init(FolderCase):
    def setUp(self):
        super().setUp()
        self.project = os.path.join(self.folder, "project")
        os.mkdir(self.project)

    def init(self, source, *more, rc=0):
        return self.check(run("init", source, "--folder", self.project, *more),
                          rc)

    def files(self):
        return sorted(os.path.relpath(os.path.join(at, name), self.project)
                      for at, _, names in os.walk(self.project)
                      for name in names)

    def test_a_traced_program_is_read_for_its_operations(self):
        """Rules follow from it, and not from the names alone."""
        program = os.path.join(ROOT, "examples", "jax",
                               "own_names.program.json.gz")
        done = self.init(program, "--mesh", "fsdp:2,tp:4")
        self.assertNotIn("unknown", done.out + done.err)
        self.assertIn("own_names.plan.json", self.files())
        with open(os.path.join(self.project, "rules.yaml"),
                  encoding="utf-8") as file:
            made = file.read()
        alone = os.path.join(self.folder, "alone.yaml")
        self.check(run("suggest", "--program", program, "--mesh", "fsdp:2,tp:4",
                       "-o", alone), 0)
        with open(alone, encoding="utf-8") as file:
            self.assertEqual(file.read(), made)
        self.assert_good()

    def assert_good(self, warnings="0 warnings"):
        """The next commands of a newcomer: in that folder, as printed."""
        done = self.check(run("check", "--locked", cwd=self.project), 0)
        self.assertIn(f"0 errors, {warnings}", done.err + done.out)
        self.check(run("plan", "--diff", cwd=self.project), 0)
        done = self.check(run("plan", cwd=self.project), 0)
        name = [n for n in self.files() if n.endswith(".plan.json")][0]
        with open(os.path.join(self.project, name), encoding="utf-8") as file:
            self.assertEqual(file.read(), done.out)
        for name in self.files():
            with open(os.path.join(self.project, name),
                      encoding="utf-8") as file:
                self.assertNotIn(self.folder, file.read(), name)

    def workflow(self, *names):
        with open(os.path.join(*names), encoding="utf-8") as file:
            text = file.read()
        # This is no program of a release (tests/fresh_machine_test.py runs one).
        self.assertIn("A local build wrote this file", text)
        self.assertNotIn("SHARDC_", text)
        workflow = yaml.safe_load(text)
        self.assertEqual(workflow["permissions"], {"contents": "read"})
        steps = workflow["jobs"]["check"]["steps"]
        for step in steps:
            if "uses" in step:
                self.assertRegex(step["uses"], r"@[0-9a-f]{40}$")
        version = run("--version").out.split()[1]
        self.assertIn(f"shardc=={version}\n", text)
        return steps[-1]

    def test_the_workflow_is_at_the_root_of_the_repository(self):
        os.mkdir(os.path.join(self.folder, ".git"))
        self.project = os.path.join(self.folder, "jobs", "new")
        done = self.init(LLAMA, "--mesh", "fsdp:8")
        workflows = os.path.join(self.folder, ".github", "workflows")
        self.assertEqual(os.listdir(workflows), ["shardc.yaml"])
        step = self.workflow(workflows, "shardc.yaml")
        self.assertEqual(step["working-directory"], "jobs/new")
        self.assertNotIn(".github", " ".join(self.files()))
        self.assertIn(os.path.join(".github", "workflows"), done.out)
        self.assert_good()
        # A second project of the repository.
        self.project = os.path.join(self.folder, "other")
        self.init(LLAMA, "--mesh", "fsdp:8")
        self.assertEqual(sorted(os.listdir(workflows)), [
            "shardc-llama-3-8b.hf.yaml", "shardc.yaml"])
        # At the root itself.
        self.project = os.path.join(self.folder, "root")
        os.makedirs(os.path.join(self.project, ".git"))
        self.init(LLAMA, "--mesh", "fsdp:8")
        step = self.workflow(self.project, ".github", "workflows",
                             "shardc.yaml")
        self.assertNotIn("working-directory", step)

    def test_a_folder_whose_name_github_would_evaluate(self):
        os.mkdir(os.path.join(self.folder, ".git"))
        for name, written in (
                ("${{ github.token }}", "${{ '${{ github.token }}' }}"),
                ("it's ${{ x", "${{ 'it''s ${{ x' }}"), ("a }} b", "a }} b")):
            self.project = os.path.join(self.folder, name)
            self.init(LLAMA, "--mesh", "fsdp:8")
            workflows = os.path.join(self.folder, ".github", "workflows")
            step = self.workflow(workflows, *os.listdir(workflows))
            self.assertEqual(step["working-directory"], written)
            shutil.rmtree(os.path.join(self.folder, ".github"))

    def test_the_summary_as_json_names_the_files(self):
        done = self.init(LLAMA, "--mesh", "fsdp:8", "--format", "json").json()
        self.assertFalse(done["pins_program"])
        self.assertEqual((done["target"], done["mesh"]["devices"]),
                         ("llama-3-8b.hf", 8))
        self.assertEqual(sorted(os.path.realpath(os.path.join(ROOT, path))
                                for path in done["files"]),
                         sorted(os.path.realpath(os.path.join(self.project, path))
                                for path in self.files()))

    def test_a_pack_shards_kv_heads_as_the_projects_plan_does(self):
        config = os.path.join(TESTDATA, "configs", "gemma-2-9b.config.json")
        done = self.init(config, "--mesh", "dp:2,fsdp:2,tp:2")
        self.assertIn("builtin:gemma/hf", done.out)
        self.assert_good()

    def test_a_folder_that_is_missing_is_made_and_removed_after_a_failure(self):
        self.project = os.path.join(self.folder, "a", "b")
        self.init(CONFIG, "--mesh", "fsdp:7", rc=1)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "a")))
        self.init(LLAMA, "--mesh", "fsdp:8")
        self.assert_good()
        self.workflow(self.project, ".github", "workflows", "shardc.yaml")
        self.project = os.path.join(self.project, "rules.yaml")
        self.assertIn("is not a folder", self.init(LLAMA, rc=2).err)

    def test_the_target_has_the_name_of_the_folder(self):
        checkpoint = os.path.join(self.folder, "Llama 3")
        os.mkdir(checkpoint)
        write_header(os.path.join(checkpoint, "model.safetensors"),
                     tensors_of(LLAMA))
        self.check(run("init", ".", "--mesh", "fsdp:8", cwd=checkpoint), 0)
        with open(os.path.join(checkpoint, "shardc.yaml"),
                  encoding="utf-8") as file:
            self.assertEqual(list(yaml.safe_load(file)["targets"]),
                             ["Llama-3"])
        self.project = os.path.join(checkpoint, "project")
        os.mkdir(self.project)
        shutil.copy(CONFIG, os.path.join(checkpoint, "config.json"))
        self.check(run("init", "../config.json", "--mesh", "fsdp:8",
                       cwd=self.project), 0)
        self.assertIn("Llama-3.plan.json", self.files())

    def test_the_printed_folder_is_a_word_of_a_shell(self):
        self.project = os.path.join(self.folder, "it's new")
        done = self.init(LLAMA, "--mesh", "fsdp:8")
        line = re.search("^  (cd .*)$", done.out, re.MULTILINE).group(1)
        subprocess.run(["sh", "-c", line], check=True)

    def test_a_manifest_of_a_known_family(self):
        done = self.init(LLAMA, "--mesh", "dp:2,fsdp:8,tp:4")
        self.assertEqual(self.files(), [
            ".github/workflows/shardc.yaml", "llama-3-8b.hf.manifest.json",
            "llama-3-8b.hf.plan.json", "rules.yaml", "shardc.yaml"])
        with open(os.path.join(self.project, "rules.yaml"),
                  encoding="utf-8") as file:
            self.assertIn("extends: [builtin:llama/hf]", file.read())
        self.assertIn("shardc check --locked", done.out)
        self.assert_good()

    def test_all_of_a_mesh_is_in_the_project(self):
        path = os.path.join(self.folder, "mesh.yaml")
        axes = "axes: {dp: 2, fsdp: 4, tp: 2}\n"
        for text, more, member in (
                (axes + "axis_types: {tp: explicit}\n", (), "axis_types"),
                (axes, ("--processes", "4"), "processes"),
                (axes + "processes: 2\nslices: 2\ndcn: {dp: 2}\n", (), "dcn"),
                (axes + "device: h100-80gb\n", (), "device"),
                (axes + "device: {profile: v4, memory: 99GiB}\n", (),
                 "device"),
                (axes + "device: {memory: 80GiB}\n", (), "device")):
            with self.subTest(text=text, more=more):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                shutil.rmtree(self.project)
                self.init(LLAMA, "--mesh", path, *more)
                self.assert_good()
                with open(os.path.join(self.project, "shardc.yaml"),
                          encoding="utf-8") as file:
                    target = yaml.safe_load(file)["targets"]["llama-3-8b.hf"]
                self.assertIn(member, target["mesh"])
                given = self.check(run("show", "mesh", "--mesh", path, *more,
                                       "--format", "json"), 0)
                written = self.check(run("show", "mesh", "--format", "json",
                                         cwd=self.project), 0)
                self.assertEqual(written.out, given.out)

    def test_names_of_no_family(self):
        params = [{**one, "name": f"p{number:05d}"}
                  for number, one in enumerate(tensors_of(LLAMA))]
        path = os.path.join(self.project, "tree.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schema": "shardc.manifest/v1", "params": params}, file)
        self.init(path, "--mesh", "fsdp:8,tp:4")
        # A manifest in the folder is named, not copied.
        self.assertNotIn("tree.manifest.json", self.files())
        with open(os.path.join(self.project, "rules.yaml"),
                  encoding="utf-8") as file:
            self.assertIn("Rules suggested", file.read())
        # `check` warns of the names, which show no role.
        self.assert_good("1 warning,")

    def test_a_configuration(self):
        self.init(CONFIG, "--devices", "16")
        self.assertIn("llama-3-8b.config.json", self.files())
        self.assert_good()

    def test_a_configuration_under_another_name(self):
        other = os.path.join(self.folder, "llama.json")
        shutil.copy(CONFIG, other)
        self.init(other, "--devices", "16")
        self.assertIn("llama.manifest.json", self.files())
        self.assertIn("llama.plan.json", self.files())
        self.assert_good()

    def test_a_checkpoint(self):
        checkpoint = os.path.join(self.folder, "My Model")
        os.mkdir(checkpoint)
        write_header(os.path.join(checkpoint, "model.safetensors"),
                     tensors_of(LLAMA))
        shutil.copy(CONFIG, os.path.join(checkpoint, "config.json"))
        self.init(checkpoint)
        self.assertEqual(self.files(), [
            ".github/workflows/shardc.yaml", "My-Model.config.json",
            "My-Model.manifest.json", "My-Model.plan.json", "rules.yaml",
            "shardc.yaml"])
        self.assert_good()

    def test_an_index_without_its_files(self):
        checkpoint = os.path.join(self.folder, "index")
        os.mkdir(checkpoint)
        with open(os.path.join(checkpoint, "model.safetensors.index.json"),
                  "w", encoding="utf-8") as file:
            json.dump({"metadata": {}, "weight_map": {
                one["name"]: "model-00001-of-00001.safetensors"
                for one in tensors_of(LLAMA)}}, file)
        self.init(checkpoint, rc=2)
        self.assertEqual(self.files(), [])
        shutil.copy(CONFIG, os.path.join(checkpoint, "config.json"))
        self.init(checkpoint)
        self.assert_good()

    def test_nothing_is_written_over(self):
        for name in ("shardc.yaml", "rules.yaml", "llama-3-8b.hf.plan.json",
                     "llama-3-8b.hf.manifest.json",
                     ".github/workflows/shardc.yaml"):
            shutil.rmtree(self.project)
            path = os.path.join(self.project, name)
            os.makedirs(os.path.dirname(path))
            with open(path, "w", encoding="utf-8") as file:
                file.write("mine")
            done = self.init(LLAMA, "--mesh", "fsdp:8", rc=2)
            self.assertIn("exists already", done.err)
            self.assertEqual(self.files(), [name])
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), "mine")
        # Nor where a link leads nowhere.
        shutil.rmtree(self.project)
        os.mkdir(self.project)
        os.symlink("nowhere", os.path.join(self.project, "rules.yaml"))
        self.init(LLAMA, "--mesh", "fsdp:8", rc=2)
        self.assertEqual(self.files(), ["rules.yaml"])

    def test_a_folder_that_cannot_be_searched_is_no_file_that_exists(self):
        os.symlink("loop", os.path.join(self.project, "loop"))
        for folder, why in (("loop/x", "Too many levels of symbolic links"),
                            ("x" * 300, "File name too long")):
            done = self.check(run("init", LLAMA, "--mesh", "fsdp:8",
                                  "--folder", folder, cwd=self.project), 2)
            self.assertEqual(done.err.count("error["), 1, done.err)
            self.assertIn(why, done.err)
            self.assertNotIn("exists already", done.err)
            self.assertEqual(self.files(), ["loop"])

    def test_nothing_is_half_written(self):
        os.mkdir(os.path.join(self.project, ".github"))
        os.chmod(os.path.join(self.project, ".github"), 0o500)
        if os.access(os.path.join(self.project, ".github"), os.W_OK):
            # For those who may write everywhere: a file in a folder's place.
            os.rmdir(os.path.join(self.project, ".github"))
            with open(os.path.join(self.project, ".github"), "w",
                      encoding="utf-8") as file:
                file.write("mine")
        before = self.files()
        self.init(LLAMA, "--mesh", "fsdp:8", rc=2)
        self.assertEqual(self.files(), before)

    def test_a_project_that_is_not_reported_is_removed(self):
        args = [BIN, "init", LLAMA, "--folder", self.project, "--mesh",
                "fsdp:8"]
        with open("/dev/full", "wb") as full:
            done = subprocess.run(args, stdout=full, stderr=subprocess.PIPE,
                                  check=False)
        self.assertEqual(done.returncode, 2, done)
        self.assertIn(b"standard output cannot be written", done.stderr)
        self.assertEqual(self.files(), [])
        self.init(LLAMA, "--mesh", "fsdp:8")
        self.assert_good()

    def test_what_does_not_fit(self):
        done = self.init(LLAMA, "--devices", "8", "--memory", "8GiB", rc=1)
        self.assertIn("such devices would", done.err)
        self.assertEqual(self.files(), [])
        # One matrix that the mesh does not divide: a warning alone.
        path = os.path.join(self.folder, "odd.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schema": "shardc.manifest/v1", "params": [
                {"name": f"{name}.weight", "shape": [side, side],
                 "dtype": "F32"}
                for name, side in (("even", 1024), ("odd", 301))]}, file)
        done = self.init(path, "--mesh", "tp:2", rc=1)
        self.assertIn("warning[SHD207", done.err)
        self.assertNotIn("error", done.err)
        self.assertEqual(self.files(), [])
        self.init(os.path.join(self.folder, "none"), rc=2)
        self.init(LLAMA, "--devices", "x", rc=2)
        self.init(LLAMA, "--mesh", "fsdp:8", "--folder",
                  os.path.join(self.folder, "none"), rc=2)
        self.assertEqual(self.files(), [])


if __name__ == "__main__":
    unittest.main()
