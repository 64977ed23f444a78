// Illegal specs of attention tensors, and the lines that cause them.
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

// Returns the place that gives a dimension of `tensor` its axes: the line in
// `axes:` or `register:`, or `otherwise` if the axes are defaults.
Place AttentionPlace(const Facts& facts, Mode mode, std::string_view tensor,
                     size_t dim, Place otherwise);

// Whether some file writes the axis rule that a name was resolved by, or the
// rule that this one takes its value from. A default does not count, nor does
// the name of one of the five parallelism axes, which only renames an axis.
bool Written(const Facts& facts, const NameTrace& trace);
// Returns whether a file writes one of the axis rules that give dimension `dim`
// of an attention tensor its axes.
bool Written(const Facts& facts, Mode mode, std::string_view tensor,
             size_t dim);

// "train", "train and decode", "train, prefill and decode"
std::string ModesText(std::span<const Mode> modes);

// Axes that split a dimension of attention's `tensor` in some of the modes.
struct ModeSplit {
  AxisGroup axes;
  int64_t parts = 0;  // at least 2
  Place place;        // of the axis rule
  std::vector<Mode> modes;
};

// Returns one split for each set of axes that shards the dimension in some
// modes; modes in which it is unsharded are left out. Places are those of
// AttentionPlace.
std::vector<ModeSplit> SplitsOf(const Facts& facts, std::string_view tensor,
                                AttentionDim dim, const Place& otherwise);
// "decode", or "every mode" for all that are planned.
std::string ModesText(const Facts& facts, const ModeSplit& split);

// Reports one finding for each distinct edit with this reason and line.
// `observe` returns the message for "attention's `key` and `value`" and the
// edit; the modes are appended to it. Levels are those of ReportEdits
// (legality.h).
void ReportAttentionEdits(
    const Facts& facts, const Code& code, Reason reason,
    const std::function<std::string(const std::string&, const Edit&)>& observe,
    const std::string& help, FindingSink& sink);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_ATTENTION_EDITS_H_
