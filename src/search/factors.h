// Chooses which factors of a traced program tensor parallelism shards, by what
// the program costs.
#ifndef SHARDC_SEARCH_FACTORS_H_
#define SHARDC_SEARCH_FACTORS_H_

#include <cstdint>
#include <functional>
#include <set>

#include "cost/traced_program.h"
#include "suggest/by_program.h"
#include "suggest/choice.h"

namespace shardc::search {

// Returns what the program costs under choices of specs.
using CostOfChoices =
    std::function<cost::ProgramCost(const suggest::Choices& choices)>;

struct FactorChoice {
  std::set<uint32_t> factors;  // as indices into Facts::factors
  double sent_bytes = 0;       // by a device in a step
  // The time of multiplications and traffic, in bytes that could be sent.
  double time = 0;
};

// Returns the cheapest factors: those with the least time of multiplications
// and traffic, of the sets that divide the multiplications well. The search
// begins with the factors with the best ratio, and exchanges one factor at a
// time. `divides_parts` is that of ByProgram::Choose().
FactorChoice CheapestFactors(const suggest::ByProgram& by_program,
                             bool divides_parts, const CostOfChoices& cost_of);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_FACTORS_H_
