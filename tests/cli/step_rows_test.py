"""What a section's step sends, against what its exported program sends: rows of a
collective, its axes and the bytes that a device sends in it.

The two are lowered by other code, and both are right about other runtimes, so that many
rows differ. testdata/step_rows.json.gz lists the rows that do. A difference that it does
not list fails the test, and with SHARDC_COMPLETE=1 one that is gone does as well:
`python3 tests/cli/step_rows_test.py --write` takes those out, and adds none."""

import concurrent.futures
import gzip
import json
import os
import sys
import tempfile
import unittest

from driver import COMPLETE, TESTDATA, Case, part_of, run

KNOWN = os.path.join(TESTDATA, "step_rows.json.gz")
MODELS = ("bloom-176b", "deepseek-v3", "falcon-7b", "gemma-2-9b", "gemma-2b",
          "gpt-neox-20b", "gpt-oss-20b", "gpt2-xl", "llama-3-8b", "mixtral-8x7b",
          "opt-1.3b", "phi-2", "qwen3-30b-a3b", "qwen3-8b", "t5-small")
MODES = ("train", "prefill", "decode")
MESHES = ("dp:8", "fsdp:8", "tp:2", "tp:8", "dp:2,fsdp:2,tp:2", "fsdp:2,tp:4", "sp:4",
          "fsdp:2,sp:2,tp:2", "ep:4,tp:2")
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "num_decoder_layers")
SIZES = ("--batch", "8", "--seq", "64")


def config_of(model, folder):
    """The path of a model's configuration with two layers."""
    with open(os.path.join(TESTDATA, "configs", model + ".config.json"),
              encoding="utf-8") as file:
        config = json.load(file)
    for key in LAYERS:
        if isinstance(config.get(key), int):
            config[key] = 2
    if isinstance(config.get("layer_types"), list):
        config["layer_types"] = config["layer_types"][:2]
    if "first_k_dense_replace" in config:
        config["first_k_dense_replace"] = 1
    path = os.path.join(folder, model + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    return path


def rows_of(lines):
    out = {}
    for one in lines:
        if one["bytes_per_device"]:
            key = one["collective"] + " " + "+".join(sorted(one["axes"]))
            out[key] = out.get(key, 0) + one["bytes_per_device"]
    return out


def differences(model, mode):
    """By mesh the rows whose bytes differ, or that the mesh has no legal plan; and how
    many rows there are."""
    out, count = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        config = config_of(model, folder)
        program = os.path.join(folder, "program.json")
        inputs = ("--no-project", "--rules", "auto", "--model", config, "--mode", mode)
        done = run("export", "program", *inputs, *SIZES, "-o", program)
        if done.rc:
            return {"": "no program"}, 0
        for mesh in MESHES:
            step = run("cost", *inputs, *SIZES, "--mesh", mesh, "--format", "json")
            made = run("cost", "--no-project", "--rules", "auto", "--mode", mode, "--mesh",
                       mesh, "--program", program, "--format", "json")
            if step.rc or made.rc:
                out[mesh] = "no plan"
                continue
            want = rows_of(step.json()["communication"])
            got = rows_of(made.json()["collectives"])
            count += len({*want, *got})
            rows = [key for key in sorted({*want, *got}) if want.get(key) != got.get(key)]
            if rows:
                out[mesh] = rows
    return out, count


def known():
    with gzip.open(KNOWN, "rt", encoding="utf-8") as file:
        return json.load(file)


class Rows(Case):
    maxDiff = None

    def test_a_step_and_its_program_send_the_same_but_for_known_rows(self):
        every = [(model, mode) for model in MODELS for mode in MODES]
        recorded = known()
        self.assertEqual(sorted(recorded), sorted(" ".join(one) for one in every))
        for model, mode in every if COMPLETE else part_of(every, 9):
            with self.subTest(model, mode=mode):
                of = recorded[f"{model} {mode}"]
                made = differences(model, mode)[0]
                fresh = {mesh: sorted({*rows} - {*of.get(mesh, ())})
                         for mesh, rows in made.items() if isinstance(rows, list)}
                self.assertEqual({mesh: rows for mesh, rows in fresh.items() if rows}, {})
                if COMPLETE:
                    self.assertEqual(made, of)


def write(first):
    before = {} if first else known()
    every = [f"{model} {mode}" for model in MODELS for mode in MODES]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        made = dict(zip(every, pool.map(lambda one: differences(*one.split()), every)))
    rows = 0
    for name, (meshes, count) in made.items():
        rows += count
        for mesh, of in meshes.items():
            old = before.get(name, {}).get(mesh, [])
            fresh = [] if first or isinstance(of, str) else sorted({*of} - {*old})
            if fresh:
                sys.exit(f"{name} {mesh}: {fresh} differ, and did not before")
    differ = sum(len(of) for meshes, _ in made.values() for of in meshes.values()
                 if isinstance(of, list))
    with open(KNOWN, "wb") as file, gzip.GzipFile(
            fileobj=file, mode="wb", mtime=0, filename="") as packed:
        packed.write(json.dumps({name: of for name, (of, _) in made.items()}, indent=1,
                                sort_keys=True).encode())
    print(f"{differ} of {rows} rows differ")


if __name__ == "__main__":
    if "--write" in sys.argv:
        write(not os.path.exists(KNOWN))
    else:
        unittest.main()
