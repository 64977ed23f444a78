"""Python around rule sets: what a file holds besides them is passed over, and
what happens to a list before it is returned is either followed, as Python
itself does it here, or refused; never read as something else."""

import json
import re
import resource
import subprocess
import unittest

from driver import BIN, Case, is_sanitized, run

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
    "x: tuple[int, ...] = 1, 2\nx: T, *y = 1",
    "type X[T: (int, str)] = list[T]",
    "class C[T](A, metaclass=B):\n    x: int\n    def f[U](self): ...",
    "@f(lambda x: x)\n@g\ndef h(a, /, b, *, c): pass",
    "a, *b = c[1:2, ..., ::3], d\ndel a[0], b\nassert a, 'b'\nglobal z",
    "a <<= 1; b **= 2; c @= d; e //= f",
    "x = a if b else c if d else e\ny = not a in b is not c <= d",
    "x = [i for i in j for k in l if m]\ny = {**a, 'b': 1}\n"
    "z = {i: j for i in k}\nw = {*a, *b}\nv = f(i for i in j)",
    "x = f'{a!r:>{w}} {{b}} {c[\"d\"]:,}'\ny = rf'\\{{{a}\\d'",
    "x = f'{a['b']} {f\"{c}\"}'\ny = f'''{\n  a  # it's\n}'''",
    "x = '\\N{DASH}\\ud800'\ny = b'\\u12\\xff'",
    "x = 0x1F_FF + 1e-5 + 1_0j - .5",
    "x = a @ b if -a ** ~b else a << b & c | d ^ e % f // g",
    "if a: b = 1; c = 2\nelif d: pass\nelse: e = 3",
    "x = (\n  # comment\n  1,\n)\nx = 1 + \\\n  2",
    "print(*a, sep='', **b)\nraise A from b",
    "if True:\n\tx = 1\n        \n\ty = 2",
    "import a.b as c, d\nfrom .e import (f as g,\n    h)\nfrom i import *",
]
# What happens to a list; whether it is followed or refused.
FOLLOWED, REFUSED = True, False
A, B = "('a', P('x'))", "('b', P('y'))"
CHANGES = [
    (f"R = [{A}]\nR += [{B}]", FOLLOWED),
    (f"R = [{A}]\nR.append({B})", FOLLOWED),
    (f"R = [{A}]\nR.reverse()", REFUSED),
    (f"R = [{A}, {B}]\nR[0] = {B}", REFUSED),
    (f"R = [{A}, {B}]\nR[0:1] = [{B}]", REFUSED),
    (f"R = [{A}, {B}]\nR[0:1] += [{B}]", REFUSED),
    (f"R = [{A}, {B}]\ndel R[0]", REFUSED),
    (f"R = [{A}, {B}]\nR.clear()\nR.append({A})", REFUSED),
    (f"R = [{A}, {B}]\nR, s = [{B}], 1", FOLLOWED),
    (f"R = [{A}]\n(R := [{B}])", REFUSED),
    (f"R = [{A}]\nif (R := [{B}]): pass", REFUSED),
    (f"R = [{A}]\nfor i in [1, 2]:\n  if i > 1:\n    R.append({B})", REFUSED),
    (f"R = [{A}]\nfor i in [1, 2]:\n  if i == 2:\n    R.append({B})", FOLLOWED),
    (f"R = [{A}]\nfor R in [[{B}]]:\n  pass", FOLLOWED),
    (f"R = [{A}]\nfor x, R in [[1, [{B}]]]:\n  pass", FOLLOWED),
    (f"R = [{A}]\nfor i in [1]:\n  R.append({B})\n  break", REFUSED),
    (f"R = [{A}]\nfor i in [1]:\n  continue\n  R.append({B})", REFUSED),
    (f"R = [{A}]\nfor i in []:\n  R.append({B})\nelse:\n  R = [{B}]", REFUSED),
    (f"R = [{A}]\nfor i in range(3, 3):\n  R.append({B})", FOLLOWED),
    (f"R = [{A}]\nfor i in sorted([1]):\n  R.append({B})", REFUSED),
    ("R = [(f'h/{i}/{n}', P(a)) for i in range(2) "
     "for n, a in (('q', 'x'), ('o', 'y')) if i != 1]", FOLLOWED),
    ("R = [(f'{i}{{2}}', P('x')) for i in range(1, 1_1)]", FOLLOWED),
    ("n = 0x1_0\nm = 00\nR = [(f'l{n}/{m}', P('x' if n == 16 else 'y'))]",
     FOLLOWED),
    ("n = 1e3\nR = [(f'l{n}', P('x'))]", REFUSED),
    ("R = [('a', P('x' if 1.0 == 1 else 'y'))]", REFUSED),
    ("R = [(f'{i:02}', P('x')) for i in range(2)]", REFUSED),
    ("R = [(f'{i + 1}', P('x')) for i in range(2)]", REFUSED),
    ("R = [(i, P('x')) for i in 'ab']", REFUSED),
    ("R = [(i, P('x')) for i in ('a', 'b') if i > 'a']", REFUSED),
    ("R = [(i, P(x)) for i, x in zip(('a', 'b'), ('c', 'd', 'e'))]", FOLLOWED),
    ("R = [(f'a{i}', P(x)) for i, x in enumerate(['c', 'd'])]", FOLLOWED),
    ("i = 'kept'\nr = [i for i in ('a',)]\nR = [(i, P('x'))]", FOLLOWED),
    ("R = list((k, v) for k, v in {'a': P('x'), 'b': P()}.items())", FOLLOWED),
    ("R = [(k, P()) for k in {'a': 1, 'b': 2}]", FOLLOWED),
    ("d = {'a': P('x')}\nd['b'] = P('y')\nd['a'] = P('z')\n"
     "R = list(d.items())", FOLLOWED),
    ("d = {'a': P('x'), 'b': P(), 'a': P('y')}\nR = list(d.items())",
     FOLLOWED),
    ("d = {'a': P('x'), f'a': P('y'), 1: P()}\nR = [('b', d['a'])]", FOLLOWED),
    ("d = {'a': P('x')}\ne = d\nd['a'] = P('y')\nR = list(e.items())",
     REFUSED),
    ("d = {'a': P('x')}\ne = dict(d)\nd['a'] = P('y')\n"
     "R = list(e.items())", FOLLOWED),
    ("d = {'a': P('x')}\ne = {'h': d}\nd['a'] = P('y')\n"
     "R = list(e['h'].items())", REFUSED),
    (f"r = [{A}]\nR = r\nr.append({B})", REFUSED),
    (f"r = [{A}]\nR = r\nr += [{B}]", REFUSED),
    (f"r = ({A},)\nR = r\nr += ({B},)", FOLLOWED),
    (f"r = [{A}]\nR = list(r)\nr += [{B}]", FOLLOWED),
    (f"r = [{A}]\nR = r\nR.append({B})", FOLLOWED),
    ("class C:\n  t = 'x'\nC.t = 'y'\nR = [('a', P(C.t))]", REFUSED),
    (f"class C:\n  r = [{A}]\nC.r.append({B})\nR = C.r", REFUSED),
    (f"class C:\n  r = [{A}]\n  def get(self):\n    return self.r\n"
     f"C.r += [{B}]\nR = C().get()", REFUSED),
    ("class C:\n  t = 'x'\n  @classmethod\n  def get(cls):\n"
     "    cls.t = 'y'\n    return [('a', P(cls.t))]\nR = C.get()", REFUSED),
    (f"r = [{A}, {B}]\nR = r\nr.pop()", REFUSED),
    (f"r = [{A}]\nd = (r,)\nd[0].append({B})\nR = r", REFUSED),
    (f"d = {{'r': [{A}]}}\nd['r'].append({B})\nR = d['r']", REFUSED),
    (f"def f():\n  d = {{'r': []}}\n  for i in range(2):\n"
     f"    d['r'].append({A})\n  return d['r']\nR = f()", REFUSED),
    (f"def q(o):\n  o.append({B})\ndef f():\n  d = {{'r': [{A}]}}\n"
     "  q(d['r'])\n  return d['r']\nR = f()", REFUSED),
    (f"def q(o):\n  o.append({B})\ndef p(o):\n  q(o)\ndef f():\n"
     f"  r = [{A}]\n  p(r)\n  return r\nR = f()", REFUSED),
    (f"def p(o, n):\n  if n == 0:\n    return 0\n"
     f"  return p(o, n - 1) + p(o, 0)\ndef f():\n  r = [{A}]\n  p(r, 2)\n"
     "  return r\nR = f()", FOLLOWED),
    (f"def p(o, n):\n  if n:\n    p(o, 0)\n  else:\n    o.append({B})\n"
     f"def f():\n  r = [{A}]\n  p(r, 1)\n  return r\nR = f()", REFUSED),
    (f"def q(o):\n  o.append({B})\nclass C:\n  t = {{}}\nr = [{A}]\n"
     "C.t['a'] = q(r)\nR = r", REFUSED),
    (f"def q(o):\n  o.append({B})\nr = [{A}]\nx = sorted([1])\n"
     "x[0] = q(r)\nR = r", REFUSED),
    (f"def q(o):\n  o.append({B})\nr = [{A}]\nx = sorted([1])\n"
     "x.append(q(r))\nR = r", REFUSED),
    ("d = {'a': P('x')}\nd.update({'b': P(), 'a': P('y')})\n"
     "R = list(d.items())", FOLLOWED),
    ("d = {'a': P('x')}\nd.update(b=P())\nR = list(d.items())", REFUSED),
    # What a comprehension computes is added to a list in the same scope.
    ("def f(b, c, e, g):\n  d = {'a': P('x')}\n  d.update({f'k{i}': P('y') "
     "for i in range(2)})\n  return list(d.items())\nR = f(1, 2, 3, 4)",
     FOLLOWED),
    ("def f(b, c, e, g):\n  r = [('a', P('x'))]\n  r += [(n, P('y')) for n in "
     "('b', 'c')]\n  r.append([(n, P()) for n in ('d',)][0])\n  return r\n"
     "R = f(1, 2, 3, 4)", FOLLOWED),
    ("def f(b, c):\n  d = {'a': P('x')}\n  d['b'] = [P(n) for n in ('y',)][0]\n"
     "  return list(d.items())\nR = f(1, 2)", FOLLOWED),
    # Arguments that are passed on, of which there are none.
    ("class A:\n  def get(self, n='a'):\n    return [(n, P('x'))]\n"
     "class B(A):\n  def get(self, *args, **kwargs):\n"
     "    return [('b', P())] + super().get(*args, **kwargs)\nR = B().get()",
     FOLLOWED),
    ("class A:\n  def get(self, n='a'):\n    return [(n, P('x'))]\n"
     "class B(A):\n  def get(self, *args):\n    args = ('c',)\n"
     "    return super().get(*args)\nR = B().get()", REFUSED),
    ("class A:\n  def get(self, n='a'):\n    return [(n, P('x'))]\n"
     "class B(A):\n  def get(self, *args):\n"
     "    return super().get(*args)\nR = B().get('c')", REFUSED),
    ("d = {'a': P('x'), **{'a': P('y'), 'b': P()}}\nR = list(d.items())",
     FOLLOWED),
    ("d = {**{'a': P('x'), 'b': P()}, 'a': P('y')}\n"
     "R = [(k, d[k]) for k in d]", FOLLOWED),
    ("d = dict(a=P('x'), b=P())\nR = [('c', d['b']), ('d', d['a'])]",
     FOLLOWED),
    (f"r = [{A}, {B}]\nR = [r[1], r[0]]", FOLLOWED),
    (f"r = [{A}, {B}]\nR = [r[-1]]", REFUSED),
    ("def one(n, a='x', *, b=None):\n  return (n, P(a, b))\n"
     "R = [one('a'), one('b', 'y'), one('c', b='z'), one(n='d', a=None)]",
     FOLLOWED),
    ("def one(*n):\n  return (n[0], P('x'))\nR = [one('a')]", REFUSED),
    ("def one(n):\n  return (n, P('x'))\nR = [one(*('a',))]", REFUSED),
    ("class A:\n  a = 'x'\n  def get(self, n):\n"
     "    return [(n, P(self.a))]\nclass B(A):\n  a = 'y'\n"
     "R = A().get('a') + B().get('b')", FOLLOWED),
    ("class A:\n  def get(self):\n    return [('a', P('x'))]\n"
     "class B(A):\n  def get(self):\n    return [('b', P())] + "
     "super().get()\nclass C(B):\n  def get(self):\n"
     "    return [('c', P('y'))] + super().get()\nR = C().get()", FOLLOWED),
    ("class A:\n  def get(self):\n    return [('a', P('x'))]\n"
     "class B(A):\n  def get(self):\n    return [('b', P())] + "
     "super().get()\nclass C(A):\n  def get(self):\n"
     "    return [('c', P('y'))] + super().get()\nclass D(B, C):\n  pass\n"
     "R = D().get()", FOLLOWED),
    ("from fractions import Fraction as F\nclass A:\n  def get(self):\n"
     "    return [('a', P('x'))]\nclass B(F, A):\n  pass\nR = B().get()",
     REFUSED),
    ("class A:\n  def get(self):\n    return [('a', P('x'))]\n"
     "class B:\n  def __init__(self, a=None):\n    if a is None:\n"
     "      a = A()\n    self.a = a\n  def get(self):\n"
     "    return [('b', P())] + self.a.get()\nR = B().get()", FOLLOWED),
    ("class A:\n  def get(self):\n    return [('a', P('x'))]\n"
     "class C(A):\n  pass\nclass B:\n  def __init__(self, a=1):\n"
     "    self.a = A() if a else C()\n  def get(self):\n"
     "    return [('b', P())] + self.a.get()\nR = B().get()", REFUSED),
    # Changes within expressions, in functions, and under other names.
    (f"R = [{A}]\nR.append({B}) if len(R) == 1 else None", REFUSED),
    (f"R = [{A}]\nlen(R) == 1 and R.append({B})", REFUSED),
    (f"R = [{A}]\n[R.append((n, P())) for n in ('b',)]", REFUSED),
    (f"R = [{A}, {B}]\nr = R.pop()", REFUSED),
    (f"R = []\nr = R\nr.append({A})", REFUSED),
    (f"r = []\nR = r\nR.append({A})", FOLLOWED),
    (f"r = [{A}]\ndef rules():\n  r.append({B})\n  return r", REFUSED),
    ("d = {'a': P('x')}\ndef rules():\n  d['b'] = P('y')\n"
     "  return list(d.items())", REFUSED),
    (f"def add(r):\n  r.append({B})\nR = [{A}]\nadd(R)", REFUSED),
    (f"def add(r):\n  r.append({B})\n  return r\nR = [{A}]\nr = add(R)",
     REFUSED),
    (f"def add(r):\n  r.append({B})\n  return r\nr = [{A}]\nR = add(r)",
     FOLLOWED),
    (f"def count(r):\n  s = list(r)\n  s.append({B})\n  return s\n"
     f"R = [{A}]\ncount(R)\nr = count(R)", FOLLOWED),
    # Calls in statements that may run or not, and in those that are not run.
    *((f"def add(r):\n  r.append({B})\n  return r\nR = [{A}]\n" + rest, REFUSED)
      for rest in ("while len(R) < 2:\n  add(R)",
                   "while len(add(R)) < 3:\n  pass",
                   "while len(R) < 2:\n  while len(R) < 2:\n    x = add(R)",
                   "if len(R) == 1:\n  add(R)",
                   "if len(R) > 1:\n  pass\nelse:\n  x = add(R)",
                   "for i in [1]:\n  add(R)\n  break",
                   "for i in sorted([1]):\n  x = [add(R)]",
                   "match 1:\n  case 1:\n    add(R)",
                   "def no(r):\n  pass\nno(add(R))",
                   "x, y = add(R), 1", "x = len(add(R))", "x = add(R) * 2",
                   "if len(add(R)) > 9:\n  pass",
                   "x = len(R) == 1 and add(R)",
                   "x = add(R) if len(R) == 1 else 1")),
    (f"def count(r):\n  s = list(r)\n  s.append({B})\n  return s\n"
     f"R = [{A}]\nwhile len(R) > 1:\n  count(R)\nif len(R) > 1:\n"
     "  count(R)\nx, y = count(R), 1", FOLLOWED),
    ("class A:\n  def get(self, n='a'):\n    return [(n, P('x'))]\n"
     "class B(A):\n  def get(self, **k):\n    k['n'] = 'c'\n"
     "    return super().get(**k)\nR = B().get()", REFUSED),
    # An attribute of self is not the variable of that name, and hides the
    # attribute of the class.
    ("class A:\n  def get(self, n='a'):\n    self.n = 'b'\n"
     "    return [(n, P('x'))]\nR = A().get()", FOLLOWED),
    (f"class A:\n  r = [{A}]\n  def get(self):\n    self.r = [{B}]\n"
     "    return self.r\nR = A().get()", FOLLOWED),
    ("class A:\n  n = 'a'\n  def __init__(self):\n    self.n = 'b'\n"
     "  def get(self):\n    return [(self.n, P('x'))]\nR = A().get()",
     REFUSED),
    (f"class A:\n  r = [{A}]\n  def get(self):\n    self.r.append({B})\n"
     "    return self.r\nR = A().get()", REFUSED),
    (f"class A:\n  def get(self):\n    return [{A}]\nclass B(A):\n"
     f"  def get(self):\n    return [{B}]\nclass C:\n  a = A()\n"
     "  def __init__(self):\n    self.a = B()\n"
     "  def get(self):\n    return self.a.get()\nR = C().get()", FOLLOWED),
    (f"R = [{A}]\nwhile len(R) < 2:\n  R = R + [{B}]", REFUSED),
    (f"R = [{A}]\nmatch 1:\n  case 1:\n    R = [{B}]", REFUSED),
    (f"R = [{A}]\nmatch [{B}]:\n  case R:\n    pass", REFUSED),
    (f"if False: x = 1; R = [{A}]\nelse: R = [{B}]", FOLLOWED),
    (f"p = 'a'\np += 'b'\nR = [(p, P('x'))]", FOLLOWED),
    (f"p = 'a'\np *= 2\nR = [(p, P('x'))]", REFUSED),
    (f"p = ('a', P('x'))\np += (1,)\np = p[:2]\nR = [p]", REFUSED),
    (f"R = [{A}] if 'a' == 'a' == 'b' else [{B}]", REFUSED),
    (f"R = [{A}] if 'a' == 'a' != 'b' else [{B}]", REFUSED),
    (f"R = [{A}] if not 'a' == 'b' else [{B}]", FOLLOWED),
    (f"def rules():\n  for i in [1]:\n    return [{A}]\n  return [{B}]",
     REFUSED),
    (f"def rules():\n  for i in []:\n    return [{A}]\n  return [{B}]",
     REFUSED),
    (f"def rules():\n  while True:\n    if 1 > 0:\n      return [{A}]\n"
     f"  return [{B}]", REFUSED),
    (f"def rules(k='v'):\n  match k:\n    case 'v':\n      return [{A}]\n"
     f"  return [{B}]", REFUSED),
    (f"def rules():\n  if 1 > 0:\n    for i in [1]:\n      return [{A}]\n"
     f"  return [{B}]", REFUSED),
    (f"def rules():\n  def inner():\n    return [{A}]\n  return [{B}]",
     FOLLOWED),
    (f"def rules():\n  for i in []:\n    def inner():\n      return [{A}]\n"
     f"  return [{B}]", FOLLOWED),
    (f"try:\n  class C:\n    r = [{A}]\n    def get(self):\n"
     f"      return self.r\nexcept ImportError:\n  pass\nR = C().get()",
     FOLLOWED),
    (f"try:\n  def rules():\n    return [{A}]\nfinally:\n  pass", FOLLOWED),
    # Functions that change names outside of them.
    *((f"R = [{A}]\ndef add():\n  {change}\nadd()", REFUSED)
      for change in (f"R.append({B})", f"R[0] = {B}", "R.pop()",
                     f"global R\n  R = [{B}]", f"global R\n  R += [{B}]",
                     f"global R, S\n  S = R = [{B}]")),
    (f"R = [{A}]\ndef q():\n  R.append({B})\ndef p():\n  q()\np()", REFUSED),
    (f"R = [{A}]\ndef add():\n  R.append({B})\n  return 1\nn = add()",
     REFUSED),
    (f"R = [{A}]\ndef add():\n  R.append({B})\nclass C:\n  n = add()",
     REFUSED),
    (f"R = [{A}]\nclass C:\n  R.append({B})", REFUSED),
    (f"R = [{A}]\nclass C:\n  def __init__(self):\n    R.append({B})\nC()",
     REFUSED),
    (f"R = [{A}]\ndef add(r=R):\n  r.append({B})\nadd()", REFUSED),
    (f"class C:\n  r = [{A}]\ndef add():\n  C.r.append({B})\nadd()\nR = C.r",
     REFUSED),
    (f"r = [{A}]\ndef add():\n  r.append({B})\ndef rules():\n  add()\n"
     "  return r", REFUSED),
    (f"def rules():\n  r = [{A}]\n  def add(x):\n    r.append(x)\n"
     f"  add({B})\n  return r", REFUSED),
    (f"def rules():\n  r = [{A}]\n  def add():\n    nonlocal r\n"
     f"    r = [{B}]\n  add()\n  return r", REFUSED),
    (f"def rules():\n  r = [{A}]\n  def add(x):\n    x.append({B})\n"
     "  add(r)\n  return r", REFUSED),
    (f"def add(x):\n  pass\ndef rules():\n  r = [{A}]\n  def add(x):\n"
     f"    x.append({B})\n  add(r)\n  return r", REFUSED),
    ("def spec(n):\n  return P('x')\ndef rules():\n  def spec(n):\n"
     "    return P('y')\n  return [('a', spec(1))]", REFUSED),
    (f"R = []\ndef add():\n  R.append({B})\ndef rules():\n  global R\n"
     f"  R = [{A}]\n  add()\n  return R", REFUSED),
    (f"def rules():\n  r = [{A}]\n  def own(x):\n    return [*x, {B}]\n"
     "  own(r)\n  return r", FOLLOWED),
    (f"R = []\ndef add():\n  R.append({B})\ndef rules():\n  R = [{A}]\n"
     "  add()\n  return R", FOLLOWED),
    (f"R = [{A}]\ndef f(x):\n  (lambda y: 0)(x)\nf(R)", FOLLOWED),
    (f"R = [{A}]\ndef add():\n  r = R\n  r.append({B})\nadd()", REFUSED),
    (f"R = [{A}]\ndef add():\n  r = R\n  r = []\nadd()", FOLLOWED),
    (f"R = [{A}]\ndef put(f):\n  R.append({B})\n  return f\n@put\n"
     "def g():\n  pass", REFUSED),
    (f"R = [{A}]\ndef put(x):\n  def made(f):\n    R.append(x)\n"
     f"    return f\n  return made\n@put({B})\ndef g():\n  pass", REFUSED),
    (f"R = [{A}]\ndef own(f):\n  return f\nclass C:\n  @staticmethod\n"
     "  @own\n  def g():\n    pass", FOLLOWED),
    (f"R = [{A}]\ndef add(x):\n  R.append({B})\nassert not add(1), 'x'",
     REFUSED),
    (f"R = [{A}]\ndef add(x):\n  R.append({B})\n[add(i) for i in [1]]",
     REFUSED),
    (f"R = [{A}]\ndef add(x):\n  R.append({B})\nx = [add(i) for i in [1]]",
     REFUSED),
    (f"R = [{A}]\nadd = R.append\nadd({B})", REFUSED),
    (f"R = [{A}]\nx = list(map(R.append, [{B}]))", REFUSED),
    (f"R = [{A}]\nlist.append(R, {B})", REFUSED),
    (f"R = [{A}]\nR.__iadd__([{B}])", REFUSED),
    (f"R = [{A}]\ndef add():\n  R.append({B})", FOLLOWED),
    (f"R = [{A}]\ndef own():\n  R = []\n  R.append({B})\n  return R\n"
     "x = own()", FOLLOWED),
    (f"R = [{A}]\ndef own(R):\n  R.append({B})\n  return R\nx = own([])",
     FOLLOWED),
    (f"def rules():\n  r = [{A}]\n  def add(x):\n    r = []\n"
     f"    r.append(x)\n  add({B})\n  return r", FOLLOWED),
    # Assignments to several names.
    ("x, (y, z) = 'x', ('y', 'z')\nR = [('a', P(x, y)), ('b', P(z))]",
     FOLLOWED),
    ("def two():\n  return 'x', 'y'\nx, y = two()\nR = [('a', P(x, y))]",
     FOLLOWED),
    (f"x, *R = 1, {A}", REFUSED),
    (f"r = R = [{A}]", FOLLOWED),
    ("Spec = P\nR = [('a', Spec('x'))]", FOLLOWED),
    ("import fractions as P2, json as Q\nR = [('a', P('x'))]", FOLLOWED),
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


class Spec(tuple):
    pass


def leaves(tree, path=()):
    if isinstance(tree, Spec):
        yield "/".join(path), list(tree)
    elif tree is not None:
        parts = (tree if isinstance(tree, dict) else
                 dict(enumerate(tree)) if isinstance(tree, list) else
                 vars(tree))
        for key, part in parts.items():
            yield from leaves(part, (*path, str(key)))


def as_python(source):
    """What Python has in R or gets from rules()."""
    names = {"P": lambda *entries: Spec(entries)}
    exec(source, names)  # ours, from the table above
    rules = names["rules"]() if "rules" in names else names["R"]
    return [[pattern, list(spec)] for pattern, spec in rules]


class Python(Case):
    def read(self, source, rc=0, *flags):
        return self.check(run("import", "python", "-", "--format", "json",
                              *flags, stdin=source), rc)

    def rules(self, source, *flags):
        return [[rule["match"], rule["spec"]]
                for rule in self.read(source, 0, *flags).json()["rules"]]

    def test_what_stands_around_is_passed_over(self):
        for lines in AROUND:
            inside = "def outer(self):\n" + "".join(
                f"    {line}\n" for line in lines.split("\n"))
            for source in (lines + "\n" + RULES, RULES + lines,
                           inside + RULES):
                self.assertEqual(self.rules(source), READ, source)

    def test_what_happens_to_a_list_is_followed_or_refused(self):
        for source, followed in CHANGES:
            symbol = "rules" if "def rules" in source else "R"
            if followed:
                self.assertEqual(self.rules(source, "--symbol", symbol),
                                 as_python(source), source)
                continue
            as_python(source)  # fine for Python
            with self.subTest(source):
                result = self.read(source, 2, "--symbol", symbol)
            self.assertEqual(result.out, "", source)
            self.assertRegex(result.err, r'"line": \d+', source)
            self.assertIn("inexpressible", result.err, source)

    def test_constants_that_may_hold_rules_too_are_reported(self):
        """What is made of specs, or has the name of rules, and is unknown."""
        base = f"A = [{A}, {B}]\n"
        for line, names in (
                ("R = A[1:]", "R"), ("R = sorted(A)", "R"), ("R = A * 2", "R"),
                ("R = A.copy()", "R"), ("R = [*A] if f() else A", "R"),
                ("if f():\n  R = [*A]", "R"),
                ("R = []\nwhile f():\n  R.append(('a', P()))", "R"),
                ("R = [('%s' % n, s) for n, s in A]", "R"),
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
                ("R = [('%s' % n, P()) for n in 'a']", "the value of `'a'`"),
                ("R = [(f'{n!r}', P()) for n in ('a',)]",
                 "the value of `f'{n!r}'`"),
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
        for spec, axes in (
                ("P('DP', ('TP', 'FSDP'))",
                 {"data_parallel": "DP", "tensor_parallel": "TP",
                  "fully_sharded_data_parallel": "FSDP"}),
                ("P('HEAD')", {"head": "HEAD", "decode_head": "HEAD"}),
                ("P(DP, HEAD)", None), ("P('dp', '__HEAD__', '_')", None)):
            rules = self.read(f"R = [('a', {spec})]").json()
            self.assertEqual(rules.get("axes") or None, axes, spec)

    def test_a_spec_that_no_rules_file_can_hold_is_refused(self):
        for spec, message in (("P('x', ('y', 'x'))", "given twice"),
                              ("P('x y')", "axis name `x y`"),
                              ("P(None, '1x')", "axis name `1x`")):
            self.assertIn(message, self.read(f"R = [('a', {spec})]", 2).err)

    def test_an_axis_of_an_unknown_value_is_no_axis(self):
        for line in ("for axis in ('x', f()): pass", "axis, other = f()",
                     "axis = 'x'\naxis %= ()"):
            result = self.read(line + "\nR = [('a', P(axis))]", 2)
            self.assertIn("inexpressible", result.err)

    @unittest.skipIf(is_sanitized(), "a sanitizer has its own memory")
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
                        for i in range(1, 900)) + f"R = [{rule}]\n",
            "a class of its own base":
                f"class A: pass\nclass B(A): pass\nclass A(B): pass\n"
                f"R = A().get() + [{rule}]\n",
            "fields": "a0 = PartitionAxis(x='a')\n" + "".join(
                f"a{i} = PartitionAxis(x=a{i - 1}, y=a{i - 1})\n"
                for i in range(1, 40)),
        }

        def limit():
            # The program's own code, 64 MiB of values, and room for the rest.
            resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))

        for name, source in sources.items():
            with self.subTest(name):
                done = subprocess.run(
                    [BIN, "import", "python", "-"], input=source, text=True,
                    capture_output=True, preexec_fn=limit, timeout=60)
                self.assertIn(done.returncode, (0, 2), done.stderr[:300])
                self.assertNotIn("not enough memory", done.stderr)
                if done.returncode == 2:
                    self.assertIn("-->", done.stderr)


if __name__ == "__main__":
    unittest.main()
