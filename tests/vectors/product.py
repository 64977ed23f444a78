"""Requests every recorded answer of the reference.

Each family turns a recorded case into inputs of `shardc eval`, which runs the
readers, the resolver, the matcher and the kernels of the program, and compares
what comes back. A case ends as one of: passed, failed, differs (a deliberate
difference of DIFFERENCES, whose own answer is checked), or beyond RE2.
"""

import collections
import json
import os
import subprocess

ROOT = os.environ["SHARDC_SOURCE_ROOT"]
VECTORS = os.environ.get("SHARDC_VECTORS",
                         os.path.join(ROOT, "testdata", "vectors"))

# The deliberate differences, as docs/parity.md explains them.
DIFFERENCES = {
    "bare-axis": "a mesh axis or an axis rule may stand alone in a spec",
    "unknown-in-group": "an unknown name in a group is an error",
    "nested-group": "groups that arise by resolution are flattened",
    "null-in-group": "nulls and `_` in a group are left out",
    "null-rule": "a token registered with a null rule is unsharded",
    "unknown-mode": "an unknown mode is an error",
    "lookup-stripped": "names of tokens are compared without their underscores",
    "circle-early": "a circle of registrations is an error when it is read",
    "empty-name": "an empty axis name is an error",
    "re2-syntax": "patterns are RE2's: `\\z` for `\\Z`, and `[:alpha:]` is a class",
    "nameless-leaf": "a tree is an object; a leaf has a name",
    "leading-bang": "every reader of meshes skips a leading `!`",
    "reserved-name": "`_` and empty names cannot be registered",
    "repeated-early": "an axis written twice in one rule or spec is an error",
    "eager-patterns": "every pattern is compiled, also one never reached",
    "remembered-mesh": "a mesh is made for the devices that there are",
    "plain-integers": "sizes are plain decimal integers; only -1 is unknown",
    "mesh-names": "a mesh has at least one axis, and names without blanks",
    "manager-json": "a manager's JSON is read as the axis rules inside",
    "yarn": "yarn is YaRN; the reference's yarn is su",
    "repeat-bsnh": "repeat_kv_bsnh does what its documentation states",
    "bias-and-mask": "a bias and a mask both apply",
    "sinks-by-key-head": "rank 2 sinks are [sinks, key heads]",
    "aligned-last": "a window and causal attention put the last query at the"
                    " last key",
    "past-the-end": "a write past the cache's end is an error",
    "initial-scale": "a new cache's scales have the shape of later ones",
    "quantised-once": "a token is quantised once, when it is written",
    "sharded-int8": "a single token is quantised in a sharded cache too",
    "owner-mask": "the pad mask applies to single tokens too",
    "ranks-without-axes": "an axis that a mesh lacks counts as size 1",
}

Outcome = collections.namedtuple("Outcome", "kind why")
PASSED = Outcome("passed", "")
BEYOND = Outcome("beyond RE2", "")


def failed(why):
    return Outcome("failed", str(why)[:600])


def differs(name, holds=True, why=""):
    assert name in DIFFERENCES, name
    return Outcome("differs", name) if holds else failed(
        f"{name}, but ours is another: {why}")


class Ask:
    """A question: `function` on `given`; the answer arrives in `answer`, or
    its error in `error`."""

    def __init__(self, function, **given):
        self.function = function
        self.given = given
        self.answer = self.error = None

    def __repr__(self):
        return (f"{self.function} {json.dumps(self.given)} -> "
                f"{json.dumps(self.answer or self.error)}")


def evaluate(asks, program=None, environment=None):
    """Answers all questions, one process for each function."""
    program = program or os.environ["SHARDC_BIN"]
    by_function = collections.defaultdict(list)
    for ask in asks:
        by_function[ask.function].append(ask)
    for function, group in by_function.items():
        done = subprocess.run(
            [program, "eval", function], env=environment, check=False,
            input=json.dumps([ask.given for ask in group]),
            capture_output=True, text=True, encoding="utf-8")
        if done.returncode != 0:
            raise RuntimeError(f"{function}: {done.stderr}")
        for ask, got in zip(group, json.loads(done.stdout), strict=True):
            ask.answer = got.get("result")
            ask.error = got.get("error")


# Axis rules, registrations and lists of axes.

