"""A class whose trees are described: how it is found, and built from a config.json."""

from __future__ import annotations

import ast
import contextlib
import copy
import dataclasses
import importlib
import inspect
import json
import os
import re
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any, Optional

from shardc import family_trace as trace
from shardc import files
from shardc.family_expressions import Expression


class FamilyError(ValueError):
    """The class cannot be described; the message states what to do."""


@dataclasses.dataclass
class Built:
    """What a class made of one config."""

    given: dict[str, Any]  # the config.json
    stated: dict[str, Any]  # its values by dotted name
    values: dict[str, Any]  # those that the class saw: with defaults, and rewritten
    origin: dict[str, Expression]  # what they were made of
    tensors: list[trace.Tensor]
    files: Optional[list[trace.Tensor]]  # None where files have the same
    conditions: list[Expression]
    set_up: list[Expression]  # conditions of the config's own code
    loops: list[Expression]
    absent: list[str]

    def live(self) -> dict[str, tuple[tuple[int, ...], str]]:
        return {x.name: (x.shape, x.dtype) for x in self.tensors
                if x.module != "buffer"}

    def saved(self) -> dict[str, tuple[tuple[int, ...], str]]:
        tensors = self.tensors if self.files is None else self.files
        return {x.name: (x.shape, x.dtype) for x in tensors}


@dataclasses.dataclass
class Key:
    """A key of a config.json."""

    name: str  # with dots where it is in a part
    default: Any
    kinds: frozenset[str]  # "int", "bool", "str", "list", "float", "none"
    choices: tuple[str, ...] = ()


_IGNORED = re.compile(
    r"(^|\.)(transformers_version|architectures|dtype|torch_dtype|id2label|label2id"
    r"|problem_type|model_type|is_encoder_decoder|return_dict|output_\w+|use_cache"
    r"|chunk_size_feed_forward|(?!\w*head_dim)\w*rope_\w+|\w*theta|\w*partial_rotary_factor"
    r"|initializer_range\w*|\w*dropout\w*|\w*_eps"
    r"|\w*_token_ids?|\w*token_index|_name_or_path|auto_map|quantization_config)$"
)


