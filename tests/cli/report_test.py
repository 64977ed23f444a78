"""`shardc report`: what the page holds is what the other commands say, no name
gets out of its text, and the same inputs make the same bytes. What a browser
makes of it is tested by hand (tests/report/browser_test.py)."""

import base64
import hashlib
import html
import json
import os
import re
import shutil
import tempfile
import time
import unittest

import jsonschema
from driver import MODELS, TESTDATA, is_sanitized, run
from reported import HOSTILE, MOST, Page, ReportCase

LLAMA = ["--no-project", "--mesh", "dp:2,fsdp:8,tp:4", "--processes", "8",
         "--rules", "builtin:llama", "--manifest",
         os.path.join(MODELS, "llama-3-8b.hf.manifest.json"), "--model",
         os.path.join(TESTDATA, "configs", "llama-3-8b.config.json"),
         "--batch", "64", "--seq", "8192", "--kv-len", "8192", "--remat",
         "nothing_saveable"]
DEEPSEEK = ["--no-project", "--mesh", "dp:4,fsdp:8,ep:64", "--rules", "auto",
            "--manifest",
            os.path.join(TESTDATA, "corpus", "manifests",
                         "deepseek-v3.hf.manifest.json.gz")]


class Report(ReportCase):
    def test_the_policy_lets_in_what_is_there_and_nothing_else(self):
        text = self.report(*LLAMA)
        policy = re.search(r'Content-Security-Policy content="([^"]*)"',
                           text)[1]
        for tag, key in (("style", "style-src"), ("script", "script-src")):
            inside = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.S)
            self.assertEqual(len(inside), 1)
            digest = base64.b64encode(
                hashlib.sha256(inside[0].encode()).digest()).decode()
            self.assertIn(f"{key} 'sha256-{digest}'", policy)
        self.assertTrue(policy.startswith("default-src 'none';"))
        self.assertNotIn("unsafe", policy)
        self.assertLess(text.index("Content-Security-Policy"),
                        text.index("<style>"))
        self.assertEqual(re.findall(r"https?://", text), [])

    def test_sections_stand_in_a_reviewers_order(self):
        page = self.page(*LLAMA, "--memory", "80GiB")
        heads = [values["id"] for tag, values in page.tags
                 if tag == "section"]
        self.assertEqual(heads, ["findings", "unknown", "memory",
                                 "communication", "parameters", "layouts",
                                 "rules", "attention", "mesh", "assumptions"])
        self.assertIn("SHD411", page.texts["findings"])
        self.assertIn("Replicated on every device", page.texts["layouts"])
        self.assertIn("matches nothing", page.texts["rules"])

    def test_memory_that_does_not_suffice_is_first(self):
        page = self.page(*LLAMA, "--memory", "1GiB", rc=1)
        heads = [values["id"] for tag, values in page.tags
                 if tag == "section"]
        self.assertEqual(heads[:2], ["memory", "findings"])

    def test_memory_has_one_figure(self):
        """The verdict, the bar and the table; `cost` has it in bytes."""
        more = ["--memory", "1GiB", "--optimizer", "adamw"]
        page = self.page(*LLAMA, *more, rc=1)
        cost = json.loads(run("cost", *LLAMA, *more, "--format", "json").out)
        expected = cost["memory"]["peak"]["expected"]
        self.assertGreater(expected, cost["memory"]["total"])
        shown = f"{expected / 2 ** 30:.4g}\u00a0GiB"
        self.assertGreaterEqual(page.texts["memory"].count(shown), 2)
        self.assertIn("allocator’s reserve", page.texts["memory"])
        tensors = f"{cost['memory']['total'] / 2 ** 30:.4g}\u00a0GiB"
        self.assertIn("tensors" + tensors, page.texts["memory"])
        self.assertEqual(page.texts["memory"].count(tensors), 1)

    def test_the_json_has_the_figures_of_the_page(self):
        value = json.loads(self.report(*LLAMA, "--format", "json"))
        cost = json.loads(run("cost", *LLAMA, "--format", "json").out)
        [train] = [one for one in value["costs"] if one["mode"] == "train"]
        self.assertEqual({"schema": cost["schema"], **train}, cost)
        self.assertEqual({one["code"] for one in value["findings"]} & {"SHD411"},
                         {"SHD411"})
        self.assertIsNone(value["base"])
        check = jsonschema.Draft7Validator(json.loads(
            run("schema", "report").out))
        self.assertEqual(list(check.iter_errors(value)), [])

    def test_its_figures_are_those_of_the_commands(self):
        text = Page(self.report(*LLAMA)).texts
        cost = json.loads(run("cost", *LLAMA, "--format", "json").out)
        sent = [one["bytes_per_device"] for one in cost["communication"]]
        self.assertEqual(len(re.findall(r"_(?:gather|reduce|scatter|to_all)",
                                        text["communication"].split(
                                            "Total")[0])), len(sent))
        plan = json.loads(run("plan", *LLAMA[:-10]).out)
        held = plan["summary"]["bytes_per_device"] / 2 ** 20
        self.assertIn(f"{held:.1f}\u00a0MiB", text["memory"])
        self.assertIn("291 parameters in 12 groups with equal specs",
                      text["parameters"])

    def test_findings_are_about_the_step_that_is_shown(self):
        for length in ("8192", "2048"):
            arguments = [length if one == "8192" else one for one in LLAMA]
            text = " ".join(Page(self.report(*arguments)).texts["findings"]
                            .replace("\u00a0", " ").split())
            said = set(re.findall(r"a step of ([0-9,]+ rows of [0-9,]+ "
                                  r"tokens)", text))
            self.assertEqual(said, {f"64 rows of {int(length):,} tokens"})

    def test_a_base_plan_and_findings_are_shown(self):
        with tempfile.TemporaryDirectory() as folder:
            base = os.path.join(folder, "base.plan.json")
            rules = os.path.join(folder, "r.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nextends: [builtin:llama]\nrules:\n"
                           "  - {match: 'lm_head', spec: [TP, null]}\n"
                           "  - {match: 'gone', spec: [TP]}\n"
                           "  - {match: 'mlp/gate_proj', spec: [null]}\n"
                           "  - {match: 'gone_too', spec: [TP]}\n")
            run("plan", *LLAMA[:-10], "-q", "-o", base)
            now = [rules if one == "builtin:llama" else one for one in LLAMA]
            text = self.report(*now, "--base", base)
            page = Page(text)
            self.assertIn("lm_head.weight", page.texts["changes"])
            self.assertIn("all_gather", page.texts["changes"])
            # In the order of levels, then of lines.
            self.assertEqual(re.findall(r"SHD\d+ [a-z-]+?r\.yaml:(\d+)",
                                        page.texts["findings"]),
                             ["5", "6", "6", "7", "4"])
            # No folder that it was made in.
            self.assertNotIn(folder, text)
            same = Page(self.report("--plan", base, "--base", base))
            self.assertIn("Nothing changes", same.texts["changes"])

    def test_the_time_of_a_step_is_drawn_in_its_parts(self):
        """The parts are those of `cost`, and each begins where the one above
        ends."""
        inputs = [*LLAMA, "--profile", "h100-sxm"]
        out = self.report(*inputs)
        parts = [one for one in json.loads(
            run("cost", *inputs, "--format", "json").out)["time"]["parts"]
            if one["seconds"] > 0]
        section = out[out.index("<section id=time"):]
        section = section[:section.index("</section>")]
        train = section[:section.index("<h3>prefill")]
        names = re.findall(r"<div><span>([^<]*)</span>", train)
        self.assertEqual(names, [one["name"].replace("_", " ")
                                 for one in parts])
        bars = re.findall(r'class=bar y=4 height=12 x="([\d.]+)%" '
                          r'width="([\d.]+)%"', train)
        total = sum(one["seconds"] for one in parts)
        begin = 0
        for (x, _), one in zip(bars, parts, strict=True):
            self.assertAlmostEqual(float(x), 100 * begin / total, places=1)
            begin += one["seconds"]
        self.assertIn("bound by", Page(out).texts["time"])
        # Without a profile there is no time, and no such section.
        self.assertNotIn("time", Page(self.report(*LLAMA)).texts)

    def test_where_the_bytes_go_adds_up(self):
        """One row for each set of axes; device 0's group is filled."""
        out = self.report(*LLAMA)
        cost = json.loads(run("cost", *LLAMA, "--format", "json").out)
        sent = {}
        for one in cost["communication"]:
            axes = tuple(sorted(one["axes"]))
            sent[axes] = sent.get(axes, 0) + one["bytes_per_device"]
        section = out[out.index("<h3>Where the bytes go"):]
        section = section[:section.index("<table")]
        rows = section.split("<div><span>")[1:]
        found = [tuple(re.findall(r'class="x a\d">(\w+)<', row))
                 for row in rows]
        self.assertEqual(found, sorted(sent, key=sent.get, reverse=True))
        sizes = {"dp": 2, "fsdp": 8, "tp": 4}
        for axes, row in zip(found, rows):
            group = 1
            for axis in axes:
                group *= sizes[axis]
            self.assertEqual(row.count('class="bar part"'), group)
            self.assertIn(f"{group} devices", row)

    def test_what_was_assumed_is_shown(self):
        text = Page(self.report(*LLAMA, "--profile", "h100-sxm",
                                "--memory", "80GiB")).texts["assumptions"]
        for words in ("batch64", "sequence length8,192", "nothing_saveable",
                      "h100-sxm", "80 GiB", "Assumed in train",
                      "first moments"):
            self.assertIn(words, text)
        bare = Page(self.report(*LLAMA[:7], *LLAMA[7:9])).texts["assumptions"]
        self.assertIn("batch–", bare)

    def test_another_rule_and_another_stage_are_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            def path(name, text):
                full = os.path.join(folder, name)
                with open(full, "w", encoding="utf-8") as file:
                    file.write(text)
                return full

            names = [f"layers.{i % 3}.{chr(97 + i // 26)}{chr(97 + i % 26)}"
                     for i in range(45)]
            tree = path("m.json", json.dumps(
                {name: {"shape": [8, 8], "dtype": "BF16"} for name in names}))

            def rules(name, matches, stages):
                return ["--no-project", "--mesh", "pp:2,fsdp:2", "--manifest",
                        tree, "--rules", path(name, json.dumps({
                            "version": 1, "separator": ".",
                            "stages": {"axis": "pp", "assign": stages},
                            "rules": [{"match": one, "spec": ["fsdp"]}
                                      for one in matches]}))]

            base = os.path.join(folder, "base.plan.json")
            self.check(run("plan", *rules("before.yaml", [".*"], [2, 1]), "-q",
                           "-o", base), 0)
            text = Page(self.report(
                *rules("after.yaml", [rf"\.{one[-2:]}$" for one in names],
                       [1, 2]), "--base", base)).texts["changes"]
        self.assertIn("45 under another rule, 1 layer in another stage.", text)
        self.assertIn("layer 1stage 0 on rank 0stage 1 on rank 1", text)
        self.assertIn(r"layers.0.aa.*\.aa$", text)
        self.assertEqual(text.count("~ under another rule"), 39)
        self.assertIn("and 6 more: shardc diff has them all", text)

    def test_another_mesh_shows_what_it_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            base = os.path.join(folder, "base.plan.json")
            before = ["dp:4,fsdp:4,tp:4" if one.startswith("dp:") else one
                      for one in LLAMA[:-10]]
            self.check(run("plan", *before, "-q", "-o", base), 0)
            text = Page(self.report(*LLAMA, "--base", base)).texts["changes"]
        self.assertIn("The mesh changes", text)
        self.assertIn("dp42↓ fewer parts", text)
        self.assertIn("fsdp48↑ more parts", text)
        self.assertIn("tp44unchanged", text)
        self.assertIn("devices6464", text)
        self.assertIn("226 parameters keep their specs, but their shards "
                      "change", text)

    def test_a_parameter_with_two_changes_is_counted_once(self):
        with tempfile.TemporaryDirectory() as folder:
            def path(name, text=""):
                out = os.path.join(folder, name)
                if text:
                    with open(out, "w", encoding="utf-8") as file:
                        file.write(text)
                return out

            rules = path("r.yaml", "version: 1\nrules:\n  - {match: w, spec: "
                         "[tp, null], modes: {decode: [dp, null]}}\n")
            manifest = path("m.json", json.dumps({
                "schema": "shardc.manifest/v1", "params": {
                    f"w{i}": {"shape": [8, 8], "dtype": "F32"}
                    for i in range(3)}}))
            for name, mesh in (("a.json", "dp:2,tp:4"),
                               ("b.json", "dp:4,tp:2")):
                self.check(run("plan", "--no-project", "-q", "--mesh", mesh,
                               "--rules", rules, "--manifest", manifest, "-o",
                               path(name)), 0)
            text = Page(self.report("--plan", path("b.json"), "--base",
                                    path("a.json"))).texts["changes"]
        self.assertIn("3 parameters keep their specs, but their shards", text)

    def test_placed_parameters_count_on_the_devices_that_hold_them(self):
        place = ", place: {axis: ep, index: 'experts\\.(\\d+)', count: 8}"
        with tempfile.TemporaryDirectory() as folder:
            def plan(name, spec, more=place):
                rules = os.path.join(folder, name + ".yaml")
                with open(rules, "w", encoding="utf-8") as file:
                    file.write("version: 1\nseparator: '.'\nrules:\n"
                               f"  - {{match: 'up$', spec: {spec}{more}}}\n")
                out = os.path.join(folder, name + ".json")
                self.check(run("plan", "--no-project", "-q", "--mesh",
                               "ep:4,tp:2", "--rules", rules, "--manifest",
                               manifest, "-o", out), 0)
                return out

            manifest = os.path.join(folder, "m.json")
            with open(manifest, "w", encoding="utf-8") as file:
                json.dump({"schema": "shardc.manifest/v1", "params": {
                    f"experts.{i}.up": {"shape": [64, 32], "dtype": "F32"}
                    for i in range(8)}}, file)
            base = plan("base", "[tp, null]")
            # A device holds two of the eight, of 4 KiB before.
            for now, texts in (
                    (plan("wide", "[null, null]"),
                     ["+8\u00a0KiB", "4\u00a0KiB \u2192 8\u00a0KiB"]),
                    (plan("everywhere", "[tp, null]", ""),
                     ["+24\u00a0KiB", "4\u00a0KiB \u2192 4\u00a0KiB",
                      "placed along ep -> on all devices"])):
                text = Page(self.report("--plan", now, "--base", base)
                            ).texts["changes"]
                for one in texts:
                    self.assertIn(one, text)
                self.assertEqual(text.count(texts[0]), 2)

    def test_a_change_of_the_query_length_names_that_dimension(self):
        with tempfile.TemporaryDirectory() as folder:
            def plan(name, axes):
                rules = os.path.join(folder, name + ".yaml")
                with open(rules, "w", encoding="utf-8") as file:
                    file.write("version: 1\nextends: [builtin:llama]\n"
                               f"axes: {{query_sequence: {axes}}}\n")
                out = os.path.join(folder, name + ".json")
                self.check(run("plan", "--no-project", "-q", "--mesh",
                               "fsdp:2,sp:2", "--rules", rules, "--manifest",
                               LLAMA[LLAMA.index("--manifest") + 1],
                               "-o", out), 0)
                return out

            text = Page(self.report("--plan", plan("now", "sp"), "--base",
                                    plan("base", "[]"))).texts["changes"]
        # Dimension 1 of query and output, and dimension 2 of bias and mask.
        self.assertIn("attention: length of query, bias, mask, output", text)
        self.assertNotIn("heads of", text)

    def test_other_changes_than_of_specs_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            plans = [os.path.join(folder, f"{n}.json") for n in (1, 2)]
            for count, plan in enumerate(plans, 1):
                self.check(run("plan", *LLAMA[:3], *LLAMA[5:9], "-q",
                               "--processes", str(count), "-o", plan), 0)
            text = self.report("--plan", plans[1], "--base", plans[0])
        self.assertNotIn("0 changes of specs", text)
        self.assertIn("no change of a parameter’s spec, but others", text)

    def test_unknown_sizes_are_no_change_of_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            manifest = os.path.join(folder, "m.json")
            with open(manifest, "w", encoding="utf-8") as file:
                json.dump({"schema": "shardc.manifest/v1", "params": {
                    "w": {"shape": None, "dtype": None}}}, file)
            plans = []
            for name, spec in (("a", "[tp]"), ("b", "[null]")):
                plans.append(os.path.join(folder, name + ".json"))
                rules = os.path.join(folder, name + ".yaml")
                with open(rules, "w", encoding="utf-8") as file:
                    file.write("version: 1\nrules:\n  - {match: w, spec: "
                               f"{spec}}}  # shardc: ignore[SHD207] a base\n")
                self.check(run("plan", "--no-project", "-q", "--mesh", "tp:2",
                               "--rules", rules, "--manifest", manifest, "-o",
                               plans[-1]), 0)
            text = self.report("--plan", plans[1], "--base", plans[0])
        self.assertIn("1 change of specs</dd>", text)

    def test_one_thing_is_singular(self):
        text = Page(self.report(
            "--no-project", "--mesh", "fsdp:1", *LLAMA[5:])).texts
        self.assertIn("1 device.", text["mesh"])
        self.assertIn("The device holds all parameters", text["memory"])
        with tempfile.TemporaryDirectory() as folder:
            inputs = self.hostile(folder, ["w"],
                                  "  - {match: 'gone', spec: []}\n"
                                  "  - {match: '.*', spec: [tp, null]}\n")
            text = Page(self.report(*inputs, rc=1)).texts
        self.assertIn("1 rule matches nothing", text["rules"])
        self.assertIn("1 parameter in 1 group with", text["parameters"])

    def verified(self, folder, name, *args):
        path = os.path.join(folder, name)
        done = run("verify", *args, "--format", "json")
        self.check(done, 0)
        with open(path, "w", encoding="utf-8") as file:
            file.write(done.out)
        return path, json.loads(done.out)

    def test_what_was_verified_is_shown(self):
        with tempfile.TemporaryDirectory() as folder:
            inputs = LLAMA[:-8]
            attention = inputs[:7] + inputs[9:]  # without the manifest
            cases, said = self.verified(
                folder, "v.json", *attention, "--operation", "ring,flash_decoding",
                "--mode", "train,decode", "--layout", "bthd", "--dtype",
                "float32", "--features", "none")
            step, steps = self.verified(folder, "s.json", "step", *inputs)
            page = self.page(*LLAMA, "--verified", cases, "--verified", step)
            text = page.texts["verified"]
            for status, count in said["summary"].items():
                self.assertIn(f"{count} {status}", text)
            self.assertIn("flash_decoding", text)
            sent = [op for op in steps["steps"][0]["ops"]
                    if op["collective"]]
            self.assertGreater(len(sent), 20)
            for op in sent[:40]:
                self.assertIn(op["op"], text)
            self.assertIn("every result equals the dense model's", text)

            # A failure is shown, and its message stays text.
            said["cases"][0].update(status="fail", reason=HOSTILE[0])
            with open(cases, "w", encoding="utf-8") as file:
                json.dump(said, file)
            html_ = self.report(*LLAMA, "--verified", cases, rc=1)
            self.assertNotIn("alert(1)</script>", html_)
            self.assertEqual(Page(html_).wrong, [])

    def test_what_verified_something_else_makes_no_page(self):
        with tempfile.TemporaryDirectory() as folder:
            path, out = (os.path.join(folder, name)
                         for name in ("v.json", "r.html"))
            case = {"operation": "ring", "mode": "train", "status": "pass",
                    "reason": None, "max_abs_error": 0, "tolerance": 1,
                    "mesh": {"axes": [{"name": "tp", "size": 2}],
                             "devices": 2}}
            op = {"part": "model", "layers": 2 ** 62, "phase": "forward",
                  "op": "add", "specs": "", "collective": "all_reduce",
                  "axes": ["tp"], "bytes_per_device": 4}
            here = {"axes": [{"name": "dp", "size": 2},
                             {"name": "fsdp", "size": 8},
                             {"name": "tp", "size": 4}], "devices": 64}
            step = {"mode": "train", "status": "pass", "reason": None,
                    "batch": 1, "length": 1, "mesh": here, "ops": [op]}
            for text, words in (
                    ("", "end of input"), ("[]", "not a report"), ("{}", "not a report"),
                    ({"schema": "shardc.verify/v1", "faults": []},
                     "not a report"),
                    ({"schema": "shardc.verify/v1", "cases": [case]},
                     "tp=2, the plan's mesh is dp=2 fsdp=8 tp=4"),
                    ({"schema": "shardc.verify/v1", "cases": [
                        {**case, "status": "FAIL"}]},
                     "`status` is `FAIL`, not `pass`, `fail` or `unsupported`"),
                    ({"schema": "shardc.step/v1", "steps": [
                        {**step, "status": "failed"}]},
                     "`status` is `failed`, not `pass`"),
                    ({"schema": "shardc.verify/v1", "cases": [3]},
                     "not an object"),
                    ({"schema": "shardc.verify/v1",
                      "cases": [dict(case, operation=7)]}, "wrong type"),
                    ({"schema": "shardc.verify/v1",
                      "cases": [dict(case, tolerance="x")]}, "not a number"),
                    ({"schema": "shardc.step/v1", "steps": [step]},
                     "does not fit in 64 bits"),
                    ({"schema": "shardc.step/v1",
                      "steps": [dict(step, ops=[dict(op, layers=-1)])]},
                     "not a count"),
                    ({"schema": "shardc.step/v1",
                      "steps": [dict(step, ops=[dict(op, layers=1,
                                                axes=[1])])]},
                     "not a name")):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text if isinstance(text, str)
                               else json.dumps(text))
                done = run("report", *LLAMA, "--verified", path, "-o", out)
                self.check(done, 2)
                self.assertIn("v.json", done.err)
                self.assertIn(words, done.err)
                self.assertFalse(os.path.exists(out))

    def test_a_device_that_is_too_small_is_shown_and_exits_with_1(self):
        text = self.report(*LLAMA, "--memory", "1GiB", rc=1)
        self.assertIn("✕ Fails", text)
        self.assertIn("a device is too small", text)
        self.assertIn(": does not fit", text)

    def cells(self, text):
        """The names, figures and sentences of the page's first row."""
        row = re.search(r"<dl class=strip>(.*?)</dl>", text, re.S)[1]
        out = []
        for cell in re.findall(r"<dt>(.*?)(?=<dt>|$)", row, re.S):
            parts = re.split(r"</dt>|</dd>", cell)
            out.append([re.sub(r"<[^>]*>", "", html.unescape(part)).strip()
                        for part in parts[:3]])
        return out

    def test_the_first_row_has_the_four_answers(self):
        inputs = [*LLAMA, "--profile", "h100-sxm"]
        cost = json.loads(run("cost", *inputs, "--format", "json").out)
        text = self.report(*inputs)
        row = self.cells(text)
        self.assertEqual([one[0] for one in row],
                         ["Verdict", "Memory of a device", "Time of a step",
                          "Not known"])
        self.assertEqual(row[0][1], "✓ Passes")
        needs = cost["memory"]["peak"]["expected"] / 2 ** 30
        self.assertEqual(row[1][1], f"✓ {needs:.2f}\u00a0GiB")
        self.assertIn("of 79.65\u00a0GiB", row[1][2])
        self.assertEqual(row[2][1], f"{cost['time']['expected']['seconds']:.2f} s"
                         if "expected" in cost["time"] else row[2][1])
        self.assertEqual(row[3][1], "✓ nothing")
        # It stands before all else.
        self.assertLess(text.index("<dl class=strip>"), text.index("<nav"))

    def test_what_is_not_known_is_listed_with_what_settles_it(self):
        some = LLAMA[:-8]  # neither a batch nor lengths
        text = self.report(*some)
        row = self.cells(text)
        cost = run("cost", *some)
        self.assertIn("not known", cost.out)
        self.assertRegex(row[3][1], r"^▲ \d+ facts?$")
        count = int(re.search(r"\d+", row[3][1])[0])
        section = text[text.index("<section id=unknown"):]
        section = section[:section.index("</section>")]
        self.assertEqual(section.count("<li>"), count)
        self.assertIn("--batch", section)
        self.assertIn("--memory", section)
        self.assertEqual(row[1][1][:1], "≥")
        self.assertEqual(row[2][1], "–")

    def test_memory_of_one_mode_does_not_stand_for_that_of_another(self):
        """What fits in one mode is no good news while another is not known."""
        row = self.cells(self.report(
            *DEEPSEEK, "--model",
            os.path.join(TESTDATA, "configs", "deepseek-v3.config.json"),
            "--batch", "512", "--seq", "4096", "--profile", "h100-sxm"))
        self.assertIn("fits, in prefill; not known in train", row[1][2])
        self.assertNotIn("✓", row[1][1])
        self.assertIn("not known in train: the weights that are trained",
                      row[2][2])

    def test_all_but_what_needs_a_reader_is_folded(self):
        open_ones = {"findings", "changes", "unknown", "memory"}
        for more in ([], ["--memory", "1GiB"], ["--profile", "h100-sxm"]):
            text = self.report(*LLAMA, *more, rc=1 if "1GiB" in more else 0)
            sections = re.findall(
                r"<section id=([a-z]+)( class=fold)? [^>]*>(<details>)?", text)
            self.assertGreater(len(sections), 8)
            for name, fold, details in sections:
                self.assertEqual(bool(fold), name not in open_ones, name)
                self.assertEqual(bool(details), bool(fold), name)
            # The heading of a folded section states what the section has.
            for summary in re.findall(r"<summary><h2.*?</h2> (.*?)</summary>",
                                      text, re.S):
                self.assertRegex(re.sub(r"<[^>]*>", "", summary), r"\w")
            # Paper shows what is folded: by the script, and without it.
            self.assertIn("beforeprint", text)
            self.assertRegex(text, r"(?s)@media print\{.*::details-content\{[^}]*"
                             r"content-visibility:visible")

    def test_many_findings_do_not_push_the_rest_away(self):
        """Six are open; the others are one click away."""
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "r.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nextends: [builtin:llama]\nrules:\n"
                           + "".join(f"  - {{match: 'gone_{i}', spec: [TP]}}\n"
                                     for i in range(20)))
            now = [rules if one == "builtin:llama" else one for one in LLAMA]
            text = self.report(*now)
        section = text[text.index("<section id=findings"):]
        section = section[:section.index("</section>")]
        opened, _, folded = section.partition("<details>")
        self.assertEqual(opened.count('<div class="finding'), 6)
        self.assertIn("14 more findings", folded)
        self.assertEqual(section.count("is-wa"), 20)

    def test_the_verdict_is_that_of_check(self):
        """Of targets with a budget, with `fail-on`, and with a baseline."""
        cases = {
            "fits": ("", "{}", 0),
            "over the budget": ("", "{memory: 60GiB}", 1),
            "in the budget": ("", "{memory: 70GiB}", 0),
            "sends more": ("", "{sent: 1MiB}", 1),
            "warnings fail": ("lint: {fail_on: note}\n", "{}", 1),
        }
        with tempfile.TemporaryDirectory() as folder:
            config = "config.json"
            shutil.copy(os.path.join(TESTDATA, "configs",
                                     "llama-3-8b.config.json"),
                        os.path.join(folder, config))
            for name, (lint, budget, rc) in cases.items():
                with self.subTest(name):
                    with open(os.path.join(folder, "shardc.yaml"), "w",
                              encoding="utf-8") as file:
                        file.write(
                            f"version: 1\n{lint}targets:\n  t: {{mesh: "
                            f"'fsdp:4,tp:2', rules: ['builtin:llama'], model: "
                            f"'{config}', batch: 8, seq: 8192, memory: 80GiB, "
                            f"modes: [train], budget: {budget}}}\n")
                    check = run("check", "--notes", cwd=folder)
                    self.assertEqual(check.rc, rc, check)
                    done = run("report", cwd=folder)
                    self.assertEqual(done.rc, rc, done.err)
                    page = self.cells(done.out)
                    self.assertEqual(page[0][1],
                                     "✕ Fails" if rc else "✓ Passes")
                    found = set(re.findall(r"\[(SHD\d+)", check.out + check.err))
                    self.assertEqual(found, set(re.findall(
                        r"(?:error|warning|note) (SHD\d+)", done.out)))
                    value = json.loads(run("report", "--format", "json",
                                           cwd=folder).out)
                    self.assertEqual(bool(value["failures"]), bool(rc))
            self.write_budget(folder, config)
            done = run("report", cwd=folder)
            self.assertIn("over the budget of 60\u00a0GiB",
                          self.cells(done.out)[1][2])
            # An option replaces the key of the target in both.
            self.assertEqual(run("report", "--batch", "4", cwd=folder).rc, 0)

    def write_budget(self, folder, config):
        with open(os.path.join(folder, "shardc.yaml"), "w",
                  encoding="utf-8") as file:
            file.write("version: 1\ntargets:\n  t: {mesh: 'fsdp:4,tp:2', rules: "
                       f"['builtin:llama'], model: '{config}', batch: 8, seq: "
                       "8192, memory: 80GiB, modes: [train], budget: "
                       "{memory: 60GiB}}\n")

    def test_what_makes_no_plan_makes_no_page(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "r.html")
            self.check(run("report", *LLAMA, "--mesh", "tp:3", "-o", out), 2)
            wrong = ["tp:3" if one.startswith("dp:") else one for one in LLAMA
                     if one not in ("--processes", "8")]
            self.check(run("report", *wrong, "-o", out), 1)
            self.assertFalse(os.path.exists(out))

    def hostile(self, folder, names, rules):
        manifest = os.path.join(folder, "m.json")
        with open(manifest, "w", encoding="utf-8") as file:
            json.dump({"schema": "shardc.manifest/v1", "separator": ".",
                       "params": [{"name": name, "shape": [8, 8],
                                   "dtype": "F32"} for name in names]}, file)
        path = os.path.join(folder, "r.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("version: 1\nseparator: '.'\nrules:\n" + rules)
        return ["--no-project", "--mesh", "tp:2", "--rules", path,
                "--manifest", manifest]

    def test_hostile_names_stay_text(self):
        with tempfile.TemporaryDirectory() as folder:
            inputs = self.hostile(
                folder, HOSTILE,
                "  - {match: '<script>\"', spec: [null, tp]}\n"
                "  - {match: '.*', spec: [tp, null]}\n")
            # The rules are poor, which `check` reports.
            text = self.report(*inputs, rc=1)
            page = self.page(*inputs, rc=1)
        rows = page.texts["rows"]
        for name in HOSTILE:
            if name.isascii() and len(name) < 400 and "{" not in name:
                self.assertIn(name, rows)
        self.assertIn("\\{0", rows)
        self.assertIn("(10,000 bytes)", rows)
        self.assertIn("\\u202e", rows)
        for mark in "\u202e\u200b\u2028\x1b":
            self.assertNotIn(mark, text)
        self.assertEqual(text.count("<script"), 1)

    def test_names_that_cannot_be_folded_stay_under_the_ceiling(self):
        with tempfile.TemporaryDirectory() as folder:
            names = [f"{'<&' * 200}x{i}y.w" for i in range(3000)]
            inputs = self.hostile(folder, names,
                                  "  - {match: '.*', spec: [tp, null]}\n")
            text = self.report(*inputs)
        self.assertLess(len(text.encode()), MOST)
        self.assertRegex(text, r"and [\d,]+ more groups, [\d,]+ parameters")

    def test_91991_parameters_are_a_small_page_at_once(self):
        begin = time.monotonic()
        text = self.report(*DEEPSEEK)
        took = time.monotonic() - begin
        self.assertLess(len(text.encode()), 300_000)
        self.assertIn("91,991 parameters", text)
        if not is_sanitized():
            self.assertLess(took, 20)  # on a machine that does more than this

    def test_the_same_inputs_make_the_same_bytes(self):
        first = self.report(*LLAMA)
        with tempfile.TemporaryDirectory() as folder:
            plan = os.path.join(folder, "p.json")
            for arguments in (["--threads", "1"], ["--threads", "7"]):
                for env in ({"LC_ALL": "de_DE.UTF-8", "TZ": "Asia/Tokyo"},
                            {"LC_ALL": "C"}):
                    again = self.report(*LLAMA, *arguments, env=env)
                    self.assertEqual(again, first)
            run("plan", *LLAMA[:-10], "-q", "-o", plan)
            here = self.report("--plan", plan)
            self.assertEqual(self.report("--plan", "p.json", cwd=folder), here)


if __name__ == "__main__":
    unittest.main()
