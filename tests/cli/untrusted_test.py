"""Projects that are not trusted: their paths stay inside the repository, and no
message quotes a file outside it."""

import json
import os
import subprocess
import tempfile
import unittest

import yaml
from driver import ROOT, Case, run

SECRET = "hunter2-is-the-password"
MANIFEST = {"schema": "shardc.manifest/v1",
            "params": {"w": {"shape": [8, 8], "dtype": "F32"}}}
RULES = "version: 1\nrules:\n  - match: w\n    spec: [tp]\n"
TARGET = {"mesh": "tp:2", "rules": ["rules.yaml"], "manifest": "model.json"}

# The keys of a target and of `lint` that hold a path.
KEYS = ["mesh", "rules", "manifest", "model", "plan", "step", "settings",
        "baseline"]


class Untrusted(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = os.path.realpath(folder.name)
        self.repository = os.path.join(self.top, "repo")
        self.project = os.path.join(self.repository, "jobs")
        os.makedirs(os.path.join(self.repository, ".git"))
        os.mkdir(self.project)
        os.mkdir(os.path.join(self.top, "home"))
        self.secret = os.path.join(self.top, "home", "netrc")
        self.write(self.secret, SECRET + ": {" + SECRET + "\n")
        self.write(self.at("rules.yaml"), RULES)
        self.write(self.at("model.json"), json.dumps(MANIFEST))

    def at(self, *names):
        return os.path.join(self.project, *names)

    def write(self, path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def target(self, **more):
        lint = {"baseline": more.pop("baseline")} if "baseline" in more else {}
        self.write(self.at("shardc.yaml"), yaml.safe_dump(
            {"version": 1, "targets": {"t": {**TARGET, **more}},
             "lint": lint}))

    def refused(self, *args, allowed=True):
        """The command fails without a word of the secret; with
        --allow-outside it reads the file."""
        done = self.check(run(*args, cwd=self.project), 2)
        self.assertNotIn(SECRET, done.out + done.err)
        self.assertIn("out of", done.out + done.err)
        self.assertIn("--allow-outside", done.out + done.err)
        if allowed:
            done = run(*args, "--allow-outside", cwd=self.project)
            self.assertNotIn("--allow-outside", done.out + done.err)
            self.assertNotIn("leads out of the project", done.out + done.err)

    def test_each_path_of_a_project_stays_inside_its_repository(self):
        up = os.path.relpath(self.secret, self.project)
        os.symlink(self.secret, self.at("link.yaml"))
        os.symlink(os.path.dirname(self.secret), self.at("folder"))
        os.symlink("link.yaml", self.at("second.yaml"))
        for path in (up, self.secret, "link.yaml", "folder/netrc",
                     "second.yaml", "rules.yaml/../" + up,
                     "folder/../home/netrc"):
            for key in KEYS:
                with self.subTest(key=key, path=path):
                    self.target(**{key: [path] if key == "rules" else path})
                    self.refused("check")

    def test_each_command_refuses(self):
        self.target(rules=[self.secret])
        for args in (["plan"], ["check"], ["explain", "w"], ["cost"], ["search", "--all"],
                     ["suggest"], ["verify"], ["verify", "step"],
                     ["report", "-o", "page.html"], ["show", "mesh"],
                     ["export", "csv"], ["show", "mesh"],
                     ["show", "rules", "--target", "t"], ["show", "manifest"],
                     ["plan", "--diff"], ["check", "--locked"],
                     ["check", "--fix"], ["resolve", "[TP]", "--target", "t"],
                     ["resolve", "attention", "--target", "t"],
                     *(["check", "--format", name] for name in (
                         "concise", "json", "sarif", "github", "junit",
                         "markdown"))):
            with self.subTest(args=args):
                done = self.check(run(*args, cwd=self.project), 2)
                self.assertNotIn(SECRET, done.out + done.err)
                self.assertIn("leads out of the project's repository",
                              done.out + done.err)

    def test_what_rules_extend_stays_inside(self):
        self.target()
        os.symlink(self.secret, self.at("link.yaml"))
        up = os.path.relpath(self.secret, self.project)
        for path in (self.secret, up, "link.yaml"):
            for text in (f"version: 1\nextends: [{path}]\n",
                         "version: 1\nextends: [base/b.yaml]\n",
                         f"version: 1\nrules: []\nmodel:\n  extends: {path}\n"):
                with self.subTest(path=path, text=text):
                    self.write(self.at("rules.yaml"), text)
                    self.write(self.at("base", "b.yaml"),
                               f"version: 1\nextends: [{path}]\n".replace(
                                   f"[{up}]", f"[../{up}]").replace(
                                       "[link", "[../link"))
                    self.refused("check")
                    # The user's own path, and what it extends.
                    done = run("check", "--mesh", "tp:2", "--rules",
                               "rules.yaml", "--manifest", "model.json",
                               cwd=self.project)
                    self.assertNotIn("leads out of the project",
                                     done.out + done.err)

    def test_a_project_file_that_is_a_link(self):
        os.symlink(self.secret, self.at("shardc.yaml"))
        self.refused("check")
        self.refused("check", "--project", "shardc.yaml")

    def test_links_inside_a_folder_of_weights(self):
        os.mkdir(self.at("weights"))
        self.target(manifest="weights")
        for name in ("model.safetensors.index.json", "model.safetensors"):
            os.symlink(self.secret, self.at("weights", name))
            done = self.check(run("check", cwd=self.project), 2)
            self.assertNotIn(SECRET, done.out + done.err)
            self.assertIn("is a link that leads out of", done.out + done.err)
            os.remove(self.at("weights", name))
        os.symlink(self.secret, self.at("weights", "model.safetensors"))
        self.write(self.at("weights", "model.safetensors.index.json"),
                   json.dumps({"weight_map": {"w": "model.safetensors"}}))
        done = self.check(run("check", cwd=self.project), 2)
        self.assertNotIn(SECRET, done.out + done.err)
        self.assertIn("is a link that leads out of", done.out + done.err)

    def test_a_committed_plan_is_not_written_outside(self):
        new = os.path.join(self.top, "home", "new.json")
        os.symlink(new, self.at("plan.json"))
        for path in ("plan.json", "../../home/new.json", new):
            self.target(plan=path)
            self.refused("plan", "--write-locked", allowed=False)
            self.assertFalse(os.path.lexists(new))
        self.check(run("plan", "--write-locked", "--allow-outside",
                       cwd=self.project), 0)

    def test_paths_inside_the_repository_are_read(self):
        self.write(os.path.join(self.repository, "shared", "r.yaml"), RULES)
        self.write(self.at("rules.yaml"),
                   "version: 1\nextends: [../shared/r.yaml, builtin:llama]\n")
        self.write(os.path.join(self.repository, "m", "model.json"),
                   json.dumps(MANIFEST))
        os.symlink("../m", self.at("models"))
        self.target(manifest="models/model.json")
        self.check(run("plan", "-q", cwd=self.project), 0)
        # Through a link to the repository.
        linked = os.path.join(self.top, "linked")
        os.symlink(self.repository, linked)
        self.check(run("plan", "-q", "--project",
                       os.path.join(linked, "jobs", "shardc.yaml")), 0)

    def test_without_a_repository_the_projects_folder_counts(self):
        os.rmdir(os.path.join(self.repository, ".git"))
        self.write(os.path.join(self.repository, "model.json"),
                   json.dumps(MANIFEST))
        self.target(manifest="../model.json")
        self.refused("check")
        self.target()
        self.check(run("plan", "-q", cwd=self.project), 0)

    def test_paths_of_the_command_line_are_the_users(self):
        self.target()
        for flag, name, text in (("--manifest", "m.json",
                                  json.dumps(MANIFEST)),
                                 ("--rules", "r.yaml", RULES),
                                 ("--mesh", "mesh.yaml",
                                  "axes: {tp: 2}\n")):
            path = os.path.join(self.top, "home", name)
            self.write(path, text)
            self.check(run("plan", "-q", "--target", "t", flag, path,
                           cwd=self.project), 0)

    def test_the_action_passes_its_words_as_they_are(self):
        with open(os.path.join(ROOT, "action.yml"), encoding="utf-8") as file:
            action = yaml.safe_load(file)
        script = action["runs"]["steps"][-1]["run"]
        self.assertNotIn("--allow-outside", script)
        fake = os.path.join(self.top, "shardc", "bin", "shardc")
        self.write(fake, "#!/bin/sh\nprintf '<%s>' \"$@\"\n")
        os.chmod(fake, 0o755)
        done = subprocess.run(
            ["bash", "-e", "-c", script], cwd=self.project,
            env={**os.environ, "PROGRAM": fake,
                 "ARGS": "--target  * --select\tSHD2?? $(id) `id` \\*"},
            stdout=subprocess.PIPE, encoding="utf-8", check=True)
        self.assertEqual(
            done.stdout, "<check><--format><github><--target><*><--select>"
            "<SHD2??><$(id)><`id`><\\*>")


if __name__ == "__main__":
    unittest.main()
