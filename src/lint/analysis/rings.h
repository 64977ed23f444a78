// Rings whose order cuts the sequence finer than its axes do, as a target's
// settings of operations say.
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
  std::optional<Mode> mode;  // nothing: in all
  Place place;               // where the target says so; may be empty
};

// Those of `operations` that the settings put in zig-zag order: what the
// target lists, or where it lists nothing, what the settings are about.
std::vector<ZigZagRing> RingsOf(const VerifyInput& input,
                                const OperationsFile& settings,
                                std::span<const KnownOperation> operations);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_RINGS_H_
