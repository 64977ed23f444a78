"""The winners of `shardc search` for jobs whose layouts were published, of models
with experts, against those layouts: both by the expected times of the program.

The published settings are given: recomputation, precision, dispatcher, graphs and
overlap. The mesh, the stages and the micro-batches are searched for.

SHARDC_EVERY=1 searches for all of JOBS, which takes minutes.
"""

import json
import tempfile
import unittest

import published_moe
from driver import Case, one_in, run
from published_moe import PACKS, Runs

# By how much the expected times of the winner and of the published layout may
# differ.
CLOSE = 0.10
MIXTRAL = {"id": "mixtral", "model": "mixtral-8x22b", "software": "", "n": "128",
           "device": "h100", "tp": "2", "pp": "8", "vp": "7", "cp": "1",
           "ep": "8", "ga": "32", "gbs": "256", "seq": "4096", "prec": "bf16",
           "remat": "", "dispatcher": "alltoall", "overlap": "0", "zero": "1",
           "graphs": "none", "balance": "forced", "fsdp": "0", "stack":
           "megatron"}
JOBS = {"mixtral-8x22b on 128 H100": MIXTRAL,
        "mixtral-8x7b on 64 H100": {
            **MIXTRAL, "id": "mixtral-8x7b", "model": "mixtral-8x7b", "n": "64",
            "tp": "1", "pp": "4", "vp": "8", "ga": "16"}}
RUNS = {"qwen3-30b on 16 H100": "mb-qwen30-h100-01"}
SLOW = {"deepseek-v3 on 256 GB200": "mb-dsv3-gb200-01",
        "deepseek-v3 on 1024 H100": "mb-dsv3-h100-01"}
# DeepSeek-V3 on 256 H100s, with the options of the run on 1,024 and with the
# optimizer's states on the host, as its recipe has them.
OFFLOADED = "deepseek-v3 on 256 H100"
# The same model on 512 H100s, tp 2, pp 8 and ep 32.
HALF = "deepseek-v3 on 512 H100"
# The winner is faster than the published layout. On GB200, the last rank of that
# layout has the output head and its layers, and takes 10 % longer than the
# others; without stages no rank does. On H100, the published run overlaps its
# all-to-alls without graphs, so that the host is expected to decide the time of
# its layers, but not that of the winner's layers.
FAR = {"qwen3-235b on 256 GB200": "mb-qwen235-gb200-01",
       "qwen3-235b on 256 H100": "zoo-qwen235-h100-02"}
FAR_LIMIT = {"qwen3-235b on 256 GB200": 0.11, "qwen3-235b on 256 H100": 0.15}
# Published layouts are divided evenly where no recipe of theirs is listed.
LAYERS = {"mixtral-8x22b": 56, "mixtral-8x7b": 32}
# What the search chooses itself.
CHOSEN = ("--mesh", "--microbatches", "--stages", "--schedule", "--virtual",
          "--p2p", "--assign")


class PublishedJobs(Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.runs = Runs(cls.folder.name)
        for model, layers in LAYERS.items():
            PACKS[model] = "mixtral"
            published_moe.LAYERS[model] = layers

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def winner(self, row):
        arguments = self.runs.arguments(row)
        for flag in CHOSEN:
            if flag in arguments:
                at = arguments.index(flag)
                del arguments[at:at + 2]
        done = run("search", "--no-project", "--rules",
                   f"builtin:{PACKS[row['model']]}/hf", *arguments,
                   "--devices", row["n"], "--prove", "0", "--format", "json")
        self.assertEqual(done.rc, 0, done.err)
        return json.loads(done.out)["winner"]

    def test_winners_are_as_fast_as_published_layouts(self):
        rows = {row["id"]: row for row in self.runs.rows}
        rows[OFFLOADED] = {
            **rows[SLOW["deepseek-v3 on 1024 H100"]], "id": "offloaded",
            "n": "256", "tp": "1", "ep": "32", "gbs": "2048", "ga": "64",
            "optimizer": "host"}
        rows[HALF] = {**rows[SLOW["deepseek-v3 on 1024 H100"]], "id": "half",
                      "n": "512", "ep": "32", "ga": "256"}
        runs = dict(RUNS)
        if one_in(0) == 1:
            runs.update(SLOW)
            runs.update(FAR)
            runs[OFFLOADED] = OFFLOADED
            runs[HALF] = HALF
        jobs = {**JOBS, **{name: rows[row] for name, row in runs.items()}}
        for name, row in jobs.items():
            winner = self.winner(row)
            with self.subTest(name, mesh=winner["mesh"]):
                self.assertIsNone(winner["unmeasured"])
                self.assertLess(abs(self.runs.seconds(row) /
                                    winner["expected_s"] - 1),
                                FAR_LIMIT.get(name, CLOSE))

    def test_the_layout_of_a_published_run_is_found(self):
        """Seven stages on each of eight ranks, as published."""
        row = JOBS["mixtral-8x22b on 128 H100"]
        winner = self.winner(row)
        self.assertEqual((winner["mesh"]["pp"], winner["mesh"]["tp"],
                          winner["stages"]), (8, 2, 56))
        self.assertAlmostEqual(winner["expected_s"], self.runs.seconds(row),
                               delta=0.01 * winner["expected_s"])


if __name__ == "__main__":
    unittest.main()
