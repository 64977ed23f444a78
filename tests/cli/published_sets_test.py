"""Files that a command publishes together are the old ones, the new ones, or
marked as unfinished after a kill, and the same command finishes them."""

import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest

from driver import BIN, MODELS, TESTDATA, Case, run

MARK = "shardc.unfinished/v1"
INIT = ["init", "manifest.json", "--mesh", "fsdp:2,tp:2", "--model",
        "config.json", "--folder", "new"]


class PublishedSets(Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copy(os.path.join(MODELS, "llama-3-8b.hf.manifest.json"),
                    self.at("manifest.json"))
        shutil.copy(os.path.join(TESTDATA, "configs",
                                 "llama-3-8b.config.json"),
                    self.at("config.json"))

    def at(self, *names):
        return os.path.join(self.folder, *names)

    def go(self, status, *args):
        return self.check(run(*args, cwd=self.folder), status)

    def contents(self, *names):
        out = {}
        for here, _, files in os.walk(self.at(*names)):
            for name in files:
                path = os.path.join(here, name)
                with open(path, "rb") as file:
                    out[os.path.relpath(path, self.folder)] = file.read()
        return out

    def killed(self, *args):
        """The state after a kill at each rename or link that gives a name."""
        trace = self.at("trace")
        strace = ["strace", "-f", "-qq", "-o", trace, "-e",
                  "trace=linkat,rename"]
        for n in range(1, 40):
            done = subprocess.run(
                [*strace, "-e", f"inject=linkat,rename:signal=KILL:when={n}",
                 BIN, *args], cwd=self.folder, stdin=subprocess.DEVNULL,
                capture_output=True, check=False)
            if os.path.exists(trace):
                os.remove(trace)
            if done.returncode == 0:
                self.assertGreater(n, 2, "no kill")
                return
            yield n

    @unittest.skipUnless(shutil.which("strace"), "strace kills at a call")
    def test_a_killed_init_is_finished_by_the_same_command(self):
        self.go(0, *INIT)
        wanted = self.contents("new")
        shutil.rmtree(self.at("new"))
        for n in self.killed(*INIT):
            with self.subTest(n=n):
                now = self.contents("new")
                index = now.get("new/shardc.yaml", b"").decode()
                self.assertTrue(not now or MARK in index or now == wanted,
                                sorted(now))
                if MARK in index:
                    refused = self.go(2, "check", "--project",
                                      "new/shardc.yaml")
                    self.assertIn("a run was interrupted while it wrote this "
                                  "project", refused.out + refused.err)
                    self.go(0, *INIT)
                    self.assertEqual(self.contents("new"), wanted)
            shutil.rmtree(self.at("new"), True)

    def test_a_partial_project_is_finished(self):
        """The state after a kill before the last name, made by hand."""
        self.go(0, *INIT)
        wanted = self.contents("new")
        for name in ("new/shardc.yaml", "new/rules.yaml"):
            self.assertIn(name, wanted)
        mark = {"schema": MARK, "message": "", "files": {}}
        for name, data in wanted.items():
            if name != "new/shardc.yaml":
                mark["files"][name[len("new/"):]] = subprocess.run(
                    ["sha256sum"], input=data, capture_output=True,
                    check=True).stdout.decode().split()[0]
        text = json.dumps(mark)
        with open(self.at("new", "shardc.yaml"), "w",
                  encoding="utf-8") as file:
            file.write(text)
        os.remove(self.at("new", "rules.yaml"))
        self.go(2, "check", "--project", "new/shardc.yaml")
        self.go(0, *INIT)
        self.assertEqual(self.contents("new"), wanted)
        # A file that somebody has changed since is not replaced.
        with open(self.at("new", "shardc.yaml"), "w",
                  encoding="utf-8") as file:
            file.write(text)
        with open(self.at("new", "rules.yaml"), "a",
                  encoding="utf-8") as file:
            file.write("# mine\n")
        before = self.contents("new")
        self.assertIn("exists already", self.go(2, *INIT).err)
        self.assertEqual(self.contents("new"), before)

    def test_init_does_not_write_through_links_out_of_its_folder(self):
        os.mkdir(self.at("elsewhere"))
        os.mkdir(self.at("new"))
        os.symlink("../elsewhere", self.at("new", ".github"))
        refused = self.go(2, *INIT)
        self.assertIn("leads out of the project's repository", refused.err)
        self.assertEqual(self.contents("elsewhere"), {})
        self.assertEqual(os.listdir(self.at("new")), [".github"])

    def test_merge_keeps_the_permissions_of_a_file_that_it_replaces(self):
        header = json.dumps({"x": {"dtype": "F32", "shape": [2],
                                   "data_offsets": [0, 8]}}).encode()
        with open(self.at("in.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + bytes(8))
        self.go(0, "checkpoint", "merge", "in.safetensors", "--output",
                "out.safetensors")
        os.chmod(self.at("out.safetensors"), 0o640)
        self.go(0, "checkpoint", "merge", "in.safetensors", "--output",
                "out.safetensors")
        self.assertEqual(os.stat(self.at("out.safetensors")).st_mode & 0o777,
                         0o640)

    def commit(self, mesh):
        with open(self.at("shardc.yaml"), "w", encoding="utf-8") as file:
            file.write("version: 1\ntargets:\n  one:\n"
                       f"    mesh: {mesh}\n    rules: [builtin:llama/hf]\n"
                       "    manifest: manifest.json\n    model: config.json\n"
                       "    batch: 8\n    step: step.json\n"
                       "    plan: plan.json\n")

    def committed(self):
        return {name: data for name, data in self.contents().items()
                if name in ("plan.json", "step.json")}

    @unittest.skipUnless(shutil.which("strace"), "strace kills at a call")
    def test_committed_files_are_old_new_or_marked(self):
        write = ["plan", "--write-locked", "-q"]
        self.commit("fsdp:4,tp:2")
        self.go(0, *write)
        new = self.committed()
        self.commit("fsdp:2,tp:2")
        self.go(0, *write)
        old = self.committed()
        self.assertEqual(sorted(old), ["plan.json", "step.json"])
        self.commit("fsdp:4,tp:2")
        marked = 0
        for n in self.killed(*write):
            with self.subTest(n=n):
                now = self.committed()
                if now not in (old, new):
                    self.assertIn(MARK, now["plan.json"].decode())
                    marked += 1
                    for command in (["check", "--locked"],
                                    ["plan", "--diff"]):
                        refused = self.go(2, *command)
                        self.assertIn("interrupted",
                                      refused.out + refused.err)
                self.go(0, *write)
                self.assertEqual(self.committed(), new)
            for name, data in old.items():
                with open(self.at(name), "wb") as file:
                    file.write(data)
        self.assertGreater(marked, 0)

    def test_a_marked_plan_is_refused_and_replaced(self):
        self.commit("fsdp:2,tp:2")
        self.go(0, "plan", "--write-locked", "-q")
        wanted = self.committed()
        with open(self.at("plan.json"), "w", encoding="utf-8") as file:
            file.write(f'{{"schema": "{MARK}",\n "message": ""}}\n')
        refused = self.go(2, "check", "--locked")
        self.assertIn("a run was interrupted while it wrote the committed plan",
                      refused.out + refused.err)
        self.go(0, "plan", "--write-locked", "-q")
        self.assertEqual(self.committed(), wanted)


if __name__ == "__main__":
    unittest.main()
