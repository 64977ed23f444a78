"""docs/runtimes.md: how much was compared with which system, counted in the
records that hold what it answered. `page_test.py --write` writes the table."""

import os
import re
import unittest

import hf_plans_test
import page_tables
import records


def cases(*names):
    return sum(len(records.load(name)["cases"]) for name in names)


def devices():
    """Slices, one for each device of each case."""
    return sum(len(case["offsets"])
               for case in records.load("jax/shardings")["cases"])


def specs(name):
    return sum(len(case["params"])
               for case in records.load(name)["cases"])


def described():
    """The families whose trees shardc builds."""
    return {name[:-len(".yaml")] for name in os.listdir(
        os.path.join(records.ROOT, "families")) if name.endswith(".yaml")}


def trees():
    index, known = records.load("transformers/index"), described()
    small = sum(cases("transformers/small/" + family)
                for family in index["families"] if family in known)
    return small, sum(entry["model_type"] in known
                      for entry in index["models"])


def cut_by_transformers():
    """Parameters with a placement by transformers."""
    total = 0
    for entry in records.load("transformers/index")["models"]:
        if entry["model"] in hf_plans_test.UNEVEN:
            continue
        record = records.load("transformers/known/" + entry["model"])
        said = record.get("tensor_parallel") or {}
        total += len(said.get("placements", {}))
    return total


def logits():
    """Plans that transformers ran, and those among them that it refused."""
    plans = [plan for case in records.load("transformers/tp_logits")["cases"]
             for plan in case["plans"].values()]
    return plans, sum("error" in plan for plan in plans)


def flax_trees():
    """The least that families_test.cc compares: not all have the naming."""
    path = os.path.join(records.HERE, "families_test.cc")
    with open(path, encoding="utf-8") as file:
        return int(re.search(r"kFlaxTrees = (\d+)", file.read()).group(1))


def rows():
    """(record, what is compared, of what, how many, differences)"""
    vectors = records.load("eformer/vectors")
    small, known = trees()
    yield ("jax/shardings", "slices", "slices of devices, over random meshes and specs",
           devices(), 0)
    yield ("jax/shardings", "texts", "XLA's text in three forms, and Shardy's",
           4 * cases("jax/shardings"), 0)
    yield "jax/refusals", "specs", "specs that are refused", cases("jax/refusals"), 0
    yield ("jax/slice_meshes", "device order", "device orders of meshes of several slices",
           cases("jax/slice_meshes"), 0)
    yield ("jax/cost", "bytes", "bytes of what compiled training steps hold", cases("jax/cost"),
           0)
    yield ("states/optax", "names", "owners of the arrays of train states",
           sum(len(case["arrays"])
               for case in records.load("states/optax")["cases"]), 0)
    yield ("eformer/vectors", "results", "answers of its functions",
           sum(vectors["asked"].values()), len(vectors["differences"]))
    yield ("eformer/corpus", "specs", "public rule sets over public trees",
           cases("eformer/corpus"), 0)
    yield ("dtensor/shardings", "data", "local data of every rank, by our placements",
           cases("dtensor/shardings"), 0)
    yield ("dtensor/placements", "data", "placements as they come, uneven and strided",
           cases("dtensor/placements"), 0)
    yield "transformers/index", "names, shapes", "trees of models in small sizes", small, 0
    yield "transformers/index", "names, shapes", "trees of published models", known, 0
    yield ("transformers/index", "split dimension", "parameters that its plans cut",
           cut_by_transformers(), 0)
    plans, refused = logits()
    yield ("transformers/tp_logits", "logits",
           "exported plans on two processes, against one device's", len(plans), refused)
    yield ("transformers/tp_logits", "gradients",
           "exported plans on two processes, against one device's",
           sum("gradients" in plan for plan in plans), 0)
    saved = records.load("transformers/tp_checkpoints")["cases"]
    yield ("transformers/tp_checkpoints", "logits",
           "checkpoints that it loads by an exported plan",
           sum("logits" in case for case in saved),
           sum("logits" not in case for case in saved))
    for name in ("transformers/packed", "transformers/packed-4.57"):
        yield name, "elements", "packed weights that it splits", cases(name), 0
    loaded = records.load("tensor_parallel/megatron_vllm")["cases"]
    for system in ("megatron", "vllm"):
        yield ("tensor_parallel/megatron_vllm", "data",
               f"weights that {system} splits by an exported plan",
               sum(bool(case[system] and case[system]["held"]) for case in loaded), 0)
    yield "flax/small", "names, shapes", "trees of its Flax classes, at least", flax_trees(), 0
    yield ("levanter/trainer", "specs", "specs of named axes, older form",
           specs("levanter/trainer"), 0)
    yield ("levanter/mesh", "specs", "specs of named axes, newer form",
           specs("levanter/mesh"), 0)
    yield ("maxtext/models", "specs", "specs of its models' parameters",
           specs("maxtext/models"), 0)
    yield ("reference/edges", "values", "answers of functions at their edges",
           sum(map(len, records.load("reference/edges")["cases"].values())), 0)
    for name, what in (
            ("declared/torch", "placements of live models, folded to rules"),
            ("declared/jax", "metadata and layout maps of live models, folded to rules")):
        found = records.load(name)["cases"]
        yield (name, "shards", what, sum(case["equal"] for case in found),
               sum(case["different"] + case["refusals"] for case in found))
    yield ("pipelining/torch", "schedules", "actions of pipeline schedules, in their order",
           len(records.load("pipelining/torch")["cases"]), 0)
    steps = records.load("xla/steps")["cases"]
    yield ("xla/steps", "collectives", "training steps, what XLA's partitioner makes of them",
           len(steps), sum("free" in case for case in steps))
    yield ("xla/siblings", "collectives",
           "steps of small siblings of published models, equal or by a rule",
           cases("xla/siblings"), 0)
    yield ("xla/steps", "gradients", "gradients that devices compute under it",
           sum(len(case["computed"]["gradients"]) for case in steps), 0)


def table():
    lines = [["system", "compared", "of", "cases", "differences", "record"],
             ["---", "---", "---", "--:", "--:", "---"]]
    for name, kind, what, count, differences in rows():
        used = records.load(name)["versions"]
        lines.append([", ".join(f"{package} {version}" for package, version
                                in used.items()),
                      kind, what, f"{count:,}", str(differences), f"`{name}`"])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


class Page(unittest.TestCase):
    def test_the_page_has_what_the_records_have(self):
        page = the_page()
        self.assertEqual(page.made(), page.read(),
                         "tests/runtimes/page_test.py --write writes it")

    def test_every_record_is_on_it(self):
        folders = {name.split("/")[0] for name, *_ in rows()}
        self.assertEqual(folders, set(os.listdir(records.RECORDS))
                         - {"README.md"})


def the_page():
    return page_tables.Page(
        os.path.join(records.ROOT, "docs", "runtimes.md"), table=table)


if __name__ == "__main__":
    the_page().main()
