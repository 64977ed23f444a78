"""`shardc lsp` by its protocol: the diagnostics of texts as they are in
an editor's buffers, and that no message of a client ends the server."""

import json
import os
import random
import re
import tempfile
import unittest

import driver
from lsp_client import Client, framed, uri_of

PROJECT = """version: 1
targets:
  small:
    mesh: mesh.yaml
    rules: [rules.yaml]
    manifest: manifest.json
"""
MESH = "axes: {dp: 2, fsdp: 4, tp: 2}\n"
RULES = """# \U0001F600 rules \u00e9
version: 1
extends: [./base.yaml]
bundles:
  COLUMN: [FSDP, TP]
register:
  WIDE: {rule: [fsdp, tp]}
rules:
  - match: 'q_proj/kernel$'  # \U0001F600
    spec: COLUMN
  - match: 'mlp/up/kernel'
    spec: [FSDP, TP]
  - match: 'embed$'
    spec: [VOCAB, WIDE]
    note: '\U0001F600'
"""
BASE = """version: 1
axes: {vocab: [dp], decode_kv_head: []}
rules:
  - match: 'norm$'
    spec: [null]
  - match: 'up/kernel$'
    spec: [TP, FSDP]
"""


def manifest():
    params = [{"name": f"layers/{i}/{name}", "shape": shape, "dtype": "BF16"}
              for i in range(4)
              for name, shape in (("q_proj/kernel", [64, 64]),
                                  ("mlp/up/kernel", [64, 256]),
                                  ("norm", [64]))]
    params.append({"name": "embed", "shape": [512, 64], "dtype": "BF16"})
    return json.dumps({"schema": "shardc.manifest/v1", "params": params})


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return path


class Files(driver.Case):
    """A project in a folder of its own, and a server."""

    client = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)
        self.write("shardc.yaml", PROJECT)
        self.write("mesh.yaml", MESH)
        self.write("rules.yaml", RULES)
        self.write("base.yaml", BASE)
        self.write("manifest.json", manifest())

    def tearDown(self):
        if self.client is None:
            return
        status, words = self.client.end()
        self.assertEqual((status, words), (0, ""))

    def write(self, name, text):
        return write(self.folder, name, text)

    def start(self, **how):
        self.client = Client(**how)
        return self.client

    def open(self, name, text=None):
        return self.client.open(os.path.join(self.folder, name), text)


