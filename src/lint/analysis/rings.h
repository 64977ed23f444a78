// Finds operations that run ring attention in zig-zag order. Zig-zag order
// splits the sequence into twice as many chunks as the sequence axes have
// devices.
#ifndef SHARDC_LINT_ANALYSIS_RINGS_H_
#define SHARDC_LINT_ANALYSIS_RINGS_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/axis_rules.h"
#include "model/operation_settings.h"
#include "model/project.h"
#include "source/source.h"

namespace shardc {

struct ZigZagRing {
  std::string operation;
  std::optional<Mode> mode;  // nullopt if the order is set for all modes
  // The place of the setting in the project file; may be empty.
  Place place;
};

// Returns the operations for which the settings select zig-zag order. If the
// target lists operations, only these are returned.
std::vector<ZigZagRing> RingsOf(const VerifyInput& input,
                                const OperationsFile& settings,
                                std::span<const KnownOperation> operations);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_RINGS_H_
