// Ring attention whose settings in a target split the sequence into more chunks
// than its axes.
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
  std::optional<Mode> mode;  // empty: all modes
  Place place;               // of the setting; may be empty
};

// The operations for which the settings select zig-zag order: those that the
// target lists, or if it lists none, those that have settings.
std::vector<ZigZagRing> RingsOf(const VerifyInput& input,
                                const OperationsFile& settings,
                                std::span<const KnownOperation> operations);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_RINGS_H_
