// Decides over which axes a parameter stays sharded while a step uses it, and
// over which axes it is gathered before. An axis that shards the tokens is
// gathered, unless it also shards the heads or the experts. All other axes are
// kept. For example, for a weight sharded over fsdp and tp, with the batch
// sharded over fsdp:
//
//   [fsdp, tp]  ->  kept [null, tp], gathered over fsdp
#include <algorithm>

#include "comm/reshard.h"
#include "cost/inputs.h"
#include "source/index.h"
#include "source/size.h"

namespace shardc::cost {
namespace {

bool IsAmong(const AxisGroup& axes, const std::string& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

}  // namespace

AxisGroup CostInputs::TokenAxes() const {
  AxisGroup out = DropTrivial(mesh, Batch());
  for (const std::string& axis : DropTrivial(mesh, Length())) {
    out.push_back(axis);
  }
  return out;
}

bool CostInputs::Keeps(const std::string& axis) const {
  const bool shards_tokens = IsAmong(Batch(), axis) || IsAmong(Length(), axis);
  return !shards_tokens || IsAmong(query[2], axis);
}

AxisGroup CostInputs::Kept(const AxisGroup& axes) const {
  AxisGroup out;
  for (const std::string& axis : axes) {
    if (mesh.SizeOf(axis) > 1 && Keeps(axis)) out.push_back(axis);
  }
  return out;
}

AxisGroup CostInputs::Gathered(const AxisGroup& axes) const {
  AxisGroup out;
  for (const std::string& axis : axes) {
    if (mesh.SizeOf(axis) > 1 && !Keeps(axis)) out.push_back(axis);
  }
  return out;
}

template <typename Take>
void CostInputs::ForAxesAt(const ParamClass& param, int dim,
                           const Take& take) const {
  bool experts = param.MayCountExperts(dim);
  for (const std::string& axis : param.AxesAt(dim)) {
    if (mesh.SizeOf(axis) <= 1) continue;
    experts = experts && (!expert_axes || IsAmong(*expert_axes, axis));
    take(axis, experts || Keeps(axis));
  }
}

AxisGroup CostInputs::KeptAt(const ParamClass& param, int dim) const {
  AxisGroup out;
  ForAxesAt(param, dim, [&](const std::string& axis, bool kept) {
    if (kept) out.push_back(axis);
  });
  return out;
}

AxisGroup CostInputs::GatheredAt(const ParamClass& param, int dim) const {
  AxisGroup out;
  ForAxesAt(param, dim, [&](const std::string& axis, bool kept) {
    if (!kept) out.push_back(axis);
  });
  return out;
}

bool CostInputs::IsGathered(const ParamClass& param) const {
  bool out = false;
  for (int dim = 0; dim < std::ssize(param.spec); ++dim) {
    ForAxesAt(param, dim,
              [&](const std::string&, bool kept) { out = out || !kept; });
  }
  return out;
}

Shape CostInputs::UsedShape(const ParamClass& param) const {
  Shape out = *param.type.shape;
  const auto dims = std::min(std::ssize(param.spec), std::ssize(out));
  for (int dim = 0; dim < dims; ++dim) {
    int64_t parts = 1;  // cannot overflow: at most the number of devices
    ForAxesAt(param, dim, [&](const std::string& axis, bool kept) {
      if (kept) parts *= mesh.SizeOf(axis);
    });
    out[AsIndex(dim)] = ShareOf(out[AsIndex(dim)], parts);
  }
  return out;
}

}  // namespace shardc::cost
