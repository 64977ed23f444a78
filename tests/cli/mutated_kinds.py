"""The kinds of input of mutated_inputs_test.py: seeds, and the commands that read them."""

import contextlib
import glob
import gzip
import json
import os

import yaml
from driver import ROOT, TESTDATA
from mutators import mutate_bytes, mutate_data, mutate_lines


def read(*path):
    path = os.path.join(*path)
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        return file.read()


class Kind:
    """A kind of input: its seeds, how they are written, and what reads them. `{}` is the
    changed file, and names with a dot are files that are there. With `folder`, it is
    in a folder of its own, `{folder}`, which is a copy of the one that `folder` names.
    What is written goes to `out`. With `{stdin}`, the file is standard input too; with
    `{inside}`, the command runs in the folder."""

    def __init__(self, name, suffix, seeds, commands, folder=None):
        self.name, self.suffix, self.seeds, self.commands = name, suffix, seeds, commands
        self.folder = folder

    def arguments(self, rng):
        """A command with its arguments."""
        return rng.choice(self.commands)

    def text(self, rng):
        seed = rng.choice(self.seeds)
        if isinstance(seed, bytes):
            return mutate_bytes(rng, seed)
        if isinstance(seed, str):
            return mutate_lines(rng, seed).encode("utf-8", "replace")
        data = mutate_data(rng, seed)
        if self.suffix.endswith(".yaml"):
            text = rng.choice([
                lambda: yaml.safe_dump(data, default_flow_style=rng.random() < 0.5,
                                       allow_unicode=True, sort_keys=False),
                lambda: json.dumps(data)])()
        else:
            text = json.dumps(data)
        raw = text.encode("utf-8", "replace")
        return mutate_bytes(rng, raw) if rng.random() < 0.1 else raw


ALONE = "--no-project"
MESH = ["--mesh", "fsdp:2,tp:2"]
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
         "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 8,
         "num_key_value_heads": 4, "num_hidden_layers": 2, "rms_norm_eps": 1e-05,
         "vocab_size": 256, "tie_word_embeddings": False}


class Session(Kind):
    """Messages of a client of the language server."""

    def text(self, rng):
        bodies = (json.dumps(one).encode("utf-8", "replace")
                  for one in mutate_data(rng, self.seeds))
        raw = b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(one), one) for one in bodies)
        return mutate_bytes(rng, raw) if rng.random() < 0.2 else raw


def messages(rules):
    """Of a session that changes a rules file and requests facts about it."""
    document = {"uri": "file:///none/rules.yaml"}
    place = {"textDocument": document, "position": {"line": 3, "character": 14}}
    out = [("initialize", {"processId": None, "rootUri": None, "capabilities": {}}),
           ("initialized", {}),
           ("textDocument/didOpen", {"textDocument": {
               **document, "languageId": "yaml", "version": 1, "text": rules}}),
           ("textDocument/didChange", {
               "textDocument": {**document, "version": 2}, "contentChanges": [
                   {"range": {"start": {"line": 3, "character": 2},
                              "end": {"line": 4, "character": 0}}, "text": "x: [\n"}]})]
    out += [("textDocument/" + what, place) for what in (
        "hover", "completion", "definition", "references", "documentHighlight")]
    out += [("textDocument/rename", {**place, "newName": "sp"}),
            ("textDocument/codeAction", {"textDocument": document, "context": {
                "diagnostics": []}, "range": {"start": {"line": 0, "character": 0},
                                              "end": {"line": 9, "character": 0}}}),
            ("textDocument/documentSymbol", {"textDocument": document}),
            ("textDocument/semanticTokens/full", {"textDocument": document}),
            ("shutdown", None), ("exit", None)]
    return [{"jsonrpc": "2.0", "id": number, "method": name, "params": params}
            for number, (name, params) in enumerate(out)]


