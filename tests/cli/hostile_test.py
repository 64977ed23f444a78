"""The real binary over every hostile file: verdict, message, no mischief."""

import json
import os
import resource
import shutil
import tempfile
import unittest

from driver import TESTDATA, Case, is_sanitized, run

# Recommended verdicts where ours is the other one.
DIFFER = {
    "rules_rules_empty.yaml": "a rules file may hold settings only",
    "json_shape_null.json": "null means that only the name is known",
}
# What is broken is another file, and that one is named.
NAMES_ANOTHER = {
    "hf_link_devzero/model.safetensors.index.json",
    "hf_shard_corrupt/model.safetensors.index.json",
    "hf_shard_empty/model.safetensors.index.json",
}
COMMANDS = {
    "yaml-mesh": ("show", "mesh", "--mesh"),
    "yaml-rules": ("show", "rules", "--rules"),
    "json-manifest": ("show", "manifest", "--manifest"),
    "safetensors": ("show", "manifest", "--manifest"),
    "hf-index": ("show", "manifest", "--manifest"),
    "gguf": ("show", "manifest", "--manifest"),
}
LONGEST = 4096  # bytes of a message
SECONDS = 2  # of work for a file
MEMORY = 512 << 20


SANITIZED = is_sanitized()


def used():
    """Seconds that all runs have worked."""
    all_runs = resource.getrusage(resource.RUSAGE_CHILDREN)
    return all_runs.ru_utime + all_runs.ru_stime


class Hostile(Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.data = os.path.join(self.folder, "hostile")
        shutil.copytree(os.path.join(TESTDATA, "hostile"), self.data)
        with open(os.path.join(self.data, "LINKS.json"),
                  encoding="utf-8") as file:
            for link in json.load(file):
                path = os.path.join(self.data, link["path"])
                if not os.path.lexists(path):
                    os.symlink(link["target"], path)

    def check_refusal(self, case, result):
        text = result.out + result.err
        self.assertEqual(result.out, "", "a refusal prints no result")
        self.assertLessEqual(len(text.encode("utf-8", "surrogateescape")),
                             LONGEST)
        for char in text:
            self.assertTrue(char in "\n\t" or ord(char) >= 32, repr(text))
            self.assertNotIn(ord(char), (0x7f, 0x200b, 0x202e), repr(text))
        if case["file"] not in NAMES_ANOTHER:
            self.assertIn(os.path.basename(case["file"]), text)
        if case.get("line"):
            self.assertIn(f":{case['line']}:", text)
        # The name as the diagnostic has it, not as part of the file's.
        names = [f" {name}]" for name in case["class"].split("|")]
        self.assertTrue(any(name in text for name in names), text)

    def test_all_files(self):
        with open(os.path.join(self.data, "EXPECT.json"),
                  encoding="utf-8") as file:
            cases = json.load(file)
        self.assertGreater(len(cases), 300)
        differ = set()
        for case in cases:
            with self.subTest(file=case["file"], why=case["why"]):
                *command, flag = COMMANDS[case["kind"]]
                before = used()
                result = run(*command, flag,
                             os.path.join("hostile", case["file"]),
                             cwd=self.folder, timeout=20)
                self.assertTrue(SANITIZED or used() - before < SECONDS)
                accept = case["expect"] == "accept"
                if case["file"] in DIFFER:
                    self.assertTrue(case["policy"])
                    differ.add(case["file"])
                    accept = not accept
                self.check(result, 0 if accept else 2)
                if not accept:
                    self.check_refusal(case, result)
        self.assertEqual(differ, set(DIFFER))
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
        self.assertTrue(SANITIZED or most < MEMORY, most)


if __name__ == "__main__":
    unittest.main()
