// Bounds the time and memory of a candidate without evaluating all of its
// settings. Two properties are used. More micro-batches take longer and need
// less memory. A rematerialisation policy that keeps a superset of the tensors
// of another one takes less time. In the grid, a policy keeps all that the
// second policy after it keeps, so that of the policies from any index on, one
// of the first two takes the least time. Bounds therefore are times and bytes
// of single settings:
//
//   time:   for each ZeRO stage, the fewest micro-batches that fit, under the
//           first two policies from the first that fits
//   memory: the most micro-batches, over all policies and stages
//
// Tests compare the search with an enumeration that uses no bound.
#include "search/pricer.h"

#include <algorithm>
#include <cmath>

#include "search/front.h"

namespace shardc::search {
namespace {

// The relative error of a sum of seconds that the order of its terms can cause.
constexpr double kRounding = 1e-9;

}  // namespace

void Incumbents::Add(const Point& point) {
  fastest_ = std::min(fastest_, point.seconds);
  const auto at = std::lower_bound(front_.begin(), front_.end(), point, Before);
  if (at != front_.begin() && (at - 1)->bytes <= point.bytes) return;
  const auto last = std::find_if(at, front_.end(), [&](const Point& other) {
    return other.bytes < point.bytes;
  });
  front_.insert(front_.erase(at, last), point);
}

bool Incumbents::Exclude(double seconds, int64_t bytes) const {
  if (seconds > fastest_ * kFrontWindow) return true;
  if (seconds <= fastest_ * (1 + kTieOther)) return false;
  // Of the points that are faster, the slowest one has the fewest bytes.
  const auto at = std::lower_bound(
      front_.begin(), front_.end(), seconds,
      [](const Point& one, double value) { return one.seconds < value; });
  return at != front_.begin() && (at - 1)->bytes <= bytes;
}

Pricer::Axes Pricer::AxesOf(const Evaluator& evaluator, const Prepared& on,
                            const Filter& filter) const {
  Axes out;
  const auto wanted = [](const std::optional<size_t>& only, size_t index) {
    return !only || *only == index;
  };
  const bool replicas = evaluator.HasReplicas(on);
  for (size_t i = 0; i < grid_.zeros().size(); ++i) {
    if (i > 0 && !replicas) break;
    if (wanted(filter.zero, i)) out.zeros.push_back(i);
  }
  for (size_t i = 0; i < grid_.remats().size(); ++i) {
    if (wanted(filter.remat, i)) out.remats.push_back(i);
  }
  for (size_t i = 0; i < grid_.micros().size(); ++i) {
    const bool supported =
        request_.unmeasured || request_.microbatches_fixed ||
        WhyUnmeasuredSettings(grid_[grid_.At(0, 0, i)]).empty();
    if (supported && wanted(filter.micro, i) &&
        evaluator.Divides(on, grid_.micros()[i])) {
      out.micros.push_back(i);
    }
  }
  return out;
}

Bound Pricer::BoundOf(const Candidate& candidate, int worker) const {
  Bound out;
  Evaluator& evaluator = *options_[candidate.option].evaluator;
  auto on = evaluator.On(candidate.mesh);
  if (!on) {
    out.reasons = {"the rules do not compile for it"};
    return out;
  }
  out.reasons = evaluator.ReasonsAgainst(*on);
  const Axes axes = AxesOf(evaluator, *on, {});
  if (out.reasons.empty() && axes.micros.empty()) {
    out.reasons = {"no number of micro-batches divides the rows of a device"};
  }
  if (!out.reasons.empty()) return out;
  out.bytes = INT64_MAX;
  out.seconds = std::numeric_limits<double>::infinity();
  out.fits = false;
  for (const size_t zero : axes.zeros) {
    BoundAt(evaluator, *on, axes, zero, worker, out);
  }
  out.seconds *= 1 - kRounding;
  return out;
}

// A single micro-batch may be lowered to another program than several, so that
// their times cannot be compared. The fewest micro-batches, which may be one,
// and all others are therefore bounded separately.
void Pricer::BoundAt(Evaluator& evaluator, Prepared& on, const Axes& axes,
                     size_t zero, int worker, Bound& out) const {
  const auto fits = [&](size_t remat, size_t micro) {
    const Room room = evaluator.RoomOf(on, grid_.At(zero, remat, micro));
    out.bytes = std::min(out.bytes, room.bytes);
    return Fits(room);
  };
  // Lowers the bound to the time of the first two policies from `from` on, one
  // of which is the fastest of the rest.
  const auto bound = [&](size_t from, size_t micro) {
    for (size_t i = from; i < std::min(from + 2, axes.remats.size()); ++i) {
      const size_t setting = grid_.At(zero, axes.remats[i], micro);
      out.seconds =
          std::min(out.seconds, evaluator.SecondsOf(on, setting, worker));
    }
  };
  std::optional<size_t> first, any;  // with the fewest, with the most
  for (size_t i = 0; i < axes.remats.size(); ++i) {
    if (!fits(axes.remats[i], axes.micros.back())) continue;
    if (!any) any = i;
    if (!first && fits(axes.remats[i], axes.micros.front())) first = i;
  }
  if (!any) return;
  out.fits = true;
  if (first) bound(*first, axes.micros.front());
  for (size_t i = 1; i < axes.micros.size(); ++i) {
    const bool some =
        std::any_of(axes.remats.begin(), axes.remats.end(),
                    [&](size_t remat) { return fits(remat, axes.micros[i]); });
    if (!some) continue;
    bound(*any, axes.micros[i]);
    break;
  }
}

std::vector<Point> Pricer::PointsOf(const Candidate& candidate, uint32_t index,
                                    double least_seconds, const Filter& filter,
                                    int worker) const {
  std::vector<Point> out;
  Evaluator& evaluator = *options_[candidate.option].evaluator;
  auto on = evaluator.On(candidate.mesh);
  if (!on) return out;
  const Axes axes = AxesOf(evaluator, *on, filter);
  Incumbents own;
  const auto excluded = [&](double seconds, int64_t bytes) {
    if (seconds > filter.most_seconds) return true;
    return filter.incumbents != nullptr &&
           (filter.incumbents->Exclude(seconds, bytes) ||
            own.Exclude(seconds, bytes));
  };
  for (const size_t zero : axes.zeros) {
    for (const size_t remat : axes.remats) {
      double least = least_seconds;
      for (const size_t micro : axes.micros) {
        const size_t setting = grid_.At(zero, remat, micro);
        const Room room = evaluator.RoomOf(*on, setting);
        if (!Fits(room) || excluded(least, room.bytes)) continue;
        const double seconds = evaluator.SecondsOf(*on, setting, worker);
        // More micro-batches take at least as long as these. The fewest are
        // left out, as they may be one with a program of its own.
        if (micro != axes.micros.front()) least = std::max(least, seconds);
        if (!std::isfinite(seconds) || excluded(seconds, room.bytes)) continue;
        out.push_back(
            {index, static_cast<uint32_t>(setting), seconds, room.bytes});
        if (filter.incumbents != nullptr) own.Add(out.back());
      }
    }
  }
  return out;
}

}  // namespace shardc::search
