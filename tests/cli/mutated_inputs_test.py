"""Every kind of input, changed with its structure in mind, in the commands that read it.

Members of YAML and JSON are replaced, removed, moved and repeated, numbers grow and
change their sign, names refer to other names of the file, words of expressions and
lines of texts are exchanged; some bytes change too. No run may end by a signal, take
10 s of processor time or 500 MB, or end otherwise than with status 0 or 1, or with
status 2 and a diagnostic.

    SHARDC_MUTATED_RUNS=50000 SHARDC_MUTATED_SEED=7 mutated_inputs_test.py

prints the counts; an ordinary run is a sample."""

import copy
import glob
import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml
from driver import BIN, ROOT, TESTDATA, is_sanitized

RUNS = int(os.environ.get("SHARDC_MUTATED_RUNS", "150"))
SEED = int(os.environ.get("SHARDC_MUTATED_SEED", "1"))
MOST_SECONDS, MOST_KB = 10, 500_000

ODD = [None, True, False, 0, 1, -1, 2, 3, 7, 64, 2**20, 2**31, 2**40, 2**62, 2**63,
       2**64, 10**30, 0.5, -1.5, 1e300, "", "x", "4", "-1", "0", "tp", "fsdp", ".*",
       "(", "[a-z", "\x1b[31m", "\u202e", "\0", "x" * 300, "null", "~", "&a", "*a", "!!x",
       [], [[]], [0], [1, 2], ["tp", "tp"], [[None]], {}, {"": None}, {"a": {"b": []}}]


def spots(value):
    keys = list(value) if isinstance(value, dict) else (
        range(len(value)) if isinstance(value, list) else ())
    for key in keys:
        yield value, key
        yield from spots(value[key])


def words_of(value):
    if isinstance(value, dict):
        for key, one in value.items():
            yield str(key)
            yield from words_of(one)
    elif isinstance(value, list):
        for one in value:
            yield from words_of(one)
    elif isinstance(value, str):
        yield from re.findall(r"\w+", value)


def change_text(rng, text, words):
    """A text of which a word is another word of the file, or an operation more."""
    parts = re.findall(r"\w+|\W", text)
    if not parts or rng.random() < 0.2:
        return rng.choice(["", text + text, text * 40, text[:-1], text + "\n" + text])
    at = rng.randrange(len(parts))
    how = rng.random()
    if how < 0.5:
        parts[at] = rng.choice(words) if words else "x"
    elif how < 0.7:
        parts[at] = str(rng.choice([0, 1, -1, 2, 1000000, 2**31, 2**63, 10**20]))
    elif how < 0.9:
        parts[at:at] = [rng.choice(["+", "*", "//", "??", "(", ")", "[", "]", ",", ":",
                                    " if ", " and ", "-", ".", "'", "\\", "{", "}", "|"])]
    else:
        del parts[at]
    return "".join(parts)


def mutate_data(rng, data):
    data = copy.deepcopy(data)
    words = list(words_of(data))
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        found = list(spots(data))
        if not found:
            return data
        holder, key = rng.choice(found)
        old = holder[key]
        how = rng.random()
        if how < 0.25:
            holder[key] = copy.deepcopy(rng.choice(ODD))
        elif how < 0.33:
            del holder[key]
        elif how < 0.4 and isinstance(holder, list):
            holder[key:key] = [copy.deepcopy(old) for _ in range(rng.choice([1, 3, 50]))]
        elif how < 0.48:
            holder[key] = copy.deepcopy(rng.choice(found)[0])
        elif how < 0.55 and isinstance(holder, dict):
            holder[rng.choice(words) if words else "x"] = holder.pop(key)
        elif isinstance(old, bool) or old is None:
            holder[key] = copy.deepcopy(rng.choice(ODD))
        elif isinstance(old, int):
            holder[key] = rng.choice([-old, old + 1, old - 1, old * 2**20, old * 10**4,
                                      old * 100, 0, 2**31, 10**6, 10**5])
        elif isinstance(old, float):
            holder[key] = rng.choice([-old, old * 1e12, 0, 1e-300])
        elif isinstance(old, str):
            holder[key] = change_text(rng, old, words)
        else:
            holder[key] = rng.choice([[old], [old, old], {}, []])
    return data


