"""The numeric family of the recorded cases: see product.py."""

import struct

from product import Ask, PASSED, differs, failed


def numbers(value):
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    else:
        yield value


def single(x):
    """The float32 that a decimal stands for."""
    return struct.unpack("f", struct.pack("f", x))[0]


def near(ours, want, tolerance=None):
    """Whether numbers agree within |a - b| <= atol + rtol |b|, or where no
    tolerance is given in every bit of float32."""
    if not tolerance:
        return list(map(single, numbers(ours))) == \
            list(map(single, numbers(want)))
    rtol, atol = tolerance.get("rtol", 0), tolerance.get("atol", 0)
    a, b = list(numbers(ours)), list(numbers(want))
    return len(a) == len(b) and all(
        abs(x - y) <= atol + rtol * abs(y) for x, y in zip(a, b))


def compare(ask, case, **keys):
    if "error" in case:
        return PASSED if ask.error else failed(ask)
    if ask.error:
        return failed(f"{case['id']}: {ask.error}")
    expect = case["expect"]
    for ours, theirs in keys.items():
        if not near(ask.answer[ours], expect[theirs],
                    expect.get("tolerance")):
            return failed(f"{theirs}: {ask}")
    return PASSED


def rotate_half(given, case):
    ask = Ask("rotate_half", x=given["x"])
    yield ask
    return compare(ask, case, y="y")


def frequencies(given, case):
    given = {key: value for key, value in given.items() if value is not None}
    yarn = given.get("rope_type") == "yarn"
    if yarn:
        given["rope_type"] = "su"
    ask = Ask("precompute_freq_cis", **given)
    yield ask
    if "error" in case:
        return PASSED if ask.error else failed(ask)
    outcome = compare(ask, case, sin="sin", cos="cos")
    return differs("yarn") if yarn and outcome == PASSED else outcome


def rotary(given, case):
    ask = Ask("apply_rotary_pos_emb", **given)
    yield ask
    return compare(ask, case, y="y")


def repeat(layout):
    def run(given, case):
        ask = Ask("repeat_kv", x=given["x"], n_rep=given["n_rep"],
                  layout=layout)
        yield ask
        return compare(ask, case, y="y")
    return run


def repeat_broken(given, case):
    """The reference transposes its result or fails."""
    ask = Ask("repeat_kv", x=given["x"], n_rep=given["n_rep"], layout="bsnh")
    yield ask
    if "error" in case:
        return differs("repeat-bsnh", given["n_rep"] > 1 and not ask.error)
    return differs("repeat-bsnh", not ask.error and
                   near(ask.answer["y"], given["x"]) and given["n_rep"] == 1 and
                   sorted(numbers(case["expect"]["y"])) == sorted(
                       numbers(given["x"])))


def quantize(given, case):
    plain = Ask("quantize_int8", x=given["x"])
    shifted = Ask("quantize_int8", x=given["x"], threshold=1e-6)
    yield plain
    yield shifted
    if plain.error or shifted.error:
        return failed(plain)
    expect = case["expect"]
    tolerance = expect["tolerance"]
    fine = (near(plain.answer["q"], expect["q"], {"atol": tolerance["q"]}) and
            near(plain.answer["scale"], expect["scale"], tolerance) and
            near(plain.answer["dequantized"], expect["dequantized"],
                 tolerance) and
            near(shifted.answer["dequantized"],
                 expect["dequantized_default_threshold"], tolerance))
    return PASSED if fine else failed(f"{plain}, expected {expect}")


def cache(given, case):
    config = given["config"]
    quantized = config["quantize_kv_cache"]
    sharded = config["use_sharded_kv_caching"]
    if "error" in case:
        return failed(case)
    wants = case["expect"]["steps"]
    # Steps after one that the reference refuses were not asked of it.
    steps = [{key: value for key, value in step.items() if value is not None}
             for step in given["steps"][:len(wants)]]
    lengths = [len(step["key"][0]) for step in steps]
    fitting = 0
    while fitting < len(steps) and \
            sum(lengths[:fitting + 1]) <= given["max_length"]:
        fitting += 1
    base = {key: given[key] for key in ("batch", "max_length", "num_heads",
                                        "head_dim")}
    base["sp"] = config.get("sp", 1) if sharded else 1
    sure = Ask("concatenate_to_cache", quantize=quantized,
               steps=steps[:fitting], **base)
    yield sure
    refused = None
    if fitting < len(steps):
        refused = Ask("concatenate_to_cache", quantize=quantized,
                      steps=steps[:fitting + 1], **base)
        yield refused
    if quantized and sharded and 1 in lengths and not sure.error:
        # From such a step on, the reference's values are other ones.
        single = Ask("concatenate_to_cache", quantize=True,
                     steps=steps[:fitting], **{**base, "sp": 1})
        yield single
        return differs("sharded-int8", sure.answer == single.answer, single)
    bad = next((w["error"] for w in wants if "error" in w), None)
    if bad and rank_of(steps[-1].get("mask")) not in (0, 4):
        # Refused by both: a step may have other faults as well.
        both = sure.error or refused is not None and refused.error
        return PASSED if both else failed(sure)
    if bad and bad["kind"] == "mask_rank_mismatch":
        return failed(sure)
    if sure.error:
        return failed(sure.error)
    if bad and bad["kind"] == "broadcast_mismatch":
        return differs("initial-scale")
    if refused is not None and not refused.error:
        return failed(f"a write past the end is not refused: {refused}")
    found = None
    for ours, want, step, length in zip(sure.answer["steps"], wants, steps,
                                        lengths):
        if "error" in want:
            return failed(want)
        outcome = judge_step(ours, want, step, length, quantized, sharded,
                             case["expect"].get("tolerance"))
        if outcome.kind == "failed":
            return outcome
        found = outcome if outcome.kind == "differs" else found
    if bad:  # larger than the cache itself
        return PASSED if refused is not None else failed(bad)
    if refused is not None:
        return differs("past-the-end")
    return found or PASSED


