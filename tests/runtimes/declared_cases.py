"""What a live model declares, as `shardc.rules` folds it, next to the shapes of the
shards that the model's own library computes: the entry of one model in a record."""

import os
import sys
import time

import folding
import records

sys.path.insert(0, os.path.join(records.ROOT, "python"))
os.environ.setdefault("SHARDC", os.environ.get("SHARDC_BIN", "shardc"))

from shardc.rules import from_model  # noqa: E402


def case(library, model, factory, shards, **given):
    """The entry of one model. `shards` is a function of nothing: the shape of one
    device's shard by parameter, computed by the library."""
    rules = from_model(factory, **given)
    proof = rules.prove()
    computed = shards()
    params = []
    for one in rules.declared.parameters:
        entry = {"name": one.name, "shape": list(one.shape)}
        if one.name in computed and one.name not in proof.refused:
            entry["shard"] = list(computed[one.name])
        params.append(entry)
    return {
        "library": library, "model": model, "axes": dict(rules.declared.axes),
        "separator": rules.declared.separator,
        "rules": rules.text(f"{library}'s {model}"), "count": len(rules.rules),
        "silent": len(rules.silent), "equal": proof.equal,
        "different": len(proof.different), "refused": sorted(
            {reason.replace(name, "NAME") for name, reason
             in proof.refused.items()})[:5],
        "refusals": len(proof.refused), "params": folding.fold(params)}


def cases(models):
    """The entries of (library, model, factory, shards, given), and why the others
    were not run."""
    out, unrun = [], {}
    for library, model, factory, shards, given in models:
        start = time.monotonic()
        try:
            out.append(case(library, model, factory, shards, **given))
            one = out[-1]
            found = (f"{one['equal']} equal, {one['different']} different, "
                     f"{one['refusals']} refused, {one['count']} rules")
        except Exception as error:
            text = str(error).strip().splitlines() or [""]
            found = unrun[f"{library} {model}"] = (
                f"{type(error).__name__}: {text[0][:160]}")
        print(f"{library} {model}: {found} ({time.monotonic() - start:.1f} s)",
              file=sys.stderr, flush=True)
    return out, unrun


def record(name, packages, models):
    found, unrun = cases(models)
    yield name, {"format": "shardc.runtimes.declared/v1",
                 "versions": records.versions(*packages), "not_run": unrun,
                 "cases": found}
