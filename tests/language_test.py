"""The project's prose uses the terms of its field. This test reads comments and
string literals of C++ and Python, titles of tests, the documentation, the
manual and the texts of `--help`, and fails on a word of TERMS, naming the
file, the line and the term to use.

Not read: code, text in backticks and code blocks (both quote identifiers or
output, whose words are string literals of the source), string literals without
a space (keys, names and patterns), and what QUOTED lists: text of other
systems, and words that have their everyday meaning in one place.

`language_test.py --list [PATH...]` lists what is found below the paths.
"""

import bisect
import io
import json
import os
import re
import sys
import tokenize
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# (pattern, what to write instead). Case does not count, and a space in a
# pattern stands for any white space.
TERMS = [
    (r"\b(lies|lie|lain)\b|\blay\b(?! out)", "is sharded, is stored, is in"),
    (r"\b(tells?|told|telling)\b",
     "reports, names, lists; infers, distinguishes"),
    (r"\b(says|said)\b", "prints, reports, returns, states"),
    (r"\basks\b|\b(is|are|was|were|be) asked\b",
     "requests, requires, checks, calls"),
    (r"\bpending\b", "partial over AXIS"),
    (r"\bwish(es|ed|ing)?\b", "preferred sharding"),
    (r"\banew\b", "again, recomputed"),
    (r"\bturned\b(?! (on|off|into|out)\b)", "transposed, rotated"),
    (r"\bwitness(es|ed)?\b", "reduced case, example"),
    (r"\bnotic(e|es|ed|ing)\b", "detects, detected"),
    (r"\bbeside\b", "next to, and"),
    (r"\bbegun\b", "started"),
    (r"\balike\b", "the same, identical"),
    (r"\banchors?\b", "sharding constraint"),
    (r"\bclash(es|ed|ing)?\b", "sharding conflict"),
    (r"\bsabotag\w*", "injected fault"),
    (r"\bwholly on\b|\b(lie|lies|lay|is|are|stay|stays|left|leave|leaves|leaving|"
     r"kept|keep|keeps|held|hold|holds|be) whole\b|\bwhole on\b|"
     r"\bwhole over\b|\bwhole dimension", "replicated, unsharded, gathered"),
    (r"\b(is|are|was|were|be|been|being|not|never) cut\b(?! (off|short))|"
     r"\bcuts? (over|across|by|along|inside|into)\b|\bcut (dimension|parameter|"
     r"tensor|array|matri|weight|head|batch|length)", "sharded, split"),
    (r"\b(bring|brings|bringing|brought)\b(?! (\w+ ){1,4}up to date)",
     "reshard, make, write"),
    (r"\bat best\b", "lowest, cheapest"),
    (r"\bideal split\b|\beven share\b", "fully sharded size"),
    (r"\boff by\b", "error, differs by"),
    (r"\bstands without\b", "is missing"),
    (r"\bgoes wrong\b", "fails, is malformed"),
    (r"\bmatrix products?\b", "matmul"),
    (r"\bpieces?\b", "shard, part, region"),
    (r"\bheld (to|against)\b|\bholds? .{1,30} against\b", "compared with"),
]

# (path, pattern): text that is left out before TERMS are looked for.
QUOTED = [
    # What is no shard of a tensor: a part of a file, of a transfer or of a text.
    (r"(src|tests|python|bench|playground)/", r"\bpieces?\b"),
    # The anchors of patterns (`^`, `$`), of YAML (`&a`) and of HTML links.
    (r"", r"\banchors? ((of|in) )?(a |the )?(pattern|YAML)s?|"
          r"\b(pattern|YAML|regex|link)s?' anchors?"),
    (r"src/yaml/|tests/parse/mesh_messages", r"\banchors?\b"),
    # The spelling of shardings in shardc.step/v1, which holds still.
    (r"tests/step/lower_test\.cc$", r"k:tp1 pending tp2"),
    # The sharding of a partial value in a step program, a committed format.
    (r"", r"\bpending (tp|dp|fsdp|sp|ep)\w*(\+\w+)*"),
    # The fixed name of SHD237.
    (r"", r"clash-moves-activation"),
    # A notice of copyright, the file of them, and the level of GitHub's annotations.
    (r"", r"\b(copyright|license) notices?|THIRD-PARTY-NOTICES|(?-i:NOTICE)|::notice|`notice`|\|notice\)"),
]

SKIPPED = {"build", ".git", "__pycache__", "node_modules"}
BACKTICKS = re.compile(r"`[^`\n]*`")


class Prose:
    """Text with the line that each character comes from."""

    def __init__(self):
        self.text = ""
        self.starts, self.lines = [], []

    def add(self, line, text):
        for number, part in enumerate(text.split("\n")):
            self.starts.append(len(self.text))
            self.lines.append(line + number)
            self.text += part + "\n"

    def line(self, offset):
        return self.lines[bisect.bisect_right(self.starts, offset) - 1]


CPP = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\((?P<raw>.*?)\)\1"|'
    r'"(?P<string>(?:\\.|[^"\\\n])*)"|\'(?:\\.|[^\'\\\n])+\'', re.S)


def cpp(source):
    """Comments; neighbouring string literals as one."""
    strings = []  # (line, text) of literals with only white space between
    end = 0
    line, at = 1, 0
    for match in CPP.finditer(source):
        line += source.count("\n", at, match.start())
        at = match.start()
        between = source[end:match.start()]
        end = match.end()
        text = match.group("string")
        if text is None:
            text = match.group("raw")
        if text is not None:
            if source[source.rfind("\n", 0, at) + 1:at].lstrip().startswith(
                    "#include"):
                continue
            if between.strip():
                yield from joined(strings)
                strings = []
            strings.append((line, text.replace("\\n", " ")))
        elif not match.group().startswith("'"):
            yield line, re.sub(r"(?m)^\s*(//+|/\*|\*/?)", "",
                               match.group()), "comment"
    yield from joined(strings)