def other_formats(made, manifest):
    """What other systems write, and `import` reads."""
    def exported(name, *more):
        return made("export", name, *MESH, "--rules", "rules.yaml", "--model",
                    "config.json", ALONE, *more).decode()

    names = {f"layer.{i}": [f"axis_{i % 3}", "embed"] for i in range(4)}
    logical = {"logical_axis_rules": [["axis_0", "tp"], ["axis_1", ["fsdp", "tp"]],
                                      ["embed", "fsdp"]],
               "mesh_axes": ["fsdp", "tp"], "data_sharding": ["fsdp"]}
    levanter = {"trainer": {"axis_resources": {"batch": ["replica", "data"], "mlp": "model"},
                            "parameter_axis_resources": {"embed": "data"},
                            "fsdp_axis": "embed", "model_axis_size": 2}}
    eformer = json.loads(exported("eformer"))
    mesh = ["--mesh", "fsdp:2,tp:2"]
    return [
        Kind("maxtext", ".yaml", [logical], [
            ["import", "maxtext", "{}", "--names", "names.json", *mesh]]),
        Kind("maxtext-names", ".json", [names], [
            ["import", "maxtext", "logical.yaml", "--names", "{}", *mesh],
            ["import", "levanter", "levanter.yaml", "--names", "{}", "--mesh",
             "replica:2,data:2,model:2"]]),
        Kind("exported-names", ".json", [{
            "model.embed_tokens.weight": ["vocab", "embed"],
            "model.layers.0.self_attn.q_proj.weight": ["heads", "embed"],
            "model.norm.weight": ["norm"]}], [
                ["export", "maxtext", "--plan", "plan.json", "--names", "{}"]]),
        Kind("levanter", ".yaml", [levanter], [
            ["import", "levanter", "{}", "--names", "names.json", "--mesh",
             "replica:2,data:2,model:2"]]),
        Kind("hlo", ".txt", [exported("hlo")], [
            ["import", "hlo", "{}", *mesh]]),
        Kind("shardy", ".mlir", [exported("shardy")], [
            ["import", "shardy", "{}", "--mesh-output", "mesh.out.yaml"]]),
        Kind("dtensor", ".json", [json.loads(exported("dtensor", "--format", "json"))],
             [["import", "dtensor", "{}"]]),
        Kind("hf-tp-plan", ".json", [json.loads(exported("hf-tp-plan"))], [
            ["import", "hf-tp-plan", "{}"],
            ["import", "hf-tp-plan", "{}", "--manifest", "some.json"]]),
        Kind("eformer", ".json", [eformer, eformer["paxis"]], [
            ["import", "eformer", "{}"]]),
        Kind("maxtext-dump", ".json", [{
            f".params/['params']/['{name}']": {
                "mesh": {"axis_names": ["data", "model"], "shape": {"data": 2, "model": 2}},
                "partition_spec": ["data", None, "model"], "shape": [4, 4, 4]}
            for name in ("up", "down")}], [["import", "maxtext-dump", "{}"]]),
        Kind("traced", ".json", [json.loads(made(
            "export", "program", *MESH, "--rules", "auto", "--model", "config.json",
            "--batch", "4", "--seq", "8", ALONE))], [
                ["cost", *MESH, "--rules", "any.yaml", "--program", "{}", ALONE],
                ["check", *MESH, "--rules", "any.yaml", "--program", "{}", ALONE],
                ["verify", "step", *MESH, "--rules", "any.yaml", "--program", "{}", ALONE],
                ["search", "--devices", "4", "--program", "{}", "--profile", "h100-sxm",
                 ALONE]])], {"names.json": names, "logical.yaml": logical,
                             "levanter.yaml": levanter, "some.json": manifest}


