"""Which room may include which: this table is the only copy in code."""

import os
import re
import sys
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
SRC = os.path.join(ROOT, "src")

BASE = {"source", "model"}
PIPELINE = BASE | {"parse", "match", "resolve", "legalize"}
MAY_INCLUDE = {
    "source": set(),
    "model": {"source"},
    "parse": BASE,
    "match": BASE,
    "importers": BASE,
    "resolve": BASE,
    "legalize": BASE,
    "plan": BASE | {"match", "resolve", "legalize"},  # only compile.*
    "lint": PIPELINE | {"plan"},
    "emit": BASE | {"resolve", "legalize", "plan", "lint", "verify"},
    "checkpoint": BASE | {"importers", "legalize", "plan"},
    "exec": BASE | {"plan", "resolve", "legalize"},
    "verify": BASE | {"plan", "resolve", "legalize", "exec"},
    "cli": PIPELINE | {"plan", "lint", "importers", "emit",
                       "checkpoint", "exec", "verify"},
}

# Third-party headers stay behind our own, in the rooms named.
THIRD_PARTY = {
    r"yaml-cpp/": {"parse"},
    r"re2/": {"match"},
    r"CLI/": {"cli"},
    r"hwy/": {"exec", "checkpoint"},
    r"nlohmann/": {"source"},
    r"openssl/": {"source"},
}

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([a-z_0-9]+)/|<([^>]+)>)', re.M)


def files():
    for folder, _, names in os.walk(SRC):
        for name in names:
            if name.endswith((".h", ".cc")):
                path = os.path.join(folder, name)
                yield os.path.relpath(path, SRC).replace(os.sep, "/"), path


class Rooms(unittest.TestCase):
    def test_every_folder_is_a_room(self):
        folders = {n for n in os.listdir(SRC)
                   if os.path.isdir(os.path.join(SRC, n))}
        self.assertEqual(folders, set(MAY_INCLUDE))

    def test_includes_follow_the_table(self):
        seen = 0
        for name, path in files():
            room = name.split("/")[0]
            for match in INCLUDE.finditer(open(path).read()):
                other = match.group(1)
                if other is None or other == room:
                    continue
                seen += 1
                self.assertIn(other, MAY_INCLUDE[room],
                              f"{name} includes room {other}")
        self.assertGreater(seen, 0)

    def test_third_party_headers_stay_in_their_room(self):
        for name, path in files():
            room = name.split("/")[0]
            for match in INCLUDE.finditer(open(path).read()):
                header = match.group(2)
                for pattern, rooms in THIRD_PARTY.items():
                    if header and re.match(pattern, header):
                        self.assertIn(room, rooms, f"{name}: {header}")
                        self.assertFalse(name.endswith(".h"),
                                         f"{name}: {header} in a header")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
