"""The bytes of the parameters of ranks equal those that the own code of each
system makes of public configurations (testdata/system_bytes.json, recorded by
tests/runtimes/systems_answers.py)."""

import json
import os
import tempfile
import unittest

from driver import TESTDATA, Case, run


class Bytes(Case):
    def test_equal_to_the_systems(self):
        with open(os.path.join(TESTDATA, "system_bytes.json"),
                  encoding="utf-8") as file:
            rows = json.load(file)
        self.assertGreaterEqual(len(rows), 12)
        for row in rows:
            with self.subTest(row["source"]), \
                    tempfile.TemporaryDirectory() as folder:
                command = row.get("command")
                if "flags" in row:
                    command = "torchrun pretrain_gpt.py " + row["flags"]
                script = command is not None
                path = os.path.join(folder, "a.sh" if script else "a.json")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(command if script else
                               json.dumps(row["config"]))
                more = [] if "model" not in row else ["--model", os.path.join(
                    TESTDATA, "configs", row["model"] + ".config.json")]
                got = run("show", "config", path, "--system", row["system"],
                          "--devices", str(row["devices"]), "--format",
                          "json", *more)
                self.assertEqual(got.rc, 0, got.err)
                groups = json.loads(got.out)["ranks"]
                held = {rank: group["bytes"] for group in groups
                        for rank in group["ranks"]}
                self.assertEqual({rank: held[int(rank)] for rank in
                                  row["bytes"]}, row["bytes"])

    def test_a_variable_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.sh")
            with open(path, "w", encoding="utf-8") as file:
                file.write("torchrun --nproc-per-node 8 pretrain_gpt.py "
                           "--tensor-model-parallel-size $TP\n")
            got = run("import", "megatron", path)
        self.assertIn("=VALUE`, or the variable as `--set env.TP=VALUE`",
                      got.err)


if __name__ == "__main__":
    unittest.main()
