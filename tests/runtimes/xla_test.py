"""shardc's collectives compared with those that XLA's partitioner recorded.

docs/compiler.md has the table; `xla_test.py --write` writes it.
"""

import collections
import json
import os
import tempfile
import unittest

import page_tables
import records
import shardc_answers
import xla_cases

RECORD = records.load("xla/steps")
NUMBER = "number"
# Programs that repeat keys and values for the query heads before they are
# gathered over `sp`. The step gathers them first, and sends half of their bytes
# with two query heads to each of them; one gather is of positions.
REPEATED = {"llama fsdp2 sp2 tp4": 2}


def ordered(axes, mesh):
    return "+".join(a for a in mesh if a in axes)


def by_collective(entries):
    """(count, bytes) by kind and axes, whatever the rules."""
    out = collections.defaultdict(lambda: (0, 0))
    for one in entries:
        key = (one["kind"], one["axes"])
        out[key] = (out[key][0] + one["count"], out[key][1] + one["bytes"])
    return dict(out)


def ours(case):
    """The same, of shardc's program; collectives of single numbers apart."""
    with tempfile.TemporaryDirectory() as folder:
        (report,) = xla_cases.Asked(case, "counted", folder).step(
            *xla_cases.TOKENS["counted"])["steps"]
    width = report["element_bytes"]
    out = collections.defaultdict(lambda: (0, 0))
    for op in report["ops"]:
        if op["collective"] is None:
            continue
        kind = NUMBER if op["result"] == "[]" else op["collective"]
        key = (kind, ordered(op["axes"], case["mesh"]))
        out[key] = (out[key][0] + op["layers"],
                    out[key][1] + op["layers"] * op["bytes_per_device"])
    assert width == 4 and report["status"] == "pass"
    return dict(out)


def difference(case, path, *flags):
    """`shardc audit` of a program, compared with the case's step."""
    with tempfile.TemporaryDirectory() as folder:
        asked = xla_cases.Asked(case, "counted", folder)
        step = asked.step(*xla_cases.TOKENS["counted"], *flags)
        shardc_answers.write(asked.path("step.json"), step)
        done = shardc_answers.run(
            "audit", path, "--step", asked.path("step.json"), "--select",
            "SHD601", "--format", "json", check=False)
        return done.returncode, json.loads(done.stdout)["difference"]


def compiled(routes):
    return {(one["collective"], one["over"]):
            (one["times"], one["bytes_per_device"])
            for one in routes if one["times"]}


def without_numbers(sent):
    return {key: value for key, value in sent.items() if key[0] != NUMBER}


def size(count):
    return f"{count / 1024:,.1f} KiB"


def total(sent):
    return (sum(count for count, _ in sent.values()),
            sum(size for _, size in sent.values()))


def cell(pair):
    return f"{pair[0]} | {size(pair[1])}" if pair and pair[0] else " | "


def rules_of(case, key):
    rules = {rule for one in case["rewritten"] if (one["kind"], one["axes"]) == key
             for rule in one.get("rules", "").split("+") if rule}
    return ", ".join(sorted(rules))


