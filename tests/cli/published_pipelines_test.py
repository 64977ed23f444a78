"""The memory of pipelines against published training runs
(testdata/published/pipelines.csv), and published meshes against what a search
finds (docs/guides/search-published.md, the last table).

SHARDC_EVERY=1 searches for all runs. Without it those that take seconds are
left out, and in an ordinary run every second one of the others.
"""

import csv
import json
import os
import statistics
import tempfile
import unittest

from driver import TESTDATA, Case, one_in, part_of, run
from published_steps import Steps

PIPELINES = os.path.join(TESTDATA, "published", "pipelines.csv")
GUIDE = os.path.join(os.environ["SHARDC_SOURCE_ROOT"], "docs", "guides",
                     "search-published.md")
# The runs of the guide's table, in its order; a search for one of SLOW takes
# seconds.
FOUND = ("titan-h100-06", "titan-405b-01", "titan-405b-02", "titan-h100-14",
         "maxtext-v4-06", "maxtext-v5e-05", "maxtext-v5e-02", "maxtext-v5e-03",
         "maxtext-v5p-07", "maxtext-v5p-10", "maxtext-v5p-12", "maxtext-v5p-13",
         "megatron-weak-07", "megatron-weak-09", "megatron-weak-10",
         "korthikanti-03", "korthikanti-06", "korthikanti-08",
         "nemo-h100-fp8-03", "nemo-h100-fp8-04", "nemo-h100-fp8-07",
         "nemo-h100-fp8-15")
SLOW = {"megatron-weak-07", "megatron-weak-09", "megatron-weak-10",
        "korthikanti-08", "nemo-h100-fp8-04"}
# The part of a device's memory that a published run may be expected to take,
# and the runs that are expected to take more. Llama 3 frees tensors that no
# later computation reads; which ones, and what it recomputes, is not published.
MOST_MEMORY = 1.07
LARGE = {"llama3-paper-01": 1.25, "llama3-paper-03": 1.15}
FIXED = ("--mesh", "--microbatches", "--zero", "--operation")


def assigned(row):
    """The value of `--assign`: recipes count the embedding and the head as a
    layer each if the stages divide the layers only then."""
    stages = int(row["pp"]) * int(row["vp"])
    each, rest = divmod(int(row["L"]) + 2, stages)
    if rest != 0 or int(row["L"]) % stages == 0:
        return "even"
    return ",".join(str(each - (stage in (0, stages - 1)))
                    for stage in range(stages))


def staged(row, arguments):
    """The options of a row with the axis of its stages."""
    if int(row.get("pp") or 1) == 1:
        return arguments
    at = arguments.index("--mesh") + 1
    mesh = f"pp:{row['pp']},{arguments[at]}"
    schedule = "interleaved" if int(row["vp"]) > 1 else "1f1b"
    return [*arguments[:at], mesh, *arguments[at + 1:], "--stages", "pp",
            "--schedule", schedule, "--virtual", row["vp"]]


class PublishedPipelines(Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.steps = Steps(cls.folder.name)
        with open(PIPELINES, encoding="utf-8") as file:
            cls.rows = list(csv.DictReader(file))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def cost(self, row, *more):
        done = run("cost", *self.steps.model(row),
                   *staged(row, self.steps.arguments(row)), *more, "--format",
                   "json")
        self.assertIn(done.rc, (0, 1), row["id"] + done.err)
        return json.loads(done.out)

    def seconds(self, row):
        staged_as = [] if int(row.get("pp") or 1) == 1 else [
            "--p2p", "exposed", "--assign", assigned(row)]
        time = self.cost(row, *staged_as)["time"]
        return time["step"] if "step" in time else time["expected_s"]

    def found(self, row):
        arguments = self.steps.arguments(row)
        for flag in FIXED:
            if flag in arguments:
                at = arguments.index(flag)
                del arguments[at:at + 2]
        done = run("search", *self.steps.model(row), *arguments, "--devices",
                   row["n"], "--prove", "0", "--format", "json")
        self.assertEqual(done.rc, 0, row["id"] + done.err)
        return json.loads(done.out)

    def test_published_pipelines_fit_their_devices(self):
        for row in self.rows:
            value = self.cost(row)
            expected = max(rank["peak"]["expected"] for rank in value["ranks"])
            share = expected / value["capacity"]
            with self.subTest(row["id"], share=share):
                self.assertLessEqual(share, LARGE.get(row["id"], MOST_MEMORY))
                self.assertIs(share > MOST_MEMORY, row["id"] in LARGE)

    def test_the_peaks_of_published_pipelines(self):
        """torchtitan prints the memory that the allocator reserves."""
        errors = []
        for row in self.rows:
            if not row["gib"]:
                continue
            expected = max(rank["peak"]["expected"]
                           for rank in self.cost(row)["ranks"])
            errors.append(expected / 2 ** 30 / float(row["gib"]) - 1)
        self.assertEqual(len(errors), 6)
        self.assertLess(statistics.median(map(abs, errors)), 0.1)
        self.assertLess(max(map(abs, errors)), 0.18)

    def test_the_guide_has_the_published_meshes_as_a_table(self):
        """SHARDC_WRITE_TABLES=1 writes the figures of all rows."""
        writes = bool(os.environ.get("SHARDC_WRITE_TABLES"))
        every = writes or one_in(0) == 1
        with open(GUIDE, encoding="utf-8") as file:
            text = file.read()
        begin = text.index("\n", text.index("| run | devices | published mesh |"))
        end = text.index("\n\n", begin)
        lines = text[begin:end].strip("\n").split("\n")[1:]
        self.assertEqual(len(lines), len(FOUND))
        rows = {row["id"]: row for row in (*self.steps.rows, *self.rows)}
        found_rows = list(enumerate(FOUND))
        for at, name in found_rows if every else part_of(found_rows, 2):
            if name in SLOW and not every:
                continue
            found, published = self.found(rows[name]), self.seconds(rows[name])
            longer = [f"{published / one['expected_s'] - 1:+.1%}".replace("%", " %")
                      if one else "" for one in (found["fastest"], found["pipeline"])]
            labels = lines[at].split(" | ")[:3]
            line = " | ".join([*labels, *longer]).rstrip() + " |"
            if writes:
                lines[at] = line
                continue
            with self.subTest(name):
                self.assertEqual(lines[at], line)
                self.assertIn(f" {int(rows[name]['n']):,} ", lines[at])
        if writes:
            head = text[:begin] + "\n|---|---|---|---|---|\n"
            with open(GUIDE, "w", encoding="utf-8") as file:
                file.write(head + "\n".join(lines) + text[end:])

    def test_a_short_pipeline_loses_by_its_bubble(self):
        """torchtitan's pipeline of Llama 3 405B has 8 micro-batches on 8
        ranks."""
        row = next(one for one in self.rows if one["id"] == "titan-h100-14")
        found = self.found(row)
        self.assertNotIn("pp", found["winner"]["mesh"])
        lines = [one for one in found["why_not"]
                 if one["change"].startswith("pp 1 -> ")]
        self.assertTrue(lines)
        for line in lines:
            parts = {one["name"]: one["seconds"] for one in line["parts"]}
            self.assertGreater(parts["bubble"], 0)
            self.assertIn("bubble +", line["because"])


if __name__ == "__main__":
    unittest.main()
