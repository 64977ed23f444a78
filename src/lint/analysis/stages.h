// The stages of a pipeline that a target declares.
#ifndef SHARDC_LINT_ANALYSIS_STAGES_H_
#define SHARDC_LINT_ANALYSIS_STAGES_H_

#include <string>

#include "lint/analysis/facts.h"

namespace shardc {

// The axis whose ranks have the stages; empty without stages.
std::string StageAxis(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_STAGES_H_
