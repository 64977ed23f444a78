"""`shardc verify --settings`, its flags, and a model's own settings."""

import json
import os
import struct
import tempfile
import unittest

import yaml

from driver import TESTDATA, FolderCase, run
from verify_case import sizes
from schemas_test import CoreLoader, validator

MESH = "dp:2,sp:2,tp:2"
SIZES = "heads=8,kv_heads=4,head_dim=16,batch=2,q_len=16,kv_len=32"
# One case of each operation.
ONE = ["--mode", "prefill", "--layout", "bthd", "--dtype", "float32"]
CONFIGS = os.path.join(TESTDATA, "configs")


def of_the_model(report):
    """The remarks, but for the one about cases in bfloat16."""
    return [remark for remark in report["remarks"]
            if not remark.startswith("added ")]


class Settings(FolderCase):
    def settings(self, text):
        with open(self.path("s.yaml"), "w", encoding="utf-8") as file:
            file.write(text + "\n")
        return ["--settings", self.path("s.yaml")]

    def verify(self, *args, rc=0, sizes=(*sizes(SIZES),), mesh=MESH):
        return self.check(run("verify", "--no-project", "--mesh", mesh,
                              *sizes, *args), rc)

    def case(self, operation, *args, **kwargs):
        """The first case of an operation."""
        report = self.verify("--operation", operation, *ONE, *args,
                             "--format", "json", **kwargs).json()
        return report["cases"][0]

    def refused(self, *args, **kwargs):
        """Nothing is run and nothing written; returns what was printed."""
        dump = self.path("dump")
        result = self.verify(*args, "--dump", dump, rc=2, **kwargs)
        self.assertEqual(result.out, "")
        self.assertFalse(os.path.exists(dump))
        return result.err

    def test_the_order_of_a_ring(self):
        plain = self.case("ring")
        self.assertEqual(plain["settings"]["order"], "contiguous")
        for order in ("zig_zag", "striped"):
            other = self.case("ring", "--ring-order", order)
            self.assertEqual(other["status"], "pass")
            self.assertEqual(other["settings"]["order"], order)
            self.assertEqual(other["communication"], plain["communication"])
            # Rows of different texts one after the other.
            packed = self.verify(
                "--operation", "ring", "--ring-order", order, "--layout", "thd",
                "--mode", "train", "--dtype", "float32", "--format", "json")
            self.assertEqual({one["status"]
                              for one in packed.json()["cases"]}, {"pass"})
        # Another association of the same sums.
        self.assertNotEqual(other["max_abs_error"], plain["max_abs_error"])

    def test_a_scan_and_its_steps_unrolled_are_one_program(self):
        text = "operations: {ring: {scan_ring_attention: %s}}"
        scan = self.case("ring", *self.settings(text % "true"))
        unrolled = self.case("ring", *self.settings(text % "false"))
        self.assertTrue(scan["settings"].pop("scan_ring_attention"))
        self.assertFalse(unrolled["settings"].pop("scan_ring_attention"))
        self.assertEqual(scan, unrolled)

    def dumped(self, name, *args):
        """(settings, bytes of the tensors) of a case."""
        folder = self.path(name)
        self.verify(*ONE, *args, "--dump", folder)
        with open(os.path.join(folder, "case-0000.json"),
                  encoding="utf-8") as file:
            settings = json.load(file)["settings"]
        with open(os.path.join(folder, "case-0000.safetensors"),
                  "rb") as file:
            return settings, file.read()

    def test_what_changes_the_numbers(self):
        base = ["--operation", "flash_attn2"]
        settings, plain = self.dumped("plain", *base)
        self.assertEqual(settings["dropout"], 0)
        for i, (flag, value, key) in enumerate([
                ("--dropout", 0.25, "dropout"),
                ("--softmax-scale", 0.5, "softmax_scale"),
                ("--soft-cap", 2, "soft_cap")]):
            settings, data = self.dumped(f"{i}", *base, flag, value)
            self.assertEqual(settings[key], value)
            self.assertEqual(len(data), len(plain))
            self.assertNotEqual(data, plain, flag)
            again = self.dumped(f"again{i}", *base, flag, value)[1]
            self.assertEqual(again, data)

    def test_a_dump_holds_every_setting(self):
        with open(os.path.join(os.path.dirname(TESTDATA), "schemas",
                               "operations.schema.json"),
                  encoding="utf-8") as file:
            keys = json.load(file)["definitions"]["settings"]["properties"]
        settings, _ = self.dumped("whole", "--operation", "vanilla")
        self.assertLessEqual(set(keys), set(settings))

    def test_who_wins(self):
        model = ["--model",
                 os.path.join(CONFIGS, "gemma-2-9b.config.json")]

        def cap(*args, operation="ring", sizes=model):
            found = self.case(operation, *args, sizes=sizes)["settings"]
            return found["soft_cap"]

        both = self.settings("defaults: {soft_cap: 40}\n"
                             "operations: {ring: {soft_cap: 30}}")
        self.assertEqual(cap(sizes=sizes(SIZES)), 0)
        self.assertEqual(cap(), 50)
        self.assertEqual(cap(*both, operation="sdpa"), 40)
        self.assertEqual(cap(*both), 30)
        self.assertEqual(cap(*both, "--soft-cap", "20"), 20)
        self.assertEqual(cap(*both, "--soft-cap", "0"), 0)

    def test_settings_of_a_model(self):
        for name, remark, key, value in [
                ("gemma-2-9b", "softmax scale 0.0668153, from the model's "
                 "query_pre_attn_scalar 224", "softmax_scale",
                 224 ** -0.5),
                ("granite-3.1-1b-a400m", "softmax scale 0.015625, from the "
                 "model's attention_multiplier 0.015625",
                 "softmax_scale", 0.015625),
                ("gpt-oss-20b", "a sink per head, from the model's "
                 "model_type gpt_oss", "soft_cap", 0),
                ("gpt2", "the model's attention dropout 0.1 is not applied: "
                 "give --dropout to apply it", "dropout", 0)]:
            path = os.path.join(CONFIGS, name + ".config.json")
            report = self.verify(
                "--operation", "ring", *ONE, "--format", "json",
                sizes=["--model", path]).json()
            self.assertIn(remark, report["remarks"])
            self.assertEqual(report["cases"][0]["settings"][key], value)
            text = self.verify("--operation", "ring", *ONE,
                               sizes=["--model", path]).out
            self.assertIn("note: " + remark + "\n", text)
        # Sinks are among the inputs, and take part.
        folder = self.path("sinks")
        self.verify("--operation", "ring", *ONE, "--dump", folder,
                    sizes=["--model", os.path.join(
                        CONFIGS, "gpt-oss-20b.config.json")])
        with open(os.path.join(folder, "case-0000.safetensors"),
                  "rb") as file:
            self.assertIn(b'"softmax_aux"', file.read())
        # What is overridden is not reported for the model.
        path = os.path.join(CONFIGS, "gemma-2-9b.config.json")
        report = self.verify(
            "--operation", "ring", *ONE, "--format", "json", "--soft-cap",
            "0", "--softmax-scale", "0.1", sizes=["--model", path]).json()
        self.assertEqual(of_the_model(report), [])

    def test_settings_reach_only_those_that_take_them(self):
        report = self.verify(*ONE, "--format", "json", *self.settings(
            "defaults: {dropout: 0.1, page_size: 3, merge: all_gather}"
        )).json()
        self.assertEqual(report["summary"]["fail"], 0)
        seen = set()
        for case in report["cases"]:
            seen.update(case["settings"])
            self.assertEqual("dropout" in case["settings"],
                             "page_size" not in case["settings"])
            self.assertNotIn("dropout", case["reason"] or "")
        self.assertLessEqual({"dropout", "page_size"}, seen)

    def test_decoding_over_a_cache(self):
        args = ["--operation", "flash_decoding", "--mode", "decode",
                "--dtype", "float32", "--format", "json"]

        def trace(*more):
            report = self.verify(*args, *more, rc=0).json()
            found, = [c for c in report["cases"] if "cache" in c]
            self.assertEqual(found["status"], "pass")
            return found

        plain = trace()
        gathered = trace(*self.settings(
            "operations: {flash_decoding: {merge: all_gather}}"))
        self.assertGreater(plain["communication"]["all_reduce"], 0)
        self.assertEqual(gathered["communication"]["all_reduce"], 0)
        self.assertGreater(gathered["communication"]["all_gather"],
                           plain["communication"]["all_gather"])
        for flag in (["--softmax-scale", "0.9"], ["--soft-cap", "3"],
                     ["--dropout", "0.3"]):
            self.assertNotEqual(trace(*flag)["max_abs_error"],
                                plain["max_abs_error"])

    def tensors(self, operation, *args):
        """Output and reference of the operation's first case, as floats."""
        with tempfile.TemporaryDirectory() as folder:
            case = self.case(operation, *args, "--dump", folder)
            self.assertEqual(case["status"], "pass")
            path = os.path.join(folder, "case-0000.safetensors")
            with open(path, "rb") as file:
                data = file.read()
        begin = 8 + struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:begin])
        def floats(name):
            first, last = header[name]["data_offsets"]
            wide = header[name]["dtype"] == "F64"
            return struct.unpack(f"<{(last - first) // (8 if wide else 4)}" +
                                 "fd"[wide], data[begin + first:begin + last])
        return case, floats("output"), floats("reference")

    def differs_from(self, plain, operation, *args):
        """Narrow arithmetic is judged by its own reference, sharply."""
        case, output, reference = self.tensors(operation, *args)
        self.assertGreater(
            max(abs(a - b) for a, b in zip(output, plain)), 1e-3)
        self.assertGreater(max(map(abs, reference)), 1e3 * case["tolerance"])
        self.assertLess(max(abs(a - b) for a, b in zip(output, reference)),
                        1e-5)
        return case

    def test_narrow_arithmetic(self):
        plain, whole, _ = self.tensors("vanilla")
        for flag, value in [("--dot-bits", "8"), ("--dot-bits", "4"),
                            ("--softmax-dtype", "bfloat16")]:
            self.differs_from(whole, "vanilla", flag, value)
        case = self.case("ring", "--softmax-dtype", "bfloat16", rc=1)
        self.assertEqual(case["status"], "unsupported")
        self.assertIn("softmax in BF16", case["reason"])
        err = self.refused("--operation", "ring", "--dot-bits", "8")
        self.assertIn("`vanilla`, `sdpa`, `flash_attn2`", err)
        case = self.case("flash_attn2", *self.settings(
            "defaults: {runtime_dtype: float16}"))
        self.assertEqual(case["settings"]["runtime_dtype"], "F16")
        self.assertGreater(case["max_abs_error"], plain["max_abs_error"])

    def test_without_features_the_model_adds_none(self):
        path = os.path.join(CONFIGS, "gemma-2-9b.config.json")
        report = self.verify(
            "--operation", "ring", *ONE, "--features", "none", "--format",
            "json", sizes=["--model", path]).json()
        self.assertEqual(of_the_model(report), [])
        self.assertEqual(report["cases"][0]["settings"]["soft_cap"], 0)
        self.assertEqual(report["cases"][0]["settings"]["softmax_scale"],
                         report["sizes"]["used"]["head_dim"] ** -0.5)

    def test_blocks_in_reduced_sizes(self):
        wide = sizes(SIZES.replace("kv_len=32", "kv_len=4096")
                     .replace("q_len=16", "q_len=4096"))
        case = self.case("flash_attn2", "--block-k", "128", "--block-q",
                         "2", sizes=wide)
        length = case["shapes"]["key"][1]
        self.assertLess(case["settings"]["blocksize_k"], length)
        self.assertIn("`blocksize_k` 128 is", "".join(case["remarks"]))
        self.assertEqual(case["settings"]["blocksize_q"], 2)
        case = self.case("flash_attn2", "--block-k", "128", "--full")
        self.assertEqual(case["settings"]["blocksize_k"], 128)
        self.assertNotIn("blocksize_k", "".join(case["remarks"]))
        text = self.verify(*ONE, "--operation", "flash_attn2", "--block-k",
                           "128", sizes=wide).out
        self.assertIn("note: flash_attn2: `blocksize_k` 128 is ", text)

    def test_the_axis_of_a_ring(self):
        case = self.case("ring", "--sequence-axis", "sp")
        self.assertEqual(case["status"], "pass")
        case = self.case("ring", "--sequence-axis", "tp", rc=1)
        self.assertEqual(case["status"], "unsupported")
        self.assertEqual(case["axis"], "sp")
        self.assertIn("sequence axis is `tp`", case["reason"])
        err = self.refused("--operation", "ring", "--sequence-axis", "spp")
        self.assertIn("`spp`, which is not an axis of the mesh", err)
        self.assertIn("did you mean `sp`?", err)

    def test_a_ring_within_an_exchange(self):
        plain = self.case("ulysses")["communication"]
        case = self.case("ulysses", *self.settings(
            "operations: {ulysses: {ring_axes: [sp]}}"))
        self.assertEqual(case["status"], "pass")
        self.assertEqual(case["settings"]["ring_axes"], ["sp"])
        self.assertGreater(plain["all_to_all"], 0)
        self.assertEqual(case["communication"]["all_to_all"], 0)
        self.assertGreater(case["communication"]["ppermute"], 0)

    def test_products_by_bits_and_softmax_in_16_bits(self):
        _, whole, _ = self.tensors("sdpa")
        for text in ("{sdpa: {dot_bits: 8}}", "{sdpa: {dot_bits: 4}}",
                     "{sdpa: {softmax_dtype: bfloat16}}",
                     "{sdpa: {softmax_dtype: float16, dot_bits: 8}}"):
            with self.subTest(text=text):
                # Not whole arithmetic under another name.
                case = self.differs_from(
                    whole, "sdpa", *self.settings("operations: " + text))
                self.assertTrue(case["bit_identical"])
        case = self.case("ring", *self.settings(
            "defaults: {softmax_dtype: float16}"), rc=1)
        self.assertEqual(case["status"], "unsupported")
        self.assertIn("softmax in F16", case["reason"])
        self.assertIn("use vanilla or sdpa", case["help"])

    def test_a_wider_cache_is_computed_in_its_dtype(self):
        report = self.verify("--operation", "sdpa,flash_attn2,ring", *ONE[:-1],
                             "bfloat16", "--kv-dtype", "float32", "--format",
                             "json").json()
        for case in report["cases"]:
            if case["features"] == ["long"]:
                continue
            self.assertEqual(case["status"], "pass")
            self.assertLess(case["max_abs_error"], 1e-5)
            self.assertIn("computed in F32", "".join(case["remarks"]))

    def test_one_clear_finding(self):
        for text, place, said in [
                ("operations: {ring: {order: zigzag}}", ":1:28",
                 "`order` is the string `zigzag`"),
                ("operations:\n  vanilla: {order: zig_zag}", ":2:13",
                 "`order` has no meaning for `vanilla`"),
                ("operations: {rign: {}}", ":1:14",
                 "no operation is called `rign`"),
                ("defaults: {droput: 0.1}", ":1:12",
                 "unknown key `droput` in a record of settings"),
                ("defaults: {dropout: 1}", ":1:21",
                 "`dropout` is `1`, not below 1"),
                ("operations: {ulysses: {ring_axes: [xp]}}", ":1:35",
                 "`ring_axes` names `xp`, which is not an axis of the mesh")]:
            with self.subTest(text):
                err = self.refused(*self.settings(text))
                self.assertEqual(err.count("error"), 1, err)
                self.assertIn("s.yaml" + place + "\n", err)
                self.assertIn(said, err)
                self.assertIn("^", err)

    def test_all_errors_at_once(self):
        err = self.refused("--dropout", "2", "--block-q", "-1",
                           *self.settings("default: {}\nversion: 3"))
        for said in ("`dropout` is `2`", "`blocksize_q` is `-1`",
                     "unknown key `default`", "version 3"):
            self.assertIn(said, err)

    def test_a_flag_without_a_meaning_for_the_operation(self):
        err = self.refused("--operation", "vanilla,sdpa", "--ring-order",
                           "zig_zag")
        self.assertIn("`--ring-order` does not apply to the requested "
                      "operations", err)
        self.assertIn("it is a setting of `ring`", err)

    def test_hostile_files(self):
        deep = "defaults: " + "[" * 5000
        for text in [
                "", "[]", "null", "1", "defaults: []", "defaults: 1",
                "operations: []", "operations: {ring: 1}", deep,
                "defaults: {blocksize_q: 99999999999999999999999}",
                "defaults: {blocksize_q: 9223372036854775807}",
                "defaults: {blocksize_k: -9223372036854775808}",
                "defaults: {blocksize_k: 1e9}",
                "defaults: {page_size: 2147483648}",
                "defaults: {global_blocks: -1}",
                "defaults: {softmax_scale: .inf}",
                "defaults: {softmax_scale: 1e999}",
                "defaults: {softmax_scale: 1e-300}",
                "defaults: {soft_cap: 1e-300}",
                "defaults: {dropout: .nan}", "defaults: {dropout: -0.1}",
                "defaults: {dropout: 0.5}\ndefaults: {dropout: 0.5}",
                "defaults: {softmax_dtype: float64}",
                "defaults: {softmax_dtype: [float32]}",
                "defaults: {dot_bits: 7}", "defaults: {order: }",
                "defaults: {<<: {dropout: 0.1}}",
                "defaults: &a {sequence_axis: *a}",
                "defaults: {sequence_axis: '\u202e'}",
                "operations: {? [ring] : {}}", "--- \n---\n",
                "defaults: {\0dropout: 1}", "operations: {'': {}}",
                "defaults: !!map {}", "x" * 100000]:
            with self.subTest(text[:60]):
                self.assertIn("error", self.refused(*self.settings(text)))
        with open(self.path("s.yaml"), "wb") as file:
            file.write(b"defaults: {\xff\xfe: 1}\n")
        self.assertIn("error", self.refused("--settings",
                                            self.path("s.yaml")))
        self.refused("--settings", self.path("absent.yaml"))
        self.refused("--settings", self.folder)

    def test_the_schema_agrees_with_the_program(self):
        check = validator("operations")
        for good, text in [
                (True, "{}"), (True, "defaults:\noperations:"),
                (True, "operations: {ring: , vanilla: {}}"),
                (True, "version: 1\ndefaults: {runtime_dtype: BF16, "
                       "softmax_dtype: float32, softmax_scale: 1, "
                       "soft_cap: 0, dropout: 0, blocksize_q: 1, "
                       "blocksize_k: 1048576, page_size: 4096, "
                       "sequence_axis: sp, ring_axes: sp, order: striped, "
                       "merge: all_gather, block_mask: sliding, "
                       "global_blocks: 0, dot_bits: 4}"),
                (True, "defaults: {softmax_dtype: <f4, ring_axes: []}"),
                (True, "operations: {flash_attn2: {dot_bits: 8}}"),
                (False, "[]"), (False, "version: 2"), (False, "default: {}"),
                (False, "defaults: []"), (False, "operations: []"),
                (False, "operations: {rign: {}}"),
                (False, "operations: {ring: []}"),
                (False, "operations: {vanilla: {order: striped}}"),
                (False, "operations: {ring: {dot_bits: 8}}"),
                (False, "operations: {ring: {page_size: 8}}"),
                (False, "operations: {sdpa: {blocksize_k: 8}}"),
                (False, "operations: {unified_attention: {dropout: 0}}"),
                (False, "defaults: {softmax_dtype: float64}"),
                (False, "defaults: {softmax_scale: 0}"),
                (False, "defaults: {softmax_scale: '1'}"),
                (False, "defaults: {soft_cap: 0.0001}"),
                (False, "defaults: {dropout: 1}"),
                (False, "defaults: {blocksize_q: 0}"),
                (False, "defaults: {blocksize_q: 1048577}"),
                (False, "defaults: {blocksize_b: -1}"),
                (False, "defaults: {page_size: 4097}"),
                (False, "defaults: {sequence_axis: s p}"),
                (False, "defaults: {ring_axes: [sp, sp]}"),
                (False, "defaults: {scan_ring_attention: no}"),
                (False, "defaults: {order: zigzag}"),
                (False, "defaults: {merge: all}"),
                (False, "defaults: {block_mask: local}"),
                (False, "defaults: {global_blocks: -1}"),
                (False, "defaults: {dot_bits: 16}"),
                (False, "defaults: {dot_bits: }")]:
            with self.subTest(text):
                value = yaml.load(text, CoreLoader)
                self.assertEqual(check.is_valid(value), good)
                self.check(run(
                    "verify", "--no-project", "--mesh", MESH,
                    *sizes(SIZES), "--operation", "vanilla", *ONE,
                    *self.settings(text)), 0 if good else 2)

    def test_hostile_flags(self):
        for flag, values in [
                ("--block-q", ["", "0", "-1", "1.5", "0x10", "1e3",
                               "99999999999999999999", "1048577", "[1]"]),
                ("--page-size", ["0", "4097", "two"]),
                ("--softmax-scale", ["", "0", "-1", "nan", "inf", "1,5",
                                     "1e7", "'0.5'"]),
                ("--dropout", ["1", "1.0", "-0.5", "1e400", "true"]),
                ("--soft-cap", ["-1", "1e-9", "{}"]),
                ("--softmax-dtype", ["int8", "f64", "float"]),
                ("--ring-order", ["zigzag", "ZIG_ZAG", "&a *a"]),
                ("--dot-bits", ["1", "16", "-8", "eight"]),
                ("--sequence-axis", ["", "_", "1", "s p"])]:
            for value in values:
                with self.subTest(flag=flag, value=value):
                    err = self.refused(f"{flag}={value}")
                    self.assertIn("error", err)

    def test_pages_too_large_to_hold(self):
        err = self.refused("--page-size", "4096", "--full", sizes=[
            "--attention", "heads=128,kv_heads=128,head_dim=128", "--batch",
            "512", "--seq", "1", "--kv-len", "16"])
        self.assertIn("34,359,738,368 numbers, too many to hold", err)

    def test_sizes_too_large_to_hold(self):
        huge = 2 ** 31
        for given, said in [
                (f"heads=2,head_dim={huge},q_len=4", "query, key and value"),
                (f"heads=2,batch={huge},q_len=1,kv_len=4,head_dim=64",
                 "logits"),
                (f"heads=2,batch={huge},q_len={huge},head_dim={huge}",
                 "over 9e18 logits")]:
            with self.subTest(sizes=given):
                err = self.refused("--full", sizes=sizes(given))
                self.assertIn(said, err)
                self.assertIn("too many to hold", err)

    def test_large_blocks_cost_nothing(self):
        case = self.case("flash_attn2", "--block-k", "1048576", "--block-q",
                         "1048576", "--dropout", "0.1", "--full")
        self.assertEqual(case["status"], "pass")
        self.assertEqual(case["settings"]["blocksize_k"], 1048576)


if __name__ == "__main__":
    unittest.main()
