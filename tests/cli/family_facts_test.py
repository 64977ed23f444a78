"""What the descriptions of families state about the dimensions of parameters, against
the programs of transformers' classes that testdata/family_facts.json.gz has
(tests/runtimes/family_facts_answers.py): heads and KV heads by layer, parts and their
boundaries, experts, and which dimensions have a factor in common.

A factor inside of a head is not compared further: where a rotary embedding divides it,
for instance. The stream, the vocabulary and positions are compared by their role, and
other factors by the dimensions that have them: a factor of the description must be one
of the program, and the other way round."""

import collections
import gzip
import hashlib
import itertools
import json
import os
import re
import sys
import tempfile
import unittest

from driver import ROOT, TESTDATA, Case, run

sys.path.insert(0, os.path.join(ROOT, "python"))

from shardc.family_facts import compared, facts_of  # noqa: E402

RECORDED = os.path.join(TESTDATA, "family_facts.json.gz")
SHOWN = 4


def described(config, folder):
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    return run("explain", "--no-project", "--facts", "--model", path, "--format", "json")


def recorded():
    with gzip.open(RECORDED, "rt", encoding="utf-8") as file:
        return json.load(file)


def with_factors():
    """The types whose descriptions state factors."""
    folder = os.path.join(ROOT, "families")
    out = set()
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            if name.endswith(".yaml") and "\nfactors:" in file.read():
                out.add(name[:-5])
    return out


class FamilyFacts(Case):
    def test_stated_facts_are_those_of_the_recorded_programs(self):
        types = recorded()["types"]
        # A description states factors only where programs show that they are right.
        self.assertEqual(with_factors() - set(types), set())
        self.assertGreaterEqual(len(with_factors()), 40)
        counts = collections.Counter()
        with tempfile.TemporaryDirectory() as folder:
            for model_type in sorted(with_factors()):
                for case in types[model_type]:
                    shown = self.check(described(case["config"], folder), 0).json()
                    own, wrong = compared(facts_of(shown), case["params"])
                    counts += own
                    with self.subTest(model_type=model_type, case=case["name"]):
                        self.assertEqual(wrong[:SHOWN], [])
                        self.assertGreater(own["right"], 3 * own["unknown"], own)
        self.assertEqual(counts["wrong"], 0)

    def test_facts_need_a_config(self):
        out = self.check(run("explain", "--no-project", "--facts", "--mesh", "tp:2"), 2)
        self.assertIn("`--facts` needs the model's configuration", out.err)

    def test_a_size_that_is_not_stated_is_not_known(self):
        config = {"model_type": "qwen", "hidden_size": 48, "vocab_size": 96, "kv_channels": 8,
                  "num_attention_heads": 6, "intermediate_size": 80, "num_hidden_layers": 1}
        with tempfile.TemporaryDirectory() as folder:
            shown = self.check(described(config, folder), 0).json()
        self.assertEqual({dim["factors"] is None for one in shown["params"]
                          for dim in one["dims"]}, {True})


class Suggestions(Case):
    def test_equal_parts_that_a_description_states_are_divided(self):
        config = next(case["config"] for case in recorded()["types"]["mixtral"])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file)
            suggest = ["suggest", "--no-project", "--mesh", "tp:2", "--model", path,
                       "--force"]
            whole = self.check(run(*suggest), 0).out
            parts = self.check(run(*suggest, "--divide-parts"), 0).out
        self.assertNotIn("parts:", whole)
        rule = "experts\\.gate_up_proj$'\n    spec: [EXPERT, MLP_INTERMEDIATE, [FSDP, SP]]\n"
        self.assertIn(rule + "    parts: [null, 2]\n", parts)