class Editing(Files):
    def test_a_mistake_is_found_and_mended_by_its_action(self):
        for encoding in ("utf-16", "utf-8", "utf-32"):
            client = self.start(encodings=["utf-7", encoding])
            self.assertEqual(client.encoding, encoding)
            uri = self.open("rules.yaml")
            before = client.codes(uri)
            client.replace(uri, "[VOCAB, WIDE]", "[VOCBA, WIDE]")
            (one,) = client.findings(uri)
            self.assertEqual((one["code"], one["severity"], one["source"]),
                             ("SHD028", 1, "shardc"))
            self.assertIn("`VOCBA`", one["message"])
            start = client.index(uri, one["range"]["start"])
            end = client.index(uri, one["range"]["end"])
            self.assertEqual(client.texts[uri][1][start:end], "VOCBA")
            (action,) = client.actions(uri, "VOCBA")
            self.assertEqual(action["title"], "Replace by `VOCAB`")
            self.assertEqual(action["diagnostics"], [one])
            client.apply(action)
            self.assertEqual(client.texts[uri][1], RULES)
            self.assertEqual(client.codes(uri), before)
            self.assertEqual(client.end(), (0, ""))
        self.client = None

    def test_machine_fixes(self):
        client = self.start(capabilities={
            "workspace": {"workspaceEdit": {"documentChanges": True}}})
        twice = RULES + "  - match: 'q_proj/kernel$'\n    spec: COLUMN\n"
        uri = self.open("rules.yaml", twice)
        self.assertEqual(client.codes(uri), ["SHD107"])
        place = "kernel$'\n    spec: COLUMN"
        (fix, ignore) = client.actions(uri, place)
        self.assertEqual(fix["title"], "Remove the duplicate rule")
        self.assertTrue(fix["isPreferred"])
        self.assertEqual(ignore["title"],
                         "Ignore SHD107 (duplicate-rule) here")
        self.assertNotIn("isPreferred", ignore)
        client.apply(fix)
        self.assertEqual(client.texts[uri][1], RULES)
        self.assertEqual(client.codes(uri), [])
        # All of them at once, as `check --fix` makes them.
        client.put(uri, twice)
        (everything,) = client.actions(uri, "rules", only=["source.fixAll"])
        client.apply(everything)
        self.write("rules.yaml", twice)
        self.check(driver.run("check", "--fix", "--quiet", cwd=self.folder), 0)
        with open(os.path.join(self.folder, "rules.yaml"),
                  encoding="utf-8") as file:
            self.assertEqual(client.texts[uri][1], file.read())

    def test_of_a_wide_selection_the_first_fixes_are_proven(self):
        """Each is by compiling every target: a thousand took minutes."""
        client = self.start()
        uri = self.open("rules.yaml", RULES + 40 * (
            "  - match: 'q_proj/kernel$'\n    spec: COLUMN\n"))
        self.assertEqual(client.codes(uri), ["SHD107"] * 40)
        titles = [one["title"] for one in client.ask(
            "textDocument/codeAction", {
                "textDocument": {"uri": uri}, "context": {"diagnostics": []},
                "range": {"start": {"line": 0, "character": 0},
                          "end": {"line": 999, "character": 0}}})]
        self.assertEqual(titles.count("Remove the duplicate rule"), 16)
        self.assertEqual(
            titles.count("Ignore SHD107 (duplicate-rule) here"), 40)

    def test_a_fix_that_changes_specs_is_marked(self):
        more = json.loads(manifest())
        more["params"].append({"name": "layers/0/mlp/up/kernel_scale",
                               "shape": [64, 256], "dtype": "F32"})
        self.write("manifest.json", json.dumps(more))
        client = self.start()
        uri = self.open("rules.yaml")
        self.assertIn("SHD110", client.codes(uri))
        fix = client.actions(uri, "mlp/up/kernel")[0]
        self.assertEqual(fix["title"],
                         "Match the pattern only at the end of a name (changes specs)")
        self.assertNotIn("isPreferred", fix)
        client.apply(fix)
        self.assertIn("'mlp/up/kernel$'", client.texts[uri][1])
        self.assertNotIn("SHD110", client.codes(uri))

    def test_a_dead_rule_is_corrected_or_removed(self):
        client = self.start()
        dead = RULES + "  - match: 'q_prj/kernel$'\n    spec: COLUMN\n"
        uri = self.open("rules.yaml", dead.replace(
            "  - match: 'q_proj/kernel$'\n    spec: COLUMN\n", ""))
        self.assertIn("SHD105", client.codes(uri))
        actions = client.actions(uri, "q_prj")
        titles = [action["title"] for action in actions]
        self.assertIn("Replace by `q_proj/kernel$`", titles)
        self.assertIn("Remove the rule", titles)
        client.apply(actions[titles.index("Replace by `q_proj/kernel$`")])
        self.assertIn("'q_proj/kernel$'", client.texts[uri][1])
        self.assertNotIn("SHD105", client.codes(uri))

    def test_patterns_lose_beginnings_without_effect(self):
        self.write("shardc.yaml", PROJECT + "lint: {select: [SHD117]}\n")
        client = self.start()
        uri = self.open("rules.yaml", RULES.replace("'q_proj/kernel$'",
                                                    "'.*q_proj/kernel$'"))
        self.assertEqual(client.codes(uri), ["SHD117"])
        fix = client.actions(uri, ".*q_proj")[0]
        self.assertEqual(fix["title"], "Remove the leading `.*`")
        self.assertTrue(fix["isPreferred"])
        client.apply(fix)
        self.assertEqual(client.texts[uri][1], RULES)
        self.assertEqual(client.codes(uri), [])

    def test_a_pattern_takes_the_case_of_the_names(self):
        self.write("shardc.yaml", PROJECT + "lint: {select: [SHD114]}\n")
        client = self.start()
        uri = self.open("rules.yaml", RULES.replace("'q_proj/kernel$'",
                                                    "'Q_PROJ/Kernel$'"))
        self.assertEqual(client.codes(uri), ["SHD114"])
        fix = next(one for one in client.actions(uri, "Q_PROJ")
                   if "case" in one["title"])
        self.assertEqual(fix["title"], "Write the pattern in the case of the "
                         "names (changes specs)")
        client.apply(fix)
        self.assertEqual(client.texts[uri][1], RULES)
        self.assertEqual(client.codes(uri), [])

    def test_unused_definitions_are_removed(self):
        self.write("shardc.yaml", PROJECT + "lint: {select: [SHD116]}\n")
        used = RULES.index("  COLUMN:")
        for defined in ("  QKV: [[FSDP, SP], TP]\n", "  OTHER:\n    [FSDP, TP]\n"):
            client = self.start()
            uri = self.open("rules.yaml", RULES[:used] + defined
                            + RULES[used:])
            self.assertEqual(client.codes(uri), ["SHD116"])
            name = defined.split(":")[0].strip()
            fix = next(action for action in client.actions(uri, name)
                       if action["title"] == "Remove the definition")
            client.apply(fix)
            self.assertEqual(client.texts[uri][1], RULES)
            self.assertEqual(client.codes(uri), [])

    def test_the_key_of_definitions_stays_while_it_has_one(self):
        """A blank line or a comment after the definition does not end the
        mapping."""
        self.write("shardc.yaml", PROJECT + "lint: {select: [SHD116]}\n")
        used = RULES.index("  COLUMN:")
        for between in ("\n", "  # Of columns.\n", "\n# Of columns.\n\n"):
            client = self.start()
            uri = self.open("rules.yaml", RULES[:used] + "  QKV: [tp]\n"
                            + between + RULES[used:])
            self.assertEqual(client.codes(uri), ["SHD116"])
            fix = next(action for action in client.actions(uri, "QKV")
                       if action["title"] == "Remove the definition")
            client.apply(fix)
            self.assertEqual(client.texts[uri][1],
                             RULES[:used] + between + RULES[used:])

    def test_ignores(self):
        for line_end in ("\n", "\r\n"):
            client = self.start()
            dead = (RULES + "  - match: 'nothing$'\n    spec: COLUMN\n").replace(
                "\n", line_end)
            uri = self.open("rules.yaml", dead)
            self.assertEqual(client.codes(uri), ["SHD105"])
            (remove, ignore) = client.actions(uri, "nothing")
            self.assertEqual(remove["title"], "Remove the rule")
            self.assertNotIn("isPreferred", remove)
            client.apply(ignore)
            self.assertIn("  # shardc: ignore[SHD105]" + line_end +
                          "  - match: 'nothing$'", client.texts[uri][1])
            self.assertEqual(client.codes(uri), [])
            # A comment that is there takes one more.
            client.replace(uri, "[SHD105]", "[SHD107]")
            (ignore,) = [a for a in client.actions(uri, "nothing")
                         if "SHD105" in a["title"]]
            client.apply(ignore)
            self.assertIn("# shardc: ignore[SHD107, SHD105]" + line_end,
                          client.texts[uri][1])
            self.assertEqual(client.codes(uri), ["SHD190"])
            # The unused one is removed, and the comment with its last code.
            (unused,) = client.actions(uri, "SHD107")
            self.assertEqual(unused["title"], "Remove the ignore")
            client.apply(unused)
            self.assertIn("# shardc: ignore[SHD105]" + line_end,
                          client.texts[uri][1])
            self.assertEqual(client.codes(uri), [])
            self.assertEqual(client.end(), (0, ""))
        self.client = None

    def test_buffers_count_and_not_the_disk(self):
        client = self.start()
        rules = self.open("rules.yaml")
        mesh = self.open("mesh.yaml")
        base = self.open("base.yaml")
        self.assertNotIn("SHD222", client.codes(rules))
        # In the mesh's buffer alone: 3 divides nothing.
        client.replace(mesh, "fsdp: 4", "fsdp: 3")
        client.findings(mesh)
        self.assertTrue(any("64 % 3" in one["message"]
                            for one in client.findings(rules)))
        client.replace(mesh, "fsdp: 3", "fsdp:")
        self.assertTrue(client.findings(mesh))
        client.replace(mesh, "fsdp:,", "fsdp: 4,")
        self.assertEqual(client.findings(mesh), [])
        before = {uri: client.codes(uri) for uri in (base, rules)}
        client.replace(base, "[TP, FSDP]", "[TPP, FSDP]")
        self.assertEqual(client.codes(base), ["SHD028"] + before[base])
        self.assertEqual(client.codes(rules), before[rules])
        # Closed again, the disk counts.
        client.tell("textDocument/didClose", {"textDocument": {"uri": base}})
        client.put(rules, RULES)
        client.findings(rules)
        self.assertNotIn("SHD028",
                         [one["code"] for one in client.found[base]])

    def test_project_files(self):
        client = self.start()
        uri = self.open("shardc.yaml")
        self.assertEqual(client.findings(uri), [])
        self.assertIn("13 parameters", client.hover(uri, "small"))
        client.replace(uri, "manifest: ", "manifset: ")
        self.assertEqual(client.codes(uri), ["SHD021"])
        (action,) = client.actions(uri, "manifset")
        client.apply(action)
        self.assertEqual(client.findings(uri), [])
        for word, name in (("rules.yaml", "rules.yaml"),
                           ("mesh.yaml", "mesh.yaml"),
                           ("manifest.json", "manifest.json")):
            (place,) = client.at("definition", uri, word, 2)
            self.assertEqual(place["uri"],
                             uri_of(os.path.join(self.folder, name)))
        client.replace(uri, "rules: [rules.yaml]", "rules: []")
        self.assertIn("builtin:llama", client.complete(uri, "rules: ["))
        client.edit(uri, 0, 0, "lint: {ignore: [SHD]}\n")
        self.assertIn("SHD105", client.complete(uri, "[SHD"))
        symbols = client.ask("textDocument/documentSymbol",
                             {"textDocument": {"uri": uri}})
        self.assertEqual([one["name"] for one in symbols],
                         ["lint", "version", "targets"])
        self.assertEqual([one["name"] for one in symbols[2]["children"]],
                         ["small"])


