// Reports illegal specs of attention tensors at the lines that cause them.
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

// Returns the place that determines the axes of a dimension of `tensor`. This
// is the line in `axes:` or `register:`, or `otherwise` if the axes come from
// defaults.
Place AttentionPlace(const Facts& facts, Mode mode, std::string_view tensor,
                     size_t dim, Place otherwise);

// Returns whether a file determines how a name is resolved. It does if it
// registers the name, sets the axis rule of the name, or sets a rule from which
// that axis rule derives its value. Defaults are ignored. The five rules that
// only rename a parallelism axis are ignored as well.
bool Written(const Facts& facts, const NameTrace& trace);
// Returns whether a file sets one of the axis rules that determine the axes
// of dimension `dim` of an attention tensor.
bool Written(const Facts& facts, Mode mode, std::string_view tensor,
             size_t dim);

// Returns for example "train", "train and decode" or "train, prefill and
// decode".
std::string ModesText(std::span<const Mode> modes);

// The axes that shard a dimension of one of attention's tensors in some modes.
struct ModeSplit {
  AxisGroup axes;
  int64_t parts = 0;  // at least 2
  Place place;        // place of the axis rule
  std::vector<Mode> modes;
};

// Returns how the dimension is sharded in the planned modes: one split for each
// set of axes and each place (AttentionPlace) that determines the axes. Modes
// in which the dimension is unsharded are omitted.
std::vector<ModeSplit> SplitsOf(const Facts& facts, std::string_view tensor,
                                AttentionDim dim, const Place& otherwise);
// Returns the modes of a split as text, such as "decode". Returns "every mode"
// if the plan has several modes and the split has all of them.
std::string ModesText(const Facts& facts, const ModeSplit& split);

// Returns what a user must change to shard a dimension in another way, for the
// end of a message. This is the axis rule that a file sets and by which the
// dimension's names are resolved in the split's modes, such as
// "`decode_kv_head`". It is `standard` if all of these rules are defaults, and
// "this registration" if a file registers a name of the dimension.
std::string SourceOf(const Facts& facts, const ModeSplit& split,
                     std::string_view tensor, AttentionDim dim,
                     AxisRule standard);

// Reports one finding for each distinct edit with this reason. The finding is
// at the line that causes the edit, or at the mesh if the cause is a default
// axis rule. `observe` returns the message for a subject, such as "attention's
// `key` and `value`", and the edit. The modes are appended to the message. A
// finding about an illegal spec has the code's level. A finding about a
// corrected spec is a warning.
void ReportAttentionEdits(
    const Facts& facts, const Code& code, Reason reason,
    const std::function<std::string(const std::string&, const Edit&)>& observe,
    const std::string& help, FindingSink& sink);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_ATTENTION_EDITS_H_
