"""The page of `shardc report`, parsed: its elements, links and texts by id."""

import html.parser
import json
import os

from driver import Case, run

MOST = 1_000_000
VOID = {"meta", "input", "br", "wbr", "link", "img", "hr"}
HOSTILE = ["</script><script>alert(1)</script>", "</style><b>x",
           "\" onmouseover=\"alert(1)", "' autofocus onfocus='alert(1)",
           "<img src=x onerror=alert(1)>", "&lt;b&gt;", "a\u202eb\u200bc\u2028d",
           "javascript:alert(1)", "n" * 10000, "{0..3}", "`tick`"]

# The compiled steps of docs/compiler.md: a model of two layers in the names of
# Flax.
CONFIG = {"model_type": "llama", "num_hidden_layers": 2,
          "num_attention_heads": 8, "num_key_value_heads": 4,
          "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
          "tie_word_embeddings": False, "vocab_size": 2048,
          "hidden_size": 256, "intermediate_size": 768, "head_dim": 32}
LAYER = {"input_layernorm": [256], "self_attn/q_proj": [256, 256],
         "self_attn/k_proj": [256, 128], "self_attn/v_proj": [256, 128],
         "self_attn/o_proj": [256, 256], "post_attention_layernorm": [256],
         "mlp/gate_proj": [256, 768], "mlp/up_proj": [256, 768],
         "mlp/down_proj": [768, 256]}
SHAPES = {"model/embed_tokens/embedding": [2048, 256],
          "model/norm/kernel": [256], "lm_head/kernel": [256, 2048],
          **{f"model/layers/{i}/{name}/kernel": shape for i in (0, 1)
             for name, shape in LAYER.items()}}


def inputs_of_steps(folder):
    """The inputs of the steps `llama_dp2_fsdp2_tp2*` in testdata/audit/steps,
    and the plan's step program for them."""
    def write(name, data):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(data if isinstance(data, str) else json.dumps(data))
        return path

    inputs = [
        "--no-project", "--mesh", "dp:2,fsdp:2,tp:2",
        "--rules", write("steps.rules.yaml", {
            "version": 1, "separator": "/", "rules": [],
            "axes": {"hidden_state": None}}),
        "--rules", "builtin:llama/flax",
        "--manifest", write("steps.manifest.json", {
            "schema": "shardc.manifest/v1", "params": {
                name: {"shape": shape, "dtype": "F32"}
                for name, shape in SHAPES.items()}}),
        "--model", write("steps.config.json", CONFIG)]
    done = run("verify", "step", *inputs, "--mode", "train", "--keep-gathered",
               "--activation-dtype", "float32", "--batch", "32", "--seq",
               "128", "--format", "json")
    assert done.rc == 0, done
    return inputs, write("steps.step.json", done.out)


class Page(html.parser.HTMLParser):
    """Elements that are closed in order, their attributes, and text by id."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.texts, self.wrong = [], [], {}, []
        self.ids, self.links = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append((tag, values))
        if "id" in values:
            self.ids.append(values["id"])
        if "href" in values:
            self.links.append(values["href"])
        if tag not in VOID:
            self.open.append((tag, values.get("id")))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            self.wrong.append(tag)
        else:
            self.open.pop()

    def handle_data(self, data):
        for _, name in self.open:
            if name:
                self.texts[name] = self.texts.get(name, "") + data


class ReportCase(Case):
    def report(self, *arguments, rc=0, **more):
        return self.check(run("report", *arguments, **more), rc).out

    def page(self, *arguments, rc=0):
        text = self.report(*arguments, rc=rc)
        page = Page(text)
        self.assertEqual(page.wrong, [])
        self.assertEqual(page.open, [])
        self.assertEqual(len(page.ids), len(set(page.ids)))
        # Links lead to what is there, and nowhere else.
        for link in page.links:
            self.assertTrue(link.startswith("#"), link)
            self.assertIn(link[1:], page.ids)
        names = {tag for tag, _ in page.tags}
        self.assertFalse(names & {"img", "link", "iframe", "object", "form"})
        for tag, values in page.tags:
            wrong = [name for name in values
                     if name.startswith("on") or name in ("style", "src")]
            self.assertEqual(wrong, [], tag)
        return page
