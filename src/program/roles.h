// Infers what factors count from how a program uses them.
#ifndef SHARDC_PROGRAM_ROLES_H_
#define SHARDC_PROGRAM_ROLES_H_

#include <unordered_map>

#include "program/facts.h"
#include "program/program.h"
#include "program/ties.h"

namespace shardc::program {

// Returns the roles of all factors that occur in inputs of the program. Factors
// are named by their representatives in `ties`.
std::unordered_map<FactorId, FactorRole> InferRoles(const Program& program,
                                                    const Ties& ties);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_ROLES_H_
