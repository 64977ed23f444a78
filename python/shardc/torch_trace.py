"""A PyTorch module or function as a program.

The function runs once, on copies of its tensors that have no elements, while
shardc.torch_recorder records what PyTorch dispatches. What it is given decides what an
input of the program is:

    parameters of a module                                       param
    buffers of a module, tensors of an optimizer or of a cache    state (integers and
                                      masks that no checkpoint has are constants)
    all other tensors                                             data

A function without modules is one of (params, batch) or (params, state, batch), as with
JAX. Results of the program are the tensors of what the function returns, then inputs
that it changed in place, and gradients of parameters that it left.
"""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Callable

import torch
from torch import nn

from shardc.torch_calls import Calls
from shardc.torch_flex import WrittenOut
from shardc.torch_recorder import Recording

VERSION = f"torch {torch.__version__}"
# Objects are searched for tensors this deep.
_DEEP = 8


@dataclasses.dataclass(frozen=True)
class Recorded:
    """What a run recorded."""

    recording: Recording
    # The values of the inputs, their kinds and names.
    inputs: list[tuple[int, tuple[str, str]]]
    outputs: list[int]
    # Computes the results from the elements of the inputs.
    function: Callable[..., list[Any]]
    # The tensors that were given as inputs.
    given: list[Any]


class RecordError(Exception):
    """What stopped a recording, and where."""

    def __init__(self, error: Exception, where: str, asked: list[str]) -> None:
        lines = str(error).strip().splitlines()
        kind = type(error).__name__
        # The text of an assertion is often empty.
        text = lines[0] if lines else kind
        if isinstance(error, AssertionError) and lines:
            text = f"{kind}: {text}"
        if asked:
            text += (
                f"{where}. {asked[-1]} If that is not so, pass the inputs with elements,"
                " on the CPU, from which it follows; if it follows from weights, choose"
                " code that does not ask, such as a dense form of experts"
            )
        else:
            text += f"{where}. Check that the call itself runs with these arguments"
        super().__init__(text)


def is_torch(*given: Any) -> bool:
    """Whether something of PyTorch is given: a module, a tensor, or what has one."""
    return any(
        isinstance(one, (nn.Module, torch.optim.Optimizer)) or any(_tensors(one))
        for one in given
    )


def is_module(x: Any) -> bool:
    return isinstance(x, nn.Module)


def named_modules(given: Any) -> list[tuple[str, nn.Module]]:
    """The modules among arguments, with the beginnings of their names."""
    found = [one for one in given if isinstance(one, nn.Module)]
    if len(found) == 1:
        return [("", found[0])]
    return [(f"{index}.", one) for index, one in enumerate(found)]


