"""Compares shardc.import_python with the Python interpreter on random programs.

Usage: python_programs.py [COUNT [SEED]]. Each program makes a list of rules, shares it between names, and changes it through
functions, branches, loops, classes and containers. Some conditions are known
only when the program runs. Imported functions do not change their arguments,
which the importer assumes. It may refuse a program. The status is 1 if it
accepts one and reads other rules than the interpreter makes."""

import collections
import os
import random
import sys
import types

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
from shardc import import_python  # noqa: E402


class Spec(tuple):
    """PartitionSpec, as far as the programs use it."""

    def __new__(cls, *axes):
        return super().__new__(cls, axes)


def modules(rng):
    """The modules that a program imports. The importer does not see them."""
    jax = types.ModuleType("jax")
    jax.sharding = types.ModuleType("jax.sharding")
    jax.sharding.PartitionSpec = Spec
    flags = types.ModuleType("flags")
    flags.on = lambda *_: rng.random() < 0.5
    flags.same = lambda value, *_: value
    flags.some = lambda: list(range(rng.randrange(3)))
    flags.wrapped = lambda function: function
    flags.call = lambda function, *given: function(*given)

    class Entered:
        def __init__(self, value):
            self.value = value

        def __enter__(self):
            return self.value

        def __exit__(self, *_):
            return False

    flags.Entered = Entered
    flags.VALUE = rng.randrange(2)
    return {"jax": jax, "jax.sharding": jax.sharding, "flags": flags}


