// Reports replicated vectors that have one number for each head, or for each
// column of the query or key, although the heads are sharded:
//
//   sinks [64], q_proj split over tp 8       ->  each device uses 8 of them
//   q_norm [4096], a mean over all heads     ->  each device has 512 columns
//
// A norm over the columns of one head is used for every head, so it is
// correctly replicated. A mixer has such vectors too (`A_log`, `dt_bias`), and
// a convolution with a kernel for each channel.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "lint/analysis/facts.h"
#include "lint/analysis/fused.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/scanned.h"
#include "lint/rules/all.h"
#include "model/name.h"
#include "roles/words.h"
#include "source/index.h"

namespace shardc {
namespace {

// A vector that belongs to the heads of an attention block: attention sinks, or
// the scale of the norm of the query or key.
struct HeadVector {
  Role role;  // kSink, kQueryNorm or kKeyNorm
  // The path of the attention block with its last separator, such as
  // `layers.*.attn.`.
  std::string block;
};

std::optional<HeadVector> HeadVectorOf(const ParameterGroup& group,
                                       char separator) {
  for (std::string_view part : SplitName(group.name, separator)) {
    const Role role = RoleBelow(part);
    if (!IsHeadVector(role)) continue;
    const auto end = static_cast<size_t>(part.data() - group.name.data());
    return HeadVector{role, group.name.substr(0, end)};
  }
  return std::nullopt;
}

// A projection of a block, whose output is sharded over `axes`.
struct Projection {
  int64_t width = 0;
  AxisGroup axes;
};

using Blocks = std::map<std::string, Projection, std::less<>>;

// Returns the projections of this role whose output is sharded over
// tensor-parallel axes, keyed by block. If a block has several, the first is
// used.
Blocks SplitOnes(const Facts& facts, Role role) {
  Blocks out;
  for (const ParameterGroup& group : facts.groups()) {
    if (group.role.module_role != role || !IsWeight(group) ||
        !facts.Judged(group)) {
      continue;
    }
    const auto dims = MatrixDimsOf(facts, facts.stacks(), group);
    const int side = OutDim(group.role, 2);
    if (!dims || side < 0) continue;
    const int dim = (*dims)[AsIndex(side)];
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, dim));
    if (facts.TensorParts(axes) <= 1) continue;
    const size_t end = group.role.sibling_path.find('?');
    out.try_emplace(
        group.role.sibling_path.substr(0, end),
        Projection{(*facts.TypeOf(group).shape)[AsIndex(dim)], axes});
  }
  return out;
}

// Returns the size of dimension `dim` of the group's parameters.
int64_t SizeOf(const Facts& facts, const ParameterGroup& group, int dim) {
  return (*facts.TypeOf(group).shape)[AsIndex(dim)];
}

// Returns "replicated", or over which axes the dimension is split. They may be
// axes such as fsdp, over which it is gathered before use.
std::string HeldText(const Facts& facts, const ParameterGroup& group, int dim) {
  const AxisGroup axes = facts.AxesAt(group, dim);
  return facts.mesh().Parts(axes).value_or(1) > 1
             ? "split over " + GroupText(axes)
             : "replicated";
}

LintFinding Report(const Facts& facts, const ParameterGroup& group, int dim,
                   const HeadVector& vector, const Projection& projection) {
  const int64_t size = SizeOf(facts, group, dim);
  const bool sinks = vector.role == Role::kSink;
  const std::string of = vector.role == Role::kKeyNorm ? "key" : "query";
  const std::string held = HeldText(facts, group, dim);
  return GroupFinding(
      facts, kHeadVectorWhole.code, group,
      ParametersText(facts, group) +
          (sinks ? " holds a number for each of " + std::to_string(size) +
                       " heads"
                 : " norms all " + std::to_string(size) + " columns of the " +
                       of + " together") +
          " and is " + held + ", while the " + of +
          "'s projection is split over " + GroupText(projection.axes) +
          ": a device uses " +
          std::to_string(size / facts.TensorParts(projection.axes)) +
          " of them" +
          (sinks ? "" : ", and the mean needs an all_reduce over the axis"),
      sinks ? "split it over the axis of the heads"
            : "split it over the axis of the columns and all-reduce the mean "
              "over that axis, or leave the projection unsharded");
}