def checkpoints(made, folder):
    """Folders of checkpoints, and what is written from them."""
    stored = os.path.join(TESTDATA, "stored")
    plain = os.path.join(ROOT, "examples", "checkpoint")
    made("plan", "--mesh", "fsdp:2,tp:2", "--rules", "any.yaml", "--manifest",
         os.path.join(plain, "model.safetensors"), ALONE, "-q", "-o", "stored.plan.json")
    shards = os.path.join(folder, "shards")
    made("checkpoint", "split", "--checkpoint", os.path.join(plain, "model.safetensors"),
         "--plan", "stored.plan.json", "-o", shards)
    written = [["checkpoint", "list", "{folder}"],
               ["checkpoint", "merge", "{folder}", "-o", "out.safetensors"],
               ["checkpoint", "merge", "{folder}", "--max-shard-size", "1KiB", "-o", "out"],
               ["checkpoint", "merge", "{folder}", "--as", "dcp", "-o", "out"],
               ["checkpoint", "merge", "{folder}", "--arrays-only", "--params",
                "^[^it]", "-o", "out.safetensors"],
               ["checkpoint", "merge", "{folder}", "--as", "orbax", "--arrays-only", "-o",
                "out"],
               ["show", "manifest", "--manifest", "{folder}", ALONE]]
    resharded = [["checkpoint", "reshard", "{folder}", "--plan", "stored.plan.json", "-o",
                  "out"],
                 ["checkpoint", "reshard", "{folder}", "--plan", "stored.plan.json", "--as",
                  "dcp", "-o", "out"]]
    out = [Kind("safetensors-split", ".safetensors",
                [read(plain, "model.safetensors")], [
                    ["checkpoint", "split", "--checkpoint", "{}", "--plan",
                     "stored.plan.json", "-o", "out"],
                    ["checkpoint", "split", "--checkpoint", "{}", "--plan",
                     "stored.plan.json", "--as", "orbax", "-o", "out"]]),
           Kind("shards", "shards.json", [json.loads(read(shards, "shards.json"))],
                [*written, *resharded], shards)]
    part = sorted(name for name in os.listdir(shards) if name.endswith(".safetensors"))[0]
    out.append(Kind("shard", part, [read(shards, part)], [*written, *resharded], shards))
    for sample, name in (
            ("orbax_zarr2_subchunks", "_METADATA"), ("orbax_zarr2_subchunks", "v/.zarray"),
            ("orbax_zarr3_ocdbt_subchunks", "manifest.ocdbt"), ("orbax_ocdbt", "_METADATA"),
            ("orbax_ocdbt", "manifest.ocdbt"), ("ts_zarr3_codecs", "s_end/zarr.json"),
            ("ts_zarr3_codecs", "s_end/c/0/0"), ("zarr3_blosc", None), ("zarr2_blosc", None),
            ("ts_zarr2_codecs", None), ("ts_zarr2_codecs", ".zarray"),
            ("ts_interior", None), ("ts_numbered", None), ("ts_prefixes", None),
            ("orbax_trainstate", "_METADATA"), ("orbax_two_processes_unmerged", None),
            ("orbax_manager", None), ("written_ocdbt", None),
            ("dcp_4ranks", ".metadata"), ("dcp_4ranks", "__0_0.distcp"),
            ("dcp_hf_4ranks", None)):
        source = os.path.join(stored, sample)
        if name in (None, ".zarray"):
            name = min(os.path.relpath(os.path.join(at, file), source)
                       for at, _, files in os.walk(source) for file in files
                       if (file == ".zarray" if name else
                           file not in ("zarr.json", ".zarray")))
        raw = read(source, name)
        try:
            seeds = [json.loads(raw)]
        except ValueError:
            seeds = [raw]
        out.append(Kind(sample, name, seeds, written, source))
    index = os.path.join(TESTDATA, "hostile", "hf_ok_no_metadata")
    out.append(Kind("index", "model.safetensors.index.json",
                    [json.loads(read(index, "model.safetensors.index.json"))],
                    written, index))
    return out


def with_numbers(data):
    """Numbers such as 989e12 are texts to the YAML of Python."""
    if isinstance(data, dict):
        return {key: with_numbers(value) for key, value in data.items()}
    if isinstance(data, list):
        return [with_numbers(value) for value in data]
    with contextlib.suppress(TypeError, ValueError):
        return int(float(data)) if isinstance(data, str) else data
    return data


