"""Compiles testdata/audit/slow_step/model.py as it is and mended, under the plan
of that folder. Run by hand, with JAX on the CPU, and SHARDC naming the program:

    cd tests/runtimes; python3 audit_guide.py

Writes the text right after partitioning of both, `step.hlo.txt.gz` and
`mended.hlo.txt.gz`.
"""

import glob
import gzip
import json
import os
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "..", "..", "testdata", "audit", "slow_step")
DUMP = tempfile.mkdtemp()
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
    f"--xla_force_host_platform_device_count=8 --xla_dump_to={DUMP} "
    "--xla_dump_hlo_as_text --xla_dump_hlo_pass_re=spmd.*")

# The settings above must precede the import.
# pylint: disable=wrong-import-position
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

MISTAKE, MENDED = '"dp", None, "tp")', 'BATCH, None, "tp")'


def compiled(source):
    for path in glob.glob(f"{DUMP}/*after_spmd-partitioning*"):
        os.remove(path)
    space = {"__name__": "model"}
    exec(compile(source, "model.py", "exec"), space)  # pylint: disable=exec-used
    step = space["step"]
    plan = json.loads(subprocess.run(
        [os.environ["SHARDC"], "plan", "--project",
         os.path.join(FOLDER, "shardc.yaml")],
        check=True, capture_output=True).stdout)
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("dp", "fsdp", "tp"))

    def placed(shape, spec, dtype=jnp.float32):
        axes = [tuple(one) if isinstance(one, list) else one for one in spec]
        return jax.ShapeDtypeStruct(
            tuple(shape), dtype, sharding=NamedSharding(mesh, P(*axes)))
    params = {path: placed(one["shape"], one["spec"] or [])
              for path, one in plan["params"].items()}
    data = {key: placed((32, 128), [["fsdp", "dp"]], dtype) for key, dtype in (
        ("ids", jnp.int32), ("labels", jnp.int32), ("positions", jnp.int32),
        ("weights", jnp.float32))}
    out = (None, {path: one.sharding for path, one in params.items()}, None)
    with jax.set_mesh(mesh):
        jax.jit(step, out_shardings=out).lower(params, data).compile()
    (path,) = glob.glob(
        f"{DUMP}/module_*.jit_step.*.after_spmd-partitioning*.txt")
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    with open(os.path.join(FOLDER, "model.py"), encoding="utf-8") as file:
        source = file.read()
    assert source.count(MISTAKE) == 1
    for name, text in (("step", source),
                       ("mended", source.replace(MISTAKE, MENDED))):
        with open(os.path.join(FOLDER, name + ".hlo.txt.gz"), "wb") as file:
            with gzip.GzipFile("", "wb", mtime=0, fileobj=file) as packed:
                packed.write(compiled(text).replace(
                    HERE + os.sep, "").encode())
        print(name, flush=True)


if __name__ == "__main__":
    main()
