"""The recorded parameter trees agree with themselves, with what is published,
with the older manifests, and with shardc's reading of them."""

import gzip
import json
import math
import os
import unittest

import folding
import known_models
import records
import shardc_answers

TESTDATA = os.path.join(records.ROOT, "testdata")
# Older manifests of the same model under another name.
ALIASES = {
    "mistral-7b": "mistral-7b-v0.1",
    "real-devstral-small-2507": "devstral-small-24b",
    "real-dolphin-2.5-mixtral-8x7b": "mixtral-8x7b",
    "real-gemma-2b": "gemma-2b",
    "real-internlm-20b": "internlm-20b",
    "real-llama-2-7b-chat": "llama-2-7b",
    "real-medgemma-27b-it": "gemma-3-27b",
    "real-redpajama-incite-7b": "redpajama-incite-7b",
    "real-reflection-llama-3.1-70b": "llama-3.1-70b",
    "real-wizardlm-2-8x22b": "mixtral-8x22b",
}
TOWER = ("vision_tower.vision_model.", "vision_tower.")
# Why an older manifest is not transformers' tree, and how it is then made so.
EXPLAINED = {
    "deepseek-v3": "the files are FP8 and hold scales and one more layer, "
                   "which predicts a second token",
    "gemma-3-27b": "the files' prefix of the vision tower is dropped on load "
                   "and not written back by a model that was not loaded",
    "real-medgemma-27b-it": "as gemma-3-27b",
    "real-dolphin-2.5-mixtral-8x7b": "two tokens were added to it",
    "real-redpajama-incite-7b": "its files hold buffers that were since "
                                "dropped",
    "real-reflection-llama-3.1-70b": "six tokens were added to it",
}


def load(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        return json.loads(file.read())


def known(name):
    return records.load("transformers/known/" + name)


def elements(tensors):
    return sum(math.prod(tensor["shape"]) for tensor in tensors)


def in_files(record):
    """The tensors as files hold them."""
    if "saved" in record:
        return list(folding.unfold(record["saved"]))
    return record["params"] + saved_buffers(record)


def saved_buffers(record):
    return [buffer for buffer in record["buffers"] if buffer["saved"]]


def shapes(tensors):
    return {tensor["name"]: tensor["shape"] for tensor in tensors}


def older_manifests():
    """(name, shapes by name, spelling) of manifests for models on record."""
    models = {entry["model"]
              for entry in records.load("transformers/index")["models"]}
    for folder in ("models", os.path.join("corpus", "manifests")):
        for file in sorted(os.listdir(os.path.join(TESTDATA, folder))):
            name, _, spelling = file.partition(".hf")
            if spelling and ALIASES.get(name, name) in models:
                params = load(os.path.join(TESTDATA, folder, file))["params"]
                yield name, shapes(params), spelling.split(".")[0]


class Trees(unittest.TestCase):
    def test_there_are_a_hundred_families_and_more_models(self):
        index = records.load("transformers/index")
        self.assertGreaterEqual(len(index["families"]), 100)
        self.assertGreaterEqual(len(index["models"]), 130)
        cases = 0
        for model_type in index["families"]:
            record = records.load("transformers/small/" + model_type)
            self.assertEqual(record["model_type"], model_type)
            names = [case["name"] for case in record["cases"]]
            self.assertEqual(len(set(names)), len(names))
            cases += len(names)
            for case in record["cases"]:
                self.assertEqual(elements(case["params"]),
                                 case["parameters"])
                self.assertEqual(
                    elements(in_files(case)),
                    case["parameters"] + elements(saved_buffers(case)),
                    (model_type, case["name"]))
        self.assertGreater(cases, 1400)

    def test_known_models_have_the_published_numbers(self):
        equal = 0
        for entry in records.load("transformers/index")["models"]:
            name = entry["model"]
            record = known(name)
            self.assertEqual(elements(record["params"]), entry["parameters"])
            self.assertEqual(
                elements(in_files(record)),
                entry["parameters"] + elements(saved_buffers(record)), name)
            published = known_models.PUBLISHED.get(name, (None,))[0]
            if published == entry["parameters"]:
                equal += 1
            elif published is not None:
                self.assertIn(name, known_models.DIFFERENCES)
        self.assertEqual(equal, len(known_models.PUBLISHED)
                         - len(known_models.DIFFERENCES))

    def test_older_manifests_are_what_transformers_makes(self):
        equal, explained = set(), set()
        for name, older, spelling in older_manifests():
            record = known(ALIASES.get(name, name))
            now = shapes(record["params"] + saved_buffers(record)
                         if spelling == "-v5" else in_files(record))
            if older.keys() == now.keys() and all(
                    older[key] in (None, now[key]) for key in now):
                equal.add(name)
                continue
            explained.add(name)
            renamed = {key.replace(*TOWER): shape
                       for key, shape in older.items()}
            self.assertLessEqual(now.keys(), renamed.keys(), name)
            grown = {key for key in now
                     if renamed[key] not in (None, now[key])}
            self.assertLessEqual(grown, {"lm_head.weight",
                                         "model.embed_tokens.weight"}, name)
        self.assertEqual(explained, set(EXPLAINED))
        self.assertGreaterEqual(len(equal), 25)

    def test_shardc_reads_every_known_tree_as_a_manifest(self):
        for entry in records.load("transformers/index")["models"]:
            with self.subTest(model=entry["model"]):
                done = shardc_answers.run(
                    "show", "manifest", "--no-project", "--format", "json",
                    "--manifest",
                    records.path("transformers/known/" + entry["model"]))
                read = json.loads(done.stdout)
                self.assertEqual(
                    read["params"],
                    known(entry["model"])["params"])

    def test_flax_trees_hold_what_the_torch_ones_do(self):
        """As many elements, where the class leaves nothing out."""
        cases = records.load("flax/known")["cases"]
        equal = different = 0
        for case in cases:
            if "error" in case:
                continue
            torch = records.load("transformers/known/" + case["model"])
            if elements(case["params"]) == torch["parameters"]:
                equal += 1
            else:
                different += 1
        self.assertGreaterEqual(equal, 40)
        self.assertLessEqual(different, 15)


class Folding(unittest.TestCase):
    def test_what_is_folded_comes_back(self):
        names = [f"layers.{i}.experts.{j}.w" for i in (0, 2, 5)
                 for j in range(4)] + ["layers.1.experts.0.w", "norm.w",
                                       "h.7", "a1.b"]
        tensors = [{"name": name, "shape": [len(name)]} for name in names]
        folded = folding.fold(tensors)
        self.assertLess(len(folded), len(tensors))
        back = sorted(folding.unfold(folded), key=str)
        self.assertEqual(back, sorted(tensors, key=str))


if __name__ == "__main__":
    unittest.main()
