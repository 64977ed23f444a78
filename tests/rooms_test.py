"""Which room may include which: this table is the only copy in code.

One header of each room, its main one, begins with a paragraph that names the
room and ends with the rooms that it includes, as this table has them:

    // Directory: comm. Formulas of the bytes that devices send and hold.
    // Its files include headers of these directories: source, model.

`rooms_test.py --write` rewrites these last lines.
"""

import os
import re
import sys
import textwrap
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
SRC = os.path.join(ROOT, "src")
# Rooms from the bottom up: a room knows only rooms above its own line.
# Inner rooms (exec/kernels) are rooms of their own. All that a row names is used.
MAY_INCLUDE = {
    "source": set(),
    "model": {"source"},
    "floats": {"model"},
    "yaml": {"source"},
    "devices": {"source", "yaml"},
    "parse": {"source", "devices", "model", "yaml"},
    "stored": {"source", "model", "floats"},
    "hlo": {"source"},
    "importers": {"source", "model", "stored"},
    "importers/rules": {"source", "model", "yaml", "hlo", "importers"},
    "match/automaton": {"source"},
    "match": {"source", "match/automaton"},
    "match/proof": {"match", "match/automaton"},
    "program": {"source", "model"},
    "families": {"source", "model", "yaml", "parse", "match", "program"},
    "resolve": {"source", "model"},
    "legalize": {"source", "model"},
    "roles": {"source", "model", "program"},
    "comm": {"source", "model"},
    "schedule": {"source"},
    "step": {"source", "model", "families", "match", "resolve", "roles", "comm"},
    "facts": {"source", "model", "resolve", "roles", "program", "step"},
    "systems": {"source", "model", "yaml", "parse", "families", "match",
        "roles", "facts"},
    "plan": {"source", "model", "match", "resolve", "legalize", "roles",
        "program", "comm", "schedule", "step", "facts"},
    "plan/difference": {"source", "model", "comm", "plan"},
    "lint/analysis": {"source", "model", "parse", "match", "resolve", "legalize",
        "roles", "program", "comm", "schedule", "step", "facts", "plan"},
    "lint/rules": {"source", "model", "match", "match/proof", "resolve",
        "roles", "program", "comm", "step", "facts", "plan", "lint/analysis"},
    "lint": {"source", "model", "yaml", "match", "facts", "plan", "plan/difference",
        "lint/analysis", "lint/rules"},
    "checkpoint": {"source", "model", "floats", "stored", "importers", "plan"},
    "target": {"source", "model", "parse", "families", "importers", "match",
        "resolve", "roles", "systems", "program", "facts", "plan"},
# What judges exec knows nothing of it.
    "dense": {"source", "model"},
    "dense/program": {"source", "program", "dense"},
    "exec/kernels": {"source", "model", "floats"},
    "exec/machine": {"source", "model", "floats", "comm", "exec/kernels"},
    "exec/attention": {"source", "model", "floats", "comm", "exec/kernels",
        "exec/machine"},
    "exec/cache": {"source", "floats", "exec/kernels", "exec/machine"},
    "exec/pages": {"source", "floats", "exec/kernels", "exec/machine",
        "exec/attention"},
    "exec/operations": {"source", "model", "floats", "comm", "exec/machine",
        "exec/attention", "exec/pages"},
    "exec/step": {"source", "model", "comm", "step", "exec/kernels",
        "exec/machine", "exec/attention", "exec/operations"},
    "exec/program": {"source", "program", "comm", "exec/kernels",
        "exec/machine"},
    "eval": {"source", "model", "parse", "importers", "resolve", "legalize",
        "plan", "dense", "exec/kernels", "exec/machine", "exec/attention",
        "exec/cache"},
    "verify/cases": {"source", "model", "floats", "resolve", "legalize",
        "dense", "exec/machine", "exec/attention", "exec/pages",
        "exec/operations"},
    "verify/judge": {"source", "floats", "comm", "dense", "exec/machine",
        "exec/attention", "verify/cases"},
    "verify/traces": {"source", "model", "floats", "comm", "dense",
        "exec/machine", "exec/attention", "exec/cache", "exec/pages",
        "exec/operations", "verify/cases", "verify/judge"},
    "verify": {"source", "exec/machine", "verify/cases", "verify/judge",
        "verify/traces"},
    "verify/step": {"source", "model", "comm", "schedule", "step", "plan",
        "dense", "exec/machine", "exec/step", "exec/operations", "verify/cases",
        "verify/judge"},
    "verify/program": {"source", "model", "program", "comm", "dense/program",
        "exec/machine", "exec/program", "verify/judge"},
    "cost": {"source", "devices", "model", "resolve", "legalize", "roles", "program", "comm",
        "schedule", "step", "facts", "plan", "exec/machine", "exec/attention",
        "exec/operations", "exec/step"},
    "suggest": {"source", "model", "match", "roles", "program", "facts", "plan"},
    "search": {"source", "model", "roles", "schedule", "facts", "plan",
        "cost", "suggest"},
    "audit": {"source", "devices", "model", "hlo", "importers/rules", "comm",
        "cost"},
    "kv": {"source", "model", "plan"},
    "verify/kv": {"source", "model", "plan", "dense", "exec/machine", "kv"},
    "picture": {"source", "model", "roles", "comm", "facts", "plan"},
    "emit": {"source", "model", "plan"},
    "emit/findings": {"source", "lint/rules", "emit"},
    "emit/verify": {"source", "model", "floats", "comm", "exec/machine",
        "verify/cases", "verify/judge", "verify", "verify/step",
        "verify/program", "emit"},
    "emit/exports": {"source", "model", "devices", "roles", "systems", "program",
        "schedule", "facts", "plan"},
    "emit/plans": {"source", "model", "roles", "comm", "facts", "match/proof", "plan",
        "plan/difference", "emit", "emit/findings"},
    "emit/costs": {"source", "devices", "model", "cost", "search", "emit"},
    "emit/audits": {"source", "audit", "emit/costs", "emit/findings"},
    "emit/kv": {"source", "kv", "verify/kv", "emit"},
    "emit/pictures": {"source", "model", "picture"},
    "emit/schedules": {"source", "schedule", "emit", "emit/pictures"},
    "emit/programs": {"source", "program"},
    "emit/step_programs": {"source", "model", "program", "exec/step"},
    "emit/report": {"source", "model", "comm", "plan/difference", "cost", "audit",
        "picture", "emit/costs", "emit/audits", "emit/findings",
        "emit/pictures", "emit/schedules"},
    "lsp": {"source", "devices", "model", "yaml", "parse", "resolve", "plan",
        "lint/analysis", "lint/rules", "lint", "target", "emit/findings"},
    "cli": {"source", "devices", "model", "schedule", "emit/schedules", "stored", "parse", "families", "importers/rules", "match",
        "match/proof", "resolve",
        "legalize", "systems", "program", "facts", "step", "plan", "plan/difference", "lint/analysis",
        "lint/rules", "lint", "checkpoint", "target", "exec/machine", "exec/operations", "verify/cases",
        "verify", "verify/step", "verify/program", "eval", "emit", "emit/findings",
        "emit/verify", "emit/exports", "emit/plans", "cost", "emit/costs",
        "search", "hlo", "audit", "emit/audits", "kv", "verify/kv", "emit/kv", "picture", "emit/pictures", "emit/programs", "emit/step_programs", "emit/report", "suggest", "lsp"},
    # Precompiled; no source includes it.
    "pch": {"legalize", "lint/analysis", "lint/rules", "model", "plan", "source"},
}

