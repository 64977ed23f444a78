"""Programs of PyTorch against PyTorch's own values: views and writes in place, indices,
gradients, optimizers, questions of Python, plans, and what is not known. Needs PyTorch,
scipy, ml_dtypes, and the program shardc in PATH or SHARDC_BIN."""

import os
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "tests", "traced"), os.path.join(ROOT, "python")]

# The package must be found first.
# pylint: disable=wrong-import-position
import numpy as np
import torch
from torch import nn

from interpreter import Interpreter
import shardc
import shardc.testing
from shardc import program
from shardc.torch_ops import ROWS

F = nn.functional


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def written(x):
    """Writes in place through views of views."""
    y = x.clone()
    y[:, 1:3] = 0
    y[0].mul_(2)
    z = y.t()
    z[1] += 5
    y.view(-1)[::2] -= 1
    part = y[1:, ::3]
    part.copy_(part * 3 + z[0, 1:].unsqueeze(1))
    y[y > 1] = 0.5
    y.masked_fill_(y < -2, 7)
    return y, z, part


def filled(x):
    """A tensor that is filled part by part."""
    out = torch.empty(x.shape[0], 9)
    out = x.new_empty(x.shape[0], 9)
    out[:, :5] = x[:, :5]
    out[:, 5:] = x[:, :4] * 2
    return out


def indexed(x, ids):
    y = x.index_select(1, ids)
    z = x.gather(1, ids[None].expand(x.shape[0], -1))
    w = x.clone()
    w.index_add_(1, ids, y, alpha=2)
    w = w.scatter_add(1, ids[None].expand(x.shape[0], -1), z)
    w.index_copy_(0, ids[:1], x[1:2])
    v = x[[0, 2]][:, ids[None, :2]], x[:, [-1]], x[ids[:2], ids[1:3]]
    u = x.clone()
    u[ids[:2], ids[1:3]] = 9.0
    u.index_put_((ids[:2],), x[:2], accumulate=True)
    return y, z, w, *v, u


def elements(x):
    y = x.abs() + 0.5
    return (torch.remainder(x, 0.7), x // 0.3, torch.fmod(x, 0.7), x.round(), x.trunc(),
            y.log2(), y.reciprocal(), x.clamp(-0.5, 0.5), torch.where(x > 0, x, -y),
            F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.softplus(x), F.elu(x),
            F.leaky_relu(x), F.hardswish(x), x.sigmoid(), F.relu6(x), torch.atan2(x, y),
            x.pow(3), y.pow(0.5), y.pow(1.7), 2 ** x, x.isfinite(), x.isnan(), x.sign(),
            torch.lerp(x, y, 0.3), torch.addcmul(x, x, y, value=2), x.std(0), x.var(),
            x.norm(dim=-1), F.normalize(x, dim=-1), torch.logsumexp(x, 0), x.cumsum(1),
            x.cumprod(0), x.prod(1), x.amax(1, keepdim=True), x.max(1).values,
            x.argmax(1), x.sort(1).values, x.sort(1, descending=True).indices,
            x.topk(2, 1).values, x.topk(2, 1, largest=False).values, x.any(1),
            (x > 0).all(), x.mean(), x.flip(0), x.roll(2, 1), x.repeat(2, 3), x.tril(1),
            x.triu(-1), F.pad(x, (1, 2), value=3.0), x.unfold(1, 3, 2), x.diff(dim=1),
            torch.stack([x, y], 1), torch.cat([x, y], 1).chunk(3, 1)[1],
            torch.einsum("ij,kj->ik", x, y), torch.outer(x[0], y[1]), x @ y.t(),
            torch.baddbmm(x[None], x[None], torch.eye(x.shape[1])[None], beta=0.5),
            F.one_hot(x.argmax(1), 8), torch.bucketize(x, torch.tensor([0.0, 0.5])),
            x.repeat_interleave(2, 0), torch.meshgrid(x[0], x[1], indexing="ij")[0],
            F.log_softmax(x, -1), x.softmax(0), F.layer_norm(x, x.shape[1:]),
            F.group_norm(x[:, :4], 2), F.rms_norm(x, x.shape[1:]),
            F.cosine_similarity(x, y), torch.linspace(0, 1, 5) * x[0, 0],
            torch.arange(2.0, 9.0, 1.5) + x[0, 0], x.movedim(0, 1), x.double().float(),
            (x * 10).to(torch.int32) % 3, -(x * 10).long() // 3, x.bool(), ~(x > 0),
            torch.full_like(x, 2) - x, x.new_ones(3) * x[0, 1], torch.rsub(x, y))