class Recovering(Files):
    """A rule that cannot be read does not hide what the others give."""

    # The third rule is dead, and the first is written twice.
    TEXT = RULES + ("  - match: 'nothing$'\n    spec: COLUMN\n"
                    "  - match: 'q_proj/kernel$'\n    spec: COLUMN\n")

    def break_and_compare(self, uri, old, new, wanted):
        """The findings are those of the text before, and `wanted`."""
        client = self.client
        before = client.codes(uri)
        text = client.texts[uri][1]
        client.replace(uri, old, new)
        self.assertEqual(client.codes(uri), sorted(before + wanted),
                         (old, new, client.found[uri]))
        for word in ("q_proj/kernel$", "embed$"):
            if word in client.texts[uri][1]:
                self.assertIn("parameter", client.hover(uri, word))
        # `check` refuses the file, with the first of these findings.
        self.write("rules.yaml", client.texts[uri][1])
        checked = driver.run("check", "--quiet", cwd=self.folder)
        self.check(checked, 2)
        for code in wanted[:1]:
            self.assertIn(code, checked.out)
        client.put(uri, text)
        self.assertEqual(client.codes(uri), before)

    def test_each_kind_of_broken_entry(self):
        client = self.start()
        uri = self.open("rules.yaml", self.TEXT)
        self.assertEqual(client.codes(uri), ["SHD105", "SHD107"])
        for old, new, wanted in (
                # A pattern, a spec, a name, and keys of one rule.
                ("mlp/up/kernel'", "mlp/(up/kernel'", ["SHD030"]),
                ("[FSDP, TP]\n  -", "[FSDP, [[TP]]]\n  -", ["SHD027"]),
                ("[FSDP, TP]\n  -", "[FSDP, NOPE]\n  -", ["SHD028"]),
                ("[FSDP, TP]\n  -", "MISSING\n  -", ["SHD028"]),
                ("[FSDP, TP]\n  -", "[FSDP]\n    spce: 1\n  -", ["SHD021"]),
                ("spec: [FSDP, TP]\n  -", "note: ''\n  -", ["SHD022"]),
                ("match: 'mlp/up/kernel'\n    spec: [FSDP, TP]", "matc",
                 ["SHD022"]),
                # An entry that is no YAML.
                ("'mlp/up/kernel'", "'mlp/up/kernel", ["SHD010"]),
                ("[FSDP, TP]\n  -", "[FSDP, TP\n  -", ["SHD010"]),
                ("'mlp/up/kernel'", '"mlp\\.up"', ["SHD010"]),
                # Entries of other sections.
                ("[./base.yaml]", "[./none.yaml, ./base.yaml]", ["SHD002"]),
                ("bundles:\n", "bundles:\n  OTHER: [FSDP\n", ["SHD010"]),
                ("bundles:\n", "bundles:\n  OTHER: 5\n", ["SHD027"]),
                ("register:\n", "register:\n  X: {rul: [tp]}\n", ["SHD021"]),
                ("version: 1\n", "version: 1\nnope: 1\n", ["SHD021"])):
            self.break_and_compare(uri, old, new, wanted)

    def test_several_broken_entries_are_all_reported(self):
        client = self.start()
        uri = self.open("rules.yaml", self.TEXT)
        client.codes(uri)
        client.replace(uri, "'embed$'", "'embed$")
        client.replace(uri, "'nothing$'", "'(nothing$'")
        client.replace(uri, "[FSDP, TP]\n  -", "[NOPE, TP]\n  -")
        self.assertEqual(client.codes(uri),
                         ["SHD010", "SHD028", "SHD030", "SHD107"])
        # Each at its own line, and what is left has its counts.
        lines = [client.texts[uri][1].split("\n")[
            one["range"]["start"]["line"]] for one in client.found[uri]]
        for word in ("embed$", "[NOPE, TP]", "(nothing$"):
            self.assertTrue(any(word in line for line in lines), lines)
        self.assertIn("4 parameters", client.hover(uri, "q_proj"))

    def test_what_a_broken_rule_may_match_is_not_reported(self):
        client = self.start()
        uri = self.open("rules.yaml", self.TEXT)
        client.codes(uri)
        # Without this rule its parameters match none, and WIDE has no use.
        client.replace(uri, "'embed$'", "'(embed$'")
        self.assertEqual(client.codes(uri), ["SHD030", "SHD105", "SHD107"])

    def test_a_fix_of_another_rule_is_still_proven(self):
        client = self.start()
        uri = self.open("rules.yaml", self.TEXT)
        client.replace(uri, "mlp/up/kernel'", "mlp/(up/kernel'")
        text = client.texts[uri][1]
        last = text.rindex("q_proj")
        place = client.position(uri, last)
        fix = client.ask("textDocument/codeAction", {
            "textDocument": {"uri": uri}, "context": {"diagnostics": []},
            "range": {"start": place, "end": place}})[0]
        self.assertEqual(fix["title"], "Remove the duplicate rule")
        self.assertTrue(fix["isPreferred"])
        client.apply(fix)
        self.assertEqual(client.texts[uri][1], text[:text.rindex("  - match")])
        # All fixes at once wait until `check --fix` would make them.
        self.assertEqual(client.actions(uri, "rules", only=["source.fixAll"]),
                         [])

    def test_a_file_of_no_target(self):
        client = self.start()
        uri = self.open("alone.yaml", "version: 1\nrules:\n"
                        "  - match: '(a'\n    spec: [nope]\n"
                        "  - match: 'b\n    spec: [tp]\n"
                        "  - match: 'c$'\n    spec: [dp, TP]\n")
        self.assertEqual(client.codes(uri), ["SHD010", "SHD030"])
        self.assertIn("token `TP`", client.hover(uri, "TP]"))


