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
// `builtin:llama`, `builtin:llama/hf`, or `auto`. Supplied by a caller that
// knows the naming of the manifest.
using PackLookup = std::function<SourceRef(std::string_view name)>;

// Reads each file followed by the files it extends, depth first; a file reached
// twice is read once. Earlier files are nearer: settings are merged key by key
// and the nearest wins. Cycles are findings. Returns nullopt after an error;
// `despite_errors` then receives what could be read, so that its patterns can
// be checked too. A file that others extend must be inside `boundary`.
std::optional<RuleSet> ReadRules(std::span<const std::string> files,
                                 const PackLookup& packs, Findings& findings,
                                 RuleSet* despite_errors = nullptr,
                                 const FileTexts* texts = nullptr,
                                 const Boundary& boundary = {});

// Reads a single spec as it may follow `spec:` (except `like`), for the command
// line of `shardc resolve`.
std::optional<SpecSource> ParseSpec(SourceRef source, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_RULES_H_
