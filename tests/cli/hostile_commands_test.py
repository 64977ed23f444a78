"""Every command is given every hostile file in every option that takes a file.

Each run ends with exit status 0, 1 or 2 within a gibibyte of address space and
ten seconds of processor time; exit status 2 has an error with a place, and no
output file. A sample runs with the other tests; SHARDC_EVERY=1 runs all.
"""

import json
import os
import random
import re
import resource
import shutil
import subprocess
import tempfile
import unittest

from driver import BIN, INTERNAL, MODELS, ROOT, TESTDATA, is_sanitized, one_in

EVERY = one_in(60)
MEMORY = 1 << 30  # bytes of address space
SECONDS = 10      # of processor time
PLACE = re.compile(r"--> |\"file\": \"")

MANIFEST = os.path.join(MODELS, "llama-3-8b.hf.manifest.json")
MODEL = os.path.join(TESTDATA, "configs", "llama-3-8b.config.json")
# {F} is the hostile file, {D} its folder, {P} a plan, {O} where results go.
MESH, RULES = "--mesh fsdp:2,tp:2", "--rules builtin:llama"
TREE, CONFIG = f"--manifest {MANIFEST}", f"--model {MODEL}"
INPUTS = {"--mesh": MESH, "--rules": RULES, "--manifest": TREE,
          "--model": CONFIG}
