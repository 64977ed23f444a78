"""Patterns match names beyond ASCII as Python's `re` matches them: random patterns
of classes and word edges on random names, and each class on characters of all of
Unicode. SHARDC_CASES is the number of patterns, and SHARDC_SEED selects others."""

import json
import os
import random
import re
import subprocess
import sys
import unicodedata
import unittest

BIN = os.environ["SHARDC_BIN"]
PATTERNS = int(os.environ.get("SHARDC_CASES", "400"))
SEED = int(os.environ.get("SHARDC_SEED", "89"))
NAMES = 30  # for each pattern

CLASSES = [r"\w", r"\d", r"\s", r"\W", r"\D", r"\S"]
ATOMS = [*CLASSES, *CLASSES, r"\b", r"\b", r"\B", "a", "k", "é", "/", r"\.", "_", ".",
         "1", "[a-z]", "^", "$"]
# An accented letter and its two characters, digits and numbers of other scripts,
# ideographs, spaces, symbols, and letters with another case beyond ASCII.
LETTERS = ["a", "k", "K", "1", "_", ".", "-", "/", "é", "e\u0301", "ß", "ſ", "\u212a",
           "٣", "²", "Ⅷ", "日", "本", "\u00a0", "\u3000", "€", "😀", "𝔘", "ǅ", "ª"]


def draw_class(rng):
    inner = "".join(rng.choice([*CLASSES, "a", "é", "_", "0-9", "."])
                    for _ in range(rng.randrange(1, 3)))
    return f"[{'^' if rng.random() < 0.4 else ''}{inner}]"


def draw_pattern(rng):
    text = ""
    for _ in range(rng.randrange(1, 6)):
        atom = draw_class(rng) if rng.random() < 0.2 else rng.choice(ATOMS)
        if atom not in ("^", "$", r"\b", r"\B") and rng.random() < 0.35:
            atom += rng.choice(["+", "*", "?", "{2}"])
        text += atom
    # The case of letters beyond ASCII is RE2's, whose word edges are ASCII.
    edges = r"\b" in text or r"\B" in text
    if rng.random() < 0.15 and not (edges and "é" in text):
        text = f"(?i:{text})"
    if rng.random() < 0.2:
        text = f"(?:{text})|{rng.choice(ATOMS[:13])}"
    return text


def draw_name(rng):
    return "".join(rng.choice(LETTERS) for _ in range(rng.randrange(1, 8))).strip(
        "/").replace("//", "/") or "é"


def matched(inputs):
    """For each pair of a pattern and names: the names that the pattern matches."""
    asked = [{"rules": {"separator": "/", "rules": [
        {"match": pattern, "spec": ["tp"]}, {"match": "", "spec": []}]},
              "tree": {name: {"shape": [8], "dtype": "F32"} for name in names},
              "implementation": "fjformer"} for pattern, names in inputs]
    done = subprocess.run([BIN, "eval", "match_partition_rules"],
                          input=json.dumps(asked), capture_output=True, check=False,
                          encoding="utf-8")
    assert done.returncode == 0, done.stderr
    for answer, (pattern, _) in zip(json.loads(done.stdout), inputs, strict=True):
        assert "result" in answer, (pattern, answer)
        yield {name for name, spec in answer["result"]["specs"].items()
               if spec == ["tp"]}


def undecayed(inputs):
    """For each pair of a pattern and names: the names without weight decay."""
    asked = [{"exclusions": [pattern], "tree": {
        name: {"shape": [8], "dtype": "F32"} for name in names}}
        for pattern, names in inputs]
    done = subprocess.run([BIN, "eval", "get_weight_decay_mask"],
                          input=json.dumps(asked), capture_output=True, check=False,
                          encoding="utf-8")
    assert done.returncode == 0, done.stderr
    for answer in json.loads(done.stdout):
        yield {name for name, decays in answer["result"]["mask"].items()
               if not decays}


def found_by_python(pattern, names):
    return {name for name in names if re.search(pattern, name)}


class PythonPatterns(unittest.TestCase):
    def test_random_patterns_match_random_names_as_in_python(self):
        rng = random.Random(SEED)
        inputs = [(draw_pattern(rng), sorted({draw_name(rng) for _ in range(NAMES)}))
                  for _ in range(PATTERNS)]
        wrong, cases, hits = [], 0, 0
        for (pattern, names), ours, kept in zip(
                inputs, matched(inputs), undecayed(inputs), strict=True):
            wanted = found_by_python(pattern, names)
            cases += len(names)
            hits += len(wanted)
            wrong += [(pattern, name) for name in wanted ^ ours]
            wrong += [(pattern, name) for name in wanted ^ kept]
        print(f"{cases} names, {hits} found")
        self.assertEqual(wrong[:10], [], len(wrong))
        self.assertLess(cases / 10, hits)
        self.assertLess(hits, cases * 9 / 10)

    def test_each_class_has_the_characters_of_python(self):
        """Those that this Python knows: its version of Unicode may be earlier."""
        rng = random.Random(SEED)
        # The program refuses control characters in names.
        known = [chr(point) for point in range(0x21, 0x110000)
                 if unicodedata.category(chr(point)) not in ("Cn", "Cs", "Cc")
                 and chr(point) != "/"]
        letters = rng.sample(known, 4000) + [
            letter for letter in known
            if letter.isdigit() or letter.isspace() or letter.isnumeric()]
        names = sorted(set(letters))
        inputs = [(f"^{one}$", names) for one in CLASSES]
        for (pattern, _), ours in zip(inputs, matched(inputs), strict=True):
            with self.subTest(pattern):
                wrong = found_by_python(pattern, names) ^ ours
                self.assertEqual(sorted(map(ascii, wrong))[:5], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
