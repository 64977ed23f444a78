"""What XLA's partitioner makes of training steps under shardc's plans: which
collectives, of how many bytes, and which loss and gradients the devices
compute.

The step is plain JAX (xla_models.py): parameters have the shardings of `shardc
plan`, activations those of `shardc resolve` for their logical axes. Collectives are
read right after partitioning, in float32; the numbers are computed in float64
by smaller models under the same plans.
"""

import glob
import math
import os
import re
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
# The partitioner complains of what is recorded here.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import drawn
import records
import xla_hlo
import xla_models
import xla_siblings_answers
from xla_cases import (CASES, PACKS, SIZES, STACKED, TOKENS, Asked, config_of,
                       program, shapes, slots)

DEVICES = 16
jax.config.update("jax_num_cpu_devices", DEVICES)

SEMANTIC = ["BATCH", "QUERY_LENGTH", "KV_LENGTH", "EMBED", "HEAD", "KV_HEAD",
            "HEAD_DIM", "KV_HEAD_DIM", "MLP_INTERMEDIATE", "VOCAB", "EXPERT",
            "EXPERT_GATE"]
PROJECTIONS = 2


def anchors(asked):
    """Specs of activations by role."""
    wide = {a for a, n in asked.case["mesh"].items() if n > 1}
    axes = {token: [a for a in asked.semantic(token) if a in wide]
            for token in SEMANTIC}
    batch, expert = axes["BATCH"], axes["EXPERT"]
    token = [batch, axes["QUERY_LENGTH"]]
    mlp, apart = axes["MLP_INTERMEDIATE"], [a for a in batch
                                            if a not in expert]
    out = {"tokens": token, "resid": token + [axes["EMBED"]],
           "normed": token + [axes["EMBED"]],
           "q": token + [axes["HEAD"], axes["HEAD_DIM"]],
           "attn_out": token + [axes["HEAD"], axes["HEAD_DIM"]],
           "k": [batch, axes["KV_LENGTH"], axes["KV_HEAD"],
                 axes["KV_HEAD_DIM"]],
           "mlp": token + [mlp], "logits": token + [axes["VOCAB"]],
           "router": token + [axes["EXPERT_GATE"]],
           "sel": token + [axes["EXPERT_GATE"]],
           "moe_exp": [apart, expert], "moe_mlp": [apart, expert, [], mlp]}
    if set(expert) <= set(batch):
        out["moe_tok"] = [batch]
    return {role: PartitionSpec(*once(groups))
            for role, groups in out.items()}


def once(groups):
    """An axis cuts where it stands first."""
    used = set()
    for group in groups:
        left = tuple(a for a in group if a not in used)
        used |= set(left)
        yield left or None


def entry(axes):
    return tuple(axes) if isinstance(axes, list) else axes


class Compiled:
    """The step of a case under its plan, or on one device."""

    def __init__(self, asked, batch, length, dtype, alone=False):
        case = asked.case
        sizes = {"one": 1} if alone else case["mesh"]
        devices = jax.devices()[:math.prod(sizes.values())]
        self.mesh = Mesh(np.array(devices).reshape(list(sizes.values())),
                         list(sizes))
        roles = {} if alone else anchors(asked)
        specs = asked.specs()
        self.params, self.shardings = {}, {}
        self.vocabulary = asked.config["vocab_size"]
        for name, shape in shapes(case, asked.use).items():
            spec = [] if alone else [entry(e) for e in specs[name] or []]
            self.shardings[name] = self.lies(*spec)
            self.params[name] = jax.ShapeDtypeStruct(
                tuple(shape), dtype, sharding=self.shardings[name])
        tokens = self.lies(*roles.get("tokens", []))
        self.data = {key: jax.ShapeDtypeStruct(
            (batch, length), dtype if key == "weights" else jnp.int32,
            sharding=tokens)
            for key in ("ids", "labels", "positions", "weights")}
        free = case.get("free") == "anchors"

        def see(x, role):
            if free or role not in roles:
                return x
            return jax.lax.with_sharding_constraint(
                x, self.lies(*roles[role]))

        kind = next((one for one in ("stacked", "by_part") if case.get(one)),
                    case["pack"])
        model = xla_models.MODELS[kind](
            {**asked.config, "slots": slots(asked.config, length)}, see,
            case.get("free") == "lookup", case.get("grouped", False))
        self.lowered = jax.jit(model.step, out_shardings=(
            self.lies(), self.shardings, self.lies())).lower(
                self.params, self.data)

    def lies(self, *spec):
        return NamedSharding(self.mesh, PartitionSpec(*spec))

    def partitioned(self):
        """The module's text after partitioning."""
        with tempfile.TemporaryDirectory() as folder:
            self.lowered.compile(compiler_options={
                "xla_dump_to": folder, "xla_dump_hlo_as_text": True,
                "xla_dump_large_constants": True,
                "xla_dump_hlo_pass_re": "spmd"})
            (path,) = glob.glob(os.path.join(
                folder, "*after_spmd-partitioning*"))
            with open(path, encoding="utf-8") as file:
                return file.read()

    def computed(self):
        """Loss, gradients by name, and their norm, of drawn numbers."""
        place = lambda x, like: jax.device_put(
            np.asarray(x, like.dtype), like.sharding)
        params = {name: place(drawn.weights(name, like.shape), like)
                  for name, like in self.params.items()}
        batch, length = self.data["ids"].shape
        whole = lambda name: np.floor(
            drawn.units(name, batch * length) * self.vocabulary).reshape(
                batch, length)
        data = {"ids": whole("ids"), "labels": whole("labels"),
                "positions": np.tile(np.arange(length), (batch, 1)),
                "weights": drawn.units("weights", batch * length).reshape(
                    batch, length)}
        data = {key: place(x, self.data[key]) for key, x in data.items()}
        loss, gradients, norm = self.lowered.compile()(params, data)
        return float(loss), {name: np.asarray(g) for name, g in
                             gradients.items()}, float(norm)


