"""Nothing that is read is written, an earlier set is never lost, and every
command reports what it wrote."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

from checkpoint_case import (BIN, Base, clean_env, interruptible, make_plan,
                             read_safetensors, write_safetensors, seal)

RULES = ("version: 1\nrules:\n  # shardc: ignore[SHD207] nothing is written\n"
         "  - {match: '.*', spec: []}\n")
AXES = [("tp", 2)]


class Safety(Base):
    def make(self, rows=8, seed=1, name="m.safetensors"):
        data = random.Random(seed).randbytes(rows * 16 * 4)
        tensors = {"a.w": ("F32", [rows, 16], data),
                   "a.norm": ("F32", [16], data[:64])}
        write_safetensors(self.path(name), tensors)
        return tensors

    def plan(self, name="plan.json", axis="tp", rows=8, axes=None):
        return self.write_plan(name, axes or AXES, {
            "a.w": ([rows, 16], [axis]), "a.norm": ([16], [])})

    def text(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def bytes_of(self, folder):
        out = {}
        for at, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(at, name)
                with open(path, "rb") as file:
                    out[path] = file.read()
        return out

    def test_no_command_writes_what_it_reads(self):
        self.make()
        rules = self.text("rules.yaml", RULES)
        base = self.text("base.yaml", RULES)
        self.text("extending.yaml", "version: 1\nextends: [base.yaml]\n")
        mesh = self.text("mesh.yaml", "axes: {tp: 2}\n")
        manifest = self.text("manifest.json", json.dumps(
            {"schema": "shardc.manifest/v1",
             "params": {"a": {"shape": [8], "dtype": "F32"}}}))
        model = self.text("config.json", '{"model_type": "llama"}')
        settings = self.text("eformer.json", json.dumps(
            {"batch_axis": "dp", "head_axis": "tp"}))
        os.symlink(rules, self.path("link.yaml"))
        os.link(manifest, self.path("hard.json"))
        inputs = ["--no-project", "--mesh", mesh, "--rules",
                  self.path("extending.yaml"), "--rules", rules, "--manifest",
                  manifest, "--model", model]
        before = self.bytes_of(self.dir)
        for out in (mesh, rules, base, manifest, model,
                    self.path("link.yaml"), self.path("hard.json"),
                    os.path.join(self.dir, ".", "rules.yaml")):
            for command in ("plan", "check"):
                run = self.shardc(command, *inputs, "-o", out, status=2)
                self.assertIn("is one of the files that are read", run.stderr)
        run = self.shardc("import", "eformer", settings, "-o", settings,
                          status=2)
        self.assertIn("files that are read", run.stderr)
        weights = self.path("m.safetensors")
        run = self.shardc("plan", "--no-project", "--mesh", mesh, "--rules",
                          rules, "--manifest", weights, "-o", weights, status=2)
        self.assertIn("files that are read", run.stderr)
        self.assertEqual(self.bytes_of(self.dir), before)

    def test_split_and_merge_leave_their_source(self):
        tensors = self.make()
        plan = self.plan()
        os.mkdir(self.path("w"))
        # A checkpoint that is called as a piece would be.
        source = self.path("w", "device-00000.safetensors")
        write_safetensors(source, tensors)
        os.symlink("w", self.path("w-link"))
        before = self.bytes_of(self.dir)
        for checkpoint in (source, self.path("w")):
            for out in ("w", "w-link"):
                for more in ([], ["--reuse"]):
                    run = self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                                      checkpoint, "--output", self.path(out),
                                      *more, status=2)
                    self.assertIn("read", run.stderr)
                    self.assertEqual(self.bytes_of(self.dir), before)
        # The other way: the piece is a link to the source.
        os.mkdir(self.path("out"))
        os.symlink(source, self.path("out", "device-00001.safetensors"))
        for more in ([], ["--reuse"]):
            self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint", source,
                        "--output", self.path("out"), *more, status=2)
        self.same({p: d for p, d in self.bytes_of(self.path("w")).items()},
                  {p: d for p, d in before.items()
                   if p.startswith(self.path("w") + "/")})

    def test_a_folder_holds_one_set(self):
        tensors = self.make()
        plan = self.plan()
        os.mkdir(self.path("w"))
        write_safetensors(self.path("w", "model.safetensors"), tensors)
        self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint", self.path("w"),
                    "--output", self.path("pieces"))
        os.symlink("w", self.path("w-link"))
        before = self.bytes_of(self.dir)
        for command in (["checkpoint", "split", "--plan", plan, "--checkpoint",
                         self.path("w"), "--output", self.path("w-link")],
                        ["checkpoint", "merge", self.path("pieces"), "--max-shard-size",
                         "1MB", "--output", self.path("w", "..", "pieces")],
                        ["checkpoint", "reshard", self.path("pieces"), "--plan", plan,
                         "--output", self.path("pieces")]):
            run = self.shardc(*command, status=2)
            self.assertIn("is the directory that is read", run.stderr)
            self.assertEqual(self.bytes_of(self.dir), before)

    def test_a_failed_run_leaves_no_new_folder(self):
        self.make()
        plan = self.plan()
        with open(self.path("m.safetensors"), "r+b") as file:
            file.truncate(os.path.getsize(self.path("m.safetensors")) - 1)
        self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                    self.path("m.safetensors"), "--output",
                    self.path("new", "deeper"), status=2)
        self.assertFalse(os.path.exists(self.path("new")))
        self.make()
        self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                    self.path("m.safetensors"), "--output", self.path("full"),
                    status=2, preexec_fn=lambda: __import__("resource")
                    .setrlimit(__import__("resource").RLIMIT_FSIZE, (64, 64)))
        self.assertFalse(os.path.exists(self.path("full")))

    def test_killed_while_a_set_replaces_another(self):
        rows = 1024
        old = self.make(rows, 1, "old.safetensors")
        new = self.make(rows, 2, "new.safetensors")
        plan = self.plan("p.json", rows=rows, axes=[("tp", 64)])
        args = ["--plan", plan, "--output", self.path("out"), "--no-sync"]
        self.shardc("checkpoint", "split", "--checkpoint", self.path("old.safetensors"),
                    *args)
        start = time.monotonic()
        self.shardc("checkpoint", "split", "--checkpoint", self.path("new.safetensors"),
                    *args)
        whole = time.monotonic() - start
        chance = random.Random(5)
        seen = {"old": 0, "new": 0, "unfinished": 0}
        for _ in range(60):
            shutil.rmtree(self.path("out"))
            self.shardc("checkpoint", "split", "--checkpoint", self.path("old.safetensors"),
                        *args)
            run = subprocess.Popen(
                [BIN, "checkpoint", "split", "--checkpoint", self.path("new.safetensors"),
                 *args], stderr=subprocess.DEVNULL, env=clean_env())
            time.sleep(chance.uniform(0, 1.1 * whole))
            run.kill()
            run.wait()
            self.assertIn("shards.json", os.listdir(self.path("out")))
            with open(self.path("out", "shards.json"), "rb") as file:
                unfinished = b"shardc.unfinished/v1" in file.read()
            merged = self.path("merged.safetensors")
            told = self.shardc("checkpoint", "merge", self.path("out"), "--output", merged,
                               status=2 if unfinished else 0)
            if unfinished:
                seen["unfinished"] += 1
                self.assertIn("run the same command again", told.stderr)
                self.shardc("checkpoint", "split", "--checkpoint",
                            self.path("new.safetensors"), *args)
                self.shardc("checkpoint", "merge", self.path("out"), "--output", merged)
                held, _ = read_safetensors(merged)
                self.assertTrue(held == new)
            else:
                held, _ = read_safetensors(merged)
                self.assertTrue(held in (old, new))
                seen["old" if held == old else "new"] += 1
        self.assertGreater(seen["old"] + seen["unfinished"], 0, seen)

    def stopped(self, *args):
        """A run that is stopped while it writes; killed at the end."""
        rows = 1 << 18
        if not os.path.exists(self.path("m.safetensors")):
            self.make(rows)
        for _ in range(50):
            run = subprocess.Popen([BIN, *args], stderr=subprocess.DEVNULL,
                                   env=clean_env())
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline and run.poll() is None:
                if os.path.isdir(self.path("out")) and any(
                        name.endswith(".part")
                        for name in os.listdir(self.path("out"))):
                    break
            run.send_signal(signal.SIGSTOP)
            # Until then some of its threads may still write.
            os.waitid(os.P_PID, run.pid,
                      os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if run.poll() is None and any(
                    name.endswith(".part")
                    for name in os.listdir(self.path("out"))):
                self.addCleanup(run.wait)
                self.addCleanup(run.kill)
                return run
            run.kill()
            run.wait()
            shutil.rmtree(self.path("out"), True)
        self.fail("no run could be stopped")

    def test_runs_into_one_folder_exclude_each_other(self):
        rows = 1 << 18
        self.make(rows)
        plan = self.plan(rows=rows)
        out = self.path("out")
        source = self.path("m.safetensors")
        split = ["checkpoint", "split", "--plan", plan, "--checkpoint", source]
        self.shardc(*split, "--output", self.path("pieces"))
        merge = ["checkpoint", "merge", self.path("pieces")]
        sets = {"merge": [*merge, "--max-shard-size", "3MB", "--output", out],
                "process": [*merge, "--max-shard-size", "3MB", "--output", out,
                            "--process-index", "0", "--process-count", "2"],
                "other sizes": [*merge, "--max-shard-size", "2MB", "--output",
                                out],
                "split": [*split, "--output", out],
                "member": [*merge, "--output", os.path.join(
                    out, "model-00001-of-00002.safetensors")],
                "file": [*merge, "--output", os.path.join(out,
                                                       "a.safetensors")]}
        for first in ("merge", "process", "split", "member"):
            run = self.stopped(*sets[first])
            before = self.contents("out")
            for second, args in sets.items():
                if first == "member" and second in ("member", "file"):
                    continue
                other = self.shardc(*args, status=2)
                self.assertIn("another run is writing there", other.stderr,
                              (first, second))
                self.assertTrue(self.contents("out") == before,
                                (first, second))
            run.kill()
            run.wait()
            shutil.rmtree(out)
        # Files of other names are written side by side.
        run = self.stopped(*sets["member"])
        self.shardc(*sets["file"])
        self.shardc(*sets["member"], status=2)
        run.send_signal(signal.SIGCONT)
        self.assertEqual(run.wait(), 0)
        self.assertEqual(sorted(os.listdir(out)), [
            "a.safetensors", "model-00001-of-00002.safetensors"])

    def test_what_an_interrupted_run_left_is_removed(self):
        self.make(8)
        plan = self.plan()
        split = ["checkpoint", "split", "--plan", plan, "--checkpoint",
                 self.path("m.safetensors"), "--output", self.path("pieces")]
        self.shardc(*split, "--process-index", "0", "--process-count", "2")
        for name in (".device-00007.safetensors.part", ".other.part"):
            with open(self.path("pieces", name), "wb"):
                pass
        self.shardc(*split)
        self.assertEqual([name for name in os.listdir(self.path("pieces"))
                          if name.startswith(".")], [".other.part"])

    def test_an_index_of_another_set_is_not_left_over(self):
        self.make(8)
        self.shardc("checkpoint", "split", "--plan", self.plan(), "--checkpoint",
                    self.path("m.safetensors"), "--output", self.path("pieces"))
        os.mkdir(self.path("out"))
        with open(self.path("out", "model.safetensors.index.json"),
                  "w") as file:
            file.write('{"weight_map": {"x": "old.safetensors"}}')
        run = self.shardc("checkpoint", "merge", self.path("pieces"), "--max-shard-size",
                          "1GB", "--output", self.path("out"), status=2)
        self.assertIn("of another set, such as `model.safetensors.index.json`",
                      run.stderr)

    def test_an_interruption_prints_how_to_go_on(self):
        rows = 1 << 18
        self.make(rows)
        plan = self.plan(rows=rows)
        for number in (signal.SIGINT, signal.SIGTERM):
            for _ in range(50):
                run = subprocess.Popen(
                    [BIN, "checkpoint", "split", "--plan", plan, "--checkpoint",
                     self.path("m.safetensors"), "--output", self.path("out")],
                    stderr=subprocess.PIPE, text=True, env=clean_env(),
                    preexec_fn=interruptible)
                deadline = time.monotonic() + 10
                while time.monotonic() < deadline and run.poll() is None:
                    if os.path.isdir(self.path("out")) and any(
                            name.endswith(".part")
                            for name in os.listdir(self.path("out"))):
                        break
                run.send_signal(number)
                told = run.communicate()[1]
                if run.returncode == -number:
                    break
                shutil.rmtree(self.path("out"), True)
            self.assertEqual(run.returncode, -number)
            self.assertIn("the same command continues from there", told)
            self.assertIn(self.path("out"), told)
            self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                        self.path("m.safetensors"), "--output", self.path("out"))
            shutil.rmtree(self.path("out"))

    def test_a_source_rewritten_between_runs_is_read_again(self):
        self.make(8, 1)
        source = self.path("m.safetensors")
        before = os.stat(source)
        args = ["checkpoint", "split", "--plan", self.plan(), "--checkpoint", source,
                "--output", self.path("out"), "--process-count", "2"]
        self.shardc(*args, "--process-index", "0")
        run = self.shardc(*args, "--process-index", "0")
        self.assertIn("were already written", run.stderr)
        # Equal in size, header and time.
        new = self.make(8, 2)
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.assertEqual(os.path.getsize(source), before.st_size)
        run = self.shardc(*args, "--process-index", "0")
        self.assertNotIn("already", run.stderr)
        self.shardc(*args, "--process-index", "1")
        self.shardc(*args, "--finalize")
        whole = self.path("whole.safetensors")
        self.shardc("checkpoint", "merge", self.path("out"), "--output", whole)
        self.assertTrue(read_safetensors(whole)[0] == new)

    def test_links_out_of_a_checkpoint_are_refused(self):
        tensors = self.make()
        plan = self.plan()
        self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                    self.path("m.safetensors"), "--output", self.path("out"))
        inner = self.path("out", "device-00001.safetensors")
        os.rename(inner, self.path("elsewhere"))
        os.symlink(self.path("elsewhere"), inner)
        whole = self.path("whole.safetensors")
        run = self.shardc("checkpoint", "merge", self.path("out"), "--output", whole, status=2)
        self.assertIn("is a link that leads out of", run.stderr)
        os.mkdir(self.path("w"))
        os.symlink(self.path("m.safetensors"),
                   self.path("w", "model.safetensors"))
        again = ["checkpoint", "split", "--plan", plan, "--output", self.path("new"),
                 "--checkpoint"]
        run = self.shardc(*again, self.path("w"), status=2)
        self.assertIn("path]", run.stderr)
        self.shardc("show", "manifest", "--manifest", self.path("w"), status=2)
        # A link inside, a file by its own name, and the cache whose snapshots
        # are links to blobs.
        os.rename(self.path("w"), self.path("v"))
        os.unlink(self.path("v", "model.safetensors"))
        write_safetensors(self.path("v", "data"), tensors)
        os.symlink("data", self.path("v", "model.safetensors"))
        self.shardc(*again, self.path("v"))
        os.symlink(self.path("m.safetensors"), self.path("l.safetensors"))
        self.shardc(*again, self.path("l.safetensors"))
        at = self.path("hub", "models--a--b")
        os.makedirs(os.path.join(at, "snapshots", "0123"))
        os.makedirs(os.path.join(at, "blobs"))
        write_safetensors(os.path.join(at, "blobs", "abc"), tensors)
        os.symlink("../../blobs/abc", os.path.join(
            at, "snapshots", "0123", "model.safetensors"))
        self.shardc(*again, os.path.join(at, "snapshots", "0123"))

    def test_a_link_at_the_index_leads_nowhere(self):
        self.make()
        plan = self.plan()
        outside = self.path("outside")
        for there in (True, False):
            if there:
                with open(outside, "w") as file:
                    file.write("theirs")
            out = self.path(f"out-{there}")
            os.mkdir(out)
            index = os.path.join(out, "shards.json")
            os.symlink(outside, index)
            self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                        self.path("m.safetensors"), "--output", out)
            self.assertFalse(os.path.islink(index))
            self.shardc("checkpoint", "merge", out, "--output", self.path("whole.safetensors"))
            if there:
                with open(outside) as file:
                    self.assertEqual(file.read(), "theirs")
                os.unlink(outside)
            self.assertFalse(os.path.exists(outside))

    def test_finalizing_twice(self):
        self.make()
        plan = self.plan()
        args = ["checkpoint", "split", "--plan", plan, "--checkpoint",
                self.path("m.safetensors"), "--output", self.path("out")]
        for index in ("0", "1"):
            self.shardc(*args, "--process-index", index, "--process-count", "2")
        for _ in range(2):
            run = self.shardc(*args, "--process-count", "2", "--finalize")
            self.assertIn("is complete", run.stderr)
        with open(self.path("out", "device-00001.safetensors"), "r+b") as file:
            file.truncate(20)
        self.shardc(*args, "--process-count", "2", "--finalize", status=2)

    def test_merge_prints_where_it_wrote_and_what_it_verified(self):
        tensors = self.make()
        self.shardc("checkpoint", "split", "--plan", self.plan(), "--checkpoint",
                    self.path("m.safetensors"), "--output", self.path("out"))
        whole = self.path("whole.safetensors")
        run = self.shardc("checkpoint", "merge", self.path("out"), "--output", whole)
        self.assertIn("to " + whole, run.stderr)
        self.assertIn("3 checksums of the input verified", run.stderr)
        run = self.shardc("checkpoint", "merge", self.path("out"), "--output", whole,
                          "--no-verify")
        self.assertNotIn("checksum", run.stderr)
        with open(self.path("out", "device-00000.safetensors"), "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
        run = self.shardc("checkpoint", "merge", self.path("out"), "--output", whole, status=2)
        self.assertIn("checksum", run.stderr)
        self.assertTrue(read_safetensors(whole)[0] == tensors)
        self.shardc("checkpoint", "reshard", self.path("out"), "--plan",
                    self.plan("q.json", axes=[("tp", 4)]), "--output",
                    self.path("other"), status=2)
        self.shardc("checkpoint", "merge", self.path("out"), "--output", whole, "--no-verify")

    def test_splitting_pieces_names_reshard(self):
        self.make()
        plan = self.plan()
        self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                    self.path("m.safetensors"), "--output", self.path("out"))
        run = self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                          self.path("out"), "--output", self.path("new"), status=2)
        self.assertIn("shardc checkpoint reshard " + self.path("out"), run.stderr)

    def test_a_selection_of_nothing(self):
        self.make()
        plan = self.plan()
        run = self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                          self.path("m.safetensors"), "--output", self.path("out"),
                          "--params", "no such", status=2)
        self.assertIn("--params matches none of the 2 parameters", run.stderr)
        self.assertFalse(os.path.exists(self.path("out")))
        self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                    self.path("m.safetensors"), "--output", self.path("out"))
        self.shardc("checkpoint", "merge", self.path("out"), "--params", "no such", "--output",
                    self.path("w.safetensors"), status=2)

    def test_a_type_for_each_pattern(self):
        self.make()
        plan = self.plan()
        base = ["checkpoint", "split", "--plan", plan, "--checkpoint",
                self.path("m.safetensors"), "--per", "shard", "--output"]

        def types(folder):
            out = {}
            for name in os.listdir(self.path(folder)):
                if name.endswith(".safetensors"):
                    held, _ = read_safetensors(self.path(folder, name))
                    out.update({key: held[key][0] for key in held})
            return out

        for folder, dtypes, want in [
                ("a", ["norm=F32", "BF16"], {"a.norm": "F32", "a.w": "BF16"}),
                ("b", ["bf16", "norm=f16"], {"a.norm": "F16", "a.w": "BF16"}),
                ("c", ["w$=bf16", "a=f16"], {"a.norm": "F16", "a.w": "BF16"}),
                ("d", ["norm=bf16"], {"a.norm": "BF16", "a.w": "F32"})]:
            self.shardc(*base, self.path(folder), *sum(
                (["--cast", text] for text in dtypes), []))
            self.assertEqual(types(folder), want)
        for wrong in (["norm=I8"], ["(=BF16"], ["BF16", "F16"]):
            self.shardc(*base, self.path("e"), *sum(
                (["--cast", text] for text in wrong), []), status=2)
        self.assertFalse(os.path.exists(self.path("e")))

    def test_a_plan_of_one_mode_is_split_by_it(self):
        self.make()
        plan = make_plan(AXES, {
            "a.w": ([8, 16], {"spec": [], "modes": {"decode": {
                "spec": ["tp"], "shard_shape": [4, 16],
                "bytes_per_device": 256}}}), "a.norm": ([16], [])})
        for modes, shape in ((["decode"], [4, 16]),
                             (["train", "decode"], [8, 16])):
            plan["modes"] = modes
            plan["fingerprint"] = seal.fingerprint(plan)
            with open(self.path("one.json"), "w", encoding="utf-8") as file:
                json.dump(plan, file)
            shutil.rmtree(self.path("out"), True)
            self.shardc("checkpoint", "split", "--plan", self.path("one.json"),
                        "--checkpoint", self.path("m.safetensors"), "--output",
                        self.path("out"))
            held, _ = read_safetensors(
                self.path("out", "device-00000.safetensors"))
            self.assertEqual(held["a.w"][1], shape)


if __name__ == "__main__":
    unittest.main()