# Headers of other projects, and the rooms that may include them.
THIRD_PARTY = {
    "CLI": {"cli"},
    "arm_acle.h": {"stored"},
    "asm": {"floats", "stored"},
    "cpuid.h": {"floats"},
    "dlfcn.h": {"cli"},
    "emmintrin.h": {"source"},
    "hwy": {"exec/kernels", "floats", "stored"},
    "immintrin.h": {"exec/kernels"},
    "malloc.h": {"source"},
    "mpi.h": {"cli"},
    "nlohmann": {"source"},
    "openssl": {"source"},
    "re2": {"match"},
    "stdlib.h": {"source"},
    "string.h": {"checkpoint", "source"},
    "yaml-cpp": {"yaml"},
    "zlib.h": {"source", "stored"},
    "zstd.h": {"stored"},
}

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.M)
# Made by the build, or next to the source that includes it.
GENERATED = {"cli/commands.h", "cli/version.h", "lint/rules/all.h"}


def room_of(path):
    return path.rpartition("/")[0]


class Source:
    """All includes of src, read once."""

    def __init__(self):
        self.files = set(GENERATED)
        self.ours = []      # (file, its room, the room it includes, header)
        self.foreign = []   # (file, its room, header)
        for folder, _, names in os.walk(SRC):
            for name in names:
                if not name.endswith((".h", ".cc")):
                    continue
                path = os.path.join(folder, name)
                file = os.path.relpath(path, SRC).replace(os.sep, "/")
                self.files.add(file)
                with open(path, encoding="utf-8") as text:
                    self.read(file, text.read())

    def read(self, file, text):
        for ours, foreign in INCLUDE.findall(text):
            if ours:
                self.ours.append((file, room_of(file), room_of(ours), ours))
            elif "/" in foreign or foreign.endswith(".h"):
                self.foreign.append((file, room_of(file), foreign))

