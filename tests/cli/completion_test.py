"""Completion scripts, each run by its own shell."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

import driver
from driver import Case, run

# What is typed, and what must and must not be offered.
TABLE = [
    ("shardc pl", {"plan"}, {"resolve"}),
    ("shardc plan --illegal ", {"error", "drop", "shrink", "pad"},
     {"--mesh"}),
    ("shardc plan --ill", {"--illegal"}, {"--mesh"}),
    ("shardc cost --zero ", {"0", "3"}, {"--mesh"}),
    ("shardc plan --rules builtin:llama/", {"builtin:llama/flax",
                                            "builtin:llama/hf"},
     {"builtin:gpt2/hf"}),
    ("shardc plan --rules au", {"auto"}, {"builtin:llama"}),
    ("shardc resolve --mode de", {"decode"}, {"train"}),
    ("shardc verify ", {"step"}, {"plan"}),
    ("shardc verify --me", {"--mesh", "--metrics"}, {"--mode"}),
    ("shardc verify step --re", {"--remat", "--reduce-each"}, {"--mesh"}),
    ("shardc verify step --me", {"--mesh"}, {"--metrics"}),
    ("shardc verify step --mode ", {"train", "decode"}, {"insert"}),
    ("shardc completion ", {"bash", "fish", "zsh"}, {"plan"}),
    ("shardc explain SHD10", {"SHD101", "SHD105"}, {"SHD201"}),
    ("shardc explain dead", {"dead-rule"}, {"SHD105"}),
    ("shardc check --select SHD1", {"SHD101"}, {"SHD201"}),
    ("shardc check --ignore dead", {"dead-rule"}, set()),
    ("shardc plan --mesh f", {"fsdp:"}, {"tp:"}),
    ("shardc export --axis ", {"tp", "fsdp"}, {"jax"}),
    ("shardc plan --target ", {"train-64", "serve"}, {"mesh", "rules"}),
    ("shardc check --target s", {"serve"}, {"train-64"}),
]

BASH = r"""
source "$1"
COMP_LINE=$2 COMP_POINT=${#2}
_shardc
printf '%s\n' "${COMPREPLY[@]}"
"""


class Completion(Case):
    def script(self, shell):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        path = os.path.join(folder, "completion." + shell)
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.check(run("completion", shell), 0).out)
        return path

    def shell(self, *command):
        project = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, project)
        with open(os.path.join(project, "shardc.yaml"), "w",
                  encoding="utf-8") as file:
            file.write("version: 1\ntargets:\n  train-64:\n    mesh: tp:2\n"
                       "    rules: r.yaml\n  serve:\n    mesh: tp:4\n"
                       "lint:\n  select: [SHD1]\n")
        inside = os.path.join(project, "inside")
        os.mkdir(inside)
        done = subprocess.run(command, capture_output=True, text=True,
                              check=False, timeout=60, cwd=inside)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.returncode, 0)
        return done.stdout.splitlines()

    def test_bash(self):
        script = self.script("bash")
        for typed, wanted, unwanted in TABLE:
            with self.subTest(typed):
                offered = self.shell("bash", "--norc", "-c", BASH, "bash",
                                     script, typed)
                # Bash itself keeps what stands before a colon.
                word = typed.split(" ")[-1]
                kept = word[:word.rfind(":") + 1]
                offered = {kept + reply for reply in offered}
                self.assertLessEqual(wanted, offered)
                self.assertFalse(unwanted & offered)

    def test_a_single_hyphen_offers_the_options_of_the_short_help(self):
        script = self.script("bash")
        for typed, wanted, unwanted in [
                ("shardc cost -", {"--batch", "--mesh", "-o"}, {"--ep-overlap"}),
                ("shardc cost --", {"--batch", "--ep-overlap"}, set()),
                ("shardc lsp -", {"--stdio"}, set())]:
            with self.subTest(typed):
                offered = set(self.shell("bash", "--norc", "-c", BASH, "bash",
                                         script, typed))
                self.assertLessEqual(wanted, offered)
                self.assertFalse(unwanted & offered)

    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish(self):
        script = self.script("fish")
        for typed, wanted, unwanted in TABLE:
            with self.subTest(typed):
                lines = self.shell("fish", "--no-config", "-c",
                                   f"source {script}; complete -C '{typed}'")
                offered = {line.split("\t")[0] for line in lines}
                self.assertLessEqual(wanted, offered)
                self.assertFalse(unwanted & offered)

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh(self):
        script = self.script("zsh")
        out = self.shell("zsh", "-f", "-c",
                         "autoload -Uz compinit; compinit -D; "
                         f"source {script}; print -- $_comps[shardc]")
        self.assertEqual(out, ["_shardc"])

    def test_every_option_of_every_command_is_there(self):
        commands = driver.commands()
        scripts = {shell: run("completion", shell).out
                   for shell in ("bash", "fish", "zsh")}
        for command in [*commands, "verify step", "show mesh"]:
            options = re.findall(r"(?m)^  (?:-[a-zA-Z],)?--([a-z0-9-]+)",
                                 run(*command.split(), "--help").out)
            self.assertIn("help", options)
            self.assertGreater(len(options), 3)
            for option in set(options):
                self.assertIn("--" + option, scripts["bash"])
                self.assertIn("--" + option, scripts["zsh"])
                last = command.split()[-1]
                self.assertRegex(scripts["fish"],
                                 f"(?m)from {last}(; and not [^']*)?' "
                                 f"([^']*)-l {option} ")

    def test_another_shell_is_refused(self):
        result = self.check(run("completion", "tcsh"), 2)
        self.assertIn("`tcsh` is none of: bash, fish, zsh", result.err)
        self.check(run("completion"), 2)


if __name__ == "__main__":
    unittest.main()