class Writer:
    def __init__(self, rng):
        self.rng = rng
        self.lists = []      # names of lists of the module
        self.functions = []  # (name, what it does)
        self.count = 0

    def fresh(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}"

    def rule(self):
        axes = ["'x'", "'y'", "None", "('x', 'y')"]
        spec = ", ".join(self.rng.sample(axes, self.rng.randrange(3)))
        return f"('r{self.rng.randrange(9)}', P({spec}))"

    def rules(self):
        return "[" + ", ".join(self.rule() for _ in range(
            self.rng.randrange(1, 4))) + "]"

    def name(self, local=()):
        return self.rng.choice(list(local) + self.lists)

    def condition(self):
        return self.rng.choice(
            ["True", "False", "1 == 2", "'a' == 'a'", "not False",
             "flags.on()", "flags.VALUE", "flags.on() and True",
             "flags.VALUE == 1", "unknown"])

    def value(self, local=()):
        """An expression whose value is a list, which may be an old one."""
        name = self.name(local)
        other = self.name(local)
        pick = self.rng.choice
        forms = [
            name, f"({name})", f"list({name})", f"{name} + {self.rules()}",
            f"{name} if {self.condition()} else {other}",
            f"{name} or {other}", f"{name} and {other}", f"[{name}][0]",
            f"[{name}, {other}][{self.rng.randrange(2)}]",
            f"{{'k': {name}}}['k']", f"{{'k': {name}}}.get('k')",
            f"flags.same({name})", f"[*{name}]", f"[r for r in {name}]",
            f"[r for r in {name} if {self.condition()}]", self.rules(),
            f"sorted({name})", f"({name}, {other})[0]", f"{name}[:]",
            f"next(iter([{name}]))", f"(lambda: {name})()",
            f"max([{name}], key=len)"]
        kinds = {"pass": "{0}({1})", "pick": "{0}()", "both": "{0}({1}, {2})"}
        calls = [kinds[kind].format(function, name, other)
                 for function, kind in self.functions if kind in kinds]
        return pick(calls) if calls and self.rng.random() < 0.4 else \
            pick(forms)

    def change(self, name, local=()):
        """A statement that may change the list `name`."""
        rule = self.rule()
        forms = [
            f"{name}.append({rule})", f"{name}.extend({self.rules()})",
            f"{name} += {self.rules()}", f"{name}.insert(0, {rule})",
            f"{name}[0] = {rule}", f"{name}[-1:] = [{rule}]",
            f"{name}.reverse()", f"{name}.__iadd__({self.rules()})",
            f"list.append({name}, {rule})",
            f"[{name}.append(r) for r in {self.rules()}]",
            f"({name} if {self.condition()} else {self.name(local)})"
            f".append({rule})",
            f"for q in ({name}, {self.name(local)}): q.append({rule})",
            f"for q in flags.some(): {name}.append({rule})",
            f"[{name}][0].append({rule})",
            f"q = {name}; q.append({rule})",
            f"q = {name}.append; q({rule})",
            f"q = [{name}]; q[0].append({rule})",
            f"q = {{'k': {name}}}; q['k'].append({rule})",
            f"q, p = {name}, {self.name(local)}; p.append({rule})",
            f"with flags.Entered({name}) as q: q.append({rule})",
            f"list(map({name}.append, {self.rules()}))",
            f"(lambda q: q.append({rule}))({name})",
            f"(lambda q={name}: q.append({rule}))()",
            f"exec('{name}.append({rule})'.replace('\\n', ''))"
            if "'" not in rule else f"{name}.append({rule})",
            f"getattr({name}, 'append')({rule})",
            f"globals().get('{name}', []).append({rule})",
            f"q = {self.value(local)}; q.append({rule})",
            f"while len({name}) < 3: {name}.append({rule})",
            f"{name}.append({rule}) if {self.condition()} else None",
            f"{self.condition()} and {name}.append({rule})",
            f"q = p = {name}; p += {self.rules()}",
            f"(q := {name}).append({rule})",
            f"*q, = [{name}]; q[0].append({rule})",
            f"del {name}[:1]", f"{name}[:] = {self.rules()}",
            f"{name}.sort(key=lambda r: r[0])", f"{name}.pop(0)",
            f"q = (r for r in {name}); {name}.append({rule}); "
            f"{self.name(local)}.extend(list(q))",
            f"q = map(lambda r: (r[0] + 'm', r[1]), {name}); "
            f"{name}[:] = list(q)",
            f"q = iter({name}); next(q); {name}.extend(list(q)[:2])",
            f"q = {{r[0]: r for r in {name}}}; {name}[:] = q.values()",
            f"q = [[]] * 2; q[0].append({rule}); {name}.extend(q[1])",
            f"q, {name}[0] = 1, {rule}",
            f"q = dict(k={name}); q.setdefault('k', []).append({rule})",
            f"q = lambda x=[]: x.append({rule}) or x; q(); "
            f"{name}.extend(q())",
            f"{name}.extend(sum([[{rule}], {name}[:1]], []))",
            f"{name}.append(('{{}}/{{}}'.format('a', len({name})), P()))",
            f"{name}.append((f'{{len({name})}}', P()))",
            f"{name}.append(('%d' % len({name}), P()))",
            f"[{name}.append((str(i), P())) for i in range(9) "
            f"if i % 4 == {self.rng.randrange(4)}]",
            f"{name} += ({rule},) * {self.rng.randrange(3)}",
            f"q = {name} is {self.name(local)}; "
            f"{name}.append({rule}) if q else None",
            f"{name}.extend(r for r in list({name}) "
            f"if any(r[0] == s[0] for s in {self.name(local)}))"]
        calls = []
        for function, kind in self.functions:
            if kind in ("change", "pass"):
                calls += [f"{function}({name})", f"q = {function}; q({name})",
                          f"list(map({function}, [{name}]))"]
            elif kind == "both":
                calls.append(f"{function}({name}, {self.name(local)})")
            elif kind == "default":
                n = self.rng.randrange(3)
                calls += [f"{function}({n})", f"flags.call({function}, {n})",
                          f"({function} if {self.condition()} else len)('{n}')",
                          f"q = {function} if {self.condition()} else "
                          f"(lambda n: None); q({n})"]
            elif kind in ("global", "pick"):
                calls.append(f"{function}()")
        if calls and self.rng.random() < 0.4:
            return self.rng.choice(calls)
        return self.rng.choice(forms)

    def block(self, lines, indent):
        return [" " * indent + line for line in lines]

    def body(self, local, depth=0):
        lines = []
        for _ in range(self.rng.randrange(1, 3)):
            kind = self.rng.random()
            if kind < 0.5 or depth > 1:
                lines.append(self.change(self.name(local), local))
            elif kind < 0.7:
                lines.append(
                    f"{self.rng.choice(list(local) or self.lists)} = "
                    f"{self.value(local)}")
            elif kind < 0.85:
                lines.append(f"if {self.condition()}:")
                lines += self.block(self.body(local, depth + 1), 4)
                if self.rng.random() < 0.5:
                    lines.append("else:")
                    lines += self.block(self.body(local, depth + 1), 4)
            elif kind < 0.89:
                inner = self.rng.choice(["break", "continue"])
                lines += [
                    f"for i, r in enumerate(list({self.name(local)})):",
                    f"    if {self.condition()} and i: {inner}",
                    f"    {self.name(local)}.append({self.rule()})",
                    "else:", f"    {self.name(local)}.append({self.rule()})"]
            elif kind < 0.94:
                over = self.rng.choice(
                    ["range(2)", "flags.some()", "('a', 'b')",
                     self.name(local) + "[:2]"])
                lines.append(f"for i in {over}:")
                lines += self.block(self.body(local, depth + 1), 4)
            else:
                lines.append("try:")
                lines += self.block(self.body(local, depth + 1), 4)
                lines.append(self.rng.choice(["except Exception:",
                                              "finally:"]))
                lines += self.block(self.body(local, depth + 1), 4)
        return lines

    def function(self):
        rng = self.rng
        name = self.fresh("f")
        kind = rng.choice(["change", "pass", "pick", "both", "default",
                           "global", "default"])
        head = {"change": "x", "pass": "x", "pick": "", "both": "x, y",
                "global": "",
                "default": rng.choice(
                    ["n, x=[]", f"n, x={self.name()}", f"n, x={self.rules()}",
                     f"n, x={{'k': {self.name()}}}['k']", "n, x=list()"])}
        if kind == "default" and rng.random() < 0.2:
            head[kind] = head[kind].replace(", ", ", *, ", 1)
        lines = [f"def {name}({head[kind]}):"]
        if rng.random() < 0.15:
            lines.insert(0, rng.choice(["@flags.wrapped",
                                        "@functools.lru_cache(None)"]))
        local = {"change": ["x"], "pass": ["x"], "both": ["x", "y"],
                 "default": ["x"]}.get(kind, [])
        inside = []
        if kind == "global":
            target = self.name()
            inside.append(f"global {target}")
            inside.append(f"{target} = {self.value()}"
                          if rng.random() < 0.5 else
                          f"{target} += {self.rules()}")
        elif kind == "pick":
            inside.append(f"z = {self.value()}")
            local = ["z"]
            if rng.random() < 0.5:
                inside += self.body(local)
        elif kind == "default":
            if rng.random() < 0.7:
                inside.append(f"x.append({self.rule()})")
        elif kind in ("change", "both") or rng.random() < 0.4:
            inside += self.body(local)
        if rng.random() < 0.15:
            inner = self.fresh("g")
            inside.append(f"def {inner}():")
            inside.append(f"    {self.name(local)}.append({self.rule()})")
            inside.append(f"{inner}()")
        if local and rng.random() < 0.2:
            inner = self.fresh("g")
            inside += [f"def {inner}(y):", f"    nonlocal {local[0]}",
                       f"    {local[0]} = {local[0]} + y",
                       f"{inner}({self.rules()})"]
        if local and rng.random() < 0.2:
            inside.append(f"if {self.condition()}: return {local[0]}")
        if kind in ("pass", "pick", "default", "both"):
            inside.append(f"return {rng.choice(local)}")
        self.functions.append((name, kind))
        return lines + self.block(inside or ["pass"], 4)

    def classes(self):
        name = self.fresh("C")
        lines = [f"class {name}:", f"    rules = {self.value()}"]
        if self.rng.random() < 0.5:
            lines.append(f"    {self.change('rules', ['rules'])}")
        if self.rng.random() < 0.5:
            lines += ["    def grow(self, x=None):",
                      f"        self.rules.append({self.rule()})",
                      "        return self.rules"]
            if self.rng.random() < 0.6:
                lines.append(f"{name}().grow()")
        if self.rng.random() < 0.4:
            lower = self.fresh("C")
            lines += [f"class {lower}({name}):",
                      f"    def __init__(self, x={self.name()}):",
                      "        self.own = x",
                      "        self.rules = self.rules" +
                      self.rng.choice(["", "[:]", " + x"]),
                      "    @staticmethod", "    def fixed():",
                      f"        return {self.name()}",
                      "    @property", "    def both(self):",
                      "        return self.own + self.rules",
                      f"{self.name()}.extend({lower}().both)",
                      f"{lower}().rules.append({self.rule()})",
                      f"{lower}.fixed().append({self.rule()})"]
        lines.append(self.rng.choice(
            [f"{name}.rules.append({self.rule()})", "pass",
             f"q = {name}.rules; q.append({self.rule()})",
             f"{self.name()} = {name}.rules",
             f"for q in [{name}]: q.rules.append({self.rule()})"]))
        return lines

    def program(self):
        lines = ["from jax.sharding import PartitionSpec as P",
                 "import flags, functools", "unknown = flags.VALUE"]
        for _ in range(self.rng.randrange(1, 3)):
            name = self.fresh("L")
            self.lists.append(name)
            lines.append(f"{name} = {self.rules()}")
        for _ in range(self.rng.randrange(2, 6)):
            kind = self.rng.random()
            if kind < 0.3:
                lines += self.function()
            elif kind < 0.4:
                lines += self.classes()
            elif kind < 0.6:
                name = self.fresh("L")
                lines.append(f"{name} = {self.value()}")
                self.lists.append(name)
            else:
                lines += self.body([])
        wanted = self.name()
        if self.rng.random() < 0.3:
            defined = [f for f, k in self.functions if k == "pick"]
            if defined:
                wanted = self.rng.choice(defined)
        return "\n".join(lines) + "\n", wanted


