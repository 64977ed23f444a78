"""`shardc verify` of the targets of a project, and of projections."""

import json
import os
import tempfile
import unittest

from driver import Case, run
from verify_case import MESH, SMALL, rules, sizes


class Targets(Case):
    """The verification settings of a project's target."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def verify(self, target, *args, rules="", attention=SMALL, rc=0):
        def write(name, text):
            with open(os.path.join(self.folder.name, name), "w") as file:
                file.write(text)
        write("rules.yaml", "version: 1\n" + rules)
        write("shardc.yaml", "version: 1\ntargets:\n  t:\n"
              f"    mesh: {MESH}\n    rules: [rules.yaml]\n" +
              "".join(f"    {line}\n" for line in target))
        return self.check(
            run("verify", *sizes(attention), *args, cwd=self.folder.name), rc)

    def cases(self, *args, **kwargs):
        return self.verify(*args[:1], "--format", "json", *args[1:],
                           **kwargs).json()["cases"]

    def test_operations_by_mode_are_run_in_their_modes(self):
        cases = self.cases(
            ["operations: {train: [ring, sdpa], decode: flash_decoding}",
             "modes: [train, prefill]", "layout: bthd", "dtype: float32"])
        self.assertEqual(
            sorted({(c["operation"], c["mode"]) for c in cases}),
            [("flash_decoding", "decode"), ("ring", "train"),
             ("sdpa", "train")])
        self.assertEqual({c["status"] for c in cases}, {"pass"})

    def test_a_list_must_run_in_all_modes(self):
        ring = self.verify(["operations: [ring]", "layout: bthd",
                            "dtype: float32"], rc=1)
        self.assertIn("unsupported: ring decode: ", ring.out)
        self.verify(["operations: [ring]", "modes: [train, prefill]",
                     "layout: bthd", "dtype: float32"])

    def test_flags_win(self):
        target = ["operations: {train: [ring], decode: [flash_decoding]}",
                  "layout: [bthd, bhtd]", "dtype: float32"]
        cases = self.cases(target, "--operation", "ring")
        self.assertEqual({c["mode"] for c in cases}, {"train"})
        cases = self.cases(target, "--mode", "decode", "--layout", "bhtd")
        self.assertEqual({c["operation"] for c in cases}, {"flash_decoding"})
        self.assertEqual({c["layout"] for c in cases if "cache" not in c},
                         {"bhtd"})
        cases = self.cases(target, "--operation", "sdpa", "--mode", "prefill")
        self.assertEqual({c["operation"] for c in cases}, {"sdpa"})
        said = self.verify(target, "--mode", "prefill", rc=2)
        self.assertIn("the target lists no operation for `prefill`", said.err)

    def test_layout_dtypes_and_settings_are_the_targets(self):
        target = ["operations: {decode: [flash_decoding]}", "layout: bhtd",
                  "dtype: [float16]", "kv_dtype: int8"]
        cases = self.cases(target + [
            "settings: {defaults: {soft_cap: 20},"
            " operations: {flash_decoding: {merge: all_gather}}}"])
        plain = [c for c in cases if c["features"] != ["long"]
                 and "long" not in c["features"]]
        self.assertEqual({c["dtype"] for c in plain}, {"F16"})
        self.assertIn("I8", {c["kv_dtype"] for c in plain})
        self.assertEqual({c["layout"] for c in plain if "cache" not in c},
                         {"bhtd"})
        for case in plain:
            self.assertEqual(case["settings"]["soft_cap"], 20)
            self.assertEqual(case["settings"]["merge"], "all_gather")
        with open(os.path.join(self.folder.name, "s.yaml"), "w") as file:
            file.write("defaults: {soft_cap: 30}\n")
        cases = self.cases(target + ["settings: s.yaml"])
        self.assertEqual({c["settings"]["soft_cap"] for c in cases}, {30})
        cases = self.cases(target + ["settings: s.yaml"], "--soft-cap", "40")
        self.assertEqual({c["settings"]["soft_cap"] for c in cases}, {40})

    def test_mistakes_are_pointed_at(self):
        for line, place, text in (
                ("operations: {train: [rign]}", "6:26",
                 "no operation is called `rign`"),
                ("operations: {trian: [ring]}", "6:18",
                 "a mode is the string `trian`"),
                ("layout: [bthd, tbhd]", "6:20",
                 "a layout is the string `tbhd`"),
                ("dtype: int8", "6:12", "a dtype is the string `int8`"),
                ("kv_dtype: int4", "6:15",
                 "`kv_dtype` is the string `int4`"),
                ("settings: {operations: {ring: {page_size: 4}}}", "6:36",
                 "`page_size` has no meaning for `ring`")):
            said = self.verify([line], rc=2)
            self.assertIn(f"shardc.yaml:{place}\n", said.err, line)
            self.assertIn(text, said.err)

    def test_the_first_refusal_names_all_that_must_change(self):
        target = ["operations: {decode: [ring, ulysses]}", "layout: bthd",
                  "dtype: float32"]
        said = self.verify(target, rc=1)
        both = "decode_query_sequence: [] and decode_key_sequence: []"
        self.assertEqual(said.out.count(both), 2)
        self.verify(target, rules="axes: {decode_query_sequence: [], "
                    "decode_key_sequence: []}\n")
        target[0] = "operations: {train: [unified_attention]}"
        said = self.verify(target, rc=1)
        self.assertIn("query_sequence: []", said.out)
        self.assertIn("key_sequence: []", said.out)
        self.assertIn("the query's length is split over `sp`; the length of "
                      "key and value is split over `sp`", said.out)
        self.verify(target,
                    rules="axes: {query_sequence: [], key_sequence: []}\n")
        # Heads of both that do not divide.
        said = self.verify(["operations: {train: [sdpa]}", "layout: bthd"],
                           attention="heads=3,kv_heads=3,head_dim=8", rc=1)
        self.assertIn("query: dimension 2", said.out)
        self.assertIn("; key: dimension 2", said.out)

    def test_nothing_that_could_run_is_no_success(self):
        for rc, heads in ((1, 3), (0, 4)):
            said = self.check(
                run("verify", "--no-project", "--mesh", "tp:4", "--layout",
                    "bthd", "--dtype", "float32", "--mode", "train",
                    "--attention",
                    f"heads={heads},kv_heads={heads},head_dim=8", "--batch",
                    "2", "--seq", "8"), rc)
            self.assertEqual("nothing could run" in said.out, rc == 1)


class Projections(Case):
    """The plan's projections, compared with the axis rules."""

    def projections(self, query, *args, rc=0, axes="", layers=True,
                    names=("query", "key", "value", "out"),
                    heads="heads=16,kv_heads=8,head_dim=64"):
        """A plan of a layer stack whose query projection has this spec."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        lead = [12] if layers else []
        shapes = {f"attn/{names[0]}": [1024, 1024],
                  f"attn/{names[1]}": [1024, 512],
                  f"attn/{names[2]}": [1024, 512],
                  f"attn/{names[3]}": [1024, 1024],
                  "mlp/up_proj": [1024, 4096], "mlp/down_proj": [4096, 1024]}
        path = os.path.join(folder.name, "manifest.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schema": "shardc.manifest/v1", "params": {
                f"verses/{name}/kernel": {"shape": lead + shape,
                                          "dtype": "F32"}
                for name, shape in shapes.items()}}, file)
        null = "null, " if layers else ""
        text = (f"{axes}separator: '/'\nrules:\n"
                f"  - match: 'attn/{names[0]}'\n    spec: {query}\n"
                f"  - match: 'attn/({names[1]}|{names[2]})'\n"
                f"    spec: [{null}fsdp, tp]\n"
                f"  - match: 'attn/{names[3]}'\n    spec: [{null}tp, fsdp]\n"
                "  - match: '.*'\n    spec: []\n")
        return self.check(
            run("verify", "--no-project", "--mesh", "fsdp:2,tp:4",
                "--attention", heads, "--batch", "2", "--seq", "8",
                "--rules", rules(folder.name, text),
                "--manifest", path, "--operation", "vanilla", "--layout",
                "bthd", "--dtype", "float32", *args), rc)

    def test_a_projection_that_shards_other_dimensions_fails(self):
        """Axes rules alone pass all of these."""
        good = self.projections("[null, fsdp, tp]")
        self.assertIn("projections: 4 of 4 shard heads as the axis rules do",
                      good.out)
        for query in ("[fsdp, tp, null]", "[null, tp, fsdp]", "[null, tp]",
                      "[null, null, fsdp]"):
            bad = self.projections(query, rc=1)
            self.assertIn("projections: 3 of 4", bad.out)
            self.assertIn("fail: `verses/attn/query/kernel`, ", bad.out)
            self.assertIn("rules.yaml:4, in train, prefill, decode and insert: heads are "
                          "unsharded in it, and the axis rules split them "
                          'over "tp"', bad.out)
            self.assertIn('help: split dimension 2 over "tp"', bad.out)
            self.assertIn(" 0 fail, ", bad.out)  # the cases themselves
        self.projections("[tp, fsdp]", rc=1, layers=False)
        self.projections("[fsdp, tp]", layers=False)

    def test_projections_are_compared_in_the_modes_that_run(self):
        one = self.projections("[null, tp]", "--mode", "decode", "--format",
                               "json", rc=1).json()
        named = {p["role"]: p for p in one["projections"]}
        self.assertEqual(set(named), {"query", "key", "value", "output"})
        self.assertEqual(named["query"]["status"], "fail")
        self.assertEqual(named["query"]["modes"], ["decode"])
        self.assertEqual(named["key"]["status"], "pass")
        self.assertEqual(named["key"]["reason"], None)
        # Of a model whose heads attention leaves unsharded, all four differ.
        off = self.projections("[null, fsdp, tp]", "--format", "json", rc=1,
                               axes="axes: {head: null, kv_head: null}\n")
        self.assertEqual({p["status"] for p in off.json()["projections"]},
                         {"fail"})

    def test_a_parameter_that_was_not_compared_is_named(self):
        fused = self.projections("[null, fsdp, tp]",
                                 names=("qkv_proj", "key", "value", "out"))
        self.assertIn("not compared with the axis rules: "
                      "`verses/attn/qkv_proj/kernel`, since it holds query, "
                      "key and value in one tensor", fused.out)
        other = self.projections("[null, fsdp, tp]",
                                 heads="heads=16,kv_heads=4,head_dim=64")
        self.assertIn("`verses/attn/key/kernel` and "
                      "`verses/attn/value/kernel`, since its shape "
                      "[12, 1024, 512] does not show where 4 KV heads of 64 "
                      "are", other.out)
        unknown = self.projections("[null, tp]", names=("a", "b", "c", "d"))
        self.assertIn("`verses/attn/a/kernel`, ", unknown.out)
        self.assertIn("no known role in attention", unknown.out)


if __name__ == "__main__":
    unittest.main()
