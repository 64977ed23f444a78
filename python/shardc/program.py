"""python -m shardc.program MODULE:FACTORY -- a user's own function as a program.

FACTORY takes no arguments and returns one of these; nothing is computed, no device is
used, and arrays may be jax.ShapeDtypeStruct, or tensors on PyTorch's meta device:

    (function, params, batch)            for function(params, batch)
    (function, params, batch, state)     for function(params, state, batch): a training
                                         step with an optimizer's state, or a step that
                                         decodes with a cache
    (module, example input...)           a module of flax.nnx or of Flax linen, as for
                                         python -m shardc.manifest
    (module, example input...)           a module of PyTorch; the last may be a dict of
                                         inputs by name
    (function, argument...)              for function(argument...), of which one is a
                                         module of PyTorch: an optimizer, a cache and
                                         buffers are state, and other tensors data

With JAX, `params` is a tree of arrays, a module of flax.nnx, or a train state, whose parameters
are parameters and whose other arrays are state. `state` may hold objects of flax.nnx,
such as an optimizer. What the function changes in them is among the results. Values
that are no arrays, such as `train=False`, keep their value.

    python3 -m shardc.program my_models.llama:train_step -o step.program.json

Names of parameters are those that python -m shardc.manifest writes. A file whose name
ends in .gz is compressed.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import gzip
import io
import json
import math
import sys
from collections.abc import Sequence
from typing import Any, Callable

from shardc import files, progress

try:
    import numpy as np
except ImportError:
    if __name__ != "__main__":
        raise
    sys.exit(files.failed("JAX and PyTorch need numpy, which this Python lacks"))

from shardc import manifest
from shardc.arrays import is_array, is_nnx_object, key_text
from shardc.manifest import ManifestError, imported, is_factory
from shardc.program_complex import on_parts
from shardc.program_ops import WRITERS, Body, Op, Path, Recorder
from shardc.program_places import Places, bodies_of, set_phases
from shardc.program_windows import WINDOWS

WRITERS.update(WINDOWS)
WRITERS.update(on_parts(WRITERS))

SCHEMA = "shardc.program/v1"


class ProgramError(ValueError):
    """The function cannot be traced; the message has the call to write."""


@dataclasses.dataclass(frozen=True)
class Source:
    """The jaxpr that a program was recorded from."""

    jaxpr: Any
    # The values of the results of each equation, by its path (program_ops.Recorder).
    equations: dict[Path, list[int]]
    # The program's number of each value; those that nothing reads have none.
    numbers: dict[int, int]
    # What the function returns, from the arrays of the results: objects of flax.nnx
    # among the arguments get what the function changed in them.
    result: Callable[[Sequence[Any], Sequence[Any]], Any]


@dataclasses.dataclass(frozen=True)
class Traced:
    """A program, and what JSON leaves out."""

    program: dict[str, Any]
    # The elements of all constants, by value.
    constants: dict[int, np.ndarray[Any, Any]]
    # The function that was traced, of the arrays of the inputs.
    function: Callable[..., list[Any]]
    # With PyTorch, the tensors of the inputs.
    given: list[Any] | None = None
    # With JAX, what was recorded.
    source: Source | None = None


def trace(
    fn: Callable[..., Any], *given: Any, separator: str = "/", **named: Any
) -> dict[str, Any]:
    """A program as JSON data. With JAX, trace(fn, params, batch) is that of
    fn(params, batch), and trace(fn, params, batch, state) that of
    fn(params, state, batch); arrays may be jax.ShapeDtypeStruct. With PyTorch,
    trace(fn, *inputs, **named) is that of fn(*inputs, **named), where fn is a module
    or a function; tensors may be on the meta device."""
    if _is_torch(fn, *given, *named.values()):
        return of_torch(fn, given, named, name_of(fn)).program
    return of_inputs(fn, _in_order(*given, **named), separator=separator)


def _in_order(params: Any, batch: Any, state: Any = None) -> tuple[Any, ...]:
    return (params, batch) if state is None else (params, state, batch)


def of_inputs(
    fn: Callable[..., Any], inputs: Sequence[Any], *, separator: str = "/"
) -> dict[str, Any]:
    """The program of fn(parameters, state..., batch), of its inputs in this order."""
    if _is_torch(fn, *inputs):
        return of_torch(fn, inputs, {}, name_of(fn)).program
    return traced(fn, inputs, name_of(fn), separator).program


def from_model(
    module: Any, *inputs: Any, separator: str = "/", **named: Any
) -> dict[str, Any]:
    """The program of a module's call with example inputs: a module of PyTorch, of
    flax.nnx, or of Flax linen, which is initialised without allocating."""
    if _is_torch(module):
        return of_torch(module, inputs, named, name_of(module)).program
    fn, params, batch = _of_module(module, inputs, named)
    return traced(fn, (params, batch), name_of(type(module)), separator).program


def write(program: dict[str, Any], path: str | None = None) -> None:
    """Writes a program to a file, or to standard output."""
    text = _text(program)
    if path is not None and path.endswith(".gz"):
        raw = io.BytesIO()
        # Without a time, so that equal programs are equal files.
        with gzip.GzipFile("", "wb", 9, raw, 0) as packed:
            packed.write(text.encode("utf-8"))
        files.write(path, raw.getvalue())
    else:
        files.write("-" if path is None else path, text)


def _text(program: dict[str, Any]) -> str:
    """JSON with a value, an input and an operation in each line."""

    def text(one: Any) -> str:
        return json.dumps(one, separators=(",", ":"), ensure_ascii=False)

    members = []
    for key, value in program.items():
        if key in ("values", "inputs", "ops", "literals") and value:
            lines = ",\n".join(map(text, value))
            members.append(f"{text(key)}:[\n{lines}\n]")
        else:
            members.append(f"{text(key)}:{text(value)}")
    return "{" + ",\n".join(members) + "}\n"


# ---- Arguments


def name_of(fn: Any) -> str:
    fn = getattr(fn, "__wrapped__", fn)
    name = getattr(fn, "__qualname__", type(fn).__qualname__)
    return f"{getattr(fn, '__module__', None) or type(fn).__module__}:{name}"


def split(tree: Any) -> tuple[Any, Any]:
    """A tree with the state of each object of flax.nnx in its place, and what
    _merged needs to make them again. It is None where there are no such objects."""
    import jax

    flat, form = jax.tree_util.tree_flatten(tree, is_leaf=is_nnx_object)
    if not any(map(is_nnx_object, flat)):
        return None, tree
    nnx: Any = sys.modules["flax.nnx"]
    parts = [nnx.split(one) if is_nnx_object(one) else (None, one) for one in flat]
    graphs, states = zip(*parts)
    return (form, graphs), jax.tree_util.tree_unflatten(form, states)


def _merged(graph: Any, tree: Any) -> Any:
    import jax

    if graph is None:
        return tree
    form, graphs = graph
    nnx: Any = sys.modules["flax.nnx"]
    flat = [
        one if part is None else nnx.merge(part, one)
        for part, one in zip(graphs, form.flatten_up_to(tree))
    ]
    return jax.tree_util.tree_unflatten(form, flat)


def _update(tree: Any, state: Any) -> None:
    """Gives the objects of flax.nnx in a tree another state."""
    import jax

    nnx: Any = sys.modules["flax.nnx"]
    flat, form = jax.tree_util.tree_flatten(tree, is_leaf=is_nnx_object)
    for one, part in zip(flat, form.flatten_up_to(state)):
        if is_nnx_object(one):
            nnx.update(one, part)


def _abstract(x: Any) -> Any:
    """A new object for each array, so that its identity is its own."""
    import jax

    if not is_array(x):
        return x
    weak = bool(getattr(x, "weak_type", False))
    return jax.ShapeDtypeStruct(tuple(x.shape), x.dtype, weak_type=weak)


def _parameters(graph: Any, tree: Any, separator: str) -> dict[int, str]:
    """The names of parameters by the identity of their arrays, as the manifest of
    the model has them."""
    nnx: Any = sys.modules.get("flax.nnx")
    if nnx is not None and isinstance(tree, nnx.State):
        tree = nnx.filter_state(tree, nnx.Param)
    found, _ = manifest.named(tree, separator)
    return {id(leaf.value): name for name, leaf in found.items()}


def _of_module(
    module: Any, inputs: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Callable[..., Any], Any, Any]:
    """The function of a module's call, its parameters, and its inputs by name:
    `0`, `1` and so on where they have none."""
    batch = {str(index): one for index, one in enumerate(inputs)} | named

    def inputs_of(batch: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        given = dict(batch)
        return [given.pop(str(index)) for index in range(len(inputs))], given

    if is_nnx_object(module):

        def call(model: Any, batch: dict[str, Any]) -> Any:
            args, kwargs = inputs_of(batch)
            return model(*args, **kwargs)

        return call, module, batch
    variables = manifest.abstract(module, inputs, named)

    def apply(variables: Any, batch: dict[str, Any]) -> Any:
        args, kwargs = inputs_of(batch)
        return module.apply(variables, *args, **kwargs)

    return apply, variables, batch


# ---- Tracing


def traced(
    fn: Callable[..., Any], arguments: Sequence[Any], name: str, separator: str = "/"
) -> Traced:
    """Traces fn(parameters, state..., batch)."""
    import jax

    flatten = jax.tree_util.tree_flatten_with_path
    graphs, flat, kinds, counts = [], [], [], []
    returned: list[Any] = []
    for index, argument in enumerate(arguments):
        graph, tree = split(argument)
        tree = jax.tree_util.tree_map(_abstract, tree)
        last = index == len(arguments) - 1
        names = _parameters(graph, tree, separator) if index == 0 else {}
        leaves, form = flatten(tree)
        for keys, leaf in leaves:
            path = separator.join(
                key_text(key)
                for key in keys
                if graph is None or getattr(key, "name", "") != "value"
            )
            kind = "param" if id(leaf) in names else "data" if last else "state"
            kinds.append(
                (kind, names.get(id(leaf), path or ("batch" if last else kind)))
            )
            flat.append(leaf)
        graphs.append((graph, form))
        counts.append(len(leaves))

    def pure(*arrays: Any) -> Any:
        given = iter(arrays)
        full = [next(given) if is_array(x) else x for x in flat]
        called = []
        for (graph, form), count in zip(graphs, counts):
            tree = jax.tree_util.tree_unflatten(form, full[:count])
            called.append(_merged(graph, tree))
            full = full[count:]
        graph, result = split(fn(*called))
        changed = [
            split(one)[1] for one, (g, _) in zip(called, graphs) if g is not None
        ]
        leaves, form = jax.tree_util.tree_flatten((result, changed))
        returned[:] = [
            graph, form, [None if _is_result(x) else x for x in leaves]]
        return [x for x in leaves if _is_result(x)]

    def result(arrays: Sequence[Any], arguments: Sequence[Any]) -> Any:
        given = iter(arrays)
        graph, form, leaves = returned
        full = [next(given) if x is None else x for x in leaves]
        made, changed = jax.tree_util.tree_unflatten(form, full)
        held = [one for one, (g, _) in zip(arguments, graphs) if g is not None]
        for one, state in zip(held, changed):
            _update(one, state)
        return _merged(graph, made)

    try:
        closed = jax.make_jaxpr(pure)(*filter(is_array, flat))
    except jax.errors.UnexpectedTracerError:
        raise
    except Exception as error:
        message = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ProgramError(
            f"{name} cannot be traced with these arguments: {message}"
        ) from error
    inputs = [kind for kind, leaf in zip(kinds, flat) if is_array(leaf)]
    made, equations = _recorded(closed, inputs, name)
    source = Source(closed, equations, made.numbers, result)
    return Traced(made.program, made.constants, pure, source=source)


def _is_result(x: Any) -> bool:
    return is_array(x) or isinstance(x, (bool, int, float, complex))


def _recorded(
    closed: Any, inputs: list[tuple[str, str]], name: str
) -> tuple[_Assembled, dict[Path, list[int]]]:
    """A jaxpr as a program, and the values of its equations."""
    import jax

    places = Places()
    recorder, body = Recorder(places), Body()
    given = [recorder.of_type(variable.aval) for variable in closed.jaxpr.invars]
    outputs = recorder.inline(body, closed, given)
    traced_by = {"by": f"jax {jax.__version__}", "function": name}
    made = _assembled(recorder, body.ops, list(zip(given, inputs)), outputs, traced_by)
    return made, recorder.equations


@dataclasses.dataclass(frozen=True)
class _Assembled:
    program: dict[str, Any]
    # The elements of constants.
    constants: dict[int, np.ndarray[Any, Any]]
    # The program's numbers of the recorder's values.
    numbers: dict[int, int]


def _assembled(
    recorder: Recorder,
    ops: list[Op],
    inputs: list[tuple[int, tuple[str, str]]],
    outputs: list[int],
    traced_by: dict[str, str],
) -> _Assembled:
    """A program of what was recorded. Inputs have a value, a kind and a name."""
    ops = _without_unread(ops, set(outputs))
    set_phases(ops, [value for value, (kind, _) in inputs if kind != "data"])
    numbers = _numbered([value for value, _ in inputs], ops)
    unknown = []
    for primitive, count in sorted(recorder.unknown.items()):
        one: Op = {"primitive": primitive, "count": count}
        if recorder.first[primitive] is not None:
            one["at"] = recorder.first[primitive]
        unknown.append(one)
    literals: dict[str, dict[str, Any]] = {}
    for literal in recorder.literals:
        if literal["value"] in numbers:
            found = {**literal, "value": numbers[literal["value"]]}
            literals.setdefault(str(found), found)
    program = {
        "schema": SCHEMA,
        "traced": traced_by,
        "files": recorder.places.files,
        **({"modules": recorder.modules} if recorder.modules else {}),
        "values": [recorder.values[old] for old in numbers],
        "inputs": [
            {"value": value, "kind": kind, "name": text}
            for value, (_, (kind, text)) in enumerate(inputs)
        ],
        "ops": ops,
        **({"literals": list(literals.values())} if literals else {}),
        "outputs": [numbers[value] for value in outputs],
        "assumptions": recorder.assumptions,
        "unknown": unknown,
    }
    constants = {
        numbers[v]: data for v, data in recorder.constants.items() if v in numbers
    }
    return _Assembled(program, constants, numbers)


def _without_unread(ops: list[Op], read: set[int]) -> list[Op]:
    """Without operations whose results nothing reads, as compilers leave them out.
    Operations that are not known stay."""
    kept = []
    for op in reversed(ops):
        if op["op"] == "opaque" or read.intersection(op["out"]):
            for body in bodies_of(op):
                body["ops"] = _without_unread(body["ops"], set(body["out"]))
            read.update(op["in"])
            kept.append(op)
    return kept[::-1]


def _numbered(given: list[int], ops: list[Op]) -> dict[int, int]:
    """Numbers the values that are left, in the order of the program, and returns
    the new number of each."""
    numbers: dict[int, int] = {}

    def number(values: list[int]) -> list[int]:
        return [numbers.setdefault(value, len(numbers)) for value in values]

    def visit(ops: list[Op]) -> None:
        for op in ops:
            op["in"] = number(op["in"])
            for body in bodies_of(op):
                body["in"] = number(body["in"])
                visit(body["ops"])
                body["out"] = number(body["out"])
            op["out"] = number(op["out"])

    number(given)
    visit(ops)
    return numbers


# ---- PyTorch


def _is_torch(*given: Any) -> bool:
    if "torch" not in sys.modules:
        return False
    from shardc import torch_trace

    return torch_trace.is_torch(*given)


def of_torch(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], name: str
) -> Traced:
    """Records fn(*args, **kwargs). A module that is called is the first input."""
    from shardc import torch_trace

    if torch_trace.is_module(fn):
        return of_torch(_call_first, (fn, *args), kwargs, name)
    try:
        made = torch_trace.record(fn, args, kwargs)
    except Exception as error:
        message = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ProgramError(
            f"{name} cannot be recorded with these arguments: {message}"
        ) from error
    recording = made.recording
    traced_by = {"by": torch_trace.VERSION, "function": name}
    assembled = _assembled(
        recording.recorder,
        recording.values.body.ops,
        made.inputs,
        made.outputs,
        traced_by,
    )
    assembled.program["assumptions"] += _never_read(assembled.program)
    return Traced(
        assembled.program, assembled.constants, made.function, made.given
    )


def _never_read(program: dict[str, Any]) -> list[str]:
    """Names the parameters that no operation reads: another branch may."""
    read = {value for op in program["ops"] for value in op["in"]} | {
        *program["outputs"]
    }
    names = [
        one["name"]
        for one in program["inputs"]
        if one["kind"] == "param" and one["value"] not in read
    ]
    if not names:
        return []
    shown = ", ".join(names[:4]) + (
        f" and {len(names) - 4} more" if len(names) > 4 else ""
    )
    return [f"The program never reads {len(names)} of its parameters: {shown}."]


def _call_first(module: Any, *args: Any, **kwargs: Any) -> Any:
    return module(*args, **kwargs)


# ---- Factories


def of_factory(factory: Callable[[], Any], name: str, separator: str = "/") -> Traced:
    """The program of what a factory returns. With JAX, the factory runs without
    allocating; where its function keeps arrays that the factory makes, it runs once
    more, and allocates them."""
    made = _of_torch_factory(factory, name)
    if made is not None:
        return made
    import jax

    errors = jax.errors
    try:
        return _of_made(_made(factory), name, separator)
    except (errors.UnexpectedTracerError, errors.TracerArrayConversionError):
        return _of_made(factory(), name, separator)


def _of_torch_factory(factory: Callable[[], Any], name: str) -> Traced | None:
    """The program of (module, example input...) or of (function, argument...), where
    the factory's module has imported PyTorch and it is about that. The last may be a
    dict of arguments by name."""
    if "torch" not in sys.modules:
        return None
    made = factory()
    given = tuple(made) if isinstance(made, (tuple, list)) else (made,)
    if not _is_torch(*given):
        return None
    first, *rest = given
    if not callable(first) or not rest:
        raise ProgramError(
            "return (module, example input...) or (function, argument...) from the"
            " factory"
        )
    named: dict[str, Any] = {}
    if isinstance(rest[-1], dict) and hasattr(first, "forward"):
        named = rest.pop()
    return of_torch(first, rest, named, name)


def _of_made(made: Any, name: str, separator: str) -> Traced:
    if not isinstance(made, (tuple, list)) or len(made) < 2:
        raise ProgramError(
            "return (function, params, batch), (function, params, batch, state) or"
            " (module, example input...) from the factory"
        )
    first, *rest = made
    if is_nnx_object(first) or hasattr(first, "apply") and hasattr(first, "init"):
        inputs, named = tuple(rest), {}
        # As `init` would be called: (example, ...), or that and {name: value}.
        if isinstance(rest[0], (tuple, list)) and len(rest) <= 2:
            inputs, named = tuple(rest[0]), dict(*rest[1:])
        fn, params, batch = _of_module(first, inputs, named)
        return traced(fn, (params, batch), name, separator)
    if not callable(first) or len(rest) not in (2, 3):
        raise ProgramError(
            f"the factory returns {type(first).__name__} and {len(rest)} more values:"
            " return (function, params, batch) or (function, params, batch, state)"
        )
    params, batch, *state = rest
    return traced(first, (params, *state, batch), name, separator)


def _made(factory: Callable[[], Any]) -> Any:
    """What the factory returns, with shapes for the arrays that it makes."""
    import jax

    kept: list[Any] = []

    def is_made(x: Any) -> bool:
        return is_array(x) and not isinstance(x, jax.ShapeDtypeStruct)

    def arrays() -> list[Any]:
        made = factory()
        parts = (
            [split(one) for one in made] if isinstance(made, tuple) else [(None, made)]
        )
        flat, form = jax.tree_util.tree_flatten([tree for _, tree in parts])
        kept[:] = [
            ([graph for graph, _ in parts], form),
            [None if is_made(x) else x for x in flat],
            isinstance(made, tuple),
        ]
        return [x for x in flat if is_made(x)]

    shapes = iter(jax.eval_shape(arrays))
    (graphs, form), flat, is_tuple = kept
    trees = jax.tree_util.tree_unflatten(
        form, [next(shapes) if x is None else x for x in flat]
    )
    made = tuple(_merged(graph, tree) for graph, tree in zip(graphs, trees))
    return made if is_tuple else made[0]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m shardc.program",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("factory", metavar="MODULE:FACTORY")
    parser.add_argument(
        "--separator", default="/", help="between the parts of names (default: /)"
    )
    parser.add_argument("-o", "--output", help="where to (default: standard output)")
    options = parser.parse_args(arguments)
    try:
        with files.running(options.factory, (ImportError, AttributeError, ManifestError)):
            factory = imported(options.factory)
    except (ImportError, AttributeError, ManifestError) as error:
        parser.error(files.printable(str(error)))
    if not is_factory(factory):
        parser.error(f"{options.factory} is no function that returns what to trace")
    try:
        with progress.line(f"tracing {options.factory}"):
            with files.running(options.factory, (ManifestError, ProgramError)):
                made = of_factory(factory, options.factory, options.separator)
    except (ManifestError, ProgramError) as error:
        parser.error(files.printable(f"{options.factory}: {error}"))
    write(made.program, options.output)
    for text in summary(made.program):
        print(f"shardc.program: {files.printable(text)}", file=sys.stderr)
    return 0


def summary(program: dict[str, Any]) -> list[str]:
    """Lines for people: what was found in a function, what is unknown, and what was
    assumed."""

    def counted(count: int, one: str, many: str) -> str:
        return f"{count:,} {one if count == 1 else many}"

    inputs, values = program["inputs"], program["values"]
    params = [values[one["value"]] for one in inputs if one["kind"] == "param"]
    elements = sum(math.prod(value["shape"]) for value in params)
    kinds = collections.Counter(one["kind"] for one in inputs)
    found = [
        counted(len(params), "parameter", "parameters")
        + (f" ({elements:,} elements)" if params else ""),
        *([f"{kinds['state']:,} of state"] if kinds["state"] else []),
        counted(kinds["data"], "input", "inputs"),
        counted(len(program["ops"]), "op", "ops"),
        counted(len(program["outputs"]), "result", "results"),
    ]
    unknown = [
        f"unknown: {one['primitive']} ({counted(one['count'], 'time', 'times')}) has no"
        " class of operations and is opaque"
        for one in program["unknown"]
    ]
    return [
        "found " + ", ".join(found) + ("" if unknown else "; no op is unknown"),
        *unknown,
        *program["assumptions"],
    ]


if __name__ == "__main__":
    sys.exit(files.exit_status(main))
