// Hill climbing over sets of factors. The ratio that orders the candidates
// (suggest/by_program.cc) does not depend on sizes, so it is wrong where
// activations are smaller than weights, or where a small factor excludes a
// large one:
//
//   patches [8, 16 tokens, 256]: by the ratio tp shards the 16 tokens' learned
//   positions. Then keys and values are reduced in each layer: 15.1 MiB. Heads
//   and the inner width send 4.4 MiB, and divide as many multiplications.
#include "search/factors.h"

#include <algorithm>
#include <utility>

namespace shardc::search {
namespace {

// The operations that a device computes in the time in which it sends a byte:
// about 400 TFLOP/s and 300 GB/s. Only the order of sets depends on it.
constexpr double kFlopsPerByte = 1333;

// A device may compute this multiple of what it computes under the factors with
// the best ratio. Where the sizes of a program are small, the least traffic
// would otherwise leave the axis unused.
constexpr double kMostFlops = 1.5;

// The most sets whose cost is computed. Programs have about ten candidates.
constexpr size_t kMostSets = 100;

struct Result {
  std::set<uint32_t> factors;
  double flops = 0;
  double sent = 0;

  double time() const { return flops / kFlopsPerByte + sent; }
};

class Climber {
 public:
  Climber(const suggest::ByProgram& by_program, const CostOfSpecs& cost_of)
      : by_program_(by_program), cost_of_(cost_of) {}

  std::set<uint32_t> Climb() {
    Add(by_program_.BestByRatio());
    std::set<uint32_t> best = Best();
    while (true) {
      for (const uint32_t factor : by_program_.candidates()) {
        for (std::set<uint32_t>& set : Neighbours(best, factor)) {
          Add(std::move(set));
        }
      }
      std::set<uint32_t> next = Best();
      if (next == best) return best;
      best = std::move(next);
    }
  }

 private:
  // The sets without a factor that they have, or with one that they lack.
  std::vector<std::set<uint32_t>> Neighbours(const std::set<uint32_t>& factors,
                                             uint32_t factor) const {
    if (!factors.contains(factor)) {
      std::set<uint32_t> full = by_program_.With(factors, factor);
      std::set<uint32_t> bare = full;
      by_program_.Fill(full);
      return {std::move(full), std::move(bare)};
    }
    std::set<uint32_t> without = factors;
    without.erase(factor);
    return {std::move(without)};
  }

  void Add(std::set<uint32_t> factors) {
    if (results_.size() >= kMostSets || !seen_.insert(factors).second) return;
    const cost::ProgramCost cost = cost_of_(by_program_.SpecsOf(
        by_program_.Choose(factors, /*divides_parts=*/false)));
    results_.push_back({std::move(factors), cost.device_flops,
                        static_cast<double>(cost.Sent())});
  }

  std::set<uint32_t> Best() const {
    const Result* best = &results_.front();
    const double most = kMostFlops * best->flops;
    for (const Result& one : results_) {
      if (one.flops <= most && one.time() < best->time()) best = &one;
    }
    return best->factors;
  }

  const suggest::ByProgram& by_program_;
  const CostOfSpecs& cost_of_;
  std::set<std::set<uint32_t>> seen_;
  std::vector<Result> results_;
};

}  // namespace

std::set<uint32_t> CheapestFactors(const suggest::ByProgram& by_program,
                                   const CostOfSpecs& cost_of) {
  return Climber(by_program, cost_of).Climb();
}

}  // namespace shardc::search
