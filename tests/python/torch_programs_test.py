"""What PyTorch steps send. The recorded trace, graph and counts are of PyTorch 2.15
on four ranks; expected bytes are computed by hand. PyTorch is not imported."""

import collections
import gzip
import json
import os
import sys
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "python"))
os.environ.setdefault("SHARDC", os.environ.get("SHARDC_BIN", "shardc"))

# The package must be found first.
# pylint: disable=wrong-import-position
import shardc
from shardc import torch_programs

FOLDER = os.path.join(ROOT, "testdata", "audit", "torch")
MESH = {"dp": 2, "tp": 2}


def load(name):
    opened = gzip.open if name.endswith(".gz") else open
    with opened(os.path.join(FOLDER, name), "rt", encoding="utf-8") as file:
        return file.read() if name.endswith(".txt") else json.load(file)


class Torch(unittest.TestCase):
    def test_fsdp2_gathers_each_layer_in_both_passes(self):
        """Three layers of 32 x 32 over two ranks: a gather of 512 elements sends
        2,048 bytes, a reduce-scatter of 1,024 elements as many."""
        step = torch_programs.of_trace(load("fsdp2.trace.json"), axis="dp")
        audited = shardc.audit(step, mesh=MESH)
        self.assertEqual(audited.bytes_by_route, {
            ("all_gather", "dp"): 6 * 2048, ("reduce_scatter", "dp"): 3 * 2048})
        self.assertEqual(sorted((one.phase, one.parameter)
                                for one in audited.of_parameter("layers.1")),
                         [("backward", "layers.1"), ("forward", "layers.1")])
        self.assertEqual({os.path.basename(one.line.file)
                          for one in audited.collectives}, {"run.py"})

    def test_steps_send_what_the_profiler_saw_and_what_shapes_give(self):
        """PyTorch 2.15, four gloo ranks (tests/runtimes/audit_torch.py). Bytes by
        hand, of the rank's own operand: ddp all-reduces 64 x 64 gradients over
        four ranks, 2 x 16,384 x 3/4; fsdp2 gathers 512 elements of each of three
        layers twice and scatters 1,024; the parallel steps send activations of
        8 x 32; hybrid gathers 2,048 bfloat16, scatters 4,096 float32 over tp and
        reduces 2,048 over dp."""
        expected = load("executed/EXPECT.json")
        names = os.listdir(os.path.join(FOLDER, "executed"))
        self.assertEqual(set(expected), {
            name.split(".")[0] for name in names} - {"EXPECT"})
        for name, step in expected.items():
            with self.subTest(name):
                audited = shardc.audit(load(f"executed/{name}.hlo.txt"),
                                       mesh=MESH)
                self.assertEqual(collections.Counter(
                    one.kind for one in audited.collectives), step["calls"])
                self.assertEqual(
                    {" ".join(route): size for route, size in
                     audited.bytes_by_route.items()}, step["bytes"])
                trace = load(f"executed/{name}.trace.json.gz")
                traced = shardc.audit(
                    torch_programs.of_trace(trace, axis=step.get("axis")),
                    mesh=MESH)
                self.assertEqual(collections.Counter(
                    one.kind for one in traced.collectives), step["calls"])
                # Of several dimensions gloo's trace does not name the one.
                if "axis" in step:
                    self.assertEqual(traced.bytes_by_route,
                                     audited.bytes_by_route)
                self.assertEqual(
                    [(one.kind, one.phase) for one in traced.collectives],
                    [(one.kind, one.phase) for one in audited.collectives])

    def test_lists_of_tensors_are_sent_together(self):
        def event(name, start, dims, types, inputs=()):
            return {"ph": "X", "cat": "cpu_op", "name": name, "tid": 1,
                    "ts": start, "dur": 1, "args": {
                        "Input Dims": dims, "Input type": types,
                        "Concrete Inputs": list(inputs)}}
        lists = ["TensorList", "TensorList", ""]
        step = torch_programs.of_trace({"traceEvents": [
            event("c10d::allgather_into_tensor_coalesced_", 0,
                  [[[8, 2], [4]], [[4, 2], [2]], []], lists),
            event("c10d::allgather_", 2,
                  [[[[4, 2], [4, 2], [4, 2], [4, 2]]], [[4, 2]], []], lists),
            event("_c10d_functional::all_gather_into_tensor_coalesced", 4,
                  [[[3], [5]], [], []], ["TensorList", "Scalar", ""],
                  ["", "2", ""]),
            event("c10d::allreduce_coalesced_", 6, [[[3], [5]], []], lists),
            event("aten::broadcast", 8, [[3]], ["float"])]})
        self.assertEqual([(one.kind, one.shape, one.size) for one in step.sent], [
            ("all-gather", (10,), 2), ("all-gather", (4, 2), 4),
            ("all-gather", (8,), 2), ("all-reduce", (8,), 0)])

    def test_groups_that_gloo_does_not_write_have_no_axes(self):
        audited = shardc.audit(os.path.join(FOLDER, "fsdp2.trace.json"),
                               mesh=MESH)
        self.assertEqual({(one.axes, one.group_size)
                          for one in audited.collectives}, {(None, 2)})
        self.assertEqual(audited.totals.bytes_per_device, 9 * 2048)

    def test_nccl_writes_dtypes_and_groups(self):
        audited = shardc.audit(load("nccl.trace.json"), mesh={"dp": 2, "tp": 4})
        (one,) = audited.collectives
        self.assertEqual((one.kind, one.axes, one.shape, one.bytes_per_device),
                         ("all_gather", ("tp",), "bf16[4096]", 3 * 8192))

    def test_a_graph_has_the_passes_and_lines_of_its_nodes(self):
        groups = load("groups.json")
        step = torch_programs.of_graph(load("tp.graph.txt"), groups)
        audited = shardc.audit(step, mesh=MESH)
        self.assertEqual(
            sorted((one.phase, one.kind, one.over, one.bytes_per_device,
                    one.line.line) for one in audited.collectives),
            [("backward", "all_reduce", "tp", 1024, 13),
             ("forward", "all_reduce", "tp", 1024, 13)])
        del groups["7"]
        with self.assertRaisesRegex(ValueError, "process group '7'"):
            torch_programs.of_graph(load("tp.graph.txt"), groups)

    def test_comm_debug_mode_has_counts(self):
        audited = shardc.audit(os.path.join(FOLDER, "tp.comm.json"))
        self.assertEqual(audited.totals.calls, 2)
        self.assertEqual(sorted(one.phase for one in audited.collectives),
                         ["backward", "forward"])
        self.assertEqual(audited.totals.bytes_per_device, 0)

    def test_names_of_modules_cannot_break_the_text(self):
        step = torch_programs.Program("x", 4)
        step.sent.append(torch_programs.Sent(
            "all-gather", "f32", (8,), (0, 1), 2, module="a\"}\n'b",
            of_parameter=True, file='m"\n.py', line=3))
        (one,) = shardc.audit(step, mesh=MESH).collectives
        self.assertEqual((one.bytes_per_device, one.line.line), (32, 3))

    def test_other_json_is_refused(self):
        with self.assertRaisesRegex(ValueError, "neither a trace"):
            shardc.audit(os.path.join(FOLDER, "groups.json"))


if __name__ == "__main__":
    unittest.main()
