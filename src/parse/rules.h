// Rules files, with what they extend.
#ifndef SHARDC_PARSE_RULES_H_
#define SHARDC_PARSE_RULES_H_

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/rules.h"
#include "source/file_texts.h"
#include "source/finding.h"

namespace shardc {

// Gives the source of a pack, or null. `name` is the whole word as written:
// `builtin:llama`, `builtin:llama/hf`, or `auto`. Set by whoever knows which
// naming the manifest has.
using PackLookup = std::function<SourceRef(std::string_view name)>;

// Reads each file followed by what it extends, depth first; a file reached
// twice counts once; earlier is nearer. Settings merge key by key, the
// nearest wins. Circles are findings. With errors nothing is returned, and
// `despite_errors` receives what could be read, for checks of its patterns.
std::optional<RuleSet> ReadRules(std::span<const std::string> files,
                                 const PackLookup& packs, Findings& findings,
                                 RuleSet* despite_errors = nullptr,
                                 const FileTexts* texts = nullptr);

// One spec by itself, as it would stand behind `spec:` (no `like`): what
// `shardc resolve` takes on its command line.
std::optional<SpecSource> ParseSpec(SourceRef source, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_RULES_H_
