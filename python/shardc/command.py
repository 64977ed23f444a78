"""Calls the program `shardc` and returns its results as objects."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import inspect
import json
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, Union, cast

from shardc.inputs import (
    FIRST_RULE,
    mesh_value,
    model_flags,
    rules_value,
    written,
)

Path = Union[str, "os.PathLike[str]"]
Paths = Union[Path, Iterable[Path]]
# A file, or what shardc.manifest.from_model returns.
Manifest = Union[Path, Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A diagnostic. Its place is None where it has none."""

    code: str
    name: str
    level: str  # "error", "warning" or "note"
    message: str
    help: str = ""
    file: str | None = None
    line: int | None = None
    column: int | None = None
    params: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()  # of a project

    def __str__(self) -> str:
        place = ":".join(
            str(at) for at in (self.file, self.line, self.column) if at is not None
        )
        return f"{place}{': ' if place else ''}{self.level}[{self.code} {self.name}]: {self.message}"


class ShardcError(RuntimeError):
    """The program refused its input; `findings` say why."""

    def __init__(
        self, returncode: int, stderr: str, findings: Iterable[Finding] | None = None
    ) -> None:
        self.returncode = returncode
        self.stderr = stderr
        # Whether the findings are given, and not read from the text.
        self.stated = findings is not None
        self.findings = tuple(
            findings_of_text(stderr) if findings is None else findings
        )
        said = "\n".join(map(str, findings)) if findings else stderr.strip()
        super().__init__(said or f"shardc ended with status {returncode}")


@dataclasses.dataclass(frozen=True)
class Verification:
    """What `shardc verify` found; `cases` as shardc.verify/v1 has them."""

    passed: int
    failed: int
    unsupported: int
    cases: tuple[dict[str, Any], ...]
    remarks: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.failed == 0 and self.passed > 0


# The arguments whose data input_flags writes, by the names of the files.
_ARGUMENTS = {
    "mesh.json": "mesh",
    "rules.json": "rules",
    "manifest.json": "manifest",
    "config.json": "model",
}


def _argument(name: str, line: str | int | None) -> str:
    """What a caller calls the place of a written file: `rules[3]`."""
    out = _ARGUMENTS.get(name, name)
    if out != "rules" or line is None or int(line) < FIRST_RULE:
        return f"the argument `{out}`"
    return f"rules[{int(line) - FIRST_RULE}]"


@contextlib.contextmanager
def scratch_inputs() -> Iterator[str]:
    """A folder for inputs that are no files (input_flags). Errors that leave the
    block name the caller's argument, and not a file that is gone."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            yield folder
        except ShardcError as error:
            raise ShardcError(
                error.returncode,
                _in_callers_words(error.stderr, folder),
                _named(error.findings, folder) if error.stated else None,
            ) from None


def _in_callers_words(text: str, folder: str) -> str:
    def place(found: re.Match[str]) -> str:
        return _argument(found["name"], found["line"])

    return re.sub(
        re.escape(folder + os.sep)
        + r"(?P<name>[\w.]+)(?::(?P<line>\d+)(?::\d+)?)?",
        place,
        text,
    )


def _named(findings: Iterable[Finding], folder: str) -> list[Finding]:
    """The findings with the caller's arguments in place of written files."""
    out = []
    for one in findings:
        head, name = os.path.split(one.file or "")
        if head == folder:
            file = _argument(name, one.line)
            one = dataclasses.replace(one, file=file, line=None, column=None)
        out.append(one)
    return out


_HEAD = re.compile(r"(error|warning|note)\[(SHD\d+) ([a-z0-9-]+)\]: (.*)")
_PLACE = re.compile(r"\s*--> (.*?)(?::(\d+)(?::(\d+))?)?$")
_HELP = re.compile(r"\s*= help: (.*)")


