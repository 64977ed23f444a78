// Random legal cases of every operation, with random meshes, modes, layouts,
// dtypes, groups, masks and shardings.
#ifndef SHARDC_TESTS_VERIFY_CASES_RANDOM_CASES_H_
#define SHARDC_TESTS_VERIFY_CASES_RANDOM_CASES_H_

#include <cstdint>
#include <string>

#include "verify/cases/case.h"

namespace shardc::verify {

// Returns case number `index` of seed `seed`: it is legal, so it must pass.
Case RandomCase(uint64_t seed, uint64_t index);

// Returns a case as text, such as `ring train bthd BF16 dp=2 sp=2 B4 T16 S16 H8
// K2 D16 causal`.
std::string CaseText(const Case& test);

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_CASES_RANDOM_CASES_H_
