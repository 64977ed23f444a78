// Adds pipelines to the result of a search, and compares them with the winner.
// The time of a pipeline has other parts than that of a sharding without
// stages: the bubble, the gradients and the update after the last task, and the
// time that a rank computes and sends for its stages. Each part is compared
// with the corresponding parts of the winner. For example, a pipeline of 8
// ranks has a bubble, shorter updates, and less time for the rest of the step:
//
//   pp 1 -> 8: bubble +624 ms, stage updates -50 ms, stages -2.1 s
#include "search/placed_pipelines.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "search/difference.h"
#include "search/front.h"

namespace shardc::search {
namespace {

double SecondsOf(const Sharding& one, std::string_view part) {
  for (const cost::TimePart& own : one.report.expected->parts) {
    if (own.name == part) return own.seconds;
  }
  return 0;
}

std::vector<cost::TimePart> PartsOf(const Pipeline& one) {
  const double bubble = one.bubble * one.seconds;
  return {{"bubble", bubble},
          {"stage_updates", one.after},
          {"stages", one.seconds - bubble - one.after}};
}

// Returns, for each part of the time, how many seconds longer it is in a
// pipeline than in the winner. The sum is the difference of the two times.
std::vector<cost::TimePart> PartsBeyond(const Sharding& winner,
                                        const Pipeline& one) {
  std::vector<cost::TimePart> out = PartsOf(one);
  const double updates =
      SecondsOf(winner, "gradients") + SecondsOf(winner, "optimizer");
  out[1].seconds -= updates;
  out[2].seconds -= winner.Seconds() - updates;
  return out;
}

Sharding ShardingOf(const Pipeline& one, std::optional<int64_t> capacity) {
  Sharding out;
  out.base = one.base;
  out.mesh = one.mesh;
  out.rules = one.rules;
  out.file = one.file;
  out.unmeasured = WhyUnmeasured(one);
  out.stages = static_cast<int64_t>(one.layers.size());
  out.schedule = one.schedule;
  if (one.virtual_stages > 1) {
    out.schedule +=
        " with " + std::to_string(one.virtual_stages) + " stages a rank";
  }
  out.report.mesh = one.mesh;
  out.report.settings = one.settings;
  out.report.memory.capacity = capacity;
  auto& taken = out.report.memory.taken.emplace(cost::TakenBytes{});
  taken.least = one.bytes;
  taken.expected = one.taken;
  taken.most = one.most_taken;
  auto& time = out.report.expected.emplace(cost::ExpectedTime{});
  time.seconds = one.seconds;
  time.least = one.least;
  time.most = one.most;
  time.model_flops_share = one.model_flops_share;
  time.tokens_per_second = cost::Real(one.settings.batch.value_or(0)) *
                           cost::Real(one.settings.length.value_or(0)) /
                           (cost::Real(one.mesh.devices) * one.seconds);
  time.measured = one.settings.profile->efficiency.runs > 0;
  time.parts = PartsOf(one);
  return out;
}

class Placer {
 public:
  explicit Placer(Found& found)
      : found_(found),
        capacity_(found.winner->report.memory.capacity),
        fastest_((found.fastest ? *found.fastest : *found.winner).Seconds()) {}

  void Place() {
    Front();
    Ties();
    Alternatives();
  }

 private:
  bool IsBeaten(const Pipeline& one) const {
    return std::any_of(
        found_.front.begin(), found_.front.end(), [&](const Sharding& other) {
          return other.Seconds() <= one.seconds && other.Bytes() <= one.taken;
        });
  }

  void Front() {
    struct Entry {
      Sharding one;
      bool shown = false, knee = false;
    };
    std::vector<Point> points;
    std::vector<Entry> entries;
    for (const Pipeline& one : found_.pipelines.fitting) {
      if (one.seconds > fastest_ * kFrontWindow || IsBeaten(one)) continue;
      if (!points.empty() && one.taken >= points.back().bytes) continue;
      points.push_back({0, 0, one.seconds, one.taken});
      entries.push_back({ShardingOf(one, capacity_)});
    }
    if (entries.empty()) return;
    for (const size_t i : Thinned(points, capacity_.value_or(0))) {
      entries[i].shown = true;
    }
    for (size_t i = 0; i < found_.front.size(); ++i) {
      entries.push_back({std::move(found_.front[i])});
      entries.back().knee = i == found_.knee;
      entries.back().shown = std::find(found_.shown.begin(), found_.shown.end(),
                                       i) != found_.shown.end();
    }
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) {
                       return a.one.Seconds() < b.one.Seconds();
                     });
    found_.front.clear();
    found_.shown.clear();
    found_.knee = entries.size();
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].shown) found_.shown.push_back(i);
      if (entries[i].knee) found_.knee = i;
      found_.front.push_back(std::move(entries[i].one));
    }
  }

  void Ties() {
    std::map<std::string, bool> seen;
    for (const Pipeline& one : found_.pipelines.fitting) {
      const bool ties =
          VerdictOf(one.seconds / fastest_, kTieOther) == Verdict::kTie;
      const std::string kind =
          KindOf(one.Ranks(), one.sizes, one.settings.zero);
      if (!ties || !seen.try_emplace(kind, true).second) continue;
      found_.ties.push_back({kind, ShardingOf(one, capacity_)});
    }
    std::stable_sort(found_.ties.begin(), found_.ties.end(),
                     [](const Tie& a, const Tie& b) {
                       return a.best.Seconds() < b.best.Seconds();
                     });
  }

  void Alternatives() {
    // The fastest fitting pipeline for each number of ranks, keyed by this
    // number.
    std::map<int64_t, const Pipeline*> best;
    for (const Pipeline& one : found_.pipelines.fitting) {
      best.try_emplace(one.Ranks(), &one);
    }
    const double seconds = found_.winner->Seconds();
    for (const auto& [ranks, one] : best) {
      WhyNot& out = found_.why_not.emplace_back();
      out.changes = {one->axis + " 1 -> " + std::to_string(ranks)};
      out.best = ShardingOf(*one, capacity_);
      out.verdict = VerdictOf(one->seconds / seconds, kTieOther);
      out.parts = PartsBeyond(*found_.winner, *one);
      out.because = DifferenceText(out.parts);
      if (!out.best->unmeasured.empty()) {
        out.because += "; excluded: " + out.best->unmeasured;
      }
    }
  }

  Found& found_;
  const std::optional<int64_t> capacity_;
  const double fastest_;  // seconds of the fastest sharding without stages
};

}  // namespace

void PlacePipelines(Found& found, const Request& request) {
  if (found.winner) Placer(found).Place();
  const auto& fastest = found.pipelines.fastest;
  if (!fastest) return;
  const bool wins = !found.winner || found.may_fit ||
                    VerdictOf(fastest->seconds / found.winner->Seconds(),
                              kTieOther) == Verdict::kFaster;
  if (!wins) return;
  found.may_fit = false;
  found.without_stages = std::move(found.winner);
  found.winner =
      ShardingOf(*fastest, cost::CapacityOf(request.device, request.settings));
  cost::ExpectedTime& time = *found.winner->report.expected;
  time.has_experts = request.model && request.model->experts;
  time.calibrated = time.measured && !time.has_experts;
}

}  // namespace shardc::search
