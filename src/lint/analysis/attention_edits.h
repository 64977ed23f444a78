// What is wrong with attention's specs, and the lines that say so.
#ifndef SHARDC_LINT_ANALYSIS_ATTENTION_EDITS_H_
#define SHARDC_LINT_ANALYSIS_ATTENTION_EDITS_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "legalize/legalize.h"
#include "lint/analysis/cache.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/topic.h"

namespace shardc {

// Where the axes of a dimension of `tensor` come from: the line of `axes:` or
// of `register:` that gives them, else `otherwise`, as defaults stand nowhere.
Place AttentionPlace(const Facts& facts, Mode mode, std::string_view tensor,
                     size_t dim, Place otherwise);

// Some file gives the rule that a name was resolved by, or one that this takes
// its value from. A default is no statement, nor is the name of one of the
// five parallelism axes: it says what an axis is called.
bool Written(const Facts& facts, const NameTrace& trace);
// ... any rule that says how a dimension of attention is split.
bool Written(const Facts& facts, Mode mode, std::string_view tensor,
             size_t dim);

// "train", "train and decode", "train, prefill and decode"
std::string ModesText(std::span<const Mode> modes);

// Axes that split a dimension of attention's `tensor` in some of the modes.
struct ModeSplit {
  AxisGroup axes;
  int64_t parts = 0;  // at least 2
  Place place;        // of what says so
  std::vector<Mode> modes;
};

// One for each way in which the plan's modes split it; whole modes are left
// out. Places as above.
std::vector<ModeSplit> SplitsOf(const Facts& facts, std::string_view tensor,
                                AttentionDim dim, const Place& otherwise);
// "decode", or "every mode" for all that are planned.
std::string ModesText(const Facts& facts, const ModeSplit& split);

// One finding for each distinct edit of this reason and line: `observe` is
// given "attention's `key` and `value`" and the edit, and the modes are told
// after it. Levels as those of parameters (legality.h).
void ReportAttentionEdits(
    const Facts& facts, const Code& code, Reason reason,
    const std::function<std::string(const std::string&, const Edit&)>& observe,
    const std::string& help, FindingSink& sink);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_ATTENTION_EDITS_H_