def record(fn: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Recorded:
    """Records fn(*args, **kwargs)."""
    given = _Given(args, kwargs)
    recording = Recording(_called.__code__)
    for one in given.inputs:
        # Weights have elements of training, on which no branch should depend.
        has_data = one.kind == "data" or not one.given.is_floating_point()
        one.value = recording.input(one.hollow, one.given if has_data else None)
    modules = {
        id(inner): prefix + name
        for prefix, module in named_modules(given.args)
        for name, inner in module.named_modules()
    }
    try:
        with WrittenOut(), _Watching(recording, modules), Calls(recording), recording:
            result = _called(fn, given.args, given.kwargs)
    except Exception as error:
        place = recording.places.of_traceback(error.__traceback__)
        where = recording.places.text(place)
        raise RecordError(error, where, list(recording.asked)) from error
    outputs = [recording.value_of(x) for _, x in _tensors(result)]
    # Inputs that are results too, and those whose gradients are.
    changed, graded = [], []
    for index, one in enumerate(given.inputs):
        value = recording.value_of(one.hollow)
        if value != one.value and value not in outputs:
            changed.append(index)
            outputs.append(value)
    for index, one in enumerate(given.inputs):
        if index not in changed and one.hollow.grad is not None:
            graded.append(index)
            outputs.append(recording.value_of(one.hollow.grad))
    recording.recorder.assumptions += given.notes

    def function(*arrays: Any) -> list[Any]:
        inputs = given.set(arrays)
        made = [x for _, x in _tensors(fn(*given.args, **given.kwargs))]
        made += [inputs[index] for index in changed]
        made += [inputs[index].grad for index in graded]
        return [x.detach() for x in made]

    inputs = [(one.value, (one.kind, one.name)) for one in given.inputs]
    return Recorded(
        recording, inputs, outputs, function, [one.given for one in given.inputs]
    )


def _called(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return fn(*args, **kwargs)


# ---- Inputs


@dataclasses.dataclass
class _Input:
    kind: str
    name: str
    given: Any
    # The copy without elements, and its value in the program.
    hollow: Any
    value: int = -1


class _Given:
    """Copies of the arguments whose tensors have no elements."""

    def __init__(self, args: Any, kwargs: Mapping[str, Any]) -> None:
        self.inputs: list[_Input] = []
        self.notes: list[str] = []
        # Copies of tensors by the identity of the tensor.
        self._copies: dict[int, Any] = {}
        self._named: dict[Any, str] = {}
        self._originals = (tuple(args), dict(kwargs))
        modules = named_modules(args)
        for prefix, module in modules:
            self._of_module(prefix, module)
        last = len(args) - 1
        for index, one in enumerate(args):
            if isinstance(one, nn.Module):
                continue
            if isinstance(one, torch.optim.Optimizer):
                self._of_optimizer(one)
                continue
            kind = "data"
            if _is_object(one):
                kind = "state"
            elif not modules and not kwargs and last > 0 and index < last:
                kind = "state" if index else "param"
            beginning = (
                "" if len(args) - len(modules) == 1 or kind == "param" else str(index)
            )
            self._of_argument(kind, beginning, one)
        for name, one in kwargs.items():
            self._of_argument("state" if _is_object(one) else "data", name, one)
        self.args, self.kwargs = self._copied(self._originals)
        for one in self.args:
            if not isinstance(one, torch.optim.Optimizer):
                continue
            if not one.state:
                self._begin(one)
            if any("step" in state for state in one.state.values()):
                self.notes.append(
                    "The optimizer's count of steps is a constant of the program."
                )

    def set(self, arrays: Any) -> list[Any]:
        """Gives the inputs elements, and returns their tensors."""
        tensors = []
        for one, array in zip(self.inputs, arrays):
            made = torch.as_tensor(array).to(one.hollow.dtype).clone()
            if isinstance(one.hollow, nn.Parameter):
                made = nn.Parameter(made, requires_grad=one.hollow.requires_grad)
            tensors.append(made)
        self._copies = dict(zip(self._copies, tensors))
        self.args, self.kwargs = self._copied(self._originals)
        return tensors

    def _of_module(self, prefix: str, module: nn.Module) -> None:
        # Indices and masks that no checkpoint has, such as positions, are constants.
        saved = set(module.state_dict(keep_vars=True))
        for name, parameter in module.named_parameters():
            self._named[parameter] = prefix + name
            self._add("param", prefix + name, parameter)
        for name, buffer in module.named_buffers():
            if name in saved or buffer.is_meta or buffer.is_floating_point():
                self._add("state", prefix + name, buffer)
        first = {id(p): name for name, p in module.named_parameters()}
        for name, parameter in module.named_parameters(remove_duplicate=False):
            if first[id(parameter)] != name:
                self.notes.append(
                    f"{prefix + name} is the same tensor as"
                    f" {prefix + first[id(parameter)]}, under whose name it is an input."
                )

    def _of_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        names = {id(one): name for one, name in self._named.items()}
        for parameter, state in optimizer.state.items():
            name = names.get(id(parameter), "parameter")
            for key, tensor in state.items():
                # A count of steps is a constant, because Python computes with it.
                if isinstance(tensor, torch.Tensor) and tensor.dim():
                    self._add("state", f"{key}.{name}", tensor)

    def _begin(self, optimizer: torch.optim.Optimizer) -> None:
        """Makes the state of an optimizer before its first step, whose moments would
        be no inputs."""
        found = {id(one.hollow): one.name for one in self.inputs}
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        for parameter in parameters:
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        optimizer.zero_grad()
        for parameter, state in optimizer.state.items():
            for key, tensor in state.items():
                if isinstance(tensor, torch.Tensor) and tensor.device.type == "meta":
                    name = found.get(id(parameter), "parameter")
                    self.inputs.append(_Input("state", f"{key}.{name}", tensor, tensor))

    def _of_argument(self, kind: str, beginning: str, argument: Any) -> None:
        for path, tensor in _tensors(argument):
            name = ".".join([*([beginning] if beginning else []), *path])
            self._add(kind, name or beginning or "input", tensor)

    def _add(self, kind: str, name: str, tensor: Any) -> None:
        if id(tensor) in self._copies:
            return
        made = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"
        )
        if isinstance(tensor, nn.Parameter):
            made = nn.Parameter(made, requires_grad=tensor.requires_grad)
        elif tensor.requires_grad:
            made.requires_grad_()
        self._copies[id(tensor)] = made
        self.inputs.append(_Input(kind, name, tensor, made))

    def _copied(self, tree: Any) -> Any:
        """A deep copy with the copies of tensors in their places. A tensor that is no
        input is a constant, and keeps its elements."""
        copies = self._copies

        def of_tensor(tensor: Any, memo: Any) -> Any:
            found = copies.get(id(tensor))
            return tensor.detach().clone() if found is None else found

        replaced = [
            (one, one.__dict__.get("__deepcopy__"))
            for one in (torch.Tensor, nn.Parameter)
        ]
        try:
            for one, _ in replaced:
                one.__deepcopy__ = of_tensor  # type: ignore[method-assign]
            return copy.deepcopy(tree)
        finally:
            for one, old in replaced:
                if old is None:
                    del one.__deepcopy__
                else:
                    one.__deepcopy__ = old  # type: ignore[method-assign]


def _is_object(x: Any) -> bool:
    """An object that keeps tensors, such as a cache, in contrast to a tree of them."""
    return not isinstance(
        x, (torch.Tensor, Mapping, tuple, list, str, int, float, type(None))
    )


def _tensors(
    x: Any, path: tuple[str, ...] = (), seen: set[int] | None = None
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The tensors that something has, with their paths, but not those of modules."""
    seen = set() if seen is None else seen
    if isinstance(x, torch.Tensor):
        if id(x) not in seen:
            seen.add(id(x))
            yield path, x
        return
    if x is None or isinstance(x, (nn.Module, str, bytes, int, float, type)):
        return
    if id(x) in seen or len(path) > _DEEP:
        return
    seen.add(id(x))
    if isinstance(x, Mapping):
        pairs = [
            (str(key) if isinstance(key, (str, int)) else str(at), one)
            for at, (key, one) in enumerate(x.items())
        ]
    elif isinstance(x, (tuple, list)):
        names = getattr(x, "_fields", range(len(x)))
        pairs = [(str(name), one) for name, one in zip(names, x)]
    elif (
        hasattr(x, "__dict__") and not callable(x) and type(x).__module__ != "builtins"
    ):
        pairs = list(vars(x).items())
    else:
        return
    for name, one in pairs:
        yield from _tensors(one, (*path, name), seen)


AUTOCAST = (
    "torch.autocast is not recorded: values have the dtypes that they have without it."
)


class _Watching:
    """Follows which module runs, steps of optimizers, and automatic casts."""

    def __init__(self, recording: Recording, names: dict[int, str]) -> None:
        self._recording, self._names = recording, names
        self._handles: list[Any] = []

    def __enter__(self) -> None:
        hooks = sys.modules["torch.nn.modules.module"]
        optim = sys.modules["torch.optim.optimizer"]
        recording = self._recording

        def enter(module: Any, inputs: Any) -> None:
            recording.modules.append(self._names.get(id(module), ""))

        def leave(module: Any, inputs: Any, output: Any) -> None:
            recording.modules.pop()

        def begin(*_: Any) -> None:
            recording.stepping += 1

        def end(*_: Any) -> None:
            recording.stepping -= 1

        self._handles = [
            hooks.register_module_forward_pre_hook(enter),
            hooks.register_module_forward_hook(leave, always_call=True),
            optim.register_optimizer_step_pre_hook(begin),
            optim.register_optimizer_step_post_hook(end),
        ]
        assumptions = recording.recorder.assumptions
        self._init = init = torch.autocast.__init__

        def start(one: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
            # Without elements, tensors have a device that autocast refuses.
            device = "cpu" if device_type == "meta" else device_type
            enabled = kwargs.get("enabled", args[1] if len(args) > 1 else True)
            if enabled and AUTOCAST not in assumptions:
                assumptions.append(AUTOCAST)
            init(one, device, *args, **kwargs)

        torch.autocast.__init__ = start  # type: ignore[method-assign]

    def __exit__(self, *_: Any) -> None:
        torch.autocast.__init__ = self._init  # type: ignore[method-assign]
        for handle in self._handles:
            handle.remove()