def plain(value):
    """The rules as (pattern, spec), or nothing if the value is no rule set."""
    if callable(value):
        value = value()
    out = []
    for pattern, spec in value:
        out.append((pattern, [list(axis) if isinstance(axis, tuple) else
                              [axis] if axis else [] for axis in spec]))
    return out


def run(text, wanted, seed):
    """What the interpreter makes; nothing if the program fails."""
    made = modules(random.Random(seed))
    before = {name: sys.modules.get(name) for name in made}
    sys.modules.update(made)
    try:
        scope = {"__name__": "program"}
        exec(compile(text, "program", "exec"), scope)  # our own text
        return plain(scope[wanted])
    except Exception:
        return None
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def imported(text, wanted):
    """What the package reads; nothing if it refuses the program."""
    try:
        made = import_python.data(import_python.read(text.encode(), wanted))
    except import_python.Failure:
        return None
    return [(rule["match"], [[] if axis is None else
                             axis if isinstance(axis, list) else [axis]
                             for axis in rule["spec"]])
            for rule in made.get("rules", [])]


def compared(numbers):
    """How often the package reads what the interpreter makes, and the programs
    where it reads something else."""
    counts, wrong = collections.Counter(), []
    for number in numbers:
        text, wanted = Writer(random.Random(number)).program()
        # A condition that is known only at run time may have any outcome.
        expected = [run(text, wanted, seed) for seed in range(4)]
        if all(one is None for one in expected):
            counts["fails"] += 1
            continue
        read = imported(text, wanted)
        if read is None:
            counts["refused"] += 1
        elif all(one is None or one == read for one in expected):
            counts["same"] += 1
        else:
            counts["different"] += 1
            wrong.append((number, wanted, text, read, expected))
    return counts, wrong


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    counts, wrong = compared(range(seed, seed + count))
    for number, wanted, text, read, expected in wrong[:int(os.environ.get(
            "SHARDC_SHOWN", "3"))]:
        print(f"--- program {number}, `{wanted}`\n{text}read     {read}")
        for one in expected:
            print(f"expected {one}")
    print(dict(counts), "different:", [one[0] for one in wrong][:40])
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
