#include <utility>

#include "parse/rules.h"
#include "parse/spec_read.h"
#include "yaml/read.h"

namespace shardc {

std::optional<SpecSource> ParseSpec(SourceRef source, Findings& findings) {
  const size_t before = findings.errors();
  const auto document = YamlDocument::Parse(std::move(source), findings);
  if (!document) return std::nullopt;
  const YamlContext context{*document, findings};
  auto spec = ReadSpecSource(context, document->root(), false);
  if (findings.errors() > before) return std::nullopt;
  return spec;
}

}  // namespace shardc