class Asking(Files):
    def test_hover(self):
        client = self.start()
        uri = self.open("rules.yaml")
        text = client.hover(uri, "mlp/up/kernel")
        self.assertIn("**small**: 4 parameters, 128 KiB, 16 KiB per device",
                      text)
        self.assertIn("layers/0/mlp/up/kernel\nlayers/1/", text)
        self.assertIn("wins 4 parameters that a later rule matches too: "
                      "`up/kernel$` (base.yaml:6)", text)
        base = self.open("base.yaml")
        text = client.hover(base, "up/kernel$")
        self.assertIn("0 parameters of 4 that it matches", text)
        self.assertIn("loses 4 parameters to an earlier rule", text)
        self.assertIn('token `VOCAB` in **small**:\n- every mode: `"dp"`',
                      client.hover(uri, "VOCAB", 2))
        self.assertIn('registered `WIDE`', client.hover(uri, "WIDE]"))
        self.assertIn('`["fsdp", "tp"]`', client.hover(uri, "WIDE]"))
        self.assertIn('bundle `COLUMN` in **small**:\n- every mode: '
                      '`["fsdp", "tp"]`', client.hover(uri, "spec: COLUMN", 7))
        client.replace(uri, "[VOCAB, WIDE]", "[KV_HEAD, WIDE]")
        text = client.hover(uri, "KV_HEAD")
        self.assertIn('- train, prefill: `"tp"`\n- decode, insert: `null`',
                      text)
        for word in ("version", "match", "# \U0001F600 rules", "note"):
            self.assertIsNone(client.hover(uri, word))

    def test_inlay_hints(self):
        """The counts of each pattern, with those of other texts in view."""
        client = self.start()
        uri = self.open("rules.yaml")
        self.assertEqual(client.hints(uri), {
            "q_proj/kernel$'": "4 parameters, 32 KiB",
            "mlp/up/kernel'": "4 parameters, 128 KiB",
            "embed$'": "1 parameter, 64 KiB"})
        base = self.open("base.yaml")
        self.assertEqual(client.hints(base), {
            "norm$'": "4 parameters, 512 B",
            "up/kernel$'": "0 of 4 parameters"})
        client.replace(uri, "q_proj/kernel$", "[qk]_proj/nothing$")
        client.replace(uri, "mlp/up/kernel", "0/mlp/up/kernel")
        self.assertEqual(client.hints(uri), {
            "[qk]_proj/nothing$'": "0 parameters",
            "0/mlp/up/kernel'": "1 parameter, 32 KiB",
            "embed$'": "1 parameter, 64 KiB"})
        self.assertEqual(client.hints(base)["up/kernel$'"],
                         "3 of 4 parameters, 96 KiB")
        # Another rule that cannot be read hides none of them.
        client.replace(uri, "[qk]_proj", "[qk_proj")
        self.assertEqual(client.hints(uri), {
            "0/mlp/up/kernel'": "1 parameter, 32 KiB",
            "embed$'": "1 parameter, 64 KiB"})
        # Only of the lines in the range of the request.
        self.assertEqual(client.hints(uri, lines=(0, 12)), {
            "0/mlp/up/kernel'": "1 parameter, 32 KiB"})
        hint = client.ask("textDocument/inlayHint", client.lines(uri))[-1]
        self.assertEqual(hint["tooltip"],
                         "small: 1 parameter, 64 KiB, 4 KiB per device")

    def test_inlay_hints_of_several_targets(self):
        self.write("shardc.yaml", PROJECT + """  other:
    mesh: mesh.yaml
    rules: [rules.yaml]
    manifest: other.json
""")
        more = json.loads(manifest())
        more["params"] = more["params"][:3] + more["params"][-1:]
        self.write("other.json", json.dumps(more))
        client = self.start()
        self.assertEqual(client.hints(self.open("rules.yaml")), {
            "q_proj/kernel$'": "other: 1 parameter, 8 KiB; "
                               "small: 4 parameters, 32 KiB",
            "mlp/up/kernel'": "other: 1 parameter, 32 KiB; "
                              "small: 4 parameters, 128 KiB",
            "embed$'": "1 parameter, 64 KiB"})

    def test_hover_is_about_the_text_as_it_is(self):
        client = self.start()
        uri = self.open("rules.yaml")
        client.edit(uri, 0, 0, "#\n" * 30)
        self.assertIn("4 parameters", client.hover(uri, "q_proj"))
        client.replace(uri, "q_proj/kernel$", "[qk]_proj/kernel$")
        self.assertIn("4 parameters", client.hover(uri, "[qk]_proj"))
        # What cannot be read has no counts, but its names still mean something.
        client.edit(uri, 0, 0, "{\n")
        self.assertIsNone(client.hover(uri, "[qk]_proj"))
        self.assertIn("token `VOCAB`", client.hover(uri, "VOCAB"))

    def test_completion(self):
        client = self.start()
        uri = self.open("rules.yaml")
        client.findings(uri)
        # In a line that is no YAML yet.
        client.edit(uri, len(RULES), len(RULES),
                    "  - match: 'x'\n    spec: [V")
        labels = client.complete(uri, "spec: [V")
        self.assertLessEqual({"VOCAB", "WIDE", "fsdp", "kv_head"}, set(labels))
        self.assertNotIn("COLUMN", labels)
        client.put(uri, RULES + "  - match: 'x'\n    spec: C")
        self.assertIn("COLUMN", client.complete(uri, "'x'\n    spec: C"))
        client.put(uri, RULES + "  # shardc: ignore[un")
        labels = client.complete(uri, "ignore[un")
        self.assertLessEqual({"SHD112", "unanchored-pattern"}, set(labels))
        client.put(uri, RULES.replace("./base.yaml", "builtin:"))
        self.assertIn("builtin:llama/hf", client.complete(uri, "builtin:"))
        client.put(uri, RULES + "pol")
        self.assertIn("policy", client.complete(uri, "\npol"))
        client.put(uri, RULES + "  - ma")
        self.assertIn("match", client.complete(uri, "  - ma"))
        mesh = self.open("mesh.yaml", "axes: {dp: 2}\ndevice: h")
        self.assertIn("h100-80gb", client.complete(mesh, "device: h"))
        # An item replaces the word that is there.
        item = next(i for i in client.at("completion", mesh, "device: h", 9)
                    ["items"] if i["label"] == "h100-80gb")
        self.assertEqual(item["textEdit"]["range"],
                         {"start": {"line": 1, "character": 8},
                          "end": {"line": 1, "character": 9}})

    def test_definitions_and_symbols(self):
        client = self.start()
        uri = self.open("rules.yaml")
        base = os.path.join(self.folder, "base.yaml")
        (place,) = client.at("definition", uri, "./base.yaml", 3)
        self.assertEqual(place["uri"], uri_of(base))
        for use, definition in (("spec: COLUMN", "COLUMN"), ("WIDE]", "WIDE")):
            shift = use.index(definition)
            (place,) = client.at("definition", uri, use, shift)
            line = client.texts[uri][1].split("\n")[
                place["range"]["start"]["line"]]
            self.assertEqual(place["uri"], uri)
            self.assertIn(definition, line)
        (place,) = client.at("definition", uri, "VOCAB")
        self.assertEqual((place["uri"], place["range"]["start"]["line"]),
                         (uri_of(base), 1))
        self.assertIsNone(client.at("definition", uri, "version"))
        symbols = client.ask("textDocument/documentSymbol",
                             {"textDocument": {"uri": uri}})
        names = {one["name"]: [c["name"] for c in one["children"]]
                 for one in symbols}
        self.assertEqual(names["rules"],
                         ["q_proj/kernel$", "mlp/up/kernel", "embed$"])
        self.assertEqual(names["bundles"], ["COLUMN"])
        rules = next(one for one in symbols if one["name"] == "rules")
        for child in rules["children"]:
            start = client.index(uri, child["selectionRange"]["start"])
            self.assertTrue(client.texts[uri][1][start:].lstrip("'").startswith(
                child["name"]))
            self.assertLessEqual(
                child["range"]["start"]["line"],
                child["selectionRange"]["start"]["line"])


