"""The vectors test must fail on a wrong answer and on an unknown family."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["SHARDC_VECTORS_TEST"]
FOLDER = os.path.join(os.environ["SHARDC_SOURCE_ROOT"], "testdata", "vectors")


def run(folder):
    return subprocess.run(
        [PROGRAM], env={**os.environ, "SHARDC_VECTORS": folder},
        capture_output=True, text=True, check=False)


class Faults(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, data):
        path = os.path.join(self.folder, name + ".json")
        with open(path, "w", encoding="utf-8") as out:
            json.dump(data, out)

    def read(self, name):
        path = os.path.join(FOLDER, name + ".json")
        with open(path, encoding="utf-8") as text:
            return json.load(text)

    def test_a_wrong_spec_fails(self):
        data = self.read("correct")
        good = len(data["cases"])
        case = next(c for c in data["cases"] if c.get("expect", {}).get("spec"))
        case["expect"]["spec"] = ["nowhere"]
        self.write("correct", data)
        result = run(self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"correct: {good - 1} passed, 1 failed, "
                      "0 differ by design", result.stdout)

    def test_a_wrong_error_fails(self):
        for key, value in (("kind", "other"), ("type", "OSError"),
                           ("contains", "no such words")):
            data = self.read("attn_rules")
            case = next(c for c in data["cases"] if "error" in c)
            case["error"][key] = value
            self.write("attn_rules", data)
            result = run(self.folder)
            self.assertEqual(result.returncode, 1, key)
            self.assertIn(" 1 failed", result.stdout)

    def test_a_mesh_that_was_never_asked_for_fails(self):
        data = self.read("mesh")
        case = next(c for c in data["cases"]
                    if c["input"]["op"] == "create_mesh"
                    and c["input"].get("axis_dims") == [2, 2, 2]
                    and "expect" in c)
        case["expect"]["shape"] = [2, 2, 4]
        data["cases"] = [case]
        self.write("mesh", data)
        result = run(self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("mesh: 0 passed, 1 failed", result.stdout)

    def test_an_unknown_family_fails(self):
        data = self.read("correct")
        data["family"] = "unheard_of"
        self.write("other", data)
        result = run(self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("family `unheard_of` is not known", result.stdout)

    def test_a_case_without_its_members_fails(self):
        data = self.read("resolve")
        del data["cases"][0]["input"]["axes"]
        self.write("resolve", data)
        result = run(self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn(" 1 failed", result.stdout)

    def fails(self, name, data):
        """The file is reported, without a crash."""
        self.write(name, data)
        result = run(self.folder)
        self.assertIn(result.returncode, (0, 1), json.dumps(data)[:400])
        return result

    def numeric(self):
        """The first numeric case of each operation, and all that is in it."""
        data = self.read("numeric")
        seen = {}
        for case in data["cases"]:
            if "expect" in case:
                seen.setdefault(case["input"]["op"], case)
        return data, seen

    def test_an_error_in_place_of_numbers_fails(self):
        data, seen = self.numeric()
        self.assertGreaterEqual(len(seen), 7)
        for op, case in seen.items():
            broken = {k: v for k, v in case.items() if k != "expect"}
            broken["error"] = {"type": "ValueError", "kind": "any",
                               "contains": ""}
            result = self.fails("numeric", {**data, "cases": [broken]})
            self.assertEqual(result.returncode, 1, op)
            self.assertIn("numeric: 0 passed, 1 failed", result.stdout, op)

    def test_a_case_without_any_one_member_is_reported(self):
        data, seen = self.numeric()
        for case in seen.values():
            for part in ("input", "expect"):
                for key in case[part]:
                    broken = json.loads(json.dumps(case))
                    del broken[part][key]
                    self.fails("numeric", {**data, "cases": [broken]})
            for key in case:
                broken = {k: v for k, v in case.items() if k != key}
                self.fails("numeric", {**data, "cases": [broken]})
        for name in ("resolve", "bundles", "register", "names", "correct",
                     "mesh", "match", "attn_rules"):
            data = self.read(name)
            for key in ("expect", "input", "id"):
                cases = [{k: v for k, v in case.items() if k != key}
                         for case in data["cases"][:40]]
                self.fails(name, {**data, "cases": cases})
            os.remove(os.path.join(self.folder, name + ".json"))

    def test_a_file_without_cases_is_reported(self):
        data = self.read("correct")
        del data["cases"]
        self.write("correct", data)
        result = run(self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("no member `cases`", result.stdout)

    def test_too_many_differences_fail(self):
        data = self.read("names")
        data["cases"] = [c for c in data["cases"]
                         if c["input"]["op"] == "partition_manager_from_json"]
        self.write("names", data)
        result = run(self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("too many deliberate differences: 1 of 1", result.stdout)

    def test_an_empty_folder_fails(self):
        self.assertEqual(run(self.folder).returncode, 1)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
