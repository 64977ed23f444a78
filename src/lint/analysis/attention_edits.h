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

// Returns the place that determines the axes of a dimension of `tensor`: the
// line in `axes:` or `register:`, or `otherwise` if the axes are defaults.
Place AttentionPlace(const Facts& facts, Mode mode, std::string_view tensor,
                     size_t dim, Place otherwise);

// Returns whether a file registers a name, sets the axis rule by which the name
// was resolved, or sets the rule from which that axis rule derives its value.
// Defaults do not count, and the five rules that only rename a parallelism axis
// do not count either.
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
  Place place;        // of the axis rule
  std::vector<Mode> modes;
};

// Returns one split for each set of axes that shards the dimension in some
// modes, and for each place (AttentionPlace) that determines these axes. Modes
// in which the dimension is unsharded are left out.
std::vector<ModeSplit> SplitsOf(const Facts& facts, std::string_view tensor,
                                AttentionDim dim, const Place& otherwise);
// Returns the modes of a split: "decode", or "every mode" if the plan has
// several modes and the split has all of them.
std::string ModesText(const Facts& facts, const ModeSplit& split);

// Returns what to change to split a dimension in another way, in quotes: the
// axis rule that a file sets and by which the dimension's names are resolved in
// the split's modes, such as "`decode_kv_head`", or `standard` if all of these
// rules are defaults. Returns "this registration" for names that a file
// registers, whose place is the split's.
std::string SourceOf(const Facts& facts, const ModeSplit& split,
                     std::string_view tensor, AttentionDim dim,
                     AxisRule standard);

// Reports one finding for each distinct edit that has this reason, at the line
// that causes it, or at the mesh if axis rules that no file states cause it.
// `observe` makes the message from its subject, such as "attention's `key` and
// `value`", and from the edit. The modes are appended to the message. An
// illegal spec has the code's level; a corrected one is a warning.
void ReportAttentionEdits(
    const Facts& facts, const Code& code, Reason reason,
    const std::function<std::string(const std::string&, const Edit&)>& observe,
    const std::string& help, FindingSink& sink);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_ATTENTION_EDITS_H_