class Names(Files):
    """References, renaming, and the colours of names."""

    def references(self, uri, word, shift=1, definitions=True):
        """File, line and text of each reference."""
        index = self.client.texts[uri][1].index(word) + shift
        places = self.client.ask("textDocument/references", {
            "textDocument": {"uri": uri},
            "position": self.client.position(uri, index),
            "context": {"includeDeclaration": definitions}}) or []
        out = []
        for place in places:
            name = os.path.basename(place["uri"])
            start, end = place["range"]["start"], place["range"]["end"]
            self.assertEqual(start["line"], end["line"])
            with open(os.path.join(self.folder, name), encoding="utf-8",
                      newline="") as file:
                line = file.read().split("\n")[start["line"]]
            units = line.encode("utf-16-le")[2 * start["character"]:
                                             2 * end["character"]]
            out.append((name, start["line"] + 1, units.decode("utf-16-le")))
        return sorted(out)

    def rename(self, uri, word, to, shift=1):
        """The texts of all files after it."""
        edit = self.client.at("rename", uri, word, shift, newName=to)
        for other in edit["changes"]:
            if other not in self.client.texts:
                self.client.open(other[len("file://"):])
        self.client.apply({"edit": edit})
        return {os.path.basename(one): text
                for one, (_, text) in self.client.texts.items()}

    def refusal(self, uri, word, to, shift=1):
        index = self.client.texts[uri][1].index(word) + shift
        answer = self.client.answer(self.client.begin("textDocument/rename", {
            "textDocument": {"uri": uri}, "newName": to,
            "position": self.client.position(uri, index)}))
        self.assertEqual(answer["error"]["code"], -32803, answer)
        return answer["error"]["message"]

    def test_references(self):
        client = self.start()
        uri = self.open("rules.yaml")
        self.assertEqual(self.references(uri, "COLUMN"), [
            ("rules.yaml", 5, "COLUMN"), ("rules.yaml", 10, "COLUMN")])
        self.assertEqual(self.references(uri, "COLUMN", definitions=False), [
            ("rules.yaml", 10, "COLUMN")])
        self.assertEqual(self.references(uri, "WIDE]"), [
            ("rules.yaml", 7, "WIDE"), ("rules.yaml", 14, "WIDE")])
        self.assertEqual(self.references(uri, "FSDP, TP]\n  -"), [
            ("base.yaml", 7, "FSDP"), ("rules.yaml", 5, "FSDP"),
            ("rules.yaml", 12, "FSDP")])
        # A mesh axis: in the mesh, and where rules name it.
        mesh = self.open("mesh.yaml")
        self.assertEqual(self.references(mesh, "dp"), [
            ("base.yaml", 2, "dp"), ("mesh.yaml", 1, "dp")])
        self.assertEqual(self.references(uri, "embed$"), [])
        # Where a rule cannot be read, the references of the others stay.
        client.replace(uri, "'mlp/up/kernel'", "'mlp/up/kernel")
        self.assertEqual(self.references(uri, "COLUMN"), [
            ("rules.yaml", 5, "COLUMN"), ("rules.yaml", 10, "COLUMN")])

    def test_rename_a_bundle_and_a_registered_axis(self):
        client = self.start()
        base = self.open("base.yaml", BASE.replace("[TP, FSDP]", "COLUMN"))
        uri = self.open("rules.yaml", RULES.replace("[VOCAB, WIDE]",
                                                    "[VOCAB, __WIDE__]"))
        before = {one: client.codes(one) for one in (uri, base)}
        place = client.at("prepareRename", base, "COLUMN", 2)
        self.assertEqual(place["end"]["character"]
                         - place["start"]["character"], len("COLUMN"))
        texts = self.rename(base, "COLUMN", "Column2")
        self.assertEqual(texts["base.yaml"],
                         BASE.replace("[TP, FSDP]", "Column2"))
        self.assertEqual(texts["rules.yaml"].count("Column2"), 2)
        self.assertNotIn("COLUMN", texts["rules.yaml"])
        texts = self.rename(uri, "WIDE", "BROAD")
        self.assertIn("  BROAD: {rule: [fsdp, tp]}", texts["rules.yaml"])
        self.assertIn("[VOCAB, __BROAD__]", texts["rules.yaml"])
        self.assertEqual({one: client.codes(one) for one in (uri, base)},
                         before)

    def test_rename_a_mesh_axis(self):
        self.write("mesh.yaml", "axes: {data: 2, fsdp: 4, tp: 2}\n"
                   "axis_types: {data: auto}\n")
        self.write("base.yaml", BASE.replace("vocab: [dp]", "vocab: [data]"))
        self.write("shardc.yaml", PROJECT + """  other:
    mesh: mesh.yaml
    rules: [more.yaml]
    manifest: manifest.json
  own:
    mesh: {axes: {data: 8}}
    rules: [own.yaml]
    manifest: manifest.json
""")
        self.write("more.yaml", "version: 1\nrules:\n"
                   "  - {match: '.*', spec: [data], modes: {decode: [data]}}\n")
        self.write("own.yaml",
                   "version: 1\nrules: [{match: '.*', spec: [data]}]\n")
        self.start()
        uri = self.open("base.yaml")
        texts = self.rename(uri, "[data]", "batch_axis", shift=2)
        self.assertIn("vocab: [batch_axis]", texts["base.yaml"])
        self.assertEqual(texts["mesh.yaml"],
                         "axes: {batch_axis: 2, fsdp: 4, tp: 2}\n"
                         "axis_types: {batch_axis: auto}\n")
        # Of a target that shares the mesh; the third target has its own.
        self.assertEqual(texts["more.yaml"].count("[batch_axis]"), 2)
        self.assertEqual(set(texts), {"base.yaml", "mesh.yaml", "more.yaml"})
        # That target alone, from its project file.
        project = self.open("shardc.yaml")
        texts = self.rename(project, "data: 8", "rows")
        self.assertIn("mesh: {axes: {rows: 8}}", texts["shardc.yaml"])
        self.assertIn("spec: [rows]", texts["own.yaml"])
        self.assertNotIn("rows", texts["more.yaml"])

    def test_what_cannot_be_renamed(self):
        self.start()
        uri = self.open("rules.yaml")
        mesh = self.open("mesh.yaml")
        for word, to, reason in (
                ("VOCAB", "X", "is a name of shardc"),
                ("COLUMN", "TP", "`TP` already has a meaning"),
                ("COLUMN", "WIDE", "already has a meaning"),
                ("COLUMN", "ColumnWise", "already has a meaning"),
                ("COLUMN", "a b", "holds something else"),
                ("COLUMN", "true", "has a meaning in YAML"),
                ("embed$", "X", "the cursor is not at a bundle")):
            self.assertIn(reason, self.refusal(uri, word, to), (word, to))
        # Axis rules have these axes by default.
        self.assertIn("the axis rule `tensor_parallel` is `tp` by default",
                      self.refusal(mesh, "tp", "model"))
        # Uses that cannot be read could be missed.
        self.client.replace(uri, "'mlp/up/kernel'", "'mlp/up/kernel")
        self.assertIn("rules.yaml` is not valid YAML",
                      self.refusal(uri, "COLUMN", "X"))

    def test_the_axes_of_a_pack_stay(self):
        self.write("mesh.yaml", "axes: {dp: 2, fsdp: 4, tp: 2}\n")
        self.write("shardc.yaml", PROJECT.replace("[rules.yaml]",
                                                  "[builtin:llama/flax]"))
        self.start()
        uri = self.open("mesh.yaml")
        self.assertIn("by default", self.refusal(uri, "fsdp", "x"))

    def test_semantic_tokens(self):
        client = self.start()
        legend = client.server["capabilities"]["semanticTokensProvider"][
            "legend"]

        def tokens(uri):
            data = client.ask("textDocument/semanticTokens/full", {
                "textDocument": {"uri": uri}})["data"]
            out, line, column = [], 0, 0
            for at in range(0, len(data), 5):
                down, right, length, kind, bits = data[at:at + 5]
                line, column = line + down, right + (0 if down else column)
                start = client.index(uri, {"line": line, "character": column})
                end = client.index(uri, {"line": line,
                                         "character": column + length})
                names = [name for bit, name in enumerate(
                    legend["tokenModifiers"]) if bits >> bit & 1]
                out.append((client.texts[uri][1][start:end],
                            legend["tokenTypes"][kind], *names))
            return out

        uri = self.open("rules.yaml")
        self.assertEqual(tokens(uri), [
            ("COLUMN", "struct", "declaration"),
            ("FSDP", "enumMember", "defaultLibrary"),
            ("TP", "enumMember", "defaultLibrary"),
            ("WIDE", "type", "declaration"),
            ("fsdp", "variable"), ("tp", "variable"),
            ("q_proj/kernel$", "regexp"), ("COLUMN", "struct"),
            ("mlp/up/kernel", "regexp"),
            ("FSDP", "enumMember", "defaultLibrary"),
            ("TP", "enumMember", "defaultLibrary"),
            ("embed$", "regexp"),
            ("VOCAB", "enumMember", "defaultLibrary"), ("WIDE", "type")])
        # A rule that is no YAML loses its own only.
        before = tokens(uri)
        client.replace(uri, "'mlp/up/kernel'", "'mlp/up/kernel")
        self.assertEqual(tokens(uri), before[:8] + before[11:])
        self.assertEqual(tokens(self.open("mesh.yaml")), [
            (name, "variable", "declaration") for name in ("dp", "fsdp", "tp")])

    def test_formatting(self):
        client = self.start()
        uri = self.open("rules.yaml", RULES.replace(
            "  - match", "-   match").replace("[VOCAB, WIDE]", "[ VOCAB,WIDE ]"))
        client.apply({"edit": {"changes": {uri: client.ask(
            "textDocument/formatting", {
                "textDocument": {"uri": uri},
                "options": {"tabSize": 2, "insertSpaces": True}})}}})
        self.assertEqual(client.texts[uri][1], RULES)


