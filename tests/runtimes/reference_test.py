"""The reference's functions at their edges, as the recorded packages answered,
and docs/parity.md, which has a row for every public name."""

import os
import re
import subprocess
import unittest

import records
import reference_cases

# Where the names of each module are listed: the headings of sections.
MANAGER = "`eformer.escale.partition.manager`"
SECTIONS = {
    "eformer.escale": ("`eformer.escale`: meshes, matching and correction",
                       MANAGER),
    "eformer.common_types": ("`eformer.common_types`",),
    "eformer.escale.partition.manager": (MANAGER,),
    "easydel.operations._operation_meta": ("EasyDeL and fjformer",),
    "fjformer.partition_utils.mesh_utils": ("EasyDeL and fjformer",),
    "easydel.modules.flax_modelling_utils": ("EasyDeL and fjformer",),
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
        table = set().union(*(tables[title] for title in SECTIONS[module]))
        out += [(module, name) for name in of_module
                if name not in table and not (
                    "." in name and name.split(".")[0] in table and
                    name.split(".")[1] in table)]
    return out


def words_of_rows():
    """What is in backticks in the second column of the tables of names."""
    with open(os.path.join(records.ROOT, "docs", "parity.md"),
              encoding="utf-8") as file:
        tables = file.read().split("## Where the answers differ")[0]
    return [text for row in re.findall(r"^\| .*? \| (.*) \|$", tables, re.M)
            for text in re.findall(r"`([^`]+)`", row)]


COMMANDS = {"check", "checkpoint", "cost", "diff", "eval", "export", "import",
            "plan", "resolve", "show", "suggest", "verify"}


def run(*words):
    return subprocess.run([reference_cases.BIN, *words], check=True,
                          capture_output=True, encoding="utf-8").stdout


class Reference(unittest.TestCase):
    def test_every_public_name_has_a_row(self):
        names = records.load("reference/names")["modules"]
        self.assertEqual(set(names), set(SECTIONS))
        self.assertGreater(min(map(len, names.values())), 10)
        self.assertEqual(missing(names), [])
        names["eformer.common_types"] = ["NEW"]
        self.assertEqual(missing(names), [("eformer.common_types", "NEW")])

    def test_every_command_of_a_row_is_one(self):
        """With its options, and of `eval` with the members of the input."""
        inputs = dict(line.split(": ", 1) for line in run("eval").splitlines())
        found = 0
        for text in words_of_rows():
            words = text.split()
            if words[0] not in COMMANDS:
                continue
            found += 1
            if words[0] == "eval" and words[1:]:
                self.assertIn(words[1], inputs)
                continue
            manual = run(*(words[:2] if words[0] in ("show", "checkpoint")
                           or words[1:] in (["step"], ["attention"])
                           else words[:1]),
                         "--help")
            for word in words[1:]:
                if word.startswith("-"):
                    self.assertRegex(manual, re.escape(word) + r"\b", text)
        self.assertGreater(found, 50)

    def test_edges_are_as_the_packages_answer(self):
        wrong, counts = reference_cases.differences(
            records.load("reference/edges")["cases"])
        self.assertEqual(wrong[:5], [], len(wrong))
        self.assertTrue(all(asked > refused for asked, refused in
                            counts.values()), counts)


if __name__ == "__main__":
    unittest.main()
