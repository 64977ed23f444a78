"""Models and a test case for tests of `shardc verify step`."""

import os

from described import DescribedCase
from driver import TESTDATA, run

MODELS = os.path.join(TESTDATA, "models")
CONFIGS = os.path.join(TESTDATA, "configs")


def inputs(model, config, naming="hf", ending=""):
    return ("--rules", "auto", "--manifest",
            os.path.join(MODELS, f"{model}.{naming}.manifest.json{ending}"),
            "--model", os.path.join(CONFIGS, f"{config}.config.json"))


LLAMA = inputs("llama-3-8b", "llama-3-8b")
MIXTRAL = inputs("mixtral-8x7b", "mixtral-8x7b", ending=".gz")
GPT2 = inputs("gpt2-xl", "gpt2-xl", ending=".gz")
GEMMA = inputs("gemma-2-9b", "gemma-2-9b", ending=".gz")


class StepCase(DescribedCase):
    SCHEMA = "step"

    def steps(self, *args, rc=0):
        return self.described(run("verify", "step", "--no-project", *args,
                                  "--format", "json"), rc)["steps"]