class Packs(Files):
    """What stands in a pack is shown in a file of the user's cache."""

    def place(self, uri, word, shift=2):
        (place,) = self.client.at("definition", uri, word, shift)
        path = os.path.join(self.cache, "shardc", "packs", "llama.flax.yaml")
        self.assertEqual(place["uri"], uri_of(path))
        with open(path, encoding="utf-8") as file:
            text = file.read()
        pack = self.check(driver.run("rules", "--rules", "builtin:llama/flax",
                                     "--format", "yaml"), 0)
        self.assertEqual(text.count("- match:"), pack.out.count("- match:"))
        return path, text.split("\n")[place["range"]["start"]["line"]]

    def start(self, **how):
        self.cache = os.path.join(self.folder, "caches \u00e9")
        return super().start(env=dict(os.environ, XDG_CACHE_HOME=self.cache))

    def test_definitions_in_packs(self):
        client = self.start()
        uri = self.open("rules.yaml", RULES.replace(
            "[./base.yaml]", "['builtin:llama', ./base.yaml]"))
        client.findings(uri)
        path, _ = self.place(uri, "builtin:llama")
        # Not written while it is as it should be; mended where it is not.
        when = os.stat(path).st_mtime_ns
        self.place(uri, "builtin:llama")
        self.assertEqual(os.stat(path).st_mtime_ns, when)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o444)
        os.chmod(path, 0o600)
        with open(path, "a", encoding="utf-8") as file:
            file.write("rubbish")
        self.place(uri, "builtin:llama")
        # It is a rules file as any other.
        pack = self.open(path)
        self.assertEqual(client.findings(pack), [])

    def test_packs_that_a_project_names(self):
        project = PROJECT.replace("[rules.yaml]", "auto")
        self.write("manifest.json", json.dumps({
            "schema": "shardc.manifest/v1", "params": {
                f"model/layers/0/{name}/kernel": {"shape": [64, 64],
                                                  "dtype": "BF16"}
                for name in ("self_attn/q_proj", "self_attn/k_proj",
                             "mlp/gate_proj", "mlp/up_proj")}}))
        other = project.replace("small", "other").replace(
            "auto", "[builtin:llama/flax]").replace(
                "version: 1\ntargets:\n", "")
        client = self.start()
        uri = self.open("shardc.yaml", project + other)
        client.findings(uri)
        self.place(uri, "auto")
        self.place(uri, "builtin:llama/flax")
        client.replace(uri, "builtin:llama/flax", "builtin:none")
        client.findings(uri)
        self.assertIsNone(client.at("definition", uri, "builtin:none", 2))

    def test_without_a_cache_there_is_no_place(self):
        for env in ({"XDG_CACHE_HOME": "relative", "HOME": ""},
                    {"XDG_CACHE_HOME": os.path.join(self.folder,
                                                    "mesh.yaml")}):
            client = Files.start(self, env=dict(os.environ, **env))
            uri = self.open("rules.yaml", "extends: ['builtin:llama']\nrules: "
                            "[]\n")
            client.findings(uri)
            self.assertIsNone(client.at("definition", uri, "builtin", 2))
            self.assertEqual(client.end(), (0, ""))
        self.client = None


