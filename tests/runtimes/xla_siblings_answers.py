"""What XLA's partitioner sends in the steps of xla_siblings.py: programs in plain
JAX (xla_nets.py) whose parameters, hidden states, heads, logits, caches and rows of
experts have the shardings that `shardc plan` states for the mode."""

import collections
import glob
import math
import os
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import records
import xla_hlo
import xla_nets
from xla_siblings import LENGTH, Asked, axes_of, cases

if jax.config.jax_num_cpu_devices < 8:
    jax.config.update("jax_num_cpu_devices", 8)


class Compiled:
    def __init__(self, asked):
        self.asked, self.plan = asked, asked.plan()
        sizes = asked.mesh
        devices = np.array(jax.devices()[:math.prod(sizes.values())])
        self.mesh = Mesh(devices.reshape(list(sizes.values())), list(sizes))
        self.find_roles()

    def at(self, *spec):
        return NamedSharding(self.mesh, PartitionSpec(*spec))

    def fitting(self, shape, entries):
        """A sharding without the axes that do not divide, or are used twice."""
        used, out = set(), []
        for size, entry in zip(shape, entries):
            axes, parts = [], 1
            for axis in axes_of(entry):
                n = self.asked.mesh.get(axis, 1)
                if n == 1 or axis in used:
                    continue
                if size % (parts * n):
                    break
                parts *= n
                axes.append(axis)
            used |= set(axes)
            out.append(tuple(axes) or None)
        return self.at(*out)

    def find_roles(self):
        attention = self.plan["attention"][self.asked.mode]
        activations = self.plan["activations"][self.asked.mode]
        hidden, key = activations["hidden"], attention["key"]
        token = [hidden[0], attention["query"][1]]
        mlp = activations["mlp"][2]
        expert = axes_of(activations.get("experts", [None, None])[1])
        apart = [a for a in axes_of(token[0]) if a not in expert]
        taken = axes_of(token[0]) + axes_of(token[1])
        self.sends = bool(expert) and set(expert) <= set(axes_of(token[0]))
        self.token, self.logits = token, activations["logits"]
        self.roles = {
            "resid": [*token, hidden[2]], "normed": [*token, hidden[2]],
            "latent": token, "router": token, "q": attention["query"], "k": key,
            "attn_out": attention["output"], "mlp": [*token, mlp],
            "logits": [*token, self.logits[2]], "moe_exp": [apart, expert],
            "moe_mlp": [apart, expert, None, mlp], "moe_tok": [token[0]],
            "dense_experts": [*token, [a for a in expert if a not in taken],
                              mlp],
            "cache:k": key, "cache:v": attention["value"],
            "cache:latent": key[:2], "cache:rope": key[:2]}

    def see(self, x, role):
        if role.startswith("gradient:"):
            return jax.lax.with_sharding_constraint(
                x, self.params[role.partition(":")[2]].sharding)
        return jax.lax.with_sharding_constraint(
            x, self.fitting(x.shape, self.roles[role]))

    def array(self, shape, sharding, dtype=jnp.float32):
        return jax.ShapeDtypeStruct(tuple(shape), dtype, sharding=sharding)

    def caches(self, net):
        config, out = self.asked.config, {}
        kinds = {"k": (net.k, net.h), "v": (net.k, net.h)}
        if "kv_lora_rank" in config:
            kinds = {"latent": (config["kv_lora_rank"],),
                     "rope": (config["qk_rope_head_dim"],)}
        for i in range(config["num_hidden_layers"]):
            for kind, tail in kinds.items():
                shape = (self.asked.batch, LENGTH, *tail)
                out[f"{i}.{kind}"] = self.array(
                    shape, self.fitting(shape, self.roles["cache:" + kind]))
        return out

    def lowered(self):
        asked = self.asked
        groups = math.prod(asked.mesh.get(a, 1) for a in axes_of(self.token[0]))
        config = {**asked.config, **asked.net, "sends": self.sends,
                  "groups": groups}
        tokens = asked.batch // groups if asked.mode == "decode" else LENGTH
        slots = max(tokens * config.get("top_k", 0) //
                    config.get("experts", 1), 1)
        net = xla_nets.Net(asked.family, config, self.see,
                           asked.mesh.get("tp", 1), asked.by_part, slots)
        self.params = {}
        for one in asked.manifest["params"]:
            spec = self.plan["params"][one["name"]]["spec"] or []
            self.params[one["name"]] = self.array(
                one["shape"], self.at(*(tuple(axes_of(e)) or None
                                        for e in spec)))
        length = 1 if asked.mode == "decode" else LENGTH
        shape = (asked.batch, length)
        place = self.fitting(shape, self.token)
        data = {name: self.array(shape, place, jnp.int32)
                for name in ("ids", "positions", "labels")}
        data["weights"] = self.array(shape, place)
        held = {name: one.sharding for name, one in self.params.items()}
        if asked.mode == "train":
            args = (self.params, {name: (one, one) for name, one in
                                  self.params.items()}, data)
            out = (self.at(), held, {name: (one, one)
                                     for name, one in held.items()})
            return jax.jit(net.train, out_shardings=out).lower(*args)
        del data["labels"], data["weights"]
        caches = self.caches(net)
        out = (self.fitting((asked.batch, 1, config["vocab_size"]),
                            [self.token[0], None, self.logits[2]]),
               {name: one.sharding for name, one in caches.items()})
        args = [self.params, data]
        if asked.mode == "decode":
            data["place"] = self.array((), self.at(), jnp.int32)
            args.append(caches)
        return jax.jit(getattr(net, asked.mode), out_shardings=out).lower(*args)

    def text(self):
        """The module's text after partitioning."""
        with tempfile.TemporaryDirectory() as folder:
            self.lowered().compile(compiler_options={
                "xla_dump_to": folder, "xla_dump_hlo_as_text": True,
                "xla_dump_large_constants": True,
                "xla_backend_optimization_level": 0,
                "xla_dump_hlo_pass_re": "spmd"})
            (path,) = glob.glob(os.path.join(
                folder, "*after_spmd-partitioning*"))
            with open(path, encoding="utf-8") as file:
                return file.read()


def answer(model, mesh, mode, axes):
    with tempfile.TemporaryDirectory() as folder:
        asked = Asked(model, mesh, mode, axes, folder)
        sent = collections.Counter()
        _, rewritten = xla_hlo.collectives(Compiled(asked).text(), mesh)
        for one in rewritten:
            if one.held > 8:
                sent[f"{one.kind} {asked.over(list(one.axes))}"] += one.sent
    return {"model": model, "mesh": mesh, "mode": mode,
            **({"axes": axes} if axes else {}),
            "sent": dict(sorted(sent.items()))}


def record():
    yield "xla/siblings", {
        "format": "shardc.runtimes.xla_siblings/v1",
        "versions": records.versions("jax", "jaxlib"),
        "cases": [answer(*case) for case in cases()]}