def judge_step(ours, want, step, length, quantized, sharded, tolerance):
    if ours["index"] != want["index"]:
        return failed(f"index {ours['index']}, expected {want['index']}")
    begin = ours["index"] - length
    for name in ("key", "value"):
        got, wanted = ours[name], want[name]
        if quantized:
            # The reference returns new tokens unrounded and quantises all of
            # the cache again; the integers of the new tokens are the same.
            got = rows(ours["cached_" + name], begin, ours["index"])
            wanted = rows(want["cached_" + name], begin, ours["index"])
        if not near(got, wanted, {"atol": 1} if quantized else tolerance):
            return failed(f"{name}: {got}, expected {wanted}")
    single = sharded and length == 1
    if single:
        return differs("owner-mask") if ours["mask"] != want["mask"] else (
            differs("quantised-once") if quantized else PASSED)
    if not near(ours["mask"], want["mask"]):
        return failed(f"mask {ours['mask']}, expected {want['mask']}")
    return differs("quantised-once") if quantized else PASSED


def rank_of(value):
    return 1 + rank_of(value[0]) if isinstance(value, list) else 0


def rows(cached, begin, end):
    return [batch[begin:end] for batch in cached]


def attention(given, case):
    given = {key: value for key, value in given.items() if value is not None}
    source = given.pop("combine", "source") == "source"
    window = given.pop("window", None)
    causal = given.pop("causal", None)
    biased = "bias" in given and source
    masked = "mask" in given
    if biased:
        for key in ("mask", "q_segment_ids", "kv_segment_ids"):
            given.pop(key, None)
    else:
        if causal is not None:
            given["causal"] = True
        for side in ("left", "right"):
            if window and window.get(side) is not None:
                given[side] = window[side]
    newer = given.pop("release", None) is not None
    sinks = given.get("softmax_aux")
    by_head = sinks is not None and isinstance(sinks[0], list)
    if by_head and newer:
        given["softmax_aux"] = [list(row) for row in zip(*sinks)]
    elif by_head and len(sinks) == len(given["key"][0][0]):
        given["softmax_aux"] = list(numbers(sinks))
    ask = Ask("attention", **given)
    yield ask
    if newer and "error" not in case and is_offset(given):
        masked = Ask("attention", **with_mask(given))
        yield masked
        return differs("aligned-last", not ask.error and
                       ask.answer == masked.answer, masked)
    if "error" in case:
        return PASSED if ask.error else failed(ask)
    outcome = compare(ask, case, output="output", weights="weights")
    if outcome != PASSED:
        return outcome
    if biased and masked:
        return differs("bias-and-mask")
    return differs("sinks-by-key-head") if by_head else PASSED


def is_offset(given):
    """Whether a window or causal attention has fewer queries than keys, or
    more."""
    return len(given["query"][0]) != len(given["key"][0]) and \
        bool({"causal", "left", "right"} & given.keys())


def with_mask(given):
    """The input with a mask in place of its window: the last query is at the
    last key."""
    rows, slots = len(given["query"][0]), len(given["key"][0])
    mask = given.get("mask")

    def sees(b, i, j):
        at = i + slots - rows
        own = mask is None or (
            mask[b][j] if not isinstance(mask[b][0], list) else
            mask[b][i][j] if not isinstance(mask[b][0][0], list) else
            mask[b][0][i][j])
        return int(bool(own) and
                   (not given.get("causal") or j <= at) and
                   ("left" not in given or j >= at - given["left"]) and
                   ("right" not in given or j <= at + given["right"]))
    return {**{key: value for key, value in given.items()
               if key not in ("causal", "left", "right")},
            "mask": [[[sees(b, i, j) for j in range(slots)]
                      for i in range(rows)]
                     for b in range(len(given["query"]))]}


OPERATIONS = {
    "rotate_half": rotate_half, "precompute_freq_cis": frequencies,
    "apply_rotary_pos_emb": rotary, "repeat_kv_bnsh": repeat("bnsh"),
    "repeat_kv_bsnh_documented": repeat("bsnh"),
    "repeat_kv_bsnh": repeat_broken, "quantize_int8": quantize,
    "concatenate_to_cache": cache, "attention": attention}


def numeric_case(case):
    given = dict(case["input"])
    op = given.pop("op")
    given.pop("shape", None)
    return (yield from OPERATIONS[op](given, case))
