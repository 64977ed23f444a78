"""Where the equations of a jaxpr come from: lines of the user's source, and passes of
a training step.

JAX keeps the stack of Python for each equation. The place of an operation is the
innermost frame of the user's own: outside the standard library, installed packages
and this package. JAX caches the jaxprs of functions under jit, so that equations
inside `jax.nn.silu` have the stack of its first call. Frames are read up to that
function only, and an equation without a frame of the user's own gets the place of
the call.

Passes are in the names that JAX stacks: `jvp` for what is differentiated, and
`transpose` for gradients. What follows gradients is the optimizer's.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterable
from typing import Any

Op = dict[str, Any]

# The folders into which packages are installed, of this environment or another.
_INSTALLED = frozenset({"site-packages", "dist-packages"})


def _libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {*site.getsitepackages(), site.getusersitepackages()}
    folders |= {os.path.dirname(os.path.abspath(__file__))}
    # Libraries may also be in folders that only the path of modules names.
    for name in ("jax", "flax", "optax", "torch", "numpy"):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            folders.add(os.path.dirname(os.path.abspath(file)))
    # A folder of Python itself that is no folder of libraries would hide all.
    return tuple(sorted(folder + os.sep for folder in folders if folder != sys.prefix))


class Places:
    """The source files of a program, and the places of its equations."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self._numbers: dict[str, int] = {}
        self._own: dict[str, bool] = {}
        self._lines: dict[tuple[Any, int], int] = {}
        self._libraries = _libraries()

    def find(
        self, traceback: Any, function: tuple[str, str] | None
    ) -> list[int] | None:
        """The place of the innermost frame of the user's own, among those of the
        function whose jaxpr it is and of what that calls."""
        if traceback is None:
            return None
        codes, offsets = traceback.raw_frames()
        for code, offset in zip(codes, offsets):
            file = code.co_filename
            if self._is_own(file):
                key = (code, offset)
                if key not in self._lines:
                    self._lines[key] = traceback.code_addr2line(code, offset)
                return [self._number(file), self._lines[key]]
            if function == (file, code.co_name):
                return None
        return None

    def of_function(self, jaxpr: Any) -> tuple[str, str] | None:
        """The file and the name of the function that a jaxpr was traced from."""
        info = getattr(jaxpr, "debug_info", None)
        name, file = (
            getattr(info, "func_name", None),
            getattr(info, "func_filename", None),
        )
        return (file, name) if name and file else None

    def text(self, at: list[int] | None) -> str:
        return f" at {self.files[at[0]]}:{at[1]}" if at else ""

    def _is_own(self, file: str) -> bool:
        if file not in self._own:
            real = os.path.abspath(file)
            self._own[file] = not (
                file.startswith("<")
                or real.startswith(self._libraries)
                or _INSTALLED.intersection(real.split(os.sep))
            )
        return self._own[file]

    def _number(self, file: str) -> int:
        if file not in self._numbers:
            shown = os.path.abspath(file)
            folder = os.getcwd() + os.sep
            if shown.startswith(folder):
                shown = shown[len(folder) :]
            self._numbers[file] = len(self.files)
            self.files.append(shown.replace(os.sep, "/"))
        return self._numbers[file]


def passes_of(stack: Any) -> frozenset[str]:
    """`jvp` and `transpose`, where they are in a stack of names."""
    names = {getattr(one, "name", "") for one in getattr(stack, "stack", ())}
    return frozenset(names & {"jvp", "transpose"})


def set_phases(ops: list[Op], inputs: Iterable[int] = ()) -> None:
    """Replaces the passes of operations by phases; a tracer may know that a pass is
    the `optimizer`. In a program with gradients, an
    operation outside of what is differentiated is the optimizer's if it reads
    gradients, parameters or state, and what is differentiated does not need it:
    `inputs` are the values of parameters and state."""
    kinds = [_kinds(op) - {"optimizer"} for op in ops]
    _name(ops, kinds, set(inputs))


def _kinds(op: Op) -> set[str]:
    out = set(op["passes"])
    for body in bodies_of(op):
        for inner in body["ops"]:
            out |= _kinds(inner)
    return out


def _name(ops: list[Op], kinds: list[set[str]], read: set[int]) -> None:
    differentiated = any("transpose" in one for one in kinds)
    # Values that what is differentiated needs.
    needed: set[int] = set()
    if differentiated:
        for op, kind in zip(reversed(ops), reversed(kinds)):
            if kind or needed.intersection(op["out"]):
                needed.update(op["in"])
    for op, kind in zip(ops, kinds):
        passes = op.pop("passes")
        backward = "transpose" in passes
        if backward:
            op["phase"] = "backward"
        elif "optimizer" in passes or (
            differentiated
            and not kind
            and not needed.intersection(op["out"])
            and read.intersection(op["in"])
        ):
            op["phase"] = "optimizer"
        if backward or op.get("phase") == "optimizer":
            read.update(op["out"])
        for body in bodies_of(op):
            inner = [_kinds(one) for one in body["ops"]]
            if "phase" in op:
                _inherit(body, op["phase"])
            else:
                _name(body["ops"], inner, set())


def _inherit(body: Op, phase: str) -> None:
    for op in body["ops"]:
        op.pop("passes")
        op["phase"] = phase
        for inner in bodies_of(op):
            _inherit(inner, phase)


def bodies_of(op: Op) -> list[Op]:
    """The bodies of a loop, a condition or a device."""
    out = [op[key] for key in ("condition", "body") if key in op]
    return out + list(op.get("branches", ()))
