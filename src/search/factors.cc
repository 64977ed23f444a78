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

// A set must save these shares of what the factors with the best ratio save of
// a device's multiplications, and of its bytes of parameters. Where the sizes
// of a program are small, the least traffic would otherwise leave the axis
// unused.
constexpr double kLeastFlopsSaved = 0.875;
constexpr double kLeastBytesSaved = 0.9;

// The most sets whose cost is computed. Programs have about ten candidates.
constexpr size_t kMostSets = 100;

struct Result {
  std::set<uint32_t> factors;
  double flops = 0;
  double sent = 0;
  double parameters = 0;  // bytes of a device
  bool suits = false;     // whether the mesh suits the model then

  double time() const { return flops / kFlopsPerByte + sent; }
};

class Climber {
 public:
  Climber(const suggest::ByProgram& by_program, bool divides_parts,
          const CostOfChoices& cost_of)
      : by_program_(by_program),
        divides_parts_(divides_parts),
        cost_of_(cost_of) {}

  FactorChoice Climb() {
    none_ = ResultOf({});
    if (by_program_.candidates().empty()) {
      return {{}, none_.sent, none_.time()};
    }
    Add(by_program_.BestByRatio());
    Result best = Best();
    while (true) {
      for (const uint32_t factor : by_program_.candidates()) {
        if (by_program_.FirstLike(factor) != factor) continue;
        for (std::set<uint32_t>& set : Neighbours(best.factors, factor)) {
          Add(std::move(set));
        }
      }
      Result next = Best();
      if (next.factors == best.factors) {
        return {best.factors, best.sent, best.time()};
      }
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
    return {by_program_.Without(factors, factor)};
  }

  void Add(std::set<uint32_t> factors) {
    if (results_.size() >= kMostSets || !seen_.insert(factors).second) return;
    results_.push_back(ResultOf(std::move(factors)));
  }

  Result ResultOf(std::set<uint32_t> factors) const {
    const suggest::Choices choices =
        by_program_.Choose(factors, divides_parts_);
    const cost::ProgramCost cost = cost_of_(choices);
    const int64_t parameters =
        cost.memory[static_cast<size_t>(cost::ProgramMemory::kParameters)];
    return {std::move(factors), cost.device_flops,
            static_cast<double>(cost.Sent()), static_cast<double>(parameters),
            by_program_.Suits(choices)};
  }

  bool Saves(const Result& one) const {
    const Result& first = results_.front();
    const auto saves = [&](double Result::*of, double least) {
      return none_.*of - one.*of >= least * (none_.*of - first.*of);
    };
    return one.suits && saves(&Result::flops, kLeastFlopsSaved) &&
           saves(&Result::parameters, kLeastBytesSaved);
  }

  Result Best() const {
    const Result* best = &results_.front();
    for (const Result& one : results_) {
      if (Saves(one) && one.time() < best->time()) best = &one;
    }
    return *best;
  }

  const suggest::ByProgram& by_program_;
  const bool divides_parts_;
  const CostOfChoices& cost_of_;
  std::set<std::set<uint32_t>> seen_;
  std::vector<Result> results_;
  Result none_;  // without tensor parallelism
};

}  // namespace

FactorChoice CheapestFactors(const suggest::ByProgram& by_program,
                             bool divides_parts, const CostOfChoices& cost_of) {
  return Climber(by_program, divides_parts, cost_of).Climb();
}

}  // namespace shardc::search
