"""Records what PyTorch dispatches while a function runs on tensors without elements.

Each call of an `aten` operation becomes operations of shardc.program/v1. Three things
are no calls in a program and are followed here:

Tensors. A tensor is known by its identity, and every one is kept until the end, so that
no identity is used twice. Tensors on the CPU that do not depend on an input are
constants: PyTorch computes them, and the program has their elements.

Views and writes in place. A view is a function of the tensor that it looks at, such as
a slice. A write to a tensor makes a new value of what its views look at; a view that is
read later is computed from that again:

    k = torch.empty(2, 8)        k = 0
    k[:, :3] = a                 k = concat(a, slice(k, 3..8))
    k[:, 3:] = b                 k = concat(a, b)

Questions. Python may ask for an element, for instance in `if mask.all()`. An element
that constants determine is given. So is one that follows from inputs with elements, such
as a mask on the CPU: small results of such inputs alone are computed too. Else a boolean
is true, a number is 1, and `nonzero` finds every element. But for constants the program
has the branch of this answer, which its assumptions state.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
import sysconfig
from types import FrameType, TracebackType
from typing import Any, Callable

import numpy as np
import torch
from torch._decomp import decomposition_table
from torch._library import custom_ops
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

import shardc.torch_products  # noqa: F401  (adds rows to the table)
import shardc.torch_windows  # noqa: F401
from shardc.program_ops import ELEMENTS, Recorder
from shardc.program_places import Places
from shardc.torch_ops import COMPLEX, ROWS, Call, bounds
from shardc.torch_values import Values
from shardc.tree import dtype_text

# Elements that are computed from the elements of inputs, at most.
FOLLOWED = 1 << 16

Step = Callable[[int], int]
Inverse = Callable[[int, int], int]


class SourcePlaces(Places):
    """Places in the code of models: neither in Python's library, nor in PyTorch. A
    library of models, such as transformers, has places."""

    def __init__(self) -> None:
        super().__init__()
        paths = sysconfig.get_paths()
        self._installed = tuple({paths[key] + os.sep for key in ("purelib", "platlib")})
        own = os.path.dirname(os.path.abspath(__file__))
        folders = [os.path.dirname(os.path.abspath(torch.__file__)), own]
        self._hidden = tuple(folder + os.sep for folder in folders)
        self._standard = tuple(
            {paths[key] + os.sep for key in ("stdlib", "platstdlib")}
        )

    def of_frame(self, frame: FrameType | None, stop: Any) -> list[int] | None:
        """The place of the innermost frame of a model's code, among those that the
        function with the code `stop` calls."""
        while frame is not None and frame.f_code is not stop:
            file = frame.f_code.co_filename
            if self._is_own(file):
                return [self._number(file), frame.f_lineno]
            frame = frame.f_back
        return None

    def of_traceback(self, at: TracebackType | None) -> list[int] | None:
        """The place of the innermost frame of a model's code that an error has left."""
        found = None
        while at is not None:
            if self._is_own(at.tb_frame.f_code.co_filename):
                found = [self._number(at.tb_frame.f_code.co_filename), at.tb_lineno]
            at = at.tb_next
        return found

    def _is_own(self, file: str) -> bool:
        if file not in self._own:
            real = os.path.abspath(file)
            hidden = file.startswith("<") or real.startswith(self._hidden)
            if not hidden and not real.startswith(self._installed):
                hidden = real.startswith(self._standard)
            self._own[file] = not hidden
        return self._own[file]

    def _number(self, file: str) -> int:
        number = super()._number(file)
        shown = os.path.abspath(file)
        for folder in self._installed:
            if shown.startswith(folder):
                self.files[number] = shown[len(folder) :].replace(os.sep, "/")
        return number


