"""Groups sources into units of compilation and prints one unit a line.

    make_units.py [--tests] ROOT FILE...

A unit has sources of one folder, in their order, up to 7,500 lines together, so
that their common headers are read, and their common templates are compiled,
once for all of them. Files are named from ROOT. Sources of vectors
(_simd.cc) stay alone, because they include themselves once for each instruction
set. With --tests, a unit may have sources of all folders of a room, and a source
is not joined with one that mentions a name which it defines, because tests often
define functions of equal names.
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
# What is before the `{` or the `;` of a definition.
DEFINED = re.compile(
    r"(?:struct|class|enum(?: class)?|union) (\w+)(?: final)?(?: ?:[^:].*)?$|"
    r"using (\w+) ?=|using [\w:]*::(\w+)$|"
    r"(\w+)\((?:[^()]|\([^()]*\))*\)(?: const| noexcept| ?->.*)?$|"
    r"(\w+)(?:\[[^\]]*\])?(?: ?=.*)?$")
NAMESPACE = re.compile(r"\bnamespace( [\w:]+)?$")


def names(text):
    """What a source defines outside of functions and classes, and its macros."""
    found = set(re.findall(r"^\s*#define (\w+)", text, re.M))
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
        defined = part != "}" and outside and not space and DEFINED.search(head)
        if defined and not head.startswith("TEST_CASE"):
            found |= {name for name in defined.groups() if name}
        head = ""
    return found


def test_units(root, paths):
    """Each source goes to the first unit of its room that has space, mentions
    none of its names and defines none that it mentions."""
    units = []
    for name in paths:
        path = pathlib.Path(root) / name
        room = name.split("/")[0]
        text = path.read_text(encoding="utf-8")
        defined, count = names(text), text.count("\n")
        words = set(re.findall(r"\w+", SKIPPED.sub(" ", text)))
        for unit in units:
            if (unit["room"] == room and not unit["names"] & words and
                    not unit["words"] & defined and
                    unit["lines"] + count <= TEST_LINES):
                break
        else:
            unit = {"room": room, "names": set(), "words": set(),
                    "lines": 0, "files": []}
            units.append(unit)
        unit["names"] |= defined
        unit["words"] |= words
        unit["lines"] += count
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
