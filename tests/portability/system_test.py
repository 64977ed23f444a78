"""What is done on a system that has neither unnamed files nor /proc, as macOS,
is what is done on Linux: the same bytes, and no file left over.

Every command runs twice, once with a library that refuses both
(bare_system.cc).
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import unittest

BIN = os.environ["SHARDC_BIN"]
ROOT = os.environ["SHARDC_SOURCE_ROOT"]
LIBRARY = os.environ["SHARDC_BARE_SYSTEM"]
MODELS = os.path.join(ROOT, "testdata", "models")
MANIFEST = os.path.join(MODELS, "llama-3-8b.hf.manifest.json")
CONFIG = os.path.join(ROOT, "testdata", "configs", "llama-3-8b.config.json")
INPUTS = ["--mesh", "dp:2,fsdp:8,tp:4", "--rules", "builtin:llama",
          "--manifest", MANIFEST]


def run(folder, *arguments, bare=True, program=BIN, path=None):
    env = dict(os.environ)
    if bare:
        env["LD_PRELOAD"] = LIBRARY
    if path is not None:
        env["PATH"] = path
    return subprocess.run([program, *arguments], cwd=folder, env=env,
                          capture_output=True, text=True, check=False)


def contents(folder):
    """Returns the bytes of every file below the folder, by its path."""
    found = {}
    for here, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(here, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found


class BareSystem(unittest.TestCase):
    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def both(self, *arguments, status=0):
        """Runs a command on both systems; returns the files that it made."""
        results = []
        for bare in (False, True):
            folder = self.folder()
            done = run(folder, *arguments, bare=bare)
            self.assertEqual(done.returncode, status, done.stderr)
            results.append((done.stdout, done.stderr, contents(folder)))
        self.assertEqual(results[0], results[1])
        return results[1][2]

    def test_the_library_refuses_unnamed_files_and_proc(self):
        if shutil.which("strace") is None:
            self.skipTest("no strace")
        folder = self.folder()
        for bare in (False, True):
            done = subprocess.run(
                ["strace", "-f", "-e", "trace=openat",
                 *(["-E", "LD_PRELOAD=" + LIBRARY] if bare else []),
                 BIN, "plan", *INPUTS, "-o", "plan.json"], cwd=folder,
                capture_output=True, text=True, check=False)
            if "ptrace" in done.stderr:
                self.skipTest("no process can be traced here")
            self.assertEqual("O_TMPFILE" in done.stderr, not bare)

    def test_a_plan_is_written(self):
        self.assertEqual(set(self.both("plan", *INPUTS, "-o", "plan.json")),
                         {"plan.json"})

    def test_a_file_is_replaced_and_keeps_its_permissions(self):
        folder = self.folder()
        path = os.path.join(folder, "plan.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write("old")
        os.chmod(path, 0o640)
        done = run(folder, "plan", *INPUTS, "-o", "plan.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o640)
        self.assertEqual(list(contents(folder)), ["plan.json"])
        self.assertGreater(os.path.getsize(path), 3)

    def test_a_failed_command_leaves_nothing(self):
        self.assertEqual(self.both("plan", *INPUTS[:-1], "no-such-file", "-o",
                                   "plan.json", status=2), {})

    def test_a_step_is_verified(self):
        self.both("verify", "step", "--mode", "prefill", "--no-project",
                  "--part", "layer 0", "--model", CONFIG, "--mesh",
                  "fsdp:2,tp:2", "--rules", "builtin:llama", "--manifest",
                  MANIFEST)

    def test_no_configuration_of_openssl_is_read(self):
        # With this one the library has no algorithm.
        folder = self.folder()
        with open(os.path.join(folder, "openssl.cnf"), "w",
                  encoding="utf-8") as file:
            file.write("openssl_conf = init\n[init]\nproviders = all\n"
                       "[all]\nbase = on\n[on]\nactivate = 1\n")
        with open(os.path.join(folder, "input.json"), "w",
                  encoding="utf-8") as file:
            file.write('{"text": "abc"}')
        done = subprocess.run(
            [BIN, "eval", "get_safe_hash_int", "--input", "input.json"],
            cwd=folder, env={"OPENSSL_CONF": "openssl.cnf"},
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        md5 = hashlib.md5(b"abc", usedforsecurity=False).hexdigest()
        self.assertIn(str(int(md5, 16)), done.stdout)

    def test_init_knows_its_own_program(self):
        with open(BIN, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        home = os.path.dirname(BIN)
        for program, path in ((BIN, None),
                              ("shardc", "/no-such-folder:" + home)):
            folder = self.folder()
            done = run(folder, "init", MANIFEST, "--mesh", "fsdp:8,tp:4",
                       program=program, path=path)
            self.assertEqual(done.returncode, 0, done.stderr)
            files = contents(folder)
            workflow = next(name for name in files if "workflows" in name)
            self.assertIn(digest, files[workflow].decode())


if __name__ == "__main__":
    unittest.main()
