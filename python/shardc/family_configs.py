"""Draws config.json files of a class, small and random, that it builds.

Which configs are drawn decides what a description can be wrong about: a value that
never varies is taken for a constant, and a key that is never absent has no default. So
every key varies, is left out, and is null where the class allows that.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Sequence
from typing import Any, Optional

from shardc import family_trace as trace
from shardc.family_expressions import parts
from shardc.family_subject import Built, FamilyError, Key, Subject

_LAYERS = re.compile(r"^(num_(hidden_|encoder_|decoder_)?layers|n_layers?|depth"
                     r"|(en|de)coder_layers|num_blocks|n_block)$")
_KV_HEADS = re.compile(r"(kv|key_value)_heads|n_head_kv|num_kv")
_HEADS = re.compile(r"(^|_)(n_)?heads?$|num_attention_heads")
_HIDDEN = re.compile(r"^(hidden_size|d_model|n_embd|dim|embed_dim|hidden_dim)$")
_EXPERTS = re.compile(r"^(n|num)_?\w*experts$|moe_num_experts|experts_num")
_PER_TOKEN = re.compile(r"per_tok|top_?k|moe_k$")
_LAYER_LIST = re.compile(r"layers?$|layers?_(idx|ids|indices)|_idxs?$|_indices$")
_STEPS = re.compile(r"period|interval|step|every|stride|offset")


class Drawer:
    """Draws configs of one class."""

    def __init__(self, subject: Subject, seed: int) -> None:
        self.subject = subject
        self.random = random.Random(seed)
        self.keys: dict[str, Key] = {key.name: key for key in subject.keys()}
        self.parts = subject.parts()
        self.texts: dict[str, set[str]] = {}  # values that a text is compared with
        self.excluded: set[tuple[str, str]] = set()  # texts that are refused
        self.per_layer: set[str] = set()  # lists with an entry for each layer
        self.places: set[str] = set()  # lists of numbers of layers
        self.fractions: set[str] = set()  # keys of fractions that sizes depend on
        self.errors: list[str] = []
        self.failed = False  # whether the last one was not built
        self.blamed: dict[str, int] = {}
        self.good: dict[str, Any] = {}
        self.fixed = self._padding()
        self.good = self._start()
        self._probe()

    # Building

    def built(self, flat: dict[str, Any]) -> Optional[Built]:
        """The tree of a config, if the class builds it."""
        try:
            return self.subject.build(self.nested(flat))
        except Exception as error:  # whatever the class raises
            text = (str(error).strip() or type(error).__name__).splitlines()[0]
            self.errors.append(f"{type(error).__name__}: {text}")
            return None

    def nested(self, flat: dict[str, Any]) -> dict[str, Any]:
        """A config.json of values by dotted name."""
        made: dict[str, Any] = {"model_type": self.subject.model_type}
        if self.subject.is_transformers:
            made["architectures"] = [self.subject.classes]
        for name, kind in self.parts.items():
            self._put(made, f"{name}.model_type", kind)
        for name, value in flat.items():
            self._put(made, name, copy.deepcopy(value))
        return made

    @staticmethod
    def _put(made: dict[str, Any], name: str, value: Any) -> None:
        *path, last = name.split(".")
        for part in path:
            made = made.setdefault(part, {})
        made[last] = value

    def _padding(self) -> dict[str, Any]:
        """Numbers of tokens that small vocabularies do not have."""
        try:
            made = self.subject.config(dict(self.subject.example or {}))
        except Exception:
            return {}
        return {name: 0 for _, _, name, value in trace.values_under(made)
                if _last(name) == "pad_token_id" and isinstance(value, int) and value > 4}

    def _start(self) -> dict[str, Any]:
        """A small config that is built, with as many keys as are built together."""
        few = {name: 3 for name in self.keys if _LAYERS.match(_last(name))}
        example = {name: value for name in self.keys
                   if (value := self._exemplified(name)) is not _ABSENT}
        for flat in ({**self.fixed, **few}, self.fixed, {**self.fixed, **example}):
            if self.built(flat):
                self.good = flat
                break
        else:
            for _ in range(40):
                flat = self._draw_all(absent=0.2, flags=0.0)
                if self.built(flat):
                    return flat
            raise FamilyError(
                f"{self.subject.classes} is not built on PyTorch's meta device from any"
                f" of the drawn configs; the last error is: {self.errors[-1]} (an example"
                " config.json helps: `--config FILE`)")
        for _ in range(15):
            flat = self._draw_all(absent=0.0, flags=0.0)
            if self.built(flat):
                return flat
            self._blame(flat)
        return self.good

    def _exemplified(self, name: str) -> Any:
        """A key's value in the example config."""
        value: Any = self.subject.example or {}
        for part in name.split("."):
            value = value.get(part, _ABSENT) if isinstance(value, dict) else _ABSENT
        return value

    def _blame(self, flat: dict[str, Any]) -> None:
        """Finds a key whose value is not built with others, which is rarely drawn then."""
        names = [name for name in {**self.good, **flat}
                 if self.good.get(name, _ABSENT) != flat.get(name, _ABSENT)]
        self.random.shuffle(names)
        low, high = 0, len(names)  # with the first `high` names it is not built

        def mixed(number: int) -> dict[str, Any]:
            made = dict(self.good)
            for name in names[:number]:
                made.pop(name, None)
                if name in flat:
                    made[name] = flat[name]
            return made

        while high - low > 1:
            middle = (low + high) // 2
            if self.built(mixed(middle)):
                low = middle
            else:
                high = middle
        if names:
            self.blamed[names[high - 1]] = self.blamed.get(names[high - 1], 0) + 1

    # Probing

    def _probe(self) -> None:
        """What the class itself shows of its keys."""
        base = self.built(self.good)
        assert base is not None
        self._learn(base)
        layers = [name for name in self.good if _LAYERS.match(_last(name))]
        more = self.built({**self.good, **{name: self.good[name] + 1 for name in layers
                                           if isinstance(self.good[name], int)}})
        if more is None:
            more = self._longer(layers)
        for name, value in base.values.items():
            if not isinstance(value, list) or more is None:
                continue
            other = more.values.get(name)
            if isinstance(other, list) and len(other) == len(value) + 1:
                self.per_layer.add(name)
                if value == list(range(len(value))):
                    self.places.add(name)
        for name in self.per_layer:
            self._exclude_texts(name)
        # Keys that the code requests and the class does not list.
        for name in base.absent:
            if name in self.keys or _last(name) in ("decoder", "generator", "text_config"):
                continue
            for value, kind in ((14, "int"), (True, "bool")):
                changed = self.built({**self.good, name: value})
                if changed is not None and changed.live() != base.live():
                    self.keys[name] = Key(name, None, frozenset({kind, "unlisted"}))
                    break
        # A fraction may count only where a flag is set.
        contexts = [(self.good, base)]
        for _ in range(8):
            flat = self._draw_all(absent=0.3, flags=0.6)
            if len(contexts) < 4 and (made := self.built(flat)) is not None:
                contexts.append((flat, made))
        for name, key in list(self.keys.items()):
            if "float" not in key.kinds or not isinstance(key.default, (int, float)):
                continue
            for flat, made in contexts:
                changes = (self.built({**flat, name: float(key.default + more)})
                           for more in (1, 2))
                if any(x is not None and x.live() != made.live() for x in changes):
                    self.fractions.add(name)
                    break

    def _longer(self, layers: list[str]) -> Optional[Built]:
        """With a layer more, where lists must have an entry for it."""
        counts = {self.good[name] for name in layers}
        longer = {name: [*value, value[-1]] for name, value in self.good.items()
                  if isinstance(value, list) and value and len(value) in counts}
        return self.built({**self.good, **longer,
                           **{name: self.good[name] + 1 for name in layers
                              if isinstance(self.good[name], int)}})

    def _exclude_texts(self, name: str) -> None:
        """Finds the texts that a list with an entry for each layer does not take, such as
        kinds of layers that the class compares with and other classes have."""
        value = self.good.get(name)
        if not isinstance(value, list):
            return
        for text in sorted(self.texts.get(name, set()) - set(value)):
            others = [[text] * len(value), [text, *value[1:]], [*value[:-1], text]]
            if not any(self.built({**self.good, name: other}) for other in others):
                self.excluded.add((name, text))

    def _learn(self, built: Built) -> None:
        """Notes the texts with which the class compares values."""
        for condition in built.conditions + built.set_up:
            for part in parts(condition):
                if not isinstance(part, tuple) or part[0] not in ("==", "!="):
                    continue
                left, right = part[1], part[2]
                if isinstance(left, str):
                    left, right = right, left
                if isinstance(right, str) and isinstance(left, tuple):
                    name = left[1] if left[0] == "name" else (
                        left[1][1] if left[0] == "item" and left[1][0] == "name" else "")
                    if isinstance(name, str) and name:
                        self.texts.setdefault(name, set()).add(right)
        for name, value in built.values.items():
            if isinstance(value, list) and value and isinstance(value[0], str):
                self.texts.setdefault(name, set()).update(value)

    # Drawing

    def draw(self) -> Built:
        """A config that is built, and its tree."""
        flat: dict[str, Any] = {}
        for attempt in range(60):
            if attempt % 12 == 0:
                flat = self._draw_all(absent=self.random.choice([0.0, 0.1, 0.3]),
                                      flags=0.5)
                if self.random.random() < 0.3:
                    flat["dtype"] = "bfloat16"
            else:
                # One that failed comes nearer to one that is built.
                for name in {**flat, **self.good}:
                    if name != "dtype" and self.random.random() < 0.2:
                        flat.pop(name, None)
                        if name in self.good:
                            flat[name] = self.good[name]
            if (made := self._sound(flat)) is not None:
                return made
            if attempt % 12 == 0 and self.failed and sum(self.blamed.values()) < 12:
                self._blame(flat)
        raise FamilyError(
            f"{self.subject.classes} refuses nearly all configs that are drawn; the last"
            f" error is: {self.errors[-1]}")

    def _sound(self, flat: dict[str, Any]) -> Optional[Built]:
        made = self.built(flat)
        self.failed = made is None
        if made is None or any(0 in x.shape for x in made.tensors):
            return None
        self._learn(made)
        return None if _is_refused(made.values) else made

    def single(self) -> list[Built]:
        """Configs in which one key is absent, or null."""
        found = []
        few = {name: 3 for name in self.keys if _LAYERS.match(_last(name))}
        if (near := self.built({**self.fixed, **few})) is not None:
            found.append(near)
        for name, key in self.keys.items():
            values: list[Any] = [_ABSENT]
            if "none" in key.kinds and key.default is not None:
                values.append(None)
            for value in values:
                for _ in range(4):
                    flat = self._draw_all(absent=0.0, flags=0.5)
                    flat.pop(name, None)
                    if _LAYERS.match(_last(name)):
                        for other in self.per_layer:
                            flat.pop(other, None)
                    if value is None:
                        flat[name] = None
                    if (made := self._sound(flat)) is not None:
                        found.append(made)
                        break
        return found

    def never(self, built: Sequence[Built]) -> list[tuple[str, bool]]:
        """Flags, each with a value that none of these configs has: the class refuses it
        with the other values that are drawn."""
        flags = [name for name, key in self.keys.items() if "bool" in key.kinds]
        seen = {name: {x.values.get(name) for x in built} for name in flags}
        return [(name, value) for name in flags for value in (True, False)
                if value not in seen[name] and (not value) in seen[name]]

    def _draw_all(self, absent: float, flags: float) -> dict[str, Any]:
        flat: dict[str, Any] = dict(self.fixed)
        scopes: dict[str, _Scope] = {}
        for name, key in self.keys.items():
            prefix = name.rpartition(".")[0]
            scope = scopes.setdefault(prefix, _Scope(self.random))
            heavy = bool(_LAYERS.match(_last(name)) or _EXPERTS.search(_last(name)))
            leave = absent / (8 if heavy else 1)
            value = self._value(key, scope, flags)
            if self.random.random() > 2.0 / (2 + self.blamed.get(name, 0)):
                value = self.good.get(name, _ABSENT)
            if value is _ABSENT or self.random.random() < leave:
                continue
            flat[name] = value
        return flat

    def _value(self, key: Key, scope: "_Scope", flags: float) -> Any:
        name, draw = _last(key.name), self.random
        kinds = key.kinds - {"none"}
        if "unlisted" in kinds and draw.random() < 0.5:
            return _ABSENT
        null = (0.4 if key.default is None else 0.1) if scope.has_nulls else 0.0
        if "none" in key.kinds and draw.random() < null:
            return draw.choice([None, _ABSENT])
        if key.name in self.per_layer:
            return self._per_layer(key.name, scope)
        if "bool" in kinds:
            if flags == 0.0 and isinstance(key.default, bool):
                return key.default
            return draw.random() < 0.5
        if "list" in kinds and "int" in kinds and draw.random() < 0.3:
            return [scope.size() for _ in range(scope.layers)]
        if "int" in kinds and not isinstance(key.default, float):
            return scope.integer(name, key.default)
        if "float" in kinds or isinstance(key.default, float):
            return draw.randint(1, 4) if key.name in self.fractions else _ABSENT
        if "str" in kinds:
            choices = sorted(set(key.choices) | self.texts.get(key.name, set()))
            if key.default is not None and len(choices) > 0 and draw.random() < 0.8:
                return draw.choice(choices + [key.default])
            return _ABSENT
        if "list" in kinds:
            return self._list(key, scope)
        return _ABSENT

    def _per_layer(self, name: str, scope: "_Scope") -> Any:
        draw = self.random
        if draw.random() < 0.3:
            return _ABSENT
        texts = sorted(x for x in self.texts.get(name, set())
                       if (name, x) not in self.excluded)
        if texts:
            return [draw.choice(texts) for _ in range(scope.layers)]
        if name in self.places:
            return scope.subset()
        return [scope.size() for _ in range(scope.layers)]

    def _list(self, key: Key, scope: "_Scope") -> Any:
        draw, default = self.random, key.default
        if isinstance(default, (list, tuple)) and default:
            if all(isinstance(x, bool) for x in default):
                return _ABSENT
            if all(isinstance(x, int) for x in default):
                if _LAYER_LIST.search(_last(key.name)):
                    return scope.subset()
                return [scope.size() for _ in default]
            return _ABSENT
        if "list of str" in key.kinds and not _LAYER_LIST.search(_last(key.name)):
            return _ABSENT
        if _LAYER_LIST.search(_last(key.name)) or default is not None:
            return scope.subset()
        return _ABSENT


