"""What draw.py draws, and which tests it tries, without compiling anything."""

import argparse
import contextlib
import io
import json
import os
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import compiling  # pylint: disable=wrong-import-position
import draw  # pylint: disable=wrong-import-position
import judges  # pylint: disable=wrong-import-position
import propose  # pylint: disable=wrong-import-position
from compiling import ROOT, Place  # pylint: disable=wrong-import-position


def drawn(number, seed=7, each=False, rooms="comm,model", rows=""):
    return draw.drawn(argparse.Namespace(
        number=number, seed=seed, each=each, rooms=rooms, rows=rows))


class Drawn(unittest.TestCase):
    def test_a_seed_gives_one_draw(self):
        self.assertEqual(drawn(20), drawn(20))
        self.assertNotEqual(drawn(20), drawn(20, seed=8))

    def test_each_room_has_its_number(self):
        rooms = [m.file.split("/")[0] for m in drawn(5, each=True)]
        for room in ("comm", "model"):
            # Changes of one line that overlap are left out.
            self.assertIn(rooms.count(room), (4, 5))

    def test_a_part_of_a_room_is_drawn_alone(self):
        files = {m.file for m in drawn(3, each=True,
                                       rooms="exec/step/run,cli/search")}
        self.assertGreater(len(files), 1)
        for path in files:
            self.assertTrue(path.startswith(("exec/step/run", "cli/search")),
                            path)

    def test_all_changes_of_a_file_apply(self):
        every = drawn(1000)
        self.assertGreater(len(every), 200)
        for path in {m.file for m in every}:
            own = [m for m in every if m.file == path]
            text = Place(path).put(list(enumerate(own, 1)))
            for number in range(1, len(own) + 1):
                self.assertEqual(text.count(f"Mutant({number})"), 1, own)

    def test_rows_give_a_draw_again(self):
        before = drawn(10)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump([[m.file, m.line, m.old, m.new, "comm_test"]
                       for m in before], file)
            file.flush()
            self.assertEqual(drawn(0, rows=file.name), before)


class Proposed(unittest.TestCase):
    def test_text_is_no_expression_and_loses_a_letter(self):
        line = 'Add(out, "a != b, 3 files", count + 1);'
        self.assertEqual(
            list(propose.changes(line)),
            [("count + 1", "count - 1"), ("1", "2"), (line[:-1], ""),
             ('"a != b, 3 files"', '"a != b, 3 file"')])
        self.assertIn(('a == "x && y" && b', 'a == "x && y" || b'),
                      list(propose.changes('if (a == "x && y" && b) return;')))

    def test_text_of_raw_strings_is_not_changed(self):
        text = 'a\nR"(b\nc)" d\ne\nR"x(f)")x"\n'
        self.assertEqual(propose.in_raw_strings(text), {1, 2, 4})
        for mutant in drawn(1000, rooms="lint/rules"):
            self.assertNotIn("- {match:", mutant.line)


    def test_arguments_of_symmetric_calls_stay_in_their_order(self):
        for call in ("std::min", "std::max", "std::gcd", "std::swap",
                     "CheckedAdd"):
            line = f"Use({call}(a, b));"
            changed = [new for old, new in propose.changes(line)
                       if old == f"{call}(a, b)"]
            self.assertNotIn(f"{call}(b, a)", changed)
        self.assertIn(("Min(a, b)", "Min(b, a)"),
                      list(propose.changes("return Min(a, b);")))

    def test_extremes_with_a_named_type_keep_their_type(self):
        self.assertIn(("std::min<int>(a, b)", "std::max<int>(a, b)"),
                      list(propose.changes("return std::min<int>(a, b);")))


class Tried(unittest.TestCase):
    def test_every_script_is_there(self):
        scripts = judges.scripts()
        self.assertGreater(len(scripts), 50)
        for script in scripts:
            self.assertTrue(os.path.exists(os.path.join(ROOT, script)), script)

    def test_rooms_are_those_of_the_build_and_the_commands(self):
        rooms = draw.every_room()
        self.assertEqual((rooms[0], rooms[-1]), ("source", "cli"))
        for room in rooms:
            self.assertTrue(os.path.isdir(os.path.join(ROOT, "src", room)))


