"""What happens to a rule set in Python before it is returned is followed, as
Python itself does it here, or refused; it is never read as something else."""

import unittest

from python_rules import A, B, PythonCase, as_python, imported

# What happens to a list; whether it has to be followed, or may be refused.
FOLLOWED, EITHER = True, False
CHANGES = [
    (f"R = [{A}]\nR += [{B}]", FOLLOWED),
    (f"R = [{A}]\nR.append({B})", FOLLOWED),
    (f"R = [{A}]\nR.reverse()", EITHER),
    (f"R = [{A}, {B}]\nR[0] = {B}", EITHER),
    (f"R = [{A}, {B}]\nR[0:1] = [{B}]", EITHER),
    (f"R = [{A}, {B}]\nR[0:1] += [{B}]", EITHER),
    (f"R = [{A}, {B}]\ndel R[0]", EITHER),
    (f"R = [{A}, {B}]\nR.clear()\nR.append({A})", EITHER),
    (f"R = [{A}, {B}]\nR, s = [{B}], 1", FOLLOWED),
    (f"R = [{A}]\n(R := [{B}])", EITHER),
    (f"R = [{A}]\nif (R := [{B}]): pass", EITHER),
    (f"R = [{A}]\nfor i in [1, 2]:\n  if i > 1:\n    R.append({B})", EITHER),
    (f"R = [{A}]\nfor i in [1, 2]:\n  if i == 2:\n    R.append({B})", FOLLOWED),
    (f"R = [{A}]\nfor R in [[{B}]]:\n  pass", FOLLOWED),
    (f"R = [{A}]\nfor x, R in [[1, [{B}]]]:\n  pass", FOLLOWED),
    (f"R = [{A}]\nfor i in [1]:\n  R.append({B})\n  break", EITHER),
    (f"R = [{A}]\nfor i in [1]:\n  continue\n  R.append({B})", EITHER),
    (f"R = [{A}]\nfor i in []:\n  R.append({B})\nelse:\n  R = [{B}]", EITHER),
    (f"R = [{A}]\nfor i in range(3, 3):\n  R.append({B})", FOLLOWED),
    (f"R = [{A}]\nfor i in sorted([1]):\n  R.append({B})", EITHER),
    ("R = [(f'h/{i}/{n}', P(a)) for i in range(2) "
     "for n, a in (('q', 'x'), ('o', 'y')) if i != 1]", FOLLOWED),
    ("R = [(f'{i}{{2}}', P('x')) for i in range(1, 1_1)]", FOLLOWED),
    ("n = 0x1_0\nm = 00\nR = [(f'l{n}/{m}', P('x' if n == 16 else 'y'))]",
     FOLLOWED),
    ("n = 1e3\nR = [(f'l{n}', P('x'))]", EITHER),
    ("R = [('a', P('x' if 1.0 == 1 else 'y'))]", EITHER),
    ("R = [(f'{i:02}', P('x')) for i in range(2)]", EITHER),
    ("R = [(f'{i + 1}', P('x')) for i in range(2)]", EITHER),
    ("R = [(i, P('x')) for i in 'ab']", EITHER),
    ("R = [(i, P('x')) for i in ('a', 'b') if i > 'a']", EITHER),
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
     EITHER),
    ("d = {'a': P('x')}\ne = dict(d)\nd['a'] = P('y')\n"
     "R = list(e.items())", FOLLOWED),
    ("d = {'a': P('x')}\ne = {'h': d}\nd['a'] = P('y')\n"
     "R = list(e['h'].items())", EITHER),
    (f"r = [{A}]\nR = r\nr.append({B})", EITHER),
    (f"r = [{A}]\nR = r\nr += [{B}]", EITHER),
    (f"r = ({A},)\nR = r\nr += ({B},)", FOLLOWED),
    (f"r = [{A}]\nR = list(r)\nr += [{B}]", FOLLOWED),
    (f"r = [{A}]\nR = r\nR.append({B})", FOLLOWED),
    ("class C:\n  t = 'x'\nC.t = 'y'\nR = [('a', P(C.t))]", EITHER),
    (f"class C:\n  r = [{A}]\nC.r.append({B})\nR = C.r", EITHER),
    (f"class C:\n  r = [{A}]\n  def get(self):\n    return self.r\n"
     f"C.r += [{B}]\nR = C().get()", EITHER),
    ("class C:\n  t = 'x'\n  @classmethod\n  def get(cls):\n"
     "    cls.t = 'y'\n    return [('a', P(cls.t))]\nR = C.get()", EITHER),
    (f"r = [{A}, {B}]\nR = r\nr.pop()", EITHER),
    (f"r = [{A}]\nd = (r,)\nd[0].append({B})\nR = r", EITHER),
    (f"d = {{'r': [{A}]}}\nd['r'].append({B})\nR = d['r']", EITHER),
    (f"def f():\n  d = {{'r': []}}\n  for i in range(2):\n"
     f"    d['r'].append({A})\n  return d['r']\nR = f()", EITHER),
    (f"def q(o):\n  o.append({B})\ndef f():\n  d = {{'r': [{A}]}}\n"
     "  q(d['r'])\n  return d['r']\nR = f()", EITHER),
    (f"def q(o):\n  o.append({B})\ndef p(o):\n  q(o)\ndef f():\n"
     f"  r = [{A}]\n  p(r)\n  return r\nR = f()", EITHER),
    (f"def p(o, n):\n  if n == 0:\n    return 0\n"
     f"  return p(o, n - 1) + p(o, 0)\ndef f():\n  r = [{A}]\n  p(r, 2)\n"
     "  return r\nR = f()", FOLLOWED),
    (f"def p(o, n):\n  if n:\n    p(o, 0)\n  else:\n    o.append({B})\n"
     f"def f():\n  r = [{A}]\n  p(r, 1)\n  return r\nR = f()", EITHER),
    (f"def q(o):\n  o.append({B})\nclass C:\n  t = {{}}\nr = [{A}]\n"
     "C.t['a'] = q(r)\nR = r", EITHER),
    (f"def q(o):\n  o.append({B})\nr = [{A}]\nx = sorted([1])\n"
     "x[0] = q(r)\nR = r", EITHER),
    (f"def q(o):\n  o.append({B})\nr = [{A}]\nx = sorted([1])\n"
     "x.append(q(r))\nR = r", EITHER),
    ("d = {'a': P('x')}\nd.update({'b': P(), 'a': P('y')})\n"
     "R = list(d.items())", FOLLOWED),
    ("d = {'a': P('x')}\nd.update(b=P())\nR = list(d.items())", EITHER),
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
     "    return super().get(*args)\nR = B().get()", EITHER),
    ("class A:\n  def get(self, n='a'):\n    return [(n, P('x'))]\n"
     "class B(A):\n  def get(self, *args):\n"
     "    return super().get(*args)\nR = B().get('c')", EITHER),
    ("d = {'a': P('x'), **{'a': P('y'), 'b': P()}}\nR = list(d.items())",
     FOLLOWED),
    ("d = {**{'a': P('x'), 'b': P()}, 'a': P('y')}\n"
     "R = [(k, d[k]) for k in d]", FOLLOWED),
    ("d = dict(a=P('x'), b=P())\nR = [('c', d['b']), ('d', d['a'])]",
     FOLLOWED),
    (f"r = [{A}, {B}]\nR = [r[1], r[0]]", FOLLOWED),
    (f"r = [{A}, {B}]\nR = [r[-1]]", EITHER),
    ("def one(n, a='x', *, b=None):\n  return (n, P(a, b))\n"
     "R = [one('a'), one('b', 'y'), one('c', b='z'), one(n='d', a=None)]",
     FOLLOWED),
    ("def one(*n):\n  return (n[0], P('x'))\nR = [one('a')]", EITHER),
    ("def one(n):\n  return (n, P('x'))\nR = [one(*('a',))]", EITHER),
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
     EITHER),
    ("class A:\n  def get(self):\n    return [('a', P('x'))]\n"
     "class B:\n  def __init__(self, a=None):\n    if a is None:\n"
     "      a = A()\n    self.a = a\n  def get(self):\n"
     "    return [('b', P())] + self.a.get()\nR = B().get()", FOLLOWED),
    ("class A:\n  def get(self):\n    return [('a', P('x'))]\n"
     "class C(A):\n  pass\nclass B:\n  def __init__(self, a=1):\n"
     "    self.a = A() if a else C()\n  def get(self):\n"
     "    return [('b', P())] + self.a.get()\nR = B().get()", EITHER),
    # Changes within expressions, in functions, and under other names.
    (f"R = [{A}]\nR.append({B}) if len(R) == 1 else None", EITHER),
    (f"R = [{A}]\nlen(R) == 1 and R.append({B})", EITHER),
    (f"R = [{A}]\n[R.append((n, P())) for n in ('b',)]", EITHER),
    (f"R = [{A}, {B}]\nr = R.pop()", EITHER),
    (f"R = []\nr = R\nr.append({A})", EITHER),
    (f"r = []\nR = r\nR.append({A})", FOLLOWED),
    (f"r = [{A}]\ndef rules():\n  r.append({B})\n  return r", EITHER),
    ("d = {'a': P('x')}\ndef rules():\n  d['b'] = P('y')\n"
     "  return list(d.items())", EITHER),
    (f"def add(r):\n  r.append({B})\nR = [{A}]\nadd(R)", EITHER),
    (f"def add(r):\n  r.append({B})\n  return r\nR = [{A}]\nr = add(R)",
     EITHER),
    (f"def add(r):\n  r.append({B})\n  return r\nr = [{A}]\nR = add(r)",
     FOLLOWED),
    (f"def count(r):\n  s = list(r)\n  s.append({B})\n  return s\n"
     f"R = [{A}]\ncount(R)\nr = count(R)", FOLLOWED),
    # Calls in statements that may run or not, and in those that are not run.
    *((f"def add(r):\n  r.append({B})\n  return r\nR = [{A}]\n" + rest, EITHER)
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
     "    return super().get(**k)\nR = B().get()", EITHER),
    # An attribute of self is not the variable of that name, and hides the
    # attribute of the class.
    ("class A:\n  def get(self, n='a'):\n    self.n = 'b'\n"
     "    return [(n, P('x'))]\nR = A().get()", FOLLOWED),
    (f"class A:\n  r = [{A}]\n  def get(self):\n    self.r = [{B}]\n"
     "    return self.r\nR = A().get()", FOLLOWED),
    ("class A:\n  n = 'a'\n  def __init__(self):\n    self.n = 'b'\n"
     "  def get(self):\n    return [(self.n, P('x'))]\nR = A().get()",
     EITHER),
    (f"class A:\n  r = [{A}]\n  def get(self):\n    self.r.append({B})\n"
     "    return self.r\nR = A().get()", EITHER),
    (f"class A:\n  def get(self):\n    return [{A}]\nclass B(A):\n"
     f"  def get(self):\n    return [{B}]\nclass C:\n  a = A()\n"
     "  def __init__(self):\n    self.a = B()\n"
     "  def get(self):\n    return self.a.get()\nR = C().get()", FOLLOWED),
    (f"R = [{A}]\nwhile len(R) < 2:\n  R = R + [{B}]", EITHER),
    (f"R = [{A}]\nmatch 1:\n  case 1:\n    R = [{B}]", EITHER),
    (f"R = [{A}]\nmatch [{B}]:\n  case R:\n    pass", EITHER),
    (f"if False: x = 1; R = [{A}]\nelse: R = [{B}]", FOLLOWED),
    (f"p = 'a'\np += 'b'\nR = [(p, P('x'))]", FOLLOWED),
    (f"p = 'a'\np *= 2\nR = [(p, P('x'))]", EITHER),
    (f"p = ('a', P('x'))\np += (1,)\np = p[:2]\nR = [p]", EITHER),
    (f"R = [{A}] if 'a' == 'a' == 'b' else [{B}]", EITHER),
    (f"R = [{A}] if 'a' == 'a' != 'b' else [{B}]", EITHER),
    (f"R = [{A}] if not 'a' == 'b' else [{B}]", FOLLOWED),
    (f"def rules():\n  for i in [1]:\n    return [{A}]\n  return [{B}]",
     EITHER),
    (f"def rules():\n  for i in []:\n    return [{A}]\n  return [{B}]",
     EITHER),
    (f"def rules():\n  while True:\n    if 1 > 0:\n      return [{A}]\n"
     f"  return [{B}]", EITHER),
    (f"def rules(k='v'):\n  match k:\n    case 'v':\n      return [{A}]\n"
     f"  return [{B}]", EITHER),
    (f"def rules():\n  if 1 > 0:\n    for i in [1]:\n      return [{A}]\n"
     f"  return [{B}]", EITHER),
    (f"def rules():\n  def inner():\n    return [{A}]\n  return [{B}]",
     FOLLOWED),
    (f"def rules():\n  for i in []:\n    def inner():\n      return [{A}]\n"
     f"  return [{B}]", FOLLOWED),
    (f"try:\n  class C:\n    r = [{A}]\n    def get(self):\n"
     f"      return self.r\nexcept ImportError:\n  pass\nR = C().get()",
     FOLLOWED),
    (f"try:\n  def rules():\n    return [{A}]\nfinally:\n  pass", FOLLOWED),
    # Functions that change names outside of them.
    *((f"R = [{A}]\ndef add():\n  {change}\nadd()", EITHER)
      for change in (f"R.append({B})", f"R[0] = {B}", "R.pop()",
                     f"global R\n  R = [{B}]", f"global R\n  R += [{B}]",
                     f"global R, S\n  S = R = [{B}]")),
    (f"R = [{A}]\ndef q():\n  R.append({B})\ndef p():\n  q()\np()", EITHER),
    (f"R = [{A}]\ndef add():\n  R.append({B})\n  return 1\nn = add()",
     EITHER),
    (f"R = [{A}]\ndef add():\n  R.append({B})\nclass C:\n  n = add()",
     EITHER),
    (f"R = [{A}]\nclass C:\n  R.append({B})", EITHER),
    (f"R = [{A}]\nclass C:\n  def __init__(self):\n    R.append({B})\nC()",
     EITHER),
    (f"R = [{A}]\ndef add(r=R):\n  r.append({B})\nadd()", EITHER),
    (f"class C:\n  r = [{A}]\ndef add():\n  C.r.append({B})\nadd()\nR = C.r",
     EITHER),
    (f"r = [{A}]\ndef add():\n  r.append({B})\ndef rules():\n  add()\n"
     "  return r", EITHER),
    (f"def rules():\n  r = [{A}]\n  def add(x):\n    r.append(x)\n"
     f"  add({B})\n  return r", EITHER),
    (f"def rules():\n  r = [{A}]\n  def add():\n    nonlocal r\n"
     f"    r = [{B}]\n  add()\n  return r", EITHER),
    (f"def rules():\n  r = [{A}]\n  def add(x):\n    x.append({B})\n"
     "  add(r)\n  return r", EITHER),
    (f"def add(x):\n  pass\ndef rules():\n  r = [{A}]\n  def add(x):\n"
     f"    x.append({B})\n  add(r)\n  return r", EITHER),
    ("def spec(n):\n  return P('x')\ndef rules():\n  def spec(n):\n"
     "    return P('y')\n  return [('a', spec(1))]", EITHER),
    (f"R = []\ndef add():\n  R.append({B})\ndef rules():\n  global R\n"
     f"  R = [{A}]\n  add()\n  return R", EITHER),
    (f"def rules():\n  r = [{A}]\n  def own(x):\n    return [*x, {B}]\n"
     "  own(r)\n  return r", FOLLOWED),
    (f"R = []\ndef add():\n  R.append({B})\ndef rules():\n  R = [{A}]\n"
     "  add()\n  return R", FOLLOWED),
    (f"R = [{A}]\ndef f(x):\n  (lambda y: 0)(x)\nf(R)", FOLLOWED),
    (f"R = [{A}]\ndef add():\n  r = R\n  r.append({B})\nadd()", EITHER),
    (f"R = [{A}]\ndef add():\n  r = R\n  r = []\nadd()", FOLLOWED),
    (f"R = [{A}]\ndef put(f):\n  R.append({B})\n  return f\n@put\n"
     "def g():\n  pass", EITHER),
    (f"R = [{A}]\ndef put(x):\n  def made(f):\n    R.append(x)\n"
     f"    return f\n  return made\n@put({B})\ndef g():\n  pass", EITHER),
    (f"R = [{A}]\ndef own(f):\n  return f\nclass C:\n  @staticmethod\n"
     "  @own\n  def g():\n    pass", FOLLOWED),
    (f"R = [{A}]\ndef add(x):\n  R.append({B})\nassert not add(1), 'x'",
     EITHER),
    (f"R = [{A}]\ndef add(x):\n  R.append({B})\n[add(i) for i in [1]]",
     EITHER),
    (f"R = [{A}]\ndef add(x):\n  R.append({B})\nx = [add(i) for i in [1]]",
     EITHER),
    (f"R = [{A}]\nadd = R.append\nadd({B})", EITHER),
    (f"R = [{A}]\nx = list(map(R.append, [{B}]))", EITHER),
    (f"R = [{A}]\nlist.append(R, {B})", EITHER),
    (f"R = [{A}]\nR.__iadd__([{B}])", EITHER),
    (f"R = [{A}]\ndef add():\n  R.append({B})", FOLLOWED),
    (f"R = [{A}]\ndef own():\n  R = []\n  R.append({B})\n  return R\n"
     "x = own()", FOLLOWED),
    (f"R = [{A}]\ndef own(R):\n  R.append({B})\n  return R\nx = own([])",
     FOLLOWED),
    (f"def rules():\n  r = [{A}]\n  def add(x):\n    r = []\n"
     f"    r.append(x)\n  add({B})\n  return r", FOLLOWED),
    # What `with` runs, and what it binds.
    *((f"from contextlib import contextmanager, nullcontext\n{setup}\n"
       f"{header}:\n  {body}", EITHER)
      for setup, header, body in (
          (f"R = [{A}]\n@contextmanager\ndef add(r):\n  r.append({B})\n"
           "  yield r", "with add(R)", "pass"),
          (f"R = [{A}]\n@contextmanager\ndef add(r):\n  r.append({B})\n"
           "  yield r", "with (nullcontext(1) as x, add(R) as y)", "pass"),
          (f"R = [{A}]\n@contextmanager\ndef add():\n  R.append({B})\n"
           "  yield", "with add()", "pass"),
          (f"R = [{A}]\nclass C:\n  def __enter__(self):\n"
           f"    R.append({B})\n  def __exit__(self, *a):\n    pass",
           "with C()", "pass"),
          (f"R = [{A}]", f"with nullcontext([{B}]) as R", "pass"),
          (f"R = [{A}]", "with nullcontext(R) as r", f"r.append({B})"),
          (f"R = [{A}]", f"with nullcontext(R.append({B}))", "pass"))),
    ("from contextlib import nullcontext\n"
     f"with (nullcontext(1) as x, nullcontext()):\n  R = [{A}]", FOLLOWED),
    # Lambdas.
    *((f"def add(r):\n  r.append({B})\n  return r\nR = [{A}]\n" + rest,
       EITHER)
      for rest in (f"(lambda r: r.append({B}))(R)", "(lambda: add(R))()",
                   "f = lambda x: add(x)\nf(R)",
                   f"f = lambda r: r.append({B})\nf(R)",
                   f"f = lambda r=R: r.append({B})\nf()",
                   f"x = list(map(lambda r: r.append({B}), [R]))")),
    (f"R = [{A}]\ndef add(x):\n  R.append({B})\nf = lambda: add(1)\nf()",
     EITHER),
    (f"R = [{A}]\nf = lambda r: r + [{B}]\nx = list(map(f, [[1]]))",
     FOLLOWED),
    # Functions that are passed as values or have another name.
    *((f"from functools import partial, reduce\n"
       f"def add(r):\n  r.append({B})\n  return r\nR = [{A}]\n" + rest,
       EITHER)
      for rest in ("list(map(add, [R]))", "x = list(map(add, [R]))",
                   "f = add\nf(R)", "partial(add, R)()",
                   "def call(f, r):\n  f(r)\ncall(add, R)",
                   "reduce(lambda a, b: add(R), [1, 2])",
                   "def call():\n  x = list(map(add, [R]))\ncall()")),
    *((f"R = [{A}]\ndef add(x):\n  R.append({B})\n" + rest, EITHER)
      for rest in ("x = list(map(add, [1]))", "f = add\nf(1)",
                   "def call():\n  list(map(add, [1]))\ncall()")),
    (f"def add(x):\n  x.append({B})\ndef rules():\n  r = [{A}]\n"
     "  list(map(add, [r]))\n  return r", EITHER),
    (f"def rules():\n  r = [{A}]\n  def add(x):\n    x.append({B})\n"
     "  list(map(add, [r]))\n  return r", EITHER),
    (f"def own(x):\n  y = [*x, {B}]\n  return y\nR = [{A}]\n"
     "x = list(map(own, [R]))", FOLLOWED),
    *((f"import bisect, operator, random\nR = [{A}, {A}]\n{call}", EITHER)
      for call in (f"operator.iadd(R, [{B}])", f"operator.setitem(R, 0, {B})",
                   f"bisect.insort(R, {B}, key=str)")),
    (f"def same(r):\n  return r\nR = [{A}]\nsame(R).append({B})", EITHER),
    # Loops over the list itself.
    *((f"R = [{A}]\n" + rest, EITHER)
      for rest in (f"[r.append({B}) for r in [R]]",
                   f"x = [r.append({B}) for r in [R]]",
                   f"for r in [R]:\n  if len(r) == 1:\n    r.append({B})",
                   f"for r in [R]:\n  r.append({B})\n  break",
                   f"for r in filter(None, [R]):\n  r.append({B})",
                   f"for r in [R]:\n  r.append({B})")),
    # The dict of a module's names, and code in a text.
    *((f"R = [{A}]\n{change}", EITHER)
      for change in (f"globals()['R'].append({B})", f"globals()['R'] = [{B}]",
                     f"globals().update(R=[{B}])", f"vars()['R'] = [{B}]",
                     f"g = globals()\ng['R'] = [{B}]",
                     f"locals()['R'] += [{B}]", "exec('R = R + R')",
                     f"def add():\n  globals()['R'] = [{B}]\nadd()",
                     f"if len(R) < 9:\n  globals()['R'] = [{B}]",
                     f"def add():\n  g = globals()\n  g['R'] = [{B}]\n"
                     "class C:\n  n = add()")),
    (f"r = [{A}]\nR = globals()['r'] if 'r' == 'x' else r", FOLLOWED),
    # Assignments to several names.
    ("x, (y, z) = 'x', ('y', 'z')\nR = [('a', P(x, y)), ('b', P(z))]",
     FOLLOWED),
    ("def two():\n  return 'x', 'y'\nx, y = two()\nR = [('a', P(x, y))]",
     FOLLOWED),
    (f"x, *R = 1, {A}", EITHER),
    (f"r = R = [{A}]", FOLLOWED),
    ("Spec = P\nR = [('a', Spec('x'))]", FOLLOWED),
    # Another name of a list, which a branch or a loop decides.
    *((f"import os\nR = [{A}]\nflag = os.environ.get('FLAG')\n" + rest, EITHER)
      for rest in (f"if not flag:\n  q = R\n  q.append({B})",
                   f"q = [] if flag else R\nq.append({B})",
                   f"q = flag or R\nq.append({B})",
                   f"(R if not flag else []).append({B})",
                   f"for i in os.sep:\n  q = R\n  q.append({B})",
                   f"while not flag:\n  q = R\n  q.append({B})\n  break",
                   f"def pick():\n  return [] if flag else R\n"
                   f"pick().append({B})",
                   f"def pick():\n  if flag:\n    return []\n  return R\n"
                   f"q = pick()\nq.append({B})",
                   f"try:\n  raise KeyError\nexcept KeyError:\n"
                   f"  R.append({B})")),
    # Another name through an element, a class or a method.
    *((f"R = [{A}]\n" + rest, EITHER)
      for rest in (f"[R][0].append({B})", f"q = max([R])\nq.append({B})",
                   f"*q, = [R]\nq[0].append({B})", f"(q := R).append({B})",
                   f"q = R.append\nq({B})", f"getattr(R, 'append')({B})",
                   f"class C:\n  r = R\nC.r.append({B})",
                   f"class C:\n  r = R\n  def f(self):\n"
                   f"    self.r.append({B})\nC().f()",
                   f"q = {{'k': R}}.get('k')\nq.append({B})",
                   f"def f(x):\n  (lambda q=R: q.append({B}))()\n"
                   "list(map(f, [1]))")),
    # Calls share the default of a parameter.
    *((f"def f(n, acc=[]):\n  acc.append((n, P()))\n  return acc\n{rest}",
       EITHER) for rest in ("f('a')\nR = f('b')", "R = f('b')",
                             "def rules():\n  f('a')\n  return f('b')")),
    (f"def f(n, acc=({A},)):\n  return acc + ((n, P()),)\nR = f('b')",
     FOLLOWED),
    (f"def f(n):\n  acc = []\n  acc.append((n, P()))\n  return acc\n"
     "f('a')\nR = f('b')", FOLLOWED),
    ("import fractions as P2, json as Q\nR = [('a', P('x'))]", FOLLOWED),
]


