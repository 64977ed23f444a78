// Chooses which factors of a traced program tensor parallelism shards, by what
// the program costs.
#ifndef SHARDC_SEARCH_FACTORS_H_
#define SHARDC_SEARCH_FACTORS_H_

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "cost/traced_program.h"
#include "model/mesh.h"
#include "suggest/by_program.h"

namespace shardc::search {

// Returns what the program costs if its parameters have these specs.
using CostOfSpecs =
    std::function<cost::ProgramCost(const std::vector<Spec>& params)>;

// Returns the cheapest factors, as indices into Facts::factors: those with the
// least time of multiplications and traffic, of the sets that divide the
// multiplications well. The search begins with the factors with the best ratio,
// and exchanges one factor at a time.
std::set<uint32_t> CheapestFactors(const suggest::ByProgram& by_program,
                                   const CostOfSpecs& cost_of);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_FACTORS_H_
