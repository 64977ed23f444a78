"""The reference's functions at their edges, as the recorded packages answered,
and docs/parity.md, which has a row for every public name."""

import os
import re
import unittest

import records
import reference_cases

# Where the names of each module are listed: the heading of a section.
SECTIONS = {
    "eformer.common_types": "`eformer.common_types`",
    "eformer.escale.partition.manager": "`eformer.escale.partition.manager`",
    "easydel.operations._operation_meta": "EasyDeL and fjformer",
    "fjformer.partition_utils.mesh_utils": "EasyDeL and fjformer",
    "easydel.modules.flax_modelling_utils": "EasyDeL and fjformer",
}


def listed():
    """By section, what is in backticks in the first column of its table."""
    with open(os.path.join(records.ROOT, "docs", "parity.md"),
              encoding="utf-8") as file:
        parts = re.split(r"^### (.*)$", file.read(), flags=re.M)
    return {title: {name for row in re.findall(r"^\| (.*?) \|", text, re.M)
                    for name in re.findall(r"`([\w.]+)`", row)}
            for title, text in zip(parts[1::2], parts[2::2])}


def missing(names):
    """The names that no row lists. A member is listed as `Class.member`, or as
    `member` where the class is listed."""
    tables, out = listed(), []
    for module, of_module in names.items():
        table = tables[SECTIONS[module]]
        out += [(module, name) for name in of_module
                if name not in table and not (
                    "." in name and name.split(".")[0] in table and
                    name.split(".")[1] in table)]
    return out


class Reference(unittest.TestCase):
    def test_every_public_name_has_a_row(self):
        names = records.load("reference/names")["modules"]
        self.assertEqual(set(names), set(SECTIONS))
        self.assertEqual(missing(names), [])
        names["eformer.common_types"] = ["NEW"]
        self.assertEqual(missing(names), [("eformer.common_types", "NEW")])

    def test_edges_are_as_the_packages_answer(self):
        wrong, counts = reference_cases.differences(
            records.load("reference/edges")["cases"])
        self.assertEqual(wrong[:5], [], len(wrong))
        self.assertTrue(all(asked > refused for asked, refused in
                            counts.values()), counts)


if __name__ == "__main__":
    unittest.main()
