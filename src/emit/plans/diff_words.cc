// Formats the parts of a difference of two plans, such as specs, bytes and
// summaries. If the sharding of a parameter changes differently for train and
// for decode, the parameter is in two groups of changes. The summary counts
// such a parameter only once.
#include "emit/plans/diff_words.h"

#include <cmath>
#include <cstdio>
#include <string_view>
#include <unordered_set>

#include "comm/collective.h"
#include "source/wording.h"

namespace shardc {
namespace {

int64_t CountNames(const auto& groups) {
  std::unordered_set<std::string_view> names;
  for (const auto& group : groups) {
    names.insert(group.names.begin(), group.names.end());
  }
  return static_cast<int64_t>(names.size());
}

}  // namespace

std::string DiffTypeText(const TensorType& type) {
  std::string out = type.shape ? ShapeText(*type.shape) : "of unknown shape";
  if (type.dtype) out += " " + std::string(DtypeName(*type.dtype));
  return out;
}

std::string DiffModesText(const std::vector<Mode>& modes) {
  if (modes.size() == kAllModes.size()) return "every mode";
  std::string out;
  for (size_t i = 0; i < modes.size(); ++i) {
    if (i > 0) out += i + 1 == modes.size() ? " and " : ", ";
    out += ModeName(modes[i]);
  }
  return out;
}

std::string DiffBytesText(const std::optional<int64_t>& bytes) {
  return bytes ? BytesText(*bytes) : "unknown";
}

std::string DiffChangeText(const std::optional<int64_t>& before,
                           const std::optional<int64_t>& after) {
  if (!before || !after || *before == *after) return "";
  const bool more = *after > *before;
  std::string out = (more ? "+" : "-") +
                    BytesText(more ? *after - *before : *before - *after);
  if (*before == 0) return out;
  char percent[32];
  std::snprintf(
      percent, sizeof percent, " (%+.1f %%)",
      (static_cast<double>(*after) / static_cast<double>(*before) - 1) * 100);
  return out + percent;
}

std::string DiffMoveText(const SpecChange& change) {
  if (!change.move) return "";
  std::string axes;
  for (const std::string& axis : change.move->axes) {
    axes += (axes.empty() ? "`" : ", `") + axis + "`";
  }
  std::string out(CollectiveName(change.move->kind));
  if (!axes.empty()) out += " over " + axes;
  if (change.sent_bytes_per_device) {
    out += ", " + BytesText(*change.sent_bytes_per_device) + " sent per device";
  }
  return out;
}

bool DiffRanksDiffer(const PlanDifference& diff) {
  return !diff.by_rank_before.empty() && !diff.by_rank_after.empty() &&
         diff.by_rank_before != diff.by_rank_after;
}

std::string DiffRankBytesText(const std::vector<std::optional<int64_t>>& bytes,
                              size_t rank) {
  return rank < bytes.size() ? DiffBytesText(bytes[rank]) : "nothing";
}

std::string DiffRuleText(const std::string& pattern) {
  return pattern.empty() ? "no rule" : Printable(pattern);
}

std::string DiffSummaryText(const PlanDifference& diff) {
  std::string out;
  const auto add = [&](int64_t count, std::string_view noun,
                       std::string_view what) {
    if (count == 0) return;
    if (!out.empty()) out += ", ";
    out += Counted(count, noun);
    out += what;
  };
  add(CountNames(diff.specs), "parameter", " resharded");
  add(CountNames(diff.reshaped), "parameter", " of another type");
  int64_t layers = 0;
  for (const LayerMove& move : diff.layers) layers += move.layers.count();
  add(layers, "layer", " in another stage");
  add(CountNames(diff.added), "parameter", " added");
  add(CountNames(diff.removed), "parameter", " removed");
  add(CountNames(diff.rules), "parameter", " under another rule");
  add(static_cast<int64_t>(diff.attention.size()), "attention spec", "");
  int64_t others = 0;
  for (const FieldChange& field : diff.fields) others += !field.detailed;
  add(others, "other field", "");
  add(static_cast<int64_t>(diff.steps.size()), "change",
      " of the step program");
  if (!out.empty()) return out;
  return diff.other_mesh ? "another mesh" : "no difference";
}

std::string DiffDevicesText(const PlanDifference& diff) {
  const int64_t before = diff.mesh_before.devices;
  const int64_t after = diff.mesh_after.devices;
  if (before == after) return "";
  return "the meshes have " + CountText(before) + " and " + CountText(after) +
         " devices: parameters move through a checkpoint (`shardc reshard`)";
}

}  // namespace shardc