def mutate_bytes(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 6])):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(4)
        if how == 0 and at < len(data):
            data[at] = rng.choice([data[at] ^ 1 << rng.randrange(8), rng.randrange(256)])
        elif how == 1:
            del data[at:at + rng.choice([1, 4, 8, 200])]
        elif how == 2:
            data[at:at] = rng.choice([b"[", b"{", b"\xff" * 8, b"\0" * 4, b"NaN", b"\n",
                                      b"1e999", data[:30], b"[" * 300, b"- " * 200])
        else:
            del data[at:]
    return bytes(data)


def mutate_lines(rng, text):
    """Lines and words of a text: of a compiled program, a schedule, a log."""
    lines = text.split("\n")
    for _ in range(rng.choice([1, 1, 2, 4])):
        i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
        how = rng.random()
        if how < 0.2:
            lines[i], lines[j] = lines[j], lines[i]
        elif how < 0.3:
            lines[i:i] = [lines[j]] * rng.choice([1, 2, 30])
        elif how < 0.4:
            del lines[i]
        else:
            parts = re.findall(r"\w+|\W", lines[i]) or [""]
            others = re.findall(r"\w+", lines[j]) or ["x"]
            at = rng.randrange(len(parts))
            number = parts[at].isdigit() and rng.random() < 0.7
            parts[at] = str(rng.choice([0, 1, 2, 7, 2**20, 2**31, 2**62, 10**19])) \
                if number else rng.choice([*others, "", "(", "}", ",", "{", "-1"])
            lines[i] = "".join(parts)
        if not lines:
            return ""
    return "\n".join(lines)


def read(*path):
    path = os.path.join(*path)
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        return file.read()


class Kind:
    """A kind of input: its seeds, how they are written, and what reads them. `{}` is the
    changed file, and names with a dot are files that are there. With `folder`, it is
    in a folder of its own, `{folder}`, which is a copy of the one that `folder` names."""

    def __init__(self, name, suffix, seeds, commands, folder=None):
        self.name, self.suffix, self.seeds, self.commands = name, suffix, seeds, commands
        self.folder = folder

    def text(self, rng):
        seed = rng.choice(self.seeds)
        if isinstance(seed, bytes):
            return mutate_bytes(rng, seed)
        if isinstance(seed, str):
            return mutate_lines(rng, seed).encode("utf-8", "replace")
        data = mutate_data(rng, seed)
        if self.suffix.endswith(".yaml"):
            text = rng.choice([
                lambda: yaml.safe_dump(data, default_flow_style=rng.random() < 0.5,
                                       allow_unicode=True, sort_keys=False),
                lambda: json.dumps(data)])()
        else:
            text = json.dumps(data)
        raw = text.encode("utf-8", "replace")
        return mutate_bytes(rng, raw) if rng.random() < 0.1 else raw


ALONE = "--no-project"
MESH = ["--mesh", "fsdp:2,tp:2"]
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
         "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 8,
         "num_key_value_heads": 4, "num_hidden_layers": 2, "rms_norm_eps": 1e-05,
         "vocab_size": 256, "tie_word_embeddings": False}


