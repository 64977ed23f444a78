"""`shardc verify`: verdicts, exit statuses, output, dumps."""

import json
import os
import struct
import tempfile
import unittest

from driver import Case, run
from verify_case import MESH, SMALL, rules, sizes


class Verify(Case):
    def verify(self, *args, mesh=MESH, attention=SMALL, rc=0, **kwargs):
        return self.check(
            run("verify", "--mesh", mesh, *sizes(attention),
                "--no-project", *args, **kwargs), rc)

    def test_report_has_the_agreed_form(self):
        report = self.verify("--operation", "vanilla,ring", "--mode", "train",
                             "--layout", "bthd", "--dtype", "float32",
                             "--format", "json").json()
        self.assertEqual(report["schema"], "shardc.verify/v1")
        self.assertEqual(report["summary"]["fail"], 0)
        self.assertEqual(sum(report["summary"].values()),
                         len(report["cases"]))
        for case in report["cases"]:
            for key in ("operation", "mode", "layout", "dtype", "kv_dtype",
                        "mesh", "shapes", "status", "max_abs_error",
                        "tolerance", "unsharded_error", "communication",
                        "reason"):
                self.assertIn(key, case)
            self.assertEqual(case["status"], "pass")
            self.assertLessEqual(case["max_abs_error"], case["tolerance"])
            for kind in ("all_gather", "all_reduce", "reduce_scatter",
                         "all_to_all", "ppermute"):
                self.assertIn(kind, case["communication"])
        ring = [c for c in report["cases"] if c["operation"] == "ring"][0]
        self.assertGreater(ring["communication"]["ppermute"], 0)
        # A long case in low precision always runs.
        self.assertTrue(any(c["dtype"] == "BF16" and
                            c["shapes"]["key"][1] >= 256
                            for c in report["cases"]))

    def test_heads_of_keys_by_operation(self):
        """ring lays keys out as queries, a latent has no key heads."""
        names = "ring,blocksparse,multi_latent_ragged_page_attention_v1"
        report = self.verify(
            "--operation", names, "--mode", "train", "--layout", "bthd,bhtd",
            "--dtype", "float32", "--format", "json", mesh="dp:2,tp:4",
            attention="heads=8,kv_heads=2,head_dim=16,batch=4,q_len=8,"
                      "kv_len=8", rc=1).json()
        seen = set()
        for case in report["cases"]:
            seen.add(case["operation"])
            if case["operation"].startswith("multi_latent"):
                self.assertEqual(case["status"], "pass", case)
                continue
            self.assertEqual(case["status"], "unsupported", case)
            self.assertEqual(case["axis"], "tp")
            self.assertIn("2 key heads do not divide over `tp` (4 parts)",
                          case["reason"])
            self.assertIn("repeat key heads", case["help"])
        self.assertEqual(len(seen), 3)

    def test_a_latent_row_has_the_models_sizes(self):
        name = "multi_latent_ragged_page_attention_v1"
        model = os.path.join(os.environ["SHARDC_SOURCE_ROOT"], "testdata",
                             "configs", "deepseek-v3.config.json")
        with tempfile.TemporaryDirectory() as folder:
            path = rules(folder, "axes: {head: [], kv_head: [], "
                                 "attention_kv_dim: tp}\n")
            args = ["--rules", path, "--model", model, "--operation", name,
                    "--mode", "train", "--layout", "bthd", "--dtype",
                    "float32"]
            given = "heads=4,kv_heads=4,batch=2,q_len=8"
            # 192 divides into 3 parts, 512 does not, nor do values of 128.
            result = self.verify(*args, mesh="tp:3", attention=given, rc=1)
            self.assertIn("value: dimension 3", result.out)
            values = given + ",value_dim=192"
            result = self.verify(*args, mesh="tp:3", attention=values, rc=1)
            # Reported with the model's sizes, whatever ran.
            self.assertIn("a latent of 512 does not divide over `tp`",
                          result.out)
            result = self.verify(*args, "--full", mesh="tp:3",
                                 attention=values, rc=1)
            self.assertIn("a latent of 512 does not divide over `tp`",
                          result.out)
            result = self.verify(*args, mesh="tp:4", attention=given)
            self.assertIn(
                "note: a latent of 512, a rotated part of 64, values of 128, "
                "from the model's kv_lora_rank, qk_rope_head_dim, "
                "v_head_dim\n", result.out)
            report = self.verify(*args, "--full", "--format", "json",
                                 mesh="tp:4", attention=given).json()
            self.assertEqual(report["sizes"]["used"]["latent"], 512)
            self.assertEqual(report["cases"][0]["shapes"]["value"],
                             [2, 8, 4, 128])

    def test_caches_turn_keys_as_the_model_does(self):
        def notes(model, *args):
            path = os.path.join(os.environ["SHARDC_SOURCE_ROOT"], "testdata",
                                "configs", model + ".config.json")
            result = self.verify("--model", path, "--operation",
                                 "flash_decoding", "--mode", "decode",
                                 "--dtype", "float32", *args,
                                 attention="batch=4,kv_len=64")
            return [line for line in result.out.splitlines()
                    if "rotary" in line]

        self.assertEqual(notes("llama-3-8b"), [
            "note: rotary base 500000, from the model's rope_theta"])
        self.assertEqual(notes("llama-3.1-8b"), [
            "note: rotary base 500000 and llama3 scaling by 8, from the model's "
            "rope_scaling"])
        self.assertEqual(notes("deepseek-v3"), [
            "note: rotary base 10000 and yarn scaling by 40, from the model's "
            "rope_scaling"])
        self.assertEqual(notes("llama-3.1-8b", "--features", "none"), [])

    def test_a_naive_group_map_fails_with_a_way_out(self):
        with tempfile.TemporaryDirectory() as folder:
            path = rules(folder, "axes: {head: tp, kv_head: []}\n")
            args = ["--rules", path, "--mode", "train", "--layout", "bthd",
                    "--dtype", "float32"]
            result = self.verify("--operation", "flash_attn2", *args,
                                 "--format", "json", rc=1,
                                 attention=SMALL.replace("kv_heads=4",
                                                         "kv_heads=2"))
            case = result.json()["cases"][0]
            self.assertEqual(case["status"], "fail")
            self.assertEqual(case["axis"], "tp")
            self.assertIn("key heads", case["reason"])
            self.assertTrue(case["help"])
            # The global view is right with any legal layout.
            self.verify("--operation", "vanilla", *args)

    def test_a_trace_that_fails_is_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            path = rules(folder, "axes: {head: [tp, tq], kv_head: tq}\n")
            args = ["--rules", path, "--operation", "flash_decoding",
                    "--mode", "decode", "--layout", "bthd", "--dtype",
                    "float32"]
            result = self.verify(*args, "--format", "json", rc=1,
                                 mesh="tp:2,tq:2")
            trace, = [c for c in result.json()["cases"] if "cache" in c]
            self.assertEqual(trace["status"], "fail")
            self.assertEqual(trace["axis"], "tq")
            for part in ("on 4 devices from 0 (tp=0 tq=0)", "first at batch",
                         "at step 0", "key heads are split over `tq`"):
                self.assertIn(part, trace["reason"])
            self.assertIn("kv_head", trace["help"])
            # In text an operation is reported once, not once a case.
            text = self.verify(*args, rc=1, mesh="tp:2,tq:2").out
            self.assertEqual(text.count("\nfail: "), 1)
            self.assertIn("more cases with the same remedy", text)

    def test_a_requested_operation_must_run(self):
        ring = ["--operation", "ring", "--mode", "decode", "--layout",
                "bthd", "--dtype", "float32"]
        result = self.verify(*ring, "--format", "json", rc=1)
        case = result.json()["cases"][0]
        self.assertEqual(case["status"], "unsupported")
        self.assertEqual(case["axis"], "sp")
        # In a bare matrix only a failure counts.
        self.verify("--mode", "decode", "--layout", "bthd", "--dtype",
                    "float32")

    def test_features_have_cases_of_their_own(self):
        one = ["--mode", "train", "--layout", "bthd", "--dtype", "float32"]

        def run_features(*args, rc=0):
            report = self.verify(*one, *args, "--format", "json",
                                 rc=rc).json()
            return [(c["operation"], tuple(c["features"]), c["status"])
                    for c in report["cases"]]
        bare = run_features("--operation", "flash_attn2")
        self.assertEqual([c[1:] for c in bare],
                         [((), "pass"), (("long",), "pass"),
                          (("large_logits",), "pass")])
        none = run_features("--operation", "flash_attn2", "--features", "none")
        self.assertEqual([c[1] for c in none], [(), ("long",)])
        named = run_features("--operation", "flash_attn2,unified_attention",
                             "--features", "bias,sinks", rc=1)
        self.assertIn(("flash_attn2", ("bias",), "pass"), named)
        self.assertIn(("flash_attn2", ("sinks",), "pass"), named)
        # What is requested by name shows its refusal.
        self.assertIn(("unified_attention", ("bias",), "unsupported"), named)
        every = run_features("--features", "all")
        names = {c[1] for c in every if c[0] == "blocksparse"}
        self.assertEqual(len(names), 17)  # 15 of them, none, and a long one
        self.assertNotIn(("custom_blocks",),
                         {c[1] for c in every if c[0] == "vanilla"})
        self.assertEqual({c[2] for c in every if c[1]}, {"pass"})
        result = self.verify(*one, "--operation", "ring")
        self.assertIn("features", result.out)
        result = self.verify("--features", "bais", rc=2)
        self.assertIn("did you mean `bias`?", result.err)
        self.verify("--features", "all,bias", rc=2)

    def test_usage_errors_exit_2(self):
        for args in (["--operation", "rign"],
                     ["--dtype", "int4"],
                     ["--layout", "bhdt"],
                     ["--steps", "0"],
                     ["--mode", "trane"]):
            result = self.verify(*args, rc=2)
            self.assertIn("error", result.err)
        for attention in ("heads=8,kv_heads=3", "heads=0", "heds=8",
                          "heads=8,heads=8", "heads=8,q_len=64,kv_len=8",
                          "heads=99999999999"):
            self.verify(attention=attention, rc=2)
        result = self.verify("--operation", "rign", rc=2)
        self.assertIn("`ring`", result.err)

    def test_same_output_whatever_the_threads(self):
        args = ["--mode", "decode", "--dtype", "bfloat16", "--format", "json",
                "--seed", "7"]
        one = self.verify(*args, "--threads", "1").out
        self.assertEqual(self.verify(*args, "--threads", "3").out, one)
        other = self.verify(*args[:-1], "8").out
        self.assertNotEqual(other, one)

    def test_progress_is_for_terminals(self):
        self.assertEqual(self.verify("--mode", "decode", "--dtype",
                                     "float32").err, "")

    def test_steps_over_an_int8_cache(self):
        report = self.verify("--operation", "flash_decoding", "--mode",
                             "decode", "--dtype", "float32", "--kv-dtype",
                             "int8", "--steps", "5", "--format",
                             "json").json()
        traces = [c for c in report["cases"] if "cache" in c]
        self.assertEqual(len(traces), 1)
        self.assertEqual(traces[0]["cache"]["steps"], 5)
        self.assertEqual(traces[0]["kv_dtype"], "I8")
        self.assertEqual(traces[0]["status"], "pass")

    def test_caches_roll_and_pages_are_shared(self):
        report = self.verify("--mode", "decode", "--dtype", "bfloat16",
                             "--format", "json", mesh="dp:2,tp:2",
                             attention=SMALL + ",window=12").json()
        traces = {(c["operation"], c["cache"]["window"] > 0,
                  c["cache"]["pages"]): c
                 for c in report["cases"] if "cache" in c}
        self.assertEqual(len(traces), 6)
        rolling = traces["flash_decoding", True, False]["cache"]
        self.assertGreater(rolling["prefill"], rolling["slots"])
        for name in ("ragged_page_attention_v2", "ragged_page_attention_v3",
                     "unified_attention", "paged_flash_attention"):
            self.assertIn((name, False, True), traces)
        self.assertEqual({c["status"] for c in traces.values()}, {"pass"})

    def test_full_sizes_are_those_given(self):
        report = self.verify("--operation", "flash_decoding", "--mode",
                             "decode", "--dtype", "bfloat16", "--full",
                             "--format", "json",
                             attention=SMALL.replace("kv_len=32",
                                                     "kv_len=600")).json()
        traces = [c for c in report["cases"] if "cache" in c]
        self.assertEqual(traces[0]["cache"]["prefill"], 600)
        # What is small anyway is reported as such.
        self.assertIn("reduced sizes", " ".join(report["remarks"]))
        self.assertEqual(report["summary"]["fail"], 0)

    def test_heads_and_windows_are_those_of_the_model(self):
        """MiMo-V2 has narrower values than keys; the window of ModernBERT is
        on both sides of a query's own key."""
        common = {"hidden_size": 64, "num_attention_heads": 4,
                  "num_hidden_layers": 4, "vocab_size": 96}
        sizes = ["--operation", "vanilla", "--mode", "train", "--layout",
                 "bthd", "--dtype", "float32", "--full", "--format", "json"]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            def report(attention, **config):
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({**common, **config}, file)
                cases = self.verify(*sizes, "--model", path,
                                    attention=attention).json()["cases"]
                return [one for one in cases if not {"long", "large_logits"}
                        & set(one["features"])]
            for case in report("batch=4,q_len=32,kv_len=32",
                               model_type="mimo_v2_flash", head_dim=24,
                               num_key_value_heads=2, v_head_dim=16):
                self.assertEqual(case["status"], "pass")
                self.assertEqual((case["shapes"]["key"][-1],
                                  case["shapes"]["value"][-1]), (24, 16))
            # Sizes of heads that are given are those of values too.
            for case in report("batch=4,head_dim=32,q_len=32,kv_len=32",
                               model_type="mimo_v2_flash", head_dim=24,
                               num_key_value_heads=2, v_head_dim=16):
                self.assertEqual(case["shapes"]["value"][-1], 32)
            for case in report("batch=4,q_len=32,kv_len=32",
                               model_type="modernbert", local_attention=16):
                self.assertEqual(case["status"], "pass")
                self.assertIn("window", case["features"])

    def test_a_large_mesh_is_reduced(self):
        ask = ("--operation", "vanilla", "--mode", "train,decode",
               "--layout", "bthd", "--dtype", "float32", "--format", "json")
        sizes = {"mesh": "fsdp:8,tp:4", "attention":
                 "heads=8,kv_heads=4,head_dim=16,batch=16,q_len=8"}
        few = self.verify(*ask, **sizes).json()
        self.assertIn("reduced mesh: fsdp=2 tp=4 for fsdp=8 tp=4 (--full "
                      "runs it)", few["remarks"])
        full = self.verify(*ask, "--full", **sizes).json()
        self.assertFalse([one for one in full["remarks"] if "mesh" in one])
        self.assertEqual(few["summary"], full["summary"])
        for one, other in zip(few["cases"], full["cases"]):
            if other["shapes"]["key"][1] == 8:
                self.assertEqual(one["communication_in_full"],
                                 other["communication"])

    def test_a_mesh_without_sizes_for_short_axes_is_reduced_otherwise(self):
        """The first choice, fsdp:2,tp:4, would divide the 8 KV heads of fsdp
        and tp together, which fsdp:16,tp:4 does not."""
        report = self.verify(
            "--operation", "ulysses", "--mode", "train", "--dtype", "float32",
            "--format", "json", rc=1, mesh="fsdp:16,tp:4",
            attention="heads=32,kv_heads=8,head_dim=128,batch=64,q_len=1024"
        ).json()
        self.assertIn("reduced mesh: fsdp=4 tp=2 for fsdp=16 tp=4 (--full "
                      "runs it)", report["remarks"])
        self.assertEqual(report["summary"],
                         {"pass": 4, "fail": 0, "unsupported": 1})

    def test_a_length_that_does_not_divide_names_its_axis(self):
        """At reduced and full sizes, and over a cache."""
        for full in ((), ("--full",)):
            cases = self.verify(
                "--operation", "flash_decoding", "--mode", "decode",
                "--layout", "bthd", "--dtype", "float32", "--format", "json",
                *full, mesh="sp:3", rc=1,
                attention="heads=4,kv_heads=2,head_dim=16,batch=2,kv_len=256"
            ).json()["cases"]
            self.assertEqual(len(cases), 2)
            for case in cases:
                self.assertEqual(case["status"], "unsupported")
                self.assertEqual(case["axis"], "sp")
                self.assertIn("does not divide into 3 parts", case["reason"])

    def test_decoding_in_full_counts_one_query(self):
        """4.3e9 logits of prefill are too many to hold; a step's are not."""
        given = "heads=64,kv_heads=1,head_dim=4,batch=1,kv_len=8192"
        args = ("--full", "--operation", "sdpa", "--layout", "bthd", "--dtype",
                "float32", "--features", "none")
        self.verify(*args, "--mode", "decode", mesh="tp:2", attention=given)
        said = self.verify(*args, "--mode", "decode,prefill", mesh="tp:2",
                           attention=given, rc=2)
        self.assertIn("4,294,967,296 logits", said.err)

    def test_dump_writes_each_case(self):
        with tempfile.TemporaryDirectory() as folder:
            self.verify("--operation", "flash_attn2", "--mode", "prefill",
                        "--layout", "bthd", "--dtype", "float16", "--dump",
                        folder)
            with open(os.path.join(folder, "case-0000.json")) as f:
                entry = json.load(f)
            self.assertEqual(entry["case"]["operation"], "flash_attn2")
            self.assertIn("scale", entry["settings"])
            with open(os.path.join(folder, "case-0000.safetensors"),
                      "rb") as f:
                data = f.read()
            size, = struct.unpack("<Q", data[:8])
            header = json.loads(data[8:8 + size])
            for name in ("query", "key", "value", "output", "reference"):
                self.assertIn(name, header)
            self.assertEqual(header["query"]["dtype"], "F16")
            self.assertEqual(header["reference"]["dtype"], "F64")
            end = max(t["data_offsets"][1] for t in header.values())
            self.assertEqual(8 + size + end, len(data))

    def test_a_dump_into_a_file_runs_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "case")
            with open(path, "w", encoding="utf-8") as file:
                file.write("x")
            result = self.verify("--operation", "flash_attn2", "--mode",
                                 "prefill", "--dump", path, rc=2)
            self.assertIn(f"`{path}` cannot be made: Not a directory",
                          result.err)
            self.assertEqual(result.err.count("SHD060"), 1)
            self.assertEqual(result.out, "")
            # A link to a folder is a folder.
            os.symlink(folder, path + ".link")
            self.verify("--operation", "flash_attn2", "--mode", "prefill",
                        "--dump", path + ".link")
            self.assertIn("case-0000.json", os.listdir(folder))

    def test_the_list_shows_what_runs(self):
        """A dimension that is split alone, for each operation."""
        listed = self.check(run("verify", "--list", "--format", "json"),
                            0).json()["operations"]
        text = self.check(run("verify", "--list"), 0).out
        rules = {"batch": ["batch"], "query_length": ["query_sequence"],
                 "key_length": ["key_sequence"], "heads": ["head", "kv_head"],
                 "dim": ["attention_dim", "attention_kv_dim"]}
        together = ("ring", "ulysses")  # split queries as their keys
        names = sorted({name for some in rules.values() for name in some})
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rules.yaml")
            for operation in listed:
                name = operation["name"]
                self.assertIn(f"{name}: {operation['summary']}", text)
                mode = "decode" if name == "flash_decoding" else "prefill"
                for dim, says in operation["supports"].items():
                    if mode == "decode" and dim == "query_length":
                        continue  # one row, which nothing splits
                    split = rules[dim]
                    if dim.endswith("length") and name in together:
                        split = ["query_sequence", "key_sequence"]
                    axes = {n: "x" if n in split else "[]" for n in names}
                    axes.update({f"decode_{n}": v for n, v in axes.items()
                                 if n not in ("attention_dim",
                                              "attention_kv_dim")})
                    with open(path, "w", encoding="utf-8") as file:
                        file.write("version: 1\naxes: {" + ", ".join(
                            f"{n}: {v}" for n, v in axes.items()) + "}\n")
                    report = run(
                        "verify", "--no-project", "--mesh", "x:2", "--rules",
                        path, "--operation", name, "--mode", mode, "--layout",
                        "bthd", "--dtype", "float32", "--format", "json",
                        "--attention", "heads=4,kv_heads=4,head_dim=32",
                        "--batch", "2", "--seq", "32", "--kv-len", "32")
                    with self.subTest(operation=name, dim=dim):
                        self.assertIn(report.rc, (0, 1), report.err)
                        case = report.json()["cases"][0]
                        self.assertEqual(case["status"], "unsupported"
                                         if says is None else "pass",
                                         case.get("reason"))

    def test_many_devices(self):
        report = self.verify(
            "--mode", "train", "--operation", "ring", "--layout", "bthd",
            "--dtype", "float32", "--format", "json", mesh="dp:8,sp:8,tp:8",
            attention="heads=64,kv_heads=8,head_dim=128,batch=16,"
                      "q_len=8192,kv_len=8192").json()
        self.assertEqual(report["cases"][0]["mesh"]["devices"], 8)
        self.assertEqual(report["summary"]["fail"], 0)
        report = self.verify(
            "--mode", "train", "--operation", "ring", "--layout", "bthd",
            "--dtype", "float32", "--format", "json", "--full",
            mesh="dp:8,sp:8,tp:8",
            attention="heads=64,kv_heads=8,head_dim=16,batch=8,"
                      "q_len=64,kv_len=64").json()
        self.assertEqual(report["cases"][0]["mesh"]["devices"], 512)
        self.assertEqual(report["summary"]["fail"], 0)


if __name__ == "__main__":
    unittest.main()
