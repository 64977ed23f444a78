"""Small changes of single expressions and words of the source as it is.

Comparisons become their neighbours, sums differences, numbers one more, least
becomes most, conditions their opposites; two arguments are exchanged, calls are
left out, those of findings too, and a word that is printed or read loses a
letter. Whether a change compiles is for compiling.py to find out.
"""

import os
import re

from compiling import ROOT, Mutant, sources

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
STRING = re.compile(r'(?<![\w])"((?:[^"\\]|\\.)*)"(?!\w)')
WORD = re.compile(r"(?<![\\\w%])[A-Za-z]{3,}")
# Declarations, what the compiler must know, and lines of a longer text.
SKIP = re.compile(r'^(//|#|case |using |template|static_assert|constexpr|enum|'
                  r'struct|class|namespace|\}|public:|private:|inline|"|'
                  r'explicit|friend|extern|\.)|reserve|'
                  r'constexpr|= (delete|default);|assert\(')


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
    # What stands between quotation marks is no expression.
    code = STRING.sub(lambda found: '"' + "_" * len(found[1]) + '"', line)
    for found in (*COMPARED.finditer(code), *COUNTED.finditer(code)):
        a, b = (line[slice(*found.span(group))] for group in (1, 3))
        yield line[slice(*found.span())], f"{a} {OTHER[found[2]]} {b}"
    for found in NUMBER.finditer(code):
        yield found[1], str(int(found[1]) + 1)
    for found in EXTREME.finditer(code):
        end = balanced(code, found.end() - 1)
        if end > 0:
            old = line[found.start():end]
            new = "max" if found[1] == "min" else "min"
            yield old, old.replace("std::" + found[1], "std::" + new, 1)
    for old, new in NAMED.items():
        if re.search(rf"(?<![\w:]){old}(?!\w)", code):
            yield old, new
    yield from of_condition(line, code)
    for found in TWO.finditer(code):
        name, a, b = (line[slice(*found.span(group))] for group in (1, 2, 3))
        if a != b and name not in SYMMETRIC:
            yield line[slice(*found.span())], f"{name}({b}, {a})"
    if CALL.match(code) and not code.startswith(("return", "co_")):
        yield line[:-1], ""
    for found in STRING.finditer(line):
        word = WORD.search(found[0])
        if word:
            yield found[0], (found[0][:word.end() - 1] + found[0][word.end():])


def of_condition(line, code):
    begin = code.find("if (")
    end = balanced(code, begin + 3) if begin >= 0 else -1
    if end < 0:
        return
    condition, masked = line[begin + 4:end - 1], code[begin + 4:end - 1]
    if " = " in masked or ";" in masked:
        return
    yield condition, f"!({condition})"
    if masked.count("&&") + masked.count("||") == 1:
        for op, new in (("&&", "||"), ("||", "&&")):
            at = masked.find(f" {op} ") + 1
            if at > 0:
                yield condition, condition[:at] + new + condition[at + 2:]


def in_raw_strings(text):
    """Numbers of the lines, from 0, that a raw string takes a part of. A change
    there would be text of the string, whether it is chosen or not."""
    out = set()
    for found in re.finditer(r'R"(\w*)\((.*?)\)\1"', text, re.S):
        first = text.count("\n", 0, found.start())
        out.update(range(first, first + found[0].count("\n") + 1))
    return out


def proposals(rooms):
    """All changes of the sources below these folders of src, in the order of
    files."""
    for path in sources(rooms):
        with open(os.path.join(ROOT, "src", path), encoding="utf-8") as file:
            text = file.read()
        lines = [line.strip() for line in text.splitlines()]
        raw = in_raw_strings(text)
        for number, (before, line, after) in enumerate(
                zip([""] + lines, lines, lines[1:] + [""])):
            if number in raw or lines.count(line) != 1:
                continue
            # An `if` before the line leaves the complete call out.
            if OPENED.match(line) and before.endswith((";", "{", "}")) and \
                    not line.startswith(("if ", "for ", "while ", "return")):
                yield Mutant(path, line, line, "")
            if SKIP.search(line):
                continue
            for old, new in changes(line):
                continued = old.endswith('"') and after.startswith('"')
                if line.count(old) == 1 and not continued:
                    yield Mutant(path, line, old, new)
