"""The exports for Megatron-Core and vLLM give each tensor parallel rank what the
plan gives its devices together; the packages' results are recorded."""

import itertools
import json
import tempfile
import unittest

import device_lists
import records
import shardc_answers


def of_rank(case, rank):
    """By dimension, the runs of indices that the rank's devices hold."""
    mesh = case["mesh"]
    axis = list(mesh).index("tp")
    held = device_lists.of_spec(mesh, case["shape"], case["spec"])
    mine = [block for at, block in zip(
        device_lists.positions(mesh.values()), held) if at[axis] == rank]
    out = []
    for dim in range(len(case["shape"])):
        runs = []
        for begin, end in sorted({tuple(block[dim]) for block in mine}):
            if runs and runs[-1][1] == begin:
                runs[-1][1] = end
            else:
                runs.append([begin, end])
        out.append(runs)
    return out


class Peers(unittest.TestCase):
    def test_each_rank_holds_the_shards_of_the_plan(self):
        record = records.load("tensor_parallel/megatron_vllm")
        compared = {"megatron": 0, "vllm": 0}
        for case in record["cases"]:
            for system, count in compared.items():
                held = case[system] and case[system]["held"]
                if held is None:
                    continue
                self.assertEqual(held, [
                    of_rank(case, rank)
                    for rank in range(case["mesh"]["tp"])], (system, case))
                compared[system] = count + 1
        self.assertGreater(compared["megatron"], 250)
        self.assertGreater(compared["vllm"], 200)

    def test_exports_are_those_that_were_loaded(self):
        cases = records.load("tensor_parallel/megatron_vllm")["cases"]
        for mesh, group in itertools.groupby(cases, lambda c: c["mesh"]):
            group = list(group)
            with tempfile.TemporaryDirectory() as folder:
                for system in ("megatron", "vllm"):
                    some = [case for case in group if case[system]]
                    if not some:
                        continue
                    plan = shardc_answers.plan(folder, mesh, some)
                    text = shardc_answers.run("export", system, "--format",
                                              "json", "--plan",
                                              plan).stdout
                    self.assertEqual(
                        list(json.loads(text)["params"].values()),
                        [case[system]["given"] for case in some], mesh)


if __name__ == "__main__":
    unittest.main(argv=["megatron_vllm_test"])