class Subject:
    """A class, its class of configs, and the model type that config.json names."""

    def __init__(self, kind: type, config_kind: Optional[type], model_type: str,
                 example: Optional[dict[str, Any]] = None) -> None:
        if not isinstance(model_type, str) or not re.fullmatch(
            r"[A-Za-z0-9_][A-Za-z0-9_.-]*", model_type
        ):
            raise FamilyError(
                f"the model type {model_type!r} names no file: give one with `--name`")
        self.kind = kind
        self.config_kind = config_kind
        self.model_type = model_type
        self.example = example
        self.is_transformers = config_kind is not None and hasattr(config_kind, "from_dict")
        self.modules = self._modules()

    def _modules(self) -> list[str]:
        """The modules whose code takes part: those of the classes and of their bases,
        and those that they import from one package."""
        names: dict[str, None] = {}
        for kind in (self.kind, self.config_kind):
            for base in kind.__mro__ if kind else ():
                names[base.__module__] = None
        # Parts of a model, such as its tower for pictures.
        for name in list(sys.modules):
            if re.match(r"transformers\.models\.\w+\.(modeling|configuration)_", name):
                names[name] = None
        own = (self.kind.__module__.rpartition(".")[0] or self.kind.__module__) + "."
        for name in list(sys.modules):
            if name.startswith(own):
                names[name] = None
        outside = ("builtins", "torch", "huggingface_hub", "typing", "collections")
        return [
            name for name in names
            if name.partition(".")[0] not in outside
            and (not name.startswith("transformers.") or ".models." in name)
        ]

    @property
    def classes(self) -> str:
        return self.kind.__name__

    def config(self, given: dict[str, Any]) -> Any:
        """The config object of a config.json."""
        if self.config_kind is None:
            return Settings(given)
        if self.is_transformers:
            return self.config_kind.from_dict(given)  # type: ignore[attr-defined]
        fields = inspect.signature(self.config_kind).parameters
        takes_all = any(p.kind == p.VAR_KEYWORD for p in fields.values())
        return self.config_kind(**{
            key: x for key, x in given.items() if takes_all or key in fields})

    def saved(self, given: dict[str, Any]) -> Optional[dict[str, Any]]:
        """The config.json that the class writes for a config; None if it writes none. It
        has other values where the class derives some from others."""
        if not self.is_transformers:
            return None
        try:
            made = self.config(copy.deepcopy(given)).to_diff_dict()
            made = json.loads(json.dumps(made))
        except Exception:  # whatever the class raises
            return None
        return {**made, **{key: given[key] for key in ("model_type", "architectures")
                           if key in given}}

    def build(self, given: dict[str, Any]) -> Built:
        """The tree of a config.json, with the expressions of its sizes."""
        import torch

        prefixes: dict[int, str] = {}
        marked = _marked(given)
        with trace.recording(self.modules) as recorder, trace.absent_keys(
            self._absent_kind(), lambda x: prefixes.get(id(x))
        ):
            config = self.config(marked)
            origin = trace.mark(config)
            set_up = list(recorder.conditions)
            recorder.conditions.clear()
            # A config may be copied on the way.
            kept = []
            for holder, _, name, _ in trace.values_under(config):
                if id(holder) not in prefixes:
                    prefixes[id(holder)] = name.rpartition(".")[0] + "." if "." in name else ""
                    kept.append(holder)
            values = {name: trace.bare(x) for _, _, name, x in trace.values_under(config)}
            for part in [name for name, x in values.items() if trace.is_config(x)]:
                values.pop(part)
            stated = dict(_stated(given))
            for name, default in self.taken(config).items():
                values.setdefault(name, stated.get(name, default))
            with trace.tracing_tensors(), _quiet(), _given_dtype(self, given):
                model = self._model(config)
            tensors = self._tensors(model, recorder)
        with torch.device("meta"):
            files = self._files(model)
        return Built(given, stated, values, origin, tensors, files,
                     list(recorder.conditions), set_up, list(recorder.loops),
                     list(recorder.absent))

    def taken(self, config: Any) -> dict[str, Any]:
        """Keys that the code of configs takes from its keyword arguments, which are no
        attributes, and their defaults."""
        found: dict[str, Any] = {}
        holders = {"": config} if self.is_transformers else {}
        for _, _, name, value in trace.values_under(config) if holders else ():
            if not isinstance(value, dict) and trace.is_config(value):
                holders[name + "."] = value
        for prefix, holder in holders.items():
            for name, default in _taken_by(type(holder)).items():
                found[prefix + name] = default
        return {name: x for name, x in found.items() if not _IGNORED.search(name)}

    def _absent_kind(self) -> type:
        if self.is_transformers:
            import transformers

            return getattr(transformers, "PreTrainedConfig", None) or (
                transformers.PretrainedConfig)
        return self.config_kind or Settings

    def _model(self, config: Any) -> Any:
        if hasattr(self.kind, "_from_config"):
            with _no_init():
                model = self.kind._from_config(config)
            with trace.paused():
                model.tie_weights()
            return model
        return self.kind(config)

    def _tensors(self, model: Any, recorder: trace.Recorder) -> list[trace.Tensor]:
        saved = model.state_dict().keys()
        modules = dict(model.named_modules())
        listed = list(model.named_parameters())
        buffers = [(n, t) for n, t in model.named_buffers() if n in saved]
        found = []
        for name, tensor in listed + buffers:
            entry = recorder.sizes.get(id(tensor))
            sizes = entry[1] if entry else [None] * tensor.dim()
            module = modules.get(name.rpartition(".")[0])
            is_buffer = len(found) >= len(listed)
            found.append(trace.Tensor(
                name, tuple(tensor.shape), dtype_name(tensor.dtype), tuple(sizes),
                "buffer" if is_buffer else _module_kind(module)))
        return found

    def _files(self, model: Any) -> Optional[list[trace.Tensor]]:
        """What files of the model hold, where its class writes other names."""
        if not self.is_transformers:
            return None
        try:
            from transformers.core_model_loading import revert_weight_conversion
        except ImportError:
            return None
        kept = {id(t): n for n, t in model.named_parameters()}
        state = {
            name: tensor for name, tensor in model.state_dict(keep_vars=True).items()
            if kept.get(id(tensor), name) == name
        }
        state = {name: x.detach() for name, x in state.items()}
        saved = revert_weight_conversion(model, dict(state))
        if saved.keys() == state.keys() and all(
            saved[name].shape == x.shape for name, x in state.items()
        ):
            return None
        modules = dict(model.named_modules())
        buffers = {name for name, _ in model.named_buffers()}
        return [
            trace.Tensor(name, tuple(x.shape), dtype_name(x.dtype), (None,) * x.dim(),
                         "buffer" if name in buffers else
                         _module_kind(modules.get(name.rpartition(".")[0])))
            for name, x in saved.items()
        ]

    def keys(self) -> list[Key]:
        """The keys that a config.json of the class may have."""
        if self.config_kind is None:
            given = self.example or {}
            return [Key(name, x, frozenset({_kind_of(x)}))
                    for name, x in _stated(given) if not _IGNORED.search(name)]
        with contextlib.suppress(Exception):
            made = self.config(dict(self.example or {}))
            return list(self._keys_of(made, ""))
        raise FamilyError(
            f"{self.config_kind.__name__} has no config without arguments: name an"
            " example with `--config config.json`")

    def _keys_of(self, made: Any, prefix: str) -> Iterator[Key]:
        hints = _annotations(type(made))
        for name, value in list(vars(made).items()):
            if name.startswith("_") or _IGNORED.search(name):
                continue
            if not isinstance(value, dict) and trace.is_config(value):
                yield from self._keys_of(value, f"{prefix}{name}.")
                continue
            default = _field_default(type(made), name, value)
            kinds, choices = _kinds(hints.get(name))
            kinds |= {_kind_of(value), _kind_of(default)}
            yield Key(prefix + name, default if default is not None else None,
                      frozenset(kinds), choices)

        for name, default in self.taken(made).items() if not prefix else ():
            if not isinstance(default, (dict, str)):
                kind = _kind_of(default)
                yield Key(name, default, frozenset({"int" if kind == "none" else kind,
                                                    "unlisted"}))

    def parts(self) -> dict[str, str]:
        """The model types of the parts of a config, by dotted name."""
        if not self.is_transformers:
            return {}
        made = self.config(dict(self.example or {}))
        return {
            name: value.model_type
            for _, _, name, value in trace.values_under(made)
            if not isinstance(value, dict) and trace.is_config(value)
            and hasattr(value, "model_type")
        }


