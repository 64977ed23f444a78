"""Tests detect a few changes of the source that nobody has chosen.

A digest of the sources is the seed: it draws changes of one room, other ones
after each change of the sources. The room's own tests detect two in three on
average, so that two of six are expected at the least. Where they are fewer,
eighteen more are drawn and tried with the golden transcripts as well; then a
third of all have to be detected, which chance alone misses once in ten thousand
runs. docs/source.md publishes the scores of complete draws, by room.
"""

import os
import random
import unittest
import zlib

import draw
from compiling import BUILD, ROOT, Compiler, apart, sources
from judges import Tests, Transcripts
from propose import proposals

FIRST, MORE = 6, 18
# What runs traced programs has its tests in other rooms, and in test scripts of
# commands. The tests of `verify` run for minutes.
LEFT_OUT = ("dense/program/", "exec/program/", "verify/")
FOLDER = os.path.join(BUILD, "draw_sample")


def digest():
    number = 0
    for path in sources(draw.every_room()):
        with open(os.path.join(ROOT, "src", path), "rb") as file:
            number = zlib.crc32(file.read(), number)
    return number


class Sample(unittest.TestCase):
    def tried(self, mutants, with_transcripts):
        """The verdicts of the changes that compile."""
        compiler = Compiler(mutants, FOLDER)
        trial = draw.Trial(compiler, compiler.compile(), {})
        compiler.link(draw.own_test(self.room))
        trial.with_own(Tests(FOLDER, 600, complete=False), True)
        if with_transcripts:
            compiler.link("src/cli/shardc")
            trial.with_transcripts(Transcripts(FOLDER))
        draw.report(trial.verdicts)
        return trial.verdicts.values()

    def test_changes_of_a_room_are_detected(self):
        number = int(os.environ.get("SHARDC_TURN", digest()))
        rooms = [room for room in draw.every_room()
                 if f"{room}/" not in LEFT_OUT and os.path.exists(
                     os.path.join(BUILD, draw.own_test(room)))]
        self.room = rooms[number % len(rooms)]
        every = [m for m in proposals([self.room])
                 if not m.file.startswith(LEFT_OUT)]
        random.Random(number).shuffle(every)
        verdicts = self.tried(apart(every[:FIRST]), False)
        if 3 * sum(v.own for v in verdicts) >= len(verdicts) > 0:
            return
        verdicts = self.tried(apart(every[:FIRST + MORE]), True)
        self.assertGreater(len(verdicts), 0)
        self.assertGreaterEqual(3 * sum(v.by != "" for v in verdicts),
                                len(verdicts))


if __name__ == "__main__":
    unittest.main()