class Steps(unittest.TestCase):
    def test_what_is_sent_is_what_the_partitioner_sends(self):
        rewritten = 0
        for case in RECORD["cases"]:
            with self.subTest(case=case["name"]):
                mine = without_numbers(ours(case))
                theirs = without_numbers(by_collective(case["rewritten"]))
                if "free" in case:
                    self.assertNotEqual(mine, theirs)
                elif case["name"] in REPEATED:
                    key, times = ("all_gather", "sp"), REPEATED[case["name"]]
                    (count, sent), (same, more) = mine.pop(key), theirs.pop(key)
                    self.assertEqual((mine, count), (theirs, same))
                    positions = 4096
                    self.assertEqual(more - positions,
                                     times * (sent - positions))
                else:
                    self.assertEqual(mine, theirs)
                    rewritten += 1
        self.assertGreaterEqual(rewritten, 8)

    def test_audit_rewrites_as_the_reader_of_the_record_does(self):
        for case in RECORD["cases"]:
            with self.subTest(case=case["name"]):
                path = xla_cases.program(case["name"], ".after_spmd")
                status, found = difference(case, path)
                theirs = without_numbers(by_collective(case["rewritten"]))
                mine = compiled(found["routes"])
                if "free" in case:
                    # The record has no axes of permutes.
                    moved = [mine.pop(key) for key in list(mine)
                             if key[0] == "ppermute"]
                    if moved:
                        mine["ppermute", ""] = tuple(map(sum, zip(*moved)))
                self.assertEqual(mine, theirs)
                differs = "free" in case or case["name"] in REPEATED
                self.assertEqual(found["equal"], not differs)
                self.assertEqual(status, 1 if differs else 0)
                if "free" in case:
                    self.assertTrue(found["extra"])
                    lines = [one["line"] for one in found["extra"]]
                    self.assertLessEqual(
                        {line["file"] for line in lines if line},
                        {"xla_models.py"})
                    self.assertGreater(len(lines), 2 * lines.count(None))

    def test_optimised_programs_are_equal_too(self):
        rewritten = 0
        for case in RECORD["cases"]:
            path = xla_cases.program(case["name"])
            if not os.path.exists(path):
                continue
            with self.subTest(case=case["name"]):
                self.assertEqual(difference(case, path)[1]["equal"],
                                 case["name"] not in REPEATED)
                rewritten += 1
        self.assertGreaterEqual(rewritten, 3)

    def test_scanned_layers_are_added_up(self):
        """A loop over four layers gathers their weights again for the backward
        pass; the head is outside of it, and stays gathered."""
        (case,) = [case for case in RECORD["cases"]
                   if case["name"] == "llama dp2 fsdp2 tp2"]
        for ending, flags in (("scanned", ()), ("scanned_remat", (
                "--remat", "nothing_saveable"))):
            for stage in ("", ".after_spmd"):
                with self.subTest(ending, stage=stage):
                    path = xla_cases.program(f"{case['name']} {ending}", stage)
                    status, found = difference({**case, "layers": 4}, path,
                                               "--regather", *flags)
                    self.assertEqual((status, found["extra"]), (0, []))
                    (one,) = found["missing"]
                    self.assertEqual(
                        (one["collective"], one["times"], one["what"]),
                        ("all_gather", 1, "d:linear head of model"))
                    self.assertIn("--keep-gathered", one["reason"])

    def test_stacked_trees_are_sent_as_the_step_predicts(self):
        """A loop over stacked layers gathers their weights again for the
        backward pass, and keys and values where tokens are sharded; the head
        is outside of the loop and stays gathered."""
        for case in xla_cases.STACKED:
            with self.subTest(case=case["name"]):
                path = xla_cases.program(case["name"], ".after_spmd")
                found = difference(case, path, "--regather")[1]
                differ = [one for one in found["routes"]
                          if one["status"] != "equal"]
                self.assertGreaterEqual(len(found["routes"]), 3)
                self.assertEqual([one["collective"] for one in differ],
                                 ["all_gather"])
                (one,) = differ
                attended = [0, 4][case["mesh"].get("sp", 1) > 1]
                self.assertEqual(one["times"] - one["planned_times"],
                                 attended - 1)

    def test_the_record_is_of_these_cases(self):
        self.assertEqual(
            xla_cases.CASES,
            [{key: value for key, value in case.items() if key not in
              ("partitioned", "rewritten", "computed")}
             for case in RECORD["cases"]])
        self.assertEqual(
            (RECORD["sizes"], RECORD["tokens"]),
            (xla_cases.SIZES, {use: list(sides) for use, sides in
                               xla_cases.TOKENS.items()}))

    def test_a_byte_more_would_be_seen(self):
        case = RECORD["cases"][0]
        theirs = without_numbers(by_collective(case["rewritten"]))
        key = next(iter(theirs))
        theirs[key] = (theirs[key][0], theirs[key][1] + 1)
        self.assertNotEqual(without_numbers(ours(case)), theirs)

    def test_the_page_has_what_the_record_has(self):
        page = the_page()
        self.assertEqual(page.made(), page.read(),
                         "tests/runtimes/xla_test.py --write writes it")


def rows(case):
    mine = ours(case)
    stands = by_collective(case["partitioned"])
    rewritten = by_collective(case["rewritten"])
    for key in sorted(set(mine) | set(stands) | set(rewritten)):
        if key[0] == NUMBER:
            continue
        yield (key[0], key[1] or "-", cell(stands.get(key)),
               rules_of(case, key), cell(rewritten.get(key)), cell(mine.get(key)))
    yield ("total", "", *(cell(total(without_numbers(part))) if part is not
                          None else "" for part in (stands, None, rewritten,
                                                    mine)))


def table():
    used = ", ".join(f"{package} {version}" for package, version in
                     RECORD["versions"].items())
    out = [f"Compiled with {used}.\n"]
    for case in RECORD["cases"]:
        devices = 1
        for n in case["mesh"].values():
            devices *= n
        out.append(f"\n**{case['name']}** ({devices} devices)\n\n"
                   "| collective | axes | XLA | bytes | rules | after | bytes "
                   "| shardc | bytes |\n"
                   "| --- | --- | --: | --: | --- | --: | --: | --: | --: |\n")
        for row in rows(case):
            out.append("| " + " | ".join(row) + " |\n")
    return "".join(out)


def the_page():
    return page_tables.Page(
        os.path.join(records.ROOT, "docs", "compiler.md"), table=table)


if __name__ == "__main__":
    the_page().main()