AUDITED = os.path.join(TESTDATA, "audit", "tpu.hlo.txt.gz")
PROGRAM = os.path.join(TESTDATA, "regions", "mlp.program.json.gz")
# The command with what it needs apart from its inputs, and which inputs it takes.
COMMANDS = {
    "plan": ("plan -o {O}/plan.json", "mesh rules manifest model"),
    "check": ("check", "mesh rules manifest model"),
    "explain": ("explain model.norm.weight", "mesh rules manifest model"),
    "resolve": ("resolve [BATCH,_]", "mesh rules"),
    "resolve attention": ("resolve attention", "mesh rules"),
    "verify": ("verify --operation vanilla", "mesh rules manifest model"),
    "verify step": ("verify step --mode decode", "mesh rules manifest model"),
    "show mesh": ("show mesh", "mesh rules"),
    "show manifest": ("show manifest", "manifest model"),
    "show rules": ("show rules", "rules"),
    "cost": ("cost -o {O}/cost", "mesh rules manifest model"),
    "search --all": ("search --all --devices 4 --profile h100-sxm -o {O}/fit",
            "rules manifest model"),
    "search": ("search --devices 4 --profile h100-sxm --prove 0",
               "rules manifest model"),
    "show": ("show memory", "mesh rules manifest model"),
    "report": ("report -o {O}/report.html", "mesh rules manifest model"),
    "suggest": ("suggest -o {O}/rules.yaml", "mesh manifest model"),
    "export": ("export jax -o {O}/export", "mesh rules manifest model"),
}
OTHERS = [
    "plan --project {F}", "check --project {F}", "explain x --project {F}",
    "resolve [BATCH] --project {F}", "resolve attention --project {F}",
    "verify --project {F}", "verify step --mode train --project {F}",
    "show mesh --project {F}", "show manifest --project {F}", "show rules --project {F}",
    "cost --project {F} -o {O}/cost", "show layout --project {F}",
    "search --all --devices 4 --profile h100-sxm --project {F} -o {O}/fit",
    "audit {F} -o {O}/a", f"audit {AUDITED} --mesh {{F}} -o {{O}}/a",
    f"audit {AUDITED} --plan {{F}} -o {{O}}/a",
    f"audit {AUDITED} --against {{F}} -o {{O}}/a",
    f"audit {AUDITED} {MESH} --step {{F}} -o {{O}}/a",
    "explain --program {F}", "explain --facts --model {F}",
    f"explain model.norm.weight {MESH} {RULES} {TREE} --compiled {{F}}",
    f"check {MESH} {RULES} {TREE} --program {{F}}",
    f"suggest {MESH} --program {{F}} -o {{O}}/rules.yaml",
    f"verify step {MESH} {RULES} --program {{F}}",
    "verify step --plan {P} --program {F} --reference {F}",
    f"cost {MESH} {RULES} --program {{F}} -o {{O}}/c",
    "cost --plan {P} --program {F} -o {O}/c",
    f"cost --plan {{F}} --program {PROGRAM} -o {{O}}/c",
    f"search --devices 4 {RULES} --program {{F}}",
    f"audit {AUDITED} --plan {{P}} --program {{F}} -o {{O}}/a",
    f"verify step --plan {{F}} --program {PROGRAM}",
    f"export torch-pipeline --mesh pp:2 {RULES} {TREE} {CONFIG} --stages pp "
    "--schedule {F} -o {O}/e",
    f"cost --mesh pp:2 {RULES} {TREE} {CONFIG} --stages pp --schedule {{F}}",
    f"search --all --devices 4 --profile h100-sxm {RULES} {TREE} {CONFIG} --stages pp "
    "--batch 8 --seq 64 --schedule {F} -o {O}/fit",
    f"verify step --mode train --mesh pp:2 {RULES} {TREE} {CONFIG} --stages pp "
    "--schedule {F}",
    f"resolve [KV_HEAD] {MESH} {RULES} --model {{F}} -o {{O}}/r",
    "diff {P} --project {F} -o {O}/diff", "suggest --project {F} -o {O}/rules",
    "report --project {F} -o {O}/r", "export csv --project {F} -o {O}/e",
    f"check {MESH} {RULES} {TREE} --baseline {{F}}",
    f"search --all --mesh {{F}} --profile h100-sxm {RULES} {TREE} {CONFIG} -o {{O}}/fit",
    "search --devices 4 --profile h100-sxm --prove 0 --project {F}",
    f"search --mesh {{F}} --profile h100-sxm --prove 0 {TREE} {CONFIG}",
    f"search --devices 4 --profile {{F}} --prove 0 {TREE} {CONFIG}",
    f"search --serve --devices 4 --profile h100-sxm --engine {{F}} --isl 8 "
    f"--osl 8 --ttft 1s --tpot 1s --prove 0 {TREE} {CONFIG} -o {{O}}/s",
    "search --serve --devices 4 --profile h100-sxm --engine vllm --isl 8 --osl 8 "
    "--ttft 1s --tpot 1s --prove 0 --model {F} -o {O}/s",
    f"verify {MESH} {RULES} {CONFIG} --settings {{F}}",
    "checkpoint split --plan {P} --checkpoint {F} --output {O}/s",
    "checkpoint split --plan {P} --checkpoint {D} --output {O}/s",
    "checkpoint split --plan {F} --checkpoint {F} --output {O}/s",
    "checkpoint merge {F} --output {O}/m.safetensors", "checkpoint merge {D} --output {O}/m.safetensors",
    "checkpoint reshard {D} --plan {P} --output {O}/r", "checkpoint reshard {D} --plan {F} --output {O}/r",
    "diff {F} {P} -o {O}/d", "diff {P} {F} -o {O}/d",
    "kv --from {F} --to {P} -o {O}/k", "kv --from {P} --to {F} -o {O}/k",
    "kv --from {P} --to {P} --model {F} -o {O}/k",
    "verify kv --from {F} --to {P} -o {O}/k", "verify kv --from {P} --to {F} -o {O}/k",
    "verify kv --from {P} --to {P} --model {F} -o {O}/k",
    f"diff {{P}} --mesh {{F}} {RULES} {TREE} -o {{O}}/d",
    f"diff {{P}} {MESH} --rules {{F}} {TREE} -o {{O}}/d",
    f"diff {{P}} {MESH} {RULES} --manifest {{F}} -o {{O}}/d",
    f"diff {{P}} {MESH} {RULES} {TREE} --model {{F}} -o {{O}}/d",
    "cost --plan {F} -o {O}/c", "show layout --plan {F}",
    "show mesh --plan {F}", "show rules --plan {F}", "checkpoint list {F}",
    f"show rules --mesh {{F}} {RULES} {TREE}",
    f"show rules {MESH} {RULES} --manifest {{F}}",
    f"show rules {MESH} {RULES} {TREE} --model {{F}}",
    "cost --plan {P} --profile {F} -o {O}/c",
    f"cost --plan {{P}} {CONFIG} --mode decode --profile h100-sxm --engine {{F}} "
    "--slots 4 --isl 8 --osl 8 -o {O}/c",
    f"search --all --devices 4 --profile {{F}} {RULES} {TREE} {CONFIG} -o {{O}}/fit",
    "calibrate --profile h100-sxm --run {F} -o {O}/p.yaml",
    "show memory --plan {P} --profile {F}",
    "report --plan {P} --profile {F} -o {O}/r",
    f"audit {AUDITED} {MESH} --profile {{F}} -o {{O}}/a",
    "report --plan {F} -o {O}/r", "report --plan {P} --base {F} -o {O}/r",
    "report --plan {P} --verified {F} -o {O}/r",
    "report --plan {P} --compiled {F} -o {O}/r",
    f"report --plan {{P}} --compiled {AUDITED} --step {{F}} -o {{O}}/r",
    "export csv --plan {F}",
    f"export hf-tp-plan {MESH} --program {{F}} -o {{O}}/e",
    f"export constraints {MESH} --rules builtin:llama --program {{F}} -o {{O}}/e",
    f"export eformer {MESH} {RULES} {TREE} --names {{F}} -o {{O}}/e",
    "init {F} --devices 4", "init {D} --devices 4",
    f"init {MANIFEST} --model {{F}} --devices 4",
    f"init {MANIFEST} --mesh {{F}}",
    f"import gguf {{F}} --mesh {{F}} -o {{O}}/i",
    f"import shardy {{F}} --manifest {{F}} -o {{O}}/i",
    "import vllm {F} -o {O}/i --mesh-output {O}/m --manifest-output {O}/n",
    "import vllm testdata/systems/vllm-tp4/serve.sh --model {F} -o {O}/i",
    "import vllm testdata/systems/vllm-tp4/serve.sh --manifest {F} -o {O}/i",
    "show config {F} --system megatron -o {O}/i",
    "show config testdata/systems/vllm-tp4/serve.sh --model {F} -o {O}/i",
    "show config testdata/systems/vllm-tp4/serve.sh --manifest {F} -o {O}/i",
    "import eformer {F} --names {F} -o {O}/i",
    "import hlo {F} -o {O}/i", "import hf-tp-plan {F} -o {O}/i",
    "import maxtext {F} -o {O}/i",
    "eval get_safe_hash_int --input {F}",
    "eval get_safe_hash_int --input {F} --tensors {F}",
]
# Files that are written, and an option of files of another kind.
OUTPUTS = {"--output", "--output", "--write-baseline", "--dump", "--mesh-output",
           "--save", "--manifest-output", "--project-output"}