class Settings(dict):  # type: ignore[type-arg]
    """A config.json as an object, for a class that takes a dict or attributes."""

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__({key: Settings(x) if isinstance(x, dict) else x
                          for key, x in given.items()})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def _stated(given: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in given.items():
        if isinstance(value, dict) and (key.endswith("config") or prefix):
            yield from _stated(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _marked(given: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """A config.json whose values remember their keys."""
    made: dict[str, Any] = {}
    for key, value in given.items():
        if key in ("model_type", "architectures", "dtype", "torch_dtype"):
            made[key] = value
        elif isinstance(value, dict):
            inside = key.endswith("config") or prefix
            made[key] = _marked(value, f"{prefix}{key}.") if inside else value
        else:
            made[key] = trace.traced(value, ("name", prefix + key))
    return made


def dtype_name(dtype: Any) -> str:
    names = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64",
             "int64": "I64", "int32": "I32", "int8": "I8", "uint8": "U8", "bool": "BOOL"}
    text = str(dtype).rpartition(".")[2]
    return names.get(text, text.upper())


def _module_kind(module: Any) -> str:
    import torch

    if isinstance(module, torch.nn.Embedding):
        return "embedding"
    if isinstance(module, torch.nn.Linear):
        return "linear"
    if module is not None and "Norm" in type(module).__name__:
        return "norm"
    return ""


def _taken_by(kind: type) -> dict[str, Any]:
    if kind not in _taken:
        found = _taken[kind] = {}
        try:
            source = inspect.getsource(kind)
        except (OSError, TypeError):
            source = ""
        for name, text in re.findall(
            r"kwargs\.(?:pop|get)\(\s*[\"'](\w+)[\"']\s*(?:,\s*([^)]+))?\)", source
        ):
            try:
                found[name] = ast.literal_eval(text.strip()) if text else None
            except (ValueError, SyntaxError):
                continue
    return _taken[kind]


_taken: dict[type, dict[str, Any]] = {}


def _field_default(kind: type, name: str, value: Any) -> Any:
    """The default as the class states it, which its code may replace."""
    if dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            if field.name == name and field.default is not dataclasses.MISSING:
                return field.default
    return trace.bare(value)


def _annotations(kind: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        with contextlib.suppress(Exception):
            found.update(typing.get_type_hints(base))
    return found


def _kind_of(x: Any) -> str:
    if x is None:
        return "none"
    for kind, name in ((bool, "bool"), (int, "int"), (float, "float"), (str, "str"),
                       (dict, "dict")):
        if isinstance(x, kind):
            return name
    return "list" if isinstance(x, (list, tuple)) else "other"


def _kinds(hint: Any) -> tuple[set[str], tuple[str, ...]]:
    """What an annotation allows."""
    if typing.get_origin(hint) is typing.Literal:
        choices = tuple(x for x in typing.get_args(hint) if isinstance(x, str))
        return {"str"}, choices
    union = getattr(types, "UnionType", None)
    if typing.get_origin(hint) in (typing.Union, union):
        kinds: set[str] = set()
        choices = ()
        for one in typing.get_args(hint):
            more, texts = _kinds(one)
            kinds |= more
            choices += texts
        return kinds, choices
    names = {int: "int", bool: "bool", float: "float", str: "str", type(None): "none"}
    if hint in names:
        return {names[hint]}, ()
    if typing.get_origin(hint) in (list, tuple) or hint in (list, tuple):
        inner = typing.get_args(hint)
        of = "str" if inner and inner[0] is str else "int"
        return {"list", "list of " + of}, ()
    return set(), ()


@contextlib.contextmanager
def _no_init() -> Iterator[None]:
    """Values are not drawn: there are none on the meta device."""
    try:
        from transformers.initialization import no_init_weights
    except ImportError:
        yield
        return
    with no_init_weights():
        yield


@contextlib.contextmanager
def _given_dtype(subject: Subject, given: dict[str, Any]) -> Iterator[None]:
    """A class that is no transformers model is made in the dtype of the config."""
    import torch

    name = given.get("dtype") or given.get("torch_dtype")
    if subject.is_transformers or not name:
        yield
        return
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, name))
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _import_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise FamilyError(
            "PyTorch is not installed, and the trees are those that its classes build:"
            " `pip install torch`, or write the description by hand"
            " (docs/guides/families.md)") from None


def find(text: str, trust: bool, config: Optional[str], name: Optional[str]) -> Subject:
    """The class of a model type of transformers, or of MODULE:CLASS."""
    example: Optional[dict[str, Any]] = None
    if config:
        try:
            example = files.read_json(config)
        except (OSError, ValueError) as error:
            raise FamilyError(str(error)) from None
        if not isinstance(example, dict):
            raise FamilyError(f"{config} is no config.json: it holds no object")
    if ":" in text:
        return _own(text, trust, example, name)
    _import_torch()
    try:
        import transformers
    except ImportError:
        raise FamilyError(
            "transformers is not installed, which has the class of a model type:"
            " `pip install transformers`, or name your own class as MODULE:CLASS"
        ) from None
    transformers.logging.set_verbosity_error()
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if text not in CONFIG_MAPPING:
        raise FamilyError(
            f"transformers {transformers.__version__} has no model type `{text}`: install"
            " a version that has it, or name the class as MODULE:CLASS")
    wanted = (example or {}).get("architectures") or []
    names = [*wanted[:1]]
    for table in ("CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "SEQ_TO_SEQ_CAUSAL_LM", "MASKED_LM",
                  "IMAGE_CLASSIFICATION"):
        mapping = getattr(modeling_auto, f"MODEL_FOR_{table}_MAPPING_NAMES", {})
        if text in mapping:
            names.append(mapping[text])
    names.append(modeling_auto.MODEL_MAPPING_NAMES.get(text, ""))
    for one in names:
        one = one[0] if isinstance(one, tuple) else one
        kind = getattr(transformers, one, None) if one else None
        if kind is not None:
            return Subject(kind, CONFIG_MAPPING[text], name or text, example)
    raise FamilyError(f"transformers has no class of models for `{text}`: name your own as"
                      " MODULE:CLASS")


def _own(text: str, trust: bool, example: Optional[dict[str, Any]],
         name: Optional[str]) -> Subject:
    if not trust:
        raise FamilyError(
            f"`{text}` is code that would be run here: read it, and pass `--trust-code`")
    _import_torch()
    module, _, path = text.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        kind: Any = importlib.import_module(module)
        for part in path.split("."):
            kind = getattr(kind, part)
    except (ImportError, AttributeError) as error:
        raise FamilyError(f"{text}: {error}") from None
    if not inspect.isclass(kind):
        raise FamilyError(f"{text} is no class: name the class of the model")
    config_kind = getattr(kind, "config_class", None) or _config_argument(kind)
    if config_kind is None and example is None:
        raise FamilyError(
            f"{text} does not say which class its config has: annotate the first"
            " parameter of `__init__`, or give an example with `--config config.json`")
    model_type = (name or (example or {}).get("model_type")
                  or getattr(config_kind, "model_type", None)
                  or re.sub(r"(For\w+|Model|LM)$", "", kind.__name__).lower())
    return Subject(kind, config_kind, model_type, example)


def _config_argument(kind: Any) -> Optional[type]:
    """The class that the first parameter of __init__ is annotated with."""
    try:
        hints = typing.get_type_hints(kind.__init__)
    except Exception:
        hints = getattr(kind.__init__, "__annotations__", {})
    names = [p for p in inspect.signature(kind.__init__).parameters if p != "self"]
    found = hints.get(names[0]) if names else None
    if isinstance(found, type) and found is not dict and not issubclass(found, dict):
        return found
    return None
