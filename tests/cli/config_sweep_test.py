"""No config.json makes a command crash, hang or need a gibibyte of memory.

Each case changes one or two fields of a real config.json, runs the commands
that read it, and wants exit status 0, 1 or 2 within ten seconds of processor
time and one GiB of memory. Exit status 2 needs an error with a place.

A sample runs with the other tests. SHARDC_SWEEP_CASES=50000 runs that many
commands, SHARDC_SWEEP_SEED chooses others, SHARDC_SWEEP_JOBS runs them in
parallel.
"""

import collections
import glob
import gzip
import json
import multiprocessing
import os
import random
import re
import resource
import subprocess
import tempfile
import unittest

from driver import BIN, INTERNAL, MODELS, TESTDATA, is_sanitized

CASES = int(os.environ.get("SHARDC_SWEEP_CASES", "120"))
SEED = int(os.environ.get("SHARDC_SWEEP_SEED", "1"))
JOBS = int(os.environ.get("SHARDC_SWEEP_JOBS", "2"))
MEMORY = 1 << 30  # bytes of address space
SECONDS = 10      # of processor time

# What a field is replaced by; a number is also negated, halved, made odd and
# scaled (`values_for`).
MISSING = "(the field is removed)"
VALUES = (0, -1, 1, 2, 3, 5, 7, 255, 10 ** 4, 10 ** 6, 2 ** 26, 2 ** 26 + 1,
          2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 40, 2 ** 53, 2 ** 53 + 1,
          9007199254740992, 2 ** 63 - 1, -2 ** 63, 2 ** 63, 2 ** 64, 10 ** 30,
          0.5, -0.5, 1e-308, 1e12, 1e18, 1e19, 1e308, -1e308, "8", "", None,
          True, False, [], [8], [8, -1, 2 ** 53], {}, {"a": 1}, MISSING)

# A line of a file, an option of the command line, or a place in JSON.
PLACE = re.compile(r'--> |`--|"line": \d')
MESHES = ("fsdp:2,tp:2", "dp:1", "fsdp:2,sp:2,tp:2", "fsdp:2,ep:2,tp:2",
          "tp:8", "dp:2,sp:4")
SIZES = (["--batch", "8", "--seq", "128"], ["--batch", "8", "--seq", "16"], [],
         ["--batch", str(2 ** 40), "--seq", str(2 ** 40)],
         ["--batch", "64", "--seq", "8192"])
CACHES = (["--batch", "8", "--kv-len", "1024"], ["--batch", "1"], [],
          ["--batch", str(2 ** 40), "--kv-len", str(2 ** 40)])


def commands(rng):
    """The arguments of each command, without its manifest and model."""
    mesh = ["--mesh", rng.choice(MESHES)]
    rules = ["--rules", "auto"]
    sizes = rng.choice(SIZES)
    cache = rng.choice(CACHES)
    decode = ["--mode", "decode", *cache]
    drawn = rng.choice((["memory", *sizes], ["memory", *decode],
                        ["kv", *cache]))
    step = [] if str(2 ** 40) in sizes else sizes  # more than it counts
    return {
        "cost": ["cost", *mesh, *rules, *rng.choice((sizes, decode))],
        "fit": ["search", "--all", "--devices", rng.choice(("4", "8")), *rules, *sizes],
        "search": ["search", "--devices", "4", "--profile", "h100-sxm",
                   "--prove", "0", *sizes],
        "report": ["report", *mesh, *rules, *sizes, "-o", os.devnull],
        "show": ["show", *drawn, *mesh, *rules],
        "check": ["check", *mesh, *rules],
        "suggest": ["suggest", "--devices", "8"],
        "verify step": ["verify", "step", *mesh, *rules, *step],
        "plan": ["plan", *mesh, *rules, "-o", os.devnull],
        "verify": ["verify", *mesh, "--operation", "sdpa"],
    }