def templates():
    out = list(OTHERS)
    for command, inputs in COMMANDS.values():
        names = ["--" + name for name in inputs.split()]
        for hostile in names:
            rest = [INPUTS[name] for name in names if name != hostile]
            out.append(" ".join([command, hostile, "{F}", *rest]))
    return out


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


@unittest.skipIf(is_sanitized(), "a sanitizer has its own memory")
class HostileCommands(unittest.TestCase):
    def test_every_option_that_takes_a_file_is_given_one(self):
        with open(os.path.join(ROOT, "man", "commands.json"),
                  encoding="utf-8") as file:
            commands = json.load(file)
        missing = []
        for command in commands:
            own = [line.split() for line in templates()
                   if line.startswith(command["name"] + " ")]
            for option in command["options"]:
                value = option.get("value") or ""
                if (option["name"] in OUTPUTS or option["name"][0] != "-"
                        or not re.search("FILE|PATH", value)):
                    continue
                if not any("{F}" in words[words.index(option["name"]) + 1]
                           for words in own if option["name"] in words):
                    missing.append((command["name"], option["name"]))
        self.assertEqual(missing, [])

    def test_no_run_crashes_hangs_or_needs_a_gibibyte(self):
        with tempfile.TemporaryDirectory() as folder:
            hostile = os.path.join(folder, "hostile")
            shutil.copytree(os.path.join(TESTDATA, "hostile"), hostile)
            with open(os.path.join(hostile, "LINKS.json"),
                      encoding="utf-8") as file:
                for link in json.load(file):
                    path = os.path.join(hostile, link["path"])
                    if not os.path.lexists(path):
                        os.symlink(link["target"], path)
            files = sorted(os.path.join(top, name)
                           for top, _, names in os.walk(hostile)
                           for name in names)
            plan = os.path.join(folder, "plan.json")
            self.run_words(["plan", *MESH.split(), *RULES.split(),
                            *TREE.split(), "-o", plan], folder)
            pairs = [(line, path) for line in templates() for path in files]
            if EVERY > 1:
                pairs = random.Random(1).sample(pairs, len(pairs) // EVERY)
            self.assertGreater(len(pairs), 300)
            wrong = []
            statuses = {}
            for number, (line, path) in enumerate(pairs):
                out = os.path.join(folder, "out")
                os.makedirs(out)
                for fill in (("{F}", path), ("{D}", os.path.dirname(path)),
                             ("{P}", plan), ("{O}", out)):
                    line = line.replace(*fill)
                status, problem = self.run_words(line.split(" "), out)
                statuses[status] = statuses.get(status, 0) + 1
                if not problem and status == 2 and os.listdir(out):
                    problem = f"{os.listdir(out)} written"
                if problem:
                    wrong.append((problem, line.replace(hostile, "hostile")))
                shutil.rmtree(out)
            if EVERY == 1:
                peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
                print(f"{len(pairs)} runs; exit statuses {statuses}; at most "
                      f"{peak >> 10} MiB resident")
            self.assertEqual(wrong[:20], [], f"{len(wrong)} of {len(pairs)}")

    def run_words(self, words, folder):
        """The exit status of a run, and what is wrong with it."""
        try:
            done = subprocess.run([BIN, *words], cwd=folder, input=b"",
                                  capture_output=True, timeout=600,
                                  preexec_fn=limit)
        except subprocess.TimeoutExpired:
            return None, "no end"
        text = (done.stdout + done.stderr).decode("utf-8", "replace")
        if done.returncode not in (0, 1, 2):
            return done.returncode, f"exit status {done.returncode}"
        if "out of memory" in text or "not enough memory" in text:
            return done.returncode, "out of memory"
        if done.returncode == 2 and not PLACE.search(text):
            return 2, "an error without a place: " + text[:300]
        word = INTERNAL.search(text)
        if word and "hostile" not in word.group():
            return done.returncode, f"`{word.group()}` is printed"
        return done.returncode, ""


if __name__ == "__main__":
    unittest.main()
