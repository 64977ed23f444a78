"""Names that number their layers as `layers_0`, `Block_0`, `h_0` or
`['layers'][0]` are folded in every command as `layers.0` is."""

import html
import json
import os
import re
import unittest

from check_case import Folder
from driver import TESTDATA

REPORTS = os.path.join(TESTDATA, "reports", "layers_0")
FOLDED = {
    "n_block": "decoder_block_*/mlp/up/kernel",
    "n_br": "['layers'][*]['up']",
    "n_h": "h_*/mlp/up/kernel",
    "n_t5x": "decoder/layers_*/mlp/up/kernel",
    "n_us": "layers_*/mlp/up/kernel",
}


class LayerNames(Folder):
    def each(self):
        return [(os.path.join(REPORTS, name + ".json"), folded)
                for name, folded in FOLDED.items()]

    def test_manifests_and_summaries_have_one_line_for_all_layers(self):
        self.write("r.yaml", "version: 1\nrules:\n"
                             "  - {match: 'up', spec: [null, tp]}\n")
        for manifest, folded in self.each():
            shown = self.check(self.shardc(
                "show", "manifest", "--manifest", manifest), 0)
            self.assertIn(f"     12  {folded}  [64, 64] BF16\n", shown.out)
            inputs = ("--no-project", "--mesh", "tp:2", "--rules", "r.yaml",
                      "--manifest", manifest)
            self.check(self.shardc("plan", *inputs, "-o",
                                   self.path("p.json")), 0)
            drawn = self.check(self.shardc("report", "--plan", "p.json"), 0)
            text = html.unescape(re.sub("<[^>]*>", "", drawn.out))
            self.assertIn(folded.replace("*", "{0..11}"), text)

    def test_findings_name_all_layers(self):
        self.write("r.yaml", "version: 1\nrules: []\n")
        for manifest, folded in self.each():
            found = self.check(self.shardc(
                "check", "--no-project", "--mesh", "tp:2", "--rules",
                "r.yaml", "--manifest", manifest, "--select", "SHD104"), 1)
            self.assertIn(f"no rule matches `{folded}` (12 parameters)",
                          found.err + found.out)

    def test_suggested_patterns_match_all_layers(self):
        for manifest, _ in self.each():
            rules = self.check(self.shardc(
                "suggest", "--mesh", "tp:2", "--manifest", manifest), 0).out
            self.assertEqual(rules.count("- match:"), 1)
            self.assertNotIn("11", rules)

    def test_stages_divide_the_layers(self):
        self.write("r.yaml", "version: 1\nstages: {axis: pp}\nrules:\n"
                             "  - {match: 'up', spec: [null, tp]}\n")
        for manifest, _ in self.each():
            self.check(self.shardc(
                "plan", "--no-project", "--mesh", "pp:4,tp:2", "--rules",
                "r.yaml", "--manifest", manifest, "-o", self.path("p.json")),
                       0)
            with open(self.path("p.json"), encoding="utf-8") as file:
                stages = json.load(file)["stages"]["of"]
            self.assertEqual([stage["layers"] for stage in stages],
                             [[0, 3], [3, 6], [6, 9], [9, 12]])

    def test_parts_of_a_layer_stay_apart(self):
        names = ["h_{}/wi_0/kernel", "h_{}/wi_1/kernel", "h_{}/ln_1/scale",
                 "h_{}/ln_2/scale", "h_{}/attention_block_0/q/kernel",
                 "h_{}/attention_block_1/q/kernel"]
        self.write("m.json", json.dumps({
            "schema": "shardc.manifest/v1", "params": [
                {"name": name.format(i), "shape": [64, 64], "dtype": "BF16"}
                for i in range(3) for name in names]}))
        shown = self.check(self.shardc(
            "show", "manifest", "--manifest", "m.json"), 0).out
        for name in names:
            self.assertIn(f"      3  {name.format('*')}  ", shown)


if __name__ == "__main__":
    unittest.main()