def convolved(x, w, d):
    return (F.conv_transpose1d(x, w.transpose(0, 1), w[:, 0, 0], stride=2, padding=1,
                               output_padding=1),
            F.conv_transpose1d(x, d.expand(4, 5, 3), dilation=2),
            F.conv1d(x, w, padding=1), F.conv1d(x, d, groups=4, stride=2, padding=2),
            F.conv2d(x[:, :, None], w[:, :, None], dilation=(1, 2), bias=w[:, 0, 0]))


def pooled(x, y):
    return (F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.avg_pool1d(x[0], 3, 1),
            F.avg_pool2d(x, (3, 2), (1, 3), (1, 0), count_include_pad=False),
            F.avg_pool3d(y, 2, 1), F.avg_pool2d(x, 2, divisor_override=3))


class Live(unittest.TestCase):
    def compare(self, fn, *args, grad=False, tolerance=2e-5, **kwargs):
        with torch.set_grad_enabled(grad):
            made = program.of_torch(fn, args, kwargs, "live:function")
            given = [x.detach().clone() for x in made.given]
            want = [x.numpy() for x in made.function(*given)]
        self.assertEqual(made.program["unknown"], [])
        got = Interpreter(made.program, made.constants).run([x.numpy() for x in given])
        self.assertEqual(len(got), len(want))
        for index, (a, b) in enumerate(zip(got, want)):
            with self.subTest(result=index):
                self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
                most = max(1e-6, float(np.abs(b).max(initial=0)))
                self.assertLess(float(np.abs(a.astype(float) - b).max(initial=0)),
                                tolerance * most)
        return made.program

    def test_writes_in_place_and_views_are_followed(self):
        self.compare(written, drawn(4, 6))
        made = self.compare(filled, drawn(3, 5))
        # Nothing of what is not initialised is left.
        self.assertEqual([op["op"] for op in made["ops"]].count("concat"), 1)
        self.assertNotIn("broadcast", [op["op"] for op in made["ops"]])

    def test_gradients_of_writes_in_place_are_followed(self):
        def gradient(x):
            x.requires_grad_()
            y = x * 2
            y[1, ::2] = x[0, 1:4].sin()
            y[:, 2].mul_(3)
            y[1:, 3:5] += x[:3, :2]
            y.pow(2).sum().backward()
            return x.grad

        self.compare(gradient, drawn(4, 6), grad=True)

    def test_strided_views_are_slices(self):
        def viewed(x):
            y = x.clone()
            y.as_strided((2, 3), (6, 2), 7).add_(1)
            y.as_strided((4,), (6,), 2).mul_(2)
            z = x.t().clone(memory_format=torch.preserve_format)
            z.as_strided((3, 2), (1, 12), 3).sub_(1)
            return y, y.as_strided((3, 2), (6, 1), 1), y.as_strided((24,), (1,)), z

        self.compare(viewed, drawn(4, 6))

    def test_single_elements_and_reductions(self):
        self.compare(elements, drawn(5, 6))

    def test_indices(self):
        self.compare(indexed, drawn(4, 5), torch.tensor([3, 0, 2]))

    def test_groups_by_their_ends_have_no_parts(self):
        def routed(x, router, up):
            places = (x @ router).argmax(-1)
            order = places.argsort(stable=True)
            counts = torch.histc(places.float(), 8, 0, 8).to(torch.int32)
            rows = x[order].bfloat16()
            out = torch._grouped_mm(rows, up.bfloat16(), counts.cumsum(0).int())
            return counts, torch.zeros(12, 32).index_add(0, order, out.float())

        made = self.compare(routed, drawn(12, 48), drawn(48, 8), drawn(8, 48, 32),
                            tolerance=2e-2)
        self.assertNotIn("concat", {op["op"] for op in made["ops"]})

    def test_convolutions_and_their_gradients(self):
        x, w, d = drawn(2, 4, 9), drawn(6, 4, 3), drawn(4, 1, 3)
        self.compare(convolved, x, w, d)

        def gradients(x, w, d):
            for one in (x, w, d):
                one.requires_grad_()
            sum(one.square().sum() for one in convolved(x, w, d)).backward()
            return x.grad, w.grad, d.grad

        self.compare(gradients, x, w, d, grad=True)

    def test_average_pooling_and_its_gradients(self):
        x, y = drawn(2, 3, 6, 9), drawn(1, 2, 4, 5, 3)
        made = self.compare(pooled, x, y)
        self.assertNotIn("conv", {op["op"] for op in made["ops"]})

        def gradients(x, y):
            x.requires_grad_()
            y.requires_grad_()
            sum(one.square().sum() for one in pooled(x, y)).backward()
            return x.grad, y.grad

        self.compare(gradients, x, y, grad=True)
        # The last window is not complete.
        made = program.of_torch(lambda x: F.avg_pool2d(x, 2, ceil_mode=True),
                                (drawn(1, 1, 5, 5),), {}, "live:function").program
        self.assertEqual([one["primitive"] for one in made["unknown"]],
                         ["aten.avg_pool2d.default"])

    def test_packed_weights_and_reduced_scatters(self):
        """`>>` of bytes, and scatter_reduce, whose reduction has no name in a call."""
        packed = torch.arange(250, 256, dtype=torch.uint8).reshape(2, 3)
        signed = torch.arange(-9, -3, dtype=torch.int8)
        self.compare(lambda x, y: (x >> 4, x & 15, x >> torch.ones_like(x), y >> 1,
                                   y << 2), packed, signed)
        x, index = drawn(4, 5), torch.tensor([[0, 1, 1, 3, 2]])
        for how in ("sum", "amax", "prod"):
            self.compare(lambda x, i: x.scatter_reduce(0, i, x[1:2] * 2, how), x, index)

    def test_a_row_that_does_not_take_a_call_is_left_out(self):
        """As if a later version had added an argument: PyTorch's decomposition is
        recorded."""
        with mock.patch.dict(ROWS, {"relu": lambda c: None}):
            made = self.compare(lambda x: x.relu(), drawn(3))
        self.assertTrue(made["ops"])

    def test_a_training_step_has_phases_and_moments(self):
        model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.0), nn.GELU(), nn.Linear(8, 3))
        for kind in (torch.optim.SGD, torch.optim.AdamW):
            optimizer = kind(model.parameters(), lr=0.1)
            if kind is torch.optim.SGD:
                optimizer = kind(model.parameters(), lr=0.1, momentum=0.9)

            def step(model, x, y, optimizer):
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                return loss

            args = (model, drawn(4, 6), torch.tensor([0, 2, 1, 1]), optimizer)
            with torch.enable_grad():
                step(*args)
            made = self.compare(step, *args, grad=True)
            self.assertEqual({op.get("phase") for op in made["ops"]},
                             {None, "backward", "optimizer"})
            names = {one["name"] for one in made["inputs"] if one["kind"] == "state"}
            moments = 4 if kind is torch.optim.SGD else 8
            self.assertEqual(len(names), moments, names)

    def test_moments_before_the_first_step_are_inputs(self):
        model = nn.Linear(4, 2)
        optimizer = torch.optim.AdamW(model.parameters())

        def step(model, x, optimizer):
            model(x).sum().backward()
            optimizer.step()

        made = program.trace(step, model, drawn(3, 4), optimizer)
        self.assertEqual(sorted(one["name"] for one in made["inputs"]
                                if one["kind"] == "state"),
                         ["exp_avg.bias", "exp_avg.weight", "exp_avg_sq.bias",
                          "exp_avg_sq.weight"])

    def test_questions_about_data_are_assumptions_and_those_about_constants_are_not(self):
        def asked(x):
            if torch.arange(3).sum() == 3:
                x = x + 1
            if (x > -9).all():
                x = x * 2
            return x, x[torch.nonzero(x[:, 0] > -9)[:, 0]]

        made = self.compare(asked, drawn(3, 4))
        self.assertEqual(len(made["assumptions"]), 2)
        self.assertIn("given data, of which Python reads an element at",
                      made["assumptions"][0])
        self.assertIn("torch_programs_live_test.py", made["assumptions"][0])
        self.assertIn("nonzero() finds the elements", made["assumptions"][1])
        made = program.trace(asked, drawn(3, 4).to("meta"))
        self.assertIn("a condition on data is true", made["assumptions"][0])
        self.assertIn("nonzero() finds every element", made["assumptions"][1])

    def test_the_elements_of_inputs_choose_branches_and_lengths(self):
        """Of a mask with a row of two and a row of three, tolist() has those lengths;
        without elements each is one."""
        def cut(x, mask):
            assert not bool((mask.sum(1) == 4).any())
            return x[:, :max(mask.sum(1).tolist())] * 2

        mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0]])
        made = self.compare(cut, drawn(2, 4, 5), mask)
        self.assertEqual(made["values"][made["outputs"][0]]["shape"], [2, 3, 5])
        with self.assertRaisesRegex(program.ProgramError, (
                r"AssertionError at .*torch_programs_live_test\.py:\d+\. The program has "
                r"the branch for which a condition on data is true at .* with elements")):
            program.trace(cut, drawn(2, 4, 5), mask.to("meta"))

        def lengths(x, mask):
            return x[:, :max(mask.sum(1).tolist())] * 2

        made = program.trace(lengths, drawn(2, 4, 5), mask.to("meta"))
        self.assertEqual(made["values"][made["outputs"][0]]["shape"], [2, 1, 5])
        self.assertIn("tolist() returns is 1", made["assumptions"][0])

    def test_an_error_of_the_call_has_its_line(self):
        def wrong(x):
            return x @ x

        with self.assertRaisesRegex(program.ProgramError, (
                r"torch_programs_live_test\.py:\d+\. Check that the call itself runs")):
            program.trace(wrong, drawn(3, 4))

    def test_masks_that_choose_rows_are_followed(self):
        def packed(x, mask, weight):
            y = torch.full_like(x, 0.5)
            y[mask] = x[mask] @ weight
            return y

        mask = torch.tensor([[True, False, True], [True, True, False]])
        made = self.compare(packed, drawn(2, 3, 4), mask, drawn(4, 4))
        self.assertEqual(made["unknown"], [])
        # A mask that is true everywhere chooses all rows in order.
        made = self.compare(packed, drawn(2, 3, 4), torch.ones(2, 3, dtype=torch.bool),
                            drawn(4, 4))
        self.assertEqual(made["unknown"], [])
        self.assertNotIn("gather", {op["op"] for op in made["ops"]})
        self.assertNotIn("scatter", {op["op"] for op in made["ops"]})

    def test_operations_of_libraries_are_their_code(self):
        @torch.library.custom_op("shardc_test::doubled", mutates_args=())
        def doubled(x: torch.Tensor) -> torch.Tensor:
            return x.cumsum(1) * 2

        doubled.register_fake(torch.empty_like)
        made = self.compare(lambda x: doubled(x) + 1, drawn(3, 4))
        self.assertIn("cumulative", {op["op"] for op in made["ops"]})

    def test_sizes_that_code_gives_as_numbers(self):
        """Those of the first view are numbers, those of the others follow from the
        tensor or are left open."""
        def viewed(x, weight):
            y = x @ weight
            a = y.view(2, 3, 4, 2)
            b = y.view(*x.shape[:2], -1, 2)
            c = y.reshape(x.shape[0], x.shape[1], y.shape[-1] // 2, 2)
            return a + b + c, y.split([2, 6], -1)[0]

        made = self.compare(viewed, drawn(2, 3, 5), drawn(5, 8))
        product = next(op["out"][0] for op in made["ops"] if op["op"] == "dot")
        self.assertEqual([(one["value"], one["dims"]) for one in made["literals"]],
                         [(product, [0, 1, 2]), (product, [2])])

    def test_pooling_to_one_element_has_other_strides(self):
        def pooled(x):
            x = x.to(memory_format=torch.channels_last)
            return F.adaptive_avg_pool2d(x, 1).flatten(1)

        self.compare(pooled, drawn(2, 5, 3, 3))

    def test_complex_tables_are_looked_up(self):
        def rotated(x, positions, table):
            turns = torch.polar(torch.ones_like(table), table)
            index = positions[..., None].expand(-1, -1, 2)
            turns = torch.gather(turns[None].expand(2, -1, -1), 1, index)
            pairs = torch.view_as_complex(x.reshape(2, 3, 2, 2))
            return torch.view_as_real(pairs * turns).flatten(-2)

        positions = torch.tensor([[0, 2, 1], [4, 3, 0]])
        made = self.compare(rotated, drawn(2, 3, 4), positions, drawn(5, 2))
        self.assertEqual(made["unknown"], [])
        self.assertNotIn("C64", {one["dtype"] for one in made["values"]})

    def test_flex_attention_is_attention(self):
        from torch.nn.attention import flex_attention as flex

        def attended(q, k, v, slope, document):
            def score(s, b, h, row, column):
                return s + slope[h] * (column - row)

            def shown(b, h, row, column):
                return (row >= column) & (document[b, row] == document[b, column])

            mask = flex.create_block_mask(shown, 2, None, 6, 6, device=q.device)
            return flex.flex_attention(q, k, v, score_mod=score, block_mask=mask,
                                       enable_gqa=True)

        given = (drawn(2, 4, 6, 8), drawn(2, 2, 6, 8), drawn(2, 2, 6, 8), drawn(4),
                 torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1]]))
        made = self.compare(attended, *given)
        self.assertEqual(made["unknown"], [])
        compiled = torch.compile(flex.flex_attention)
        made = program.trace(lambda q, k, v: compiled(q, k, v), *given[:1],
                             drawn(2, 4, 6, 8), drawn(2, 4, 6, 8))
        self.assertEqual(made["unknown"], [])
        self.assertEqual(flex.flex_attention.__code__.co_name, "flex_attention")

    def test_automatic_casts_are_switched_off_or_stated(self):
        """Transformers 4 switches them off for a tensor's device, where that of a
        tensor without elements has none."""
        def cast(x, enabled):
            with torch.autocast(x.device.type, enabled=enabled):
                return x @ x

        made = self.compare(lambda x: cast(x, False), drawn(3, 3))
        self.assertEqual(made["assumptions"], [])
        made = program.trace(lambda x: cast(x, True), drawn(3, 3))
        self.assertIn("torch.autocast is not recorded", made["assumptions"][0])
        with torch.autocast("cpu", enabled=False):
            pass  # as before

    def test_an_operation_without_a_class_is_opaque_and_listed(self):
        made = program.trace(lambda x: torch.fft.fft(x).real + 1, drawn(3, 4))
        self.assertEqual([one["count"] for one in made["unknown"]], [1])
        self.assertIn("opaque", {op["op"] for op in made["ops"]})

    def test_complex_rotations_have_no_complex_values(self):
        def rotated(x, angle):
            turns = torch.polar(torch.ones_like(angle), angle)
            pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * turns[None]).flatten(-2)

        made = self.compare(rotated, drawn(2, 3, 8), drawn(3, 4))
        self.assertNotIn("C64", {one["dtype"] for one in made["values"]})

        def gradients(x, angle):
            x.requires_grad_()
            rotated(x, angle).pow(3).sum().backward()
            return x.grad

        made = self.compare(gradients, drawn(2, 3, 8), drawn(3, 4), grad=True)
        self.assertNotIn("C64", {one["dtype"] for one in made["values"]})

    def test_functions_of_complex_values_are_never_those_of_real_ones(self):
        def length(x):
            return torch.view_as_complex(x).abs()

        made = program.trace(length, drawn(3, 2))
        self.assertEqual(made["unknown"][0]["primitive"], "prims.abs.default")

    def test_parameters_that_are_tied_or_never_read_are_stated(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.one, self.two = nn.Linear(4, 4, False), nn.Linear(4, 4, False)
                self.two.weight = self.one.weight
                self.other = nn.Linear(4, 4)

            def forward(self, x):
                return self.two(self.one(x))

        made = program.trace(Tied(), drawn(2, 4))
        self.assertEqual(len([one for one in made["inputs"] if one["kind"] == "param"]), 3)
        text = " ".join(made["assumptions"])
        self.assertIn("two.weight is the same tensor as one.weight", text)
        self.assertIn("never reads 2 of its parameters: other.weight, other.bias", text)

    def test_large_constants_are_reported(self):
        table = drawn(600, 500)
        made = program.trace(lambda x: x @ table, drawn(2, 600))
        self.assertIn("1200000 bytes", made["assumptions"][0])

    def test_a_plan_of_a_module_is_proved(self):
        model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
        rules = "rules:\n  - match: '0'\n    spec: [TP]\n  - match: '2[.]weight'\n" \
            "    spec: [null, TP]\n  - match: '2[.]bias'\n    spec: Replicated\n"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rules.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(rules)
            plan = shardc.compile(mesh="tp:2", rules=path,
                                  manifest=shardc.manifest.manifest(model))
            proof = shardc.testing.assert_plan(model, plan, drawn(8, 16))
        self.assertTrue(proof)
        self.assertIn("all_reduce", {one["collective"] for one in proof.data["collectives"]})

    def test_nothing_of_the_users_is_changed(self):
        model = nn.BatchNorm1d(4)
        before = {name: one.clone() for name, one in model.state_dict().items()}
        made = program.trace(model, drawn(6, 4))
        for name, one in model.state_dict().items():
            self.assertTrue(torch.equal(one, before[name]), name)
        self.assertEqual({one["kind"] for one in made["inputs"]},
                         {"param", "state", "data"})

    def test_a_failure_names_what_was_called(self):
        def fails(x):
            raise ValueError("no such branch")

        with self.assertRaisesRegex(program.ProgramError, "fails.*no such branch"):
            program.trace(fails, drawn(2))


if __name__ == "__main__":
    unittest.main()
