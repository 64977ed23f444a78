"""What a fresh machine does with the files of a release.

Usage: fresh_machine_test.py FOLDER TOOLS, as `tests/bootstrap fresh-machine` calls
it. FOLDER has the files that are published, and TOOLS the programs `uv` and
`pre-commit`. Each test starts from an empty home folder, without a network and
without the checkout: FOLDER stands for the package index and for the releases of
the repository. No test sets a variable of shardc.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

import yaml

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
sys.dont_write_bytecode = True
HOOKS = """repos:
  - repo: REPOSITORY
    rev: vVERSION
    hooks:
      - id: shardc-check
      - id: shardc-locked
"""
IN_PYTHON = """
import shardc
plan = shardc.compile("start/config.json", mesh="fsdp:2,tp:2", rules="auto")
print(plan["lm_head.weight"].shard_shape)
"""


def version():
    done = subprocess.run(
        [sys.executable, os.path.join(ROOT, "packaging", "version.py")],
        check=True, capture_output=True, text=True)
    return done.stdout.strip()


class Machine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = folder.name
        self.env = {
            "HOME": self.home, "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8",
            "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@localhost",
            "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@localhost",
            # The folder stands for the package index.
            "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": FOLDER, "UV_OFFLINE": "1",
            "UV_NO_INDEX": "1", "UV_FIND_LINKS": FOLDER,
            "UV_PYTHON_DOWNLOADS": "never"}

    def run_in(self, folder, *command, rc=0, **env):
        done = subprocess.run(command, cwd=folder, env={**self.env, **env},
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, rc,
                         f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def at(self, *names):
        return os.path.join(self.home, *names)

    def install(self):
        """The program of the wheel, installed as the README prints it."""
        self.run_in(self.home, "/usr/bin/python3", "-m", "venv", "env")
        self.run_in(self.home, self.at("env", "bin", "pip"), "install",
                    "--quiet", "shardc")
        return self.at("env", "bin", "shardc")

    def origin(self):
        """The repository of the project, with its tag, and its releases."""
        origin = self.at("origin", "shardc")
        self.run_in(self.home, "git", "clone", "--quiet", "--bare", ROOT, origin)
        self.run_in(origin, "git", "tag", "--force", "v" + version(), "HEAD")
        releases = os.path.join(origin, "releases", "download", "v" + version())
        shutil.copytree(FOLDER, releases)
        return origin

    def project(self, program, *options):
        """A repository with a project that `shardc init` wrote."""
        self.run_in(self.home, program, "example", "llama3-8b", "source")
        os.mkdir(self.at("repo"))
        self.run_in(self.at("repo"), "git", "init", "--quiet")
        printed = self.run_in(
            self.at("repo"), program, "init", self.at("source", "config.json"),
            "--mesh", "fsdp:4,tp:2", *options)
        self.run_in(self.at("repo"), "git", "add", ".")
        return printed

    def break_plan(self, folder):
        """Makes the committed plan another one than its inputs give."""
        path = os.path.join(folder, "rules.yaml")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        changed = text.replace(
            "rules: []", "rules:\n  - match: 'mlp'\n    spec: []")
        self.assertNotEqual(text, changed)
        with open(path, "w", encoding="utf-8") as file:
            file.write(changed)

    def test_pip_installs_and_the_first_commands_run(self):
        begin = time.monotonic()
        program = self.install()
        self.assertIn(version(), self.run_in(self.home, program, "--version"))
        self.run_in(self.home, program, "example", "llama3-8b", "start")
        self.run_in(self.at("start"), program, "plan", "-o", "plan.json")
        self.assertIn("[SHD105 dead-rule]",
                      self.run_in(self.at("start"), program, "check"))
        self.assertIn("(64128, 2048)", self.run_in(
            self.home, self.at("env", "bin", "python"), "-c", IN_PYTHON))
        print(f"from an empty environment to a plan: "
              f"{time.monotonic() - begin:.1f} s")

    def test_uvx_runs_the_program(self):
        printed = self.run_in(self.home, os.path.join(TOOLS, "uvx"), "--from",
                              "shardc==" + version(), "shardc", "--version")
        self.assertIn("shardc " + version(), printed)

    def test_the_hooks_of_pre_commit_pass_and_fail(self):
        program = self.install()
        origin = self.origin()
        self.project(program)
        with open(self.at("repo", ".pre-commit-config.yaml"), "w",
                  encoding="utf-8") as file:
            file.write(HOOKS.replace("REPOSITORY", origin).replace(
                "VERSION", version()))
        command = (os.path.join(TOOLS, "pre-commit"), "run", "--all-files")
        path = TOOLS + ":" + self.env["PATH"]
        self.run_in(self.at("repo"), "git", "add", ".")
        printed = self.run_in(self.at("repo"), *command, PATH=path)
        self.assertEqual(printed.count("Passed"), 2, printed)
        self.break_plan(self.at("repo"))
        self.run_in(self.at("repo"), "git", "add", ".")
        self.assertIn("shardc check --locked", self.run_in(
            self.at("repo"), *command, rc=1, PATH=path))
        # What was fetched is kept: nothing of the release is read again.
        shutil.rmtree(os.path.join(origin, "releases"))
        self.run_in(self.at("repo"), *command, rc=1, PATH=path)

    def steps(self, steps, folder, expected, **env):
        """Runs the scripts of steps as a runner does; returns their output."""
        printed = ""
        output = env.get("GITHUB_OUTPUT", "")
        if os.path.exists(output):
            os.remove(output)
        for step in steps:
            if "run" not in step:
                continue
            own = {key: str(value) for key, value in step.get("env", {}).items()
                   if "${{" not in str(value)}
            done = subprocess.run(
                ["bash", "-e", "-c", step["run"]],
                cwd=os.path.join(folder, step.get("working-directory", ".")
                                 if "${{" not in step.get(
                                     "working-directory", "") else "."),
                env={**self.env, **env, **own}, capture_output=True, text=True,
                check=False)
            printed += done.stdout + done.stderr
            if os.path.exists(output):
                with open(output, encoding="utf-8") as file:
                    env["PROGRAM"] = file.read().strip().partition("=")[2]
            if done.returncode != 0:
                break
        self.assertEqual(done.returncode, expected, printed)
        return printed

    def test_the_action_passes_and_fails(self):
        program = self.install()
        self.project(program)
        origin = self.origin()
        self.run_in(self.home, "git", "clone", "--quiet", origin, "action")
        with open(self.at("action", "action.yml"), encoding="utf-8") as file:
            steps = yaml.safe_load(file)["runs"]["steps"]
        base = "${{ github.server_url }}/${{ github.action_repository }}"
        self.assertEqual(steps[0]["env"]["SHARDC_RELEASES"],
                         base + "/releases/download")
        env = {"GITHUB_ACTION_PATH": self.at("action"), "ARGS": "--locked",
               "GITHUB_OUTPUT": self.at("output"), "RUNNER_TEMP": self.home,
               "SHARDC_RELEASES": os.path.join(origin, "releases", "download")}
        self.steps(steps, self.at("repo"), 0, **env)
        self.break_plan(self.at("repo"))
        self.assertIn("::error", self.steps(steps, self.at("repo"), 1, **env))

    def test_the_workflow_of_init_passes_and_fails(self):
        program = self.install()
        printed = self.project(program)
        self.assertNotIn("local build", printed)
        path = self.at("repo", ".github", "workflows", "shardc.yaml")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("shardc==" + version(), text)
        steps = yaml.safe_load(text)["jobs"]["check"]["steps"]
        os.mkdir(self.at("runner"))
        env = {"RUNNER_TEMP": self.at("runner")}
        self.steps(steps, self.at("repo"), 0, **env)
        self.break_plan(self.at("repo"))
        self.assertIn("::error", self.steps(steps, self.at("repo"), 1, **env))
        # A release whose program is another one is not run.
        for step in steps:
            if "SHARDC_SHA256" in step.get("env", {}):
                step["env"]["SHARDC_SHA256"] = "0" * 64
        self.assertIn("did NOT match", self.steps(steps, self.at("repo"), 1,
                                                   **env))

    def test_the_program_of_the_release_runs_alone(self):
        machine = os.uname()
        name = f"shardc-{version()}-{machine.sysname.lower()}-{machine.machine}"
        self.assertIn(version(), self.run_in(
            self.home, os.path.join(FOLDER, name), "--version"))

    def test_the_site_is_unpacked_and_read_without_a_network(self):
        name = f"shardc-{version()}-site"
        self.run_in(self.home, "tar", "-xzf",
                    os.path.join(FOLDER, name + ".tar.gz"))
        pages = [os.path.join(here, one)
                 for here, _, files in os.walk(self.at(name))
                 for one in files if one.endswith(".html")]
        self.assertGreater(len(pages), 100)
        with open(self.at(name, "index.html"), encoding="utf-8") as file:
            text = file.read()
        # A link may name another host; what the page itself loads may not.
        loaded = re.findall(r'(?:\bsrc="|<link[^>]*\bhref=")([^"]*)"', text)
        self.assertGreater(len(loaded), 3)
        for address in loaded:
            self.assertNotIn("//", address)
            path = address.partition("?")[0].partition("#")[0]
            self.assertTrue(os.path.exists(self.at(name, path)), address)

    def test_the_extension_has_its_program_and_what_it_needs(self):
        path = os.path.join(FOLDER, f"shardc-{version()}.vsix")
        with zipfile.ZipFile(path) as archive:
            self.assertIsNone(archive.testzip())
            names = set(archive.namelist())
            package = json.loads(archive.read("extension/package.json"))
        self.assertEqual(package["version"], version())
        self.assertIn("extension/" + package["main"].removeprefix("./"), names)
        self.assertIn("extension/node_modules/vscode-languageclient/package.json",
                      names)
        self.assertIn("extension/LICENSE.txt", names)

    def test_every_file_has_the_digest_that_is_listed(self):
        self.run_in(FOLDER, "sha256sum", "--check", "--quiet", "--strict",
                    "SHA256SUMS")
        with open(os.path.join(FOLDER, "SHA256SUMS"), encoding="utf-8") as file:
            listed = {line.split()[1] for line in file}
        self.assertEqual(listed, set(os.listdir(FOLDER))
                         - {"SHA256SUMS", "notes.md"})
        kinds = ("linux-x86_64", "linux-aarch64", "x86_64.whl", "aarch64.whl",
                 ".deb", "-site.tar.gz", ".vsix", f"{version()}.tar.gz",
                 "meta.yaml", "shardc.rb", "releases.txt")
        for kind in kinds:
            self.assertTrue(any(name.endswith(kind) for name in listed), kind)


if __name__ == "__main__":
    TOOLS = os.path.abspath(sys.argv.pop(2))
    FOLDER = os.path.abspath(sys.argv.pop(1))
    unittest.main()
