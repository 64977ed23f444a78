"""docs/extending.md: its patches still apply, most of them add one file and one
line of a table, and the program built from them does what the page describes.

All patches are applied to one copy of the tree. It is built with the objects of
this build if the build folder is in the tree; otherwise everything is compiled.

With SHARDC_EXTENDING=quick the patches are only applied, and nothing is built.
With SHARDC_EXTENDING=all the programs with another op of the step and with
another collective are built and run too, which compiles a third of them again.

If a patch no longer applies, or its source no longer compiles, make the change
by hand in a copy of the tree and write the patch again:

    git add -N . && git diff src tests python > docs/extending/NAME.patch
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.environ["SHARDC_SOURCE_ROOT"])
BUILD = os.path.abspath(os.environ["SHARDC_BUILD_ROOT"])
PATCHES = os.path.join(ROOT, "docs", "extending")
# A file and a line of a table.h each.
RECORDS = ["checkpoint", "format", "importer", "operation"]
# Files of folders that are listed.
OTHERS = ["command", "family", "lint", "profile", "system"]
FOLDERS = {"families/pocket.yaml", "profiles/acme-1.yaml", "systems/pocket.yaml",
           "src/cli/modes.cc", "src/lint/rules/long_pattern.cc",
           "texts/commands/modes.md", "texts/diagnostics/SHD119.md"}
# The list of the commands gets a line.
COMMANDS = "src/cli/meson.build"
# The options of this build that make its objects what they are.
OPTIONS = ["optimization", "debug", "werror", "b_pch", "b_pie", "b_sanitize",
           "b_lundef", "cpp_args", "common_headers", "units"]
TARGETS = ["src/cli/shardc", "tests/lint_test", "tests/parse_test",
           "tests/programs/describe_commands"]
# What the program's tables determine, written by the documented commands.
GENERATED = ("docs/diagnostics.md", "man/commands.json", "man/shardc-mesh.5",
             "man/shardc-operations.5", "man/shardc-project.5", "schemas/",
             "testdata/golden/", "testdata/tables/lint_rules.txt")
QUICK = os.environ.get("SHARDC_EXTENDING") == "quick"
ALL = os.environ.get("SHARDC_EXTENDING") == "all"
builds = unittest.skipIf(QUICK, "nothing is built")
REFRESH = ("\na patch of docs/extending.md is out of date: see the head of "
           "tests/extending_test.py")

# A model whose layers reverse the inner dimension, which tp shards.
MIRROR = """\
version: 1
separator: "."
axes: {batch: [fsdp], mlp_intermediate: [tp], vocab: [tp]}
rules:
  - {match: '(embed|head)\\.weight$', spec: [tp, fsdp]}
  - {match: 'up\\.weight$', spec: [tp, fsdp]}
  - {match: 'down\\.weight$', spec: [fsdp, tp]}
model:
  dims: {d: hidden_size, f: intermediate_size, v: vocab_size}
  axes: {d: EMBED, f: MLP_INTERMEDIATE, v: VOCAB}
  repeat: num_hidden_layers
  params:
    embed: ['embed\\.weight$', [v, d]]
    up: ['layers\\.$i\\.up\\.weight$', [f, d]]
    down: ['layers\\.$i\\.down\\.weight$', [d, f]]
    head: ['head\\.weight$', [v, d]]
  begin: x = lookup(embed, ids) @resid
  layer:
    - m = linear(x, up)
    - m = fn(m, silu) @mlp
    - m = reverse(m, f)
    - m = linear(m, down)
    - x = add(x, m) @resid
  end: logits = linear(x, head) @logits
"""

# A program with another collective: each device of a group of two sends at most
# all 128 bytes of its operand.
RAGGED = """\
HloModule jit_f, num_partitions=4

