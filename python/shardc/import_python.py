"""python -m shardc.import_python FILE -- the rule sets of Python source as a rules file.

FILE is read and never run, nor is what it imports. These are rule sets:

    lists of (pattern, PartitionSpec), as constants, attributes of classes, or what
    functions return that are called without arguments
    dicts from names to specs, and trees of specs, whose paths are the names
    PartitionAxis and PartitionAxis.register of eformer
    with --logical, lists of (logical axis, mesh axes) of flax.linen and t5x

    python3 -m shardc.import_python rules.py --symbol Config.get_partition_rules

What the file does not determine is refused with its place: a value that comes from
elsewhere, or a branch on a flag that --set does not give. The program shardc, where it
is found, checks the patterns. The status is 0 where the rules are written, and else 2.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from shardc import files
from shardc.files import printable
from shardc.logical_axes import rule_of, token_of
from shardc.command import find_program, findings_of_text, run
from shardc.source_reader import MOST_BYTES, MOST_PARTS, PART, SourceError
from shardc.source_rules import (
    ImportError_,
    Name,
    RulesFile,
    RulesReader,
    not_known,
    quoted,
)
from shardc.source_state import Refused
from shardc.source_values import Spec, Unknown

_YAML_WORDS = {"null", "true", "false", "yes", "no", "on", "off"}


class Failure(Exception):
    """An error, its line and column, what to do, and its code (docs/diagnostics.md)."""

    def __init__(
        self, message: str, line: int = 0, column: int = 0, help: str = "", size: int = 1,
        code: str = "inexpressible",
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.message, self.line, self.column, self.help = message, line, column, help
        self.size, self.code = size, code


# -- Reading -----------------------------------------------------------------------------


def read(
    source: bytes,
    symbol: str = "",
    settings: dict[str, Any] | None = None,
    matching: str = "",
    logical: bool = False,
) -> Any:
    """The rules of a file, or with `logical` its logical axis rules, as pairs. Raises
    Failure."""
    if len(source) > MOST_BYTES:
        raise Failure(f"this file is larger than {MOST_BYTES >> 20} MiB", code="limit")
    try:
        text = source.decode("utf-8")
    except UnicodeDecodeError as error:
        before = source[: error.start].decode()
        line = before.count("\n") + 1
        column = len(before) - before.rfind("\n")
        raise Failure("this byte is not UTF-8", line, column, code="encoding") from None
    if (parts := sum(1 for _ in PART.finditer(text))) > MOST_PARTS:
        raise Failure(
            f"this file has {parts:,} words and signs, and at most {MOST_PARTS:,} are read",
            help="move the rule set to a file of its own",
            code="limit",
        )
    for name in settings or {}:
        if not name.isidentifier() or not re.search(rf"\b{name}\b", text):
            raise Failure(
                f"this file has no {quoted(name)}, to which `--set` gives a value",
                help="name a parameter of a function, or an attribute without its object,"
                " such as `num_layers`",
                code="usage",
            )
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 8000))
    try:
        reader = RulesReader(source, settings or {}, matching, symbol)
        if logical:
            return _logical_rules(reader, symbol)
        made = reader.read(symbol)
        for rule in made.rules:
            _check(rule)
        return made
    except SourceError as error:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        help = f"this is Python {version}; what a newer one reads needs that one"
        message = f"this is not well-formed Python: {error.message}"
        raise Failure(message, error.line, error.column, help) from None
    except Refused as error:
        raise _failure(source, _not_followed(error.unknown)) from None
    except ImportError_ as error:
        raise _failure(source, error) from None
    except RecursionError:
        raise Failure("this file is nested too deeply to be followed") from None
    finally:
        sys.setrecursionlimit(limit)


def _not_followed(of: Unknown) -> ImportError_:
    return ImportError_(
        f"{of.why} cannot be followed",
        of.node,
        "move the rule set to a file of its own, or write its value",
    )


def _failure(source: bytes, error: ImportError_) -> Failure:
    node = error.node
    if getattr(node, "lineno", None) is None:
        return Failure(error.message, help=error.help, code=error.code)
    line = re.split(rb"\r\n|\r|\n", source)[node.lineno - 1]
    before = len(line[: node.col_offset].decode("utf-8", "replace"))
    end = node.end_col_offset if node.end_lineno == node.lineno else len(line)
    size = len(line[node.col_offset : end].decode("utf-8", "replace"))
    if line.startswith(b"\xef\xbb\xbf"):
        before -= 1
    return Failure(
        error.message, node.lineno, before + 1, error.help, max(size, 1), error.code
    )


def _logical_rules(reader: RulesReader, symbol: str) -> list[list[Any]]:
    """Pairs of a logical axis and its mesh axes."""
    found = []
    for one in reader.found:
        value = one.value
        first = (
            one.reader.seen(value[0])
            if isinstance(value, (list, tuple)) and value
            else None
        )
        name = one.named.name
        if (
            (name == symbol or name.endswith("." + symbol))
            if symbol
            else _is_pair(first)
        ):
            found.append(one)
    if len(found) != 1:
        names = ", ".join(f"`{one.named.name}`" for one in found)
        raise ImportError_(
            "this file holds several lists of logical axis rules" if found
            else "this file holds no such list of logical axis rules", None,
            f"name one with `--symbol`: {names}" if found else "a list of pairs (name, axes)",
            "usage" if found else "",
        )  # fmt: skip
    one = found[0]
    reader.reader = one.reader
    reader.nodes = []
    if type(one.value) is Unknown:
        raise not_known(one.value)
    if not isinstance(one.value, (list, tuple)) or isinstance(one.value, Spec):
        raise ImportError_(
            f"`{one.named.name}` is no list of logical axis rules",
            reader.place(one.value, None),
        )
    out: list[list[Any]] = []
    for i, pair in enumerate(one.value):
        pair, node = one.reader.seen(pair), reader.part_place(one.value, i)
        if not _is_pair(pair):
            if type(pair) is Unknown:
                raise not_known(pair)
            raise ImportError_("this is no pair of a logical name and mesh axes", node)
        entry = reader.entry(pair[1], reader.part_place(pair, 1), False)
        out.append([str(pair[0]), [name.text for name in entry] or None])
    return out


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple)) and not isinstance(value, Spec) and len(value) == 2
        and isinstance(value[0], str) and isinstance(value[1], (str, type(None), list, tuple))
    )  # fmt: skip


def _check(rule: Any) -> None:
    """Refuses what no rules file can hold: names of axes, and an axis given twice."""
    if isinstance(rule.spec, str):
        return
    seen: set[str] = set()
    nodes = iter(rule.nodes)
    for name in (name for entry in rule.spec for name in entry):
        node = next(nodes, rule.node)
        logical = token_of(name.text) or rule_of(name.text)
        if name.text in seen and not logical:
            raise ImportError_(
                f"axis `{name.text}` is given twice in one spec", node,
                "an axis can split one dimension only", "spec",
            )  # fmt: skip
        seen.add(name.text)
        fault = _axis_fault(name.text) if name.is_axis and name.text != "_" else ""
        if fault:
            raise ImportError_(
                f"axis name {quoted(name.text)} {fault}", node,
                "rename the axis in the source", "axis-name",
            )  # fmt: skip


def _axis_fault(name: str) -> str:
    if not re.match(r"[A-Za-z_]", name):
        return "does not begin with a letter" if name else "is empty"
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        return "holds something else than letters, digits, `_`, `-` and `.`"
    return ""


# -- Writing -----------------------------------------------------------------------------


def _plain(text: str) -> str:
    """A name in YAML, quoted where a reader would not read it as a text."""
    good = (
        re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text)
        and text.lower() not in _YAML_WORDS
    )
    return text if good else json.dumps(text, ensure_ascii=False)


def _name(name: Name) -> str:
    data = name.data()
    return _plain(data) if isinstance(data, str) else f"{{axis: {_plain(name.text)}}}"


def _spec(spec: Any) -> str:
    if isinstance(spec, str):
        return _plain(spec)
    out = []
    for entry in spec:
        names = ", ".join(map(_name, entry))
        out.append("null" if not entry else names if len(entry) == 1 else f"[{names}]")
    return f"[{', '.join(out)}]"


def _pattern(text: str) -> str:
    if printable(text) != text:
        return json.dumps(text)
    return "'" + text.replace("'", "''") + "'"


def yaml_text(of: RulesFile) -> str:
    """The rules file."""
    out = [f"# {printable(line)}" for line in of.comments]
    out.append("version: 1")
    if of.separator:
        out.append(f'separator: "{of.separator}"')
    if of.axes or not (of.rules or of.register):
        out.append("axes:" if of.axes else "axes: {}")
    for rule, axes in of.axes.items():
        many = [_plain(axis) for axis in axes or ()]
        value = (
            "null"
            if axes is None
            else many[0]
            if len(many) == 1
            else f"[{', '.join(many)}]"
        )
        out.append(f"  {rule}: {value}")
    out += ["register:"] if of.register else []
    out += [
        f"  {_plain(one.name)}: {json.dumps(one.data(), ensure_ascii=False)}"
        for one in of.register
    ]
    out += ["rules:"] if of.rules else []
    for one in of.rules:
        out += [f"  # {printable(line)}" for line in one.comments]
        out += [f"  - match: {_pattern(one.match)}", f"    spec: {_spec(one.spec)}"]
        if one.modes:
            modes = ", ".join(
                f"{mode}: {_spec(spec)}" for mode, spec in one.modes.items()
            )
            out.append(f"    modes: {{{modes}}}")
    return "\n".join(out) + "\n"


def _spec_data(spec: Any) -> Any:
    if isinstance(spec, str):
        return spec
    many = [[name.data() for name in entry] for entry in spec]
    return [None if not one else one[0] if len(one) == 1 else one for one in many]


def data(of: RulesFile) -> dict[str, Any]:
    """The rules file as data, for JSON. The comments of a rule are its note."""
    out: dict[str, Any] = {"version": 1}
    if of.separator:
        out["separator"] = of.separator
    out["axes"] = {k: v[0] if v and len(v) == 1 else v for k, v in of.axes.items()}
    if of.register:
        out["register"] = {one.name: one.data() for one in of.register}
    if of.rules:
        out["rules"] = []
    for one in of.rules:
        rule = {"match": one.match, "spec": _spec_data(one.spec)}
        if one.modes:
            rule["modes"] = {mode: _spec_data(spec) for mode, spec in one.modes.items()}
        if one.comments:
            rule["note"] = "\n".join(one.comments)
        out["rules"].append(rule)
    return out


# -- The command -------------------------------------------------------------------------


def setting(text: str) -> Any:
    """A value of `--set`."""
    known = {"true": True, "false": False, "none": None}
    lower = text[:1].lower() + text[1:]
    if lower in known:
        return known[lower]
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text) else text


def code_of(failure: Failure) -> str:
    """The code and the name of a message, as the program has them."""
    code = failure.code
    return code if code.startswith("SHD") else f"SHD{files.CODES[code]:03} {code}"


def shown(failure: Failure, path: str, source: bytes, level: str = "error") -> str:
    """A message with its place, as the program prints its own."""
    out = [f"{level}[{code_of(failure)}]: {printable(failure.message)}"]
    path = printable(path)
    if failure.line:
        out.append(f"  --> {path}:{failure.line}:{failure.column}")
        lines = re.split(r"\r\n|\r|\n", source.decode("utf-8", "replace"))
        line = lines[failure.line - 1] if failure.line <= len(lines) else ""
        margin = " " * len(str(failure.line))
        if len(line) <= 200:
            marks = " " * (failure.column - 1) + "^" * min(failure.size, 200)
            out += [
                f"{margin} |",
                f"{failure.line} | {printable(line)}",
                f"{margin} | {marks}",
            ]
    else:
        out.append(f"  --> {path}")
    if failure.help:
        out.append(f"   = help: {printable(failure.help)}")
    return "\n".join(out) + "\n"


def check_patterns(made: RulesFile, text: str, source: bytes) -> None:
    """Lets the program, where it is found, read the written rules."""
    try:
        find_program()
    except FileNotFoundError:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = files.scratch(folder, "rules.yaml", text)
        done = run(["show", "rules", "--rules", path, "--no-project", "--quiet"], check=False)
    if done.returncode in (0, 1):
        return
    for found in findings_of_text(done.stderr):
        if found.level != "error":
            continue
        before = text.split("\n")[: found.line or 0]
        number = sum(line.startswith("  - match: ") for line in before)
        node = made.rules[number - 1].node if 0 < number <= len(made.rules) else None
        label = f"{found.code} {found.name}"
        raise _failure(source, ImportError_(found.message, node, found.help, label))
    raise Failure(done.stderr.strip() or "the program does not read these rules")


def count_matched(text: str, made: RulesFile, manifest: str) -> str:
    """How many names of a manifest have a rule, by the program."""
    axes = {"dp", "fsdp", "tp", "sp", "ep"}
    for value in made.axes.values():
        axes.update(value or ())
    for one in made.register:
        for rule in (one.rule, one.generation):
            many = rule if isinstance(rule, list) else [rule]
            axes.update(n.text for n in many if isinstance(n, Name))
    for rule in made.rules:
        for spec in (rule.spec, *rule.modes.values()):
            axes.update(
                n.text
                for entry in spec
                for n in entry
                if isinstance(n, Name) and n.is_axis
            )
    with tempfile.TemporaryDirectory() as folder:
        sizes = ", ".join(f"{json.dumps(axis)}: 1" for axis in sorted(axes))
        mesh = files.scratch(folder, "mesh.yaml", f"axes: {{{sizes}}}\n")
        rules = files.scratch(folder, "rules.yaml", text)
        plan = os.path.join(folder, "plan")
        inputs = ["--mesh", mesh, "--rules", rules]
        inputs += ["--manifest", manifest, "--no-project", "--quiet", "--keep-going"]
        done = run(
            [
                "plan",
                *inputs,
                "--modes",
                "train",
                "--unmatched",
                "replicate",
                "-o",
                plan,
            ],
            check=False,
        )
        if not os.path.exists(plan):
            raise Failure(
                f"{manifest} cannot be matched: {done.stderr.strip()}", code="usage"
            )
        params = files.read_json(plan)["params"]
    count = sum(one.get("rule") is not None for one in params.values())
    return f"{count} of {len(params)} {'name has' if len(params) == 1 else 'names have'} a rule\n"


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m shardc.import_python",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "file", metavar="FILE", help="file to read; - is standard input"
    )
    parser.add_argument(
        "-o", "--output", help="file for the rules (default: standard output)"
    )
    parser.add_argument(
        "--symbol",
        default="",
        metavar="NAME",
        help="rule set to read from a file with several, such as LlamaConfig.get_partition_rules",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="value of a parameter or attribute that the rules depend on; may be repeated",
    )
    parser.add_argument(
        "--matching",
        default="",
        choices=("search", "whole", "start", "glob", "name"),
        help="how the source matches names (default: search for lists, name for dicts)",
    )
    parser.add_argument("--format", default="text", choices=("text", "json"))
    parser.add_argument(
        "--logical",
        action="store_true",
        help="read logical axis rules of flax.linen or t5x; needs --names and --mesh",
    )
    parser.add_argument(
        "--names",
        metavar="FILE",
        help="file with the logical names of the parameters' dimensions",
    )
    parser.add_argument(
        "--mesh", help="mesh of the logical axis rules, such as data:4,model:2"
    )
    parser.add_argument(
        "--mesh-output", metavar="FILE", help="file to write this mesh to"
    )
    parser.add_argument(
        "--manifest", help="count the names of these parameters that have a rule"
    )
    options = parser.parse_args(arguments)
    for one in options.set:
        if not re.match(r"[^=]+=", one):
            parser.error(f"--set {one}: this is not NAME=VALUE")
    if options.logical and not (options.names and options.mesh):
        parser.error(
            "logical axis rules say nothing of a parameter without the logical names of its"
            " dimensions and a mesh: give `--names logical_shardings.json` and `--mesh`"
        )
    for flag in ("names", "mesh", "mesh_output"):
        if getattr(options, flag) and not options.logical:
            parser.error(f"--{flag.replace('_', '-')} needs --logical")
    return options


def import_logical(rules: list[list[Any]], options: argparse.Namespace) -> int:
    """Lets the program apply logical axis rules to the names of parameters."""
    flags = [
        "--names",
        options.names,
        "--mesh",
        options.mesh,
        "--format",
        options.format,
    ]
    flags += ["-o", options.output] if options.output else []
    flags += ["--manifest", options.manifest] if options.manifest else []
    flags += ["--mesh-output", options.mesh_output] if options.mesh_output else []
    with tempfile.TemporaryDirectory() as folder:
        content = json.dumps({"logical_axis_rules": rules})
        path = files.scratch(folder, "rules.json", content)
        done = run(["import", "maxtext", path, *flags], check=False)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of(arguments)
    path = "<stdin>" if options.file == "-" else options.file
    settings = {
        one.split("=", 1)[0]: setting(one.split("=", 1)[1]) for one in options.set
    }
    source = b""
    try:
        source = files.read(options.file, MOST_BYTES)
        made = read(source, options.symbol, settings, options.matching, options.logical)
        if options.logical:
            return import_logical(made, options)
        text = yaml_text(made)
        check_patterns(made, text, source)
        if options.manifest:
            sys.stderr.write(count_matched(text, made, options.manifest))
        for warning in made.warnings:
            sys.stderr.write(shown(_failure(source, warning), path, source, "warning"))
        if options.format == "json":
            text = json.dumps(data(made), indent=1) + "\n"
        files.write(options.output or "-", text, read=[options.file])
    except Failure as error:
        sys.stderr.write(shown(error, path, source))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(files.exit_status(main))