// Returns the blocks in which the query is normalised head by head, so that its
// norm is shorter than the query. The key is then normalised head by head as
// well. With a single KV head, such a key norm is as long as the key. It is not
// reported, because it is correctly replicated.
std::set<std::string> NormedByHead(const Facts& facts, const Blocks& queries) {
  std::set<std::string> out;
  for (const ParameterGroup& group : facts.groups()) {
    const auto dim = VectorDimOf(facts, facts.stacks(), group);
    if (!dim) continue;
    const auto vector = HeadVectorOf(group, facts.separator());
    if (!vector || vector->role != Role::kQueryNorm) continue;
    const auto query = queries.find(vector->block);
    if (query == queries.end()) continue;
    if (SizeOf(facts, group, *dim) != query->second.width)
      out.insert(vector->block);
  }
  return out;
}

// Reports the head vectors and the convolution of a mixer whose heads are split
// into `parts`, if they are not split.
void CheckMixer(const Facts& facts, const Mixer& mixer, const AxisGroup& axes,
                FindingSink& sink) {
  const auto check = [&](const Sized& one, const std::string& what,
                         const std::string& of) {
    if (!facts.Judged(*one.group) ||
        facts.TensorParts(facts.AxesAt(*one.group, one.dim)) > 1) {
      return;
    }
    sink.push_back(GroupFinding(
        facts, kHeadVectorWhole.code, *one.group,
        ParametersText(facts, *one.group) + " holds " + what + " for each of " +
            std::to_string(one.size) + " " + of + " and is " +
            HeldText(facts, *one.group, one.dim) +
            ", while the projections of its mixer are split over " +
            GroupText(axes) + ": a device uses " +
            std::to_string(one.size / facts.TensorParts(axes)) + " of them",
        "split it with the projections, part by part, or gather their outputs "
        "and leave the input of the output projection unsharded"));
  };
  for (const Sized& vector : mixer.vectors) check(vector, "a number", "heads");
  check(mixer.convolution, "a kernel", "channels");
}

void CheckMixers(const Facts& facts, FindingSink& sink) {
  for (const Mixer& mixer : facts.blocks().mixers) {
    const auto split = [&](const Sized& one) {
      return facts.Judged(*one.group)
                 ? facts.TensorAxes(facts.AxesAt(*one.group, one.dim))
                 : AxisGroup();
    };
    const AxisGroup output = split(mixer.output);
    for (const Sized& input : mixer.inputs) {
      if (facts.TensorParts(split(input)) <= 1 ||
          facts.TensorParts(output) <= 1) {
        continue;
      }
      CheckMixer(facts, mixer, split(input), sink);
      break;
    }
  }
}

}  // namespace

void CheckHeadVectorWhole(const Facts& facts, FindingSink& sink) {
  CheckMixers(facts, sink);
  const Blocks queries = SplitOnes(facts, Role::kQuery);
  const Blocks keys = SplitOnes(facts, Role::kKey);
  const std::set<std::string> by_head = NormedByHead(facts, queries);
  for (const ParameterGroup& group : facts.groups()) {
    if (!facts.Judged(group)) continue;
    const auto dim = VectorDimOf(facts, facts.stacks(), group);
    if (!dim || facts.TensorParts(facts.AxesAt(group, *dim)) > 1) continue;
    const auto vector = HeadVectorOf(group, facts.separator());
    if (!vector) continue;
    const Blocks& blocks = vector->role == Role::kKeyNorm ? keys : queries;
    const auto at = blocks.find(vector->block);
    if (at == blocks.end()) continue;
    const int64_t size = SizeOf(facts, group, *dim);
    const bool whole_width =
        size == at->second.width &&
        !(vector->role == Role::kKeyNorm && by_head.contains(vector->block));
    const bool of_heads = facts.model() != nullptr && facts.model()->heads
                              ? size == *facts.model()->heads
                              : size > 1 && size < at->second.width &&
                                    at->second.width % size == 0;
    if (vector->role == Role::kSink ? of_heads : whole_width) {
      sink.push_back(Report(facts, group, *dim, *vector, at->second));
    }
  }
}

}  // namespace shardc
