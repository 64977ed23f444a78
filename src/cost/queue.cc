// Steps through the scheduler's time. A step of the instance is one of all
// ranks: each rank decodes the requests that run on it, prefills what its order
// and its budget of tokens admit, and the slowest rank sets the time. With two
// slots, prompts of 8 tokens and a budget of 8:
//
//   time   0        T(8)        2 T(8)
//   step   prefill  prefill b,  decode a and b ...
//          a        decode a
//
// Between two events (a request arrives, is taken in or ends), steps that only
// decode are equal, so they are counted and not simulated one by one.
#include "cost/queue.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <queue>
#include <utility>

#include "source/size.h"

namespace shardc::cost {
namespace {

// The prompts of a slot that are simulated. Where a benchmark sends more, those
// of the later half stand for all that follow the start.
constexpr int64_t kWaves = 12, kStartWaves = 6;
// Requests times ranks that are simulated; with more, fewer prompts of a slot.
constexpr int64_t kMostWork = int64_t{1} << 21;
// A prompt is prefilled in at most so many chunks. Smaller ones are joined, so
// that tiny budgets do not take long.
constexpr double kMostChunks = 256;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// A function of a positive number that is computed at few points, and linear
// between them.
class Table {
 public:
  Table(const std::function<double(double)>& of, double most) {
    for (double at = 1;; at = std::min(at * kGrowth, most)) {
      values_.push_back({at, of(at)});
      if (at >= most) break;
    }
  }
  double At(double x) const {
    const auto next = std::upper_bound(
        values_.begin(), values_.end(), x,
        [](double value, const auto& point) { return value < point.first; });
    if (next == values_.begin()) return next->second;
    if (next == values_.end()) return values_.back().second;
    const auto& [x0, y0] = *std::prev(next);
    return y0 + (x - x0) / (next->first - x0) * (next->second - y0);
  }

 private:
  static constexpr double kGrowth = 1.5;
  std::vector<std::pair<double, double>> values_;
};

struct Request {
  double input = 0, left = 0;  // tokens, and those that are not prefilled yet
  int64_t output = 0;
  // When the client sends it, the scheduler sees it and takes it in, its first
  // chunk begins, its last one ends, and the client has the first token.
  double sent = 0, arrives = 0, taken = 0, begins = -1, filled = 0, first = 0;
  double boundary = 0;  // when the step ends in which it arrives
  double held = 0;      // seconds in which the scheduler gathers prompts
  double end = 0;
};

struct Rank {
  std::deque<size_t> filling;  // that are taken in, in order
  // The tokens of `decoded` with which each running request ends.
  using Ending = std::pair<int64_t, size_t>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> running;
  int64_t decoded = 0;  // tokens since the start
  int64_t waited = 0;   // steps for a batch of prompts
  int64_t held = 0;     // requests whose prefill has started and that run
  // What the next step prefills.
  double tokens = 0;
  std::vector<size_t> fills;

  double Running() const { return Real(std::ssize(running)); }
  size_t Load() const { return filling.size() + running.size(); }
};

class Simulation {
 public:
  explicit Simulation(const QueueInputs& in)
      : in_(in),
        order_(in.order == PrefillOrder::kFirst && in.settings.mixed_chunk
                   ? PrefillOrder::kMixed
                   : in.order),
        budget_(in.settings.max_batched_tokens),
        ranks_(AsIndex(in.ranks)),
        decode_(in.decode, std::max(Real(in.slots), 2.0)),
        prefill_(in.prefill, std::max({budget_, 2.0, 4 * in.input})) {
    const int64_t most = in.settings.prompts_per_slot.value_or(kNever);
    const int64_t afforded =
        std::max<int64_t>(kMostWork / (in.slots * in.ranks), 2);
    waves_ = std::min({most, kWaves, afforded});
    start_ = most <= waves_ ? waves_ : std::min(kStartWaves, waves_ - 1);
    MakeRequests();
  }

  QueueTimes Run() {
    for (int64_t i = 0; i < in_.slots; ++i) Send(0);
    while (ended_ < requests_.size()) {
      const bool idle =
          std::all_of(ranks_.begin(), ranks_.end(),
                      [](const Rank& rank) { return rank.Load() == 0; });
      if (idle) now_ = std::max(now_, arrivals_.top().first);
      ++steps_since_;
      if (prefilled_) steps_since_ = kNever;
      if (idle || steps_since_ >= in_.settings.recv_interval) TakeIn();
      if (!idle) SkipDecoding();
      Step();
    }
    return Times();
  }