def kinds():
    configs = [LLAMA] + [json.loads(read(path)) for path in sorted(
        glob.glob(os.path.join(TESTDATA, "configs", "*.config.json")))[::6]]
    own = yaml.safe_load(read(ROOT, "families", "llama.yaml"))
    t5 = yaml.safe_load(read(ROOT, "families", "t5.yaml"))
    small = {"version": 1, "models": "Own", "namings": {"flax": "weight"},
             "let": {"d": "hidden_size", "n": "heads * 2"},
             "factors": {"hidden_size": "stream", "heads": "heads",
                         "n": "2 * heads"},
             "blocks": {"part_of(x)": {"w": "linear(d, n)", "b if x": "tensor(d)"}},
             "tree": {"layers[i < depth]": {"a": "part_of(i == 0)", "n": "norm(d)"}}}
    rules = {"version": 1, "axes": {"head": "tp"}, "bundles": {"Q": [["FSDP"], "TP"]},
             "rules": [{"match": "proj", "spec": [["fsdp"], "tp"]},
                       {"match": "(.*)_scale$", "spec": {"like": "\\1"}},
                       {"match": "norm|embed", "spec": [None], "min_size": 4},
                       {"match": ".*", "spec": "Q", "modes": {"decode": []}}],
             "policy": {"unmatched": "error"}}
    mesh = {"axes": {"dp": 2, "fsdp": -1, "tp": 2}, "devices": 8, "processes": 2,
            "slices": 2, "dcn": {"dp": 2}, "axis_types": {"tp": "explicit"}}
    manifest = {"schema": "shardc.manifest/v1", "params": [
        {"name": f"model.layers.{i}.{n}.weight", "shape": [64, 64], "dtype": "BF16"}
        for i in range(2) for n in ("q_proj", "o_proj", "norm")]}
    project = {"version": 1, "targets": {
        "one": {"mesh": "fsdp:2,tp:2", "rules": ["rules.yaml"], "model": "config.json",
                "batch": 8, "modes": ["train"], "plan": "committed.json"},
        "two": {"mesh": {"axes": {"tp": 4}}, "rules": "auto", "model": "config.json",
                "budget": {"memory": "1 GiB"}}}}
    hlo = sorted((read(path).decode() for path in glob.glob(
        os.path.join(TESTDATA, "audit", "*.hlo.txt.gz"))), key=len)[:4]
    schedule = "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n"
    programs = [json.loads(read(path)) for path in sorted(
        glob.glob(os.path.join(TESTDATA, "constraints", "*.program.json.gz")),
        key=os.path.getsize)[:5]]
    checkpoint = read(ROOT, "examples", "checkpoint", "model.safetensors")
    gguf = [read(path) for path in sorted(glob.glob(
        os.path.join(TESTDATA, "hostile", "gguf_*.gguf")))]
    torch = os.path.join(TESTDATA, "stored", "dcp_torch26")
    model = ["--model", "{}", *MESH, ALONE]
    inputs = [*MESH, "--rules", "any.yaml", ALONE]
    return [
        Kind("config", ".json", configs, [
            ["show", "manifest", ALONE, "--model", "{}"],
            ["plan", *model, "--rules", "auto"], ["check", *model, "--rules", "auto"],
            ["suggest", *model], ["cost", *model, "--rules", "auto", "--batch", "8"],
            ["cost", *model, "--rules", "auto", "--batch", "8", "--mode", "decode"],
            ["show", "memory", *model, "--rules", "auto"],
            ["explain", "model.embed_tokens.weight", *model, "--rules", "auto", "--facts"]]),
        Kind("family", "own.yaml", [own, t5, small, small], [
            ["show", "manifest", ALONE, "--model", "own.config.json", "--families",
             "{folder}"],
            ["plan", *MESH, ALONE, "--rules", "rules.yaml", "--model", "own.config.json",
             "--families", "{folder}"],
            ["suggest", *MESH, ALONE, "--model", "own.config.json", "--families",
             "{folder}"]], os.path.join(ROOT, "examples", "start", "none")),
        Kind("rules", ".yaml", [rules], [
            ["plan", *MESH, "--rules", "{}", "--model", "config.json", ALONE],
            ["check", *MESH, "--rules", "{}", "--model", "config.json", ALONE],
            ["show", "rules", "--rules", "{}", ALONE],
            ["show", "rules", "--all-names", "--rules", "{}", ALONE]]),
        Kind("mesh", ".yaml", [mesh], [
            ["show", "mesh", "--mesh", "{}", ALONE],
            ["plan", "--mesh", "{}", "--rules", "rules.yaml", "--model", "config.json",
             ALONE],
            ["cost", "--mesh", "{}", "--rules", "auto", "--model", "config.json",
             "--batch", "8", ALONE]]),
        Kind("manifest", ".json", [manifest], [
            ["plan", *MESH, "--rules", "rules.yaml", "--manifest", "{}", ALONE],
            ["suggest", *MESH, "--manifest", "{}", "--force", ALONE],
            ["show", "manifest", "--manifest", "{}", ALONE],
            ["cost", *MESH, "--rules", "rules.yaml", "--manifest", "{}", ALONE]]),
        Kind("project", ".yaml", [project], [
            ["check", "--project", "{}"],
            ["plan", "--project", "{}", "--target", "one"],
            ["cost", "--project", "{}", "--target", "one"], ["check", "--locked", "--project", "{}"]]),
        Kind("plan", ".json", ["plan"], [
            ["show", "memory", "--plan", "{}", "--allow-edited"], ["cost", "--plan", "{}", "--allow-edited", ALONE],
            ["diff", "{}", "plan.json", "--allow-edited", ALONE],
            ["report", "--plan", "{}", "--allow-edited", ALONE, "-o", "/dev/null"],
            ["export", "jax", "--plan", "{}", "--allow-edited", ALONE],
            ["kv", "--from", "{}", "--to", "plan.json", "--allow-edited", "--tokens",
             "4096", "--page", "16"]]),
        Kind("program", ".json", programs, [
            ["cost", *inputs, "--program", "{}"], ["check", *inputs, "--program", "{}"],
            ["suggest", *MESH, "--program", "{}", ALONE]]),
        Kind("compiled", ".hlo.txt", hlo, [
            ["audit", "{}", "--mesh", "dp:2,fsdp:2,tp:2"], ["audit", "{}"]]),
        Kind("schedule", ".csv", [schedule], [
            ["schedule", "{}"], ["schedule", "{}", "--format", "json"],
            ["schedule", "{}", "--picture"]]),
        Kind("safetensors", ".safetensors", [checkpoint], [
            ["show", "manifest", "--manifest", "{}", ALONE], ["checkpoint", "list", "{}"]]),
        Kind("gguf", ".gguf", gguf, [["show", "manifest", "--manifest", "{}", ALONE]]),
        Kind("metadata", ".metadata", [read(torch, ".metadata")], [
            ["checkpoint", "list", "{folder}"],
            ["show", "manifest", "--manifest", "{folder}", ALONE]], torch),
    ]


