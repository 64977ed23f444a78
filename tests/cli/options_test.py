"""One name of an option has one meaning in all commands: options of one name
take the same kind of value, and their help begins with the same words or has the
word of the one meaning that MEANINGS lists."""

import collections
import json
import os
import re
import unittest

from driver import ROOT

# The word of the meaning of an option whose help depends on the command.
MEANINGS = {
    "--processes": "number of (processes|hosts)",
    "--batch": "rows|sequences",
    "--seq": "tokens per (row|sequence)",
    "--profile": "accelerator",
    "--model": "config.json",
    "--naming": "naming of the parameters",
    "--program": "traced program of (your|the) function|traced program of your",
    "--target": "targets? of the project",
    "--allow-outside": "files outside its repository",
    "--output": "write|folder|directory|a .safetensors file",
    "--diff": "would change",
    "--select": "only",
    "--ignore": "but these",
    "--compiled": "text of (a|the) compiled program",
    "--plan": "plan",
    "--mode": "mode|train, prefill|steps",
    "--microbatches": "micro-batches|parts of the batch|N parts",
    "--dtype": "dtype|float32",
    "--kv-dtype": "cache",
    "--operation": "operation",
    "--stages": "stages",
    "--assign": "layers of",
    "--virtual": "stages on each rank",
    "--schedule": "schedule",
    "--p2p": "while it sends",
    "--disaggregated": "prefill",
    "--layout": "bthd",
    "--full": "sizes given",
    "--dump": "tensors and settings",
    "--names": "logical names",
    "--set": "setting|key",
    "--symbol": "function|plan",
}


def head(text):
    return re.split(r"[(;:,]", text)[0].strip()


class Options(unittest.TestCase):
    def test_a_name_has_one_meaning(self):
        with open(os.path.join(ROOT, "man", "commands.json"),
                  encoding="utf-8") as file:
            commands = json.load(file)
        uses = collections.defaultdict(list)
        for command in commands:
            for option in command["options"]:
                if option["name"].startswith("-"):
                    uses[option["name"]].append(option)
        self.assertGreater(len(uses), 150)
        for name, options in uses.items():
            with self.subTest(name):
                kinds = {(one.get("flag", False), one.get("letter"))
                         for one in options}
                self.assertEqual(len(kinds), 1)
                if name in MEANINGS:
                    for one in options:
                        self.assertRegex(one["help"], MEANINGS[name])
                else:
                    self.assertEqual(len({head(one["help"])
                                          for one in options}), 1)
        several = {name for name, options in uses.items()
                   if len({head(one["help"]) for one in options}) > 1}
        self.assertEqual(several, set(MEANINGS))


if __name__ == "__main__":
    unittest.main()