class PythonChanges(PythonCase):
    def test_what_happens_to_a_list_is_followed_or_refused(self):
        followed = 0
        for source, must in CHANGES:
            symbol = "rules" if "def rules" in source else "R"
            wanted = as_python(source)  # fine for Python
            with self.subTest(source):
                result = imported("-", "--format", "json", "--symbol", symbol,
                                  stdin=source)
                if must or result.rc == 0:
                    self.assertEqual(result.rc, 0, result)
                    self.assertEqual(
                        [[rule["match"], rule["spec"]]
                         for rule in result.json().get("rules", [])], wanted)
                    followed += 1
                    continue
                self.check(result, 2)
                self.assertEqual(result.out, "")
                self.assertRegex(result.err, r"--> <stdin>:\d+:\d+\n")
                self.assertIn("inexpressible", result.err)
        self.assertGreaterEqual(followed, 210)

    def test_a_call_of_many_names_is_followed(self):
        count = 2_000
        source = "\n".join(
            [f"A{i} = 'x'" for i in range(count)] + ["def rules():",
             "  r = list(("] + [f"    ('w{i}', P(A{i}))," for i in range(count)]
            + ["  ))", "  return r"])
        self.assertEqual(
            len(self.rules(source, "--symbol", "rules")), count)


if __name__ == "__main__":
    unittest.main()