def joined(strings):
    text = "".join(part for _, part in strings)
    if " " in text.strip():
        lines = "\n".join(part for _, part in strings)
        yield strings[0][0], lines if len(strings) > 1 else text, "string"


def python(source):
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "COMMENT":
            yield token.start[0], token.string.lstrip("#"), "comment"
        elif kind in ("STRING", "FSTRING_MIDDLE"):
            if " " in token.string.strip():
                yield token.start[0], token.string, "string"
        elif kind == "NAME" and token.string.startswith("test_"):
            yield token.start[0], token.string.replace("_", " "), "title"


def markdown(source):
    """All but blocks of code, keeping line numbers."""
    inside = False
    for number, line in enumerate(source.split("\n"), 1):
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            yield number, re.sub(r"\]\([^)]*\)", "]", line), "comment"


def mdoc(source):
    """Text, and arguments of macros that are prose."""
    inside = False
    for number, line in enumerate(source.split("\n"), 1):
        if line.startswith((".Bd", ".Ed")):
            inside = line.startswith(".Bd")
        elif not inside and not re.match(
                r"\.(Cm|Ic|Fl|Ar|Pa|Xr|Nm|Ql|Bl|\\\")", line):
            yield number, re.sub(r"^\.[A-Z][a-z] ", "", line), "comment"


def commands(source):
    """Every text of the options and commands, on the line where it is."""
    for number, line in enumerate(source.split("\n"), 1):
        for text in re.findall(r'"(?:about|summary|help)": ("(?:\\.|[^"])*")',
                               line):
            yield number, json.loads(text), "string"


def hashed(source):
    """Comments of YAML, meson and shell."""
    for number, line in enumerate(source.split("\n"), 1):
        found = re.match(r"\s*#(.*)", line)
        if found:
            yield number, found.group(1), "comment"


READERS = {".cc": cpp, ".h": cpp, ".py": python, ".md": markdown,
           ".in": mdoc, ".1": mdoc, ".5": mdoc, ".7": mdoc, ".yaml": hashed,
           ".build": hashed}


def reader(path):
    if path.endswith("commands.json"):
        return commands
    return READERS.get(os.path.splitext(path)[1])


def prose(path, source):
    """A file's prose: comments that follow one another are one text."""
    texts = []
    last = None
    for line, text, kind in reader(path)(source):
        text = BACKTICKS.sub(lambda m: "`" * len(m.group()), text)
        if not (kind == "comment" and last == ("comment", line)):
            texts.append(Prose())
        texts[-1].add(line, text)
        last = (kind, line + text.count("\n") + 1)
    return texts


def found(path, source):
    """(line, words, what to write instead) of each word of TERMS."""
    quoted = [re.compile(pattern, re.I) for where, pattern in QUOTED
              if re.match(where, path)]
    for text in prose(path, source):
        kept = text.text
        for pattern in quoted:
            kept = pattern.sub(lambda m: "`" * len(m.group()), kept)
        for pattern, instead in COMPILED:
            for match in pattern.finditer(kept):
                yield (text.line(match.start()),
                       " ".join(match.group().split()), instead)


COMPILED = [(re.compile(pattern.replace(" ", r"\s+"), re.I), instead)
            for pattern, instead in TERMS]


def files():
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(name for name in folders
                            if name not in SKIPPED
                            and not name.startswith("build")
                            and (folder != ROOT or not name.startswith(".")))
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), ROOT)
            # Of test data only the descriptions are prose.
            if path.startswith("testdata") and not name.endswith(".md"):
                continue
            if reader(path) and path != os.path.join("tests",
                                                     "language_test.py"):
                yield path


def report(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        source = file.read()
    return [f"{path}:{line}: `{words}`: write {instead}"
            for line, words, instead in sorted(found(path, source))]


class Language(unittest.TestCase):
    def test_no_file_has_a_word_that_has_a_term(self):
        lines = [line for path in files() for line in report(path)]
        self.assertFalse(lines, "\n" + "\n".join(lines[:100]))

    def test_each_kind_of_text_is_read(self):
        for path, source, line in [
                ("a.cc", '// It is\n// pending.\nint x;', 2),
                ("a.cc", 'int pending;', None),
                ("a.cc", 'f("is pending");', 1),
                ("a.cc", 'f("the batch is"\n  " cut by tp");', 1),
                ("a.cc", 'f("pending");  // `pending`', None),
                ("a.cc", 'f(R"(a\nis pending)");', 2),
                ("a.cc", '#include "pending room"', None),
                ("a.py", '"""A.\n\nIt is pending.\n"""', 3),
                ("a.py", 'def test_it_is_pending(): pass', 1),
                ("a.py", 'pending = "pending"  # open', None),
                ("a.md", 'a\n```\npending\n```\npending', 5),
                ("a.md", 'a [b](pending.md)', None),
                ("a.5", '.Cm pending\nIt is pending.', 2),
                ("commands.json", '{"help": "what is pending"}', 1),
                ("a.yaml", 'match: pending\n# pending', 2)]:
            with self.subTest(path=path, source=source):
                self.assertEqual([n for n, _, _ in found(path, source)],
                                 [] if line is None else [line])


def main(arguments):
    paths = [one.rstrip("/") for one in arguments]
    count = 0
    for path in files():
        if any(path == one or path.startswith(one + "/") for one in paths):
            for line in report(path):
                print(line)
                count += 1
    print(count, "found", file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--list"]:
        main(sys.argv[2:])
    else:
        unittest.main()
