"""`shardc lsp`: diagnostics of texts as they are in an editor's buffers, and
the actions that correct them."""

import json
import os
import unittest

import driver
from lsp_client import uri_of
from lsp_files import PROJECT, RULES, Files, manifest


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
                         "Match the pattern only at the end of a word (changes specs)")
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

    def test_what_would_not_be_yaml_is_not_offered(self):
        self.write("shardc.yaml",
                   PROJECT + "lint: {select: [SHD116, SHD105]}\n")
        rest = "rules:\n  - {match: '.', spec: Used}\n"
        client = self.start()
        uri = self.open("rules.yaml", rest)
        for rules in ("bundles:\n  Unused: [\n    tp\n  ]\n  Used: [tp]\n" + rest,
                      "bundles: {\n  Unused: [tp] }\nrules: []\n",
                      "bundles:\n  Unused: &a [tp]\n  Used: *a\n" + rest,
                      "bundles: {Used: [tp]}\nrules:\n  - match: gone\n"
                      "    spec: &s [tp]\n  - {match: '.', spec: *s}\n"):
            client.put(uri, rules)
            client.codes(uri)
            for word in ("Unused", "gone"):
                for action in (client.actions(uri, word)
                               if word in rules else []):
                    self.assertFalse(action["title"].startswith("Remove"),
                                     rules)

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

    def test_a_fix_next_to_a_broken_rule_leaves_that_rule(self):
        client = self.start()
        broken = "  - match: 'q_proj'\n    spec: [TPP]  # typing\n"
        dead = "  - match: 'nothing$'\n    spec: [TP]\n"
        rest = "  - match: 'kernel|norm|embed'\n    spec: [TP]\n"
        head = "version: 1\nrules:\n"
        uri = self.open("rules.yaml", head + rest)
        ignore = "  # shardc: ignore[SHD105] the next model\n"
        for before, after in ((broken, ""), (ignore + broken, ""),
                              ("", broken),
                              ("", "  - {match: q_proj, spec: [TPP]}  # t\n")):
            text = head + before + dead + after + rest
            client.put(uri, text)
            self.assertIn("SHD105", client.codes(uri), text)
            for action in client.actions(uri, "nothing$"):
                if action["title"] != "Remove the rule":
                    continue
                client.apply(action)
                self.assertEqual(client.texts[uri][1],
                                 head + before + after + rest)

    def test_a_file_of_no_target(self):
        client = self.start()
        uri = self.open("alone.yaml", "version: 1\nrules:\n"
                        "  - match: '(a'\n    spec: [nope]\n"
                        "  - match: 'b\n    spec: [tp]\n"
                        "  - match: 'c$'\n    spec: [dp, TP]\n")
        self.assertEqual(client.codes(uri), ["SHD010", "SHD030"])
        self.assertIn("token `TP`", client.hover(uri, "TP]"))


if __name__ == "__main__":
    unittest.main()
