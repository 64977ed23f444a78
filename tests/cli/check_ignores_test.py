"""`shardc check`: comments in rules files that ignore findings."""

import unittest

from check_case import RULES, Folder
from driver import run


class Ignores(Folder):
    def ignore(self, line, comment, alone):
        lines = RULES.split("\n")
        at = next(i for i, text in enumerate(lines) if line in text)
        if alone:
            lines.insert(at, "  " + comment)
        else:
            lines[at] += " " + comment
        self.write("r.yaml", "\n".join(lines))

    def test_on_the_line_and_above(self):
        for alone in (True, False):
            self.ignore("w_qkv", "# shardc: ignore[SHD105] next model", alone)
            result = self.lint("--format", "json")
            self.assertEqual(sorted(f["code"] for f in result.json()),
                             ["SHD107", "SHD109"])
            self.assertIn("1 ignored by comments", result.err)

    def test_names_and_lists(self):
        self.ignore("w_qkv", "# shardc: ignore[dead-rule, SHD106] x", True)
        result = self.lint("--format", "json").json()
        self.assertEqual(sorted(f["code"] for f in result),
                         ["SHD107", "SHD109", "SHD190"])
        unused = next(f for f in result if f["code"] == "SHD190")
        self.assertIn("`SHD106`", unused["message"])

    def test_unused_and_unknown(self):
        self.ignore("narrow/", "# shardc: ignore[SHD105]", True)
        self.assertIn("SHD190", self.codes())
        # A lint that did not run finds nothing.
        self.assertNotIn("SHD190", self.codes("--ignore", "SHD105"))
        self.ignore("narrow/", "# shardc: ignore[no-such-lint]", True)
        found = self.lint("--format", "json").json()
        self.assertTrue(any("no-such-lint" in f["message"] for f in found))

    def test_what_cannot_be_read_is_reported(self):
        for comment in ("#shardc: ignore[SHD105]", "# shardc:ignore[SHD105]",
                        "# shardc: ignore SHD105", "# shardc: ignore[SHD105",
                        "# shardc: ignore[]", "# shardc: ignore[SHD105,]",
                        "# shardc: ignore(SHD105)", "# Shardc ignore SHD105",
                        "# shardc: ignroe[SHD105]", "# shardc: noqa SHD105",
                        "# shardc: disable=dead-rule"):
            for alone in (True, False):
                with self.subTest(comment, alone=alone):
                    self.ignore("w_qkv", comment, alone)
                    found = self.lint("--format", "json").json()
                    (wrong,) = [f for f in found if f["code"] == "SHD190"]
                    self.assertIn("cannot be read", wrong["message"])
                    self.assertIn("`# shardc: ignore[CODE] reason`",
                                  wrong["help"])
                    self.assertIn("SHD105", {f["code"] for f in found})
        for comment in ("# shardc reads this from the top",
                        "# the rules of shardc: to be ignored"):
            self.ignore("w_qkv", comment, True)
            self.assertNotIn("SHD190", self.codes(), comment)

    def test_a_mark_in_a_string_is_text(self):
        self.write("r.yaml", RULES.replace(
            'note: "narrow"', 'note: "see # shardc: ignore[SHD105]"'))
        self.assertNotIn("SHD190", self.codes())

    def write_rule(self, rule):
        self.write("r.yaml", "version: 1\nrules:\n- match: kernel\n"
                   f"  spec: []\n{rule}\n"
                   "policy: {unmatched: replicate}\n")

    def test_a_mark_in_a_string_of_several_lines_is_text(self):
        for note in ("|\n    # shardc: ignore[SHD105]",
                     "|\n    # shardc: ingore[SHD105]",
                     '"see\n    # shardc: ignore[SHD105]\n    "',
                     "'see\n    # shardc ignore SHD105'"):
            self.write_rule(f"  note: {note}\n- {{match: gone, spec: []}}")
            codes = self.codes()
            self.assertIn("SHD105", codes, note)
            self.assertNotIn("SHD190", codes, note)

    def test_a_mark_in_a_string_before_an_alias_is_text(self):
        self.write_rule("  modes: &m {'decode': []}\n- match: '.*'\n  spec: []\n"
                        "  note: 'see # shardc: ignore[SHD105]'\n  modes: *m")
        self.assertNotIn("SHD190", self.codes())

    def test_lines_of_many_hashes_are_read_once(self):
        """A million of them takes less than a second, and not hours."""
        gone = "- {match: gone, spec: []}  # shardc: ingore[SHD105]"
        for text in ("#" * 1000000, "# " * 500000,
                     f"  note: '{' #' * 500000}'"):
            self.write_rule(f"{text}\n{gone}")
            self.assertLessEqual({"SHD105", "SHD190"}, set(self.codes()))

    def test_a_comment_behind_a_string_of_several_lines(self):
        mark = "# shardc: ignore[SHD105] why"
        for rule in (f'- {{spec: [], note: "a\n  ", match: gone}}  {mark}',
                     f"- spec: []\n  note: 'a\n    b'\n  match: gone  {mark}",
                     f"- spec: []\n  match: |-  {mark}\n    gone"):
            self.write_rule(rule)
            self.assertFalse({"SHD105", "SHD190"} & set(self.codes()), rule)

    def test_a_quote_in_a_scalar_does_not_hide_a_comment(self):
        for rule in ("{match: gone, note: don't use, spec: []}",
                     '{match: "go\\"ne", spec: []}',
                     "{match: 'go''ne', spec: []}"):
            self.write("r.yaml", "version: 1\nrules:\n- match: kernel\n"
                       f"  spec: []\n- {rule}  # shardc: ignore[SHD105] why\n"
                       "policy: {unmatched: replicate}\n")
            self.assertFalse({"SHD105", "SHD190"} & set(self.codes()), rule)


if __name__ == "__main__":
    unittest.main()
