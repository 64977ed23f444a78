"""What other tools are given: hooks, the action, the problem matcher."""

import hashlib
import json
import os
import re
import subprocess
import tempfile
import unittest

import yaml
from driver import BIN, ROOT, TESTDATA, Case, run

QWEN = ["--mesh", "fsdp:8,ep:4,tp:2", "--rules",
        os.path.join(ROOT, "examples", "qwen3-moe", "rules.yaml"),
        "--manifest",
        os.path.join(TESTDATA, "corpus", "manifests",
                     "qwen3-30b-a3b.easydel.manifest.json.gz")]


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


class Hooks(Case):
    def known(self, command_line):
        """Every word of a command line is a command or an option of it."""
        program, command, *flags = command_line.split()
        self.assertEqual(program, "packaging/release/hook")
        text = self.check(run(command, "--help"), 0).out
        for flag in flags:
            self.assertRegex(text, rf"(?m)^  (-\w,)?{flag}\b")

    def test_pre_commit_hooks(self):
        hooks = yaml.safe_load(read(".pre-commit-hooks.yaml"))
        self.assertGreater(len(hooks), 1)
        for hook in hooks:
            self.assertLessEqual(
                {"id", "name", "description", "entry", "language"},
                set(hook))
            self.known(hook["entry"])

    def test_a_hook_passes_and_fails(self):
        """As pre-commit runs it: from the folder of the project."""
        project = os.path.join(ROOT, "examples", "llama3-8b")
        with open(BIN, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        with tempfile.TemporaryDirectory() as cache:
            env = dict(os.environ, SHARDC_URL=BIN, SHARDC_SHA256=digest,
                       XDG_CACHE_HOME=cache)
            for hook in yaml.safe_load(read(".pre-commit-hooks.yaml")):
                self.assertEqual(hook["language"], "script")
                script, *words = hook["entry"].split()
                done = subprocess.run(
                    [os.path.join(ROOT, script), *words], cwd=project, env=env,
                    capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
            done = subprocess.run(
                [os.path.join(ROOT, script), "check", *QWEN], env=env,
                capture_output=True, check=False)
            self.assertEqual(done.returncode, 1)

    def test_a_hook_finds_projects_in_folders(self):
        """pre-commit runs hooks in the root of the repository."""
        with open(BIN, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        with tempfile.TemporaryDirectory() as repo:
            env = dict(os.environ, SHARDC_URL=BIN, SHARDC_SHA256=digest,
                       XDG_CACHE_HOME=os.path.join(repo, ".cache"))
            subprocess.run(["git", "init", "-q", repo], check=True)

            def hook():
                return subprocess.run(
                    [os.path.join(ROOT, "packaging", "release", "hook"),
                     "check"], cwd=repo, env=env, capture_output=True,
                    text=True, check=False)

            self.assertEqual(hook().returncode, 2)  # no project at all
            for name in ("good one", "bad"):
                os.makedirs(os.path.join(repo, "models", name))
            project = "version: 1\ntargets:\n  t:\n    mesh: tp:2\n" \
                      "    rules: r.yaml\n    manifest: m.json\n"
            for name, spec in (("good one", "[tp]"), ("bad", "[nowhere]")):
                folder = os.path.join(repo, "models", name)
                for path, text in (
                        ("shardc.yaml", project),
                        ("r.yaml", "version: 1\nrules:\n  - {match: w, spec: "
                         f"{spec}}}\n"),
                        ("m.json", json.dumps({
                            "schema": "shardc.manifest/v1", "params": {
                                "w": {"shape": [8, 8], "dtype": "F32"}}}))):
                    with open(os.path.join(folder, path), "w",
                              encoding="utf-8") as file:
                        file.write(text)
                done = hook()
                self.assertEqual(done.returncode != 0, name == "bad",
                                 done.stdout + done.stderr)
                self.assertIn(f"models/{name}/shardc.yaml", done.stderr)
            # git quotes these names where it is not given -z.
            for name in ('a"b', "a\\b", "t\tb", "l\nb", " s ", "-dash", "$(x)"):
                os.renames(os.path.join(repo, "models", "bad"),
                           os.path.join(repo, name))
                done = hook()
                self.assertEqual(done.returncode, 2, name + done.stderr)
                self.assertIn("nowhere", done.stdout)
                self.assertIn(re.sub("[\t\n]", "?", name) + "/shardc.yaml",
                              done.stderr)
                os.renames(os.path.join(repo, name),
                           os.path.join(repo, "models", "bad"))
            # The workflow that `shardc init` writes is no project.
            os.makedirs(os.path.join(repo, ".github", "workflows"))
            with open(os.path.join(repo, ".github", "workflows", "shardc.yaml"),
                      "w", encoding="utf-8") as file:
                file.write("name: sharding\n")
            self.assertNotIn("sharding", hook().stderr)

    def test_the_action_runs_what_there_is(self):
        action = yaml.safe_load(read("action.yml"))
        self.assertEqual(action["runs"]["using"], "composite")
        steps = action["runs"]["steps"]
        for step in steps:
            self.assertLessEqual({"name", "shell", "run"}, set(step))
        script = "\n".join(step["run"] for step in steps)
        paths = re.findall(r"\$GITHUB_ACTION_PATH/([^\" ]+)", script)
        self.assertEqual(paths, ["packaging/release/fetch"])
        for path in paths:
            self.assertTrue(os.access(os.path.join(ROOT, path), os.X_OK))
        self.assertIn("check --format github", script)
        for name in re.findall(r"inputs\.([a-z0-9-]+)", json.dumps(action)):
            self.assertIn(name, action["inputs"])

    def test_the_action_passes_and_fails(self):
        """Its steps as a runner starts them, in bash and with their inputs."""
        with open(BIN, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        project = os.path.join(ROOT, "examples", "llama3-8b")
        for args, folder, expected in (
                ("--locked", project, 0), (" ".join(QWEN), ROOT, 1)):
            with tempfile.TemporaryDirectory() as temporary:
                output = os.path.join(temporary, "output")
                env = dict(os.environ, GITHUB_ACTION_PATH=ROOT,
                           RUNNER_TEMP=temporary, GITHUB_OUTPUT=output,
                           SHARDC_URL=BIN, SHARDC_SHA256=digest, ARGS=args)
                for step in yaml.safe_load(read("action.yml"))["runs"]["steps"]:
                    done = subprocess.run(
                        ["bash", "-e", "-c", step["run"]], env=env, cwd=folder,
                        capture_output=True, text=True, check=False)
                    if os.path.exists(output):
                        with open(output, encoding="utf-8") as file:
                            env["PROGRAM"] = file.read().strip().partition(
                                "program=")[2]
                self.assertEqual(done.returncode, expected, done.stderr)

    def test_the_matcher_reads_the_concise_format(self):
        matchers = json.loads(
            read(".github", "shardc-matcher.json"))["problemMatcher"]
        lines = run("check", "--format", "concise", *QWEN).out.splitlines()
        self.assertTrue(lines)
        levels = set()
        for line in lines:
            seen = []
            for matcher in matchers:
                pattern = matcher["pattern"][0]
                match = re.search(pattern["regexp"], line)
                if match is None:
                    continue
                field = {name: match.group(index)
                         for name, index in pattern.items()
                         if name != "regexp"}
                level = field.get("severity") or matcher["severity"]
                seen.append(level)
                self.assertRegex(field["code"], r"^SHD\d{3}$")
                self.assertTrue(field["message"])
                if field["line"] is not None:
                    self.assertTrue(field["file"].endswith("rules.yaml"))
                    self.assertGreater(int(field["column"]), 0)
            self.assertEqual(len(seen), 1, line)
            levels.add(seen[0])
        self.assertEqual(levels, {"error", "warning", "notice"})

    def test_the_matcher_refuses_other_lines(self):
        pattern = json.loads(read(".github", "shardc-matcher.json"))[
            "problemMatcher"][0]["pattern"][0]["regexp"]
        for line in ("src/a.cc:3:4: error: expected `;` [-Wall]",
                     "everything is well", ""):
            self.assertIsNone(re.search(pattern, line))

    def test_schemas_serve_editors(self):
        """The modelines of the examples name schemas that accept them."""
        import jsonschema
        seen = 0
        for here, _, names in os.walk(os.path.join(ROOT, "examples")):
            for name in names:
                if not name.endswith(".yaml"):
                    continue
                path = os.path.join(here, name)
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                line = re.search(r"\$schema=(\S+)", text)
                if line is None:
                    continue
                with open(os.path.join(here, line.group(1)),
                          encoding="utf-8") as file:
                    jsonschema.validate(yaml.safe_load(text), json.load(file))
                seen += 1
        self.assertGreater(seen, 1)

    def test_schemas_are_those_of_the_folder(self):
        with tempfile.TemporaryDirectory() as elsewhere:
            names = run("schema", cwd=elsewhere).out.split()
            self.assertEqual(
                sorted(names + ["meson.build"]),
                sorted(name.split(".schema.")[0]
                       for name in os.listdir(os.path.join(ROOT, "schemas"))))
            for name in names:
                self.assertEqual(run("schema", name, cwd=elsewhere).out,
                                 read("schemas", name + ".schema.json"))


if __name__ == "__main__":
    unittest.main()
