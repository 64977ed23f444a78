// Finds the first value of a program that a reference program lacks.
#ifndef SHARDC_VERIFY_PROGRAM_STRANGE_H_
#define SHARDC_VERIFY_PROGRAM_STRANGE_H_

#include <optional>

#include "dense/program/run.h"
#include "program/program.h"

namespace shardc::verify {

// Returns by how much elements of a value may differ whose largest finite
// number is `largest`, by magnitude: a part of it, and a little in any case.
// Results of the recorded programs differ by at most 1e-14 of it.
constexpr double AllowedFor(double largest) { return 1e-8 * largest + 1e-12; }

// Returns the first op with a result that equals no value of the reference: of
// the first manual region with such results, or if there is none, of the
// program. A region's values are compared as wholes, whose shards the devices
// have. `wrong` is a result of the program that counts as such a value. Returns
// the region itself if it differs from the reference within a loop, and nullptr
// if nothing differs.
const program::Op* FirstStrange(const program::Program& program,
                                const dense::ProgramRun& run,
                                const dense::ProgramRun& reference,
                                std::optional<program::ValueId> wrong);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_PROGRAM_STRANGE_H_