EVALUATED = {
    "apply_rotary_pos_emb": {"tensor": [[[[1.0, 2.0]]]], "sin": [[[[0.0, 0.0]]]],
                             "cos": [[[[1.0, 1.0]]]]},
    "create_mesh": {"axis_dims": [1, -1], "axis_names": ["dp", "tp"], "device_count": 4},
    "get_corrected_named_sharding": {"shape": [8, 8], "spec": ["tp", None],
                                     "mesh": {"dp": 2, "tp": 2}},
    "match_partition_rules": {"rules": {"version": 1, "rules": [
        {"match": ".*", "spec": ["tp"]}]}, "tree": {"a": {"shape": [2], "dtype": "F32"}}},
    "quantize_int8": {"x": [[1.5, -2.0]]},
    "resolve": {"axes": ["BATCH", ["FSDP", "SP"], None], "mode": "train"},
    "parse_mesh_from_string": {"text": "dp:2,tp:-1", "names": ["dp", "tp"],
                               "device_count": 4},
    "precompute_freq_cis": {"dim": 8, "max_position_embeddings": 16, "base": 10000.0},
    "concatenate_to_cache": {"batch": 1, "max_length": 4, "num_heads": 1, "head_dim": 2,
                             "steps": [{"key": [[[[1.0, 2.0]]]],
                                        "value": [[[[1.0, 2.0]]]]}]},
}


def settings(rules):
    """Files that set something, and the commands that they set it for."""
    heads = ["--attention", "heads=4,kv_heads=2,head_dim=8", "--batch", "4", "--seq", "8",
             "--kv-len", "8", "--dtype", "float32", "--layout", "bthd", "--features",
             "none", ALONE]
    models = os.path.join(TESTDATA, "configs", "llama-3.2-1b.config.json")
    run = {"schema": "shardc.run/v1", "name": "one", "mesh": "fsdp:8",
           "rules": "builtin:llama/hf", "model": models, "batch": 16, "seq": 4096,
           "remat": "save_only_these_names(q_proj,v_proj)", "grad_dtype": "float32",
           "stack": "compiled", "tokens_per_second_per_device": 5762}
    profile = with_numbers(yaml.safe_load(read(ROOT, "profiles", "h100-sxm.yaml")))
    cost = ["--mesh", "fsdp:8", "--rules", "auto", "--model", "config.json", "--batch", "8",
            ALONE]
    return [
        Kind("verified", ".yaml", [rules], [
            ["verify", *MESH, "--rules", "{}", "--operation", "vanilla,ring", *heads],
            ["verify", "--list", *MESH, "--rules", "{}", ALONE],
            ["resolve", "[BATCH, [FSDP, SP], HEAD]", *MESH, "--rules", "{}", ALONE],
            ["search", "--devices", "4", "--batch", "8", "--seq", "64", "--profile",
             "h100-sxm", "--prove", "0", "--seconds", "1", "--rules", "{}", "--model",
             "config.json", ALONE],
            ["check", "--fix", *MESH, "--rules", "{}", "--model", "config.json", ALONE],
            ["check", "--write-baseline", "baseline.out.json", *MESH, "--rules", "{}",
             "--model", "config.json", ALONE]]),
        Kind("searched", ".json", [LLAMA], [
            ["search", "--devices", "4", "--batch", "8", "--seq", "64", "--profile",
             "h100-sxm", "--prove", "0", "--seconds", "1", "--model", "{}", ALONE],
            ["search", "--all", "--devices", "8", "--batch", "8", "--rules", "auto",
             "--model", "{}", ALONE],
            ["verify", "step", *MESH, "--rules", "auto", "--model", "{}", ALONE],
            ["export", "program", *MESH, "--rules", "auto", "--model", "{}", ALONE],
            ["init", "{}", "--folder", "out", "--devices", "4"]]),
        Kind("operations", ".yaml", [{"operations": {
            "flash_attn2": {"softmax_dtype": "float32"},
            "ring": {"scan_ring_attention": False}}}], [
            ["verify", *MESH, "--settings", "{}", *heads]]),
        Kind("profile", ".yaml", [profile], [
            ["cost", "--profile", "{}", *cost],
            ["search", "--devices", "4", "--batch", "8", "--seq", "64", "--profile", "{}",
             "--prove", "0", "--seconds", "1", "--model", "config.json", ALONE]]),
        Kind("run", ".yaml", [run], [
            ["calibrate", "--profile", "h100-sxm", "--run", "{}"]]),
        *(Kind("eval-" + name, ".json", [given], [["eval", name, "--input", "{}"]])
          for name, given in EVALUATED.items()),
        Session("session", ".lsp", messages(yaml.safe_dump(rules)), [["lsp", "{stdin}"]]),
    ]


