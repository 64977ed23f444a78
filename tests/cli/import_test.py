"""`shardc import`: Python source in every style gives the rules that it
holds, and what cannot be read is reported at its place, with nothing written."""

import json
import os
import random
import tempfile
import unittest

import yaml

from driver import TESTDATA, Case, run
from python_rules import imported

RULES = os.path.join(TESTDATA, "corpus", "rules")


def corpus():
    """(name, [(pattern, spec)]) of the public rule sets with patterns."""
    for name in sorted(os.listdir(RULES)):
        data = read_json(os.path.join(RULES, name))
        if data and "glob" not in data["rules"][0]:
            yield name, [(rule["pattern"], rule["spec"])
                         for rule in data["rules"]]


def read_json(path):
    if not path.endswith(".json"):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Writer:
    """Rules as Python source, in a style that a seed draws."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.spec_name = self.rng.choice(["PS", "P", "PartitionSpec",
                                          "jax.sharding.PartitionSpec"])
        self.constants = {}

    def text(self, value):
        """A string literal, perhaps raw, in parts, or with escapes."""
        quote = self.rng.choice("'\"")
        if quote in value:
            return repr(value)
        if self.rng.random() < 0.2 and len(value) > 3:
            at = self.rng.randrange(1, len(value))
            first, second = self.text(value[:at]), self.text(value[at:])
            join = self.rng.choice([" ", " + ", "\n        "])
            if "(" in (first[0], second[0]):
                join = " + "
            if value[at - 1] != "\\":
                return f"({first}{join}{second})"
        if self.rng.random() < 0.5 and not value.endswith("\\"):
            return f"r{quote}{value}{quote}"
        escaped = value.replace("\\", "\\\\")
        return f"{quote}{escaped}{quote}"

    def axis(self, name):
        if self.rng.random() < 0.15:
            constant = "AXIS_" + name.upper()
            self.constants[constant] = repr(name)
            return constant
        return self.text(name)

    def entry(self, entry):
        if entry is None:
            return "None"
        if isinstance(entry, str):
            return self.axis(entry)
        inside = ", ".join(self.axis(axis) for axis in entry)
        return self.rng.choice([f"({inside},)", f"[{inside}]"])

    def spec(self, spec):
        if isinstance(spec, str):
            return f"pmag.resolve({spec})"
        inside = ", ".join(map(self.entry, spec))
        if len(spec) > 1 and self.rng.random() < 0.05:
            return f"{self.spec_name}(*({inside},))"
        return f"{self.spec_name}({inside})"

    def rules(self, rules, indent):
        pad = " " * indent
        lines = []
        for pattern, spec in rules:
            if self.rng.random() < 0.1:
                lines.append(f"{pad}    # about {len(lines)}")
            lines.append(f"{pad}    ({self.text(pattern)}, "
                         f"{self.spec(spec)}),")
        body = "\n".join(lines)
        return self.rng.choice(["(\n{}\n{})", "[\n{}\n{}]"]).format(body, pad)

    def module(self, rules):
        """(source, symbol, flags)"""
        style = self.rng.choice(["constant", "attribute", "return", "choice",
                                 "branch", "grown"])
        made = self.rules(rules, 8)
        other = "((r'.*', PartitionSpec('never')),)"
        flags = []
        if style == "constant":
            body, symbol = f"RULES = {made}\n", "RULES"
        elif style == "attribute":
            body = f"class Config:\n    rules: tuple = {made}\n"
            symbol = "Config.rules"
        else:
            symbol = "Config.get_partition_rules"
            head = ("class Config(Base):\n    @property\n"
                    "    def get_partition_rules(self, full: bool = True,"
                    " *args, **kwargs):\n        '''What: (it) returns.'''\n"
                    "        pmag = self.partition_manager\n")
            if style == "return":
                body = head + f"        return {made}\n"
            elif style == "choice":
                body = head + f"        return {made} if full else {other}\n"
            elif style == "grown":
                at = self.rng.randrange(len(rules) + 1)
                body = head + (
                    f"        rules = list({self.rules(rules[:at], 8)})\n"
                    f"        rules += {self.rules(rules[at:], 8)}\n"
                    "        return tuple(rules)\n")
            else:
                flags = ["--set", "full=false"]
                body = head + (
                    f"        if full:\n            return {other}\n"
                    f"        else:\n            return {made}\n")
        constants = "".join(f"{name} = {value}\n"
                            for name, value in self.constants.items())
        return ("import jax\nfrom jax.sharding import PartitionSpec\n"
                f"{constants}\n{body}", symbol, flags)


def written(spec):
    """As shardc writes it: a group of one is its axis."""
    if isinstance(spec, str):
        return spec
    return [e[0] if isinstance(e, list) and len(e) == 1 else e for e in spec]


class Imports(Case):
    def python(self, source, *flags, rc=0):
        return self.check(imported("-", *flags, stdin=source), rc)

    def refused(self, source, *flags, said, line=None, name=None):
        result = self.python(source, *flags, rc=2)
        self.assertEqual(result.out, "")
        self.assertIn(said, result.err)
        if line:
            self.assertRegex(result.err, rf"-->.*:{line}:")
        if name:
            self.assertIn(f" {name}]", result.err)

    def test_public_rule_sets_in_any_style_come_back(self):
        compared = sets = 0
        for number, (name, rules) in enumerate(corpus()):
            for seed in (number, 1000 + number):
                source, symbol, flags = Writer(seed).module(rules)
                result = self.python(source, "--symbol", symbol, "--format",
                                     "json", *flags).json()
                self.assertEqual(
                    [(rule["match"], rule["spec"])
                     for rule in result["rules"]],
                    [(pattern, written(spec)) for pattern, spec in rules],
                    (name, seed))
                compared += len(rules)
                sets += 1
        self.assertGreater(sets, 100)
        self.assertGreater(compared, 1000)

    def test_comments_come_along(self):
        text = self.python(
            "# not this one\nx = 1\nRULES = [\n"
            "  # the table\n  #: of words\n"
            "  ('wte', PS('tp', None)),  # large\n"
            "  ('b',  # inside\n    PS()),\n]  # not this\n").out
        self.assertEqual(text, (
            "# From `RULES`.\nversion: 1\nseparator: \"/\"\nrules:\n"
            "  # the table\n  # : of words\n  # large\n"
            "  - match: 'wte'\n    spec: [tp, null]\n"
            "  # inside\n  - match: 'b'\n    spec: []\n"))

    def test_axes_come_along(self):
        text = self.python(
            "PAXIS = PartitionAxis(head_axis='tp', batch_axis=('fsdp', 'dp'),"
            " sequence_axis=None)\n"
            "def rules(self):\n"
            "  return [('q', PartitionSpec(HEAD, [FSDP, SP])),\n"
            "          ('o', pmag.resolve(RowWise)),\n"
            "          ('k', pmag.resolve([BATCH, KV_HEAD]))]\n").out
        self.assertIn("axes:\n  batch: [fsdp, dp]\n  sequence: null\n"
                      "  head: tp\n", text)
        self.assertIn("spec: [HEAD, [FSDP, SP]]", text)
        self.assertIn("spec: RowWise", text)
        self.assertIn("spec: [BATCH, KV_HEAD]", text)

    def test_a_spec_keeps_the_mode_that_it_is_resolved_in(self):
        text = self.python(
            "PAXIS = PartitionAxis(head_axis='tp', decode_head_axis='ep',\n"
            "                      decode_batch_axis=('dp', 'sp'))\n"
            "def rules(self):\n"
            "  return [('d', pmag.resolve([BATCH, HEAD], MODE_DECODE)),\n"
            "          ('i', pmag.resolve(axes=(None, [HEAD, 'x']),\n"
            "                             mode='__insert__')),\n"
            "          ('t', pmag.resolve([FSDP, HEAD], mode=MODE_TRAIN)),\n"
            "          ('p', paxis.resolve_spec([KV_LENGTH], MODE_PREFILL)),\n"
            "          ('a', pmag.resolve(dynamic_axes=DynamicShardingAxes(\n"
            "              axes=[HEAD], mode=MODE_DECODE))),\n"
            "          ('b', pmag.resolve(RowWise, mode=MODE_DECODE))]\n").out
        for lines in ("'d'\n    spec: [decode_batch, decode_head]\n",
                      "'i'\n    spec: [null, [decode_head, x]]\n",
                      "'t'\n    spec: [FSDP, HEAD]\n    modes: {decode: "
                      "[FSDP, tp], insert: [FSDP, tp]}\n",
                      "'p'\n    spec: [KV_LENGTH]\n",
                      "'a'\n    spec: [decode_head]\n",
                      "'b'\n    spec: RowWise\n"):
            self.assertIn("  - match: " + lines, text)
        # Also where the axis rules are another file's.
        text = self.python(
            "R = [('d', pmag.resolve([HEAD], MODE_DECODE))]\n").out
        self.assertIn("spec: [decode_head]", text)
        self.assertNotIn("axes:", text)

    def test_bundles_are_read_bare_and_by_their_class_names(self):
        text = self.python(
            "from eformer.common_types import ColumnWise, AttnQSharding\n"
            "R = [('q_proj/kernel', ColumnWise), ('q', AttnQSharding),\n"
            "     ('h', pmag.resolve(HiddenStateSharding))]\n").out
        for lines in ("'q_proj/kernel'\n    spec: ColumnWise\n",
                      "'q'\n    spec: AttnQ\n",
                      "'h'\n    spec: HiddenState\n"):
            self.assertIn("  - match: " + lines, text)

    def test_axes_named_as_a_rule_stay_what_they_are(self):
        for source, spec in (
                ("P('expert', 'head')", "[{axis: expert}, {axis: head}]"),
                ("P(('HEAD', 'tp'), None)", "[[{axis: HEAD}, tp], null]"),
                ("P(HEAD, 'decode_head')", "[HEAD, {axis: decode_head}]")):
            for before in ("", "paxis = PartitionAxis(head_axis='tp')\n"):
                with self.subTest(source=source, before=before):
                    text = self.python(before + f"R = [('w', {source})]\n").out
                    self.assertIn(f"    spec: {spec}\n", text)

    def matches(self, source, names, *flags):
        """Which names the imported patterns match."""
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.yaml")
            manifest = os.path.join(folder, "m.json")
            with open(manifest, "w", encoding="utf-8") as file:
                json.dump({"schema": "shardc.manifest/v1", "separator": "/",
                           "params": [{"name": name, "shape": [8],
                                       "dtype": "F32"} for name in names]},
                          file)
            done = self.check(imported("-", "-o", rules, "--manifest",
                                       manifest, *flags, stdin=source), 0)
            self.assertRegex(done.err,
                             rf"\d+ of {len(names)} names? have a rule\n")
            plan = self.check(run(
                "plan", "--no-project", "-q", "--mesh", "tp:2", "--rules",
                rules, "--manifest", manifest, "--unmatched", "replicate"), 0)
        return [name for name, param in plan.json()["params"].items()
                if param["spec"]]

    def test_ways_of_matching_are_carried_over(self):
        names = ["a/q_proj", "q_proj", "xq_proj/b", "a/q_projx", "a/b/q_proj"]
        one = "R = [('{}', PS('tp'))]"
        for how, pattern, wanted in (
                ("search", "q_proj", names),
                ("whole", "q_proj|k", ["q_proj"]),
                ("start", "a/q|x", ["a/q_proj", "xq_proj/b", "a/q_projx"]),
                ("glob", "a/*q_proj", ["a/q_proj", "a/b/q_proj"]),
                ("glob", "?[!/]*/b", ["xq_proj/b"]),
                ("glob", "[[:alpha:]/q_proj", ["a/q_proj"]),
                ("glob", "[\\\\w]_proj", []),
                ("name", "q_proj", ["q_proj"])):
            self.assertEqual(
                self.matches(one.format(pattern), names, "--matching", how),
                wanted, (how, pattern))
        # Patterns for the parts of a path, one after the other.
        self.assertEqual(self.matches("R = [(('a', '.*proj'), PS('tp'))]",
                                      [*names, "b/a/k_proj/x"]),
                         ["a/q_proj", "b/a/k_proj/x"])
        self.assertEqual(self.matches(r"R = [(('a', r'\A[^]]q.*\Z'), PS('tp'))]",
                                      ["a/xq", "a/]q", "b/a/xq/c", "xa/xq"]),
                         ["a/xq", "b/a/xq/c"])
        self.assertEqual(self.matches("R = {'q_proj': P('tp')}", names),
                         ["q_proj"])

    def test_what_is_unknown_is_reported_at_its_place(self):
        rules = "R = [\n ('a', PS('tp')),\n {}\n]\n"
        for entry, said in (
                ("('b', PS(axis()))", "what `axis` returns"),
                ("('b', PS(NAME))", "`NAME` is not written in this file"),
                ("('b', PS(P.UNCONSTRAINED))", "unconstrained"),
                ("('b', PS('a', unreduced={'x'}))", "`unreduced`"),
                ("('b', PS(('a', ('b', 'c'))))", "holds another one"),
                ("('b', pmag.resolve(Mine))", "no built-in bundle `Mine`"),
                ("('b', pmag.resolve([HEAD], 1))", "a dimension of a shape"),
                ("('b', pmag.resolve([HEAD], mode='x'))", "not a mode"),
                ("('b', pmag.resolve([HEAD], self.mode))", "`self.mode`"),
                ("('b', 3)", "not a PartitionSpec"),
                ("(f'b{x}', PS())", "the value of `f'b{x}'`"),
                ("(3, PS())", "not a pattern"),
                ("*more()", "what `more` returns"),
                ("('b',)", "no pair")):
            self.refused(rules.format(entry), said=said, line=3,
                         name="inexpressible")
        self.refused(rules.format("('(?!x)b', PS())"), said="RE2", line=3,
                     name="regex-syntax")

    def test_branches_ask_for_their_flag(self):
        source = ("def rules(self, deep):\n"
                  "  if deep:\n    return [('a', P('x'))]\n"
                  "  return [('b', P('y'))]\n")
        self.refused(source, said="--set deep=true", line=2)
        self.assertIn("[x]", self.python(source, "--set", "deep=true").out)
        self.assertIn("[y]", self.python(source, "--set", "deep=false").out)
        other = ("class C:\n  full = False\n  def rules(self, *, tp=False):\n"
                 "    return [('a', P('x')), "
                 "('b', P('y') if self.full and not tp else P('z'))]\n")
        text = self.python(other).out
        self.assertIn("# With tp=False, its default.", text)
        self.assertIn("[z]", text)
        self.assertIn("[y]", self.python(other, "--set", "full=true").out)
        for name in ("ful", "self.full"):
            self.refused(other, "--set", name + "=true", said=f"`{name}`, "
                         "to which `--set` gives a value", name="usage")

    def test_several_rule_sets_ask_which(self):
        source = "A = [('a', P('x'))]\nclass C:\n  B = [('b', P('y'))]\n"
        self.refused(source, said="`A`, `C.B`")
        self.assertIn("[y]", self.python(source, "--symbol", "B").out)
        self.refused(source, "--symbol", "D", said="`D`")
        self.refused("x = 1\n", said="no list of")
        self.refused("", said="no list of")

    def test_errors_of_broken_files_have_a_place(self):
        for source, line in (("A = (\n 'a'\n", 1), ("A = 'a\n", 1),
                             ("A = [1)\n", 1), ("x\n  y = 1\n", 2),
                             ("if x\n  y\n", 1), ("a = \n", 1),
                             ("a = '\\x1'\n", 1), ("a = $\n", 1),
                             ("def f(:\n  pass\n", 1), ("a b\n", 1),
                             ("\n\nA = '''\n", 3)):
            self.refused(source, said="not well-formed Python", line=line,
                         name="inexpressible")
        self.refused("(" * 5000, said="not well-formed")
        self.refused("x = " + "-" * 20000 + "1\n", said="too deeply")
        self.refused("x = " + "not " * 20000 + "1\n", said="too deeply")
        for chain in ("1 + " * 50000 + "1", "a" + ".a" * 50000,
                      "a" + "()" * 50000):
            self.refused(f"x = {chain}\n", said="too deeply")

    def test_what_would_explode_is_stopped(self):
        lines = ["a = ('x', P('y'))"] + ["a = (a, a)"] * 60
        self.refused("\n".join(lines) + "\nR = [a]\n", said="error")
        self.refused("s = 'x'\n" + "s = s + s\n" * 60 + "R = [(s, P())]\n",
                     said="error")
        self.refused("def rules():\n  return rules()\n",
                     said="functions that call each other")

    def test_names_are_strings_to_every_reader_of_yaml(self):
        """A reader of YAML 1.1 takes `on` without quotes for true."""
        names = ["on", "off", "yes", "No", "y", "n", "tp"]
        text = self.python(f"R = [('a', PS({str(names)[1:-1]}))]").out
        self.assertEqual(yaml.safe_load(text)["rules"][0]["spec"], names)
        for name in names[:-3]:
            self.assertIn(f'"{name}"', text)
        self.refused("R = [('a', PS('null'))]", said="`null`", line=1)

    def test_nothing_is_written_where_something_is_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "rules.yaml")
            self.python("R = [('a', PS(x()))]", "-o", out, rc=2)
            self.assertFalse(os.path.exists(out))
        self.check(run("import", "pithon", "-"), 2)
        self.check(run("import", "eformer", "-", "--symbol", "x"), 2)
        self.check(imported("-", "--set", "x", stdin="x=1"), 2)

    def test_an_exported_module_comes_back(self):
        models = os.path.join(TESTDATA, "models")
        with tempfile.TemporaryDirectory() as folder:
            def path(name):
                return os.path.join(folder, name)
            for name in ("llama-3-8b.hf", "llama-3-8b.flax"):
                manifest = os.path.join(models, name + ".manifest.json")
                inputs = ["--no-project", "-q", "--mesh", "dp:2,fsdp:2,tp:4",
                          "--manifest", manifest, "-o"]
                self.check(run("plan", *inputs, path("a.json"), "--rules",
                               "builtin:llama", "--modes", "train"), 0)
                self.check(run("export", "jax", "--plan", path("a.json"),
                               "-o", path("m.py")), 0)
                self.check(imported(path("m.py"), "--symbol", "SPECS", "-o",
                                    path("r.yaml"), "--manifest", manifest), 0)
                self.check(run("plan", *inputs, path("b.json"), "--rules",
                               path("r.yaml"), "--modes", "train"), 0)
                first, second = (read_json(path(p))["params"]
                                 for p in ("a.json", "b.json"))
                self.assertEqual({n: p["spec"] for n, p in first.items()},
                                 {n: p["spec"] for n, p in second.items()})


if __name__ == "__main__":
    unittest.main()
