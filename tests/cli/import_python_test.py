"""Python around rule sets: what a file holds besides them is passed over, and
trees of specs are read by their paths."""

import os
import re
import resource
import subprocess
import sys
import unittest

from driver import ROOT
from python_rules import A, B, PythonCase, Spec, imported, leaves

RULES = "R = [('a', P('x')), ('b', P(None, ('x', 'y')))]\n"
READ = [["a", ["x"]], ["b", [None, ["x", "y"]]]]
# Lines that files with rule sets have for other purposes.
AROUND = [
    "f = lambda a, *b, c=lambda: (1, 2), **d: a",
    "f(lambda x, y: x, 1)",
    "f = g if h else lambda *args, **kwargs: None",
    "for f in lambda c: c, g:\n    pass",
    "if y := f(1, 2)[3]:\n    pass",
    "while chunk := f(lambda: 1):\n    break\nelse:\n    pass",
    "match x:\n    case ('a', _) | [1, *_] if x:\n        y = 1\n"
    "    case {'a': 1, **rest}:\n        y = 2\n    case _:\n        pass",
    "match = 1\ncase = match\nmatch.x = 2",
    "def f(*args: *Ts, a: int = 1, **k) -> dict[str, int]:\n"
    "    x = yield\n    y = yield 1, 2\n    z = yield from f()\n"
    "    return (yield x)",
    "async def f():\n    async with g() as h, k():\n"
    "        async for i in h:\n            await i\n"
    "        return [j async for j in i if j]",
    "for a, (b, *c) in d:\n    continue",
    "for a.b[0], in c:\n    continue",
    "with (open(f) as a, open(g) as b):\n    pass",
    "try:\n    pass\nexcept* (A, B) as e:\n    pass\nelse:\n    pass\n"
    "finally:\n    pass",
    "x: tuple[int, ...] = 1, 2",
    "class C(A, metaclass=B):\n    x: int\n    def f(self): ...",
    "@f(lambda x: x)\n@g\ndef h(a, /, b, *, c): pass",
    "a, *b = c[1:2, ..., ::3], d\ndel a[0], b\nassert a, 'b'\nglobal z",
    "a <<= 1; b **= 2; c @= d; e //= f",
    "x = a if b else c if d else e\ny = not a in b is not c <= d",
    "x = [i for i in j for k in l if m]\ny = {**a, 'b': 1}\n"
    "z = {i: j for i in k}\nw = {*a, *b}\nv = f(i for i in j)",
    "x = f'{a!r:>{w}} {{b}} {c[\"d\"]:,}'\ny = rf'\\{{{a}\\d'",
    "x = '\\N{EM DASH}\\ud800'\ny = b'\\u12\\xff'",
    "x = 0x1F_FF + 1e-5 + 1_0j - .5",
    "x = a @ b if -a ** ~b else a << b & c | d ^ e % f // g",
    "if a: b = 1; c = 2\nelif d: pass\nelse: e = 3",
    "x = (\n  # comment\n  1,\n)\nx = 1 + \\\n  2",
    "print(*a, sep='', **b)\nraise A from b",
    "if True:\n\tx = 1\n        \n\ty = 2",
    "import a.b as c, d\nfrom .e import (f as g,\n    h)\nfrom i import *",
]


# Trees of specs: rules() returns one.
TREES = [
    "def rules():\n  return {'e': P('x'), 'h': [{'q': P('y'), 'o': P()}]}",
    "def layer():\n  return {'q': {'w': P('x'), 'b': None}, 'o': P()}\n"
    "def rules():\n  d = {'e': P('y')}\n  for i in range(12):\n"
    "    d[f'layers_{i}'] = layer()\n  d['head'] = P(('x', 'y'))\n  return d",
    "def rules():\n  return {'h': {str: {'w': P('x')} for str in ('0', '1')}}",
    "def rules():\n  return {'h': [{'w': P('x' if i == 1 else 'y')} "
    "for i in range(3)]}",
    "class Layer:\n  def __init__(self, q, o):\n    self.q, self.o = q, o\n"
    "def rules():\n  return {'h': {0: Layer(q=P('x'), o=P()), "
    "1: Layer(q=P('x'), o=P('y'))}}",
    "def rules():\n  return {'a.b': {'w_1': P('x')}, 'c': {'w_2': P('x'), "
    "'w_x': P('y')}}",
    "def rules():\n  return {'a': {'w': NamedSharding(None, P('x'))}}",
]


