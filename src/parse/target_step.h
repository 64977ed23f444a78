// The committed step program of a target. Few ask for it, so it is read from
// the target's lines where it is wanted.
#ifndef SHARDC_PARSE_TARGET_STEP_H_
#define SHARDC_PARSE_TARGET_STEP_H_

#include <string>

#include "model/project.h"

namespace shardc {

// Its path, relative to the working directory; empty where the target has none.
std::string StepPathOf(const Target& target);

}  // namespace shardc

#endif  // SHARDC_PARSE_TARGET_STEP_H_