class Places(Files):
    def test_files_outside_of_any_project(self):
        with tempfile.TemporaryDirectory() as folder:
            client = self.start()
            alone = client.open(write(folder, "alone.yaml", RULES.replace(
                "extends: [./base.yaml]\n", "")))
            self.assertEqual(client.findings(alone), [])
            self.assertIn("COLUMN", client.complete(alone, "spec: C"))
            self.assertIn("bundle `COLUMN`:\n- every mode",
                          client.hover(alone, "spec: COLUMN", 7))
            client.replace(alone, "q_proj", "(q_proj")
            self.assertEqual(client.codes(alone), ["SHD030"])
            mesh = client.open(write(folder, "m.yaml", "axes: {dp: 0}\n"))
            self.assertEqual(client.codes(mesh), ["SHD023"])
            other = client.open(write(folder, "ci.yaml", "jobs: {a: [\n"))
            self.assertEqual(client.findings(other), [])
            untitled = client.open("untitled:Untitled-1", "rules:\n- match: x")
            self.assertTrue(client.findings(untitled))

    def test_several_projects_and_files_of_no_target(self):
        self.write(".git/HEAD", "")  # both projects are in one repository
        self.write("sub/shardc.yaml", PROJECT.replace("small", "other"))
        self.write("sub/mesh.yaml", MESH)
        self.write("sub/rules.yaml", RULES.replace("./base", "../base"))
        self.write("sub/manifest.json", manifest())
        self.write("free.yaml", "version: 1\nrules:\n- match: 'a['\n")
        client = self.start()
        one = self.open("rules.yaml")
        two = self.open("sub/rules.yaml")
        free = self.open("free.yaml")
        base = self.open("base.yaml")
        self.assertTrue(client.findings(free))
        text = client.hover(base, "up/kernel$")
        self.assertIn("**small**", text)
        self.assertIn("**other**", text)
        client.replace(base, "[TP, FSDP]", "[TPP, FSDP]")
        (first, second) = [found for found in client.findings(base)
                           if found["code"] == "SHD028"]
        self.assertIn("`small`", first["message"] + second["message"])
        self.assertIn("`other`", first["message"] + second["message"])
        self.assertEqual(client.findings(one) + client.findings(two), [])

    def test_a_file_that_is_not_saved_yet(self):
        client = self.start()
        project = self.open("shardc.yaml")
        client.replace(project, "rules.yaml", "new.yaml")
        self.assertEqual(client.codes(project), ["SHD002"])
        new = self.open("new.yaml", RULES.replace("VOCAB", "VOCBA"))
        self.assertEqual(client.codes(new), ["SHD028"])
        self.assertEqual(client.found[project], [])

    def test_a_file_changes_on_disk(self):
        client = self.start(capabilities={"workspace": {
            "didChangeWatchedFiles": {"dynamicRegistration": True}}})
        uri = self.open("rules.yaml")
        client.findings(uri)
        self.assertIn("4 parameters", client.hover(uri, "q_proj"))
        smaller = json.loads(manifest())
        smaller["params"] = smaller["params"][:3] + smaller["params"][-1:]
        self.write("manifest.json", json.dumps(smaller))
        client.tell("workspace/didChangeWatchedFiles", {"changes": []})
        self.assertIn("1 parameter,", client.hover(uri, "q_proj"))

    def test_the_same_with_crlf(self):
        client = self.start()
        text = RULES.replace("\n", "\r\n").replace("VOCAB", "VOCBA")
        uri = self.open("rules.yaml", text)
        (one,) = client.findings(uri)
        self.assertEqual(client.texts[uri][1].split("\r\n")[
            one["range"]["start"]["line"]].strip(), "spec: [VOCBA, WIDE]")
        self.assertEqual(one["range"]["end"]["character"], 16)


class Protocol(Files):
    def raw(self, method, params):
        return self.client.answer(self.client.begin(method, params))

    def test_errors_are_answered_and_the_server_goes_on(self):
        client = self.start()
        uri = self.open("rules.yaml")
        at = {"textDocument": {"uri": uri}}
        for method, params, code in (
                ("no/method", {}, -32601),
                ("initialize", {}, -32600),
                ("textDocument/hover", at, -32602),
                ("textDocument/hover", None, -32602),
                ("textDocument/hover", [1], -32602),
                ("textDocument/codeAction", at, -32602),
                ("textDocument/hover",
                 {**at, "position": {"line": -1, "character": 0}}, -32602),
                ("textDocument/hover",
                 {**at, "position": {"line": 1e30, "character": 0}}, -32602),
                ("textDocument/documentSymbol",
                 {"textDocument": {"uri": "file:///none"}}, -32602)):
            self.assertEqual(self.raw(method, params)["error"]["code"], code,
                             method)
        for broken, code in (
                (b"{", -32700), (b"\xff", -32700), (b"", -32700),
                (b"[]", -32600), (b"1", -32600), (b'{"id": 7}', -32600),
                (b'{"method": 1}', -32600),
                (b'{"id": {}, "method": "x"}', -32600),
                (b"[" * 100000, -32700),
                (b'{"method": "\\ud83d"}', -32700)):
            client.send(framed(broken))
            while True:
                message = client.read()
                self.assertIsNotNone(message, broken)
                if "error" in message:
                    break
            self.assertEqual(message["error"]["code"], code, broken)
        for header in (b"Content-Length: x\r\n\r\n", b"rubbish\r\n\r\n",
                       b"Content-Length: 1e3\r\n\r\n",
                       b"Content-Length: " + b"9" * 40 + b"\r\n\r\n"):
            if header.startswith(b"Content-Length: 9"):
                continue
            client.send(header)
            while "error" not in client.read():
                pass
        # Larger than any message, and passed over.
        size = (64 << 20) + 1
        client.send(b"Content-Length: %d\r\n\r\n" % size)
        for _ in range(64):
            client.send(b"x" * (1 << 20))
        client.send(b"x")
        for notification in ("textDocument/didOpen", "textDocument/didChange",
                             "textDocument/didClose", "no/notification",
                             "$/setTrace", "$/cancelRequest", "initialized"):
            for params in (None, {}, [], {"textDocument": 1},
                           {"textDocument": {"uri": 5}},
                           {"textDocument": {"uri": "file:///none"},
                            "contentChanges": 1}):
                client.tell(notification, params)
        client.send(framed({"jsonrpc": "2.0", "id": 9999, "result": None}))
        self.assertIn("4 parameters", client.hover(uri, "q_proj"))

    def test_a_change_that_cannot_be_read_leaves_no_stale_text(self):
        client = self.start()
        uri = self.open("rules.yaml", RULES.replace("VOCAB", "VOCBA"))
        self.assertTrue(client.findings(uri))
        client.tell("textDocument/didChange", {
            "textDocument": {"uri": uri, "version": 2},
            "contentChanges": [{"range": {"start": 1}, "text": "x"}]})
        while client.found[uri]:
            self.assertIsNotNone(client.read())
        self.assertTrue(client.logged)

    def test_what_is_cancelled_is_answered_so(self):
        client = self.start()
        uri = self.open("rules.yaml")
        params = {"textDocument": {"uri": uri},
                  "position": {"line": 8, "character": 14}}
        many = b""
        for request in range(1000, 1010):
            many += framed({"jsonrpc": "2.0", "id": request,
                            "method": "textDocument/hover", "params": params})
        many += framed({"jsonrpc": "2.0", "method": "$/cancelRequest",
                        "params": {"id": 1009}})
        client.send(many)
        answers = {}
        while len(answers) < 10:
            message = client.read()
            if "method" not in message:
                answers[message["id"]] = message
        self.assertIn("result", answers[1000])
        self.assertEqual(answers[1009]["error"]["code"], -32800)

    def test_ends(self):
        client = self.start()
        uri = self.open("rules.yaml")
        client.ask("shutdown", None)
        answer = self.raw("textDocument/hover", {"textDocument": {"uri": uri}})
        self.assertEqual(answer["error"]["code"], -32600)
        client.tell("exit", None)
        self.assertEqual(client.process.wait(60), 0)
        for data, status in ((b"", 1), (framed({"method": "exit"}), 1),
                             (b"Content-Len", 1)):
            other = Client()
            other.send(data)
            other.process.stdin.close()
            self.assertEqual(other.process.wait(60), status)
            for stream in (other.process.stdout, other.process.stderr):
                stream.close()
        for stream in (client.process.stdin, client.process.stdout,
                       client.process.stderr):
            stream.close()
        self.client = None

    def test_nothing_before_initialize(self):
        bare = driver.run("lsp", stdin=(
            framed({"id": "a", "method": "textDocument/hover"})
            + framed({"method": "textDocument/didOpen"})
            + framed({"method": "exit"})).decode())
        self.check(bare, 1)
        self.assertIn('"id":"a","error":{"code":-32002', bare.out)
        self.assertEqual(bare.err, "")