 private:
  // Lengths are spread evenly over their range, in an order without a pattern:
  // each next one is the golden ratio further, modulo 1. With one slot on a
  // rank nothing waits, so all requests have the mean lengths.
  void MakeRequests() {
    constexpr double kGolden = 0.6180339887498949,
                     kRootTwo = 0.4142135623730951;
    const double least = in_.slots <= in_.ranks ? 1 : in_.settings.least_length;
    const auto length = [&](double mean, double at) {
      const double share = least + (1 - least) * (at - std::floor(at));
      return mean * share / ((1 + least) / 2);
    };
    requests_.resize(AsIndex(in_.slots * waves_));
    for (size_t i = 0; i < requests_.size(); ++i) {
      const double n = static_cast<double>(i) + 0.5;
      Request& one = requests_[i];
      one.input = std::max(
          length(in_.input, n * kGolden) * (1 - in_.settings.prefix_hit), 1.0);
      one.left = one.input;
      one.output =
          std::max<int64_t>(std::llround(length(in_.output, n * kRootTwo)), 1);
    }
  }

  void Send(double at) {
    if (sent_ == requests_.size()) return;
    Request& one = requests_[sent_];
    one.sent = at;
    one.arrives = at + in_.call;
    arrivals_.emplace(one.arrives, sent_++);
  }

  // Gives the requests that have arrived to the ranks with the fewest.
  void TakeIn() {
    steps_since_ = 0;
    while (!arrivals_.empty() && arrivals_.top().first <= now_) {
      const size_t i = arrivals_.top().second;
      arrivals_.pop();
      size_t best = turn_ % ranks_.size();
      for (size_t k = 1; k < ranks_.size(); ++k) {
        const size_t rank = (turn_ + k) % ranks_.size();
        if (ranks_[rank].Load() < ranks_[best].Load()) best = rank;
      }
      ++turn_;
      Request& one = requests_[i];
      one.taken = now_;
      one.boundary =
          step_ > 0 ? now_ - std::floor((now_ - one.arrives) / step_) * step_
                    : now_;
      ranks_[best].filling.push_back(i);
    }
  }

  double DecodeSeconds(const Rank& rank) const {
    return decode_.At(std::max(rank.Running(), 1.0));
  }

  // Counts the equal steps that only decode.
  void SkipDecoding() {
    int64_t steps = kNever;
    double seconds = 0;
    for (const Rank& rank : ranks_) {
      if (!rank.filling.empty() && !IsFull(rank)) return;
      if (rank.running.empty()) continue;
      steps = std::min(steps, rank.running.top().first - rank.decoded - 1);
      seconds = std::max(seconds, DecodeSeconds(rank));
    }
    if (!arrivals_.empty()) {
      const double until = arrivals_.top().first - now_;
      if (until > 0) {
        const double most = std::ceil(until / seconds) - 1;
        if (most < Real(steps)) steps = static_cast<int64_t>(most);
      } else {
        steps = std::min(steps, in_.settings.recv_interval - steps_since_ - 2);
      }
    }
    if (steps <= 0 || steps == kNever) return;
    now_ += Real(steps) * seconds;
    step_ = seconds;
    steps_since_ += steps;
    prefilled_ = false;
    for (Rank& rank : ranks_) rank.decoded += steps;
  }

  // Returns whether the rank has as many requests as it may, and all decode.
  bool IsFull(const Rank& rank) const {
    return !rank.filling.empty() &&
           requests_[rank.filling.front()].begins < 0 &&
           rank.held >= in_.settings.max_requests.value_or(kNever);
  }

  // Returns whether prompts of the rank wait until a step has more of them.
  bool Gathers(Rank& rank) const {
    if (in_.settings.batch_wait_steps == 0 || rank.filling.empty() ||
        rank.running.empty() || IsFull(rank)) {
      return false;
    }
    double tokens = rank.Running();
    for (const size_t i : rank.filling) tokens += requests_[i].left;
    if (tokens < in_.settings.batch_wait_share * budget_ &&
        rank.waited < in_.settings.batch_wait_steps) {
      ++rank.waited;
      return true;
    }
    rank.waited = 0;
    return false;
  }

  // Chooses what a rank prefills in the next step.
  void Choose(Rank& rank) {
    rank.tokens = 0;
    rank.fills.clear();
    double room =
        budget_ - (order_ == PrefillOrder::kFirst ? 0 : rank.Running());
    while (!rank.filling.empty()) {
      Request& one = requests_[rank.filling.front()];
      if (one.begins < 0 &&
          rank.held >= in_.settings.max_requests.value_or(kNever)) {
        break;
      }
      double chunk = one.left;
      if (order_ == PrefillOrder::kWhole) {
        if (rank.tokens > 0 && chunk > room) break;
      } else {
        if (room < 1) break;
        chunk = std::min(chunk, std::max(room, one.input / kMostChunks));
      }
      if (one.begins < 0) {
        one.begins = now_;
        ++rank.held;
      }
      one.left -= chunk;
      room -= chunk;
      rank.tokens += chunk;
      if (one.left > 0) break;
      rank.fills.push_back(rank.filling.front());
      rank.filling.pop_front();
    }
  }

