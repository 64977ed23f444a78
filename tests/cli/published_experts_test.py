"""Published training runs of models with experts against the times that `shardc
cost` expects: the statement of `search` about them is true. Products are in 8 bits,
nothing is recomputed, and the optimizer's states are divided over the replicas."""

import csv
import os
import re
import tempfile
import unittest

from driver import Case, ROOT, TESTDATA, run

CONFIGS = os.path.join(TESTDATA, "configs")
SEQUENCE = 4096
STATED = re.compile(r"expected times of (\w+) published runs of models with "
                    r"experts are (\d+) to (\d+) % too short")


class PublishedExperts(Case):
    def seconds(self, row, folder):
        """The expected seconds of a step."""
        rules = os.path.join(folder, "rules.yaml")
        with open(rules, "w", encoding="utf-8") as file:
            file.write(f"version: 1\nextends: [builtin:{row['pack']}/hf]\n"
                       "axes: {batch: [dp, fsdp, ep]}\n")
        profile = row["profile"]
        if row["near_bandwidth"]:
            profile = os.path.join(folder, "profile.yaml")
            with open(profile, "w", encoding="utf-8") as file:
                file.write(f"schema: shardc.profile/v1\nbase: {row['profile']}\n"
                           "name: slower\nlinks: {near: {bandwidth: "
                           f"{row['near_bandwidth']}}}}}\n")
        flags = ["--mesh", row["mesh"], "--rules", rules, "--profile", profile,
                 "--model", os.path.join(CONFIGS, row["model"] + ".config.json"),
                 "--batch", row["batch"], "--microbatches", row["microbatches"],
                 "--seq", SEQUENCE, "--matmul-dtype", "float8_e4m3fn",
                 "--stack", "megatron", "--remat", "everything_saveable",
                 "--zero", 1]
        if row["stages"]:
            schedule, chunks = row["stages"].split()
            flags += ["--stages", "pp", "--schedule", schedule,
                      "--virtual", chunks]
        if row["overlap_tp"]:
            flags += ["--overlap-tp"]
        done = run("cost", "--no-project", *flags, "--format", "json")
        self.assertIn(done.rc, (0, 1), done.err)
        self.assertTrue(done.out, done.err)
        time = done.json()["time"]
        return time["step"] if row["stages"] else time["expected_s"]

    def test_the_statement_about_runs_with_experts(self):
        path = os.path.join(TESTDATA, "published", "experts.csv")
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        short = []
        with tempfile.TemporaryDirectory() as folder:
            for row in rows:
                tokens = int(row["batch"]) * SEQUENCE
                rate = float(row["tokens_per_second_per_device"])
                published = tokens / (rate * int(row["devices"]))
                short.append(1 - self.seconds(row, folder) / published)
        path = os.path.join(ROOT, "src", "search", "evidence.cc")
        with open(path, encoding="utf-8") as file:
            text = re.sub(r'"\s*\n\s*"', "", file.read())
        stated = STATED.search(text)
        self.assertEqual(
            stated.groups(),
            ({4: "four"}[len(rows)], str(round(100 * min(short))),
             str(round(100 * max(short)))))


if __name__ == "__main__":
    unittest.main()
