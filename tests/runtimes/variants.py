"""Small configs of a family that change its tree, found by trying: each
switch flipped, each number changed, each absent value given."""

import copy
import random


# What to try for a value, in order, until one changes the tree.
TEXTS = {"feed_forward_proj": ["gated-gelu"], "feat_extract_norm": ["layer"],
         "position_embedding_type": ["rope", "relative_key"],
         "vision_feature_select_strategy": ["full"]}
ABSENT = [20, 2, True]
# Keys of a configuration that are no part of the model's own.
NOT_TRIED = {"dtype", "transformers_version", "architectures", "model_type",
             "problem_type", "id2label", "label2id", "return_dict",
             "output_hidden_states", "output_attentions", "_name_or_path",
             "pad_token_id", "num_labels"}
MOST = 24  # variants of a family
COMBINATIONS = 4


def others(key, value):
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value * 2, value + 1] if value else [2, 1]
    if value is None:
        return ABSENT
    if value == []:
        return [[1]]
    return TEXTS.get(key, []) if isinstance(value, str) else []


def changes(config, path=()):
    """(path, other values) of everything that may be changed."""
    for key, value in config.items():
        if key in NOT_TRIED:
            continue
        if isinstance(value, dict) and key.endswith("_config"):
            yield from changes(value, (*path, key))
        elif others(key, value):
            yield (*path, key), others(key, value)


def changed(config, settings):
    config = copy.deepcopy(config)
    for path, value in settings.items():
        place = config
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
    return config


def found(config, tree_of):
    """{path: value} of single changes that build another tree. `tree_of`
    gives nothing where a model cannot be built."""
    base = tree_of(config)
    seen = [base]
    kept = {}
    for path, values in changes(config):
        for value in values:
            tree = tree_of(changed(config, {path: value}))
            if tree is not None and tree not in seen:
                kept[path] = value
                seen.append(tree)
                break
    return kept


def chosen(config, tree_of):
    """(name, config) of the variants: single changes, and several at once."""
    single = found(config, tree_of)
    names = list(single)[:MOST] if len(single) <= MOST else \
        random.Random(5).sample(list(single), MOST)
    for path in names:
        yield (f"{'.'.join(path)}={single[path]}",
               changed(config, {path: single[path]}))
    rng = random.Random(6)
    for number in range(COMBINATIONS):
        for _ in range(20):
            paths = rng.sample(list(single), min(len(single),
                                                 rng.randint(2, 5)))
            config_now = changed(config, {p: single[p] for p in paths})
            if tree_of(config_now) is not None:
                yield f"combination {number + 1}", config_now
                break
