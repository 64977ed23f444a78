"""Rule sets in Python, and what Python itself reads from them."""

from driver import Case, run

A, B = "('a', P('x'))", "('b', P('y'))"


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


class PythonCase(Case):
    def read(self, source, rc=0, *flags):
        return self.check(run("import", "python", "-", "--format", "json",
                              *flags, stdin=source), rc)

    def rules(self, source, *flags):
        return [[rule["match"], rule["spec"]]
                for rule in self.read(source, 0, *flags).json()["rules"]]
