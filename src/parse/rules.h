// Reads rules files with the files they extend.
#ifndef SHARDC_PARSE_RULES_H_
#define SHARDC_PARSE_RULES_H_

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/rules.h"
#include "source/boundary.h"
#include "source/file_texts.h"
#include "source/finding.h"

namespace shardc {

// The help text for a path of a project that leads out of its repository.
inline constexpr std::string_view kOutsideHelp =
    "paths stay inside the folder that holds `.git`, or without one inside the "
    "project's folder; if you trust the project, pass `--allow-outside`";

// Returns the source of a built-in pack, or null. `name` is as written:
// `builtin:llama`, `builtin:llama/hf`, or `auto`. For a name without a naming
// (flax or hf), the function chooses the naming, usually by the manifest's
// names.
using PackLookup = std::function<SourceRef(std::string_view name)>;

// Reads each file and then the files that it extends, depth first; a file that
// is reached twice is read once. Files that are read earlier are nearer, and
// each setting gets its value in the nearest file. Cycles are findings. All
// files must be inside `boundary`. `texts`, unless null, replaces the contents
// of files. Returns nullopt after an error. `despite_errors`, unless null, then
// receives the parts that could be read, so that their patterns can be checked
// too.
std::optional<RuleSet> ReadRules(std::span<const std::string> files,
                                 const PackLookup& packs, Findings& findings,
                                 RuleSet* despite_errors = nullptr,
                                 const FileTexts* texts = nullptr,
                                 const Boundary& boundary = {});

// Reads a single spec in the form of a rule's `spec`, except `like`. Returns
// nullopt after a finding.
std::optional<SpecSource> ParseSpec(SourceRef source, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_RULES_H_
