"""The JSON that `shardc verify` writes fits its schema."""

import copy
import glob
import json
import os
import tempfile
import unittest

import jsonschema

from driver import TESTDATA, Case, run
from verify_case import sizes

MESH = "dp:2,sp:2,tp:2"
SIZES = "heads=8,kv_heads=4,head_dim=16,batch=2,q_len=16,kv_len=32"
GPT_OSS = os.path.join(TESTDATA, "configs", "gpt-oss-20b.config.json")


def validator():
    return jsonschema.Draft7Validator(json.loads(run("schema", "verify").out))


def narrow(name):
    """The validator of one definition, which prints more when it fails."""
    schema = json.loads(run("schema", "verify").out)
    schema.pop("anyOf")
    schema["allOf"] = [{"$ref": "#/definitions/" + name}]
    return jsonschema.Draft7Validator(schema)


class VerifySchema(Case):
    @classmethod
    def setUpClass(cls):
        cls.root = validator()
        cls.of = {name: narrow(name)
                  for name in ("report", "case", "dump", "list")}

    def accepts(self, name, value):
        errors = [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}"
                  for e in self.of[name].iter_errors(value)]
        self.assertEqual(errors, [])
        self.assertTrue(self.root.is_valid(value))

    def report(self, *args, rc=0, mesh=MESH, sizes=(*sizes(SIZES),)):
        value = self.check(
            run("verify", "--no-project", "--mesh", mesh, *sizes, *args,
                "--format", "json"), rc).json()
        self.accepts("report", value)
        return value

    def failing(self, *args):
        """A naive map of key heads to query heads."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rules.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write("version: 1\naxes: {head: tp, kv_head: []}\n")
            return self.report(
                "--rules", path, "--operation", "flash_attn2", "--mode",
                "train", "--layout", "bthd", "--dtype", "float32", *args,
                rc=1, sizes=sizes(SIZES.replace("kv_heads=4",
                                                "kv_heads=2")))

    def test_reports(self):
        verdicts = set()
        for args in ([], ["--metrics", "stacked"],
                     ["--features", "all", "--mode", "prefill", "--dtype",
                      "float32"],
                     ["--features", "none", "--mode", "decode"],
                     ["--mode", "decode,insert", "--kv-dtype", "int8",
                      "--metrics", "stacked"]):
            with self.subTest(args):
                report = self.report(*args)
                verdicts |= {c["status"] for c in report["cases"]}
        verdicts |= {c["status"] for c in self.failing()["cases"]}
        self.assertEqual(verdicts, {"pass", "fail", "unsupported"})
        self.report("--operation", "ring", "--mode", "train",
                    sizes=["--model", GPT_OSS])
        self.report("--operation", "vanilla", "--mode", "train", "--full",
                    mesh="a:1")

    def test_a_mesh_with_everything(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mesh.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write("axes: {dp: 2, tp: 4}\naxis_types: {dp: manual}\n"
                           "processes: 4\nslices: 2\ndcn: {dp: 2}\n")
            report = self.report("--operation", "vanilla", "--mode", "train",
                                 "--layout", "thd", mesh=path)
        mesh = report["cases"][0]["mesh"]
        self.assertEqual(mesh["slices"], 2)

    def test_metrics_stacked_and_reduced(self):
        args = ["--operation", "flash_decoding,ring", "--mode",
                "prefill,decode", "--layout", "bthd", "--dtype", "float32"]
        pairs = zip(self.report(*args, rc=1)["cases"],
                    self.report(*args, "--metrics", "stacked",
                                rc=1)["cases"], strict=True)
        kinds = set()
        for reduced, stacked in pairs:
            self.assertEqual("devices" in reduced,
                             reduced["status"] != "unsupported")
            if "devices" not in reduced:
                continue
            kinds.add("cache" in reduced)
            for name in ("error", "bytes", "steps"):
                by_device = stacked["devices"][name]
                self.assertEqual(len(by_device), 8)
                spread = reduced["devices"][name]
                self.assertEqual(spread["min"], min(by_device))
                self.assertEqual(spread["max"], max(by_device))
                self.assertAlmostEqual(spread["mean"], sum(by_device) / 8,
                                       delta=1e-12 * (1 + max(by_device)))
            # They are the whole case's, seen by device.
            devices = stacked["devices"]
            if "cache" not in reduced:
                self.assertEqual(max(devices["error"]),
                                 reduced["max_abs_error"])
            self.assertGreaterEqual(max(devices["error"]),
                                    reduced["max_abs_error"])
            steps = [s for s in reduced["steps"] if s["bytes"] > 0]
            self.assertLessEqual(max(devices["steps"]), len(steps))
            self.assertLessEqual(max(devices["bytes"]),
                                 sum(s["bytes"] for s in steps))
            self.assertGreaterEqual(
                max(devices["bytes"]),
                max(reduced["communication"].values()))
        self.assertEqual(kinds, {False, True})

    def test_a_cache_is_compared_as_others_are(self):
        report = self.report("--operation", "flash_decoding", "--mode",
                             "decode", "--dtype", "bfloat16", "--kv-dtype",
                             "int8")
        case, = [c for c in report["cases"] if "cache" in c]
        self.assertGreater(case["unsharded_error"], 0)
        self.assertGreater(case["relative_l2"], 0)
        self.assertGreater(case["devices"]["error"]["max"], 0)
        self.assertGreater(case["devices"]["steps"]["min"], 0)

    def test_the_list_of_operations(self):
        value = self.check(run("verify", "--list", "--format", "json"),
                           0).json()
        self.accepts("list", value)
        for name in ("name", "summary", "supports"):
            broken = copy.deepcopy(value)
            del broken["operations"][0][name]
            self.assertFalse(self.root.is_valid(broken), name)

    def test_dumps(self):
        with tempfile.TemporaryDirectory() as folder:
            self.report("--mode", "decode,train", "--layout", "bthd",
                        "--dtype", "bfloat16", "--features", "all", "--dump",
                        folder)
            seen = {True: 0, False: 0}
            for path in glob.glob(os.path.join(folder, "*.json")):
                with open(path, encoding="utf-8") as file:
                    value = json.load(file)
                self.accepts("dump", value)
                self.assertTrue(self.of["case"].is_valid(value["case"]))
                seen["settings" in value] += 1
                if "settings" in value:
                    for key, own in value["case"]["settings"].items():
                        self.assertEqual(value["settings"][key], own)
            self.assertGreater(seen[True], 20)
            self.assertGreater(seen[False], 5)

    def test_what_is_no_report(self):
        good = self.failing()
        case = good["cases"][0]
        self.assertEqual(case["status"], "fail")

        def broken(change):
            value = copy.deepcopy(good)
            change(value, value["cases"][0])
            return value

        for change in [
                lambda r, c: r.pop("summary"),
                lambda r, c: r.update(schema="shardc.verify/v2"),
                lambda r, c: r.update(extra=1),
                lambda r, c: r.update(seed=-1),
                lambda r, c: r["sizes"].pop("used"),
                lambda r, c: r["summary"].update(fail="1"),
                lambda r, c: c.update(status="passed"),
                lambda r, c: c.update(status="pass"),
                lambda r, c: c.update(status="unsupported"),
                lambda r, c: c.update(reason=None),
                lambda r, c: c.pop("check"),
                lambda r, c: c.pop("tolerance"),
                lambda r, c: c.pop("settings"),
                lambda r, c: c.update(operation="attention"),
                lambda r, c: c.update(dtype="float32"),
                lambda r, c: c.update(check="luck"),
                lambda r, c: c["settings"].update(blocksize=3),
                lambda r, c: c["communication"].pop("ppermute"),
                lambda r, c: c["communication"].update(gather=1),
                lambda r, c: c["devices"].pop("steps"),
                lambda r, c: c["devices"]["bytes"].pop("mean"),
                lambda r, c: c["shapes"].update(query=[1]),
                lambda r, c: c["mesh"].update(devices=2.5),
                lambda r, c: c["features"].append("speed")]:
            self.assertFalse(self.root.is_valid(broken(change)))
        self.assertTrue(self.root.is_valid(broken(lambda r, c: None)))


if __name__ == "__main__":
    unittest.main()