RULES = ("data_parallel fully_sharded_data_parallel tensor_parallel "
         "sequence_parallel expert_parallel batch sequence query_sequence "
         "head key_sequence hidden_state mlp_intermediate vocab expert "
         "expert_gate attention_dim kv_head attention_kv_dim "
         "bias_head_sequence bias_key_sequence decode_batch "
         "decode_query_sequence decode_head decode_key_sequence "
         "decode_attention_dim decode_kv_head decode_attention_kv_dim"
         ).split()
FIELDS = {rule + "_axis" for rule in RULES}
SHORT = ("BATCH LENGTH QUERY_LENGTH KV_LENGTH EMBED HEAD KV_HEAD HEAD_DIM "
         "KV_HEAD_DIM MLP_INTERMEDIATE VOCAB EXPERT EXPERT_GATE "
         "BIAS_HEAD_SEQ BIAS_KV_SEQ DP FSDP TP EP SP").split()
LONG = {"DP": "DATA_PARALLEL", "FSDP": "FULLY_SHARDED_DATA_PARALLEL",
        "TP": "TENSOR_PARALLEL", "EP": "EXPERT_PARALLEL",
        "SP": "SEQUENCE_PARALLEL"}
TOKENS = {f"__{LONG.get(name, name)}__" for name in SHORT}


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)


def axis_rules(fields):
    return {name.removesuffix("_axis"): value
            for name, value in fields.items()}


def registered_name(name, tokens):
    """A name of a registration's rule in a rules file."""
    if name in FIELDS:
        return name.removesuffix("_axis")
    if name in TOKENS or name in tokens:
        return name
    ours = name in RULES or name in SHORT or name.strip("_") in {
        token.strip("_") for token in tokens}
    return {"axis": name} if ours else name


def registered_rule(rule, tokens):
    if isinstance(rule, str):
        return registered_name(rule, tokens)
    return rule if rule is None else [registered_rule(item, tokens)
                                      for item in rule]


def register_step(step, tokens):
    name = step["name"].strip()
    if step["op"] == "unregister":
        return {name: {"unregister": True,
                       "missing_ok": step.get("missing_ok", True)}}
    value = {"rule": registered_rule(step["rule"], tokens)}
    if "generation_rule" in step:
        value["generation"] = registered_rule(step["generation_rule"], tokens)
    if step.get("override"):
        value["override"] = True
    return {name: value}


def rules_file(partition_axis, steps=()):
    tokens = {step["name"].strip() for step in steps}
    rules = {"axes": axis_rules(partition_axis)}
    if steps:
        rules["register"] = [register_step(step, tokens) for step in steps]
    return rules


def own_axes(axes):
    """A list of axes as a rule's spec has it."""
    def name(text):
        return text.removesuffix("_axis") if text in FIELDS else text
    return [[name(m) if isinstance(m, str) else m for m in entry]
            if isinstance(entry, list) else entry for entry in axes]


def mesh_for(partition_axis, axes, tokens=()):
    """Every mesh axis that the case can mean, of size 1."""
    names = ["dp", "fsdp", "tp", "sp", "ep", *strings(partition_axis)]
    for entry in axes:
        if isinstance(entry, list):
            names += [m for m in strings(entry) if m not in TOKENS
                      and m not in FIELDS and m not in tokens and m != "_"]
    return {name: 1 for name in names if name}


def flat(entry):
    """Axes of an entry, groups inside groups flattened."""
    return [name for name in strings(entry) if name not in ("", "_")]


def spec(entries):
    """A spec as JAX normalises it, groups flattened."""
    out = []
    for entry in entries:
        names = flat(entry)
        out.append(names[0] if len(names) == 1 else names or None)
    return out


def ask_resolve(partition_axis, axes, mode, steps=(), shape=None):
    tokens = {step["name"].strip() for step in steps}
    given = {"rules": rules_file(partition_axis, steps),
             "mesh": mesh_for(partition_axis,
                              axes if isinstance(axes, list) else [], tokens),
             "axes": own_axes(axes) if isinstance(axes, list) else axes,
             "mode": mode}
    if shape is not None:
        given["shape"] = shape
    return Ask("resolve", **given)


def group_difference(raw):
    """The difference that a resolved list of the reference falls under."""
    for entry in raw:
        if isinstance(entry, list):
            if any(isinstance(m, list) for m in entry):
                return "nested-group"
            if any(m in (None, "_", "") for m in entry):
                return "null-in-group"
    return None