ENTRY %main (p: f32[8,4]) -> f32[8,4] {
  %p = f32[8,4]{1,0} parameter(0), metadata={op_name="p['w']"}
  ROOT %r = f32[8,4]{1,0} ragged-all-to-all(%p, %p, %p, %p, %p, %p), \
replica_groups={{0,1},{2,3}}
}
"""


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8",
                          check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command}\n{done.stdout[-6000:]}")
    return done.stdout


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def patch(name):
    return os.path.join(PATCHES, name + ".patch")


def options():
    known = json.loads(read(BUILD, "meson-info", "intro-buildoptions.json"))
    given = {option["name"]: option["value"] for option in known}
    # A buildtype would win over the two that it stands for.
    hardened = (given["hardening"] == "on" or given["hardening"] == "auto"
                and given["buildtype"] == "release")
    yield "-Dhardening=" + ("on" if hardened else "off")
    for name in OPTIONS:
        value = given.get(name)
        if isinstance(value, bool):
            yield f"-D{name}={str(value).lower()}"
        elif value:
            yield f"-D{name}=" + (" ".join(value) if isinstance(value, list)
                                  else value)


def compiler():
    """The compiler command of this build, perhaps through ccache."""
    words = json.loads(read(BUILD, "compile_commands.json"))[0]["command"]
    return words[:words.index(" -")]


def apply(name, folder):
    try:
        run("patch", "-p1", "-F2", "--no-backup-if-mismatch", "-i",
            patch(name), cwd=folder)
    except AssertionError as error:
        raise AssertionError(f"{error}{REFRESH}") from None


class Tree:
    """A copy of the tree that is patched and built."""

    def __init__(self, folder):
        self.root = os.path.join(folder, "tree")
        shutil.copytree(ROOT, self.root, copy_function=shutil.copy2,
                        ignore=self.ignored)
        inside = os.path.dirname(BUILD) == ROOT
        self.build = os.path.join(
            self.root, os.path.basename(BUILD) if inside else "build")
        self.before = self.texts()
        if QUICK:
            return
        run("meson", "setup", *options(), self.build, self.root,
            env=dict(os.environ, CXX=compiler()))
        if inside:
            self.take_objects()

    @staticmethod
    def ignored(folder, names):
        top = os.path.abspath(folder) == ROOT
        return [name for name in names if name == "__pycache__" or top
                and (name.startswith("build") or name in (".git", ".cache"))]

    def take_objects(self):
        """Copies the objects, headers and ninja's logs, which are valid for the copy:
        every path in them is relative, and the sources' times are the same."""
        for name in (".ninja_log", ".ninja_deps"):
            shutil.copy2(os.path.join(BUILD, name), self.build)
        for here, _, names in os.walk(BUILD):
            inside = os.path.relpath(here, BUILD)
            if inside.split(os.sep)[0].startswith("meson-"):
                continue
            for name in names:
                if name.endswith((".o", ".a", ".cpp", ".gch", ".h")):
                    target = os.path.join(self.build, inside)
                    os.makedirs(target, exist_ok=True)
                    shutil.copy2(os.path.join(here, name), target)

    def texts(self):
        """The bytes of every file, without the build folder."""
        out = {}
        for here, below, names in os.walk(self.root):
            if here == self.root:
                below[:] = [b for b in below if not b.startswith("build")]
            below[:] = [b for b in below if b != "__pycache__"]
            for name in names:
                path = os.path.join(here, name)
                with open(path, "rb") as file:
                    out[os.path.relpath(path, self.root)] = file.read()
        return out

    def changed(self):
        """Names of the files that changed, and the bytes of all files."""
        now = self.texts()
        return sorted(name for name in now.keys() | self.before.keys()
                      if now.get(name) != self.before.get(name)), now

    def make(self):
        run("ninja", "-C", self.build, *TARGETS)

    def object_of(self, source):
        """The object of a source, or of those that are compiled with it."""
        for entry in json.loads(read(self.build, "compile_commands.json")):
            path = os.path.join(entry["directory"], entry["file"])
            if (os.path.relpath(path, self.root) == source
                    or path.endswith(".unit.cc")
                    and f'"{source.removeprefix("src/")}"' in read(path)):
                return entry["output"]
        raise AssertionError(f"nothing compiles {source}")

    def env(self):
        bin_ = os.path.join(self.build, "src", "cli", "shardc")
        return dict(os.environ, SHARDC_BIN=bin_, SHARDC_SOURCE_ROOT=self.root,
                    SHARDC_BUILD_ROOT=self.build, PYTHONDONTWRITEBYTECODE="1",
                    SHARDC_DESCRIBE_COMMANDS=os.path.join(
                        self.build, "tests", "programs", "describe_commands"))

    def python(self, *words):
        return run(sys.executable, *words, cwd=self.root, env=self.env())

    def shardc(self, *words):
        return subprocess.run([self.env()["SHARDC_BIN"], *words],
                              capture_output=True, text=True, check=False,
                              cwd=self.root)


