"""shardc.import_python: recorded files give their rules or refusals, random
programs what the interpreter makes of them, and hostile ones end."""

import json
import os
import re
import sys
import tempfile
import unittest

ROOT = os.environ.get("SHARDC_SOURCE_ROOT", os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "python"),
                os.path.join(ROOT, "tests", "trials")]
from shardc import import_python, logical_axes, patterns  # noqa: E402

import python_programs  # noqa: E402

TABLE = os.path.join(ROOT, "testdata", "tables", "python_sources.txt")


def table():
    """(text of the case without its result, parts, result) of the table."""
    with open(TABLE, encoding="utf-8") as file:
        head, *cases = re.split(r"(?m)^(?=== )", file.read())
    yield head, {}, ""
    for case in cases:
        given, result = case.split("-- result\n")
        parts = {}
        for part in re.split(r"(?m)^-- ", given)[1:]:
            name, text = part.split("\n", 1)
            name, _, line = name.partition(": ")
            parts[name] = line or text
        yield given + "-- result\n", parts, result


def read(parts):
    """What is read, or how it is refused."""
    settings = {}
    if "set" in parts:
        name, value = parts["set"].split("=")
        settings[name] = import_python.setting(value)
    logical = parts["format"] != "python"
    try:
        made = import_python.read(
            parts["source"].encode(), parts.get("symbol", ""), settings,
            parts.get("matching", ""), logical)
    except import_python.Failure as error:
        place = f"{error.line}:{error.column}" if error.line else "-"
        code = import_python.code_of(error).split(" ")[0]
        help_ = f"  {error.help}\n" if error.help else ""
        return f"{code} {place} {error.message}\n{help_}"
    return json.dumps(made) + "\n" if logical else import_python.yaml_text(made)


class Recorded(unittest.TestCase):
    maxDiff = None

    def test_files_give_these_rules_or_findings(self):
        made = []
        for given, parts, result in table():
            if not parts:
                made.append(given)
                continue
            found = read(parts)
            made.append(given + found)
            if "--write" not in sys.argv:
                with self.subTest(given.split("\n")[0]):
                    self.assertEqual(found, result)
        if "--write" in sys.argv:
            with open(TABLE, "w", encoding="utf-8") as file:
                file.write("".join(made))

    def test_a_file_that_is_no_python_is_refused_at_its_line(self):
        for source, line in (
                (b"A = (\n 'a'\n", 1), (b"A = 'a\n", 1), (b"A = [1)\n", 1),
                (b"x\n  y = 1\n", 2), (b"if x\n  y\n", 1), (b"a = \n", 1),
                (b"a = '\\x1'\n", 1), (b"a = $\n", 1), (b"a b\n", 1),
                (b"def f(:\n  pass\n", 1), (b"\n\nA = '''\n", 3),
                (b"x = 1\ny = '\xff'\n", 2), (b"x = '\0'\n", 1)):
            with self.subTest(source), self.assertRaises(
                    import_python.Failure) as refused:
                import_python.read(source)
            self.assertEqual(refused.exception.line, line, source)
        with self.assertRaisesRegex(import_python.Failure, "larger than"):
            import_python.read(b"#" * (5 << 20))


