"""Rule sets of published packages: what `shardc.import_python` reads is what
Python gets by running the one function that holds them."""

import copy
import json
import os
import subprocess
import sys
import sysconfig
import unittest

import python_rules
import records
import shardc_answers

NAME = "get_partition_rules"


def sources():
    """(path, text) of the package's files that hold rule sets."""
    root = os.path.join(sysconfig.get_paths()["purelib"], "easydel")
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not name.endswith(".py"):
                continue
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if "def " + NAME in text:
                yield path, text


def asked(text):
    """(symbol, function, flags) of every function, with each flag on and
    off."""
    for holder, function, flags in python_rules.functions(text, NAME):
        for value in (True, False) if flags else (None,):
            yield (f"{holder}.{NAME}", copy.deepcopy(function),
                   {} if value is None else {flags[0]: value})


class Sources(unittest.TestCase):
    def test_what_is_read_is_what_python_gets(self):
        sets = rules = refused = not_rules = 0
        for path, text in sources():
            for symbol, function, flags in asked(text):
                try:
                    wanted = [(pattern, spec) for pattern, spec in
                              python_rules.rules_of(function, flags)]
                except Exception:  # what it returns is no list of pairs
                    wanted = None
                done = subprocess.run(
                    [sys.executable, "-m", "shardc.import_python", path,
                     "--symbol", symbol, "--format", "json",
                     *[word for name, value in flags.items() for word in (
                         "--set", f"{name}={str(value).lower()}")]],
                    capture_output=True, encoding="utf-8", check=False,
                    env=dict(os.environ, SHARDC=shardc_answers.BIN,
                             PYTHONPATH=os.path.join(records.ROOT, "python")))
                if wanted is None:
                    self.assertEqual(done.returncode, 2, (path, symbol))
                    not_rules += 1
                elif done.returncode:
                    self.assertEqual(done.returncode, 2)
                    self.assertIn("inexpressible", done.stderr)
                    refused += 1
                    print("refused:", os.path.basename(path), symbol, flags,
                          done.stderr.strip()[:300])
                else:
                    given = json.loads(done.stdout).get("rules", [])
                    self.assertEqual(
                        [(one["match"], one["spec"]) for one in given],
                        wanted, (path, symbol, flags))
                    sets += 1
                    rules += len(wanted)
        self.assertGreater(sets, 40)
        print(f"{sets} published rule sets with {rules} rules are read as "
              f"Python runs them; {refused} refused, {not_rules} are none")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
