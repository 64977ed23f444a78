// Runs a training step on one device, as the reference for sharded runs. The
// ops of a graph run in order, over unsharded tensors. The table kOps has the
// function of each op. No code is shared with exec/step, whose results are
// compared with this reference.
#include "dense/step.h"

#include <array>

#include "source/size.h"

namespace shardc::dense {
namespace {

using step::LabelId;
using step::Op;
using step::OpKind;
using step::ValueId;

template <typename T>
struct OpRow {
  OpKind kind;
  void (*run)(StepContext<T>&, const Op&, StepTensor<T>&);
};

// The functions of the ops, in the order of OpKind. The values of inputs are
// arguments of the run, so kInput has no function.
template <typename T>
constexpr std::array<OpRow<T>, step::kOpKinds> kOps = {{
    {OpKind::kInput, nullptr},
    {OpKind::kEinsum, RunEinsum<T>},
    {OpKind::kAdd, RunAdd<T>},
    {OpKind::kScale, RunScale<T>},
    {OpKind::kFn, RunFn<T>},
    {OpKind::kSum, RunReduction<T>},
    {OpKind::kMax, RunReduction<T>},
    {OpKind::kBroadcast, RunCopy<T>},
    {OpKind::kLookup, RunRows<T>},
    {OpKind::kScatter, RunRows<T>},
    {OpKind::kPick, RunPick<T>},
    {OpKind::kPlace, RunPick<T>},
    {OpKind::kSplit, RunReshape<T>},
    {OpKind::kMerge, RunReshape<T>},
    {OpKind::kPart, RunSlice<T>},
    {OpKind::kUnpart, RunSlice<T>},
    {OpKind::kIndex, RunSlice<T>},
    {OpKind::kUnindex, RunSlice<T>},
    {OpKind::kRename, RunRename<T>},
    {OpKind::kIdentity, RunCopy<T>},
    {OpKind::kRope, RunRope<T>},
    {OpKind::kMask, RunMask<T>},
    {OpKind::kRepeat, RunHeads<T>},
    {OpKind::kGroupSum, RunHeads<T>},
    {OpKind::kTopGroups, RunChoice<T>},
    {OpKind::kTopK, RunChoice<T>},
    {OpKind::kSlots, RunSlots<T>},
    {OpKind::kDropout, RunDropout<T>},
    {OpKind::kCacheWrite, RunCacheWrite<T>},
    {OpKind::kAdamW, RunAdamW<T>},
    {OpKind::kRoll, RunRoll<T>},
    {OpKind::kDistance, RunDistance<T>},
}};

constexpr bool IsInOrder() {
  for (size_t i = 0; i < step::kOpKinds; ++i) {
    if (static_cast<size_t>(kOps<double>[i].kind) != i) return false;
  }
  return true;
}
static_assert(IsInOrder(), "an op for each OpKind, in its order");

}  // namespace

std::vector<int64_t> ShapeOf(const step::Graph& graph, const step::Sizes& sizes,
                             step::ValueId value) {
  std::vector<int64_t> shape;
  for (const LabelId label : graph.values[AsIndex(value)].labels) {
    shape.push_back(sizes[AsIndex(label)]);
  }
  return shape;
}

template <typename T>
void RunStep(const step::Graph& graph, const step::Sizes& sizes,
             step::Phase last, StepValues<T>& values) {
  values.resize(graph.values.size());
  StepContext<T> context{graph, sizes, values};
  for (const Op& op : graph.ops) {
    if (op.phase > last || op.kind == OpKind::kInput) continue;
    StepTensor<T>& out = context.Of(op.out);
    out.shape = ShapeOf(graph, sizes, op.out);
    out.data.assign(AsIndex(Product(out.shape)), T(0));
    kOps<T>[static_cast<size_t>(op.kind)].run(context, op, out);
  }
}

template void RunStep<float>(const step::Graph&, const step::Sizes&,
                             step::Phase, StepValues<float>&);
template void RunStep<double>(const step::Graph&, const step::Sizes&,
                              step::Phase, StepValues<double>&);
template void RunStep<std::complex<double>>(const step::Graph&,
                                            const step::Sizes&, step::Phase,
                                            StepValues<std::complex<double>>&);

}  // namespace shardc::dense
