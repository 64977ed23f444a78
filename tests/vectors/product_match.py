"""Requests the recorded answers about trees, patterns and corrections."""

from product import BEYOND, PASSED, Ask, differs, failed, same, spec, strings


def tree(node):
    """A tree of the vectors as a manifest, which is an object; nothing where
    the tree is a leaf of its own, which has no name."""
    if node is None:
        return {}
    if isinstance(node, list):
        node = {str(i): item for i, item in enumerate(node)}
    return None if "$shape" in node or "$value" in node else leaf(node)


def leaf(node):
    """A subtree."""
    if isinstance(node, dict) and "$shape" in node:
        return {"shape": node["$shape"], "dtype": "F32"}
    if isinstance(node, dict) and "$value" in node:
        return {"shape": None, "dtype": None}
    if isinstance(node, dict):
        return {key: leaf(value) for key, value in node.items()}
    return [leaf(v) for v in node] if isinstance(node, list) else node


def match_case(case):
    given = case["input"]
    policy = {}
    if "min_size" in given:
        size = given["min_size"]
        policy["min_size"] = 16384 if size is None else size
    ask = Ask("match_partition_rules", implementation=given["impl"],
              strict=given.get("strict", True), tree=tree(given["tree"]),
              rules={"separator": "/", "policy": policy,
                     "rules": [{"match": rule["pattern"], "spec": rule["spec"]}
                               for rule in given["rules"]]})
    yield ask
    if "error" in case:
        return PASSED if ask.error else failed(f"{ask}, {case['error']}")
    want = case["expect"]["specs"]
    if tree(given["tree"]) is None:
        return differs("nameless-leaf", ask.error is not None, ask)
    if ask.error:
        if ask.error["name"].startswith("regex"):
            if "python_only_syntax" in case.get("tags", []):
                return BEYOND
            if any(text in rule["pattern"] for rule in given["rules"]
                   for text in ("\\Z", "[[:")):
                return differs("re2-syntax")
            return differs("eager-patterns", "lazy" in " ".join(
                case.get("tags", [])) or broken(given["rules"]), ask)
        if "twice" in ask.error["message"]:
            return differs("repeated-early")
        return failed(f"{ask}, expected {want}")
    if ask.answer["specs"] != want and any(
            "[[:" in rule["pattern"] for rule in given["rules"]):
        return differs("re2-syntax")
    return same(ask, "specs", want)


def broken(rules):
    """Whether a pattern is none of Python's either."""
    import re  # noqa: PLC0415
    for rule in rules:
        try:
            re.compile(rule["pattern"])
        except re.error:
            return True
    return False


def correct_case(case):
    given = dict(case["input"])
    op = given.pop("op")
    ask = Ask("get_corrected_named_sharding" if op == "named_sharding"
              else "with_sharding_constraint", **given)
    yield ask
    if "error" in case:
        if ask.error:
            return PASSED
        nested = case["error"]["kind"] == "nested_tuple_in_spec"
        return differs("nested-group") if nested else failed(ask)
    expect = case["expect"]
    if ask.error and "twice" in ask.error["message"]:
        return differs("repeated-early",
                       len(list(strings(given["spec"]))) > len(
                           set(strings(given["spec"]))), ask)
    if "applied" in expect and not ask.error and \
            ask.answer["applied"] != expect["applied"]:
        return failed(f"{ask}, expected {expect}")
    return same(ask, "spec", expect["spec"])
