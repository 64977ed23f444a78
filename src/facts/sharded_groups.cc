// The dimensions of a matrix follow from its role (dimensions.h), or from a
// traced program, which shows them whatever the names are.
#include "facts/sharded_groups.h"

#include <algorithm>
#include <string>
#include <utility>

#include "facts/dimensions.h"
#include "model/axis_rules.h"
#include "roles/role.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc::facts {
namespace {

// Sets what a traced program shows about a matrix: whether it reads or writes
// the residual stream, and the factor of its other dimension, which it shares
// with the other projections of its block.
void TakeTraced(const program::Facts& facts, const program::ParamFacts& param,
                ShardedGroup& out) {
  using enum program::FactorRole;
  int stream = -1, inner = -1;
  out.projects = out.norm = out.output_bias = out.column_bias = false;
  out.layers.clear();
  out.experts.clear();
  for (size_t dim = 0; dim < param.dims.size(); ++dim) {
    const program::FactorList& factors = param.dims[dim];
    if (factors.empty()) continue;
    const auto at = static_cast<int>(dim);
    uint32_t lead = factors[0];
    // Parts that are stored one after the other are led by the first one's.
    while (!facts.factors[lead].parts.empty() &&
           !facts.factors[lead].parts[0].empty()) {
      lead = facts.factors[lead].parts[0][0];
    }
    switch (facts.factors[lead].role) {
      case kStream:
        stream = at;
        break;
      case kLayers:
        out.layers.push_back(at);
        break;
      case kExperts:
        out.experts.push_back(at);
        break;
      case kHeads:
      case kKvHeads:
      case kStateGroups:
      case kInner:
        inner = at;
        out.block = std::to_string(lead);
        break;
      case kVocab:
        inner = at;
        out.role = param.looked_up ? Role::kEmbedding : Role::kHead;
        break;
      default:
        break;
    }
  }
  const bool vector =
      param.dims.size() == out.layers.size() + out.experts.size() + 1;
  if (vector) {
    out.norm = stream >= 0;
    out.column_bias = inner >= 0;
    return;
  }
  if (stream < 0 || inner < 0) return;
  const bool reads = std::ranges::any_of(
      param.dims[AsIndex(stream)],
      [&](uint32_t factor) { return IsAmong(factor, param.contracted); });
  out.in = reads ? stream : inner;
  out.out = reads ? inner : stream;
  if (out.role == Role::kHead || out.role == Role::kEmbedding) return;
  out.projects = true;
  out.role = reads ? Role::kUp : Role::kDown;
}

}  // namespace

ShardedGroup ShardedGroupOf(const ParameterTable& table,
                            const WrittenSpec& written) {
  const ParameterRole& role =
      table.groups[written.group].RoleBy(Evidence::kShapes);
  ShardedGroup out;
  out.block = role.sibling_path;
  out.role = role.module_role;
  out.projects =
      IsWeight(role) && role.role == role.module_role && !IsAdapter(role.role);
  out.norm = role.role == Role::kNorm;
  out.output_bias = role.role == Role::kBias && GivesWidth(role.module_role);
  out.column_bias = role.role == Role::kBias && TakesWidth(role.module_role);
  out.spec = written.spec;
  out.shape = written.shape;
  out.rule = written.rule;
  out.placed_along = written.placed_along;
  MatrixDims dims = MatrixDimsOf(table, written.group, *written.shape);
  out.in = dims.in;
  out.out = dims.out;
  out.layers = std::move(dims.layers);
  out.experts = std::move(dims.experts);
  if (written.traced != nullptr) {
    TakeTraced(*written.program, *written.traced, out);
  }
  for (const std::vector<NameTrace>& dimension : written.traces) {
    for (const NameTrace& trace : dimension) {
      const auto rule = ParseAxisRule(trace.rule);
      if (!rule) continue;
      const auto kind = ParallelismOf(*rule);
      for (const std::string& axis : trace.axes) {
        out.logical.emplace_back(axis, kind.value_or(*rule));
      }
    }
  }
  return out;
}

}  // namespace shardc::facts
