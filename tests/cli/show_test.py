"""`shardc show`: its drawings agree with the plan, and fit the terminal."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import tempfile
import termios
import unittest

from driver import BIN, MODELS, Case, run

LLAMA = ["--no-project", "--rules", "builtin:llama", "--manifest",
         os.path.join(MODELS, "llama-3-8b.hf.manifest.json")]
MESH = ["--mesh", "dp:2,fsdp:8,tp:4", "--processes", "8"]
PARAM = "model.layers.0.mlp.up_proj.weight"


def on_terminal(*arguments, columns=80, env=None):
    """What is printed on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ,
                struct.pack("HHHH", 24, columns, 0, 0))
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color",
                   **(env or {})}
    with subprocess.Popen([BIN, *arguments], stdout=theirs,
                          stderr=subprocess.DEVNULL, env=environment) as child:
        os.close(theirs)
        out = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:
                break
            if not piece:
                break
            out += piece
        child.wait()
    os.close(ours)
    return out.decode().replace("\r\n", "\n")


class Show(Case):
    def show(self, *arguments, rc=0, **more):
        return self.check(run("show", *arguments, **more), rc).out

    def test_the_json_has_the_shards_that_are_drawn(self):
        inputs = [*LLAMA, *MESH]
        layout = json.loads(self.show("layout", PARAM, *inputs, "--format",
                                      "json"))
        self.assertEqual(layout["title"][:2], [PARAM, "[14336, 4096]"])
        plan = self.check(run("plan", *inputs), 0).json()
        held = sorted(device for shard in layout["shards"]
                      for device in shard["devices"])
        self.assertEqual(held, list(range(64)))
        for shard in layout["shards"]:
            self.assertEqual(
                [end - begin for begin, end in shard["ranges"]],
                plan["params"][PARAM]["shard_shape"])
            self.assertEqual(len(shard["devices"]), layout["copies"])
        cache = json.loads(self.show("kv", *inputs, "--batch", "64", "--kv-len",
                                     "4096", "--format", "json"))
        self.assertEqual({device for shard in cache["shards"]
                          for device in shard["devices"]}, set(range(64)))

    def test_the_json_of_memory_is_what_cost_prints(self):
        inputs = [*LLAMA, *MESH, "--batch", "64", "--seq", "4096"]
        shown = json.loads(self.show(*inputs, "--format", "json"))
        self.assertEqual(shown["mesh"]["devices"], 64)
        self.assertEqual(sum(rule["parameters"]
                             for rule in shown["coverage"]["rules"]), 291)
        for mode in shown["memory"]["modes"]:
            cost = run("cost", *inputs, "--mode", mode["name"], "--format",
                       "json").json()["memory"]
            for part in ("parameters", "gradients", "optimizer"):
                self.assertEqual(mode[part], cost[part], mode["name"])

    def test_a_plan_may_lack_the_specs_of_attention_of_a_mode(self):
        plan = self.check(run("plan", *LLAMA, "--mesh", "tp:2"), 0).json()
        del plan["attention"]["decode"]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "p.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(plan, file)
            done = self.check(run("show", "kv", "--plan", path, "--batch",
                                  "4", "--kv-len", "64", "--allow-edited"), 2)
        self.assertIn("the plan has no attention specs for mode decode",
                      done.err)

    def test_every_device_is_drawn_as_often_as_it_holds_a_piece(self):
        for naming, name in (("dp:2,fsdp:8,tp:4", PARAM),
                             ("fsdp:2,tp:8", "lm_head.weight"),
                             ("dp:2,fsdp:2,tp:2,sp:2",
                              "model.layers.3.self_attn.o_proj.weight")):
            text = self.show("layout", name, *LLAMA, "--mesh", naming)
            cells = [line for line in text.split("\n") if "│" in line]
            numbers = [int(number) for line in cells
                       for number in re.findall(
                           r"\d+", line.split("│", 1)[1])]
            devices = 1
            for size in re.findall(r"\d+", naming):
                devices *= int(size)
            self.assertEqual(sorted(numbers), list(range(devices)))

    def test_dimensions_that_a_parameter_lacks_are_refused(self):
        for name, dims, remedy in (
                ("model.norm.weight", "0,1", "leave out `--dims`"),
                (PARAM, "0,2", "give rows and columns, such as `--dims 0,1`")):
            done = run("show", "layout", name, *LLAMA, *MESH, "--dims", dims)
            self.assertIn(remedy, self.check(done, 2).err)

    def test_inputs_and_their_plan_give_the_same_picture(self):
        # Experts are placed, and names are no plain text.
        params = [
            {"name": f"layers.{layer}.{name}.weight", "shape": shape,
             "dtype": "BF16"}
            for layer in range(3)
            for name, shape in [("norm", [64]), ("q\u00e9", [65, 64]),
                                *((f"experts.{expert}.w{part}", [64, 32])
                                  for expert in range(16) for part in (1, 2))]]
        with tempfile.TemporaryDirectory() as folder:
            def path(name):
                return os.path.join(folder, name)
            with open(path("manifest.json"), "w") as file:
                json.dump({"schema": "shardc.manifest/v1", "params": params},
                          file)
            with open(path("rules.yaml"), "w") as file:
                file.write("""version: 1
separator: "."
weight_decay: {exclude: [norm]}
policy: {illegal: shrink}
rules:
  - match: 'experts\\.(\\d+)\\.w1'
    spec: [fsdp, null]
    place: {axis: ep, index: 'experts\\.(\\d+)\\.'}
  - {match: norm, spec: [null]}
  - {match: '.*', spec: [fsdp]}
""")
            inputs = ["--no-project", "--mesh", "fsdp:4,ep:8", "--rules",
                      path("rules.yaml"), "--manifest", path("manifest.json")]
            self.check(run("plan", *inputs, "-o", path("plan.json")), 0)
            # The roles of some matrices are not known.
            self.assertEqual(self.show("memory", *inputs, rc=1),
                             self.show("memory", "--plan", path("plan.json"),
                                       rc=1))
            self.assertEqual(
                self.check(run("diff", path("plan.json"), *inputs), 0).out,
                "no difference\n")
            page = self.check(run("report", *inputs, "--base",
                                  path("plan.json")), 0).out
            self.assertIn("no changes", page)

    def test_no_line_is_wider_than_asked(self):
        for width in (60, 80, 120):
            for what in (["layout", PARAM], ["mesh"], ["rules"],
                         ["kv", "--batch", "64"],
                         ["memory", "--memory", "80GiB"]):
                mesh = ["--mesh", "dp:4,fsdp:16,tp:32", "--processes", "256"]
                for ascii_only in ([], ["--ascii"]):
                    inputs = [] if what == ["mesh"] else LLAMA
                    text = self.show(*what, *inputs, *mesh, *ascii_only,
                                     "--width", str(width))
                    lines = text.split("\n")
                    wide = [line for line in lines if len(line) > width
                            and "model." not in line]
                    self.assertEqual(wide, [], (what, width))
                    self.assertTrue(all(line == line.rstrip()
                                        for line in lines))
                    if ascii_only:
                        self.assertTrue(text.isascii())

    def test_elsewhere_than_on_a_terminal_nothing_changes_the_bytes(self):
        first = self.show("mesh", *MESH)
        for env in ({"LC_ALL": "C"}, {"COLUMNS": "200"},
                    {"TERM": "dumb"}, {"LANG": "de_DE.ISO-8859-1"}):
            self.assertEqual(self.show("mesh", *MESH, env=env), first)

    def test_a_terminal_has_its_width_its_characters_and_colour(self):
        plain = self.show("mesh", *MESH)
        utf8 = {"LC_ALL": "C.UTF-8"}
        text = on_terminal("show", "mesh", *MESH, env=utf8)
        self.assertIn("\x1b[38;5;32mfsdp\x1b[0m", text)
        bare = re.sub(r"\x1b\[[\d;]*m", "", text)
        self.assertEqual(bare, plain)
        self.assertEqual(on_terminal("show", "mesh", *MESH,
                                     env={**utf8, "NO_COLOR": "1"}), plain)
        narrow = on_terminal("show", "mesh", *MESH, columns=60,
                             env={**utf8, "NO_COLOR": "1"})
        self.assertEqual(narrow, self.show("mesh", *MESH, "--width", "60"))
        ascii_only = on_terminal("show", "mesh", *MESH,
                                 env={"LC_ALL": "C", "NO_COLOR": "1"})
        self.assertEqual(ascii_only, self.show("mesh", *MESH, "--ascii"))

    def test_hostile_names_drive_no_terminal(self):
        name = "a.\u202e.\u200b." + "n" * 10000
        with tempfile.TemporaryDirectory() as folder:
            manifest = os.path.join(folder, "m.json")
            with open(manifest, "w", encoding="utf-8") as file:
                json.dump({"schema": "shardc.manifest/v1", "params": [
                    {"name": name, "shape": [8], "dtype": "F32"}]}, file)
            rules = os.path.join(folder, "r.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nrules:\n"
                           "  - {match: '.*', spec: [tp]}\n")
            inputs = ["--no-project", "--mesh", "tp:4", "--rules", rules,
                      "--manifest", manifest]
            text = self.show("layout", name, *inputs)
            self.assertNotIn("\u200b", text)
            self.assertNotIn("\u202e", text)
            self.show("rules", *inputs)

    def test_a_large_mesh_and_a_large_plan_are_drawn_at_once(self):
        text = self.show("mesh", "--mesh", "dp:64,fsdp:64,tp:64")
        self.assertLess(len(text.split("\n")), 40)
        text = self.show(
            "rules", "--no-project", "--mesh", "dp:4,fsdp:8,ep:64", "--rules",
            "auto", "--manifest",
            os.path.join(os.path.dirname(MODELS), "corpus", "manifests",
                         "deepseek-v3.hf.manifest.json.gz"))
        self.assertIn("experts", text)


if __name__ == "__main__":
    unittest.main()
