// Finds which parameter of the entry a collective moves, so that a report can
// name it. JAX writes the path of an entry parameter in its metadata:
//
//   %p.3 = f32[4,16,64]{2,1,0} parameter(3), sharding={...},
//       metadata={op_name="p['layers']['gate']"}
//   ->  layers/gate, shape 4 x 16 x 64 on a device
//
// The shapes of the parameters are kept to recognise what may be one of them or
// its gradient. For example, dimension 1 of the parameter above is sharded over
// fsdp:2, and a loop runs over the four layers of dimension 0. In the loop, the
// gradient of one layer is reduced over fsdp. Before the reduction it has the
// shape 32 x 64: it has no layer dimension, and its 32 rows are not sharded
// yet.
#include "audit/entry.h"

#include <algorithm>
#include <utility>

#include "importers/rules/exact.h"

namespace shardc::audit {

std::string_view WhatName(What what) {
  constexpr std::string_view kNames[] = {"activation", "parameter", "gradient",
                                         "input"};
  return kNames[static_cast<size_t>(what)];
}

namespace {

// Returns whether an argument with a path is part of the batch. This is assumed
// if the path begins with a usual name of a batch, such as `inputs`, or if the
// argument may hold tokens: an integer array of rank 2 or more. Integer arrays
// of lower rank are counters and random keys of optimizer states.
bool IsOfBatch(std::string_view path, const std::vector<hlo::Array>& arrays) {
  constexpr std::string_view kNames[] = {"batch", "data", "examples", "inputs"};
  const std::string_view name = path.substr(0, path.find_first_of("[."));
  if (std::ranges::find(kNames, name) != std::end(kNames)) return true;
  constexpr std::string_view kTokens[] = {"s32", "s64", "u32"};
  return arrays.size() == 1 && arrays[0].dims.size() > 1 &&
         std::ranges::find(kTokens, arrays[0].element) != std::end(kTokens);
}

}  // namespace

Entry::Entry(const Graph& graph) {
  const hlo::Computation& entry = graph.BlockAt(graph.program().entry);
  for (Node node = entry.begin; node < entry.end; ++node) {
    const hlo::Instruction at = graph.At(node);
    if (at.opcode != "parameter") continue;
    Param param{std::string(at.name), {}, true};
    const auto arrays = hlo::ArraysOf(at.type);
    if (const auto path = hlo::OpNameOf(at)) {
      param.name = imports::NameOfPath(*path);
      param.is_input = param.name == *path || IsOfBatch(*path, arrays);
    }
    if (arrays.size() == 1) param.array = arrays[0];
    const Param& kept = params_.emplace(node, std::move(param)).first->second;
    Dims dims = kept.array.dims;
    if (kept.is_input || dims.empty()) continue;
    by_name_.emplace(kept.name, &kept);
    by_dims_[dims].push_back(&kept);
    dims.erase(dims.begin());
    if (!dims.empty()) by_layer_[dims].push_back(&kept);
  }
}

Moved Entry::Of(Node parameter) const {
  const auto found = params_.find(parameter);
  if (found == params_.end()) return {};
  const Param& param = found->second;
  return {param.is_input ? What::kInput : What::kParameter, param.name, {}};
}

bool Entry::Look(const Dims& dims, int64_t runs, std::string_view name,
                 bool transposed) const {
  // Returns whether `runs` is a multiple of the parameter's first dimension, as
  // in a loop over the layers of a stacked parameter.
  const auto layered = [&](const Param& param) {
    const int64_t first = param.array.dims.front();
    return runs > 1 && first > 1 && runs % first == 0;
  };
  const auto whole = [&](const Param& param) { return !layered(param); };
  // Outside of loops, an array may be one layer's slice of a stacked parameter.
  const auto layer = [&](const Param& param) {
    return runs == 1 || layered(param);
  };
  const auto any = [&](const auto& params, const auto& counts) {
    const auto found = params.find(dims);
    return found != params.end() &&
           std::ranges::any_of(found->second, [&](const Param* param) {
             return counts(*param);
           });
  };
  const auto fits = [&](const auto& named) {
    const Param& param = *named.second;
    const Dims& all = param.array.dims;
    return (all == dims && whole(param)) ||
           (std::ranges::equal(Dims(all.begin() + 1, all.end()), dims) &&
            layer(param));
  };
  const auto [first, last] = by_name_.equal_range(name);
  if (name.empty() ? any(by_dims_, whole) || any(by_layer_, layer)
                   : std::any_of(first, last, fits)) {
    return true;
  }
  // The compiler may transpose a matrix before a collective.
  return dims.size() == 2 && dims[0] != dims[1] && !transposed &&
         Look({dims[1], dims[0]}, runs, name, true);
}

bool Entry::HasShape(const hlo::Array& array, int64_t runs,
                     std::string_view name, bool sliced) const {
  if (Look(array.dims, runs, name)) return true;
  // The slice of one layer may keep its layer dimension, of size 1.
  return sliced && array.dims.size() > 1 && array.dims.front() == 1 &&
         Look({array.dims.begin() + 1, array.dims.end()}, runs, name);
}

bool Entry::HasGradient(const hlo::Array& array, int64_t runs,
                        int64_t members) const {
  if (HasShape(array, runs)) return true;
  hlo::Array part = array;
  for (int64_t& dim : part.dims) {
    if (members < 2 || dim % members != 0) continue;
    const int64_t before = dim;
    dim /= members;
    if (HasShape(part, runs, {}, false)) return true;
    dim = before;
  }
  return false;
}

}  // namespace shardc::audit
