// Implements the steps before and after a local kernel, which computes
// attention on each device without collectives. Before the kernel, the
// dimensions that it needs unsharded are gathered, and the slices of query, key
// and value are checked against each other. After the kernel, the output is
// resharded to the requested spec.
#include "exec/attention/staging.h"

#include <utility>

#include "exec/machine/agreement.h"
#include "source/index.h"

namespace shardc::exec {

namespace {

LayoutError KeyHeadsComplaint(const SimMesh& mesh, int64_t key_heads,
                              const AxisGroup& axes) {
  LayoutError why;
  why.axis = DropTrivial(mesh, axes).back();
  why.message = std::to_string(key_heads) + " key heads do not divide over " +
                AxesText(axes) + " (" + std::to_string(mesh.Parts(axes)) +
                " parts)";
  why.help =
      "this operation lays key and value out as the query's heads: "
      "repeat key heads, or use vanilla or flash_attn2";
  return why;
}

}  // namespace

void ExplainKeyHeads(const SimMesh& mesh, const AttentionProblem& problem,
                     const AttentionSpecs& specs, LayoutError& why) {
  const size_t dim = problem.layout == Layout::kBthd ? 2 : 1;
  if (why.tensor != "key" || why.dimension != dim) return;
  why = KeyHeadsComplaint(mesh, problem.key.shape[dim], specs.key[dim]);
}

std::optional<LayoutError> KeysOnQueryHeads(Machine& machine, Staged& staged) {
  const SimMesh& mesh = machine.mesh();
  const AxisGroup heads = staged.query.spec[2];
  const int64_t parts = mesh.Parts(heads);
  LayoutError why;
  if (staged.K() % parts != 0) {
    return KeyHeadsComplaint(mesh, staged.K(), heads);
  }
  for (ShardedTensor* t : {&staged.key, &staged.value}) {
    Spec spec = t->spec;
    spec[2] = heads;
    for (size_t d : {size_t{0}, size_t{1}, size_t{3}}) {
      if (Disjoint(spec[d], heads)) continue;
      why.axis = heads.front();
      why.message = "heads on " + AxesText(heads) +
                    " leave no such axis for dimension " + std::to_string(d) +
                    " of key and value";
      return why;
    }
    Move(machine, *t, std::move(spec), t == &staged.key ? "key" : "value");
  }
  return std::nullopt;
}

std::optional<Staged> StageLocal(Machine& machine,
                                 const AttentionProblem& problem,
                                 const AttentionSpecs& specs,
                                 const OperationSettings& settings,
                                 StageOptions options,
                                 OperationOutcome& outcome) {
  const SimMesh& mesh = machine.mesh();
  LayoutError why;
  auto staged =
      Stage(machine, problem, specs, settings, options, why, outcome.remarks);
  if (!staged) {
    outcome.unsupported = std::move(why);
    return std::nullopt;
  }
  const AxisGroup length = DropTrivial(mesh, staged->key.spec[1]);
  if (!length.empty()) {
    outcome.remarks.push_back("key and value are gathered over " +
                              AxesText(length) +
                              ": splitting their length saves no memory");
  }
  const auto keep = [&](ShardedTensor& t, std::string_view name) {
    Move(machine, t, {t.spec[0], {}, t.spec[2], {}}, name);
  };
  keep(staged->query, "query");
  keep(staged->key, "key");
  keep(staged->value, "value");
  if (options.heads_on_keys) {
    if (auto bad = KeysOnQueryHeads(machine, *staged)) {
      outcome.unsupported = std::move(*bad);
      return std::nullopt;
    }
  }
  if (auto bad = CheckLocalShapes(mesh, *staged)) {
    outcome.unsupported = std::move(*bad);
    return std::nullopt;
  }
  if (problem.IsHollow()) return std::nullopt;
  MoveExtras(machine, *staged);
  return staged;
}

std::optional<LayoutError> CheckLocalShapes(const SimMesh& mesh,
                                            const Staged& staged) {
  const Shape q = LocalShape(mesh, staged.query.shape, staged.query.spec);
  const Shape k = LocalShape(mesh, staged.key.shape, staged.key.spec);
  const Shape v = LocalShape(mesh, staged.value.shape, staged.value.spec);
  const auto disagree = [&](std::string what, const AxisGroup& a,
                            const AxisGroup& b, std::string help) {
    LayoutError why;
    why.message = std::move(what);
    const AxisGroup first = DropTrivial(mesh, a);
    const AxisGroup second = DropTrivial(mesh, b);
    why.axis = !first.empty()    ? first.back()
               : !second.empty() ? second.back()
                                 : "";
    why.help = std::move(help);
    return why;
  };
  std::vector<LayoutError> bad;
  if (q[0] != k[0] || k[0] != v[0]) {
    bad.push_back(
        disagree("a device holds " + std::to_string(q[0]) +
                     " batch rows of the query and " + std::to_string(k[0]) +
                     " of the key",
                 staged.query.spec[0], staged.key.spec[0],
                 "split the batch of query, key and value over the same axes"));
  }
  if (k[1] != v[1] || k[2] != v[2]) {
    bad.push_back(disagree("a device holds " + ShapeText(k) +
                               " of the key and " + ShapeText(v) +
                               " of the value",
                           staged.key.spec[2], staged.value.spec[2],
                           "give key and value the same spec"));
  }
  if (q[2] % k[2] != 0) {
    bad.push_back(disagree("a device holds " + std::to_string(q[2]) +
                               " query heads and " + std::to_string(k[2]) +
                               " key heads",
                           staged.query.spec[2], staged.key.spec[2],
                           "split key heads over the axes of query heads, or "
                           "repeat them"));
  }
  return Joined(std::move(bad));
}

ShardedTensor EmptyOutput(const Machine& machine, const Staged& staged) {
  const Spec& q = staged.query.spec;
  ShardedTensor out;
  out.shape = staged.query.shape;
  out.shape[3] = staged.value.shape[3];
  out.dtype = staged.dtype;
  out.spec = {q[0], q[1], q[2], {}};
  out.local.resize(AsIndex(machine.devices()));
  return out;
}

namespace {

ShardedTensor InLayout(ShardedTensor output, Layout layout) {
  if (layout == Layout::kBhtd) return SwapLengthAndHeads(output);
  if (layout == Layout::kThd) {
    output.shape.erase(output.shape.begin());
    output.spec.erase(output.spec.begin());
    for (Buffer& local : output.local) {
      local.shape.erase(local.shape.begin());
    }
  }
  return output;
}

}  // namespace

ShardedTensor FinishOutput(Machine& machine, const Staged& staged,
                           ShardedTensor output) {
  ShapeElsewhere(machine.mesh(), output);
  Move(machine, output, staged.output, "output");
  output = InLayout(std::move(output), staged.problem->layout);
  const SliceSeam& seam = machine.Seam<SliceSeam>();
  if (seam.join) seam.join(machine, staged, output);
  return output;
}

}  // namespace shardc::exec
