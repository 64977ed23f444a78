// Finds a parameter's layout (spec, shard shape and bytes) in one mode of a
// plan, such as train or decode.
#ifndef SHARDC_PLAN_MODE_LAYOUT_H_
#define SHARDC_PLAN_MODE_LAYOUT_H_

#include "model/axis_rules.h"
#include "plan/plan.h"

namespace shardc {

// Returns the layout in a mode, or the layout in train if the mode was not
// requested. Do not use the mode's index in Plan::modes instead: the modes of a
// layout begin with train even if train was not requested.
inline const ModeLayout& LayoutIn(const ParamLayout& layout, Mode mode) {
  for (const ModeLayout& one : layout.modes) {
    if (one.mode == mode) return one;
  }
  return layout.modes.front();
}

}  // namespace shardc

#endif  // SHARDC_PLAN_MODE_LAYOUT_H_