class Programs(unittest.TestCase):
    def test_what_is_read_is_what_the_interpreter_makes(self):
        """A sample; tests/trials/python_programs.py draws any number."""
        first = int(os.environ.get("SHARDC_SEED", "1"))
        count = int(os.environ.get("SHARDC_CASES", "150"))
        counts, wrong = python_programs.compared(range(first, first + count))
        for number, wanted, text, found, expected in wrong:
            self.fail(f"program {number}, `{wanted}`\n{text}{found}\n{expected}")
        self.assertGreater(counts["same"], count // 5)

    def test_code_that_hides_what_it_does_is_refused(self):
        rules = "from jax.sharding import PartitionSpec as P\nR = [('a', P('x'))]\n"
        for line in (
                "exec('R.clear()')", "eval('R.clear()')", "globals()['R'] = []",
                "vars()['R'] = []", "locals().update(R=[])",
                "def f():\n  globals()['R'] = []\nf()",
                "class C:\n  def __getattr__(self, name): R.clear()\nC().x",
                "class C:\n  def __enter__(self): R.clear()\n"
                "  def __exit__(self, *a): pass\nwith C(): pass",
                "class C:\n  def __init_subclass__(cls): R.clear()\n"
                "class D(C): pass",
                "import m\n@m.wrapped\ndef f(): R.clear()\nf()",
                "match m():\n  case 1: R.clear()",
                "import m\nif m.flag: R.clear()",
                "import m\nfor x in m.some(): R.append(x)",
                "import m\nwhile m.flag: R.append(1)",
                "import m\ntry: m.f()\nexcept ValueError: R.clear()",
                "import m\nm.call(R.clear)", "import m\nm.call(lambda: R.clear())",
                "import m\nq = m.same(R)\nq.append(1)",
                "import m\nm.held = R\nm.held.append(1)",
                "import operator\noperator.iadd(R, [1])"):
            with self.subTest(line), self.assertRaises(
                    import_python.Failure) as refused:
                import_python.read((rules + line + "\n").encode(), "R")
            self.assertTrue(refused.exception.line and refused.exception.help)


class Hostile(unittest.TestCase):
    SOURCES = {
        "a chain": "R = " + "+".join(["[1]"] * 20_000),
        "attributes": "R = a" + ".b" * 20_000,
        "calls": "R = f" + "()" * 20_000,
        "brackets": "R = " + "[" * 150 + "]" * 150,
        "signs": "R = " + "-" * 20_000 + "1",
        "an endless loop": "while True: pass",
        "an endless recursion": "def f(n): return f(n)\nR = f(1)",
        "a recursion that doubles": "def f(n): return f(n - 1) + f(n - 2) "
                                    "if n > 1 else []\nR = f(40)",
        "an undecided recursion": "def f(n):\n  if g(): f(n); f(n)\n"
                                  "  return []\nR = f(1)",
        "large numbers": "x = 9 ** 9 ** 9\ny = 1 << 10 ** 9\nz = 2\n"
                         "for i in range(99): z = z * z",
        "wide formats": "x = f'{1:999999999}'\ny = '%999999999d' % 1\n"
                        "z = '{:999999999}'.format(1)\n"
                        "w = '{0:{1}}'.format(1, 999999999)\n"
                        "v = 'a'.zfill(10 ** 9)",
        "a text that grows": "x = 'a' * 1000\n"
                             "for i in range(9): x = x.replace('a', x)",
        "a long list": "x = [0] * 10 ** 12",
        "loops that are not known": "".join(
            "  " * i + f"for x{i} in f():\n" for i in range(8))
            + "  " * 8 + "R.append(1)",
        "a list that is read while it grows": "R = [1]\n"
                                              "for x in R: R.append(x)",
        "a list of itself": "R = []\nR.append(R)\nS = R == R",
        "a generator without end": "def g():\n  while True: yield 1\n"
                                   "R = [x for x in g()]",
        "functions without end": "".join(
            f"def f{i}():\n  while True: pass\n" for i in range(30)),
        "attributes of formats": "x = '{0.__class__}'.format(1)",
    }

    def test_they_end(self):
        rules = "\nRULES = [('a', P('x'))]\n"
        for name, source in self.SOURCES.items():
            with self.subTest(name):
                try:
                    import_python.read((source + rules).encode(), "RULES")
                except import_python.Failure as error:
                    self.assertNotIn("MemoryError", error.message)


class Tables(unittest.TestCase):
    def test_names_that_differ_only_in_numbers_share_a_pattern(self):
        named = [("h.0.up", 1), ("h.1.up", 1), ("h.0.down", 1), ("h.1.down", 2),
                 ("Dense_0", 1), ("layers_0.w", 1), ("layers_1.w", 1)]
        self.assertEqual(
            patterns.folded(named, ".", lambda value: value),
            [(r"^h\.[0-9]+\.up$", 1), (r"^h\.0\.down$", 1),
             (r"^h\.1\.down$", 2), ("^Dense_0$", 1),
             (r"^layers_[0-9]+\.w$", 1)])

    def test_layers_share_a_rule_only_where_all_of_it_is_equal(self):
        head = ("from eformer.common_types import *\n"
                "R = {'h': [{'w': %s}, {'w': %s}]}\n")
        for first, second, count in (
                ("P('tp', None)", "P('tp', None)", 1), ("P()", "P()", 1),
                ("P('tp')", "P(None, 'tp')", 2), ("P('tp')", "P('tp', None)", 2),
                ("P(('a', 'b'))", "P(('b', 'a'))", 2), ("P('a')", "P(A)", 0),
                ("ColumnWise", "ColumnWise", 1), ("ColumnWise", "RowWise", 2),
                ("ColumnWise", "P('tp')", 2), ("P(HEAD)", "P('HEAD')", 2),
                ("m.resolve([HEAD])", "m.resolve([HEAD], MODE_DECODE)", 2),
                ("m.resolve([HEAD], MODE_DECODE)",
                 "m.resolve([HEAD], MODE_INSERT)", 1)):
            source = (head % (first, second)).encode()
            with self.subTest(source):
                if not count:
                    with self.assertRaises(import_python.Failure):
                        import_python.read(source)
                    continue
                self.assertEqual(len(import_python.read(source).rules), count)

    def test_a_bundle_with_the_mode_of_a_shape_is_refused(self):
        head = "from eformer.common_types import *\nR = [('h', m.resolve(%s))]\n"
        for call, refused in (
                ("AttnQSharding, shape=(2, 1, 2, 2)", True),
                ("dynamic_axes=HiddenStateSharding, shape=x.shape", True),
                ("AttnKVSharding", False), ("ColumnWise, shape=(2, 2)", False)):
            source = (head % call).encode()
            with self.subTest(call):
                if refused:
                    with self.assertRaises(import_python.Failure):
                        import_python.read(source)
                    continue
                self.assertEqual(len(import_python.read(source).rules), 1)

    def test_every_axis_rule_has_a_value(self):
        for rule in logical_axes.AXIS_RULES:
            logical_axes.axes_of_rule(rule, {})
        self.assertEqual(logical_axes.axes_of_rule("batch", {}), ["fsdp", "dp"])
        self.assertEqual(
            logical_axes.axes_of_rule("decode_kv_head", {"kv_head": ["x"]}),
            ["x"])

    def test_a_setting_is_a_number_a_truth_or_a_text(self):
        for text, value in (("true", True), ("False", False), ("none", None),
                            ("12", 12), ("x1", "x1")):
            self.assertEqual(import_python.setting(text), value)


class Command(unittest.TestCase):
    def test_nothing_is_written_where_something_is_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            source, out = (os.path.join(folder, n) for n in ("m.py", "r.yaml"))
            with open(source, "w", encoding="utf-8") as file:
                file.write("R = [('a', P(x()))]\n")
            self.assertEqual(import_python.main([source, "-o", out]), 2)
            self.assertEqual(os.listdir(folder), ["m.py"])
            with open(source, "w", encoding="utf-8") as file:
                file.write("R = [('a', P('x'))]\n")
            self.assertEqual(import_python.main([source, "-o", out]), 0)
            self.assertEqual(sorted(os.listdir(folder)), ["m.py", "r.yaml"])
        for flags in (["x", "--set", "a"], ["x", "--mesh", "a:1"],
                      ["x", "--logical"], ["x", "--matching", "any"]):
            with self.assertRaises(SystemExit) as end:
                import_python.main(flags)
            self.assertEqual(end.exception.code, 2)


if __name__ == "__main__":
    unittest.main(argv=[one for one in sys.argv if one != "--write"])
