"""The Python loop that users run today: first match of re.search, sizes.

match_baseline.py MANIFEST RULES.json MESH.json OUT: writes name, rule, spec
and bytes for a device of every parameter.
"""

import json
import re
import sys


def main():
    manifest, rules_file, mesh_text, output = sys.argv[1:]
    with open(manifest) as source:
        params = json.load(source)["params"]
    with open(rules_file) as source:
        rules = json.load(source)
    mesh = json.loads(mesh_text)
    plan = []
    for param in params:
        for index, (pattern, spec) in enumerate(rules):
            if re.search(pattern, param["name"]):
                break
        else:
            raise SystemExit("no rule takes " + param["name"])
        size = 2
        for dim, length in enumerate(param["shape"]):
            parts = 1
            for axis in spec[dim] if dim < len(spec) else []:
                parts *= mesh[axis]
            if length % parts:
                raise SystemExit("%s does not divide" % param["name"])
            size *= length // parts
        plan.append({"name": param["name"], "rule": index, "spec": spec,
                     "bytes_per_device": size})
    with open(output, "w") as out:
        json.dump(plan, out)


main()