class Python(PythonCase):
    def test_what_stands_around_is_passed_over(self):
        for lines in AROUND:
            inside = "def outer(self):\n" + "".join(
                f"    {line}\n" for line in lines.split("\n"))
            for source in (lines + "\n" + RULES, RULES + lines,
                           inside + RULES):
                with self.subTest(source):
                    self.assertEqual(self.rules(source, "--symbol", "R"), READ)

    @unittest.skipIf(sys.version_info < (3, 12), "syntax of a newer Python")
    def test_newer_syntax_is_passed_over(self):
        for lines in (
                "type X[T: (int, str)] = list[T]",
                "class C[T](A, metaclass=B):\n    def f[U](self): ...",
                "x = f'{a['b']} {f\"{c}\"}'\ny = f'''{\n  a  # it's\n}'''"):
            self.assertEqual(self.rules(lines + "\n" + RULES), READ, lines)

    def test_constants_that_may_hold_rules_too_are_reported(self):
        """What is made of specs, or has the name of rules, and is unknown."""
        base = f"A = [{A}, {B}]\n"
        for line, names in (
                ("R = sorted(A)", "R"), ("R = A * f()", "R"),
                ("R = A[f():]", "R"), ("R = [*A] if f() else A", "R"),
                ("if f():\n  R = [*A]", "R"),
                ("R = []\nwhile f():\n  R.append(('a', P()))", "R"),
                ("R = [(f(n), s) for n, s in A]", "R"),
                ("R = [(re.compile('a', re.I), P())]", "R"),
                ("for n in f():\n  R = [(n, P())]", "R"),
                ("MY_RULES = f()", "MY_RULES"), ("rules = lambda: A", "rules"),
                ("rules = [('a', f('x'))]", "rules"),
                ("class C:\n  rules = f()", "C.rules"),
                ("specs = f(A)", ""), ("n = len(A)", ""), ("R = f()", ""),
                ("R = [('a', f('x'))]", ""), ("x = f(P('x'))", "")):
            result = self.read(base + line)
            with self.subTest(line):
                self.assertEqual(result.json()["rules"][0]["match"], "a")
                self.assertEqual(" ".join(re.findall(
                    r"`(\S+)` may hold rules too", result.err)), names)
                self.assertNotIn("may hold rules too", self.read(
                    base + line, 0, "--symbol", "A").err)
        # If nothing else is a rule set, the reason is that of the constant.
        for line, reason in (
                ("RULES = f()", "what `f` returns"),
                ("R = [(f(n), P()) for n in 'a']", "what `f` returns"),
                ("R = [(f'{n:{f}}', P()) for n in ('a',)]",
                 "the value of `f'{n:{f}}'`"),
                ("RULES = [('a', f('x'))]", "what `f` returns"),
                ("def rules():\n  return [('a', f('x'))]",
                 "what `f` returns")):
            self.assertIn(reason + " cannot be determined",
                          self.read(line, 2).err, line)

    def test_trees_name_parameters_by_their_paths(self):
        for source in TREES:
            with self.subTest(source):
                names = {"P": lambda *entries: Spec(entries),
                         "NamedSharding": lambda mesh, spec: spec}
                exec(source, names)  # ours, from the table above
                wanted = dict(leaves(names["rules"]()))
                self.assertTrue(wanted)
                found = self.rules(source)
                unused = set(range(len(found)))
                for name, spec in wanted.items():
                    first = next(i for i, (pattern, _) in enumerate(found)
                                 if re.search(pattern, name))
                    unused.discard(first)
                    self.assertEqual(
                        [list(e) if isinstance(e, list) else e
                         for e in found[first][1]],
                        [list(e) if isinstance(e, tuple) else e for e in spec],
                        name)
                self.assertEqual(unused, set())

    def test_a_tree_needs_what_it_hangs_on(self):
        source = ("def layer():\n  return {'w': P('x')}\n"
                  "def specs(config):\n"
                  "  return {'h': [layer() for _ in range(config.layers)]}\n")
        self.assertIn("2 rule sets", self.read(source, 2).err)
        refused = self.read(source, 2, "--symbol", "specs")
        self.assertIn("`--set layers=true`, `--set layers=false` or a number",
                      refused.err)
        rules = self.read(source, 0, "--set", "layers=3").json()["rules"]
        self.assertEqual(rules, [{"match": "^h/[0-9]+/w$", "spec": ["x"]}])

    def test_what_a_tree_cannot_hold(self):
        for source, message in (
                ("R = {'a': {'w': P('x'), 'b': 7}}",
                 "this is not a PartitionSpec"),
                ("R = {'a': {'w': P('x')}, (1, 2): {'w': P()}}",
                 "this key of a tree is no name"),
                ("R = {'a': {'w': P('x')}, f(): {'w': P()}}",
                 "what `f` returns cannot be determined"),
                ("R = {'a': {'w': P('x')}, 'a/w': P()}", "is given twice"),
                ("R = {'a': " + "{'a': " * 70 + "P('x')" + "}" * 71,
                 "holds no list of (pattern, PartitionSpec)")):
            self.assertIn(message, self.read(source, 2).err, source)

    def test_what_a_class_inherits_is_read_by_its_name(self):
        source = ("class A:\n  a = 'x'\n  def get_rules(self):\n"
                  "    return [('a', P(self.a))]\nclass B(A):\n  a = 'y'\n")
        self.assertEqual(self.rules(source), [["a", ["x"]]])
        for symbol, axis in (("B.get_rules", "y"), ("A.get_rules", "x"),
                             ("get_rules", "x")):
            rules = self.read(source, 0, "--symbol", symbol).json()["rules"]
            self.assertEqual(rules, [{"match": "a", "spec": [axis]}])

    def test_other_names_of_a_spec(self):
        for line in ("from jax.sharding import PartitionSpec as Sharded",
                     "from jax.sharding import Mesh, PartitionSpec as Sharded",
                     "from jax.experimental.pjit import (\n"
                     "    PartitionSpec as Sharded,  # comment\n    pjit)",
                     "import jax\nSharded = jax.sharding.PartitionSpec"):
            self.assertEqual(self.rules(line + "\nR = [('a', Sharded('x'))]"),
                             [["a", ["x"]]])

    def test_a_mesh_axis_with_the_name_of_a_logical_axis_is_kept(self):
        for spec, wanted in (
                ("P('DP', ('TP', 'FSDP'))",
                 [{"axis": "DP"}, [{"axis": "TP"}, {"axis": "FSDP"}]]),
                ("P('HEAD', 'batch')", [{"axis": "HEAD"}, {"axis": "batch"}]),
                ("P(DP, HEAD)", ["DP", "HEAD"]), ("P('dp')", ["dp"])):
            rules = self.read(f"R = [('a', {spec})]").json()
            self.assertFalse(rules.get("axes"), spec)
            self.assertEqual(rules["rules"][0]["spec"], wanted)

    def test_a_spec_that_no_rules_file_can_hold_is_refused(self):
        for spec, message in (("P('x', ('y', 'x'))", "given twice"),
                              ("P('x y')", "axis name `x y`"),
                              ("P(None, '1x')", "axis name `1x`")):
            self.assertIn(message, self.read(f"R = [('a', {spec})]", 2).err)

    def test_an_axis_of_an_unknown_value_is_no_axis(self):
        for line in ("for axis in ('x', f()): pass", "axis, other = f()",
                     "axis = 'x'\naxis %= f()"):
            result = self.read(line + "\nR = [('a', P(axis))]", 2)
            self.assertIn("inexpressible", result.err)

    def test_values_that_double_take_little_memory(self):
        rule = "('x', P('tp'))"
        text = "'" + "x" * 1000 + "'"
        doubled = [f"a0 = [{rule}]"]
        spread = [f"a0 = [{rule}]"]
        nested = [f"a0 = [{rule}]"]
        for i in range(1, 40):
            doubled.append(f"a{i} = a{i - 1} + a{i - 1}")
            spread.append(f"a{i} = [*a{i - 1}, *a{i - 1}]")
            nested.append(f"a{i} = [a{i - 1}, a{i - 1}]")
        sources = {
            "sums": "\n".join(doubled),
            "spread lists": "\n".join(spread),
            "lists in lists": "\n".join(nested),
            "a list that grows": f"R = [{rule}]\n" + "R += R\n" * 40,
            "a text named often": f"t = {'+'.join([text] * 900)}\n"
                                  f"R = [{'(t, P(1)), ' * 5000}]",
            "a function called often":
                f"def f(): return [{(rule + ', ') * 3000}]\n" + "".join(
                    f"r{i} = f()\n" for i in range(2000)),
            "comprehensions in comprehensions":
                f"a = [{rule}, {rule}]\nR = [r for r in a" +
                " for b in range(99999)" * 7 + "]",
            "loops in loops": f"R = []\nfor i in range(99999):\n"
                              f"  for j in range(99999):\n"
                              f"    R.append({rule})\n",
            "a dict that grows": "R = {}\nfor i in range(99999):\n"
                                 "  R[f'{i}'] = P('x')\n",
            "a large range": "R = [('x', P(i)) for i in range(10 ** 9)]\n"
                             "S = [('x', P(i)) for i in range(999999)]\n",
            "bases of bases": "class C0:\n  def get(self): return 1\n" +
                "".join(f"class C{i}(C{i - 1}, C{i // 2}): pass\n"
                        for i in range(1, 90)) + f"R = [{rule}]\n",
            "a class of its own base":
                f"class A: pass\nclass B(A): pass\nclass A(B): pass\n"
                f"R = A().get() + [{rule}]\n",
            "fields": "a0 = PartitionAxis(x='a')\n" + "".join(
                f"a{i} = PartitionAxis(x=a{i - 1}, y=a{i - 1})\n"
                for i in range(1, 40)),
        }

        def limit():
            # Python's own code, the values, and room for the rest.
            resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))

        env = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"))
        for name, source in sources.items():
            with self.subTest(name):
                done = subprocess.run(
                    [sys.executable, "-m", "shardc.import_python", "-"],
                    input=source, text=True, capture_output=True, env=env,
                    preexec_fn=limit, timeout=300, check=False)
                self.assertIn(done.returncode, (0, 2), done.stderr[:300])
                self.assertNotIn("Traceback", done.stderr)
                self.assertNotIn("memory", done.stderr)
                if done.returncode == 2:
                    self.assertIn("-->", done.stderr)

    def test_code_in_the_source_is_never_run(self):
        for line in ("import sys; sys.exit(7)", "open('never', 'w')",
                     "__import__('os').abort()", "raise SystemExit(7)",
                     "class C:\n  def __init_subclass__(c): 1 / 0\n"
                     "class D(C): pass"):
            result = imported("-", stdin=line + "\n" + RULES)
            self.assertIn(result.rc, (0, 2))
        self.assertFalse(os.path.exists("never"))


if __name__ == "__main__":
    unittest.main()