class Slot:
    """What a tensor holds: a value of its own, or a view of another tensor."""

    def __init__(
        self,
        value: int,
        base: Slot | None = None,
        forward: Step | None = None,
        inverse: Inverse | None = None,
    ) -> None:
        self.value, self.base = value, base
        self.forward, self.inverse = forward, inverse
        # How often the tensor was written to, and at which count this was read.
        self.writes = self.seen = 0
        if base is not None:
            self.seen = base.root().writes

    def root(self) -> Slot:
        return self if self.base is None else self.base.root()

    def read(self) -> int:
        writes = self.root().writes
        if self.base is not None and self.forward is not None and self.seen != writes:
            self.value = self.forward(self.base.read())
            self.seen = writes
        return self.value

    def write(self, value: int) -> bool:
        """Whether the tensor that is looked at could be changed."""
        if self.base is None:
            self.writes += 1
        else:
            if self.inverse is None:
                return False
            if not self.base.write(self.inverse(self.base.read(), value)):
                return False
        self.value = value
        self.seen = self.root().writes
        return True


class Recording(TorchDispatchMode):
    """Records while it is entered."""

    def __init__(self, stop: Any) -> None:
        super().__init__()
        self.places = SourcePlaces()
        self.recorder = Recorder(self.places)
        self.values = Values(self.recorder)
        # The code of the function that calls what is recorded.
        self.stop = stop
        self.slots: dict[int, Slot] = {}
        self.kept: list[Any] = []
        # Tensors that PyTorch made without a call, by what they look at.
        self.looks: dict[Any, Slot] = {}
        # Modules that are running, and whether gradients were computed before.
        self.modules: list[str] = []
        self.differentiated = False
        self.stepping = 0
        # The place of the forward operation of each node of autograd.
        self.sources: dict[int, tuple[list[int] | None, int | None]] = {}
        self._numbers: dict[str, int] = {}
        self.asked: dict[str, None] = {}
        # The elements of values that follow from inputs with elements, and of those
        # that follow from constants alone.
        self.data: dict[int, torch.Tensor] = {}
        self.fixed: dict[int, torch.Tensor] = {}

    # ---- Tensors

    def bind(self, tensor: Any, slot: Slot) -> None:
        self.slots[id(tensor)] = slot
        self.kept.append(tensor)
        look = _look(tensor)
        if look is not None:
            self.looks[look] = slot

    def input(self, tensor: Any, given: Any = None) -> int:
        """A new input, of whose elements `given` may have those of a call."""
        value = self.recorder.value(list(tensor.shape), dtype_text(tensor.dtype))
        self.bind(tensor, Slot(value))
        if given is not None and given.device.type == "cpu":
            if given.numel() <= FOLLOWED:
                self.data[value] = given.detach()
        return value

    def slot_of(self, tensor: Any) -> Slot | None:
        slot = self.slots.get(id(tensor))
        if slot is None:
            slot = self.looks.get(_look(tensor))
            if slot is not None:
                self.bind(tensor, slot)
        return slot

    def value_of(self, tensor: Any) -> int:
        slot = self.slot_of(tensor)
        if slot is not None:
            return slot.read()
        if tensor.device.type == "cpu":
            return self._constant(tensor)
        shape, dtype = list(tensor.shape), dtype_text(tensor.dtype)
        out = self.recorder.value(shape, dtype)
        if tensor.numel() == 0:
            self.recorder.write(self.values.body, "const", [], [out])
        else:
            name = "tensor without elements"
            if not self.recorder.unknown[name]:
                self.recorder.first[name] = self.values.body.at
            self.recorder.unknown[name] += 1
            self.recorder.write(
                self.values.body,
                "opaque",
                [],
                [out],
                primitive=name,
                reason="it is no input, and no operation made it",
            )
        self.bind(tensor, Slot(out))
        return out

    def _constant(self, tensor: Any) -> int:
        data = tensor.detach()
        dtype = dtype_text(data.dtype)
        if not hasattr(np, str(data.dtype).rpartition(".")[2]) and dtype != "BOOL":
            data = data.to(torch.float32)
        # The tensor may be changed later.
        array = np.array(data.numpy())
        simple = self._pattern(array, dtype) if array.size > ELEMENTS else None
        if simple is not None:
            return simple
        return self.values.typed(self.values.constant(array), dtype)

    def _pattern(self, array: np.ndarray[Any, Any], dtype: str) -> int | None:
        """A constant whose elements are equal, or count a dimension."""
        v, shape = self.values, list(array.shape)
        first = array.reshape(-1)[0]
        if (array == first).all():
            return v.full(shape, first, dtype)
        for dim, size in enumerate(shape if array.dtype.kind in "iu" else ()):
            sizes = [size if d == dim else 1 for d in range(len(shape))]
            if (array == first + np.arange(size).reshape(sizes)).all():
                counted = v.iota(shape, dim, dtype)
                return (
                    v.map("add", [counted, v.number(first, dtype)])
                    if first
                    else counted
                )
        return None

    # ---- Calls

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [
            x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)
        ]
        made = str(kwargs.get("device", "")) != "" and not tensors
        if made:
            recorded = torch.device(kwargs["device"]).type != "cpu"
        else:
            recorded = any(
                self.slot_of(x) is not None or x.device.type != "cpu" for x in tensors
            )
        if not recorded:
            # Constants keep their elements, wherever they are moved to.
            if tensors and "device" in kwargs:
                kwargs["device"] = torch.device("cpu")
            return func(*args, **kwargs)
        self._locate()
        if "device" in kwargs:
            kwargs["device"] = torch.device("meta")
        packet = func.overloadpacket.__name__
        question = _QUESTIONS.get(packet)
        if question is not None:
            return question(self, tensors[0])
        if packet in _INDEXED and any(
            one is not None and one.dtype in (torch.bool, torch.uint8)
            for one in args[1]
        ):
            args = self._without_masks(args)
        view = _VIEWS.get(packet)
        if view is not None and func.is_view and func.namespace == "aten":
            return self._view(func, view, args, kwargs)
        return self._call(func, packet, args, kwargs)

    def _locate(self) -> None:
        body = self.values.body
        body.at = self.places.of_frame(sys._getframe(2), self.stop)
        body.module = self._module()
        if torch._C._current_graph_task_id() != -1:
            # A gradient has the place of what it is the gradient of.
            node = torch._C._current_autograd_node()
            if node is not None and node._sequence_nr() in self.sources:
                at, body.module = self.sources[node._sequence_nr()]
                body.at = at or body.at
            self.differentiated = True
            body.passes = frozenset({"transpose"})
        elif self.stepping:
            body.passes = frozenset({"optimizer"})
        elif self.differentiated and not self.modules:
            body.passes = frozenset()
        else:
            body.passes = frozenset({"jvp"})
            # The operation that makes a node runs first after it is numbered.
            if torch.is_grad_enabled():
                number = torch.autograd._get_sequence_nr() - 1
                self.sources.setdefault(number, (body.at, body.module))

    def _module(self) -> int | None:
        """The module that runs, as an index; None outside of all modules."""
        name = self.modules[-1] if self.modules else ""
        if not name:
            return None
        if name not in self._numbers:
            self._numbers[name] = len(self.recorder.modules)
            self.recorder.modules.append(name)
        return self._numbers[name]

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The results without elements, wherever the operands are."""

        def hollow(x: Any) -> Any:
            if not isinstance(x, torch.Tensor) or x.device.type == "meta":
                return x
            if x.dim() == 0 and self.slots.get(id(x)) is None:
                return x
            return torch.empty_strided(
                x.shape, x.stride(), dtype=x.dtype, device="meta"
            )

        args, kwargs = tree_map(hollow, (args, kwargs))
        return func(*args, **kwargs)

    def _call(self, func: Any, packet: str, args: Any, kwargs: Any) -> Any:
        written = _written_to(func, args, kwargs)
        result = self._run(func, args, kwargs)
        if packet == "set_" and len(args) > 1 and isinstance(args[1], torch.Tensor):
            # The tensor is another one from now on.
            self.value_of(args[1])
            self.bind(args[0], self.slots[id(args[1])])
            return args[0]
        name = packet
        if written and packet.endswith("_") and not packet.endswith("__"):
            name = packet[:-1]
        elif packet.startswith("__i") and packet.endswith("__"):
            name = "__" + packet[3:]
        if func.namespace == "prims":
            name = "prims." + name
        plain = {k: v for k, v in kwargs.items() if k not in _LAYOUT and k != "out"}
        follow = self._following(func, args, kwargs, written, result)
        outs = self._write(func, name, args, plain, kwargs, result)
        follow(outs)
        if written:
            for tensor, value in zip(written, outs):
                self._assign(tensor, value, func)
            if len(written) == 1:
                return written[0]
            return tuple(written)
        flat = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        for tensor, value in zip(flat, outs):
            self.bind(tensor, Slot(value))
        return result

    def _write(
        self, func: Any, name: str, args: Any, plain: Any, kwargs: Any, result: Any
    ) -> list[int]:
        """The values of the results."""
        results = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        if not results:
            return []
        row, outs = ROWS.get(name), None
        operands = [x for x in tree_leaves(args) if isinstance(x, torch.Tensor)]
        if name not in COMPLEX and any(x.is_complex() for x in (*operands, *results)):
            row = None
        if row is not None and _takes(row, args, plain):
            made = row(Call(self.values, result, self.value_of), *args, **plain)
            outs = None if made is None else made if isinstance(made, list) else [made]
        if outs is None:
            outs = self._decomposed(func, args, kwargs)
        if outs is None:
            return self._opaque(func, args, kwargs, results)
        return [self._fitting(func, x, one) for x, one in zip(results, outs)]

    def _fitting(self, func: Any, tensor: Any, value: int) -> int:
        shape, dtype = list(tensor.shape), dtype_text(tensor.dtype)
        value = self.values.convert(value, dtype)
        if self.values.shape(value) != shape:
            value = self.values.expand(value, shape)
        return value

    def _decomposed(self, func: Any, args: Any, kwargs: Any) -> list[int] | None:
        """The results of PyTorch's own decomposition, or of the Python code of an
        operation that a library has defined by it."""
        rule = decomposition_table.get(func) or _code_of(func)
        at, passes = self.values.body.at, self.values.body.passes
        try:
            with self:
                if rule is not None:
                    made = rule(*args, **kwargs)
                else:
                    made = func.decompose(*args, **kwargs)
        except (NotImplementedError, RuntimeError, TypeError, IndexError):
            return None
        finally:
            self.values.body.at, self.values.body.passes = at, passes
        if made is NotImplemented:
            return None
        flat = [x for x in tree_leaves(made) if isinstance(x, torch.Tensor)]
        return [self.value_of(x) for x in flat]

    def _opaque(self, func: Any, args: Any, kwargs: Any, results: Any) -> list[int]:
        tensors = [
            x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)
        ]
        ins = [self.value_of(x) for x in tensors]
        name, recorder = str(func), self.recorder
        if not recorder.unknown[name]:
            recorder.first[name] = self.values.body.at
        recorder.unknown[name] += 1
        outs = [recorder.value(list(x.shape), dtype_text(x.dtype)) for x in results]
        recorder.write(
            self.values.body,
            "opaque",
            ins,
            outs,
            primitive=name,
            reason="no class of operations describes it",
        )
        return outs

    def _assign(self, tensor: Any, value: int, func: Any) -> None:
        """Writes a value to a tensor."""
        value = self._fitting(func, tensor, value)
        slot = self.slot_of(tensor)
        if slot is None:
            self.value_of(tensor)
            slot = self.slot_of(tensor)
        if slot is None:
            slot = Slot(value)
            self.bind(tensor, slot)
        if slot.write(value):
            return
        self.recorder.assumptions.append(
            f"A write in place{self.places.text(self.values.body.at)} is not followed to"
            " the tensor that it is a view of."
        )

    # ---- Views

    def _view(self, func: Any, make: Any, args: Any, kwargs: Any) -> Any:
        result = self._look_at(func, make, args, kwargs)
        follow = self._following(func, args, kwargs, [], result)
        outs = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        follow([self.value_of(one) for one in outs])
        return result

    def _look_at(self, func: Any, make: Any, args: Any, kwargs: Any) -> Any:
        result = self._run(func, args, kwargs)
        tensor = args[0]
        if self.slot_of(tensor) is None:
            self.bind(tensor, Slot(self.value_of(tensor)))
        base = self.slot_of(tensor)
        assert base is not None
        many = isinstance(result, (tuple, list))
        outs = list(result) if many else [result]
        steps = make(self.values, tensor, outs, args[1:], kwargs)
        seen = self.looks.get(_look(outs[0])) if steps is None else None
        if seen is not None:
            self.bind(outs[0], seen)
            return result
        if steps is None:
            call = self._write(
                func, func.overloadpacket.__name__, args, kwargs, kwargs, result
            )
            for out, value in zip(outs, call):
                self.bind(out, Slot(value, base))
            return result
        for out, step in zip(outs, steps):
            if step is None:
                self.bind(out, base)
                continue
            forward, inverse = step
            value = forward(base.read())
            if self.values.shape(value) != list(out.shape):
                value = self._opaque(func, args, kwargs, [out])[0]
                self.bind(out, Slot(value, base))
            else:
                self.bind(out, Slot(value, base, forward, inverse))
        return result

    # ---- Questions

    def _elements(self, tensor: Any) -> Any:
        """A tensor with the elements, if they are known; else None."""
        if self.slot_of(tensor) is None and tensor.device.type == "cpu":
            return tensor.detach()
        value = self.value_of(tensor)
        if value in self.data:
            return self.data[value]
        if value in self.fixed:
            return self.fixed[value]
        known = self.recorder.known.get(value)
        return None if known is None else torch.from_numpy(np.array(known))

    def _following(
        self, func: Any, args: Any, kwargs: Any, written: list[Any], result: Any
    ) -> Callable[[list[int]], None]:
        """Computes the results of a call from the elements of its operands, if all
        have some; they belong to the values that the returned function is given."""

        def ignore(_: list[int]) -> None:
            return

        leaves = tree_leaves((args, kwargs, result))
        size = sum(x.numel() for x in leaves if isinstance(x, torch.Tensor))
        if size > FOLLOWED or _is_any(func):
            return ignore
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        followed = any(self._is_followed(x) for x in given)
        elements = {id(x): self._elements(x) for x in given}
        if any(x is None for x in elements.values()):
            return ignore
        changed = {id(x) for x in written}

        def filled(x: Any) -> Any:
            if not isinstance(x, torch.Tensor):
                return x
            data = elements[id(x)]
            return data.clone() if id(x) in changed else data

        args, kwargs = tree_map(filled, (args, kwargs))
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        try:
            with _disable_current_modes():
                result = func(*args, **kwargs)
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
            return ignore
        made = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]

        def follow(values: list[int]) -> None:
            for value, x in zip(values, made):
                (self.data if followed else self.fixed)[value] = x

        return follow

    def _is_followed(self, tensor: Any) -> bool:
        slot = self.slot_of(tensor)
        return slot is not None and slot.read() in self.data

    def _known(self, tensor: Any) -> np.ndarray[Any, Any] | None:
        if self.slot_of(tensor) is None and tensor.device.type == "cpu":
            return np.asarray(tensor.detach())
        value = self.value_of(tensor)
        if value in self.fixed:
            data = self.fixed[value]
            return (data.float() if data.dtype == torch.bfloat16 else data).numpy()
        return self.recorder.known.get(value)

    def _given(self, tensor: Any, what: str) -> Any:
        """The elements that follow from those of inputs, which is an assumption."""
        data = self.data.get(self.value_of(tensor))
        if data is not None:
            self._assume(f"The program is the one for the given data, of which {what}")
        return data

    def _assume(self, text: str) -> None:
        sentence = f"{text}{self.places.text(self.values.body.at)}."
        if sentence not in self.asked:
            self.asked[sentence] = None
            self.recorder.assumptions.append(sentence)

    def element(self, tensor: Any) -> Any:
        known = self._known(tensor)
        if known is not None:
            return known.reshape(-1)[0].item()
        data = self._given(tensor, "Python reads an element")
        if data is not None:
            return data.reshape(-1)[0].item()
        if tensor.dtype == torch.bool:
            self._assume(
                "The program has the branch for which a condition on data is true"
            )
            return True
        self._assume("The program is the one for which a number that Python reads is 1")
        return 1.0 if tensor.dtype.is_floating_point else 1

    def elements(self, tensor: Any) -> Any:
        """What tolist() returns."""
        self.values.body.at = self.places.of_frame(sys._getframe(2), self.stop)
        known = self._known(tensor)
        if known is not None:
            return known.tolist()
        data = self._given(tensor, "Python reads the elements")
        if data is not None:
            return data.tolist()
        what = "is true" if tensor.dtype == torch.bool else "is 1"
        self._assume(
            f"The program is the one for which each element that tolist() returns {what}"
        )
        return torch.ones(tensor.shape, dtype=tensor.dtype, device="cpu").tolist()

    def nonzero(self, tensor: Any) -> Any:
        known = self._known(tensor)
        if known is not None:
            return torch.from_numpy(np.stack(np.nonzero(known), 1))
        data = self._given(tensor, "nonzero() finds the elements")
        if data is not None:
            return data.nonzero()
        self._assume("The program is the one for which nonzero() finds every element")
        return torch.ones(tensor.shape, device="cpu").nonzero()

    def sized(self, tensor: Any, dims: list[int]) -> None:
        """Notes that the code fixes the sizes of some dimensions of a tensor."""
        slot = self.slot_of(tensor)
        if slot is None or not dims:
            return
        at = self.places.of_frame(sys._getframe(2), self.stop)
        # Exchanges and joins of dimensions before are no operations of the program.
        first, groups = self.values.origins(slot.read())[0]
        found = sorted({inner for d in dims for inner in groups[d]})
        self.recorder.literals.append(
            {"value": first, "dims": found, **({"at": at} if at else {})}
        )

    def equal(self, tensor: Any) -> Any:
        self._assume("The program has the branch for which two tensors are equal")
        return True

    def _without_masks(self, args: Any) -> Any:
        """Operands of x[mask] and of x[mask] = y, with positions for the mask. One
        number for all elements that a mask finds is chosen by the mask itself."""
        given = [one for one in args[1] if one is not None]
        source = args[2] if len(args) > 2 else None
        if source is not None and source.dim() == 0 and len(given) == 1:
            return args
        return (args[0], self._positions(args[1]), *args[2:])

    def _positions(self, indices: Any) -> list[Any]:
        """Indices with positions in place of masks."""
        out: list[Any] = []
        for one in indices:
            if one is None or one.dtype not in (torch.bool, torch.uint8):
                out.append(one)
            else:
                out += self.nonzero(one).unbind(1)
        return out


def _takes(row: Any, args: Any, kwargs: Any) -> bool:
    """Whether a row describes a call with these arguments. Versions of PyTorch have
    added some."""
    try:
        inspect.signature(row).bind(None, *args, **kwargs)
    except TypeError:
        return False
    return True


def _code_of(func: Any) -> Any:
    """The function of torch.library.custom_op that defines an operation, or None."""
    found = getattr(custom_ops, "OPDEFS", {}).get(func._schema.name)
    return getattr(found, "_init_fn", None)


def _is_any(func: Any) -> bool:
    """Whether the elements of the results may be any: drawn, or not initialised."""
    name = func.overloadpacket.__name__
    return torch.Tag.nondeterministic_seeded in func.tags or "empty" in name


# Operations whose second operand is a list of indices or masks.
_INDEXED = frozenset(
    """index index_put index_put_ _unsafe_index _unsafe_index_put _index_put_impl
    _index_put_impl_""".split()
)
_LAYOUT = ("dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking")

_QUESTIONS: dict[str, Callable[[Recording, Any], Any]] = {
    "_local_scalar_dense": Recording.element,
    "item": Recording.element,
    "is_nonzero": lambda r, x: bool(r.element(x)),
    "nonzero": Recording.nonzero,
    "equal": Recording.equal,
}


def _look(tensor: Any) -> Any:
    """What a tensor looks at: the place of its elements."""
    if tensor.device.type != "meta" or tensor.numel() == 0:
        return None
    try:
        storage = tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return None
    return (
        storage,
        tensor.storage_offset(),
        tuple(tensor.shape),
        tensor.stride(),
        tensor.dtype,
    )


def _written_to(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """The tensors that a call changes."""
    out = []
    for index, one in enumerate(func._schema.arguments):
        if one.alias_info is None or not one.alias_info.is_write:
            continue
        given = kwargs.get(one.name)
        if given is None and not one.kwarg_only and index < len(args):
            given = args[index]
        if isinstance(given, torch.Tensor):
            out.append(given)
        elif isinstance(given, (tuple, list)):
            out += given
    return out


# ---- Views: for each result how it follows from the operand, and how the operand
# changes with it; None for a result that is the operand itself.


def _same(v: Values, x: Any, outs: list[Any], args: Any, kwargs: Any) -> Any:
    if x.dtype != outs[0].dtype:
        return None
    return [None]


def _reshaped(v: Values, x: Any, outs: list[Any], args: Any, kwargs: Any) -> Any:
    if x.dtype != outs[0].dtype:
        return None
    own, shape = list(x.shape), list(outs[0].shape)
    if own == shape:
        return [None]
    return [(lambda b: v.reshape(b, shape), lambda b, new: v.reshape(new, own))]


def _ordered(perm_of: Callable[..., list[int]]) -> Any:
    def make(v: Values, x: Any, outs: list[Any], args: Any, kwargs: Any) -> Any:
        perm = perm_of(x.dim(), *args, **kwargs)
        back = [perm.index(d) for d in range(len(perm))]
        return [(lambda b: v.transpose(b, perm), lambda b, new: v.transpose(new, back))]

    return make


def _swapped(rank: int, dim0: int, dim1: int) -> list[int]:
    perm = list(range(rank))
    if rank:
        perm[dim0 % rank], perm[dim1 % rank] = dim1 % rank, dim0 % rank
    return perm


def _expanded(v: Values, x: Any, outs: list[Any], args: Any, kwargs: Any) -> Any:
    shape = list(outs[0].shape)
    if shape == list(x.shape):
        return [None]
    return [(lambda b: v.expand(b, shape), None)]


def _range(
    v: Values,
    dim: int,
    low: int,
    high: int,
    step: int,
    shape: list[int],
    own: list[int],
) -> Any:
    return (
        lambda b: v.reshape(v.slice(b, dim, low, high, step), shape),
        lambda b, new: v.overwritten(b, v.reshape(new, own), dim, low, high, step),
    )


def _sliced(v: Values, x: Any, outs: list[Any], args: Any, kwargs: Any) -> Any:
    names = ("dim", "start", "end", "step")
    given = {**dict(zip(names, args)), **kwargs}
    dim, step = given.get("dim", 0) % x.dim(), given.get("step", 1)
    low, high = bounds(x.shape[dim], given.get("start"), given.get("end"))
    shape = list(outs[0].shape)
    if shape == list(x.shape) and step == 1:
        return [None]
    return [_range(v, dim, low, high, step, shape, shape)]


def _selected(v: Values, x: Any, outs: list[Any], args: Any, kwargs: Any) -> Any:
    dim, index = (
        {**dict(zip(("dim", "index"), args)), **kwargs}[k] for k in ("dim", "index")
    )
    dim %= x.dim()
    at = int(index) % x.shape[dim]
    own = list(x.shape)
    own[dim] = 1
    return [_range(v, dim, at, at + 1, 1, list(outs[0].shape), own)]


def _divided(v: Values, x: Any, outs: list[Any], args: Any, kwargs: Any) -> Any:
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0) % x.dim()
    out, at = [], 0
    for one in outs:
        shape = list(one.shape)
        out.append(_range(v, dim, at, at + shape[dim], 1, shape, shape))
        at += shape[dim]
    return out


def _unbound(v: Values, x: Any, outs: list[Any], args: Any, kwargs: Any) -> Any:
    dim = kwargs.get("dim", args[0] if args else 0) % x.dim()
    own = list(x.shape)
    own[dim] = 1
    return [
        _range(v, dim, i, i + 1, 1, list(one.shape), own) for i, one in enumerate(outs)
    ]


def _strided(v: Values, x: Any, outs: list[Any], args: Any, kwargs: Any) -> Any:
    """A view that is a slice of each dimension, as autograd makes one of the gradient
    of what a view belongs to; None for others."""
    out = outs[0]
    if x.is_contiguous() and out.is_contiguous() and out.numel() == x.numel():
        return _reshaped(v, x, outs, args, kwargs)
    # The dimensions in the order of memory, in which they must be dense.
    order = sorted(range(x.dim()), key=lambda d: (-x.stride(d), -x.shape[d]))
    dense = x.permute(order)
    if not dense.is_contiguous() or x.numel() == 0 or out.numel() == 0:
        return None
    back = [order.index(d) for d in range(x.dim())]
    steps: list[Any] = [
        (lambda b: v.transpose(b, order), lambda b, new: v.transpose(new, back))
    ]
    sizes = sorted(zip(out.stride(), out.shape, range(out.dim())), reverse=True)
    left = [one for one in sizes if one[1] > 1]
    found = [d for _, _, d in left]
    shape = _divided_at([stride for stride, _, _ in left], dense)
    if shape is None:
        return None
    whole, fine = list(dense.shape), list(shape)
    if fine != whole:
        steps.append(
            (lambda b: v.reshape(b, fine), lambda b, new: v.reshape(new, whole))
        )
    offset = out.storage_offset() - x.storage_offset()
    for dim, size in enumerate(fine):
        stride = math.prod(fine[dim + 1 :])
        start, offset = divmod(offset, stride)
        count, step = 1, 1
        if left and left[0][0] >= stride and left[0][0] % stride == 0:
            count, step = left[0][1], left[0][0] // stride
            left.pop(0)
        stop = start + (count - 1) * step + 1
        if start < 0 or stop > size:
            return None
        if (start, count) != (0, size):
            shape[dim] = count
            steps.append(_range(v, dim, start, stop, step, list(shape), list(shape)))
    if left or offset:
        return None
    # The dimensions that are left, in the order of the result.
    target, before = list(out.shape), list(shape)
    kept = [n for n in shape if n > 1]
    wanted = [found.index(d) for d in sorted(found)]
    again = [wanted.index(d) for d in range(len(wanted))]
    steps.append(
        (
            lambda b: v.reshape(v.transpose(v.reshape(b, kept), wanted), target),
            lambda b, new: v.reshape(
                v.transpose(v.reshape(new, [kept[d] for d in wanted]), again), before
            ),
        )
    )
    return [_composed(steps)]


def _divided_at(strides: list[int], dense: Any) -> list[int] | None:
    """The sizes of a tensor whose dimensions are divided so that each of the strides
    is in a dimension of its own; None if they do not divide them."""
    out: list[int] = []
    for size, stride in zip(dense.shape, dense.stride()):
        inside = [one for one in strides if stride <= one < size * stride]
        for one in inside[:-1]:
            count = one // stride
            if one % stride or size % count:
                return None
            out.append(size // count)
            size = count
        out.append(size)
    return out


def _composed(steps: list[Any]) -> Any:
    def forward(base: int) -> int:
        for step, _ in steps:
            base = step(base)
        return base

    def inverse(base: int, new: int) -> int:
        bases = [base]
        for step, _ in steps[:-1]:
            bases.append(step(bases[-1]))
        for (_, back), one in zip(reversed(steps), reversed(bases)):
            new = back(one, new)
        return new

    return forward, inverse


_VIEWS: dict[str, Any] = {
    "alias": _same,
    "detach": _same,
    "lift_fresh": _same,
    "_conj": lambda v, *_: [(v.conjugate, lambda b, new: v.conjugate(new))],
    "_neg_view": lambda v, *_: [
        (lambda b: v.map("neg", [b]), lambda b, new: v.map("neg", [new]))
    ],
    "view": _reshaped,
    "_unsafe_view": _reshaped,
    "_reshape_alias": _reshaped,
    "reshape": _reshaped,
    "unsqueeze": _reshaped,
    "squeeze": _reshaped,
    "permute": _ordered(lambda rank, dims: [d % rank for d in dims]),
    "transpose": _ordered(_swapped),
    "t": _ordered(
        lambda rank: _swapped(rank, 0, 1) if rank == 2 else list(range(rank))
    ),
    "expand": _expanded,
    "slice": _sliced,
    "select": _selected,
    "split": _divided,
    "split_with_sizes": _divided,
    "unbind": _unbound,
    "as_strided": _strided,
    # Views that no write goes through.
    "unfold": lambda *_: None,
    "diagonal": lambda *_: None,
    "view_as_real": lambda *_: None,
    "view_as_complex": lambda *_: None,
    "broadcast_in_dim": lambda *_: None,
    "view_of": lambda *_: None,
}
