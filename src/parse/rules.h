// Reads rules files, together with the files that they extend.
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

// The help text of a finding about a path that leads out of the project's
// repository.
inline constexpr std::string_view kOutsideHelp =
    "paths stay inside the folder that holds `.git`, or without one inside the "
    "project's folder; if you trust the project, pass `--allow-outside`";

// A function that returns the source of a built-in rule pack, or null. `name`
// is as written: `builtin:llama`, `builtin:llama/hf`, or `auto`. A pack may
// have one source for flax names of parameters and one for hf names. If `name`
// does not end in `/flax` or `/hf`, the function usually selects the source
// that fits the names in the manifest.
using PackLookup = std::function<SourceRef(std::string_view name)>;

// Reads each file and then the files that it extends, depth first. A file that
// is reached twice is read once. A file takes precedence over all files that
// are read later: the first value of each setting is used. A file that extends
// itself is a finding (cycle). All files must be inside `boundary`. `texts`, if
// not null, has texts that replace the content of files, such as an editor's
// unsaved buffers. Returns nullopt after an error. `despite_errors`, if not
// null, then receives the parts that could be read, so that their patterns can
// be checked, too.
std::optional<RuleSet> ReadRules(std::span<const std::string> files,
                                 const PackLookup& packs, Findings& findings,
                                 RuleSet* despite_errors = nullptr,
                                 const FileTexts* texts = nullptr,
                                 const Boundary& boundary = {});

// Reads a single spec in the form of a rule's `spec`. The form `{like: ...}` is
// not accepted. Returns nullopt after a finding.
std::optional<SpecSource> ParseSpec(SourceRef source, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_RULES_H_