SNIPPETS = ["'", '"', "[", "]", "{", "}", ":", ": ", "\n", "\r\n", "  ", "- ",
            "#", "\t", "\U0001F600", "\u00e9", "FSDP", "TP", "nope", "*a", "&a",
            "match: 'x'\n", "  - match: '.*'\n    spec: Replicated\n",
            "# shardc: ignore[SHD112]\n", "rules:\n", "extends: [base.yaml]\n",
            "(", "\\", "|", "!!int", "null", "0", "axes: {dp: 2}\n", "---\n"]


def random_edits(seed, count, every, case):
    """Edits of three buffers; `every` so many the findings are compared with
    those of `check` over the same texts, saved elsewhere by the same name."""
    draw = random.Random(seed)
    files = {"rules.yaml": RULES, "base.yaml": BASE, "mesh.yaml": MESH}
    client = case.start()
    uris = {name: case.open(name) for name in files}
    compared = 0
    before = 0
    for step in range(count):
        name = draw.choice(list(files))
        uri = uris[name]
        text = client.texts[uri][1]
        if draw.random() < 0.15 or len(text) > 4000:
            client.put(uri, files[name])
        else:
            begin = draw.randint(0, len(text))
            end = min(len(text), begin + draw.choice([0, 0, 0, 1, 1, 3, 20]))
            # No position is between the two bytes of a line's break.
            while 0 < begin < len(text) and text[begin - 1:begin + 1] == "\r\n":
                begin -= 1
            while 0 < end < len(text) and text[end - 1:end + 1] == "\r\n":
                end += 1
            client.edit(uri, begin, max(begin, end),
                        draw.choice(SNIPPETS + [""] * 6))
        if draw.random() < 0.2:
            where = client.position(uri, draw.randint(
                0, len(client.texts[uri][1])))
            asked = {"textDocument": {"uri": uri}, "position": where,
                     "range": {"start": where, "end": where}, "context": {}}
            client.ask("textDocument/" + draw.choice(
                ["hover", "completion", "definition", "documentSymbol",
                 "codeAction"]), asked)
        if step == 50:
            before = memory(client)
        if step % every == every - 1:
            for each in uris.values():
                client.findings(each)
            compared += 1
            compare(case, client, uris, step)
    if not driver.is_sanitized():
        case.assertLess(memory(client), before + (32 << 20))
    return compared


def memory(client):
    """Bytes of the server that are in memory."""
    with open(f"/proc/{client.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


LEVELS = {1: "error", 2: "warning", 3: "note"}


def told(code, level, line, message):
    """What two tellings of a finding have in common."""
    return code, level, line, message.split("\n")[0].split(" (in target")[0]


def alone(name, path):
    """The codes of a file that no target reads."""
    kind = "mesh" if name == "mesh.yaml" else "rules"
    result = driver.run(kind, "--" + kind, path, "--quiet")
    return set(re.findall(r"\[(SHD\d+) ", result.err))


def compare(case, client, uris, step):
    """The server reports for its buffers what `check` reports for files."""
    for name, uri in uris.items():
        case.write(name, client.texts[uri][1])
    project = os.path.join(case.folder, "shardc.yaml")
    checked = driver.run("check", "--project", project, "--format", "json",
                         "--quiet", cwd=case.folder)
    found = checked.json()
    for name, uri in uris.items():
        path = os.path.join(case.folder, name)
        wanted = sorted(told(one["code"], one["level"], one["line"] or 1,
                             one["message"])
                        for one in found
                        if os.path.normpath(one["file"]) == path)
        seen = sorted(told(one["code"], LEVELS[one["severity"]],
                           one["range"]["start"]["line"] + 1, one["message"])
                      for one in client.found[uri])
        if checked.rc == 2:
            # `check` stops at these; the server goes on without their entries.
            more = list(seen)
            for one in wanted:
                case.assertIn(one, more, f"step {step}, {name}")
                more.remove(one)
        elif seen and not wanted:
            case.assertLessEqual(alone(name, path), {one[0] for one in seen},
                                 f"step {step}, {name} alone")
        else:
            case.assertEqual(seen, wanted, f"step {step}, {name}")


class RandomEdits(Files):
    def test_no_finding_is_stale(self):
        count = int(os.environ.get("SHARDC_LSP_EDITS", "150"))
        self.assertTrue(random_edits(
            int(os.environ.get("SHARDC_LSP_SEED", "1")), count, 3, self))


if __name__ == "__main__":
    unittest.main()