@unittest.skipIf(is_sanitized(), "the sanitizers need more time and memory")
class Mutated(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        for name, data in (
                ("config.json", LLAMA),
                ("own.config.json", {"model_type": "own", "hidden_size": 64, "heads": 8,
                                     "depth": 2, **{k: v for k, v in LLAMA.items()
                                                    if k not in ("model_type",
                                                                 "architectures",
                                                                 "hidden_size")},
                                     "d_model": 64, "d_kv": 8, "d_ff": 128,
                                     "num_layers": 2, "num_heads": 8}),
                ("rules.yaml", {"version": 1, "rules": [
                    {"match": "proj", "spec": ["fsdp", "tp"]},
                    {"match": ".*", "spec": []}]}),
                ("any.yaml", {"version": 1, "rules": [
                    {"match": ".*", "spec": ["tp"], "illegal": "drop"}]})):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                json.dump(data, file)
        done = self.run_one(["plan", *MESH, "--rules", "rules.yaml", "--model",
                             "config.json", ALONE, "-q", "-o", "plan.json"])
        self.assertEqual(done[0], 0, done)

    def run_one(self, arguments):
        """The status, seconds of the processor, greatest memory in KB and messages."""
        with tempfile.TemporaryFile() as said:
            child = subprocess.Popen([BIN, *arguments], cwd=self.folder,
                                     stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=said)
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            text = said.read().decode("utf-8", "replace")
        return (child.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss, text)

    def test_changed_inputs_are_read_or_refused(self):
        rng = random.Random(SEED)
        all_kinds = kinds()
        for kind in all_kinds:
            if kind.name == "plan":
                kind.seeds = [json.loads(read(self.folder, "plan.json"))]
        counts, longest, largest = {}, 0, 0
        for run in range(RUNS):
            kind = all_kinds[run % len(all_kinds)]
            data = kind.text(rng)
            name = os.path.join("changed", kind.suffix) if kind.folder \
                else "changed" + kind.suffix
            if kind.folder:
                shutil.rmtree(os.path.join(self.folder, "changed"), ignore_errors=True)
                os.mkdir(os.path.join(self.folder, "changed"))
                for path in glob.glob(os.path.join(kind.folder, "[_a-z]*")):
                    shutil.copy(path, os.path.join(self.folder, "changed"))
            with open(os.path.join(self.folder, name), "wb") as file:
                file.write(data)
            command = [word.replace("{folder}", "changed").replace("{}", name)
                       for word in rng.choice(kind.commands)]
            status, seconds, memory, text = self.run_one(command)
            longest, largest = max(longest, seconds), max(largest, memory)
            key = f"{kind.name} {status}"
            counts[key] = counts.get(key, 0) + 1
            good = (status in (0, 1) or status == 2 and "error" in text) \
                and seconds < MOST_SECONDS and memory < MOST_KB
            if not good:
                kept = tempfile.mkdtemp(prefix="shardc_mutated_")
                with open(os.path.join(kept, os.path.basename(name)), "wb") as file:
                    file.write(data)
                self.fail(f"{' '.join(command)}: status {status}, {seconds:.1f} s,"
                          f" {memory} KB\n{text[-1500:]}\nthe input is in {kept}")
        if "SHARDC_MUTATED_RUNS" in os.environ:
            print(f"{RUNS} runs: {counts}\nlongest {longest:.2f} s, largest"
                  f" {largest / 1000:.0f} MB", file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