class OtherNames(Case):
    """A description decides what parameters do, whatever the keys of the config and the
    paths of the tree are called."""

    DESCRIPTION = """
version: 1
let: {group: hef // kam}
factors: {zid: stream, vok: vocab, hef: kam * group, kam: kv_heads, group: group,
  lun: head_dim, ser: inner}
tree:
  ora.dak: embedding(vok, zid)
  ora.pel[num]:
    wim: linear(zid, hef * lun)
    tuk: linear(zid, kam * lun)
    lom: linear(zid, kam * lun)
    ban: linear(hef * lun, zid)
    gor: linear(zid, ser)
    hup: linear(zid, ser)
    fid: linear(ser, zid)
    nem: norm(zid)
    nuk: norm(zid)
  ora.las: norm(zid)
  zem: linear(zid, vok)
"""
    CONFIG = {"model_type": "acme", "zid": 512, "vok": 3200, "hef": 8, "kam": 4, "lun": 64,
              "ser": 1408, "num": 3, "dtype": "bfloat16"}
    LLAMA = {"model_type": "llama", "hidden_size": 512, "vocab_size": 3200,
             "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64,
             "intermediate_size": 1408, "num_hidden_layers": 3, "dtype": "bfloat16"}

    def outputs(self, description=DESCRIPTION):
        """What `cost` prints of both configs with the rules that `suggest` writes."""
        out = {}
        with tempfile.TemporaryDirectory() as folder:
            given = ["--no-project", "--families", folder, "--mesh", "fsdp:2,tp:4"]
            with open(os.path.join(folder, "acme.yaml"), "w", encoding="utf-8") as file:
                file.write(description)
            for config in (self.CONFIG, self.LLAMA):
                name = config["model_type"]
                model, rules = (os.path.join(folder, name + end) for end in (".json", ".rules"))
                with open(model, "w", encoding="utf-8") as file:
                    json.dump(config, file)
                done = run("suggest", *given, "--model", model, "-o", rules, "--force")
                self.assertIn(done.rc, (0, 1), done.err)
                out[name] = [
                    run("cost", *given, "--model", model, "--rules", rules, "--batch", "8",
                        "--seq", "1024", *mode).out
                    for mode in ([], ["--mode", "decode", "--kv-len", "1024"])]
        return out

    def test_costs_and_rules_are_those_of_the_usual_names(self):
        out = self.outputs()
        self.assertEqual(out["acme"], out["llama"])
        self.assertNotIn("not known", "".join(out["acme"]))

    def test_without_factors_the_roles_are_not_known(self):
        lines = self.DESCRIPTION.split("\n")
        begin = next(n for n, line in enumerate(lines) if line.startswith("factors"))
        out = self.outputs("\n".join(lines[:begin] + lines[begin + 2:]))
        self.assertIn("not known: the role of", out["acme"][0])

    def test_a_fourth_projection_to_heads_leaves_the_roles_open(self):
        more = self.DESCRIPTION.replace("    ban:", "    kor: linear(zid, hef * lun)\n    ban:")
        self.assertIn("not known: the role of", self.outputs(more)["acme"][0])