def findings_of_text(text: str) -> tuple[Finding, ...]:
    """The findings of a command's error output."""
    out: list[Finding] = []
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head:
            level, code, name, message = head.groups()
            out.append(Finding(code, name, level, message))
            continue
        place, help_ = _PLACE.match(line), _HELP.match(line)
        if out and place and out[-1].file is None:
            file, row, column = place.groups()
            out[-1] = dataclasses.replace(
                out[-1],
                file=file,
                line=int(row) if row else None,
                column=int(column) if column else None,
            )
        elif out and help_ and not out[-1].help:
            out[-1] = dataclasses.replace(out[-1], help=help_.group(1))
    return tuple(out)


def findings_of_json(found: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """The findings of a command's JSON output."""
    known = {field.name for field in dataclasses.fields(Finding)}
    out = []
    for one in found:
        data = {key: value for key, value in one.items() if key in known}
        for key in ("params", "targets"):
            data[key] = tuple(data.get(key) or ())
        data["help"] = data.get("help") or ""
        out.append(Finding(**data))
    return out


def find_program() -> str:
    """Where the program is: $SHARDC, next to this Python or package, or on PATH."""
    given = os.environ.get("SHARDC")
    if given:
        return given
    name = "shardc.exe" if os.name == "nt" else "shardc"
    # Of this environment; of `pip install --user`, `--target` and `--prefix`.
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", f"{os.name}_user"),
        os.path.join(package, "bin"),
        os.path.normpath(os.path.join(package, "..", "..", "..", "bin")),
    ]
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    found = shutil.which(name)
    if found:
        return found
    raise FileNotFoundError(
        "the program shardc is neither next to this Python nor on PATH; set SHARDC to its path"
    )


