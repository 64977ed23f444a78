"""The work of each command grows with the size of its input, and not faster.

Work is the number of instructions that the program executes, counted by
valgrind. Unlike time, it is nearly the same in every run and on a machine that
is busy with something else. Each case runs at three sizes n, 2n and 4n. What
every run costs is left out by taking differences:

    exponent = log2((work(4n) - work(2n)) / (work(2n) - work(n)))

It is 1 for linear work, a little more if names are sorted, and 2 where every
rule is compared with every name. SHARDC_EVERY=1 runs every case, and
prints a table of all exponents; the ordinary tests run a part.
"""

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from driver import BIN, ROOT, TESTDATA, is_sanitized, one_in

sys.path.insert(0, os.path.join(ROOT, "bench"))
from names import word  # noqa: E402

LIMIT = 1.1
# Cases whose work grows faster than that today, with what they may reach.
FASTER = {("suggest", "attention"): 1.2}
# A run of `shardc --version` executes ten times as many instructions. Less
# growth between 2n and 4n is none.
LEAST_GROWTH = 500_000
EVERY = one_in(16)


class Inputs:
    """Writes the files of one size to a folder; functions return their paths."""

    def __init__(self, folder):
        self.folder = folder
        self.stdin = b""

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def manifest(self, shapes, name="manifest.json"):
        return self.write(name, json.dumps({
            "schema": "shardc.manifest/v1",
            "params": [{"name": one, "shape": shape, "dtype": "BF16"}
                       for one, shape in shapes]}))

    def loop(self, n):
        """A compiled program with a loop whose state is a tuple of n weights,
        each of which is gathered and changed in the loop."""
        state = "(s32[]" + n * ", f32[4,8]" + ")"
        groups = "replica_groups={{0,1}}, dimensions={0}"
        gathers = "".join(
            f"  %w.{i} = f32[4,8] get-tuple-element(%p), index={i + 1}\n"
            f"  %g.{i} = f32[8,8] all-gather(%w.{i}), {groups}\n"
            f"  %n.{i} = f32[4,8] negate(%w.{i})\n"
            for i in range(n))
        outputs = "".join(f", %n.{i}" for i in range(n))
        inputs = "".join(f", %a.{i}" for i in range(n))
        arguments = "".join(
            f"  %a.{i} = f32[4,8] parameter({i}), "
            "sharding={devices=[2,1]<=[2]}, "
            f"metadata={{op_name=\"p['layers_{i}']['w']\"}}\n"
            for i in range(n))
        return self.write("step.hlo.txt", f"""\
HloModule jit_step, is_scheduled=true, num_partitions=2

%cond (c: {state}) -> pred[] {{
  %c = {state} parameter(0)
  %ci = s32[] get-tuple-element(%c), index=0
  %ck = s32[] constant(4)
  ROOT %cl = pred[] compare(%ci, %ck), direction=LT
}}

%body (p: {state}) -> {state} {{
  %p = {state} parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
{gathers}  ROOT %t = {state} tuple(%i{outputs})
}}

ENTRY %main () -> {state} {{
{arguments}  %z = s32[] constant(0)
  %s = {state} tuple(%z{inputs})
  ROOT %r = {state} while(%s), condition=%cond, body=%body, backend_config={{"known_trip_count":{{"n":"4"}}}}
}}
""")

    def llama(self, n):
        """The n parameters of layers, which fold to four templates."""
        kinds = [("self_attn.q_proj", [64, 64]), ("self_attn.o_proj", [64, 64]),
                 ("mlp.gate_proj", [128, 64]), ("mlp.down_proj", [64, 128])]
        return self.manifest(
            [(f"model.layers.{i}.{kind}.weight", shape)
             for i in range(n // 4) for kind, shape in kinds])

    def distinct(self, n):
        """n parameters whose names fold to no template."""
        return self.manifest(
            [(f"block_{word(i)}.weight", [64, 64]) for i in range(n)])

    def indivisible(self, n):
        """`distinct` with sizes that are all different, half of them odd."""
        return self.manifest(
            [(f"block_{word(i)}.weight", [63, i + 1]) for i in range(n)])

    def blocks(self, n):
        """n parameters of blocks whose names have no numbers."""
        return self.manifest(
            [(f"layers.{word(i)}.self_attn.{part}.weight", [64, 64])
             for i in range(n // 2) for part in ("q_proj", "o_proj")])

    def experts(self, n):
        """n experts, of two parameters each, whose names have no numbers."""
        return self.manifest(
            [(f"layers.{word(i // 10)}.mlp.experts.{word(i)}.{part}.weight",
              [64, 64])
             for i in range(n) for part in ("up_proj", "down_proj")])

    def likes(self, n):
        """Rules in which each of n parameters has the spec of the next one."""
        return self.write("rules.yaml", 'version: 1\nrules:\n' + "".join(
            f"  - match: '^block_{word(i)}\\.weight$'\n"
            f"    spec: {{like: block_{word(i + 1)}.weight}}\n"
            for i in range(n - 1)) + "  - match: '.'\n    spec: [FSDP]\n")

    def logical(self, n):
        """n rules of logical axes, and n parameters with a name of one each."""
        names = self.write("names.json", json.dumps(
            {f"block_{word(i)}": [f"axis_{word(i)}", "embed"]
             for i in range(n)}))
        rules = self.write("rules.yml", "logical_axis_rules: [\n" + "".join(
            f"    ['axis_{word(i)}', 'tp'],\n" for i in range(n)) + "]\n")
        return [rules, "--names", names, "--mesh", "fsdp:4,tp:2"]

    def shapes_of_one_name(self, n):
        """n groups of parameters whose names differ only in numbers.

        No axis divides the sizes of every second one, which needs another rule.
        """
        return self.manifest(
            [(f"layers.{i}.mlp.up_proj.weight",
              [63, 8 * i + 1] if i % 2 else [64, 8 * (i + 1)])
             for i in range(n)])

    def rules(self, patterns, name="rules.yaml"):
        return self.write(name, 'version: 1\nseparator: "."\nrules:\n' + "".join(
            f"  - match: '{pattern}'\n    spec: [TP, FSDP]\n"
            for pattern in patterns))

    def ignored_rules(self, n):
        """n rules that match nothing, each below a comment that ignores this.

        The first is below n + 1 of these comments.
        """
        return self.write("rules.yaml", 'version: 1\nrules:\n'
                          + "  # shardc: ignore[SHD105]\n" * n
                          + "".join("  # shardc: ignore[SHD105]\n"
                                    f"  - match: 'head_{word(i)}$'\n"
                                    "    spec: [TP]\n" for i in range(n))
                          + "  - match: '.*'\n    spec: [TP]\n")

    def session(self, rules, method, params):
        """A session of the language server with one request about the rules."""
        project = {"version": 1, "targets": {"a": {
            "mesh": "fsdp:4,tp:2", "rules": ["rules.yaml"],
            "manifest": "manifest.json"}}}
        self.write("shardc.yaml", json.dumps(project))
        with open(rules) as file:
            text = file.read()
        document = {"uri": "file://" + rules}
        messages = [
            ("initialize", {"processId": None, "rootUri": None,
                            "capabilities": {}}),
            ("textDocument/didOpen", {"textDocument": {
                **document, "languageId": "yaml", "version": 1,
                "text": text}}),
            ("textDocument/" + method,
             {"textDocument": {**document, "version": 2}, **params}),
            ("shutdown", None), ("exit", None)]
        for number, (name, given) in enumerate(messages):
            message = {"jsonrpc": "2.0", "method": name}
            if name not in ("textDocument/didOpen", "textDocument/didChange",
                            "exit"):
                message["id"] = number
            if given is not None:
                message["params"] = given
            body = json.dumps(message).encode()
            self.stdin += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        return ["lsp"]

    def config(self, source, **changed):
        with open(os.path.join(TESTDATA, "configs",
                               source + ".config.json")) as file:
            return self.write("config.json",
                              json.dumps({**json.load(file), **changed}))

    def plan(self, n, mesh="fsdp:4,tp:2"):
        """The plan of `llama`, made by the program itself."""
        return self.plan_of(self.llama(n), "builtin:llama", mesh)

    def plan_of(self, manifest, rules, mesh="fsdp:4,tp:2", name="plan.json"):
        out = self.path(name)
        subprocess.run([BIN, "plan", "--manifest", manifest, "--mesh", mesh,
                        "--rules", rules, "--no-project", "-o", out],
                       check=True, capture_output=True)
        return out


ALL = "\\.weight$"
MESH = ["--mesh", "fsdp:4,tp:2"]


def of_four(number):
    """Twelve letters of only four, different for each number."""
    number = number * 123_457 % 4 ** 12
    return "".join("abcd"[number // 4 ** i % 4] for i in range(12))


def parameters(command, *more):
    return lambda files, n: [command, "--manifest", files.llama(n), *MESH,
                             "--rules", "builtin:llama", "--no-project", *more]


def of_plan(command, *more):
    return lambda files, n: [*command.split(), "--plan", files.plan(n), *more]


def distinct(command, *more):
    return lambda files, n: [*command.split(), "--manifest", files.distinct(n), *MESH,
                             "--rules", files.rules([ALL]), "--no-project",
                             *more]


def named_experts(command, *more):
    return lambda files, n: [command, "--manifest", files.experts(n), *MESH,
                             "--rules", files.rules([ALL]), "--no-project",
                             *more]


def dead_rules(command):
    """n rules that match nothing, and n names without a template."""
    return lambda files, n: [
        command, "--manifest", files.distinct(n), *MESH, "--no-project",
        "--rules", files.rules([f"head_{word(n + i)}\\.weight$"
                                for i in range(n)] + [ALL])]


def used_rules(command, *more):
    """A rule for each of n names."""
    return lambda files, n: [
        command, "--manifest", files.distinct(n), *MESH, "--no-project",
        "--rules", files.rules([f"block_{word(i)}\\.weight$"
                                for i in range(n)]), *more]


def rule_for_each_layer(command):
    """A rule for each of n layers, of four parameters each."""
    return lambda files, n: [
        command, "--manifest", files.llama(4 * n), *MESH, "--no-project",
        "--rules", files.rules([f"layers\\.{i}\\..*weight$"
                                for i in range(n)])]


def gaps(command):
    """n rules, all of which may still match after the first part of a name."""
    return lambda files, n: [
        command, "--manifest", files.distinct(n), *MESH, "--no-project",
        "--rules", files.rules(
            [f"(block|blick_{word(i)}).*{word(i)}.*weight$" for i in range(n)])]


def layers(command, *more):
    return lambda files, n: [
        *command.split(), "--model",
        files.config("llama-3-8b", num_hidden_layers=n), "--rules", "auto",
        "--no-project", *more]


def experts(command, *more):
    return lambda files, n: [
        *command.split(), "--model",
        files.config("mixtral-8x7b", num_hidden_layers=2, num_local_experts=n),
        "--rules", "auto", "--no-project", *more]


def devices(command, *more, mesh="fsdp:{},tp:4"):
    """Commands on a mesh of 4 n devices. Sizes of the model divide them all."""
    def arguments(files, n):
        model = files.config(
            "llama-3-8b", num_hidden_layers=2, hidden_size=65536,
            intermediate_size=131072, num_attention_heads=512,
            num_key_value_heads=8, vocab_size=131072)
        return [*command.split(), "--model", model, "--rules", "auto",
                "--no-project", "--mesh", mesh.format(n), *more]
    return arguments


def references(files, n):
    """The uses of a name in n rules."""
    files.distinct(n)
    return files.session(files.rules([f"block_{word(i)}" for i in range(n)]),
                         "references",
                         {"position": {"line": 4, "character": 11},
                          "context": {"includeDeclaration": True}})


def edits_of_one_line(files, n):
    """One change of a document with n edits, in a line of n rules."""
    files.distinct(8)
    text = json.dumps({"version": 1, "separator": ".", "rules": [
        {"match": f"block_{word(i)}", "spec": []} for i in range(n)]})
    rules = files.write("rules.yaml", text)
    at = [found.start() for found in re.finditer("block_", text)]
    return files.session(rules, "didChange", {"contentChanges": [
        {"text": "x", "range": {"start": {"line": 0, "character": one},
                                "end": {"line": 0, "character": one + 1}}}
        for one in at]})


def hints_in_one_line(files, n):
    files.distinct(n)
    rules = files.write("rules.yaml", json.dumps({
        "version": 1, "separator": ".",
        "rules": [{"match": f"block_{word(i)}", "spec": []}
                  for i in range(n)]}))
    return files.session(rules, "inlayHint", {"range": {
        "start": {"line": 0, "character": 0},
        "end": {"line": 1, "character": 0}}})


def tokens(files, n):
    """The map of a request whose tokens both sides shard differently."""
    plan = files.path("kv.json")
    subprocess.run(
        [BIN, "plan", "--no-project", "--mesh", "sp:8", "--rules", "auto", "--model",
         files.config("llama-3-8b", num_hidden_layers=2), "-q", "-o", plan], check=True)
    return ["kv", "--from", plan, "--to", plan, "--tokens", n, "--interleave", "16:7",
            "--page", "16:16"]


def named(command, names, *more):
    """Parameters of which `names` returns n, each with its shape. The rules shard some
    of their dimensions."""
    return lambda files, n: [
        *command.split(), "--manifest", files.manifest(names(n)), *MESH, "--no-project",
        *(["--force"] if command == "suggest" else
          ["--rules", files.write("rules.yaml", NAMED_RULES)]), *more]


NAMED_RULES = """version: 1
separator: "."
rules:
  - {match: '(q|k|v|qkv|up|gate|gate_up|in)_proj', spec: [TP, FSDP], illegal: drop}
  - {match: 'lora_A|norm|bias$|scales$', spec: []}
  - {match: 'weight$', spec: [FSDP, TP], illegal: drop}
  - {match: '.', spec: [], illegal: drop}
"""


def modules(count, text, **parts):
    """Names of n / count modules: `text` with a word, and the shape of each part."""
    return lambda n: [(text.format(word(i)) + part.replace("__", "."), shape)
                      for i in range(n // count) for part, shape in parts.items()]


SQUARE = [64, 64]
# Parameters whose names fold to no template, of modules that lints compare.
NAMED = {
    "attention": modules(4, "layers.{}.attn.", q_proj__weight=SQUARE,
                         k_proj__weight=SQUARE, v_proj__weight=SQUARE,
                         o_proj__weight=SQUARE),
    "fused attention": modules(2, "layers.{}.attn.", qkv_proj__weight=[96, 64],
                               o_proj__weight=SQUARE),
    "fused mlps": modules(2, "layers.{}.mlp.", gate_up_proj__weight=[256, 64],
                          down_proj__weight=[64, 128]),
    "biases": modules(2, "b_{}.", weight=SQUARE, bias=[64]),
    "quantised weights": modules(3, "b_{}.", qweight=[8, 64], scales=[2, 64],
                                 g_idx=[64]),
    "adapters": modules(3, "layers.{}.q_proj.", weight=SQUARE, lora_A__weight=[8, 64],
                        lora_B__weight=[64, 8]),
    "mixers": modules(4, "layers.{}.mixer.", in_proj__weight=[256, 64],
                      conv1d__weight=[128, 1, 4], A_log=[8], out_proj__weight=[64, 128]),
    "stacks": modules(2, "{}.", query__kernel=[12, 64, 64], norm__scale=[12, 64]),
    "matrices of one block": lambda n: [
        (f"layers.0.mlp.{word(i)}.weight", [8 * (i % 500 + 1), 64][::1 - i % 2 * 2])
        for i in range(n)],
    "towers": lambda n: [(f"{word(i)}_model.{part}.weight", SQUARE) for i in range(n // 2)
                         for part in ("layers.0.q_proj", "patch_embed")],
}


def alike_rules(command):
    """n rules that all match each of n names."""
    return lambda files, n: [
        command, "--manifest", files.distinct(n), *MESH, "--no-project", "--rules",
        files.rules([f"^block_.*t$|^no_{word(i)}" for i in range(n)])]


def chain(command, *more):
    """A traced program of n matmuls one after the other, of n weights."""
    def arguments(files, n):
        values = [{"shape": [8, 8], "dtype": "F32"} for _ in range(2 * n + 1)]
        ops = [{"op": "dot", "in": [n + i, i], "out": [n + 1 + i], "at": [0, i + 1],
                "lhs_contract": [1], "rhs_contract": [0], "lhs_batch": [],
                "rhs_batch": []} for i in range(n)]
        program = files.write("program.json", json.dumps({
            "schema": "shardc.program/v1",
            "traced": {"by": "jax 0.10.2", "function": "m:f"}, "files": ["a.py"],
            "values": values, "inputs": [
                {"value": i, "kind": "param", "name": f"w{i}"} for i in range(n)]
            + [{"value": n, "kind": "data", "name": "x"}], "ops": ops,
            "outputs": [2 * n], "assumptions": [], "unknown": []}))
        rules = [] if command == "suggest" else ["--rules", files.write(
            "rules.yaml", "version: 1\nrules:\n  - {match: ., spec: [TP, FSDP]}\n")]
        return [*command.split(), "--program", program, *rules, *MESH, "--no-project",
                *more]
    return arguments


def targets(*command):
    """A project of n targets."""
    def arguments(files, n):
        files.distinct(8)
        files.rules([ALL])
        return [*command, "--project", files.write("shardc.yaml", json.dumps({
            "version": 1, "targets": {word(i): {
                "mesh": "fsdp:4,tp:2", "rules": ["rules.yaml"],
                "manifest": "manifest.json"} for i in range(n)}}))]
    return arguments


def baseline(files, n):
    """n findings, all of which a baseline has."""
    check = ["check", "--manifest", files.indivisible(n), *MESH, "--no-project", "--rules",
             files.rules([ALL])]
    path = files.path("baseline.json")
    subprocess.run([BIN, *check, "--write-baseline", path], check=False,
                   capture_output=True)
    return [*check, "--baseline", path]


def exported(name, *more):
    """What `import` reads, of n parameters, as `export` writes it."""
    def arguments(files, n):
        out = files.path("exported")
        subprocess.run([BIN, "export", name, "--manifest", files.distinct(n), *MESH,
                        "--no-project", "--rules", files.rules([ALL]), "-o", out,
                        *(["--format", "json"] if name == "dtensor" else [])],
                       check=True, capture_output=True)
        return ["import", name, out, *more]
    return arguments


def checkpoint(*command):
    """A checkpoint of n tensors of four bytes."""
    def arguments(files, n):
        header = json.dumps({f"block_{word(i)}.weight": {
            "dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
            for i in range(n)}).encode()
        path = files.path("model.safetensors")
        with open(path, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header + bytes(4 * n))
        if command[1] == "list":
            return [*command, path]
        if command[1] == "merge":
            return [*command, path, "-o", files.path("merged.safetensors")]
        plan = files.plan_of(path, files.write(
            "rules.yaml", "version: 1\nrules:\n  - {match: ., spec: []}\n"))
        return [*command, "--checkpoint", path, "--plan", plan, "--per", "shard", "-o",
                files.path("shards")]
    return arguments


def script(command, text):
    """What another system makes of a script that `text` returns for n."""
    return lambda files, n: [*command.split(), files.write("train.sh", text(n))]


CALL = "torchrun --nproc-per-node 8 pretrain_gpt.py --tensor-model-parallel-size 2 "


def documents(files, n):
    """A configuration after n other documents of YAML."""
    return ["show", "config", "--devices", "8", "--system", "megatron", files.write(
        "config.yaml", "".join(f"---\nname: {word(i)}\n" for i in range(n))
        + "---\ntensor_model_parallel_size: 2\n")]


def created(files, n):
    """A new project for n parameters of layers."""
    return ["init", files.llama(n), "--folder", files.path("project"), "--devices", "8"]


# What grows, the command, the smallest n, and its arguments.
CASES = [
    ("parameters", "plan", 4000, parameters("plan")),
    ("parameters", "check", 4000, parameters("check")),
    ("parameters", "cost", 4000, parameters("cost", "--batch", "16")),
    ("parameters", "report", 4000, parameters("report", "-o", "/dev/null")),
    ("parameters", "suggest", 4000,
     lambda files, n: ["suggest", "--manifest", files.llama(n), *MESH,
                       "--no-project"]),
    ("parameters", "manifest", 4000,
     lambda files, n: ["show", "manifest", "--manifest", files.llama(n)]),
    ("parameters", "diff", 2000,
     lambda files, n: ["diff", files.plan(n), files.plan(n)]),
    ("new names", "diff", 500,
     lambda files, n: ["diff", files.plan(n), files.plan_of(
         files.distinct(n), files.rules([ALL]), name="new.json")]),
    ("parameters", "explain", 4000,
     lambda files, n: parameters("explain")(files, n)
     + ["model.layers.0.mlp.gate_proj.weight"]),
    ("parameters", "show memory", 2000, of_plan("show memory")),
    ("parameters", "export jax", 2000, of_plan("export jax")),
    ("parameters", "export hf-tp-plan", 2000, of_plan("export hf-tp-plan")),
    ("names without a template", "plan", 1000, distinct("plan")),
    ("names without a template", "check", 1000, distinct("check")),
    ("names without a template", "suggest", 500,
     lambda files, n: ["suggest", "--manifest", files.distinct(n), *MESH,
                       "--no-project", "--force"]),
    ("layers without numbers", "suggest", 5000,
     lambda files, n: ["suggest", "--manifest", files.blocks(n), *MESH,
                       "--no-project", "--force"]),
    ("experts without numbers", "cost", 1000,
     named_experts("cost", "--batch", "16")),
    ("dead rules and names", "plan", 250, dead_rules("plan")),
    ("dead rules and names", "check", 250, dead_rules("check")),
    ("rules and names", "plan", 500, used_rules("plan")),
    ("rules and names", "check", 500, used_rules("check")),
    ("rules of a `like` chain", "plan", 500,
     lambda files, n: ["plan", "--manifest", files.distinct(n), *MESH,
                       "--no-project", "--rules", files.likes(n)]),
    ("logical axes and parameters", "import maxtext", 1000,
     lambda files, n: ["import", "maxtext", *files.logical(n)]),
    ("weight decay patterns and names", "plan", 250,
     lambda files, n: [*distinct("plan")(files, n),
                       *(text for i in range(n)
                         for text in ("--weight-decay-exclude",
                                      f"head_{word(i)}$"))]),
    ("entries of one spec", "check", 2000,
     lambda files, n: ["check", "--manifest", files.distinct(8), *MESH,
                       "--no-project", "--rules", files.write(
                           "rules.yaml", "version: 1\nrules:\n"
                           "  - match: '.'\n    spec: ["
                           + ", ".join(["null"] * n) + "]\n")]),
    ("letters of one pattern", "check", 8000,
     lambda files, n: ["check", "--manifest", files.distinct(8), *MESH,
                       "--no-project", "--rules",
                       files.rules(["a" * n, ALL])]),
    ("names with the letters of dead rules", "check", 500,
     lambda files, n: ["check", "--manifest", files.manifest(
         [(f"{of_four(i)}.weight", [64, 64]) for i in range(n)]), *MESH,
         "--no-project", "--rules",
         files.rules([f"^{of_four(i + i % 2 * n)}\\.weight$"
                      for i in range(n)])]),
    ("shapes of one name", "suggest", 250,
     lambda files, n: ["suggest", "--manifest", files.shapes_of_one_name(n),
                       *MESH, "--no-project", "--force"]),
    ("illegal specs", "check", 2000,
     lambda files, n: ["check", "--manifest", files.indivisible(n), *MESH,
                       "--no-project", "--rules", files.rules([ALL])]),
    ("ignore comments", "check", 1000,
     lambda files, n: ["check", "--manifest", files.distinct(8), *MESH,
                       "--no-project", "--rules", files.ignored_rules(n)]),
    ("layers, each with a rule", "check", 250, rule_for_each_layer("check")),
    ("wrong entries of one spec", "check", 2000,
     lambda files, n: ["check", "--manifest", files.distinct(8), *MESH,
                       "--no-project", "--rules", files.write(
                           "rules.yaml", "version: 1\nrules:\n"
                           "  - match: '.'\n    spec: ["
                           + ", ".join(f"{{no: {i}}}" for i in range(n))
                           + "]\n")]),
    ("unknown axes of one spec", "check", 2000,
     lambda files, n: ["check", "--manifest", files.distinct(8), *MESH,
                       "--no-project", "--rules", files.write(
                           "rules.yaml", "version: 1\nrules:\n"
                           "  - match: '.'\n    spec: ["
                           + ", ".join(f"x{word(i)}" for i in range(n))
                           + "]\n")]),
    ("unrelated names", "suggest", 500,
     lambda files, n: ["suggest", "--manifest", files.manifest(
         [(f"{word(7 * i)}.{word(11 * i + 3)}.w", [64, 64])
          for i in range(n)]), *MESH, "--no-project", "--force"]),
    ("tasks", "schedule", 64,
     lambda files, n: ["schedule", "1f1b", "--ranks", "64", "--microbatches",
                       n]),
    *(("ranks", f"schedule {name}", 128,
       lambda files, n, name=name: ["schedule", name, "--ranks", n,
                                    "--microbatches", 8])
      for name in ("1f1b", "interleaved", "looped-bfs", "zb-h2", "zbv")),
    ("tokens", "kv", 2000, tokens),
    ("rules with gaps and names", "plan", 500, gaps("plan")),
    ("rules with gaps and names", "check", 500, gaps("check")),
    ("rules", "rules", 250,
     lambda files, n: ["show", "rules", "--rules", files.rules(
         [f"block_{word(i)}\\.weight$" for i in range(n)])]),
    ("rules in one line", "rules", 1000,
     lambda files, n: ["show", "rules", "--rules", files.write(
         "rules.json", json.dumps({"version": 1, "rules": [
             {"match": word(i), "spec": []} for i in range(n)]}))]),
    ("rules", "rules --all-names", 100,
     lambda files, n: ["show", "rules", "--all-names", "--rules", files.rules(
         [f"block_{word(i)}\\.weight$" for i in range(n)])]),
    ("layers", "plan", 100, layers("plan", *MESH)),
    ("layers", "check", 100, layers("check", *MESH)),
    ("layers", "cost", 100, layers("cost", *MESH, "--batch", "16")),
    ("layers", "fit", 50, layers("search", "--all", "--devices", "8", "--batch", "16")),
    ("layers", "suggest", 100,
     lambda files, n: ["suggest", "--model", files.config(
         "llama-3-8b", num_hidden_layers=n), *MESH, "--no-project"]),
    ("layers", "report", 100, layers("report", *MESH, "-o", "/dev/null")),
    ("layers", "verify step", 8,
     layers("verify step", *MESH)),
    ("experts", "plan", 16, experts("plan", "--mesh", "ep:8")),
    ("experts", "check", 16, experts("check", "--mesh", "ep:8")),
    ("experts", "cost", 16, experts("cost", "--mesh", "ep:8", "--batch", "16")),
    ("experts", "suggest", 16,
     lambda files, n: ["suggest", "--model", files.config(
         "mixtral-8x7b", num_hidden_layers=2, num_local_experts=n),
         "--mesh", "ep:8", "--no-project"]),
    ("uses of a name", "lsp", 1000, references),
    ("edits of one change", "lsp", 2000, edits_of_one_line),
    ("rules in one line", "lsp", 500, hints_in_one_line),
    ("weights of a loop", "audit", 100,
     lambda files, n: ["audit", files.loop(n), "--mesh", "fsdp:2"]),
    *((what, command, 1000, named(command, names, *more))
      for what, names in NAMED.items()
      for command, *more in (("plan",), ("check",), ("cost", "--batch", "16"),
                             ("suggest",))),
    ("attention", "show memory", 1000, named("show memory", NAMED["attention"])),
    ("attention", "report", 1000, named("report", NAMED["attention"], "-o", "/dev/null")),
    ("rules that match all names", "plan", 500, alike_rules("plan")),
    ("rules that match all names", "check", 500, alike_rules("check")),
    *(("ops", command, 250, chain(command, *more)) for command, *more in (
        ("cost",), ("check",), ("suggest",), ("verify step",),
        ("explain", "w0", "--facts"))),
    ("targets", "check", 32, targets("check")),
    ("targets", "plan", 32, targets("plan", "--target", word(0))),
    ("findings of a baseline", "check", 1000, baseline),
    *(("parameters", f"import {name}", 1000, exported(name, *more))
      for name, *more in (("hlo", *MESH), ("shardy",), ("dtensor",))),
    *(("parameters", f"export {name}", 1000, distinct(f"export {name}"))
      for name in ("jax-json", "shardy", "hlo", "dtensor", "megatron", "vllm", "csv",
                   "markdown", "tree", "dot", "orbax")),
    *(("tensors", " ".join(command), 1000, checkpoint(*command))
      for command in (("checkpoint", "list"), ("checkpoint", "merge"),
                      ("checkpoint", "split"))),
    ("parameters", "init", 1000, created),
    ("variables and commands of a script", "show config", 1000, script(
        "show config", lambda n: "".join(
            f"{word(i)}={i}\npython {word(i)}.py --x {i}\n" for i in range(n)) + CALL)),
    ("letters of a layout", "show config", 8000, script(
        "show config", lambda n: CALL + "--pipeline-model-parallel-layout E" + "t|" * n)),
    ("flags of a command", "show config", 1000, script(
        "show config", lambda n: CALL + " ".join(f"--{word(i)} {i}" for i in range(n)))),
    ("documents of YAML", "show config", 1000, documents),
    ("devices", "plan", 32, devices("plan")),
    ("devices", "check", 32, devices("check")),
    ("devices", "cost", 32, devices("cost", "--batch", "65536")),
    ("devices", "mesh", 64,
     lambda files, n: ["show", "mesh", "--no-project", "--mesh", f"fsdp:{n},tp:4"]),
    ("devices", "report", 32, devices("report", "-o", "/dev/null")),
    ("devices", "verify", 64,
     lambda files, n: [
         "verify", "--no-project", "--rules", "builtin:llama/hf", "--mesh",
         f"fsdp:{n},tp:4", "--operation", "vanilla", "--mode", "train",
         "--layout", "bthd", "--dtype", "float32", "--attention",
         "heads=64,kv_heads=8,head_dim=64", "--batch", f"{4 * n}", "--seq",
         "64", "--kv-len", "64"]),
    ("devices", "verify --full", 16,
     lambda files, n: [
         "verify", "--full", "--no-project", "--rules", "builtin:llama/hf",
         "--mesh", f"fsdp:{n},tp:4", "--operation", "vanilla", "--mode",
         "train", "--layout", "bthd", "--dtype", "float32", "--features",
         "none", "--attention", "heads=32,kv_heads=8,head_dim=128", "--batch",
         f"{n}", "--seq", "8", "--kv-len", "8"]),
]


def instructions(arguments, stdin=b"", status=1):
    """The number of instructions of a run that ends with `status` at most."""
    done = subprocess.run(
        ["valgrind", "--tool=cachegrind", "--cache-sim=no",
         "--cachegrind-out-file=/dev/null", BIN, *map(str, arguments),
         "--threads", "1"],
        input=stdin, capture_output=True, check=False)
    errors = done.stderr.decode()
    found = re.search(r"I\s+refs:\s+([\d,]+)", errors)
    if done.returncode > status or not found:
        raise AssertionError(f"{arguments}: rc={done.returncode}\n"
                             f"{done.stdout[-500:]}\n{errors[-1500:]}")
    return int(found.group(1).replace(",", ""))


def works(case):
    what, _, n, arguments = case
    status = 2 if what.startswith(("wrong ", "unknown ")) else 1
    out = []
    for size in (n, 2 * n, 4 * n):
        with tempfile.TemporaryDirectory() as folder:
            files = Inputs(folder)
            out.append(instructions(arguments(files, size), files.stdin,
                                    status))
    return out


def exponent(measured):
    first, second = measured[1] - measured[0], measured[2] - measured[1]
    if second < LEAST_GROWTH:
        return 0.0
    return math.log2(second / max(first, 1))


@unittest.skipIf(is_sanitized(), "valgrind cannot run a sanitized program")
@unittest.skipUnless(shutil.which("valgrind"), "no valgrind")
class Growth(unittest.TestCase):
    def test_work_is_linear(self):
        for case in CASES[::EVERY]:
            what, command, n, _ = case
            with self.subTest(command=command, grows=what):
                measured = works(case)
                found = exponent(measured)
                if EVERY == 1:
                    print(f"{found:5.2f}  {command}, {what}: {n} to {4 * n}, "
                          f"{measured[0] / 1e6:.0f} to "
                          f"{measured[2] / 1e6:.0f} million instructions",
                          file=sys.stderr)
                most = FASTER.get((command, what), LIMIT)
                self.assertLessEqual(found, most, measured)


if __name__ == "__main__":
    unittest.main()
