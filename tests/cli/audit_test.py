"""`shardc audit`: what compiled programs send.

The programs of testdata/audit were compiled by JAX, with the number of
collectives that JAX's profiler saw or bytes computed by hand.
"""

import json
import os
import tempfile
import unittest

from audited import FOLDER, MESH, AuditCase, path, text
from driver import MODELS, run


class Audit(AuditCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(os.path.join(FOLDER, "EXPECT.json"), encoding="utf-8") as file:
            cls.expected = json.load(file)

    def test_recorded_programs_send_what_was_recorded(self):
        self.assertEqual({one["program"] for one in self.expected},
                         {name.removesuffix(".hlo.txt.gz")
                          for name in os.listdir(FOLDER)
                          if name.endswith(".gz")})
        for one in self.expected:
            with self.subTest(one["program"]):
                out = self.audit(path(one["program"]), "--mesh", one["mesh"])
                total = out["total"]
                self.assertEqual(
                    (total["bytes_per_device"], total["calls"], total["bound"]),
                    (one["bytes"], one["calls"], one["bound"]))
                # Without the mesh only the names of the axes are unknown.
                bare = self.audit(path(one["program"]))
                self.assertEqual(bare["total"]["bytes_per_device"],
                                 one["bytes"])
                for first, second in zip(out["collectives"],
                                         bare["collectives"]):
                    self.assertIsNone(second["axes"])
                    self.assertEqual(first["shape"], second["shape"])

    def test_empty_lines_before_the_module_change_nothing(self):
        program = text("layers_bf16")
        for one in (program, "\n" + program):
            out = self.audit("-", stdin=one)
            self.assertEqual(out["findings"], [])

    def test_bytes_do_not_depend_on_the_stage_that_is_read(self):
        def bytes_by_kind(name):
            out = {}
            for one in self.audit(path(name), *MESH)["collectives"]:
                key = (one["collective"], *one["axes"])
                out[key] = out.get(key, 0) + one["bytes_per_device"]
            return out

        self.assertEqual(bytes_by_kind("layers"),
                         bytes_by_kind("layers.after_spmd"))

    def test_each_row_has_its_line_phase_and_parameter(self):
        out = self.audit(path("layers"), *MESH)
        found = {(one["collective"], *one["axes"], one["phase"], one["what"],
                  one["parameter"], one["line"]["line"], one["times"])
                 for one in out["collectives"]}
        for row in [
                ("all_gather", "fsdp", "forward", "parameter", "up", 21, 4),
                ("all_gather", "fsdp", "forward", "parameter", "down", 22, 4),
                ("all_gather", "fsdp", "recomputed", "parameter", "up", 21, 4),
                ("all_gather", "fsdp", "backward", "parameter", "down", 22, 4),
                ("all_reduce", "tp", "forward", "activation", None, 22, 4),
                ("all_reduce", "dp", "fsdp", "backward", "gradient", "norm", 19,
                 4)]:
            self.assertIn(row, found)
        for one in out["collectives"]:
            self.assertEqual(one["line"]["file"], "progs.py")
            self.assertEqual(one["stack"][0], one["line"])
        self.assertEqual({one["scope"] for one in out["collectives"]},
                         {"mlp", None})

    def test_sums_by_a_property_are_the_total(self):
        for by in ("line", "parameter", "axes", "kind", "scope"):
            with self.subTest(by):
                out = self.audit(path("layers"), *MESH, "--by", by)
                sent = [row["bytes_per_device"] for row in out["rows"]]
                self.assertEqual(sum(sent), out["total"]["bytes_per_device"])
                self.assertEqual(sent, sorted(sent, reverse=True))
                printed = self.check(run("audit", path("layers"), *MESH,
                                         "--by", by), 0).out
                for row in out["rows"]:
                    self.assertIn(row["key"], printed)
        self.assertEqual(self.audit(path("layers"), *MESH)["rows"], [])

    def test_times_come_from_the_profile(self):
        out = self.audit(path("layers"), *MESH, "--profile", "h100-sxm")
        seconds = [one["seconds"] for one in out["collectives"]]
        self.assertTrue(all(one > 0 for one in seconds))
        self.assertAlmostEqual(sum(seconds), out["total"]["seconds"])
        slower = self.audit(path("layers"), *MESH, "--processes", "8",
                            "--profile", "h100-sxm")
        self.assertGreater(slower["total"]["seconds"], out["total"]["seconds"])
        self.refused(path("layers"), "--profile", "h100-sxm", said="mesh")
        self.refused(path("layers"), *MESH, "--profile", "h100-sx",
                     said="h100-sxm")

    def test_a_plan_names_the_axes(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = os.path.join(folder, "plan.json")
            self.check(run("plan", *MESH, "--rules", "auto", "--manifest",
                           os.path.join(MODELS, "llama-3-8b.hf.manifest.json"),
                           "--no-project", "-o", plan), 0)
            # No argument of the program is in this plan.
            out = self.described(run("audit", path("layers"), "--plan", plan,
                                     "--format", "json"), 1)
            self.assertEqual(out["collectives"],
                             self.audit(path("layers"), *MESH)["collectives"])
            self.refused(path("layers"), "--plan", plan, *MESH, said="--plan")

    def plan_of(self, folder, specs, shapes):
        """A plan file: `specs` by the ends of names, and shapes by name."""
        rules, manifest, plan = (os.path.join(folder, name) for name in (
            "rules.yaml", "manifest.json", "plan.json"))
        with open(rules, "w", encoding="utf-8") as file:
            file.write("version: 1\nrules:\n" + "".join(
                f"  - {{match: '{end}$', spec: {spec}}}\n"
                for end, spec in specs.items()))
        with open(manifest, "w", encoding="utf-8") as file:
            json.dump({"schema": "shardc.manifest/v1", "params": {
                name: {"shape": shape, "dtype": "F32"}
                for name, shape in shapes.items()}}, file)
        self.check(run("plan", *MESH, "--rules", rules, "--manifest", manifest,
                       "--no-project", "-o", plan), 0)
        return plan

    def plan(self, folder, names, up="[null, fsdp, tp]", more=None):
        """A plan file for the parameters of `layers`, with these names."""
        return self.plan_of(folder, {
            **(more or {}), "up": up, "down": "[null, tp, fsdp]",
            "norm": "[]"}, dict(zip(names, ([4, 64, 128], [4, 128, 64],
                                            [4, 64]))))

    def test_arguments_that_are_sharded_in_another_way_are_found(self):
        names = ["up", "down", "norm"]
        states = text("layers").replace('"p[\\\'up\\\']"',
                                        '"s.opt[0].mu[\\\'up\\\']"')
        self.assertIn("s.opt[0]", states)
        with tempfile.TemporaryDirectory() as folder:
            for program in (text("layers"), text("layers.after_spmd"), states):
                out = self.audit("-", "--plan", self.plan(folder, names),
                                 stdin=program)
                self.assertEqual((out["arguments_compared"], out["drift"]),
                                 (3, []))
                plan = self.plan(folder, names, "[null, null, [fsdp, tp]]")
                done = self.check(run("audit", "-", "--plan", plan, "--format",
                                      "json", stdin=program), 1)
                (drift,) = done.json()["drift"]
                self.assertEqual(
                    (drift["parameter"], drift["planned"], drift["compiled"]),
                    ("up", [None, None, ["fsdp", "tp"]], [None, "fsdp", "tp"]))
                printed = self.check(run("audit", "-", "--plan", plan,
                                         stdin=program), 1).out
                self.assertRegex(printed, r'up +\[null, null, \["fsdp", "tp"\]\]'
                                          r' +\[null, "fsdp", "tp"\]')
            # A sharding that no spec expresses, and names that do not occur.
            other = text("layers").replace("sharding={devices=[1,2,2,2]",
                                           "sharding={devices=[2,1,2,2]", 1)
            done = run("audit", "-", "--plan", self.plan(folder, names),
                       stdin=other)
            self.assertIn(done.rc, (0, 1))
            # A prefix is looked through.
            for prefix in ("a/", "state/params/", "model."):
                out = self.audit(path("layers"), "--plan", self.plan(
                    folder, [prefix + name for name in names]))
                self.assertEqual((out["arguments_compared"],
                                  out["arguments_skipped"]), (3, ["x"]))
            # Nothing that is compared is no success.
            done = self.check(run(
                "audit", path("layers"), "--plan",
                self.plan(folder, ["a/upper/up/x", "a/lower/down/x",
                                   "a/other/norm/x"],
                          more={"x": "[null, fsdp]"})), 1)
            self.assertIn("0 of 4 arguments compared with the plan", done.out)

    def test_the_states_of_an_optimizer_are_compared(self):
        """Each parameter of the steps of tests/runtimes/audit_train_states.py
        has two moments in Adam and one in SGD; counters and tokens are in no
        plan."""
        wide, tall = "[fsdp, tp]", "[tp, fsdp]"
        specs = {"embedding": tall, "(wq|wk|wv|gate|up|head)/kernel": wide,
                 "(wo|down)/kernel": tall, "scale": "[]"}
        shapes = {"embed/embedding": [512, 64], "head/kernel": [64, 512],
                  "last/scale": [64]}
        for i in range(2):
            for name, shape in (
                    ("wq", [64, 64]), ("wk", [64, 64]), ("wv", [64, 64]),
                    ("wo", [64, 64]), ("gate", [64, 128]), ("up", [64, 128]),
                    ("down", [128, 64])):
                shapes[f"block_{i}/{name}/kernel"] = shape
            shapes |= {f"block_{i}/norm1/scale": [64],
                       f"block_{i}/norm2/scale": [64]}
        self.assertEqual(len(shapes), 21)
        head = [f"opt_state/0/{state}/head/kernel" for state in ("mu", "nu")]
        with tempfile.TemporaryDirectory() as folder:
            for prefix in ("params/", "state/params/", ""):
                plan = self.plan_of(folder, specs, {
                    prefix + name: shape for name, shape in shapes.items()})
                for step, compared, others, drifts in (
                        ("adam", 63, 3, []), ("momentum", 42, 2, []),
                        ("weights_named", 63, 2, []),
                        ("state_in_dictionary", 63, 2, []),
                        ("moment_of_head_replicated", 63, 3, head)):
                    with self.subTest(prefix=prefix, step=step):
                        program = os.path.join(FOLDER, "states",
                                               step + ".hlo.txt.gz")
                        out = self.described(
                            run("audit", program, "--plan", plan, "--format",
                                "json"), 1 if drifts else 0)
                        self.assertEqual(
                            (out["arguments_compared"],
                             len(out["arguments_skipped"])), (compared, others))
                        self.assertEqual(
                            [one["argument"] for one in out["drift"]], drifts)
                        self.assertEqual({one["parameter"]
                                          for one in out["drift"]},
                                         {prefix + "head/kernel"} if drifts
                                         else set())

    def test_the_mesh_is_the_programs(self):
        self.refused(path("layers"), "--mesh", "dp:2,tp:2", said="8")
        self.assertEqual(
            self.audit(path("layers"), "--mesh", "dp:2,fsdp:-1,tp:2")["total"],
            self.audit(path("layers"), *MESH)["total"])
        # The same devices in another order: the groups are no axes of it.
        out = self.audit(path("layers"), "--mesh", "x:8")
        self.assertIsNone(out["collectives"][0]["axes"])
        printed = self.check(run("audit", path("layers"), "--mesh", "x:8",
                                 "--profile", "v5e"), 0).out
        self.assertIn("no time is known", printed)

    def test_traffic_that_grew_is_found_and_named(self):
        with tempfile.TemporaryDirectory() as folder:
            base = os.path.join(folder, "base.json")
            self.check(run("audit", path("layers"), *MESH, "--format", "json",
                           "-o", base), 0)
            # Neither the stage nor combined collectives nor lines count.
            for same in (text("layers"), text("layers.after_spmd"),
                         text("layers").replace("line=2", "line=30")):
                out = self.audit("-", *MESH, "--against", base, stdin=same)
                self.assertEqual(out["growth"], [])
            # A gather over another axis, and a loop that runs twice as often.
            other = text("layers").replace(
                "replica_groups={{0,2},{4,6},{1,3},{5,7}}",
                "replica_groups={{0,1},{2,3},{4,5},{6,7}}", 1)
            done = self.check(run("audit", "-", *MESH, "--against", base,
                                  "--format", "json", stdin=other), 1)
            growth = done.json()["growth"]
            self.assertEqual(
                [(one["collective"], one["over"], one["before"], one["what"],
                  one["function"]) for one in growth],
                [("all_gather", "tp", 0, "up", "layer")])
            longer = text("layers").replace('"known_trip_count":{"n":"4"}',
                                            '"known_trip_count":{"n":"8"}')
            printed = self.check(run("audit", "-", *MESH, "--against", base,
                                     stdin=longer), 1).out
            self.assertIn("more than in the earlier audit", printed)
            self.assertRegex(printed, r"all_gather +fsdp +160 KiB +320 KiB")
            # Less is no finding.
            self.assertEqual(self.audit("-", *MESH, "--against", base,
                                        stdin=longer.replace('"8"', '"1"')
                                        )["growth"], [])

    def test_an_earlier_audit_of_another_mesh_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            base = os.path.join(folder, "base.json")
            for before, now, said in (
                    (MESH, [], "the groups of this audit are named by the mesh "
                     "dp=2 fsdp=2 tp=2, and those of the program by no mesh"),
                    ([], MESH, "by no mesh, and those of the program by the "
                     "mesh dp=2 fsdp=2 tp=2"),
                    (MESH, ["--mesh", "dp:2,fsdp:2,model:2"], "model=2"),
                    ([], [], None), (["--mesh", "dp:2,x:1,fsdp:2,tp:2"], MESH,
                                     None)):
                with self.subTest(before=before, now=now):
                    self.check(run("audit", path("layers"), *before,
                                   "--format", "json", "-o", base), 0)
                    if said:
                        self.refused(path("layers"), *now, "--against", base,
                                     said=said)
                    else:
                        self.assertEqual(self.audit(
                            path("layers"), *now, "--against", base)["growth"],
                            [])

    def test_what_is_no_earlier_audit_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            base = os.path.join(folder, "base.json")
            for value, said in [
                    ({"schema": "shardc.cost/v1"}, "no audit"),
                    ({"schema": "shardc.audit/v1"}, "devices"),
                    ({"schema": "shardc.audit/v1", "devices": 8},
                     "collectives"),
                    ({"schema": "shardc.audit/v1", "devices": 4,
                      "collectives": []}, "4 devices"),
                    ({"schema": "shardc.audit/v1", "devices": 8,
                      "collectives": [3]}, "bytes_per_device"),
                    ({"schema": "shardc.audit/v1", "devices": 8,
                      "collectives": 2 * [{
                          "collective": "all_gather", "axes": ["tp"],
                          "group_size": 2, "what": "activation",
                          "shape": "f32[2]",
                          "bytes_per_device": 2 ** 63 - 1}]}, "64 bits")]:
                with self.subTest(said):
                    with open(base, "w", encoding="utf-8") as file:
                        json.dump(value, file)
                    self.refused(path("layers"), *MESH, "--against", base,
                                 said=said)

    def test_a_step_program_is_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            step = os.path.join(folder, "step.json")
            report = {
                "mode": "train", "status": "pass", "batch": 8, "length": 16,
                "mesh": {"axes": [{"name": axis, "size": 2}
                                  for axis in ("dp", "fsdp", "tp")]},
                "element_bytes": 4, "keep_gathered": False, "ops": [
                    {"part": "layer 0-3", "layers": 4, "phase": "forward",
                     "op": "linear up", "result": "[b,t,f]",
                     "collective": "all_gather", "axes": ["fsdp"],
                     "bytes_per_device": 8192}]}

            def write(**edits):
                with open(step, "w", encoding="utf-8") as file:
                    json.dump({"schema": "shardc.step/v1",
                               "steps": [{**report, **edits}]}, file)

            write()
            done = self.check(run("audit", path("layers"), "--step", step,
                                  "--format", "json"), 1).json()
            self.assertEqual(list(self.schema.iter_errors(done)), [])
            self.assertEqual(
                [one["axes"] for one in done["collectives"][:1]],
                [one["axes"] for one in self.audit(
                    path("layers"), *MESH)["collectives"][:1]])
            difference = done["difference"]
            self.assertEqual(difference["missing"], [])
            gathers = [one for one in difference["extra"]
                       if one["collective"] == "all_gather"]
            self.assertEqual(sum(one["times"] for one in gathers), 12)
            self.assertEqual({one["line"]["file"] for one in gathers},
                             {"progs.py"})
            printed = self.check(run("audit", path("layers"), "--step", step),
                                 1).out
            self.assertIn("compiled, not planned", printed)
            self.assertIn("gathered more often than planned", printed)
            # What is planned and not compiled alone is no failure.
            write(ops=[dict(report["ops"][0], op="linear more",
                            bytes_per_device=size, collective=kind, axes=axes)
                       for kind, axes, size in (
                           ("all_to_all", ["tp"], 4),)] + [
                      {"part": "layer 0", "layers": one["times"],
                       "phase": "forward", "op": "x", "result": "[b]",
                       "collective": one["collective"],
                       "axes": one["over"].split("+"),
                       "bytes_per_device": one["bytes_per_device"] //
                       one["times"]} for one in difference["routes"]
                      if one["times"]])
            self.check(run("audit", path("layers"), *MESH, "--step", step), 0)
            write(mode="decode")
            self.refused(path("layers"), "--step", step,
                         said="these steps lack the mode `train`")
            write(mesh={"axes": [{"name": "dp", "size": 8}]}, ops=[])
            self.refused(path("layers"), *MESH, "--step", step,
                         said="the mesh of the step of `--step` is dp=8")

    def test_explain_shows_what_a_program_does_with_a_parameter(self):
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.yaml")
            manifest = os.path.join(folder, "manifest.json")
            with open(manifest, "w", encoding="utf-8") as file:
                json.dump({"schema": "shardc.manifest/v1", "params": {
                    "up": {"shape": [4, 64, 128], "dtype": "F32"},
                    "layers.3.norm": {"shape": [64], "dtype": "F32"}}}, file)
            for spec, said in (("[null, fsdp, tp]", "1 of 1 argument compared "
                                "with the plan"),
                               ("[null, tp, fsdp]", "sharded in another way")):
                with open(rules, "w", encoding="utf-8") as file:
                    file.write("version: 1\nrules:\n  - {match: up, spec: "
                               f"{spec}}}\n  - {{match: norm, spec: []}}\n")
                inputs = [*MESH, "--rules", rules, "--manifest", manifest,
                          "--compiled", path("layers")]
                out = self.check(run("explain", "up", *inputs), 0).out
                self.assertEqual(out.count("all_gather"), 3, out)
                self.assertIn("progs.py:21 layer", out)
                self.assertIn("192 KiB", out)
                self.assertIn(said, out)
            # A layer of a stack; its gradient is reduced.
            out = self.check(run("explain", "layers.3.norm", *inputs), 0).out
            self.assertIn("gradient of norm", out)
            self.assertNotIn("all_gather", out)
            value = self.check(run("explain", "up", *inputs, "--format",
                                   "json"), 0).json()
            self.assertEqual(list(self.schema.iter_errors(value)), [])
            self.assertEqual(value["total"]["bytes_per_device"], 192 * 1024)

    def test_programs_send_what_the_profiler_saw(self):
        """JAX's profiler counted the collectives that a device ran; their bytes
        are those of the shapes in the text (tests/runtimes/audit_executed.py).
        No step without a mistake has a finding."""
        with open(os.path.join(FOLDER, "executed", "EXPECT.json"),
                  encoding="utf-8") as file:
            programs = json.load(file)
        self.assertGreaterEqual(len(programs), 28)
        for one in programs:
            with self.subTest(one["program"]):
                out = self.audit(os.path.join(
                    FOLDER, "executed", one["program"] + ".hlo.txt.gz"), *MESH)
                self.assertEqual((out["total"]["calls"],
                                  out["total"]["bytes_per_device"]),
                                 (one["calls"], one["bytes"]))
                self.assertEqual(
                    sorted({found["code"] for found in out["findings"]}),
                    one["findings"])

    def test_programs_of_tpus_are_read(self):
        """Compiled ahead of time for v5e and v5p by tests/runtimes/audit_tpu.py.
        Explicit collectives are the same as on the CPU."""
        with open(os.path.join(FOLDER, "tpu", "EXPECT.json"),
                  encoding="utf-8") as file:
            programs = json.load(file)
        self.assertGreaterEqual(len(programs), 32)
        for one in programs:
            with self.subTest(one["program"]):
                out = self.audit(os.path.join(
                    FOLDER, "tpu", one["program"] + ".hlo.txt.gz"), *MESH)
                self.assertEqual(
                    (out["total"]["calls"], out["total"]["bytes_per_device"],
                     sorted({found["code"] for found in out["findings"]})),
                    (one["calls"], one["bytes"], one["findings"]))
                self.assertEqual(out["total"]["bound"], "exact")
                self.assertNotIn(None, [each["axes"] for each in
                                        out["collectives"]])
        by_name = {one["program"]: one for one in programs}
        for chip in ("v5e", "v5p"):
            self.assertEqual((by_name[chip + ".ring"]["calls"],
                              by_name[chip + ".ring"]["bytes"]), (5, 160))
            self.assertEqual(by_name[chip + ".many_small"]["bytes"], 96)

    def test_standard_input_is_read(self):
        self.assertEqual(self.audit("-", *MESH, stdin=text("layers")),
                         self.audit(path("layers"), *MESH))

    def test_what_is_no_program_is_refused_with_a_place_and_a_way_out(self):
        layers = text("layers")
        for stdin, said in [
                ("", "no program"),
                ("module @jit_f attributes {} {\n}\n", "StableHLO"),
                ('{"a": 1}', "HloModule"),
                (layers[:len(layers) // 2], "cut off"),
                (layers[:layers.rindex("ENTRY")], "ENTRY"),
                (layers.replace("replica_groups={{", "replica_groups={{77,", 1),
                 "devices of this collective"),
                (layers.replace("all-gather(%", "all-gather(%no", 1),
                 "does not define"),
                (layers + layers[layers.index("\n\n%"):], "twice")]:
            with self.subTest(said):
                self.refused("-", *MESH, stdin=stdin, said=said)

    def test_a_text_cut_anywhere_ends_with_a_status(self):
        layers = text("mistake.gathered_twice")
        for end in range(0, len(layers), 97):
            done = run("audit", "-", *MESH, stdin=layers[:end])
            self.assertIn(done.rc, (0, 2))
            self.assertEqual(done.rc == 2, "error" in done.err)

    def test_names_cannot_control_the_terminal(self):
        done = self.check(run("audit", "-", *MESH, stdin=text("layers").replace(
            "progs.py", "progs\x1b[31m.py")), 0)
        self.assertNotIn("\x1b", done.out)


if __name__ == "__main__":
    unittest.main()