def run(
    arguments: Sequence[Path], *, check: bool = True, input: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the program; a status of 2 or more raises ShardcError unless
    `check` is false. 1 means that something was found."""
    done = subprocess.run(
        [find_program(), *(os.fspath(argument) for argument in arguments)],
        input=input,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if check and done.returncode not in (0, 1):
        raise ShardcError(done.returncode, done.stderr)
    return done


def _listed(flag: str, values: Paths | None) -> list[str]:
    if values is None:
        return []
    if isinstance(values, (str, os.PathLike)):
        values = [values]
    out = []
    for value in values:
        out += [flag, os.fspath(value)]
    return out


def flags_of(settings: Mapping[str, Any]) -> list[str]:
    """Keywords as flags: `kv_len=8` is `--kv-len 8`, True the flag alone, and a
    list the flag several times. None and False give nothing."""
    out = []
    for name, value in settings.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            out.append(flag)
        elif isinstance(value, (list, tuple)):
            for one in value:
                out += [flag, str(one)]
        elif value is not None and value is not False:
            out += [flag, str(value)]
    return out


def input_flags(
    folder: str,
    mesh: Any = None,
    rules: Any = None,
    manifest: Manifest | None = None,
    model: Any = None,
    target: str | None = None,
    project: Path | None = None,
) -> list[str]:
    """The flags of a compilation's inputs. What is no path (shardc.inputs) is
    written to the folder."""
    if mesh is not None:
        mesh = written(mesh_value(mesh), folder, "mesh.json")
    rules = written(rules_value(rules), folder, "rules.json")
    manifest = written(manifest, folder, "manifest.json")
    model = written(model, folder, "config.json")
    out = (
        _listed("--mesh", mesh)
        + _listed("--rules", rules)
        + _listed("--manifest", manifest)
    )
    out += (
        _listed("--model", model)
        + _listed("--target", target)
        + _listed("--project", project)
    )
    if target is None and project is None:
        out.append("--no-project")
    return out


def suggest(
    subject: Any = None,
    *,
    mesh: Any = None,
    manifest: Manifest | None = None,
    model: Any = None,
    **settings: Any,
) -> str:
    """The text of a rules file for a model: `shardc suggest`. Keywords are its flags.
    ShardcError: nothing can be proposed, or the roles of parameters are not known."""
    if subject is not None:
        given = model_flags(subject)
        manifest, model = given.get("manifest", manifest), given.get("model", model)
    with scratch_inputs() as folder:
        out = os.path.join(folder, "rules.yaml")
        inputs = input_flags(folder, mesh, None, manifest, model)
        done = run(["suggest", *inputs, *flags_of(settings), "-o", out], check=False)
        if not os.path.exists(out):
            raise ShardcError(done.returncode, done.stderr)
        with open(out, encoding="utf-8") as file:
            return file.read()


def resolve(
    axes: Any, mode: str | None = None, *, mesh: Any = None, rules: Any = None
) -> tuple[Any, ...]:
    """The spec of logical axes or of a bundle in a mode: `shardc resolve`.

    resolve("[BATCH, [FSDP, SP], _]", "decode") -> (("fsdp", "dp"), ...)"""
    text = axes if isinstance(axes, str) else json.dumps(list(axes))
    with scratch_inputs() as folder:
        inputs = input_flags(folder, mesh, rules)
        more = [] if mode is None else ["--mode", mode]
        done, found = json_of(["resolve", text, *more, *inputs])
        if done.returncode not in (0, 1):
            raise ShardcError(done.returncode, done.stderr)
    return tuple(tuple(e) if isinstance(e, list) else e for e in found["spec"])


def _findings_of_stderr(stderr: str) -> list[Finding] | None:
    """What a command with `--format json` reports on standard error: a list in
    JSON. None where it is not."""
    lines = stderr.splitlines()
    if "[" not in lines:
        return None
    try:
        return findings_of_json(json.loads("\n".join(lines[lines.index("[") :])))
    except ValueError:
        return None


def json_of(arguments: Sequence[str]) -> tuple[subprocess.CompletedProcess[str], Any]:
    """A run and its JSON output, whatever its exit status."""
    done = run([*arguments, "--format", "json"], check=False)
    try:
        return done, json.loads(done.stdout)
    except ValueError:
        found = _findings_of_stderr(done.stderr)
        raise ShardcError(done.returncode, done.stderr, found) from None


_Called = TypeVar("_Called", bound=Callable[..., Any])


def explained(written: str) -> Callable[[_Called], _Called]:
    """States what to write where the arguments of a call do not fit the function."""

    def of(function: _Called) -> _Called:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            try:
                signature.bind(*given, **named)
            except TypeError as error:
                own = list(signature.parameters)
                near = [
                    f"{name} (did you mean {close[0]}?)"
                    for name in named
                    if name not in own
                    for close in [difflib.get_close_matches(name, own, n=1)]
                    if close
                ]
                hint = "; ".join([*near, f"write {written}"])
                raise TypeError(f"{function.__name__}(): {error}; {hint}") from None
            return function(*given, **named)

        return cast(_Called, call)

    return of


@explained('shardc.check(mesh="fsdp:4,tp:2", rules="rules.yaml", manifest=tree)')
def check(
    *,
    mesh: Any = None,
    rules: Any = None,
    manifest: Manifest | None = None,
    model: Path | None = None,
    target: str | None = None,
    project: Path | None = None,
    arguments: Sequence[str] = (),
) -> list[Finding]:
    """What `shardc check` finds: errors, warnings and notes."""
    with scratch_inputs() as folder:
        inputs = input_flags(folder, mesh, rules, manifest, model, target, project)
        done, found = json_of(["check", *inputs, *arguments])
        out = _named(findings_of_json(found), folder)
        if done.returncode not in (0, 1):
            raise ShardcError(done.returncode, done.stderr, out or None)
    return out


def verify(
    *,
    mesh: Any = None,
    rules: Any = None,
    model: Path | None = None,
    attention: str | None = None,
    target: str | None = None,
    project: Path | None = None,
    arguments: Sequence[str] = (),
) -> Verification:
    """Runs `shardc verify`; true where all that can run passes."""
    with scratch_inputs() as folder:
        inputs = input_flags(folder, mesh, rules, None, model, target, project)
        inputs += _listed("--attention", attention)
        _, report = json_of(["verify", *inputs, *arguments])
    states = [case["status"] for case in report["cases"]]
    return Verification(
        states.count("pass"),
        states.count("fail"),
        states.count("unsupported"),
        tuple(report["cases"]),
        tuple(report["remarks"]),
    )