  void Step() {
    bool prefills = false;
    std::vector<Rank*> gathering;
    for (Rank& rank : ranks_) {
      rank.tokens = 0;
      rank.fills.clear();
      if (Gathers(rank)) {
        gathering.push_back(&rank);
      } else {
        Choose(rank);
      }
      prefills |= rank.tokens > 0;
    }
    const bool decodes = order_ != PrefillOrder::kFirst || !prefills;
    double seconds = 0, requests = 1;
    for (const Rank& rank : ranks_) {
      const bool decoding = decodes && !rank.running.empty();
      double own = decoding ? DecodeSeconds(rank) : 0;
      if (rank.tokens > 0) {
        own += (decoding ? in_.prefill_share : 1) * prefill_.At(rank.tokens);
        own = std::max(own, in_.host);
      }
      seconds = std::max(seconds, own);
      requests = std::max(requests, rank.Running());
    }
    now_ += seconds;
    step_ = seconds;
    prefilled_ = prefills;
    for (Rank* const rank : gathering) {
      for (const size_t i : rank->filling) requests_[i].held += seconds;
    }
    const double shown = now_ + in_.shown_after * decode_.At(requests);
    for (Rank& rank : ranks_) {
      if (decodes && !rank.running.empty()) End(rank, shown);
      for (const size_t i : rank.fills) {
        Request& one = requests_[i];
        one.filled = now_;
        one.first = shown;
        if (one.output < 2) {
          Finish(i, shown, rank);
        } else {
          rank.running.emplace(rank.decoded + one.output - 1, i);
        }
      }
    }
  }

  // Adds a token to each running request, and removes those that end with it.
  void End(Rank& rank, double shown) {
    ++rank.decoded;
    while (!rank.running.empty() && rank.running.top().first <= rank.decoded) {
      Finish(rank.running.top().second, shown, rank);
      rank.running.pop();
    }
  }

  void Finish(size_t i, double shown, Rank& rank) {
    requests_[i].end = shown;
    --rank.held;
    ++ended_;
    Send(shown);
  }

  // Returns the requests of `i`'s kind of which each simulated one stands for
  // this many: 0 if it is not counted.
  double WeightOf(size_t i) const {
    const auto wave = static_cast<int64_t>(i) / in_.slots;
    const auto& prompts = in_.settings.prompts_per_slot;
    if (wave < start_) return prompts ? 1 : 0;
    if (!prompts) return 1;
    return Real(*prompts - start_) / Real(waves_ - start_);
  }

  QueueTimes Times() const {
    QueueTimes out;
    double all = 0, steady = 0, tokens = 0;
    double call = 0, running = 0, gathered = 0, filled = 0, queued = 0,
           shown = 0;
    std::vector<std::pair<double, double>> firsts;  // with their weights
    for (size_t i = 0; i < requests_.size(); ++i) {
      const double weight = WeightOf(i);
      if (weight == 0) continue;
      const Request& one = requests_[i];
      const double first = one.first - one.sent;
      firsts.emplace_back(first, weight);
      all += weight;
      out.first += weight * first;
      if (one.output > 1) {
        tokens += weight;
        out.token += weight * (one.end - one.first) / Real(one.output - 1);
      }
      // All requests of the first wave are sent at the start.
      if (i < AsIndex(in_.slots) && waves_ > 1) continue;
      steady += weight;
      out.steady += weight * first;
      call += weight * in_.call;
      running += weight * (one.boundary - one.arrives);
      const double gather = one.taken - one.boundary + one.held;
      gathered += weight * gather;
      queued += weight * (one.begins - one.taken - one.held);
      filled += weight * (one.filled - one.begins);
      shown += weight * (one.first - one.filled);
    }
    out.first /= all;
    out.token /= std::max(tokens, 1.0);
    out.steady /= steady;
    // Requests in step wait equally long in each wave, but for rounding.
    constexpr double kRounding = 1e-9;
    if (std::abs(out.first - out.steady) < kRounding * out.first) {
      out.steady = out.first;
    }
    out.parts = {{"engine", call / steady},
                 {"decode_step", running / steady},
                 {"gathering", gathered / steady},
                 {"queue", queued / steady},
                 {"prefill", filled / steady},
                 {"shown", shown / steady},
                 {"start_burst", out.first - out.steady}};
    std::sort(firsts.begin(), firsts.end());
    const auto percentile = [&](double share) {
      double below = 0;
      for (const auto& [first, weight] : firsts) {
        below += weight;
        if (below >= share * all) return first;
      }
      return firsts.back().first;
    };
    out.median = percentile(0.5);
    out.percentile_99 = percentile(0.99);
    return out;
  }

  const QueueInputs& in_;
  const PrefillOrder order_;
  const double budget_;
  std::vector<Rank> ranks_;
  const Table decode_, prefill_;
  int64_t waves_ = 1, start_ = 1;
  std::vector<Request> requests_;
  using Arrival = std::pair<double, size_t>;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  double now_ = 0, step_ = 0;  // the time, and the seconds of the last step
  bool prefilled_ = false;     // by the last step
  // Steps since requests were taken in.
  int64_t steps_since_ = kNever - 1;
  size_t sent_ = 0, ended_ = 0, turn_ = 0;
};

}  // namespace

QueueTimes SimulateQueue(const QueueInputs& inputs) {
  return Simulation(inputs).Run();
}

}  // namespace shardc::cost
