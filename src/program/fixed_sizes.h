// Sizes that the code of a traced program gives as numbers. A device that has a
// part of such a dimension cannot run the line.
#ifndef SHARDC_PROGRAM_FIXED_SIZES_H_
#define SHARDC_PROGRAM_FIXED_SIZES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "program/program.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::program {

// A line that fixes the sizes of dimensions of a value, such as
// `view(2, 7, 8, 64)`.
struct FixedSizes {
  ValueId value = 0;
  Numbers dims;
  Line at;
};

// Reads the list `literals` of the document that `program` was read from; empty
// if it has none. Returns nullopt after a finding.
std::optional<std::vector<FixedSizes>> ReadFixedSizes(
    const JsonDocument& document, const Program& program, Findings& findings);

// Returns, by the name of a parameter, the line that fixes the size of a value
// which is sharded where an axis of `parts` devices shards a dimension of the
// parameter: a text for each dimension, empty if no line does. Parameters
// without such a line are left out.
std::map<std::string, std::vector<std::string>, std::less<>> FixedBy(
    const Program& program, const std::vector<FixedSizes>& sizes,
    int64_t parts);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_FIXED_SIZES_H_