class OtherPaths(Case):
    """The costs of each described family, with words that say nothing in place of those
    of its tree, are the same, or `cost` states what is not known."""

    MODULES = {"_", "weight", "bias"}
    # The types of the text model and of the tower are in the config.
    NESTED = {"llava", "mistral3"}
    LINE = re.compile(r'( *)"?([\w.]+)"?((?:\[.*?\])?(?: if .*?)?):( .*|$)')

    @staticmethod
    def word(name):
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
        out = ""
        for letters in ("bdfgklmnprstvz", "aeiou", "bdfgklmnprstvz", "aeiou", "kmprt"):
            number, at = divmod(number, len(letters))
            out += letters[at]
        return out

    def line(self, line, depth):
        found = self.LINE.fullmatch(line)
        if found and len(found[1]) >= depth:
            key = ".".join(x if x in self.MODULES or x.isdigit() else self.word(x)
                           for x in found[2].split("."))
            line = found[1] + (f'"{key}"' if key.isdigit() else key) + found[3] + ":" + found[4]
        line = re.sub(r"part\('(\w+)'", r"part('z_\1'", line)
        return re.sub(r"(part\(.*, )(\w+)\)", lambda x: x[1] + (
            x[2] if x[2] == "_" else self.word(x[2])) + ")", line)

    def renamed(self, text):
        out, section = [], ""
        for line in text.split("\n"):
            if line[:1].isalpha():
                section = line.partition(":")[0]
            if section in ("like", "uses"):
                line = re.sub(r"(?<=[ \[])([\w-]+)", r"z_\1", line)
            elif section in ("tree", "blocks") and not line.lstrip().startswith("#"):
                line = self.line(line, 2 if section == "tree" else 4)
            out.append(line)
        return "\n".join(out)

    def cost(self, folder, config, mode):
        given = os.path.join(folder, "given")
        path = os.path.join(given, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        shown = self.check(run(
            "cost", "--no-project", "--model", path, "--families", folder, "--rules",
            os.path.join(given, "rules.yaml"), "--mesh", "dp:1", "--batch", "2", "--seq", "16",
            *mode, "--format", "json"), 0).json()
        return (shown["time"]["flops"], shown["memory"]["total"]), shown["not_known"]

    def descriptions(self):
        """The renamed descriptions of all families, by their own names."""
        folder, out = os.path.join(ROOT, "families"), {}
        for name in os.listdir(folder):
            if name.endswith(".yaml"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    out["z_" + name.removesuffix(".yaml")] = self.renamed(file.read())
        return out

    def needed(self, name, texts):
        """The description and those that it names, which they name, and so on."""
        out, waiting = set(), [name]
        while waiting:
            one = waiting.pop()
            if one in texts and one not in out:
                out.add(one)
                waiting += re.findall(r"\bz_[\w-]+", texts[one])
        return out

    def test_costs_do_not_depend_on_paths(self):
        same = collections.Counter()
        texts = self.descriptions()
        with tempfile.TemporaryDirectory() as folders:
            types = recorded()["types"]
            modes = itertools.cycle(([], ["--mode", "decode", "--kv-len", "16"]))
            for model_type, mode in zip(sorted(with_factors() - self.NESTED), modes):
                folder = os.path.join(folders, model_type)
                os.makedirs(os.path.join(folder, "given"))
                # A command reads all files of the folder.
                for name in self.needed("z_" + model_type, texts):
                    with open(os.path.join(folder, name + ".yaml"), "w",
                              encoding="utf-8") as file:
                        file.write(texts[name])
                with open(os.path.join(folder, "given", "rules.yaml"), "w",
                          encoding="utf-8") as file:
                    file.write("rules:\n  - match: '.*'\n    spec: Replicated\n")
                config = dict(types[model_type][0]["config"])
                config.pop("architectures", None)
                usual, _ = self.cost(folder, {**config, "model_type": model_type}, mode)
                other, missing = self.cost(
                    folder, {**config, "model_type": "z_" + model_type}, mode)
                same[usual == other] += 1
                with self.subTest(model_type=model_type, mode=mode):
                    self.assertTrue(usual == other or missing, (usual, other))
        self.assertGreater(same[True], 45)


class Interleaved(Case):
    def findings(self, model_type, case=0):
        config = recorded()["types"][model_type][case]["config"]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file)
            found = self.check(run(
                "check", "--no-project", "--model", path, "--rules", "auto", "--mesh", "tp:2",
                "--select", "SHD230", "--fail-on", "never", "--notes", "--format", "json"),
                0).json()
        return [one["message"] for one in found]

    def test_parts_are_interleaved_where_the_description_states_it(self):
        for model_type in ("bloom", "codegen", "gpt_neox", "gpt_oss"):
            with self.subTest(model_type):
                self.assertEqual(self.findings(model_type), [])
        self.assertIn("one after the other", "".join(self.findings("phi3")))


class Lints(Case):
    """Lints read what a description states, whatever names and sizes suggest."""

    DESCRIPTION = """
version: 1
let: {{mixed: 3 * heads * head, wide: 2 * inner}}
factors:
  width: stream
  heads: heads
  kv: kv_heads
  head: head_dim
  inner: inner
  mixed: {mixed}
tree:
  layers[i < 2]:
    norm: norm(width)
    mix: linear(width, mixed)
    shrink: linear(width, (kv if i == 0 else heads) * head)
    out: linear(heads * head, width)
    both: linear(width, wide)
    last: linear(inner, width)
"""
    CONFIG = {"model_type": "acme", "width": 64, "heads": 8, "kv": 2, "head": 16,
              "inner": 96, "dtype": "bfloat16"}

    def findings(self, mixed, rule, mesh="tp:4"):
        """The findings about a rule of the form `match: spec`, as `CODE message`."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in (
                    ("families/acme.yaml", self.DESCRIPTION.format(mixed=mixed)),
                    ("config.json", json.dumps(self.CONFIG)),
                    ("rules.yaml", "rules:\n  - match: '%s'\n    spec: %s\n"
                     "  - match: '.*'\n    spec: Replicated\n" % rule)):
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
            found = self.check(run(
                "check", "--no-project", "--model", os.path.join(folder, "config.json"),
                "--families", os.path.join(folder, "families"), "--rules",
                os.path.join(folder, "rules.yaml"), "--mesh", mesh, "--select",
                "SHD220,SHD221,SHD230", "--fail-on", "never", "--format", "json"), 0).json()
        return [f"{one['code']} {one['message']}" for one in found]

    def test_parts_that_follow_one_another_are_reported(self):
        found = self.findings("3 * heads * head", ("mix.weight", "[TP, null]"))
        self.assertEqual(len(found), 1, found)
        self.assertIn("SHD230", found[0])
        self.assertIn("heads 128, heads 128 and heads 128", found[0])

    def test_interleaved_parts_are_not_reported(self):
        self.assertEqual(
            self.findings("heads * 3 * head", ("mix.weight", "[TP, null]")), [])

    def test_heads_that_differ_between_layers_are_counted_in_each(self):
        found = self.findings("heads * 3 * head", ("shrink.weight", "[TP, null]"))
        self.assertEqual(len(found), 1, found)
        self.assertIn("SHD220", found[0])
        self.assertIn("`layers.0.shrink.weight` holds 2 heads of 16", found[0])

    def test_heads_of_a_part_are_counted(self):
        found = self.findings("heads * head + 8 * kv * head",
                              ("mix.weight", "[TP, null]"))
        self.assertIn("2 KV heads of 16", "".join(found), found)


if __name__ == "__main__":
    unittest.main()
