"""`verify --full` at the sizes of real models: time and memory of one process
and of two under mpirun, which must report the same bytes.

    bench/verify_ranks.py [BINARY [RANKS [FROM]]]

The binary is of a build with -Dmpi=enabled; minutes go into the prefill's dense
reference. FROM leaves out the cases before.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ENV = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1",
           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
           OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_btl="self,vader,tcp")


def case(name, model, mesh, sizes, *args):
    config = os.path.join(ROOT, "testdata", "configs", model + ".config.json")
    heads, batch, queries, keys = sizes
    return name, ["--model", config, "--mesh", mesh, "--attention", heads,
                  "--batch", batch, "--seq", queries, "--kv-len", keys,
                  "--dtype", "bfloat16", "--features", "none", *args]


CASES = [
    case("Llama 3 8B, decode, 8,192 keys", "llama-3-8b", "dp:2,sp:2,tp:2",
         ("heads=32,kv_heads=8,head_dim=128", "4", "1", "8192"),
         "--mode", "decode", "--operation", "flash_decoding", "--layout",
         "bthd", "--steps", "1"),
    case("Llama 3 70B, decode, 8,192 keys", "llama-3-70b", "dp:2,sp:2,tp:4",
         ("heads=64,kv_heads=8,head_dim=128", "4", "1", "8192"),
         "--mode", "decode", "--operation", "flash_decoding", "--layout",
         "bthd", "--steps", "1"),
    case("Gemma 2 9B, prefill, 4,096 keys, soft cap, window", "gemma-2-9b",
         "dp:2,tp:4",
         ("heads=16,kv_heads=8,head_dim=256,window=1024", "2", "4096", "4096"),
         "--mode", "prefill", "--operation", "flash_attn2", "--layout",
         "bthd"),
    case("Mixtral, ring, 2,048 tokens", "mixtral-8x7b", "dp:2,sp:4",
         ("heads=32,kv_heads=8,head_dim=128", "2", "2048", "2048"),
         "--mode", "train", "--operation", "ring", "--layout", "bthd"),
    case("DeepSeek V3, latent, 2,048 keys", "deepseek-v3", "dp:4,tp:4",
         ("heads=128,kv_heads=128,head_dim=128", "4", "1", "2048"),
         "--mode", "decode", "--operation",
         "multi_latent_ragged_page_attention_v1", "--layout", "bthd",
         "--steps", "1"),
]


def measure(path, command):
    """Runs a rank's command; its peak goes to a file of its own."""
    done = subprocess.run(command, check=False)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
    with open(f"{path}.{rank}", "w", encoding="ascii") as file:
        file.write(str(peak))
    return done.returncode


def run(binary, ranks, args, folder):
    """Status, report, seconds, and the fullest process's peak in MiB."""
    path = os.path.join(folder, f"peak-{ranks}")
    command = [sys.executable, os.path.abspath(__file__), "--measure", path,
               binary, "verify", "--no-project", "--full", "--format", "json",
               *args]
    if ranks > 1:
        command = ["mpirun", "--oversubscribe", "-n", str(ranks), *command]
    begun = time.monotonic()
    done = subprocess.run(command, env=ENV, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    seconds = time.monotonic() - begun
    peaks = []
    for rank in range(ranks):
        with open(f"{path}.{rank}", encoding="ascii") as file:
            peaks.append(int(file.read()) // 1024)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr.decode()[-2000:])
    return done.returncode, done.stdout, seconds, max(peaks)


def main():
    if sys.argv[1:2] == ["--measure"]:
        return measure(sys.argv[2], sys.argv[3:])
    binary = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else
                             os.path.join(ROOT, "build/src/cli/shardc"))
    ranks = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    begin = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    print("| case | runs | one process |  | "
          f"each of {ranks} |  | report |\n|---|---|---|---|---|---|---|")
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, args in CASES[begin:]:
            status, alone, seconds, peak = run(binary, 1, args, folder)
            cases = json.loads(alone)["cases"]
            passed = sum(one["status"] == "pass" for one in cases)
            unlike, spread, over, share = run(binary, ranks, args, folder)
            same = (status, alone) == (unlike, spread)
            wrong += not same or status != 0
            print(f"| {name} | {passed} of {len(cases)} pass | {seconds:.1f} s "
                  f"| {peak:,} MiB | {over:.1f} s | {share:,} MiB | "
                  f"{'the same' if same else 'DIFFERS'} |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
