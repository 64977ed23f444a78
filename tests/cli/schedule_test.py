"""`shardc schedule`: tables by name and from files, and what is refused."""

import os
import tempfile
import unittest

from described import DescribedCase
from driver import run


def sizes(ranks, microbatches, *more):
    return ["--ranks", str(ranks), "--microbatches", str(microbatches), *more]


class Schedule(DescribedCase):
    SCHEMA = "schedule"

    def schedule(self, *arguments):
        return self.described(run("schedule", *arguments, "--format", "json"),
                              0)

    def test_every_schedule_is_listed_and_made(self):
        names = self.schedule()["schedules"]
        self.assertEqual(len(names), 10)
        for one in names:
            value = self.schedule(one["name"], *sizes(4, 8))
            self.assertEqual(value["schedule"], one["name"])
            self.assertEqual(value["stages"], 4 * one["virtual"])
            self.assertEqual(value["placement"], one["placement"])
            self.assertEqual(
                sum(rank["tasks"] for rank in value["by_rank"]),
                sum(1 + ("OVERLAP" in task["task"])
                    for row in value["rows"] for task in row))

    def test_a_written_file_gives_the_same_report(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("1f1b", "zbv", "dualpipe", "dualpipev"):
                path = os.path.join(folder, name + ".csv")
                self.check(run("schedule", name, *sizes(4, 8), "--csv", "-o",
                               path), 0)
                made = self.schedule(name, *sizes(4, 8))
                read = self.schedule(path, *sizes(4, 8))
                self.assertEqual({**made, "schedule": ""},
                                 {**read, "schedule": ""})

    def test_times_and_messages_change_the_step(self):
        unit = self.schedule("1f1b", *sizes(4, 8))
        self.assertEqual(unit["step"]["time"], 33)
        self.assertAlmostEqual(unit["step"]["bubble"], 3 / 11)
        timed = self.schedule("1f1b", *sizes(4, 8), "--times", "1,1,0.5")
        self.assertEqual(timed["step"]["time"], 11 * 2.5)
        hops = self.schedule("1f1b", *sizes(4, 8), "--hop", "0.1")
        exposed = self.schedule("1f1b", *sizes(4, 8), "--hop", "0.1", "--p2p",
                                "exposed")
        self.assertLess(33, hops["step"]["time"])
        self.assertLess(hops["step"]["time"], exposed["step"]["time"])
        half = self.schedule("dualpipev", *sizes(4, 16), "--overlap", "0.5")
        self.assertLess(half["step"]["time"],
                        self.schedule("dualpipev", *sizes(4, 16))
                        ["step"]["time"])

    def test_the_picture_shows_a_line_a_rank(self):
        text = self.check(run("schedule", "1f1b", *sizes(2, 2),
                              "--picture"), 0).out
        self.assertEqual(
            text, "rank 0 |0F0 0F1 .   .   0B0---- .   0B1----\n"
                  "rank 1 |.   1F0 1B0---- 1F1 1B1---- .   .\n")
        wide = self.check(run("schedule", "gpipe", *sizes(2, 30),
                              "--picture"), 0).out.splitlines()
        self.assertIn("ticks 0 to 13", wide)
        self.assertLessEqual(max(map(len, wide)), 80)

    def test_the_page_draws_every_task_and_hatches_bubbles(self):
        for name in ("1f1b", "zbv", "dualpipev"):
            with self.subTest(name):
                value = self.schedule(name, *sizes(4, 8))
                page = self.check(run("schedule", name, *sizes(4, 8),
                                      "--format", "html"), 0).out
                self.assertEqual(page.count("<script"), 1)
                self.assertEqual(page.count('<rect class="hatch" '), 4)
                drawn = page.count(' part" x=')
                self.assertEqual(drawn, sum(
                    len([cell for cell in row.split(",") if cell])
                    for row in run("schedule", name, *sizes(4, 8), "--csv")
                    .out.splitlines()))
                self.assertEqual(page.count("<tr><th scope=row>"), 4)
                bubble = f"{100 * value['step']['bubble']:.1f} %"
                self.assertIn(f"of which {bubble} is bubble", page)
        got = run("schedule", "1f1b", *sizes(64, 512), "--format", "html")
        self.assertEqual(got.rc, 2)
        self.assertIn("a page draws 20,000 at most", got.err)
        got = run("schedule", "--format", "html")
        self.assertEqual(got.rc, 2)
        self.assertIn("`--format html` draws one schedule, and none is named",
                      got.err)

    def test_sizes_that_a_schedule_refuses(self):
        for arguments, words in (
                (["interleaved", *sizes(4, 13)],
                 "do not divide 13 micro-batches"),
                (["dualpipev", *sizes(4, 7)], "write `--microbatches 8`"),
                (["dualpipe", *sizes(3, 8)],
                 "needs an even number of ranks, not 3"),
                (["zbv", *sizes(4, 8), "--virtual", "3"],
                 "write `--virtual 2`")):
            done = run("schedule", *arguments)
            self.assertEqual(done.rc, 1)
            self.assertEqual(done.out, "")
            self.assertIn("SHD248 schedule-refuses", done.err)
            self.assertIn(words, done.err)

    def test_flags_that_cannot_be_used(self):
        for arguments, words in (
                (["zb-1"], "there is no schedule `zb-1`"),
                (["1f1b", "--ranks", "4"], "`--microbatches` is missing"),
                (["1f1b", *sizes(0, 8)], "`0` is not a whole number from 1"),
                (["1f1b", *sizes(4, 8), "--times", "1,2"],
                 "`--times` has 2 numbers, not three"),
                (["1f1b", *sizes(4, 8), "--times", "1,-1,1"],
                 "`-1` is not a number from 0 on"),
                (["1f1b", *sizes(4, 8), "--hop", "nan"],
                 "`nan` is not a number from 0 on"),
                (["1f1b", *sizes(4, 8), "--hop", "1e308"],
                 "`1e308` is more than 1e100"),
                (["1f1b", *sizes(4, 8), "--csv", "--picture"],
                 "are two formats of one result"),
                (["1f1b", *sizes(4, 1 << 21)],
                 "`--microbatches` is more than 1,048,576"),
                (["1f1b", *sizes(1024, 1 << 20)],
                 "the schedule has 3,221,225,472 tasks, more than 4,194,304"),
                (["gpipe", *sizes(2, 600000), "--picture"],
                 "the picture of this schedule is too large"),
                (["./none.csv"], "none.csv")):
            done = run("schedule", *arguments)
            self.assertEqual(done.rc, 2, arguments)
            self.assertEqual(done.out, "")
            self.assertIn(words, done.err)

    def test_files_are_refused_at_the_cell(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s.csv")
            for text, rc, words in (
                    ("", 2, "the file has no rank: it is empty"),
                    (",\n,\n", 2,
                     "write a line for each rank, such as `0F0,0B0`"),
                    ("version https://git-lfs.github.com/spec/v1\n", 2,
                     "this is a Git LFS pointer, not the file"),
                    ("0F0,0B0,0X1\n", 2, "s.csv:1:9"),
                    ("0F0,0F1,0B1,0B0\n1F0,1B0,1B1,1F1\n", 1, "s.csv:2:9"),
                    ("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", 1,
                     "ranks wait for each other in a cycle"),
                    ("0F0,0B0\n1F0,1B0\n0F1,0B1\n", 1, "is missing")):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                done = run("schedule", path)
                self.assertEqual(done.rc, rc, text)
                self.assertIn(words, done.err)
            with open(path, "w", encoding="utf-8") as file:
                file.write("0F0,0B0\n")
            done = run("schedule", path, "--ranks", "2")
            self.assertEqual(done.rc, 1)
            self.assertIn("not one for each of 2 ranks", done.err)
            done = run("schedule", path, "--virtual", "2")
            self.assertEqual(done.rc, 2)
            self.assertIn("`--virtual` is for schedules by name", done.err)


if __name__ == "__main__":
    unittest.main()
