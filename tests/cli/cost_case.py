"""`shardc cost --format json` of Llama 3 8B, checked against its schema."""

import os

from described import DescribedCase
from driver import MODELS, TESTDATA, run

LLAMA = ["--manifest", os.path.join(MODELS, "llama-3-8b.hf.manifest.json"),
         "--model", os.path.join(TESTDATA, "configs",
                                 "llama-3-8b.config.json"),
         "--rules", "auto", "--no-project"]
TRAIN = ["--batch", "64", "--seq", "2048"]
SERVE = ["--batch", "64", "--kv-len", "8192"]


class CostCase(DescribedCase):
    SCHEMA = "cost"

    def cost(self, *arguments, rc=0, inputs=(*LLAMA, "--mesh", "fsdp:8,tp:4")):
        return self.described(run("cost", *inputs, *arguments, "--format",
                                  "json"), rc)
