"""Compiles the loss and the gradients of a small MaxText model on eight CPU
devices and counts the collectives that run, as audit_executed.py does. Run by
hand in the environment `maxtext` (environment.py):

    cd tests/runtimes; python3 audit_maxtext.py OUT_FOLDER

Prints the row for EXPECT.json. Recorded with MaxText 0.2.5 and JAX 0.12.0.1.
"""

import os
import sys

import audit_executed
import audit_programs

# pylint: disable=wrong-import-position
import jax
import jax.numpy as jnp
import maxtext
from flax import nnx
from flax.core.spmd import logical_axis_rules
from jax.sharding import NamedSharding, PartitionSpec
from maxtext.configs import pyconfig
from maxtext.utils import maxtext_utils, model_creation_utils, sharding

SETTINGS = """run_name=x hardware=cpu enable_checkpointing=false
    dataset_type=synthetic skip_jax_distributed_system=true base_emb_dim=128
    base_num_query_heads=8 base_num_kv_heads=4 base_mlp_dim=256
    base_num_decoder_layers=4 head_dim=16 vocab_size=512 max_target_length=64
    per_device_batch_size=2 ici_data_parallelism=2 ici_fsdp_parallelism=2
    ici_tensor_parallelism=2 attention=dot_product remat_policy=full""".split()


def maxtext_decoder(_):
    base = os.path.join(os.path.dirname(maxtext.__file__), "configs",
                        "base.yml")
    config = pyconfig.initialize(["", base, *SETTINGS])
    mesh = maxtext_utils.get_mesh_from_config(config)
    graph, params, rest = nnx.split(nnx.eval_shape(
        model_creation_utils.get_nnx_create_model_fn(config, mesh)),
        nnx.Param, ...)

    def place(variable):
        value = variable.get_value()
        return variable.replace(jax.ShapeDtypeStruct(
            value.shape, value.dtype,
            sharding=sharding.get_nnx_var_named_sharding_with_scan_axis(
                variable, mesh).get_value()))
    params = jax.tree.map(place, params,
                          is_leaf=lambda x: isinstance(x, nnx.Variable))
    # The states of random numbers are made here, and are constants.
    rest = jax.tree.map(
        lambda one: jax.random.key(0) if jnp.issubdtype(
            one.dtype, jax.dtypes.prng_key) else jnp.zeros(
                one.shape, one.dtype), rest)
    tokens = jax.ShapeDtypeStruct((16, 64), jnp.int32, sharding=NamedSharding(
        mesh, PartitionSpec(("data", "fsdp"))))

    def loss(params, ids, positions, segments):
        logits = nnx.merge(graph, params, rest)(
            decoder_input_tokens=ids, decoder_positions=positions,
            decoder_segment_ids=segments, enable_dropout=False)
        picked = jax.nn.log_softmax(logits) * jax.nn.one_hot(ids, 512)
        return -picked.sum(-1).mean()
    return audit_executed.jitted(
        "maxtext_decoder", lambda *args: jax.value_and_grad(loss)(*args),
        params, tokens, tokens, tokens), config, mesh


def main():
    made, config, mesh = maxtext_decoder("maxtext_decoder")

    def program(_):
        return made
    program.__name__ = "maxtext_decoder"
    with mesh, logical_axis_rules(config.logical_axis_rules):
        text, row = audit_executed.executed(program)
    audit_programs.put(sys.argv[1], row["program"], text)
    print(row)


if __name__ == "__main__":
    main()
