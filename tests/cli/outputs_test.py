"""No command writes over what it reads, or over its other output: every
output of every command against every input, under each name of a file."""

import os
import shutil
import subprocess
import tempfile
import unittest

from driver import BIN, MODELS, ROOT, TESTDATA, run

PROJECT = """\
version: 1
lint: {baseline: baseline.json}
targets:
  one:
    mesh: mesh.yaml
    rules: [rules.yaml]
    manifest: manifest.json
    model: config.json
    settings: settings.yaml
"""
FLAGS = ["--mesh", "mesh.yaml", "--rules", "rules.yaml",
         "--manifest", "manifest.json", "--model", "config.json"]
MESH, RULES = ["mesh.yaml"], ["rules.yaml", "extended.yaml"]
MODEL = ["manifest.json", "config.json"]
ALL = MESH + RULES + MODEL
ALONE = ["--no-project"]
CALL = ["get_safe_hash_int", "--input", "call.json"]

# A command, its inputs, and the flag that names its output.
COMMANDS = [
    ("plan", [*FLAGS, *ALONE], ALL, "-o"),
    ("plan", FLAGS, ALL + ["shardc.yaml", "baseline.json"], "-o"),
    ("plan", ["--target", "one"],
     ALL + ["shardc.yaml", "baseline.json", "settings.yaml"], "-o"),
    ("check", ["--fail-on", "never"],
     ALL + ["shardc.yaml", "baseline.json", "settings.yaml"], "-o"),
    ("check", ["--fail-on", "never"],
     ALL + ["shardc.yaml", "settings.yaml"], "--write-baseline"),
    ("cost", [*FLAGS, *ALONE], ALL, "-o"),
    ("cost", ["--plan", "plan.json", "--model", "config.json"],
     ["plan.json", "config.json"], "-o"),
    ("search", ["--all", "--devices", "8", "--memory", "80GiB", *FLAGS[2:], *ALONE],
     RULES + MODEL, "-o"),
    ("diff", ["plan.json", "plan.json"], ["plan.json"], "-o"),
    ("kv", ["--from", "plan.json", "--to", "plan.json", "--model",
            "config.json"], ["plan.json", "config.json"], "-o"),
    ("report", [*FLAGS, "--base", "plan.json"],
     ALL + ["plan.json", "shardc.yaml", "baseline.json"], "-o"),
    ("report", ["--plan", "plan.json", "--compiled", "program.txt"],
     ["plan.json", "program.txt"], "-o"),
    ("suggest", ["--mesh", "mesh.yaml", "--manifest", "manifest.json",
                 "--model", "config.json"], MESH + MODEL, "-o"),
    ("export", ["jax", "--plan", "plan.json"], ["plan.json"], "-o"),
    ("export", ["jax", *FLAGS], ALL, "-o"),
    ("audit", ["program.txt", "--mesh", "mesh.yaml"],
     ["program.txt", "mesh.yaml"], "-o"),
    ("audit", ["program.txt", "--plan", "plan.json"],
     ["program.txt", "plan.json"], "-o"),
    ("audit", ["program.txt", "--against", "audit.json"],
     ["program.txt", "audit.json"], "-o"),
    ("import", ["hlo", "hlo.txt", "--mesh", "mesh.yaml"],
     ["hlo.txt", "mesh.yaml"], "-o"),
    ("import", ["hlo", "hlo.txt", "--mesh", "mesh.yaml"],
     ["hlo.txt", "mesh.yaml"], "--mesh-output"),
]


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class InAProject(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copy(os.path.join(MODELS, "llama-3-8b.hf.manifest.json"),
                    self.at("manifest.json"))
        shutil.copy(os.path.join(TESTDATA, "configs",
                                 "llama-3-8b.config.json"),
                    self.at("config.json"))
        shutil.copy(os.path.join(ROOT, "rules", "llama.hf.yaml"),
                    self.at("extended.yaml"))
        write(self.at("mesh.yaml"), "axes: {dp: 2, tp: 4}\n")
        write(self.at("rules.yaml"),
              "version: 1\nextends: [extended.yaml]\n"
              "rules: [{match: none, spec: []}]\n")
        write(self.at("settings.yaml"), "{}\n")
        write(self.at("call.json"), '{"text": "a"}\n')
        write(self.at("program.txt"),
              "HloModule f, num_partitions=8\nENTRY %e {\n"
              "  ROOT %p = bf16[4096]{0} parameter(0), sharding={replicated}, "
              'metadata={op_name="model.norm.weight"}\n}\n')
        self.run_here(0, "audit", "program.txt", "--format", "json", "-o",
                      "audit.json")
        write(self.at("shardc.yaml"), PROJECT)
        for args in (["plan", *FLAGS, *ALONE, "-o", "plan.json"],
                     ["check", *FLAGS, *ALONE, "--write-baseline",
                      "baseline.json"],
                     ["export", "hlo", "--plan", "plan.json", "-o",
                      "hlo.txt"]):
            self.run_here(0, *args)

    def at(self, name):
        return os.path.join(self.folder, name)

    def run_here(self, status, *args):
        result = run(*args, cwd=self.folder)
        self.assertEqual(result.rc, status, result)
        return result

    def held(self):
        out = {}
        for folder, _, names in os.walk(self.folder):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    out[os.path.join(folder, name)] = file.read()
        return out

    def names_of(self, file):
        """Other names of one file: itself, a path round about, links."""
        yield file
        yield os.path.join("/proc/self/cwd", file)
        for make, name in ((os.symlink, "soft"), (os.link, "hard")):
            if os.path.lexists(self.at(name)):
                os.remove(self.at(name))
            make(file if make is os.symlink else self.at(file), self.at(name))
            yield name

    def refuses(self, *args):
        before = self.held()
        result = self.run_here(2, *args)
        self.assertEqual(self.held(), before, args)
        return result.err


class Outputs(InAProject):
    def test_every_output_against_every_input(self):
        for command, args, inputs, flag in COMMANDS:
            new = self.at("new")
            self.run_here(0, command, *args, flag, "new")
            os.remove(new)
            for file in inputs:
                for name in self.names_of(file):
                    with self.subTest(command=command, args=args, out=name,
                                      reads=file):
                        error = self.refuses(command, *args, flag, name)
                        self.assertIn(
                            f"`{name}` is one of the files that are read",
                            error)

    def test_standard_input_is_a_file_that_is_read(self):
        for args in (["plan", *ALONE, *FLAGS[:4], "--manifest", "-"],
                     ["import", "hlo", "-", "--mesh", "mesh.yaml"]):
            source = "hlo.txt" if "hlo" in args else "manifest.json"
            with self.subTest(args=args), open(self.at(source), "rb") as file:
                before = self.held()
                done = subprocess.run(
                    [BIN, *args, "-o", source], cwd=self.folder, stdin=file,
                    capture_output=True, check=False)
                self.assertEqual(done.returncode, 2, done)
                self.assertIn(b"one of the files that are read", done.stderr)
                self.assertEqual(self.held(), before)

    def test_standard_output_is_a_file_that_is_read(self):
        for args, source in ((["plan", *ALONE, *FLAGS], "manifest.json"),
                             (["check", *ALONE, *FLAGS], "rules.yaml"),
                             (["show", "mesh", "--mesh", "mesh.yaml"], "mesh.yaml"),
                             (["eval", *CALL], "call.json")):
            with self.subTest(args=args), open(self.at(source), "ab") as file:
                before = self.held()
                done = subprocess.run(
                    [BIN, *args], cwd=self.folder, stdout=file,
                    stderr=subprocess.PIPE, check=False)
                self.assertEqual(done.returncode, 2, done)
                words = b"standard output is one of the files that are read"
                self.assertIn(words, done.stderr)
                self.assertEqual(self.held(), before)

    def test_standard_input_is_one_file(self):
        for args, flags in (
                (["plan", *ALONE, "--mesh", "mesh.yaml", "--rules", "-",
                  "--manifest", "-"], "`--rules` and `--manifest`"),
                (["check", *ALONE, "--mesh", "-", "--rules", "-",
                  "--manifest", "manifest.json", "--format", "json"],
                 "`--mesh` and `--rules`"),
                (["plan", *ALONE, "--mesh", "dp:2", "--rules", "-", "--rules",
                  "-", "--model", "config.json"], "`--rules` and `--rules`")):
            with self.subTest(args=args):
                result = run(*args, cwd=self.folder, stdin="version: 1\n")
                self.assertEqual(result.rc, 2, result)
                self.assertIn(flags + " are both `-`, and standard input has "
                              "the text of one file", result.out + result.err)

    def test_an_input_that_is_read_twice_may_be_standard_input(self):
        """A config.json has the parameters and the sizes of attention."""
        with open(self.at("config.json"), encoding="utf-8") as file:
            config = file.read()
        for args in (["plan", *ALONE, *FLAGS[:4]],
                     ["cost", *ALONE, *FLAGS[:4], "--batch", "8"],
                     ["check", *ALONE, *FLAGS[:4], "--fail-on", "never"]):
            with self.subTest(args=args):
                wanted = run(*args, "--model", "config.json", cwd=self.folder)
                result = run(*args, "--model", "-", cwd=self.folder,
                             stdin=config)
                self.assertEqual(result.rc, 0, result)
                self.assertEqual(result.out.replace("-:", "config.json:"),
                                 wanted.out.replace("-:", "config.json:"))

    def test_fixes_alone_replace_what_was_read(self):
        write(self.at("rules.yaml"),
              "version: 1\nrules:\n"
              "  - {match: 'norm.weight$', spec: []}\n"
              "  - {match: '.*', spec: []}\n")
        self.run_here(0, "check", "--fix", "--fail-on", "never")
        with open(self.at("rules.yaml"), encoding="utf-8") as file:
            self.assertIn("norm\\.weight", file.read())

    def test_two_outputs_are_two_files(self):
        os.remove(self.at("shardc.yaml"))
        write(self.at("there"), "before\n")
        for name in ("there", "not-there"):
            error = self.refuses("import", "hlo", "hlo.txt", "--mesh",
                                 "mesh.yaml", "-o", name, "--mesh-output",
                                 "./" + name)
            self.assertIn("name one file", error)
            error = self.refuses("eval", *CALL, "-o", name, "--save",
                                 "./" + name)
            self.assertIn("name one file", error)
        os.symlink("not-there", self.at("link"))
        result = self.run_here(2, "eval", *CALL, "-o", "link", "--save",
                               "not-there")
        self.assertIn("name one file", result.err)
        self.assertFalse(os.path.exists(self.at("link")))
        self.run_here(0, "eval", *CALL, "-o", "link")
        self.assertTrue(os.path.islink(self.at("link")))
        self.assertTrue(os.path.isfile(self.at("not-there")))
        self.run_here(0, "import", "hlo", "hlo.txt", "--mesh", "mesh.yaml",
                      "-o", "/dev/null", "--mesh-output", "/dev/null")

    def test_two_outputs_are_written_both_or_neither(self):
        os.remove(self.at("shardc.yaml"))
        os.mkdir(self.at("folder"))
        write(self.at("there"), "before\n")
        for args, flag in ((["import", "hlo", "hlo.txt", "--mesh",
                             "mesh.yaml"], "--mesh-output"),
                           (["eval", *CALL], "--save")):
            for bad in ("none/file", "folder", "/dev/full"):
                for good in ("new", "there"):
                    with self.subTest(args=args, bad=bad, good=good):
                        for pair in ((bad, good), (good, bad)):
                            error = self.refuses(*args, "-o", pair[0], flag,
                                                 pair[1])
                            self.assertIn(f"cannot write `{bad}`", error)
            self.run_here(0, *args, "-o", "new", flag, "there")
            write(self.at("there"), "before\n")
            os.remove(self.at("new"))


class Committed(InAProject):
    """The same of plans that a project's targets commit."""

    OTHER = ("  two:\n    mesh: {mesh}\n    rules: [other.yaml]\n"
             "    manifest: weights\n    plan: {plan}\n")

    def setUp(self):
        super().setUp()
        os.mkdir(self.at("weights"))
        shutil.copy(self.at("manifest.json"), self.at("weights/names.json"))
        shutil.copy(self.at("extended.yaml"), self.at("deep.yaml"))
        write(self.at("other.yaml"), "version: 1\nextends: [deep.yaml]\n")
        header = b'{"lm_head.weight":{"dtype":"U8","shape":[0],' \
                 b'"data_offsets":[0,0]}}'
        with open(self.at("weights/model.safetensors"), "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)

    def project(self, one, two="two.json", mesh="mesh.yaml", more=""):
        write(self.at("shardc.yaml"),
              PROJECT + f"    plan: {one}\n" + more
              + self.OTHER.format(plan=two, mesh=mesh))

    def test_no_target_commits_over_an_input_of_any(self):
        inputs = ALL + ["settings.yaml", "shardc.yaml", "other.yaml",
                        "deep.yaml", "weights/model.safetensors"]
        for file in inputs:
            for ours, theirs in ((file, "two.json"), ("one.json", file)):
                with self.subTest(one=ours, two=theirs):
                    self.project(ours, theirs)
                    before = self.held()
                    result = self.run_here(2, "plan", "--write-locked")
                    self.assertIn("one of the files that are read",
                                  result.err)
                    after = self.held()
                    self.assertEqual({k: after[k] for k in before}, before)
                    for name in ("one.json", "two.json"):
                        if os.path.exists(self.at(name)):
                            os.remove(self.at(name))

    def test_targets_share_a_file_where_it_holds_the_same(self):
        write(self.at("shardc.yaml"),
              PROJECT + "    plan: shared.json\n"
              + PROJECT.split("targets:\n")[1].replace("one", "two")
              + "    plan: ./shared.json\n    batch: 8\n")
        self.run_here(0, "plan", "--write-locked")
        self.run_here(0, "check", "--locked", "--fail-on", "never")
        self.project("shared.json", "./shared.json")
        os.remove(self.at("shared.json"))
        result = self.run_here(2, "plan", "--write-locked")
        self.assertIn("`./shared.json` is shared by several targets, whose "
                      "contents differ", result.err)
        with open(self.at("shared.json"), encoding="utf-8") as file:
            self.assertIn("self_attn", file.read())

    def test_only_plans_are_replaced_by_plans(self):
        write(self.at("other.txt"), "kept\n")
        for there in ("other.txt", "weights/names.json"):
            for name in self.names_of(there):
                self.project(name)
                with self.subTest(plan=name):
                    before = self.held()
                    result = self.run_here(2, "plan", "--write-locked",
                                           "--target", "one")
                    self.assertIn(f"`{name}` is there and is no `shardc.plan`",
                                  result.err)
                    self.assertIn("shardc.yaml:4:3", result.err)
                    self.assertEqual(self.held(), before)
                self.project("one.json", more=f"    step: {name}\n")
                self.refuses_step(name)
        self.project("one.json")
        self.run_here(0, "plan", "--write-locked")
        with open(self.at("one.json"), encoding="utf-8") as file:
            plan = file.read()
        lines = plan.split("\n")
        conflict = "\n".join([*lines[:2], "<<<<<<< ours", lines[2], "=======",
                              lines[2], ">>>>>>> theirs", *lines[3:]])
        for text in (conflict, plan, ""):
            write(self.at("one.json"), text)
            self.run_here(0, "plan", "--write-locked")
            with open(self.at("one.json"), encoding="utf-8") as file:
                self.assertEqual(file.read(), plan)

    def refuses_step(self, name):
        before = self.held()
        result = self.run_here(2, "plan", "--write-locked", "--target", "one")
        self.assertIn(f"`{name}` is there and is no `shardc.step`", result.err)
        after = self.held()
        self.assertEqual({k: after[k] for k in before}, before)
        if os.path.exists(self.at("one.json")):
            os.remove(self.at("one.json"))

    def test_a_plan_is_not_its_step_program(self):
        self.project("same.json", more="    step: ./same.json\n")
        error = self.refuses("plan", "--write-locked")
        self.assertIn("shardc.yaml:11:", error)


if __name__ == "__main__":
    unittest.main()
