"""Sizes, a mesh and rules for tests of `shardc verify`."""

import os

SMALL = "heads=8,kv_heads=4,head_dim=16,batch=2,q_len=16,kv_len=32"
MESH = "dp:2,sp:2,tp:2"


def rules(folder, text):
    path = os.path.join(folder, "rules.yaml")
    with open(path, "w") as f:
        f.write("version: 1\n" + text)
    return path
