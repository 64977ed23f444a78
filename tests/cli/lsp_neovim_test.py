"""`shardc lsp` driven by Neovim with the snippet of editors/neovim; skipped
where there is no `nvim`."""

import json
import os
import shutil
import subprocess
import sys
import unittest

import driver
from lsp_files import RULES, Files

HERE = os.path.dirname(os.path.abspath(__file__))


class Neovim(Files):
    def test_a_session(self):
        result = os.path.join(self.folder, "result.json")
        done = subprocess.run(
            ["nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "-c",
             "luafile " + os.path.join(HERE, "lsp_neovim.lua")],
            cwd=self.folder, timeout=240, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            env={**os.environ, "SHARDC_BIN": driver.BIN,
                 "SHARDC_RESULT": result, "HOME": self.folder,
                 "XDG_STATE_HOME": self.folder, "XDG_CACHE_HOME": self.folder,
                 "SHARDC_SNIPPET": os.path.join(driver.ROOT, "editors",
                                                "neovim")})
        self.assertTrue(os.path.exists(result), done.stdout)
        with open(result, encoding="utf-8") as file:
            told = json.load(file)
        self.assertNotIn("error", told, told)
        steps = told["steps"]
        self.assertEqual(steps["debounce"], 0)
        self.assertEqual(steps["typed"], ["SHD028"])
        self.assertEqual(steps["place"], ["VOCBA"])
        self.assertEqual(steps["action"], "Replace by `VOCAB`")
        self.assertEqual("\n".join(steps["mended"]) + "\n", RULES)
        self.assertIn("4 parameters", steps["hover"])
        self.assertEqual(steps["definition"],
                         RULES.split("\n").index("  COLUMN: [FSDP, TP]"))
        self.assertIn("WIDE", steps["completion"])
        self.assertEqual(steps["symbols"], ["version", "extends", "bundles",
                                            "register", "rules"])
        self.assertEqual(steps["hover_again"], steps["hover"])
        self.assertTrue(steps["ended"])


if __name__ == "__main__":
    if shutil.which("nvim") is None:
        print("skipped: there is no nvim")
        sys.exit(77)
    unittest.main()