@unittest.skipUnless(shutil.which("patch"), "no patch")
class Extending(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.tree = Tree(folder)
        for name in RECORDS + OTHERS:
            apply(name, cls.tree.root)
        cls.patched, cls.now = cls.tree.changed()
        if QUICK:
            return
        run("meson", "setup", "--reconfigure", cls.tree.build, cls.tree.root)
        try:
            cls.tree.make()
        except AssertionError as error:
            raise AssertionError(f"{error}{REFRESH}") from None
        # The tables first: schemas are inside the program.
        cls.tree.python("tests/cli/tables_test.py", "--write")
        cls.tree.make()
        cls.tree.python("tests/cli/golden_test.py", "--write")
        run(os.path.join(cls.tree.build, "tests", "lint_test"),
            cwd=cls.tree.root,
            env=dict(cls.tree.env(), SHARDC_WRITE_TABLES="1"))

    def test_each_record_is_a_file_and_a_line_of_a_table(self):
        self.assertLessEqual(FOLDERS, set(self.patched))
        patched = [name for name in self.patched if name not in FOLDERS]
        tables = [name for name in patched if name in self.tree.before]
        self.assertEqual(len(tables), len(RECORDS) + 1)
        self.assertEqual(len(patched), 2 * len(RECORDS) + 1)
        for name in tables:
            self.assertTrue(name.endswith("/table.h") or name == COMMANDS,
                            name)
            before = self.tree.before[name].decode().splitlines()
            now = self.now[name].decode().splitlines()
            self.assertEqual(len(now), len(before) + 1, name)
            self.assertEqual([line for line in now if line in before], before)
            if name == COMMANDS:
                continue
            folder = os.path.dirname(name)
            self.assertEqual(
                [os.path.dirname(other) for other in patched
                 if other.endswith(".cc")].count(folder), 1)

    @builds
    def test_besides_them_only_what_is_generated_changes(self):
        names, _ = self.tree.changed()
        self.assertGreater(len(names), len(self.patched))
        for name in names:
            if name not in self.patched:
                self.assertTrue(name.startswith(GENERATED), name)

    @builds
    def test_the_documents_and_tests_take_them(self):
        for test in ("rooms", "cli/tables", "cli/man",
                     "cli/completion", "cli/check_formats"):
            self.tree.python(f"tests/{test}_test.py")
        for test in ("lint_test", "parse_test"):
            run(os.path.join(self.tree.build, "tests", test),
                "--no-path-filenames=true", cwd=self.tree.root,
                env=self.tree.env())

    @builds
    def test_the_lint_is_explained_and_found(self):
        done = self.tree.shardc("explain", "long-pattern")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("SHD119", done.stdout)
        golden = read(self.tree.root, "testdata", "golden", "codes",
                      "SHD119.txt")
        self.assertIn("SHD119 long-pattern", golden)

    @builds
    def test_the_command_is_run_and_described(self):
        self.assertEqual(self.tree.shardc("modes").stdout,
                         "train\nprefill\ndecode\ninsert\n")
        self.assertIn("list the runtime modes",
                      self.tree.shardc("--help").stdout)

    @builds
    def test_the_format_is_written(self):
        done = self.tree.shardc(
            "check", "--mesh", "fsdp:8,tp:4", "--rules", "builtin:llama",
            "--manifest", "testdata/models/llama-3-8b.hf.manifest.json",
            "--format", "gitlab")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        for finding in json.loads(done.stdout):
            self.assertEqual(sorted(finding), [
                "check_name", "description", "fingerprint", "location",
                "severity"])
        self.assertIn("gitlab", self.tree.shardc("check", "--help").stdout)

    @builds
    def test_the_importer_reads_its_format(self):
        path = os.path.join(self.tree.root, "specs.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"h.0.up": ["fsdp", "tp"], "h.1.up": ["fsdp", "tp"],
                       "norm": []}, file)
        done = self.tree.shardc("import", "specs", "specs.json")
        os.remove(path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "version: 1\n"
                         "separator: \".\"\n"
                         "rules:\n"
                         "  - match: '^h\\.[0-9]+\\.up$'\n"
                         "    spec: [fsdp, tp]\n"
                         "  - match: '^norm$'\n"
                         "    spec: []\n")

    @builds
    def test_the_checkpoint_format_is_read(self):
        folder = os.path.join(self.tree.root, "arrays")
        out = os.path.join(self.tree.root, "arrays.safetensors")
        os.mkdir(folder)
        self.addCleanup(shutil.rmtree, folder)
        arrays = {"decoder.wq": ("<f4", "(4, 2)", bytes(range(32))),
                  "step": ("<i8", "()", bytes(range(8)))}
        for name, (descr, shape, data) in arrays.items():
            header = (f"{{'descr': '{descr}', 'fortran_order': False, "
                      f"'shape': {shape}, }}\n").encode()
            with open(os.path.join(folder, name + ".npy"), "wb") as file:
                file.write(b"\x93NUMPY\1\0" + bytes([len(header), 0])
                           + header + data)
        done = self.tree.shardc("show", "manifest", "--manifest", "arrays")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("decoder.wq  [4, 2] F32", done.stdout)
        done = self.tree.shardc("checkpoint", "merge", "arrays", "--output", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.addCleanup(os.remove, out)
        with open(out, "rb") as file:
            self.assertTrue(file.read().endswith(
                bytes(range(32)) + bytes(range(8))))
        with open(os.path.join(folder, "step.npy"), "ab") as file:
            file.write(b"x")
        done = self.tree.shardc("show", "manifest", "--manifest", "arrays")
        self.assertEqual(done.returncode, 2)
        self.assertIn("an array of shape [] does not have 9 bytes",
                      done.stderr)

    @builds
    def test_the_family_builds_a_tree(self):
        path = os.path.join(self.tree.root, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"model_type": "pocket", "vocab_size": 96,
                       "hidden_size": 32, "num_hidden_layers": 2}, file)
        done = self.tree.shardc("show", "manifest", "--model", "config.json")
        os.remove(path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("      2  decoder.layers.*.attention.qkv.weight  [96, 32]",
                      done.stdout)
        self.assertIn("      2  decoder.layers.*.mlp.down.weight  [32, 128]",
                      done.stdout)

    @builds
    def test_the_profile_gives_the_memory(self):
        done = self.tree.shardc(
            "cost", "--mesh", "fsdp:8", "--rules", "builtin:llama",
            "--manifest", "testdata/models/llama-3-8b.hf.manifest.json",
            "--profile", "acme-1", "--mode", "decode")
        self.assertIn("of 48 GiB", done.stdout, done.stderr)
        self.assertIn("acme-1", self.tree.shardc("cost", "--profiles").stdout)

    @builds
    def test_the_operation_is_verified(self):
        done = self.tree.shardc(
            "verify", "--mesh", "dp:2,sp:2,tp:2", "--operation", "eager",
            "--attention", "heads=8,kv_heads=2,head_dim=64", "--seq", "16",
            "--features", "bias,mask")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("0 fail", done.stdout)
        self.assertIn("eager: ", self.tree.shardc("verify", "--list").stdout)


class OwnTree:
    """Tests of a patch that changes a header which a third of the program
    includes. By default the patch's own sources are compiled; with
    SHARDC_EXTENDING=all the program is built and run."""
    NAME = SECTION = ""
    SOURCES = 0  # the fewest source files that the patch changes

    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.tree = Tree(folder)
        apply(cls.NAME, cls.tree.root)
        cls.patched, _ = cls.tree.changed()

    def test_the_page_names_its_files(self):
        page = read(ROOT, "docs", "extending.md")
        section = page.partition(f"\n## {self.SECTION}\n")[2].partition(
            "\n## ")[0]
        for name in self.patched:
            self.assertIn(f"[{name}](../{name})", section)

    @builds
    @unittest.skipIf(ALL, "the whole program is built")
    def test_its_sources_compile(self):
        sources = [name for name in self.patched
                   if name.startswith("src/") and name.endswith(".cc")]
        self.assertGreaterEqual(len(sources), self.SOURCES)
        objects = {self.tree.object_of(name) for name in sources}
        run("ninja", "-C", self.tree.build, *sorted(objects))


@unittest.skipUnless(shutil.which("patch"), "no patch")
class AnOp(OwnTree, unittest.TestCase):
    NAME, SECTION, SOURCES = "op", "An op of the step", 6

    @unittest.skipUnless(ALL, "SHARDC_EXTENDING=all runs it")
    def test_the_op_runs_in_a_step_and_is_proved(self):
        run("ninja", "-C", self.tree.build, TARGETS[0])
        folder = os.path.join(self.tree.root, "mirror")
        os.mkdir(folder)
        self.addCleanup(shutil.rmtree, folder)
        shapes = {"embed.weight": [64, 16], "head.weight": [64, 16]}
        for i in range(2):
            shapes[f"layers.{i}.up.weight"] = [32, 16]
            shapes[f"layers.{i}.down.weight"] = [16, 32]
        files = {
            "rules.yaml": MIRROR,
            "config.json": json.dumps({
                "model_type": "mirror", "vocab_size": 64, "hidden_size": 16,
                "intermediate_size": 32, "num_hidden_layers": 2}),
            "manifest.json": json.dumps({
                "schema": "shardc.manifest/v1", "params": [
                    {"name": name, "shape": shape, "dtype": "F32"}
                    for name, shape in shapes.items()]}),
        }
        for name, text in files.items():
            with open(os.path.join(folder, name), "w",
                      encoding="utf-8") as file:
                file.write(text)
        done = self.tree.shardc(
            "verify", "step", "--rules", "mirror/rules.yaml", "--model",
            "mirror/config.json", "--manifest", "mirror/manifest.json",
            "--mesh", "fsdp:2,tp:2", "--batch", "4", "--seq", "8", "--format",
            "json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        (step,) = json.loads(done.stdout)["steps"]
        self.assertEqual(step["status"], "pass")
        # The dimension is gathered, forward and backward, and proved.
        rows = [one for one in step["ops"]
                if one["op"] in ("reverse", "d:reverse")]
        self.assertEqual(
            {(one["phase"], one["collective"], *one["axes"]) for one in rows},
            {("forward", "all_gather", "tp"),
             ("backward", "all_gather", "tp")})
        proved = [one for one in rows if one["error"] is not None]
        self.assertEqual({one["phase"] for one in proved},
                         {"forward", "backward"})
        for one in proved:
            self.assertLess(one["error"], one["allowed"])


@unittest.skipUnless(shutil.which("patch"), "no patch")
class ASetting(OwnTree, unittest.TestCase):
    NAME, SECTION, SOURCES = "setting", "A setting", 2

    @unittest.skipUnless(ALL, "SHARDC_EXTENDING=all runs it")
    def test_the_setting_changes_the_figure_in_each_command(self):
        run("ninja", "-C", self.tree.build, TARGETS[0], "tests/cost_test")
        run(os.path.join(self.tree.build, "tests", "cost_test"),
            "--no-path-filenames=true", cwd=self.tree.root,
            env=self.tree.env())
        inputs = ["--mesh", "fsdp:8", "--rules", "builtin:llama", "--manifest",
                  "testdata/models/llama-3-8b.hf.manifest.json", "--profile",
                  "h100-sxm", "--mode", "decode", "--memory", "80GiB",
                  "--reserved-memory", "2GiB"]
        self.assertIn("of 78 GiB", self.tree.shardc("cost", *inputs).stdout)
        done = self.tree.shardc("cost", *inputs[:-1], "2 apples")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--reserved-memory", done.stderr)
        self.assertIn("--reserved-memory",
                      self.tree.shardc("search", "--help").stdout)


@unittest.skipUnless(shutil.which("patch"), "no patch")
class ACollective(OwnTree, unittest.TestCase):
    NAME, SECTION, SOURCES = "collective", "A collective", 2

    @unittest.skipUnless(ALL, "SHARDC_EXTENDING=all runs it")
    def test_the_collective_is_run_read_and_described(self):
        tests = ["comm_test", "exec_test", "audit_test"]
        run("ninja", "-C", self.tree.build, TARGETS[0], TARGETS[-1],
            *("tests/" + test for test in tests))
        # The tests of collectives run all that the program has, in one process
        # and over several ranks.
        for test in tests:
            run(os.path.join(self.tree.build, "tests", test),
                "--no-path-filenames=true", cwd=self.tree.root,
                env=self.tree.env())
        self.tree.python("tests/cli/tables_test.py", "--write")
        changed, _ = self.tree.changed()
        generated = [name for name in changed if name not in self.patched]
        self.assertEqual(generated, [
            "man/shardc-project.5", "schemas/audit.schema.json",
            "schemas/cost.schema.json", "schemas/project.schema.json",
            "schemas/step.schema.json", "schemas/verify.schema.json"])
        for name in generated:
            self.assertIn("ragged_all_to_all", read(self.tree.root, name))
        path = os.path.join(self.tree.root, "ragged.hlo.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(RAGGED)
        self.addCleanup(os.remove, path)
        done = self.tree.shardc(
            "audit", "ragged.hlo.txt", "--mesh", "dp:2,tp:2", "--profile",
            "h100-sxm", "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        (one,) = json.loads(done.stdout)["collectives"]
        self.assertEqual(
            (one["collective"], one["axes"], one["bytes_per_device"],
             one["at_most"]), ("ragged_all_to_all", ["tp"], 128, True))
        self.assertGreater(one["seconds"], 0)


if __name__ == "__main__":
    unittest.main()
