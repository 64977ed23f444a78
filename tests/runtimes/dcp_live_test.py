"""Checkpoints that PyTorch writes are read bit for bit.

SHARDC_READ_TREE is the program of tests/programs/read_tree.cc. DCP_FOLDER
keeps the checkpoints there instead of in a temporary folder.
"""

import json
import os
import subprocess
import tempfile
import unittest

import torch

import dcp_answers
from records import ROOT

PROGRAM = os.environ.get(
    "SHARDC_READ_TREE",
    os.path.join(ROOT, "build", "tests", "programs", "read_tree"))
# What shardc calls torch's data types.
NAMES = {"float32": "F32", "float64": "F64", "float16": "F16",
         "bfloat16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16",
         "int8": "I8", "uint8": "U8", "bool": "BOOL", "complex64": "C64",
         "uint16": "U16", "float8_e4m3fn": "F8_E4M3",
         "float8_e5m2": "F8_E5M2"}


class Checkpoints(unittest.TestCase):
    maxDiff = 4000

    def compare(self, path):
        """The number of tensors."""
        with open(path + ".want.json", encoding="utf-8") as file:
            wanted = json.load(file)
        done = subprocess.run([PROGRAM, path], capture_output=True,
                              encoding="utf-8", check=False)
        if not wanted["tensors"] and not wanted["others"]:
            return 0
        self.assertEqual(done.returncode, 0, done.stderr)
        tree = json.loads(done.stdout)
        got = {array["name"]: array for array in tree["arrays"]}
        self.assertEqual(sorted(got), sorted(wanted["tensors"]))
        for name, tensor in wanted["tensors"].items():
            found = (got[name]["dtype"], got[name]["shape"],
                     got[name]["sha256"])
            self.assertEqual(found, (NAMES[tensor["dtype"]], tensor["shape"],
                                     tensor["sha256"]), name)
            self.assertEqual(".".join(got[name]["path"]), name)
        self.assertEqual(sorted(tree["leaves"]), sorted(wanted["others"]))
        return len(got)

    def test_saved_trees_are_read_bit_for_bit(self):
        kept = os.environ.get("DCP_FOLDER")
        with tempfile.TemporaryDirectory() as temporary:
            folder = kept or temporary
            names = dcp_answers.save_all(folder)
            tensors = 0
            for name in names:
                with self.subTest(name):
                    tensors += self.compare(os.path.join(folder, name))
        self.assertGreaterEqual(len(names), 20)
        print(f"torch {torch.__version__}: {tensors} tensors of "
              f"{len(names)} checkpoints are equal")


if __name__ == "__main__":
    unittest.main()