# The headers of the system, which any room may use.
SYSTEM = re.compile(r"(sys/\w+|unistd|fcntl|dirent|errno|signal|poll|"
                    r"termios)\.h$")

# The paragraph that names a room, and its last sentence.
ROOM = re.compile(r"// Directory: ([\w/]+)\. .*\n(?:// .*\n)*")
INCLUDES = re.compile(r"^// Its files include headers of [^.]*\.\n", re.M)


def includes_line(room):
    """The last sentence of the paragraph of a room's main header."""
    others = [other for other in MAY_INCLUDE if other in MAY_INCLUDE[room]]
    sentence = "Its files include headers of " + (
        "these directories: " + ", ".join(others) if others
        else "no other directory")
    lines = textwrap.wrap(
        sentence + ".", 77, break_long_words=False, break_on_hyphens=False)
    return "".join(f"// {line}\n" for line in lines)


def main_headers():
    """{room: [(path, text, its paragraph)]}, of headers that name a room."""
    found = {room: [] for room in MAY_INCLUDE}
    for room in MAY_INCLUDE:
        folder = os.path.join(SRC, room)
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".h"):
                continue
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            match = ROOM.match(text)
            if match:
                found[room].append((path, text, match))
    return found


def write():
    for room, headers in main_headers().items():
        for path, text, match in headers:
            opening = match.group()
            new = INCLUDES.sub("", opening) + includes_line(room)
            if new != opening:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(new + text[len(opening):])


class Rooms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.source = Source()

    def test_every_folder_is_a_room(self):
        self.assertEqual({room_of(file) for file in self.source.files},
                         set(MAY_INCLUDE))

    def test_includes_follow_the_table(self):
        self.assertTrue(self.source.ours)
        for file, room, other, header in self.source.ours:
            self.assertIn(header, self.source.files, file)
            if other != room:
                self.assertIn(other, MAY_INCLUDE[room],
                              f"{file} includes {header}")

    def test_the_table_lists_only_what_is_used(self):
        used = {room: set() for room in MAY_INCLUDE}
        for _, room, other, header in self.source.ours:
            if other != room:
                used[room].add(other)
        self.assertEqual(used, MAY_INCLUDE)

    def test_main_headers_list_what_their_room_includes(self):
        for room, headers in main_headers().items():
            with self.subTest(room):
                if not any(file.endswith(".h") and room_of(file) == room
                           for file in self.source.files):
                    continue
                self.assertEqual(
                    [match.group(1) for _, _, match in headers], [room],
                    "one header of the room begins with `// Directory: NAME.`")
                opening = headers[0][2].group()
                self.assertTrue(
                    opening.endswith(includes_line(room)),
                    f"{headers[0][0]}:\n{opening}should end with\n"
                    f"{includes_line(room)}"
                    "`tests/rooms_test.py --write` rewrites it")

    def test_rooms_know_only_those_above_them(self):
        above = set()
        for room, others in MAY_INCLUDE.items():
            self.assertLessEqual(others, above, room)
            above.add(room)

    def test_third_party_headers_stay_in_their_room(self):
        used = {folder: set() for folder in THIRD_PARTY}
        for file, room, header in self.source.foreign:
            if SYSTEM.match(header):
                continue
            folder = header.partition("/")[0]
            self.assertIn(folder, THIRD_PARTY, f"{file}: {header}")
            self.assertIn(room, THIRD_PARTY[folder], f"{file}: {header}")
            self.assertTrue(
                file.endswith(".cc") or file.endswith("_simd-inl.h"),
                f"{file}: {header} in a header")
            used[folder].add(room)
        self.assertEqual(used, THIRD_PARTY)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
        sys.exit()
    unittest.main(argv=[sys.argv[0]])
