// Turns the problems that legalization found in specs into findings. Several
// lints share this code, each for one kind of problem.
#ifndef SHARDC_LINT_ANALYSIS_LEGALITY_H_
#define SHARDC_LINT_ANALYSIS_LEGALITY_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "legalize/legalize.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/memory.h"
#include "lint/analysis/topic.h"

namespace shardc {

// Reports the problems with this reason that legalization found in specs, one
// finding for each group and each distinct problem. `observe` returns the
// message. Its arguments are the group, its layout in the mode with the
// problem, and the problem. The entries of a spec beyond the rank are one
// problem, of which `observe` gets the first entry. If the spec is illegal, the
// finding has the level of `code`. If the policy of the rules file corrected
// the spec, the finding is at most a warning, and its message states the cost
// of the correction.
void ReportEdits(
    const Facts& facts, const Code& code, Reason reason,
    const std::function<std::string(const ParameterGroup&, const ModeLayout&,
                                    const Edit&)>& observe,
    const std::string& help, FindingSink& sink);

// Returns the line that determines the axes of dimension `dim` of `tensor`: a
// line in `axes:` or `register:`. Returns `otherwise` if no file sets them, so
// that the axes come from defaults.
Place AttentionPlace(const Facts& facts, Mode mode, std::string_view tensor,
                     size_t dim, Place otherwise);

// Returns whether a file determines the mesh axes of a name: it defines the
// name in `register:`, sets the name's axis rule (such as `head` for HEAD), or
// sets a rule from which this axis rule takes its default. The five rules that
// name the axes of a kind of parallelism, such as `tensor_parallel: tp`, are
// ignored.
bool Written(const Facts& facts, const NameTrace& trace);
// Returns whether a file, and not only a default, determines the mesh axes of
// one of the names in dimension `dim` of an attention tensor.
bool Written(const Facts& facts, Mode mode, std::string_view tensor,
             size_t dim);

// Returns for example "train", "train and decode" or "train, prefill and
// decode".
std::string ModesText(std::span<const Mode> modes);

// The axes that shard a dimension of one of attention's tensors in some modes.
struct ModeSplit {
  AxisGroup axes;
  int64_t parts = 0;  // number of shards, at least 2
  Place place;        // line that determines the axes (AttentionPlace)
  std::vector<Mode> modes;
};

// Returns how the dimension is sharded in the planned modes: one split for each
// set of axes and each place (AttentionPlace) that determines the axes. Modes
// in which the dimension is unsharded are omitted.
std::vector<ModeSplit> SplitsOf(const Facts& facts, std::string_view tensor,
                                AttentionDim dim, const Place& otherwise);
// Returns the modes of a split as text, such as "decode". Returns "every mode"
// if the split has all modes of a plan with several modes.
std::string ModesText(const Facts& facts, const ModeSplit& split);

// Returns what a user must change to shard a dimension in another way, as a
// phrase for a message. If a file defines a name of the dimension in
// `register:`, returns "this registration". If a file sets the axis rule of
// such a name, returns that rule, such as "`decode_kv_head`". If no file sets
// it, returns the name of the axis rule that the caller passes as `standard`.
std::string SourceOf(const Facts& facts, const ModeSplit& split,
                     std::string_view tensor, AttentionDim dim,
                     AxisRule standard);

// Reports the problems with this reason that legalization found in the specs of
// attention tensors. Equal problems are one finding. It is at the line that
// causes the problem, or at the mesh if the cause is a default axis rule.
// `observe` returns the message. Its arguments are the names of the tensors as
// text, such as "attention's `key` and `value`", and the problem. The modes are
// appended to the message. If the spec is illegal, the finding has the level of
// `code`. If the policy of the rules file corrected the spec, the finding is a
// warning.
void ReportAttentionEdits(
    const Facts& facts, const Code& code, Reason reason,
    const std::function<std::string(const std::string&, const Edit&)>& observe,
    const std::string& help, FindingSink& sink);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_LEGALITY_H_
