"""Little memory, few files, full disks, closed pipes, stopped runs: a plain
sentence, the documented status, and nothing left behind."""

import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from driver import (BIN, INTERNAL, MODELS, ROOT, TESTDATA, Case, is_sanitized,
                    run)

RULES = ("version: 1\nrules:\n  # shardc: ignore[SHD207] only its size counts\n"
         "  - {match: '.*', spec: []}\n")


def limited(**limits):
    def set_limits():
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, "RLIMIT_" + name),
                               (value, value))
    return set_limits


class Limits(Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        mode = "wb" if isinstance(data, bytes) else "w"
        with open(self.path(name), mode) as file:
            file.write(data)
        return self.path(name)

    def inputs(self, params=10):
        manifest = self.write("manifest.json", json.dumps({
            "schema": "shardc.manifest/v1",
            "params": [{"name": f"model/layers/{i}/kernel", "shape": [64, i],
                        "dtype": "F32"} for i in range(1, params + 1)]}))
        return ["--no-project", "--mesh", "tp:4", "--rules",
                self.write("rules.yaml", RULES), "--manifest", manifest]

    def start(self, *args, **kwargs):
        return subprocess.Popen([BIN, *map(str, args)],
                                stdin=subprocess.DEVNULL, text=True,
                                stderr=subprocess.PIPE, **kwargs)

    def check_plain(self, text):
        self.assertIsNone(INTERNAL.search(text), text)

    @unittest.skipIf(is_sanitized(), "a sanitizer has its own memory")
    def test_little_memory(self):
        inputs = self.inputs(200000)
        told = 0
        # Beyond what its own code takes, without which it does not begin.
        code = os.path.getsize(BIN) >> 20
        for megabytes in (20, 40, 70, 110, 190):
            for threads in ("1", "8"):
                out = self.path("plan.json")
                run_ = self.start("plan", *inputs, "--threads", threads, "-o",
                                  out, preexec_fn=limited(AS=code + megabytes << 20))
                text = run_.communicate()[1]
                self.check_plain(text)
                if "error while loading shared libraries" in text:
                    continue  # it did not begin
                if run_.returncode != 0:
                    self.assertEqual(run_.returncode, 2, text)
                    self.assertIn("error: out of memory", text)
                    self.assertIn(f"--> {self.folder}", text)
                    told += 1
                    self.assertEqual(sorted(os.listdir(self.folder)),
                                     ["manifest.json", "rules.yaml"])
        self.assertGreater(told, 2)

    @unittest.skipIf(is_sanitized(), "a sanitizer looks at memory by pipes")
    def test_few_files(self):
        inputs = self.inputs()
        for files in (4, 5, 6, 8, 16):
            run_ = self.start("plan", *inputs, "-o", self.path("plan.json"),
                              preexec_fn=limited(NOFILE=files))
            text = run_.communicate()[1]
            self.check_plain(text)
            self.assertIn(run_.returncode, (0, 2), text)
            if run_.returncode == 2:
                self.assertIn("Too many open files", text)
                self.assertIn(self.folder, text)
        self.assertEqual(run_.returncode, 0, "sixteen are enough")

    def test_a_stopped_plan_leaves_nothing(self):
        inputs = self.inputs(50000)
        names = ["manifest.json", "rules.yaml"]
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP,
                       signal.SIGKILL):
            for moment in range(12):
                run_ = self.start("plan", *inputs, "-o", self.path("plan.json"))
                time.sleep(0.02 * moment)
                run_.send_signal(number)
                text = run_.communicate()[1]
                self.check_plain(text)
                left = [name for name in os.listdir(self.folder)
                        if name not in names]
                self.assertIn(left, ([], ["plan.json"]))
                if left:
                    with open(self.path("plan.json")) as file:
                        json.load(file)
                    os.unlink(self.path("plan.json"))
                else:
                    self.assertEqual(run_.returncode, -number)

    def test_a_full_standard_output_is_reported(self):
        inputs = self.inputs()
        for args in (["--help"], ["--version"], ["plan", "--help"],
                     ["completion", "bash"], ["schema", "plan"], ["show", "rules"],
                     ["explain", "SHD001"], ["plan", *inputs],
                     ["check", *inputs], ["show", "mesh", "--mesh", "tp:4"],
                     ["resolve", "[TP]"], ["resolve", "attention"],
                     ["verify", "--mesh", "tp:2", "--list"]):
            with self.subTest(args=args), open("/dev/full", "w") as full:
                run_ = self.start(*args, stdout=full)
                text = run_.communicate()[1]
                self.assertEqual(run_.returncode, 2, text)
                self.assertIn("standard output cannot be written", text)

    def test_a_closed_pipe_is_no_fault(self):
        inputs = self.inputs(5000)
        for args in (["--help"], ["plan", *inputs], ["check", *inputs]):
            reader, writer = os.pipe()
            os.close(reader)
            run_ = self.start(*args, stdout=writer)
            os.close(writer)
            text = run_.communicate()[1]
            self.assertIn(run_.returncode, (0, 1), text)
            self.assertNotIn("error[", text)
            self.check_plain(text)

    def test_a_result_that_a_closed_standard_output_loses_is_an_error(self):
        inputs = self.inputs(50)
        out = os.path.join(self.folder, "plan.json")
        for closed, args, status in (
                (">&-", ["plan", *inputs], 2), (">&-", ["--help"], 2),
                (">&-", ["plan", *inputs, "-o", out], 0),
                ("2>&-", ["plan", *inputs], 0), ("<&-", ["plan", *inputs], 0)):
            with self.subTest(closed=closed, args=args):
                run_ = subprocess.run(
                    ["sh", "-c", f'exec "$@" {closed}', "sh", BIN, *args],
                    capture_output=True, text=True, check=False)
                self.assertEqual(run_.returncode, status, run_.stderr)
                self.assertEqual("standard output cannot be written"
                                 in run_.stderr, status == 2)

    def test_processes_have_a_place(self):
        for command in (["show", "mesh"], ["resolve", "[TP]"], ["resolve", "attention"]):
            result = run(*command, "--no-project", "--mesh", "tp:4",
                         "--processes", "3", cwd=self.folder)
            self.check(result, 2)
            self.assertIn("4 devices cannot be divided among 3 processes",
                          result.err)
            self.assertIn("--processes:1:1", result.err)
            for wrong in ("x", "0"):
                self.check(run(*command, "--no-project", "--mesh", "tp:4",
                               "--processes", wrong, cwd=self.folder), 2)
            self.check(run(*command, "--no-project", "--mesh", "tp:4",
                           "--processes", "2", cwd=self.folder), 0)

    def test_a_model_section_is_bounded(self):
        with open(os.path.join(ROOT, "rules", "llama.hf.yaml"),
                  encoding="utf-8") as file:
            rules = file.read()
        window = next(line for line in rules.split("\n")
                      if line.startswith("  window: "))
        last = "      - x = add(x, m) @resid\n"
        self.assertIn(last, rules)
        for text in (
                rules.replace(window, "  window: 1 if " + "- " * 200000 + "1"),
                rules.replace(window, "  window: 1" + " + 1" * 200000),
                rules.replace(window, "  window: a" + ".b" * 200000),
                rules.replace(last, "      - x = add(" + "x, " * 200000 + "x)\n"),
                rules.replace(last, "      - x = add(" + "x + " * 200000 + "x)\n"),
                rules.replace(last, last * 2000)):
            command = ["--no-project", "--mesh", "fsdp:2", "--rules",
                       self.write("rules.yaml", text), "--manifest",
                       os.path.join(MODELS, "llama-3-8b.hf.manifest.json"),
                       "--model", os.path.join(TESTDATA, "configs",
                                               "llama-3-8b.config.json")]
            result = run("verify", "step", "--mode", "decode", *command,
                         timeout=60)
            self.check(result, 2)
            self.assertIn(" limit]", result.err)
            self.assertLess(len(result.err), 5000)
            self.assertIn(run("check", *command, timeout=60).rc, (0, 1, 2))

    def test_a_broken_project_is_reported_in_the_format(self):
        self.write("shardc.yaml", "version: 1\ntargets: {a: {mush: x}}\n")
        for name in ("sarif", "github", "junit", "json", "concise",
                     "markdown"):
            with self.subTest(format=name):
                result = run("check", "--format", name, cwd=self.folder)
                self.check(result, 2)
                self.assertIn("mush", result.out)
                self.assertEqual(result.err, "")
        self.assertEqual(len(json.loads(run(
            "check", "--format", "sarif", cwd=self.folder).out)
            ["runs"][0]["results"]), 1)
        result = run("check", cwd=self.folder)
        self.assertIn("mush", result.err)
        result = run("check", "--format", "json", "-o", "shardc.yaml",
                     cwd=self.folder)
        self.check(result, 2)
        self.assertIn("one of the files that are read", result.err)

    def gguf(self, keys=(), names=(b"w",)):
        def text(value):
            return struct.pack("<Q", len(value)) + value
        data = b"GGUF" + struct.pack("<IQQ", 3, len(names), len(keys))
        for key, kind, value in keys:
            data += text(key) + struct.pack("<I", kind) + value
        for name in names:
            data += text(name) + struct.pack("<IQIQ", 1, 8, 0, 0)
        return data + b"\0" * (-len(data) % 32) + b"\0" * 32

    def test_gguf_is_read_strictly(self):
        boolean = (b"k", 7, b"\1")
        wrong = [
            ("name", self.gguf(names=[b"a\0b"])),
            ("name", self.gguf([(b"a\0", 7, b"\1")])),
            ("duplicate-key", self.gguf([boolean, boolean])),
            ("number", self.gguf([(b"k", 7, b"\2")])),
            ("number", self.gguf([(b"k", 9, struct.pack("<IQ", 7, 3)
                                   + b"\0\1\xff")])),
        ]
        good = [self.gguf([boolean, (b"l", 7, b"\0")], [b"w"]),
                self.gguf([(b"k", 9, struct.pack("<IQ", 7, 2) + b"\0\1")],
                          [b"w"])]
        for data in good:
            self.check(run("show", "manifest", "--manifest",
                           self.write("m.gguf", data)), 0)
        for code, data in wrong:
            result = run("show", "manifest", "--manifest", self.write("m.gguf", data))
            self.check(result, 2)
            self.assertIn(f" {code}]", result.err)

    def test_safetensors_names_hold_no_nul(self):
        header = json.dumps({"a\0b": {"dtype": "U8", "shape": [0],
                                      "data_offsets": [0, 0]}}).encode()
        path = self.write("m.safetensors",
                          struct.pack("<Q", len(header)) + header)
        result = run("show", "manifest", "--manifest", path)
        self.check(result, 2)
        self.assertIn(" name]", result.err)
        index = self.write("model.safetensors.index.json", json.dumps(
            {"weight_map": {"a\0b": "model-00001-of-00002.safetensors"}}))
        result = run("show", "manifest", "--manifest", index)
        self.check(result, 2)
        self.assertIn(" name]", result.err)


if __name__ == "__main__":
    unittest.main()
