"""Groups sources into units of compilation and prints one unit a line.

    make_units.py [--tests] ROOT FILE...

A unit has sources of one folder, in their order, up to 7,500 lines together, so
that their common headers are read, and their common templates are compiled,
once for all of them. Files are named from ROOT. Sources of vectors
(_simd.cc) stay alone, because they include themselves once for each instruction
set. With --tests, a unit has sources of all folders of a room: only tests, or only
sources that are no tests. Tests often define functions of equal names, so a test is
not joined with one that mentions a name which it defines. Other sources are not
joined if both define a name.
"""

import pathlib
import re
import sys


# A third of a unit's time goes into headers and into templates that other units
# compile as well: units of 2,500 lines take 1.25 times the processor time of
# these. Longer ones would leave processors without work at the end of a build.
LINES = 7500


# Tests are compiled quickly, and several of the shorter units at once.
TEST_LINES = 4000

# Comments, texts, and directives of the preprocessor.
SKIPPED = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|'
                     r"'(?:\\.|[^'\\\n])*'|//[^\n]*|^\s*#.*(?:\\\n.*)*", re.M)
# What is before the `{` or the `;` of a definition, or of a declaration that may
# be repeated.
DEFINED = re.compile(
    r"(?:struct|class|enum(?: class)?|union) (\w+)(?: final)?(?: ?:[^:].*)?$|"
    r"(\w+)\((?:[^()]|\([^()]*\))*\)(?: const| noexcept| ?->.*)?$|"
    r"(\w+)(?:\[[^\]]*\])?(?: ?=.*)?$")
REPEATED = re.compile(r"using (\w+) ?=|using [\w:]*::(\w+)$|namespace (\w+) =")
# A name that is no member.
MENTIONED = re.compile(r"(?<![.\w])(?<!->)[A-Za-z_]\w*")
NAMESPACE = re.compile(r"\bnamespace( [\w:]+)?$")


def names(text):
    """What a source defines outside of functions and classes, and its macros. The
    value of a name is its declaration if that may be repeated, or else empty."""
    found = dict.fromkeys(re.findall(r"^\s*#define (\w+)", text, re.M), "")
    text = SKIPPED.sub(lambda m: '""' if m[0][0] in "R\"'" else " ", text)
    open_namespaces, head = [], ""
    for part in re.split(r"([{};])", text):
        outside = all(open_namespaces)
        if part not in "{};":
            head = " ".join(part.split())
            continue
        space = part == "{" and bool(NAMESPACE.search(head))
        if part == "{":
            open_namespaces.append(space and outside)
        elif part == "}" and open_namespaces:
            open_namespaces.pop()
        # `void Setting::Register(..)` defines no name of the namespace.
        member = "::" in head.partition("(")[0].rpartition(" ")[2] and "(" in head
        if part != "}" and outside and not space and not member:
            repeated = REPEATED.search(head)
            defined = repeated or DEFINED.search(head)
            if defined and not head.startswith("TEST_CASE"):
                name = next(filter(None, defined.groups()))
                found[name] = head if repeated else ""
        head = ""
    return found


def clash(one, other):
    """Whether the other source mentions a name that this one defines, and does
    not declare it in the same words."""
    return any(name in other["words"] and
               (not text or other["names"].get(name) != text)
               for name, text in one["names"].items())


def test_units(root, paths):
    """Each source goes to the first unit of its room and kind (test or not) that
    has space and none of whose names it shares."""
    units = []
    for name in paths:
        text = (pathlib.Path(root) / name).read_text(encoding="utf-8")
        is_test = name.endswith("_test.cc")
        source = {"names": names(text), "lines": text.count("\n"),
                  "kind": (name.split("/")[0], is_test)}
        # Sources that are no tests are there to be called by others.
        source["words"] = set(MENTIONED.findall(SKIPPED.sub(" ", text))
                              if is_test else source["names"])
        for unit in units:
            if (unit["kind"] == source["kind"] and
                    unit["lines"] + source["lines"] <= TEST_LINES and
                    not clash(unit, source) and not clash(source, unit)):
                break
        else:
            unit = {"names": {}, "lines": 0, "words": set(), "files": [],
                    "kind": source["kind"]}
            units.append(unit)
        for key in ("names", "words"):
            unit[key] |= source[key]
        unit["lines"] += source["lines"]
        unit["files"].append(name)
    return [unit["files"] for unit in units]


def source_units(root, paths):
    alone = [[name] for name in paths if name.endswith("_simd.cc")]
    units, place, lines = [], None, 0
    for name in paths:
        if name.endswith("_simd.cc"):
            continue
        path = pathlib.Path(root) / name
        count = path.read_text(encoding="utf-8").count("\n")
        if path.parent != place or lines + count > LINES:
            units.append([])
            place, lines = path.parent, 0
        units[-1].append(name)
        lines += count
    return alone + units


def main(*arguments):
    tests = arguments[0] == "--tests"
    root, *paths = arguments[tests:]
    for unit in (test_units if tests else source_units)(root, paths):
        print(" ".join(unit))


if __name__ == "__main__":
    main(*sys.argv[1:])
