// Rates how certain the inferred roles of a suggested rule are. The rating is
// written into the comment of the rule. What the user's program shows is rated
// high, and so is a parameter that is a vector in each layer. For other
// parameters, the name decides:
// - high: the name is known, and the sizes do not contradict the role
// - medium: other programs use the name with another meaning
// - low: only sizes show the role, or nothing does
// A rule has the lowest rating of its parameter groups. If it is not certain
// which dimension counts scanned layers, the rating is lowered as well. For
// example, if the first dimension of `trunk/up` may count either layers or
// experts, the rating is low.
#include "suggest/evidence.h"

#include <algorithm>
#include <set>

namespace shardc::suggest {
namespace {

enum class Level : uint8_t { kLow, kMedium, kHigh };

struct Evidence {
  Level level = Level::kHigh;
  std::string text;
};

Evidence OfRole(const InferredDims& inferred) {
  if (inferred.by_program) return {Level::kHigh, "by the program"};
  if (inferred.OfOneLayer().size() < 2) {
    return {Level::kHigh, "vectors of one layer"};
  }
  if (inferred.siblings == Siblings::kNames) {
    return {Level::kMedium, "by the names and sizes of its siblings"};
  }
  if (inferred.siblings == Siblings::kSizes) {
    return {Level::kLow, "by the sizes of its siblings"};
  }
  switch (inferred.by_name.confidence) {
    case Confidence::kSure:
      if (inferred.role != Role::kOther && inferred.role != Role::kProjection) {
        return {Level::kHigh, "by names and sizes"};
      }
      break;
    case Confidence::kLikely:
      if (inferred.role == Role::kOther) break;
      return {Level::kMedium,
              "by names that other programs use differently, and sizes"};
    case Confidence::kSizes:
    case Confidence::kNone:
      break;
  }
  if (inferred.IsMatrix()) {
    return {Level::kLow, "by sizes alone: one side is the width " +
                             std::to_string(inferred.width_size)};
  }
  return {Level::kLow, "no name or size shows the role"};
}

Level OfStack(StackConfidence confidence) {
  switch (confidence) {
    case StackConfidence::kSure:
      return Level::kHigh;
    case StackConfidence::kLikely:
      return Level::kMedium;
    case StackConfidence::kUndecided:
      break;
  }
  return Level::kLow;
}

}  // namespace

std::string EvidenceText(const ModelDims& dims,
                         std::span<const uint32_t> groups) {
  Evidence least;
  std::set<int> scanned;
  bool undecided = false;
  for (const uint32_t k : groups) {
    Evidence one = OfRole(dims.groups[k]);
    for (const ScannedDim& dim : dims.stacks.dims[k]) {
      const auto confidence = dims.stacks.stacks[dim.stack].confidence;
      one.level = std::min(one.level, OfStack(confidence));
      undecided = undecided || confidence == StackConfidence::kUndecided;
      scanned.insert(dim.dim);
    }
    if (least.text.empty() || one.level < least.level) least = std::move(one);
  }
  std::string out = "Confidence: ";
  out += least.level == Level::kHigh     ? "high"
         : least.level == Level::kMedium ? "medium"
                                         : "low";
  out += ", " + least.text;
  std::string list;
  for (const int dim : scanned) {
    list += (list.empty() ? "" : " and ") + std::to_string(dim);
  }
  if (!list.empty()) {
    out += std::string("; dimension") + (scanned.size() > 1 ? "s " : " ") +
           list +
           (undecided            ? " may count"
            : scanned.size() > 1 ? " count"
                                 : " counts") +
           " layers";
  }
  return out + ".";
}

}  // namespace shardc::suggest
