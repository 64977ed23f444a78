// Determines how an attention operation runs inside a step: as ops that a
// compiler partitions from a global view, as a kernel on each device's slices,
// or as a ring. A kernel needs the full length. Its inputs are therefore
// gathered along the length, or an all_to_all changes a sharding of the length
// to a sharding of the heads.
//
// For example, q is the query and op_q is the query as the kernel of ulysses
// reads it. An all_to_all over sp changes q to op_q:
//
//   ulysses, q [b, t:sp, n:tp, h]  ->  op_q [b, t, n:tp+sp, h]
#include "exec/step/operation_form.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "source/index.h"

namespace shardc::exec {
namespace {

const AxisGroup& AxesOf(const step::ShardingConstraints& constraints,
                        std::string_view token) {
  return constraints
      .by_axis[AsIndex(std::find(step::kConstraintAxes.begin(),
                                 step::kConstraintAxes.end(), token) -
                       step::kConstraintAxes.begin())];
}

AxisGroup Joined(AxisGroup first, const AxisGroup& then) {
  for (const std::string& axis : then) {
    if (std::find(first.begin(), first.end(), axis) == first.end()) {
      first.push_back(axis);
    }
  }
  return first;
}

}  // namespace

step::AttentionForm StepForm(const Operation& operation, int64_t length_parts,
                             int64_t key_heads) {
  step::AttentionForm out;
  if (operation.global_view) return out;
  out.view = step::AttentionView::kLocal;
  if (!operation.equal_length_axes || length_parts == 1) return out;
  if (!operation.exchanges_heads) {
    out.view = step::AttentionView::kRing;
    out.turns = length_parts;
    return out;
  }
  if (key_heads % length_parts != 0) out.copies = length_parts / key_heads;
  return out;
}

void AddStepOverrides(const Operation& operation,
                      step::ShardingConstraints& constraints) {
  if (operation.global_view) return;
  const AxisGroup lengths = AxesOf(constraints, "QUERY_LENGTH");
  const AxisGroup heads = AxesOf(constraints, "HEAD");
  const auto put = [&](std::string_view role, std::string_view token,
                       AxisGroup axes) {
    constraints.overrides.push_back(
        {std::string(role), std::string(token), std::move(axes)});
  };
  const bool exchanges = operation.exchanges_heads;
  const bool rings = operation.equal_length_axes && !exchanges;
  if (!rings) {
    put("op_q", "QUERY_LENGTH", {});
    put("op_out", "QUERY_LENGTH", {});
  }
  // An operation for decoding merges partial softmaxes of sharded keys. All
  // other operations except rings gather the key length.
  const bool joins = operation.decode_only;
  if (!rings && !joins) {
    put("op_k", "KV_LENGTH", {});
    put("op_krep", "KV_LENGTH", {});
  }
  if (operation.heads_on_keys) put("op_k", "KV_HEAD", heads);
  if (!exchanges) return;
  for (const std::string_view role : {"op_q", "op_k", "op_krep", "op_out"}) {
    put(role, "HEAD", Joined(heads, lengths));
  }
  put("op_k", "KV_HEAD", Joined(AxesOf(constraints, "KV_HEAD"), lengths));
}

}  // namespace shardc::exec