def fields(value, path=()):
    """The paths of all fields, those of nested objects included."""
    for key, inner in value.items():
        yield path + (key,)
        if isinstance(inner, dict):
            yield from fields(inner, path + (key,))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def values_for(old):
    if isinstance(old, bool) or not isinstance(old, (int, float)):
        return VALUES
    return VALUES + (-old, old * 2, old + 1, old // 2, old // 3, old * 4 + 2)


def put(config, path, new):
    for key in path[:-1]:
        config = config[key]
        if not isinstance(config, dict):
            return
    if new is MISSING:
        config.pop(path[-1], None)
    else:
        config[path[-1]] = new


def is_size(config, path):
    old = at(config, path)
    return isinstance(old, (int, float)) and not isinstance(old, bool)


class Sweep:
    """One process's share of the cases; its children inherit the limits."""

    def __init__(self, configs):
        self.folder = tempfile.TemporaryDirectory()
        self.configs = configs
        self.manifests = {}
        self.results = collections.Counter()
        self.failures = []

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run(self, *args):
        return subprocess.run([BIN, *args], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=600, check=False)

    def built(self, config, out):
        """A manifest of the tree that the config describes, or none."""
        done = self.run("show", "manifest", "--no-project", "--model", config,
                        "--format", "json")
        self.judge("manifest", ["show", "manifest", "--model", config], done)
        if done.returncode != 0:
            return None
        with open(out, "wb") as file:
            file.write(done.stdout)
        return out

    def manifest_of(self, name, path):
        """The manifest of the unchanged config."""
        if name not in self.manifests:
            real = os.path.join(MODELS, name + ".hf.manifest.json")
            packed = real + ".gz"
            out = self.path(name + ".manifest.json")
            if os.path.exists(real) or os.path.exists(packed):
                with (open(real, "rb") if os.path.exists(real)
                      else gzip.open(packed)) as file:
                    data = file.read()
                with open(out, "wb") as file:
                    file.write(data)
                self.manifests[name] = out
            else:
                self.manifests[name] = self.built(path, out)
        return self.manifests[name]

    def judge(self, command, args, done):
        text = (done.stdout + done.stderr).decode("utf-8", "replace")
        wrong = ""
        if done.returncode not in (0, 1, 2):
            wrong = f"exit status {done.returncode}"
        elif INTERNAL.search(text):
            wrong = "an internal name is printed"
        elif "not enough memory" in text:
            wrong = "not enough memory"
        elif done.returncode == 2 and not PLACE.search(text):
            wrong = "an error without a place"
        self.results[command, done.returncode] += 1
        if wrong:
            model = next((args[i + 1] for i, word in enumerate(args)
                          if word == "--model"), None)
            config = ""
            if model:
                with open(model, encoding="utf-8") as file:
                    config = file.read()
            self.failures.append((wrong, args, config, text[-1500:]))

    def case(self, rng):
        """Runs one changed config; returns the number of commands."""
        name = rng.choice(sorted(self.configs))
        config = json.loads(self.configs[name])
        original = self.path("original.json")
        shallow = rng.random() < 0.7
        for key in ("num_hidden_layers", "n_layer", "num_layers"):
            if shallow and isinstance(config.get(key), int):
                config[key] = min(config[key], rng.choice((2, 4)))
        with open(original, "w", encoding="utf-8") as file:
            json.dump(config, file)
        plain = (self.built(original, self.path("plain.json")) if shallow
                 else self.manifest_of(name, original))
        changes = []
        paths = list(fields(config))
        sizes = [path for path in paths if is_size(config, path)]
        for _ in range(rng.choice((1, 1, 2))):
            path = rng.choice(sizes if rng.random() < 0.85 else paths)
            changes.append((path, rng.choice(values_for(at(config, path)))))
        for path, new in changes:
            put(config, path, new)
        model = self.path("config.json")
        with open(model, "w", encoding="utf-8") as file:
            json.dump(config, file)
        own = self.built(model, self.path("own.json"))
        manifest = own if own and rng.random() < 0.6 else plain
        if manifest is None:
            manifest = self.manifest_of(
                "llama-3-8b", os.path.join(TESTDATA, "configs",
                                           "llama-3-8b.config.json"))
        count = 0
        for command, args in commands(rng).items():
            more = ["--no-project", "--manifest", manifest, "--model", model]
            if command == "verify" or (command == "suggest"
                                       and rng.random() < 0.5):
                more = ["--no-project", "--model", model]
            done = self.run(*args, *more)
            self.judge(command, [*args, *more], done)
            if self.failures and self.failures[-1][1] == [*args, *more]:
                self.failures[-1] += (f"{name}: {changes}",)
            count += 1
        return count

    def share(self, count, seed):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (10 ** 6, 10 ** 6))
        rng = random.Random(seed)
        while count > 0:
            count -= self.case(rng)
        return self.results, self.failures


def limit_time():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def run_share(job):
    configs, count, seed = job
    return Sweep(configs).share(count, seed)


@unittest.skipIf(is_sanitized(), "a sanitizer has its own memory")
class ConfigSweep(unittest.TestCase):
    def test_changed_configs(self):
        configs = {}
        for path in glob.glob(os.path.join(TESTDATA, "configs",
                                           "*.config.json")):
            with open(path, encoding="utf-8") as file:
                configs[os.path.basename(path)[:-12]] = file.read()
        jobs = [(configs, CASES // JOBS, SEED * 1000 + i) for i in range(JOBS)]
        with multiprocessing.Pool(JOBS) as pool:
            shares = pool.map(run_share, jobs)
        results = sum((share[0] for share in shares), collections.Counter())
        failures = [one for share in shares for one in share[1]]
        if CASES > 1000:
            for (command, rc), count in sorted(results.items()):
                print(f"{command}: exit status {rc}: {count}")
        out = os.environ.get("SHARDC_SWEEP_OUT")
        if out:
            with open(out, "w", encoding="utf-8") as file:
                json.dump(failures, file, indent=1)
        self.assertEqual([], failures[:3], f"{len(failures)} failures")
        self.assertGreaterEqual(sum(results.values()), CASES // 2)


if __name__ == "__main__":
    unittest.main()
