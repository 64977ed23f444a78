"""`split`, `reshard` and `merge` under mpirun: each rank writes its share, by
the launcher's variables alone, and all together what one process writes. No
build with MPI is needed."""

import os
import random
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "cli"))
from checkpoint_case import Base, BIN, clean_env, write_safetensors  # noqa: E402

MPIRUN = os.environ["SHARDC_MPIRUN"]
# Root may not start processes, nor more than there are processors, unasked.
ENV = dict(clean_env(), OMPI_ALLOW_RUN_AS_ROOT="1",
           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


class Ranks(Base):
    def setUp(self):
        super().setUp()
        rng = random.Random(5)
        tensors = {f"w.{i}": ("U8", [512, 256], rng.randbytes(512 * 256))
                   for i in range(12)}
        write_safetensors(self.path("m.safetensors"), tensors)
        self.plans = [
            self.write_plan(f"{name}.json", axes, {
                tensor: ([512, 256], spec) for tensor in tensors})
            for name, axes, spec in (
                ("before", [("fsdp", 2), ("tp", 2)], ["fsdp", "tp"]),
                ("after", [("fsdp", 3), ("tp", 2)], [None, "tp"]))]

    def ranks(self, count, *args):
        done = subprocess.run(
            [MPIRUN, "--oversubscribe", "-n", str(count), BIN, *args],
            capture_output=True, text=True, env=ENV, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(count):
            self.assertIn(f"process {rank} of {count} (OMPI_COMM_WORLD_RANK)",
                          done.stderr)

    def both(self, args, name):
        """By one process, and by several and `--finalize`."""
        self.shardc(*args, "--output", self.path(name + ".one"))
        for count in (2, 3):
            out = self.path(f"{name}.{count}")
            self.ranks(count, *args, "--output", out)
            self.assertNotIn("shards.json", os.listdir(out))
            self.shardc(*args, "--output", out, "--finalize", "--process-count",
                        str(count))
            self.same(self.contents(f"{name}.{count}"),
                      self.contents(name + ".one"))

    def test_split_reshard_and_merge(self):
        before, after = self.plans
        self.both(["checkpoint", "split", "--plan", before, "--checkpoint",
                   self.path("m.safetensors")], "pieces")
        self.both(["checkpoint", "reshard", self.path("pieces.3"), "--plan", after], "moved")
        self.both(["checkpoint", "merge", self.path("moved.2"), "--max-shard-size", "400KB"],
                  "whole")
        # Cut again, it is what the first plan made.
        self.shardc("checkpoint", "split", "--plan", before, "--checkpoint",
                    self.path("whole.3"), "--output", self.path("again"))
        self.same(self.contents("again"), self.contents("pieces.one"))


if __name__ == "__main__":
    unittest.main()
