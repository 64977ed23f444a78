"""The first minutes with shardc: its messages when it is called wrongly."""

import json
import os
import re
import tempfile
import unittest

import driver
from driver import Case, ROOT, run

PACK = os.path.join(ROOT, "rules", "llama.hf.yaml")
PROJECT = os.path.join(ROOT, "examples", "llama3-8b", "shardc.yaml")


class Usage(Case):
    def test_alone_it_shows_a_quick_start_and_fails(self):
        result = self.check(run(), 2)
        self.assertEqual(result.out, "")
        for command in ("shardc plan", "shardc check", "shardc explain",
                        "shardc verify", "shardc -h"):
            self.assertIn(command, result.err)

    def test_help_and_version_in_every_spelling(self):
        version = self.check(run("--version"), 0).out
        for words in (["-V"], ["version"]):
            self.assertEqual(self.check(run(*words), 0).out, version)
        top = self.check(run("--help"), 0).out
        self.assertEqual(self.check(run("help"), 0).out, top)
        plan = self.check(run("plan", "--help"), 0).out
        self.assertEqual(self.check(run("help", "plan"), 0).out, plan)
        self.assertIn("did you mean `plan`?",
                      self.check(run("help", "plam"), 2).err)

    def test_help_fits_80_columns(self):
        names = [[name] for name in driver.commands()]
        self.assertGreater(len(names), 20)
        for words in ([], *names, ["verify", "step"]):
            for line in self.check(run(*words, "--help"), 0).out.splitlines():
                self.assertLessEqual(len(line), 80, line)

    def test_short_help_is_one_screen_of_what_most_need(self):
        with open(os.path.join(ROOT, "man", "commands.json"),
                  encoding="utf-8") as file:
            commands = json.load(file)
        self.assertGreater(len(commands), 30)
        for command in commands:
            name = command["name"].split()
            text = self.check(run(*name, "-h"), 0).out
            lines = text.splitlines()
            with self.subTest(command=name):
                self.assertLessEqual(len(lines), 30)
                self.assertLessEqual(max(map(len, lines)), 80)
                self.assertEqual(lines[0], command["summary"])
                self.assertTrue(lines[1].startswith(
                    f"Usage: shardc {command['name']}"))
                example = command["example"].split("\n")[0]
                flat = " ".join(text.replace("\\\n", " ").split())
                self.assertIn("Example: " + " ".join(
                    example.replace("\\", " ").split()), flat)
                self.assertEqual(lines[-1].split("` describes")[0],
                                 f"`shardc {command['name']} --help")
                shown = set(re.findall(r"(?m)^  (?:-\w,)?(--[a-z0-9-]+)", text))
                brief = {one["name"] for one in command["options"]
                         if "brief" in one and one["name"].startswith("-")}
                self.assertEqual(shown, brief)
                whole = self.check(run(*name, "--help"), 0).out
                self.assertIn("-h prints the options that most users need",
                              " ".join(whole.split()))
                self.assertGreaterEqual(len(whole.splitlines()), len(lines))

    def test_short_help_has_what_a_first_run_needs(self):
        for words, options in [
                ("cost", "--mesh --rules --model --batch --seq --profile"),
                ("search", "--devices --model --profile --batch --serve --ttft"),
                ("plan", "--mesh --rules --manifest --output --write-locked"),
                ("check", "--select --ignore --fail-on --locked --format"),
                ("report", "--plan --output"),
                ("checkpoint split", "--checkpoint --plan --output --dry-run"),
                ("import", "--mesh-output --set"),
                ("suggest", "--devices --model --program --force")]:
            text = self.check(run(*words.split(), "-h"), 0).out
            for option in options.split():
                self.assertRegex(text, rf"(?m)^  (-\w,)?{option} ")
        for words in ("import", "export"):
            self.assertIn("torchtitan", self.check(run(words, "-h"), 0).out)

    def test_short_help_of_the_program_names_every_command(self):
        lines = self.check(run("-h"), 0).out.splitlines()
        self.assertLessEqual(len(lines), 30)
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertIn("`shardc --help`", "\n".join(lines))
        for name in driver.commands():
            self.assertTrue(any(re.search(rf"(^|[ ,]){name}($|[ ,])", line)
                                for line in lines), name)

    def test_help_is_grouped(self):
        for command in ("plan", "check", "explain"):
            text = self.check(run(command, "--help"), 0).out
            places = [text.index("\n" + heading + ":\n") for heading in
                      ("Inputs", "Compiling", "Every command")]
            self.assertEqual(places, sorted(places))
            self.assertGreater(text.index("  -h,--help"), places[-1])
            self.assertLess(text.index("  --mesh "), places[1])

    def test_files_are_taken_without_their_options(self):
        config = os.path.join(ROOT, "testdata", "configs",
                              "llama-3.2-1b.config.json")
        with tempfile.TemporaryDirectory() as folder:
            plan = os.path.join(folder, "p.json")
            self.check(run("plan", "--no-project", "--mesh", "fsdp:4,tp:2",
                           "--rules", "auto", "--model", config, "-o", plan), 0)
            other = os.path.join(folder, "q.json")
            self.check(run("plan", "--no-project", "--mesh", "tp:8", "--rules",
                           "auto", "--model", config, "-o", other), 0)
            for words, same in [
                    (["show", "memory", plan],
                     ["show", "memory", "--plan", plan]),
                    (["show", plan, "kv"], ["show", "kv", "--plan", plan]),
                    (["show", plan], ["show", "--plan", plan]),
                    (["show", "layout", plan, "model.norm.weight"],
                     ["show", "layout", "model.norm.weight", "--plan", plan]),
                    (["cost", plan], ["cost", "--plan", plan]),
                    (["kv", plan, plan], ["kv", "--from", plan, "--to", plan]),
                    (["kv", plan, other],
                     ["kv", "--from", plan, "--to", other]),
                    (["kv", "--from", other, plan],
                     ["kv", "--from", other, "--to", plan]),
                    (["export", "jax", plan], ["export", "jax", "--plan", plan]),
                    (["export", plan, "jax"], ["export", "jax", "--plan", plan]),
                    (["report", plan, "--format", "json"],
                     ["report", "--plan", plan, "--format", "json"])]:
                with self.subTest(words=words[:2]):
                    got, wanted = run(*words), run(*same)
                    self.assertEqual((got.rc, got.out, got.err),
                                     (wanted.rc, wanted.out, wanted.err))
                    self.assertIn(got.rc, (0, 1), got.err)

    def test_a_mistyped_flag_gets_the_nearest(self):
        for words, said in [
                (["plan", "--manifst", "m.json"], "did you mean `--manifest`?"),
                (["check", "--lockd"], "did you mean `--locked`?"),
                (["plan", "--mode", "train"], "did you mean `--modes`?"),
                (["verify", "--modes", "train"], "did you mean `--mode`?"),
                (["verify", "--operations=ring"], "`--operation`?"),
                (["plan", "--locked"], "`shardc check` has it")]:
            result = self.check(run(*words), 2)
            self.assertIn(said, result.err)
            self.assertNotIn("not expected", result.err)

    def test_names_of_other_programs_get_those_of_shardc(self):
        for words, said in [
                (["lint"], "did you mean `shardc check`?"),
                (["Validate"], "did you mean `shardc check`?"),
                (["fmt"], "did you mean `shardc check --fix`?"),
                (["autotune"], "did you mean `shardc search`?"),
                (["cost", "--sequence-length", "8"], "did you mean `--seq`?"),
                (["cost", "--seq_length=8"], "did you mean `--seq`?"),
                (["cost", "--global-batch-size", "8"],
                 "did you mean `--batch`?"),
                (["cost", "--zero-stage", "1"], "did you mean `--zero`?"),
                (["cost", "--kv_cache_dtype", "fp8"],
                 "did you mean `--kv-dtype`?"),
                (["search", "--world-size", "8"], "did you mean `--devices`?"),
                (["plan", "--tensor-model-parallel-size", "8"],
                 "write it as an axis of the mesh: `--mesh tp:N`"),
                (["cost", "--profile", "h100", "--mesh", "tp:2", "--rules",
                  "auto", "--manifest", "m.json"],
                 "did you mean `h100-sxm`?")]:
            with self.subTest(words=words):
                self.assertIn(said, self.check(run(*words), 2).err)

    def test_stages_of_zero_in_words_of_other_programs(self):
        got = self.check(run(
            "cost", "--no-project", "--mesh", "fsdp:8", "--rules", "auto",
            "--model", os.path.join(ROOT, "testdata", "configs",
                                    "llama-3-8b.config.json"),
            "--batch", "8", "--seq", "128", "--zero", "stage3"), 2)
        self.assertIn("`stage3` is no stage of ZeRO", got.err)
        self.assertIn("write `3`", got.err)

    def test_each_of_these_names_is_a_command_or_an_option(self):
        path = os.path.join(ROOT, "src", "cli", "stray.cc")
        with open(path, encoding="utf-8") as file:
            tables = file.read().split("kOtherCommands[]")[1]
        rows = re.findall(r'\{"([\w-]+)", "([\w -]+)"\}',
                          tables.split("OwnName(")[0])
        self.assertGreater(len(rows), 70)
        helps = run("--help").out
        options = "".join(run(*command.split(), "--help").out
                          for command in ("plan", "cost", "search", "check",
                                          "schedule", "checkpoint split"))
        for other, own in rows:
            with self.subTest(other=other):
                if own.startswith("--"):
                    self.assertRegex(options, rf"[ ,]{own}\b")
                    self.assertNotRegex(options, rf"[ ,]{other}\b(?!-)")
                elif not other.startswith("--"):
                    self.assertRegex(helps, rf"(?m)^  {own.split()[0]} ")
                    self.assertNotRegex(helps, rf"(?m)^  {other} ")

    def test_a_name_of_the_hub_is_no_path(self):
        err = self.check(run("plan", "--mesh", "tp:2", "--rules", "auto",
                             "--model", "meta-llama/Llama-3.1-8B"), 2).err
        self.assertIn("`hf download meta-llama/Llama-3.1-8B config.json`", err)
        err = self.check(run("plan", "--mesh", "tp:2", "--rules", "auto",
                             "--model", "no-folder/config.json"), 2).err
        self.assertNotIn("hf download", err)

    def test_a_plan_of_a_newer_version_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "p.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"schema": "shardc.plan/v9"}')
            err = self.check(run("diff", path, path), 2).err
            self.assertIn("this plan has the schema `shardc.plan/v9`", err)
            self.assertIn("a newer shardc wrote it", err)

    def test_a_spec_as_in_python_is_shown_as_a_list(self):
        for text, spec in [("P(\"tp\")", "[tp]"),
                           ("P(('fsdp', 'sp'), None)", "[[fsdp, sp], null]"),
                           ("PartitionSpec(None, 'tp')", "[null, tp]"),
                           ("f('tp')", "[[FSDP, SP], TP]")]:
            with self.subTest(text), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "r.yaml")
                with open(path, "w", encoding="utf-8") as file:
                    file.write("version: 1\nrules:\n  - match: a\n"
                               f"    spec: {text}\n")
                err = self.check(run("show", "rules", "--rules", path), 2).err
                self.assertIn(f"write the spec as a list, such as `{spec}`",
                              err)

    def test_errors_without_a_file_point_at_the_command_line(self):
        for words, column, marked in [
                (["plan"], 8, "plan"),
                (["plan", "--batch", "x"], 13, "--batch"),
                (["verify", "--cases=0"], 15, "--cases"),
                (["export", "jacks"], 15, "jacks"),
                (["check", "--select", "SHD105,SHD10", "--mesh", "tp:2",
                  "--rules", "auto"], 30, "SHD10"),
                (["schema", "a b"], 16, "a b"),
                (["schema", "a\nb'c"], 15, "'a\\x0ab'\\''c'")]:
            with self.subTest(words=words):
                result = self.check(run(*words), 2)
                lines = result.err.splitlines()
                at = lines.index(f"  --> <command line>:1:{column}")
                source, marks = lines[at + 2][5:], lines[at + 3][5:]
                self.assertTrue(source.startswith("shardc " + words[0]))
                self.assertEqual(source[column - 1:][:len(marked)], marked)
                self.assertTrue(set(marks.strip()) == {"^"})
                self.assertEqual(len(marks) - len(marks.lstrip()), column - 1)

    def test_options_after_two_dashes_are_arguments(self):
        for words, column in ((["explain", "--", "w", "--mesh", "tp:2"], 16),
                              (["plan", "--", "--mesh", "tp:2"], 13)):
            result = self.check(run(*words), 2)
            self.assertIn("the words after `--` are arguments, and", result.err)
            self.assertIn(f"--> <command line>:1:{column}\n", result.err)

    def test_an_empty_value_is_reported(self):
        """That of a shell variable that is not set, for example."""
        for words, named in [
                (["plan", "--rules", ""], "--rules"),
                (["plan", "-o", ""], "--output"),
                (["plan", "--modes", ""], "--modes"),
                (["check", "--memory", "", "--mesh", "tp:2"], "--memory"),
                (["cost", "--batch", ""], "--batch"),
                (["eval", "silu", "--input", ""], "--input"),
                (["schema", ""], "NAME")]:
            with self.subTest(words=words):
                result = self.check(run(*words), 2)
                self.assertEqual(result.out, "")
                self.assertIn(f"{named}: its value is empty", result.err)
                self.assertIn("--> <command line>:1:", result.err)

    def test_values_that_are_missing_or_too_many(self):
        for words, column, message in [
                (["plan", "--mesh"], 13, "`--mesh` has no value"),
                (["check", "--select"], 14, "`--select` has no value"),
                (["plan", "--mesh", "dp:2", "--mesh", "dp:4"], 13,
                 "`--mesh` is given more than once"),
                (["plan", "--quiet=x"], 13, "`--quiet` takes no value `x`"),
                (["--quiet", "plan"], 8, "`--quiet` stands before the end of "
                 "the command `plan`")]:
            with self.subTest(words=words):
                result = self.check(run(*words), 2)
                self.assertIn(f"usage]: {message}\n", result.err)
                self.assertIn(f"--> <command line>:1:{column}\n", result.err)

    def test_a_file_without_its_flag_gets_the_flag(self):
        with tempfile.TemporaryDirectory() as folder:
            def write(name, text):
                path = os.path.join(folder, name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                return path

            files = [
                ("plan", PACK, "--rules", True),
                ("plan", "builtin:gpt2", "--rules", True),
                ("plan", "auto", "--rules", True),
                ("check", PROJECT, "--project", True),
                ("check", "dp:2,tp:4", "--mesh", True),
                ("show mesh", "fsdp:8", "--mesh", True),
                ("show mesh", write("pod.yaml", "axes: {dp: 2}\n"), "--mesh",
                 True),
                ("plan", write("c.json", '{"model_type": "llama"}'), "--model",
                 True),
                ("plan", write("a.safetensors", "x"), "--manifest", True),
                # What could be something else is only suggested.
                ("plan", write("axes.yaml", "axes: {head: tp}\n"), "--mesh",
                 False),
                ("plan", write("m.json", '{"params": []}'), "--manifest",
                 False),
                ("checkpoint split", write("b.safetensors", "x"),
                 "--checkpoint", False),
                ("plan", folder, "--manifest", False),
            ]
            for command, word, flag, sure in files:
                with self.subTest(word=word):
                    needed = (["--output", folder, "--plan", "p", "--checkpoint",
                               "c"] if command == "checkpoint split" else [])
                    done = run(*command.split(), *needed, word)
                    if sure:
                        self.assertEqual(
                            (done.rc, done.err.split("\n")[0]),
                            (lambda one: (one.rc, one.err.split("\n")[0]))(
                                run(*command.split(), *needed, flag, word)))
                        self.assertNotIn("unexpected", done.err)
                        continue
                    result = self.check(done, 2)
                    self.assertIn(f"help: write `{flag} {word}`", result.err)
            # One that takes no such file shows its options.
            self.assertIn("`shardc checkpoint merge --help`", self.check(
                run("checkpoint", "merge", "d", "--output", "o", PACK), 2).err)

    def test_commands_of_two_words_and_kinds_of_a_search(self):
        search = ["search", "--no-project", "--devices", "4"]
        shown = ["show", "rules", "--no-project", "--mesh", "tp:2"]
        for words, message in (
                (["checkpoint"], "`checkpoint` is the first of two words"),
                ([*search, "--all", "--serve"],
                 "`--all` and `--serve` exclude each other"),
                ([*search, "--all", "--keep", "mesh"],
                 "`--keep` is for training steps"),
                ([*search, "--axes", "tp"],
                 "`--axes` is for the table of every mesh"),
                ([*search, "--all", "--format", "html"],
                 "`--all` writes no page"),
                ([*shown, "--all-names"], "the parameters that rules won are "
                 "drawn, and `--all-names` is for rules alone"),
                (["example", "lama3-8b", "x"], "`lama3-8b` is not an example"),
                (["example", "llama3-8b"], "no folder is given"),
                (["fit"], "`fit` is not a shardc command"),
                (["mesh"], "`mesh` is not a shardc command")):
            with self.subTest(words=words):
                result = self.check(run(*words), 2)
                self.assertIn(message, result.err)
                self.assertIn("= help: ", result.err)
        self.assertIn("`shardc show mesh`", run("mesh").err)
        self.assertIn("`shardc checkpoint split`", run("split").err)

    def test_an_example_is_a_project_with_a_mistake(self):
        for name, code in (("llama3-8b", "SHD105"), ("qwen3-moe", "SHD101")):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "new")
                self.assertIn(name, self.check(run("example"), 0).out)
                self.check(run("example", name, path), 0)
                found = run("check", "--format", "json", cwd=path).json()
                self.assertIn(code, {one["code"] for one in found})
                again = self.check(run("example", name, path), 2)
                self.assertIn("shardc.yaml", again.err)
                self.check(run("cost", cwd=path), 1 if "moe" in name else 0)

    def test_axes_and_packs_written_nearly_right(self):
        for word, axes in [("tp8", "tp:8"), ("dp2,fsdp16", "dp:2,fsdp:16")]:
            result = self.check(run("show", "mesh", "--mesh", word), 2)
            self.assertIn(f"axes are written `{axes}`", result.err)
        for word in ("tp", "8", "8tp", "tp8.yaml"):
            result = self.check(run("show", "mesh", "--mesh", word), 2)
            self.assertNotIn("axes are written", result.err)
        result = self.check(run("show", "rules", "--rules", "llama/hf"), 2)
        self.assertIn("the pack is written `builtin:llama/hf`", result.err)

    def test_lists_take_commas_and_words(self):
        mesh = ["verify", "--mesh", "tp:2", "--attention",
                "heads=4,kv_heads=2,head_dim=8", "--dtype", "float32",
                "--layout", "bthd", "--format", "json", "--features", "none"]
        runs = [["--mode", "train,decode", "--operation", "ring,sdpa"],
                ["--mode", "train", "decode", "--operation", "ring", "sdpa"],
                ["--mode", "train, decode", "--operation", "ring",
                 "--operation", "sdpa"]]
        shown = [run(*mesh, *more) for more in runs]
        self.assertGreater(len(shown[0].json()["cases"]), 1)
        self.assertEqual({result.out for result in shown}, {shown[0].out})
        inputs = ["--mesh", "tp:2", "--rules", "auto", "--manifest",
                  "no-such.json"]
        by_commas = run("plan", *inputs, "--modes", "train,decode")
        by_words = run("plan", *inputs, "--modes", "train", "decode")
        self.assertEqual(by_commas.err, by_words.err)
        # Where an argument may follow, a word ends the list.
        result = run("explain", *inputs, "--modes", "train", "a.b")
        self.assertIn("no-such.json", result.err)
        self.assertNotIn("mode", result.err)

    def test_a_size_takes_every_usual_unit_and_needs_one(self):
        inputs = ["check", "--mesh", "tp:2", "--rules", "auto", "--manifest",
                  os.path.join(ROOT, "no-such.json")]
        for text in ("80G", "80Gi", "80GB", "80GiB", "85899345920"):
            self.assertNotIn("--memory", run(*inputs, "--memory", text).err)
        for text in ("80", "1048575"):
            result = self.check(run(*inputs, "--memory", text), 2)
            self.assertIn(f"`--memory` is `{text}`, of what unit?", result.err)

    def test_output_has_one_spelling_everywhere(self):
        for command in ("plan", "check", "import", "checkpoint split",
                        "checkpoint merge", "checkpoint reshard"):
            text = self.check(run(*command.split(), "--help"), 0).out
            self.assertRegex(text, r"\n  -o,--output ")


if __name__ == "__main__":
    unittest.main()