def grouped(sent):
    """Count and bytes by kind, axes and rules, a single number apart."""
    out = {}
    for one in sent:
        rules = "+".join(one.rules)
        key = ("number" if one.held <= 8 else one.kind, "+".join(one.axes),
               rules)
        count, size = out.get(key, (0, 0))
        out[key] = (count + 1, size + one.sent)
    return [{"kind": kind, "axes": axes, **({"rules": rules} if rules else
                                            {}), "count": count,
             "bytes": size}
            for (kind, axes, rules), (count, size) in sorted(out.items())]


def partitioned(case):
    """The text of a case, which is kept for `shardc audit`."""
    with tempfile.TemporaryDirectory() as folder:
        asked = Asked(case, "counted", folder)
        text = Compiled(asked, *TOKENS["counted"],
                        jnp.float32).partitioned()
    text = re.sub(r'^(\d+) "[^"]*/([^"/]*)"$', r'\1 "\2"', text, flags=re.M)
    records.write_packed(program(case["name"], ".after_spmd"), text)
    return text


def counted(case):
    text = partitioned(case)
    raw, rewritten = xla_hlo.collectives(text, case["mesh"])
    return {"partitioned": grouped(raw), "rewritten": grouped(rewritten)}


def projected(name, gradient):
    """A few numbers that distinguish a gradient from any other."""
    size = gradient.size
    out = [float(np.sqrt((gradient.astype(np.float64) ** 2).sum()))]
    for i in range(PROJECTIONS):
        along = drawn.units(f"{name} {i}", size) - 0.5
        out.append(float((gradient.reshape(-1) * along).sum()))
    return out


def difference(some, others):
    """The largest, over the largest of all gradients."""
    most = max(np.abs(g).max() for g in others.values())
    return float(max(np.abs(some[name] - others[name]).max()
                     for name in others) / most)


def computed(case):
    """In float64, on the mesh; as on one device."""
    with tempfile.TemporaryDirectory() as folder, \
            jax.enable_x64(True):
        asked = Asked(case, "computed", folder)
        tokens = TOKENS["computed"]
        loss, gradients, norm = Compiled(asked, *tokens,
                                         jnp.float64).computed()
        alone = Compiled(asked, *tokens, jnp.float64, alone=True).computed()
        assert abs(loss - alone[0]) < 1e-13 * abs(loss)
        assert difference(gradients, alone[1]) < 1e-13
    return {"loss": loss, "norm": norm, "gradients": {
        name: projected(name, g) for name, g in gradients.items()}}


def answer(case):
    return {**case, **counted(case), "computed": computed(case)}


def record():
    for case in STACKED:
        partitioned(case)
    yield "xla/steps", {
        "format": "shardc.runtimes.xla/v1",
        "versions": records.versions("jax", "jaxlib"),
        "tokens": TOKENS, "sizes": SIZES, "configs": {
            pack: config_of({"pack": pack}, "computed") for pack in PACKS},
        "parameters": {
            pack: [{"name": name, "shape": shape} for name, shape in
                   shapes({"pack": pack}, "computed").items()]
            for pack in PACKS},
        "cases": [answer(case) for case in CASES]}
    yield from xla_siblings_answers.record()