_ABSENT = object()


def _last(name: str) -> str:
    return name.rpartition(".")[2]


class _Scope:
    """Values of one part of a config that go with each other."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.layers = draw.choice([2, 3, 4, 5, 6, 8])
        self.has_nulls = draw.random() < 0.6
        self.groups = draw.randint(1, 4)
        self.kv = draw.choice([1, 2, 3, 4])
        self.heads = self.kv * self.groups
        self.hidden = self.heads * 2 * draw.randint(3, 11)
        self.experts = draw.choice([4, 6, 8, 9, 12, 16])
        self.linear = draw.choice([2, 3, 4])
        self.unit = draw.choice([2, 4])

    def size(self) -> int:
        return 2 * self.draw.randint(6, 60)

    def subset(self) -> list[int]:
        return sorted(self.draw.sample(range(self.layers),
                                       self.draw.randint(0, self.layers)))

    def integer(self, name: str, default: Any) -> Any:
        draw = self.draw
        if _LAYERS.match(name):
            return self.layers
        if _KV_HEADS.search(name):
            return self.kv
        if re.search(r"(key|k)_heads$", name):
            return self.linear
        if re.search(r"(value|v)_heads$", name):
            return self.linear * draw.randint(1, 3)
        if re.search(r"groups?$", name) and not re.search(r"^(n|topk|num_expert)_group", name):
            return self.unit
        if re.search(r"^n_group$|num_expert_group", name):
            return draw.choice([x for x in (1, 2, 3, 4) if self.experts % x == 0])
        if re.search(r"topk_group", name):
            return 1
        if re.search(r"mamba|ssm", name) and _HEADS.search(name):
            return self.unit * draw.randint(1, 4)
        if _PER_TOKEN.search(name):
            return draw.randint(1, 3)
        if _HEADS.search(name):
            return self.heads
        if _EXPERTS.search(name) and "shared" not in name:
            if isinstance(default, int) and default <= 1 and draw.random() < 0.3:
                return default
            return self.experts
        if _HIDDEN.match(name):
            return self.hidden
        if re.search(r"head_dim", name):
            return 2 * draw.randint(2, 20)
        if re.search(r"kernel|conv_l_cache|d_conv", name, re.I):
            return draw.randint(2, 6)
        if _STEPS.search(name) and isinstance(default, int) and default <= 8:
            return draw.randint(1, 4)
        if isinstance(default, int) and not isinstance(default, bool):
            if default == 0:
                return draw.choice([0, 0, 1, 2, 3, self.size()])
            if default <= 4:
                return draw.randint(1, 5)
            if default <= 8:
                return draw.choice([draw.randint(1, 6), self.size()])
        return self.size() if draw.random() < 0.8 else draw.randint(5, 60)


def _is_refused(values: dict[str, Any]) -> bool:
    """Whether attention cannot be computed with these sizes, which the program refuses
    though the class builds them."""
    for name, heads in values.items():
        if _last(name) != "num_attention_heads" or not isinstance(heads, int):
            continue
        prefix = name[: -len("num_attention_heads")]
        hidden = values.get(prefix + "hidden_size")
        kv, head = (values.get(prefix + x) for x in ("num_key_value_heads", "head_dim"))
        if isinstance(kv, int) and kv and heads % kv:
            return True
        if not isinstance(head, int) and isinstance(hidden, int) and hidden % heads:
            return True
        rotated = values.get(prefix + "rope_parameters.partial_rotary_factor",
                             values.get(prefix + "partial_rotary_factor"))
        size = head if isinstance(head, int) else (hidden // heads if hidden else 0)
        if isinstance(rotated, float) and int(size * rotated) % 2:
            return True
    return False