def kinds(made, folder):
    """`made` runs a command in the folder and returns what it printed."""
    configs = [LLAMA] + [json.loads(read(path)) for path in sorted(
        glob.glob(os.path.join(TESTDATA, "configs", "*.config.json")))[::6]]
    own = yaml.safe_load(read(ROOT, "families", "llama.yaml"))
    t5 = yaml.safe_load(read(ROOT, "families", "t5.yaml"))
    small = {"version": 1, "models": "Own", "namings": {"flax": "weight"},
             "let": {"d": "hidden_size", "n": "heads * 2"},
             "factors": {"hidden_size": "stream", "heads": "heads",
                         "n": "2 * heads"},
             "blocks": {"part_of(x)": {"w": "linear(d, n)", "b if x": "tensor(d)"}},
             "tree": {"layers[i < depth]": {"a": "part_of(i == 0)", "n": "norm(d)"}}}
    rules = {"version": 1, "axes": {"head": "tp"}, "bundles": {"Q": [["FSDP"], "TP"]},
             "rules": [{"match": "proj", "spec": [["fsdp"], "tp"]},
                       {"match": "(.*)_scale$", "spec": {"like": "\\1"}},
                       {"match": "norm|embed", "spec": [None], "min_size": 4},
                       {"match": ".*", "spec": "Q", "modes": {"decode": []}}],
             "policy": {"unmatched": "error"}}
    mesh = {"axes": {"dp": 2, "fsdp": -1, "tp": 2}, "devices": 8, "processes": 2,
            "slices": 2, "dcn": {"dp": 2}, "axis_types": {"tp": "explicit"}}
    manifest = {"schema": "shardc.manifest/v1", "params": [
        {"name": f"model.layers.{i}.{n}.weight", "shape": [64, 64], "dtype": "BF16"}
        for i in range(2) for n in ("q_proj", "o_proj", "norm")]}
    project = {"version": 1, "targets": {
        "one": {"mesh": "fsdp:2,tp:2", "rules": ["rules.yaml"], "model": "config.json",
                "batch": 8, "modes": ["train"], "plan": "committed.json"},
        "two": {"mesh": {"axes": {"tp": 4}}, "rules": "auto", "model": "config.json",
                "budget": {"memory": "1 GiB"}}}}
    hlo = sorted((read(path).decode() for path in glob.glob(
        os.path.join(TESTDATA, "audit", "*.hlo.txt.gz"))), key=len)[:4]
    schedule = "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n"
    programs = [json.loads(read(path)) for path in sorted(
        glob.glob(os.path.join(TESTDATA, "constraints", "*.program.json.gz")),
        key=os.path.getsize)[:5]]
    checkpoint = read(ROOT, "examples", "checkpoint", "model.safetensors")
    gguf = [read(path) for path in sorted(glob.glob(
        os.path.join(TESTDATA, "hostile", "gguf_*.gguf")))]
    torch = os.path.join(TESTDATA, "stored", "dcp_torch26")
    model = ["--model", "{}", *MESH, ALONE]
    inputs = [*MESH, "--rules", "any.yaml", ALONE]
    others, files = other_formats(made, manifest)
    for name, data in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(data, file)
    return [
        Kind("config", ".json", configs, [
            ["show", "manifest", ALONE, "--model", "{}"],
            ["plan", *model, "--rules", "auto"], ["check", *model, "--rules", "auto"],
            ["suggest", *model], ["cost", *model, "--rules", "auto", "--batch", "8"],
            ["cost", *model, "--rules", "auto", "--batch", "8", "--mode", "decode"],
            ["show", "memory", *model, "--rules", "auto"],
            ["explain", "model.embed_tokens.weight", *model, "--rules", "auto", "--facts"]]),
        Kind("family", "own.yaml", [own, t5, small, small], [
            ["show", "manifest", ALONE, "--model", "own.config.json", "--families",
             "{folder}"],
            ["plan", *MESH, ALONE, "--rules", "rules.yaml", "--model", "own.config.json",
             "--families", "{folder}"],
            ["suggest", *MESH, ALONE, "--model", "own.config.json", "--families",
             "{folder}"]], os.path.join(ROOT, "examples", "start", "none")),
        Kind("rules", ".yaml", [rules], [
            ["plan", *MESH, "--rules", "{}", "--model", "config.json", ALONE],
            ["check", *MESH, "--rules", "{}", "--model", "config.json", ALONE],
            ["show", "rules", "--rules", "{}", ALONE],
            ["show", "rules", "--all-names", "--rules", "{}", ALONE]]),
        Kind("mesh", ".yaml", [mesh], [
            ["show", "mesh", "--mesh", "{}", ALONE],
            ["plan", "--mesh", "{}", "--rules", "rules.yaml", "--model", "config.json",
             ALONE],
            ["cost", "--mesh", "{}", "--rules", "auto", "--model", "config.json",
             "--batch", "8", ALONE]]),
        Kind("manifest", ".json", [manifest], [
            ["plan", *MESH, "--rules", "rules.yaml", "--manifest", "{}", ALONE],
            ["suggest", *MESH, "--manifest", "{}", "--force", ALONE],
            ["show", "manifest", "--manifest", "{}", ALONE],
            ["cost", *MESH, "--rules", "rules.yaml", "--manifest", "{}", ALONE]]),
        Kind("project", ".yaml", [project], [
            ["check", "--project", "{}"],
            ["plan", "--project", "{}", "--target", "one"],
            ["cost", "--project", "{}", "--target", "one"], ["check", "--locked", "--project", "{}"]]),
        Kind("plan", ".json", [json.loads(read(folder, "plan.json"))], [
            ["show", "memory", "--plan", "{}", "--allow-edited"], ["cost", "--plan", "{}", "--allow-edited", ALONE],
            ["diff", "{}", "plan.json", "--allow-edited", ALONE],
            ["report", "--plan", "{}", "--allow-edited", ALONE, "-o", "/dev/null"],
            ["export", "jax", "--plan", "{}", "--allow-edited", ALONE],
            ["kv", "--from", "{}", "--to", "plan.json", "--allow-edited", "--tokens",
             "4096", "--page", "16"]]),
        Kind("program", ".json", programs, [
            ["cost", *inputs, "--program", "{}"], ["check", *inputs, "--program", "{}"],
            ["suggest", *MESH, "--program", "{}", ALONE]]),
        Kind("compiled", ".hlo.txt", hlo, [
            ["audit", "{}", "--mesh", "dp:2,fsdp:2,tp:2"], ["audit", "{}"]]),
        Kind("schedule", ".csv", [schedule], [
            ["schedule", "{}"], ["schedule", "{}", "--format", "json"],
            ["schedule", "{}", "--picture"]]),
        Kind("safetensors", ".safetensors", [checkpoint], [
            ["show", "manifest", "--manifest", "{}", ALONE], ["checkpoint", "list", "{}"]]),
        Kind("gguf", ".gguf", gguf, [["show", "manifest", "--manifest", "{}", ALONE]]),
        Kind("metadata", ".metadata", [read(torch, ".metadata")], [
            ["checkpoint", "list", "{folder}"],
            ["show", "manifest", "--manifest", "{folder}", ALONE]], torch),
        *others, *checkpoints(made, folder), *settings(rules),
    ]