class Counted:
    """A judge that evaluates all changes and detects those that it is given."""

    def __init__(self, *detected):
        self.detected, self.asked = detected, []

    def reach(self, test):
        self.asked.append(test)
        return set(range(100))

    def detects(self, number, _):
        return number in self.detected


class Tries(unittest.TestCase):
    def test_rooms_without_own_tests_are_left_to_commands(self):
        mutants = drawn(3, rooms="cli") + drawn(3, rooms="comm")
        compiler = argparse.Namespace(
            numbers={m: i for i, m in enumerate(mutants)}, threads=1)
        trial, judge = draw.Trial(compiler, mutants, {}), Counted(0, 4)
        trial.with_own(judge, False)
        self.assertEqual(judge.asked, ["tests/comm_test"])
        self.assertEqual([v.by for v in trial.verdicts.values()],
                         ["", "", "", "", "tests/comm_test", ""])

    def test_verification_tries_what_it_judges_alone(self):
        mutants = drawn(2, rooms="comm") + drawn(2, rooms="dense")
        compiler = argparse.Namespace(
            numbers={m: i for i, m in enumerate(mutants)}, threads=1)
        trial, judge = draw.Trial(compiler, mutants, {}), Counted(0, 1, 2)
        judge.NAMES = ("matrices", "catalogue")
        trial.with_verification(judge)
        self.assertEqual([v.by for v in trial.verdicts.values()],
                         ["", "", "matrices", ""])


class Stops(unittest.TestCase):
    def test_a_source_that_compiled_is_compiled_again_once_it_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "a.h")
            target = os.path.join(folder, "a.o")
            changes = drawn(2)
            self.assertIsNone(compiling.Record(target, [1, 2]).read())
            for name, text in ((source, ""), (target + ".d", f"a.o: {source}"),
                               (target, "")):
                with open(name, "w", encoding="utf-8") as file:
                    file.write(text)
            compiling.Record(target, [1, 2]).write(
                os.path.join(folder, "none"), changes)
            self.assertEqual(compiling.Record(target, [1, 2]).read(), changes)
            # Other changes or numbers, a newer source, no object.
            self.assertIsNone(compiling.Record(target, [1, 3]).read())
            made = os.stat(target).st_mtime
            os.utime(source, (made + 2, made + 2))
            self.assertIsNone(compiling.Record(target, [1, 2]).read())
            os.utime(source, (made - 2, made - 2))
            self.assertEqual(compiling.Record(target, [1, 2]).read(), changes)
            os.remove(target)
            self.assertIsNone(compiling.Record(target, [1, 2]).read())

    def test_a_signal_ends_the_work_between_two_items(self):
        done = []

        def work(item):
            done.append(item)
            return item * 10

        before = signal.signal(signal.SIGTERM, draw.stop)
        found = []
        try:
            with self.assertRaises(draw.Stopped):
                for item, result in compiling.in_order(1, work, range(5)):
                    found.append((item, result))
                    if item == 1:
                        os.kill(os.getpid(), signal.SIGTERM)
        finally:
            signal.signal(signal.SIGTERM, before)
        self.assertEqual(found, [(0, 0), (1, 10)])

    def test_a_stopped_draw_reports_what_was_tried(self):
        own, left, never = drawn(3, rooms="comm")[:3]
        verdicts = {own: draw.Verdict("comm_test", True, 1),
                    left: draw.Verdict(reached=2, finished=True),
                    never: draw.Verdict()}
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            draw.report(verdicts)
        lines = out.getvalue().splitlines()
        self.assertEqual([line.split("  ")[0] for line in lines[:3]],
                         ["comm_test", "nobody (2 evaluate it)", "unfinished"])
        self.assertIn("| room | changes | by its own tests | by any test | "
                      "unfinished |", lines)
        self.assertIn("| `comm` | 3 | 1 | 1 | 1 |", lines)
        del verdicts[never]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            draw.report(verdicts)
        self.assertTrue(out.getvalue().endswith("| `all` | 2 | 1 | 1 |\n"))


if __name__ == "__main__":
    unittest.main()
