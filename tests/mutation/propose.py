"""Proposes small changes of single expressions, for the lists in changes/.

    tests/mutation/propose.py NUMBER [--seed N] [--only TEXT] [--rooms A,B]

Comparisons become their neighbours, sums differences, numbers one more, least
becomes most, conditions their opposites; two arguments are exchanged, and calls
are left out, those of findings too. What is printed has been compiled, in the
build of SHARDC_BUILD_ROOT; whether a change is worth a line of the list is for
its reader to judge.
"""

import argparse
import os
import random
import re
import sys

from compiling import ROOMS, ROOT, Compiler, Mutant, sources

TERM = (r"(?:[A-Za-z_]\w*|\d+)(?:::\w+)*"
        r"(?:\.\w+|->\w+|\[[^\[\]]*\]|\([^()]*\))*")
BEFORE = (r"(?:(?<=\()|(?<=\[)|(?<=&& )|(?<=\|\| )|(?<=return )|(?<=; )|"
          r"(?<== )|(?<=\? )|(?<=, ))")
AFTER = r"(?=\)|\]|;|,| &&| \|\|| \?)"
COMPARED = re.compile(f"{BEFORE}({TERM}) (<=|>=|<|>|==|!=) ({TERM}){AFTER}")
COUNTED = re.compile(f"{BEFORE}({TERM}) ([-+*/%]) ({TERM}){AFTER}")
NUMBER = re.compile(r"(?<![\w.\"'<])([0-9]+)(?![\w.\"'>])")
EXTREME = re.compile(r"std::(min|max)(?:<\w+>)?\(")
CALL = re.compile(r"^[A-Za-z_][\w.:>\[\]()-]*\([^;]*\);$")
# A call with two arguments, and the first line of a longer one.
TWO = re.compile(rf"(?<![\w.>:])([A-Za-z_][\w.:]*)\(({TERM}), ({TERM})\)")
# Calls that return the same whichever argument is first: an exchange changes
# nothing, up to the order of equal values and of signed zeros.
SYMMETRIC = frozenset({"std::min", "std::max", "std::gcd", "std::lcm",
                       "std::swap", "CheckedAdd", "CheckedMul"})
OPENED = re.compile(r"^[A-Za-z_][\w.:]*(?:->\w+)?\((?:[^;{]*[,(])?$")
NAMED = {"Reduce::kSum": "Reduce::kMax", "Reduce::kMax": "Reduce::kSum",
         "GroupMap::kNaive": "GroupMap::kGlobal",
         "GroupMap::kGlobal": "GroupMap::kNaive",
         "true": "false", "false": "true", "std::exp": "std::expm1"}
OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
         "+": "-", "-": "+", "*": "+", "/": "*", "%": "/"}
# Words, declarations and what the compiler must know.
SKIP = re.compile(r'^(//|#|case |using |template|static_assert|constexpr|enum|'
                  r'struct|class|namespace|\}|public:|private:|inline|"|'
                  r'explicit|friend|extern|\.)|"|std::to_string|reserve|'
                  r'Counted|constexpr|= (delete|default);|assert\(')


def balanced(text, begin):
    """Past the parenthesis that closes the one at `begin`; -1 for none."""
    depth = 0
    for i in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    return -1


def changes(line):
    """Pairs of an expression of the line and what becomes of it."""
    for found in COMPARED.finditer(line):
        a, op, b = found.groups()
        yield found[0], f"{a} {OTHER[op]} {b}"
    for found in COUNTED.finditer(line):
        a, op, b = found.groups()
        yield found[0], f"{a} {OTHER[op]} {b}"
    for found in NUMBER.finditer(line):
        yield found[1], str(int(found[1]) + 1)
    for found in EXTREME.finditer(line):
        end = balanced(line, found.end() - 1)
        if end > 0:
            old = line[found.start():end]
            new = "max" if found[1] == "min" else "min"
            yield old, old.replace("std::" + found[1], "std::" + new, 1)
    for old, new in NAMED.items():
        if re.search(rf"(?<![\w:]){old}(?!\w)", line):
            yield old, new
    begin = line.find("if (")
    if begin >= 0:
        end = balanced(line, begin + 3)
        condition = line[begin + 4:end - 1]
        if end > 0 and " = " not in condition and ";" not in condition:
            yield condition, f"!({condition})"
            for op, new in (("&&", "||"), ("||", "&&")):
                if condition.count("&&") + condition.count("||") == 1 and \
                        f" {op} " in condition:
                    yield condition, condition.replace(op, new)
    for found in TWO.finditer(line):
        name, a, b = found.groups()
        if a != b and name not in SYMMETRIC:
            yield found[0], f"{name}({b}, {a})"
    if CALL.match(line) and not line.startswith(("return", "co_")):
        yield line[:-1], ""


def in_raw_strings(text):
    """Numbers of the lines, from 0, that a raw string takes a part of. A change
    there would be text of the string, whether it is chosen or not."""
    out = set()
    for found in re.finditer(r'R"(\w*)\((.*?)\)\1"', text, re.S):
        first = text.count("\n", 0, found.start())
        out.update(range(first, first + found[0].count("\n") + 1))
    return out


def proposals(rooms):
    for path in sources(rooms):
        with open(os.path.join(ROOT, "src", path), encoding="utf-8") as file:
            text = file.read()
        lines = [line.strip() for line in text.splitlines()]
        raw = in_raw_strings(text)
        for number, (before, line) in enumerate(zip([""] + lines, lines)):
            if number in raw or lines.count(line) != 1:
                continue
            # An `if` before the line leaves the complete call out.
            if OPENED.match(line) and before.endswith((";", "{", "}")) and \
                    not line.startswith(("if ", "for ", "while ", "return")):
                yield Mutant(path, line, line, "", "")
            if SKIP.search(line):
                continue
            for old, new in changes(line):
                if line.count(old) == 1:
                    yield Mutant(path, line, old, new, "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("number", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--rooms", default=",".join(ROOMS))
    args = parser.parse_args()
    every = [m for m in proposals(args.rooms.split(",")) if args.only in m.file]
    random.Random(args.seed).shuffle(every)
    chosen = sorted(every[:args.number])
    good = Compiler(chosen).that_compile()
    for mutant in good:
        print(f"    ({mutant.file!r},\n     {mutant.line!r},\n"
              f"     {mutant.old!r}, {mutant.new!r}, ''),")
    print(f"{len(good)} of {len(chosen)} compile", file=sys.stderr)


if __name__ == "__main__":
    main()
