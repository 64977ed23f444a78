// Counts how often each computation runs, because a collective sends its bytes
// in each run. Following every path from the entry separately could take
// exponential time. Instead, two passes go over the sorted list of calls:
//
//   callees first   adds up the bytes that a computation and its callees send,
//                   to find the branch of each conditional that sends most;
//                   only this branch is counted
//   callers first   runs(callee) += runs(caller) * runs of the callee per call
//
// For example, a loop of 4 iterations is inside a loop of 3 iterations. The
// inner body runs 12 times. The inner condition runs once more than its body in
// each iteration of the outer loop, so it runs 15 times in total.
#include "audit/runs.h"

#include <algorithm>

namespace shardc::audit {
namespace {

class Counting {
 public:
  Counting(const Graph& graph, Tracer& tracer, std::vector<Size> sent)
      : graph_(graph),
        tracer_(tracer),
        sent_(std::move(sent)),
        times_(graph.calls().size(), Size(1)) {}

  Runs Count() {
    const auto& calls = graph_.calls();
    for (size_t end = calls.size(); end > 0;) {
      size_t begin = end - 1;
      while (begin > 0 && calls[begin - 1].from == calls[end - 1].from) --begin;
      Weigh(begin, end);
      end = begin;
    }
    // The pass visited callees first, so `unknown_loops` and `conditionals` are
    // not in the order of the text, which the report needs.
    std::ranges::sort(runs_.unknown_loops);
    std::ranges::sort(runs_.conditionals);
    runs_.of.assign(sent_.size(), Size(0));
    runs_.of[graph_.program().entry] = 1;
    for (size_t i = 0; i < calls.size(); ++i) {
      const Size caller = runs_.of[graph_.BlockOf(calls[i].from)];
      // A branch that was not chosen has zero runs. It is skipped, because zero
      // times an overflowed number of runs would overflow as well.
      if (times_[i].value() == 0 || caller.value() == 0) continue;
      runs_.of[calls[i].to] += caller * times_[i];
    }
    return std::move(runs_);
  }

 private:
  // Sets how often each call from one instruction runs the called computation.
  void Weigh(size_t begin, size_t end) {
    const Call& first = graph_.calls()[begin];
    if (first.kind == CallKind::kBranch) {
      Choose(begin, end);
    } else if (first.kind != CallKind::kOnce) {
      Repeat(begin, end);
    }
    Size& caller = sent_[graph_.BlockOf(first.from)];
    for (size_t i = begin; i < end; ++i) {
      const Size callee = sent_[graph_.calls()[i].to];
      if (times_[i].value() == 0 || callee.value() == 0) continue;
      caller += callee * times_[i];
    }
  }

  void Choose(size_t begin, size_t end) {
    const auto sent = [&](size_t i) {
      return sent_[graph_.calls()[i].to].value();
    };
    size_t most = begin;
    bool differ = false;
    for (size_t i = begin; i < end; ++i) {
      differ = differ || sent(i) != sent(begin);
      if (sent(i) > sent(most)) most = i;
    }
    for (size_t i = begin; i < end; ++i) times_[i] = i == most ? 1 : 0;
    if (differ) runs_.conditionals.push_back(graph_.calls()[begin].from);
  }

  void Repeat(size_t begin, size_t end) {
    bool sends = false;
    for (size_t i = begin; i < end; ++i) {
      sends = sends || sent_[graph_.calls()[i].to].value() > 0;
    }
    const Node loop = graph_.calls()[begin].from;
    const auto trips =
        sends ? TripsOf(graph_, tracer_, loop) : std::optional<int64_t>(1);
    if (!trips) runs_.unknown_loops.push_back(loop);
    for (size_t i = begin; i < end; ++i) {
      const bool body = graph_.calls()[i].kind == CallKind::kBody;
      if (trips) times_[i] = body ? Size(*trips) : Size(*trips) + 1;
    }
  }

  const Graph& graph_;
  Tracer& tracer_;
  std::vector<Size> sent_;
  // Indexed by call: how often the callee runs in one run of the caller.
  std::vector<Size> times_;
  Runs runs_;
};

}  // namespace

Runs CountRuns(const Graph& graph, Tracer& tracer,
               const std::vector<Size>& sent) {
  return Counting(graph, tracer, sent).Count();
}

}  // namespace shardc::audit