def judge_spec(ask, raw):
    """Ours against the reference's raw axes."""
    if ask.error:
        names = [name for entry in raw for name in flat(entry)]
        written = [n for n in strings(ask.given["axes"])]
        if "twice" in ask.error["message"]:
            return differs("repeated-early",
                           len(names) > len(set(names)) or
                           len(written) > len(set(written)), ask)
        return failed(ask)
    if spec(ask.answer["spec"]) != spec(raw):
        return failed(f"{ask}, expected {raw}")
    difference = group_difference(raw)
    return differs(difference) if difference else PASSED


def judge_refusal(ask, error, given_axes):
    """The reference refuses; ours refuses as well, or differs."""
    kind = error["kind"]
    if kind in ("nested_tuple_in_spec", "nested_composite"):
        if kind == "nested_composite":
            return PASSED if ask.error else failed(ask)
        if ask.error and "twice" in ask.error["message"]:
            return PASSED
        return differs("nested-group", ask.error is None, ask)
    if ask.error:
        return PASSED
    if kind == "unknown_axis":
        known = set(ask.given["mesh"]) | set(RULES)
        bare = [e for e in given_axes if isinstance(e, str)
                and (e in known or e in FIELDS)]
        if bare:
            return differs("bare-axis")
        stripped = [e for e in given_axes if isinstance(e, str)
                    and (e in SHORT or e.strip() != e)]
        registered = {name for step in ask.given["rules"].get("register", [])
                      for name in step}
        if any(e in registered or f"__{e}__" in registered
               or e.strip("_") in registered
               for e in given_axes if isinstance(e, str)):
            null = [name for step in ask.given["rules"]["register"]
                    for name, value in step.items()
                    if value.get("rule", 0) is None]
            return differs("null-rule" if null else "lookup-stripped")
        if stripped:
            return differs("lookup-stripped")
    return failed(f"{ask}, expected {error}")


def resolve_case(case):
    given = case["input"]
    if given["op"] == "resolve_axis":
        axes, mode, shape = given["axes"], given["mode"], None
    else:
        shape = given.get("shape")
        dynamic = given.get("dynamic_axes")
        if "axes" in given and "mode" in given:
            axes, mode = given["axes"], given["mode"]
        elif dynamic:
            axes, mode = dynamic["axes"], dynamic["mode"]
        else:
            # Neither gives axes and a mode: there is nothing to ask.
            ask = Ask("resolve", rules={"axes": {}})
            yield ask
            return PASSED if ask.error and "error" in case else failed(ask)
    if isinstance(mode, bool):
        mode = int(mode)
    ask = ask_resolve(given["partition_axis"], axes, mode, shape=shape)
    yield ask
    if "error" in case:
        return judge_refusal(ask, case["error"], axes)
    expect = case["expect"]
    if "spec_error" in expect and "axes" not in expect:
        return judge_refusal(ask, expect["spec_error"], axes)
    if ask.error and "`mode` is no mode" in ask.error["message"]:
        return differs("unknown-mode")
    if ask.error and ask.error["name"] == "unknown-name":
        return differs("unknown-in-group")
    if ask.error and "" in [*strings(given["partition_axis"]),
                            *strings(axes)]:
        return differs("empty-name", "is empty" in ask.error["message"], ask)
    return judge_spec(ask, expect.get("axes", expect.get("spec")))


def register_case(case):
    given = case["input"]
    kept, worst = [], PASSED
    for step, want in zip(given["steps"], case["expect"]["steps"],
                          strict=True):
        outcome = yield from register_outcome(given["partition_axis"], kept,
                                              step, want)
        if outcome.kind == "failed":
            return outcome
        if outcome.kind == "differs":
            worst = outcome
        if step["op"] in ("register", "unregister") and "error" not in want:
            kept = [*kept, step]
        if step["op"] == "clear":
            kept = []
    return worst


