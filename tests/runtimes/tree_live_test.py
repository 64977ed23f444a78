"""transformers asked again: every recorded tree is the one that it makes."""

import json
import unittest

import transformers

import known_models
import records
import tree_answers

TREE = ("params", "buffers", "tied", "parameters", "saved")


def as_json(answer):
    return json.loads(records.compact(answer))


class Transformers(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        transformers.logging.set_verbosity_error()

    def check(self, recorded, config):
        now = as_json(tree_answers.tree(config))
        for key in TREE:
            self.assertEqual(now.get(key), recorded.get(key), key)

    def check_splitting(self, recorded, config):
        self.assertEqual(as_json(tree_answers.plans(config)),
                         recorded["plans"])
        self.assertEqual(as_json(tree_answers.tensor_parallel(config)),
                         recorded["tensor_parallel"])

    def test_small_trees(self):
        trees = split = 0
        for model_type in records.load("transformers/index")["families"]:
            record = records.load("transformers/small/" + model_type)
            self.assertEqual(record["versions"], records.versions(
                *record["versions"]))
            for case in record["cases"]:
                with self.subTest(family=model_type, case=case["name"]):
                    self.check(case, case["config"])
                    trees += 1
            self.check_splitting(record["cases"][0],
                                 record["cases"][0]["config"])
            split += 1
        print(f"{trees} small trees of {split} families are transformers'")

    def test_known_models(self):
        for name in known_models.names():
            with self.subTest(model=name):
                record = records.load("transformers/known/" + name)
                self.assertEqual(as_json(known_models.given(name)[0]),
                                 record["given"])
                self.check(record, record["config"])
                self.check_splitting(record, record["config"])
        print(f"{len(known_models.names())} known models are transformers'")

    def test_styles(self):
        self.assertEqual(
            records.load("transformers/styles")["styles"],
            tree_answers.styles())


if __name__ == "__main__":
    unittest.main()
