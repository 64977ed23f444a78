"""Commands that read a plan's inputs take less than twice the memory of `plan`.

Rules that match nothing, for which the nearest names are searched, take a few
kilobytes each.

Peak memory is what the system counted for each process that ended, which is at
least what this process had when it started the other: so the inputs are written
line by line.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

from driver import BIN, ROOT, is_sanitized

sys.path.insert(0, os.path.join(ROOT, "bench"))
from names import word  # noqa: E402

MOST = 2.0
MOST_OF_RULE = 16_000  # bytes
COMMANDS = [
    ["check"],
    ["report", "-o", "/dev/null"],
    ["show", "memory"],
    ["cost", "--batch", "16"],
]


def peak_bytes(arguments):
    child = subprocess.Popen([BIN, *arguments], stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True)
    errors = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stderr.close()
    if child.returncode > 1:
        raise AssertionError(f"{arguments}: {child.returncode}\n{errors}")
    return used.ru_maxrss << 10


def llama(count):
    """Parameters of layers, which fold to few templates."""
    kinds = ["self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj",
             "mlp.down_proj"]
    for i in range(count // len(kinds)):
        for kind in kinds:
            yield f"model.layers.{i}.{kind}.weight"


def distinct(count):
    for i in range(count):
        yield f"model.block_{word(i)}.q_proj.weight"


def write_manifest(path, names):
    with open(path, "w") as file:
        file.write('{"schema": "shardc.manifest/v1", "params": [')
        for i, name in enumerate(names):
            file.write(",\n" if i > 0 else "\n")
            json.dump({"name": name, "shape": [64, 64], "dtype": "BF16"}, file)
        file.write("]}\n")


@unittest.skipIf(is_sanitized(), "its allocator takes memory of its own")
class Memory(unittest.TestCase):
    def check(self, names):
        with tempfile.TemporaryDirectory() as folder:
            manifest = os.path.join(folder, "manifest.json")
            write_manifest(manifest, names)
            inputs = ["--no-project", "--manifest", manifest, "--mesh",
                      "fsdp:4,tp:2", "--rules", "builtin:llama"]
            plan = peak_bytes(["plan", *inputs, "--quiet", "-o",
                               os.path.join(folder, "plan.json")])
            for command in COMMANDS:
                with self.subTest(command=command):
                    own = peak_bytes([*command, *inputs])
                    self.assertLess(own / plan, MOST, (own, plan))

    def test_parameters_of_layers(self):
        self.check(llama(300_000))

    def test_names_without_a_template(self):
        self.check(distinct(50_000))

    def test_rules_that_match_nothing(self):
        peaks = []
        with tempfile.TemporaryDirectory() as folder:
            manifest = os.path.join(folder, "manifest.json")
            write_manifest(manifest, distinct(100))
            rules = os.path.join(folder, "rules.yaml")
            for count in (1_000, 11_000):
                with open(rules, "w", encoding="utf-8") as file:
                    file.write("version: 1\nrules:\n")
                    for i in range(count):
                        file.write(f"  - match: 'expert_{word(i):_<15}'\n"
                                   "    spec: []\n")
                    file.write("  - match: '.*'\n    spec: []\n")
                peaks.append(peak_bytes([
                    "check", "--no-project", "--manifest", manifest, "--mesh",
                    "fsdp:4,tp:2", "--rules", rules]))
        self.assertLess((peaks[1] - peaks[0]) / 10_000, MOST_OF_RULE, peaks)


if __name__ == "__main__":
    unittest.main()