def register_outcome(partition_axis, kept, step, want):
    if step["op"] == "clear":
        return PASSED
    steps = [*kept, step] if step["op"] in ("register", "unregister") else kept
    if step["op"] == "resolve":
        ask = ask_resolve(partition_axis, step["axes"], step["mode"], steps)
    else:
        ask = Ask("registered", rules=rules_file(partition_axis, steps))
    yield ask
    if ask.error and "circle" in ask.error["message"]:
        # The reference reports a circle where it is resolved.
        cyclic = want.get("error", {}).get("kind") == "cyclic_registration"
        return PASSED if cyclic else differs("circle-early")
    if ask.error and any(word in ask.error["message"]
                         for word in ("empty name", "`_` always")):
        return PASSED if "error" in want else differs("reserved-name")
    if ask.error and "rule is empty" in ask.error["message"]:
        return differs("empty-name", "" in [s.get("rule") for s in steps],
                       ask)
    if ask.error and step["op"] != "resolve" and "error" not in want:
        if "same token" in ask.error["message"] or \
                "twice" in ask.error["message"]:
            return differs("lookup-stripped")
        return failed(f"{ask}, expected {want}")
    if step["op"] == "list":
        return judge_listing(ask, want["registered"], steps)
    if step["op"] != "resolve":
        if "error" in want:
            return PASSED if ask.error else failed(f"{ask}, expected {want}")
        return PASSED
    if "error" in want:
        return judge_refusal(ask, want["error"], step["axes"])
    if ask.error and ask.error["name"] == "unknown-name":
        return differs("unknown-in-group")
    registered = {s["name"].strip(): s for s in steps}  # the last of a name
    null = {name for name, s in registered.items()
            if s["op"] == "register" and s["rule"] is None}
    raw = want["axes"]
    if null & set(strings(raw)):
        return differs("null-rule",
                       not ask.error and spec(ask.answer["spec"]) == spec(
                           drop(raw, null)), ask)
    return judge_spec(ask, raw)


def drop(value, names):
    if isinstance(value, list):
        return [drop(item, names) for item in value]
    return None if value in names else value


def judge_listing(ask, want, steps):
    ours = ask.answer["registered"]
    for name, rule in want.items():
        if name not in ours:
            return failed(f"{ask}, expected {want}")
        for key in ("axis_rule", "generation_axis_rule"):
            if (key in rule) != (key in ours[name]) or \
                    spec([rule.get(key)]) != spec([ours[name].get(key)]):
                return failed(f"{ask}, expected {want}")
    return PASSED if len(want) == len(ours) else failed(f"{ask}, {want}")


def bundles_case(case):
    given = case["input"]
    axes, mode = given["bundle"], None
    plain = given["bundle"] == "DynamicShardingAxes"
    if plain:
        axes, mode = given["instance"]["axes"], given["instance"]["mode"]
    ask = ask_resolve(given["partition_axis"], axes, mode,
                      shape=given.get("shape"))
    named = Ask("bundle", bundle=given["bundle"])
    if not plain:
        ask.given.pop("mode")
        yield named
    yield ask
    if case.get("error", {}).get("kind") == "nested_tuple_in_spec":
        return judge_refusal(ask, case["error"], [])
    if "error" in case:
        return PASSED if ask.error else failed(ask)
    expect = case["expect"]
    if not plain and (named.answer["axes"], named.answer["mode"]) != (
            expect["axes"], expect["bundle_mode"]):
        return failed(named)
    if "spec_error" in expect:
        return judge_refusal(ask, expect["spec_error"], [])
    outcome = judge_spec(ask, expect["spec"])
    if outcome.kind != "passed":
        return outcome
    modes = {"train": "__train__", "decode": "__autoregressive__",
             "prefill": "__prefill__", "insert": "__insert__"}
    # Live answers have no such member: the reference returns only the spec.
    mode = modes[ask.answer["mode"]]
    if mode != expect.get("effective_mode", mode):
        return failed(ask)
    if "mesh" not in given:
        return PASSED
    corrected = Ask("get_corrected_named_sharding", shape=given["shape"],
                    spec=ask.answer["spec"], mesh=given["mesh"])
    yield corrected
    if "corrected_error" in expect:
        return PASSED if corrected.error else failed(corrected)
    return same(corrected, "spec", expect["corrected_spec"])


def same(ask, key, want):
    if ask.error or ask.answer[key] != want:
        return failed(f"{ask}, expected {want}")
    return PASSED


def attention_case(case):
    given = dict(case["input"])
    axis = given.pop("partition_axis")
    ask = Ask("attention_shardings", rules=rules_file(axis),
              mesh=mesh_for(axis, []), **given)
    yield ask
    if "error" in case:
        nested = case["error"]["kind"] == "nested_tuple_in_spec"
        return PASSED if ask.error else differs("nested-group", nested, ask)
    if ask.error and "`mode` is no mode" in ask.error["message"]:
        return differs("unknown-mode")
    outcome = PASSED
    for name, want in case["expect"].items():
        ours = None if ask.error else ask.answer.get(name)
        if ours == want:
            continue
        difference = want and group_difference(want)
        if not difference or ours != spec(want):
            return failed(f"{name}: {ask}, expected {want}")
        outcome = differs(difference)
    return outcome
