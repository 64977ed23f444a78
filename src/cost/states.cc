// Computes the sizes of optimizer states, which have the sharding of their
// parameter. Adafactor replaces the second moments of a tensor by sums over the
// rows and over the columns of its two largest dimensions. If the second
// largest dimension is below 128, it keeps one number per element instead. Muon
// keeps one number per element of a projection. For other parameters it keeps
// two numbers, as Adam does.
//
// For example, under adafactor a device keeps 512 sums of rows and 11,008 sums
// of columns for a tensor [4096, 11008] whose dimension 0 is split into 8
// shards.
//
// Sources: Rajbhandari et al., ZeRO (arXiv 1910.02054); optax's adamw, lion and
// adafactor. In the ZeRO paper, K is the number of bytes of states per
// parameter. Here K is 12: master copy, momentum and variance, each in float32.
#include "cost/states.h"

#include <algorithm>
#include <numeric>

#include "comm/reshard.h"
#include "model/shard_range.h"
#include "source/checked.h"
#include "step/widths.h"

namespace shardc::cost {
namespace {

using MaybeBytes = std::optional<int64_t>;

constexpr int64_t kLeastFactored = 128;

MaybeBytes Add(MaybeBytes a, MaybeBytes b) {
  return a && b ? CheckedAdd(*a, *b) : std::nullopt;
}

int64_t ShareOf(int64_t elements, int64_t parts) {
  return elements / parts + (elements % parts != 0 ? 1 : 0);
}

// Returns the number of elements of Adafactor's two vectors, which replace a
// matrix of second moments. Returns nullopt if the tensor is not factored,
// because it has fewer than two dimensions or because its second largest
// dimension is too small.
MaybeBytes FactoredElements(const Shape& whole, const Shape& shard) {
  if (whole.size() < 2) return std::nullopt;
  std::vector<size_t> order(whole.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return whole[a] < whole[b]; });
  const size_t largest = order.back(), second = order[order.size() - 2];
  if (whole[second] < kLeastFactored) return std::nullopt;
  const auto without = [&](size_t dim) {
    Shape left = shard;
    left.erase(left.begin() + static_cast<long>(dim));
    return CheckedProduct(left);
  };
  return Add(without(largest), without(second));
}

// The numbers of first and of second moments that the optimizer keeps for one
// parameter on a device.
struct MomentCounts {
  MaybeBytes first = 0, second = 0;
};

MomentCounts SlotsOf(Optimizer optimizer, const ParamClass& param,
                     const Shape& shard, int64_t elements) {
  switch (optimizer) {
    case Optimizer::kAdamW:
      return {elements, elements};
    case Optimizer::kMuon:
      return {elements,
              param.IsWeight() && param.role.module_role != Role::kHead
                  ? 0
                  : elements};
    case Optimizer::kLion:
    case Optimizer::kMomentum:
      return {elements, 0};
    case Optimizer::kAdafactor: {
      const MaybeBytes factored = FactoredElements(*param.type.shape, shard);
      return {0, factored ? factored : MaybeBytes(elements)};
    }
    case Optimizer::kSgd:
      break;
  }
  return {};
}

MaybeBytes In(MaybeBytes elements, Dtype dtype, int64_t parts) {
  return elements ? BytesOf(ShareOf(*elements, parts), dtype) : std::nullopt;
}

// Returns whether gradients stay partial while they are summed over several
// micro-batches, and are reduced once at the end. The sum is then not sharded
// over the axes of this reduction.
bool SumsArePartial(const Settings& settings) {
  return settings.microbatches > 1 &&
         settings.reduction == step::Reduction::kOnce;
}

// Returns the number of elements that a device holds of a gradient that is
// summed over micro-batches. If the gradient is reduced only at the end, it is
// not sharded over the axes over which the weight is gathered.
MaybeBytes SumElements(const CostInputs& work, const ParamClass& param,
                       const Settings& settings, int64_t elements) {
  if (!SumsArePartial(settings)) return elements;
  return CheckedProduct(work.UsedShape(param));
}

}  // namespace

bool IsTrained(const ParamClass& param) {
  return !param.frozen && param.type.dtype &&
         step::IsTrained(*param.type.dtype);
}

int64_t ReplicaParts(const CostInputs& work, const ParamClass& param) {
  const auto shards = [&](const std::string& axis) {
    return axis == param.placed_along ||
           std::any_of(param.spec.begin(), param.spec.end(),
                       [&](const AxisGroup& axes) {
                         return std::find(axes.begin(), axes.end(), axis) !=
                                axes.end();
                       });
  };
  int64_t parts = 1;  // cannot overflow: at most the number of devices
  for (const AxisGroup* tokens : {&work.Batch(), &work.Length()}) {
    for (const std::string& axis : *tokens) {
      if (!shards(axis)) parts *= work.mesh.SizeOf(axis);
    }
  }
  return parts;
}

StateBytes StatesOf(const CostInputs& work, const ParamClass& param,
                    const Settings& settings) {
  StateBytes out;
  if (!param.type.shape || !param.type.dtype) return out;
  const Shape shard = ShardShape(work.mesh, *param.type.shape, param.spec);
  const MaybeBytes elements = CheckedProduct(shard);
  if (!elements) return out;
  const Dtype dtype = *param.type.dtype;
  const bool train = work.mode == Mode::kTrain;
  const int64_t replicas = train ? ReplicaParts(work, param) : 1;
  const auto parts = [&](int stage) {
    return settings.zero >= stage ? replicas : 1;
  };
  out.parameter = In(elements, dtype, parts(3));
  out.gradient = out.optimizer = 0;
  if (!train || !IsTrained(param)) return out;
  out.gradient = In(SumElements(work, param, settings, *elements),
                    settings.gradients.value_or(dtype),
                    SumsArePartial(settings) ? 1 : parts(2));
  const MomentCounts slots =
      SlotsOf(settings.optimizer, param, shard, *elements);
  const Dtype first = settings.first_moment.value_or(Dtype::kF32);
  const Dtype second = settings.second_moment.value_or(Dtype::kF32);
  out.optimizer =
      Add(In(slots.first, first, parts(1)), In(slots.second, second, parts(1)));
  std::optional<Dtype> master = settings.master;
  if (!settings.master_given && DtypeBits(dtype) < 32) master = Dtype::kF32;
  if (master) {
    out.optimizer = Add(out.optimizer, In(elements, *master, parts(1)));
  }
  return out;
}

}  // namespace shardc::cost
