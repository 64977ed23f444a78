"""Evaluating meshes: `fit` of all meshes of a number of devices against as many
runs of `cost`, in processor time.
"""

import json
import os
import resource
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "testdata")
# (name, its config, devices)
CASES = [("DeepSeek-V3", "deepseek-v3", 256), ("Llama 3 8B", "llama-3-8b", 64),
         ("Mixtral 8x7B", "mixtral-8x7b", 64)]
STEP = ["--rules", "auto", "--no-project", "--batch", "256", "--seq", "4096",
        "--format", "json"]


class Suite:
    def __init__(self, build):
        self.program = os.path.join(build, "src", "cli", "shardc")

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.output = os.path.join(self.folder.name, "out.json")
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def rows(self):
        return [{"name": f"{model} on {devices} devices", "config": config,
                 "devices": devices, "against": "cost of each mesh",
                 "rate": False, "unit": "s"}
                for model, config, devices in CASES]

    def run(self, *args):
        """Processor seconds of a run, which writes to the output."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([self.program, *args, "-o", self.output],
                              stdout=subprocess.DEVNULL, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in (0, 1):
            raise RuntimeError(" ".join(args))
        return (after.ru_utime + after.ru_stime
                - before.ru_utime - before.ru_stime)

    def round(self, spec):
        model = ["--model", os.path.join(DATA, "configs",
                                         spec["config"] + ".config.json")]
        cost = self.run("cost", *model, *STEP, "--mesh",
                        f"dp:2,fsdp:{spec['devices'] // 2}")
        fit = self.run("search", "--all", *model, *STEP, "--details", "--limit", "100000",
                       "--devices", str(spec["devices"]))
        with open(self.output, encoding="utf-8") as file:
            count = len(json.load(file)["meshes"])
        return {"ours": fit, "against": count * cost, "meshes": count,
                "a_second": round(count / fit)}
