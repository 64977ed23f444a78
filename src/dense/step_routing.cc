// The ops of the dense reference for expert routing. They compute which experts
// a token chooses, and the token's position in the queue of each of these
// experts. All results are arrays of zeros and ones. If two scores are equal,
// the expert with the lower index is chosen first. For example:
//
//   top 1 of [3, 1, 3, 2] -> [1, 0, 0, 0], top 2 -> [1, 0, 1, 0]
#include "dense/step_ops.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <variant>

namespace shardc::dense {
namespace {

using step::LabelId;
using step::Op;

// Marks the `count` largest scores. If scores are equal, the first ones are
// marked.
std::vector<bool> Greatest(const std::vector<double>& scores, int64_t count) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::vector<bool> marked(scores.size(), false);
  for (size_t i = 0; i < order.size() && i < AsIndex(count); ++i) {
    marked[order[i]] = true;
  }
  return marked;
}

// Returns the score of each group of experts: its largest score, or the sum of
// its two largest if `two` is true.
std::vector<double> GroupScores(const std::vector<double>& scores,
                                int64_t groups, bool two) {
  std::vector<double> out;
  const size_t each = scores.size() / AsIndex(groups);
  for (size_t g = 0; g < AsIndex(groups); ++g) {
    std::vector<double> members(
        scores.begin() + static_cast<std::ptrdiff_t>(g * each),
        scores.begin() + static_cast<std::ptrdiff_t>((g + 1) * each));
    std::sort(members.rbegin(), members.rend());
    out.push_back(members[0] + (two && members.size() > 1 ? members[1] : 0.0));
  }
  return out;
}

}  // namespace

// Marks the experts of the best groups (kTopGroups), or the best experts
// (kTopK). For kTopK, each expert is treated as a group of one expert.
template <typename T>
void RunChoice(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const auto* const grouped =
      std::get_if<step::TopGroupsAttributes>(&op.attributes);
  const auto* const single = std::get_if<step::TopKAttributes>(&op.attributes);
  const LabelId label = grouped != nullptr ? grouped->experts : single->experts;
  const int64_t count =
      c.SizeOf(grouped != nullptr ? grouped->chosen : single->chosen);
  const StepTensor<T>& x = c.Of(op.in[0]);
  const int64_t step = c.By(op.in[0], {label})[0];
  const int64_t experts = c.SizeOf(label);
  Labels rest = c.LabelsOf(op.out);
  rest.erase(std::find(rest.begin(), rest.end(), label));
  Odometer at(c.Sized(rest), {c.By(op.in[0], rest)});
  const int64_t rows = static_cast<int64_t>(x.data.size()) / experts;
  for (int64_t i = 0; i < rows; ++i, at.Next()) {
    std::vector<double> scores;
    for (int64_t e = 0; e < experts; ++e) {
      scores.push_back(
          static_cast<double>(Real(x.data[AsIndex(at.offset(0) + e * step)])));
    }
    int64_t each = 1;
    if (grouped != nullptr) {
      const int64_t groups = c.SizeOf(grouped->groups);
      each = experts / groups;
      scores = GroupScores(scores, groups,
                           grouped->score == step::GroupScore::kTop2);
    }
    const auto marked = Greatest(scores, count);
    for (int64_t e = 0; e < experts; ++e) {
      const bool chosen = marked[AsIndex(e / each)];
      out.data[AsIndex(at.offset(0) + e * step)] = T(chosen ? 1 : 0);
    }
  }
}

// Assigns a slot in an expert's queue to each token that chose the expert,
// until no slots are left. The tokens of a batch row enter the queue in their
// order.
template <typename T>
void RunSlots(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const StepTensor<T>& chosen = c.Of(op.in[0]);
  const int64_t batch = chosen.shape[0], tokens = chosen.shape[1],
                experts = chosen.shape[2];
  const int64_t slots = c.SizeOf(step::As<step::SlotsAttributes>(op).slots);
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<int64_t> next(AsIndex(experts), 0);
    for (int64_t i = 0; i < tokens * experts; ++i) {
      const int64_t at = b * tokens * experts + i;
      if (Real(chosen.data[AsIndex(at)]) == 0) continue;
      const int64_t slot = next[AsIndex(i % experts)]++;
      if (slot < slots) {
        out.data[AsIndex(at * slots + slot)] = T(1);
      }
    }
  }
}

SHARDC_DENSE_OP(RunChoice)
SHARDC_DENSE_OP(RunSlots)

}  // namespace shardc::dense
