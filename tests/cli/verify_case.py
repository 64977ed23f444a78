"""Sizes, a mesh and rules for tests of `shardc verify`."""

import os

SMALL = "heads=8,kv_heads=4,head_dim=16,batch=2,q_len=16,kv_len=32"
MESH = "dp:2,sp:2,tp:2"
OF_A_STEP = {"batch": "--batch", "q_len": "--seq", "kv_len": "--kv-len"}


def sizes(text):
    """Sizes as options: `heads=8,batch=2` -> --attention heads=8 --batch 2."""
    items = [item.partition("=") for item in text.split(",") if text]
    heads = ",".join(f"{key}={value}" for key, _, value in items
                     if key not in OF_A_STEP)
    return [*(["--attention", heads] if heads else []),
            *(word for key, _, value in items if key in OF_A_STEP
              for word in (OF_A_STEP[key], value))]


def rules(folder, text):
    path = os.path.join(folder, "rules.yaml")
    with open(path, "w") as f:
        f.write("version: 1\n" + text)
    return path
