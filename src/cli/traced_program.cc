#include "cli/traced_program.h"

#include <string_view>
#include <utility>
#include <vector>

#include "cli/find_param.h"
#include "cli/output.h"
#include "emit/programs/param_facts.h"
#include "program/read.h"
#include "source/file.h"

namespace shardc::cli {

std::optional<TracedProgram> ReadTraced(const SourceRef& source,
                                        Findings& findings) {
  auto program = program::ReadProgram(source, findings);
  if (!program) return std::nullopt;
  TracedProgram out;
  out.program = std::move(*program);
  out.facts = program::FindFacts(out.program);
  return out;
}

std::optional<TracedProgram> ReadTracedFile(const std::string& path,
                                            Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  return source == nullptr ? std::nullopt : ReadTraced(source, findings);
}

int ExplainTraced(const SourceRef& source, const std::string& name,
                  const Common& common, Findings& findings) {
  const auto traced = ReadTraced(source, findings);
  if (!traced) return kFailed;
  std::vector<std::string_view> names;
  for (const program::ParamFacts& param : traced->facts.params) {
    names.push_back(param.name);
  }
  std::optional<size_t> param;
  if (!name.empty()) {
    const char separator = program::ManifestOf(traced->program).separator;
    param = FindParam(names, separator, name, findings);
    if (!param) return kFailed;
  }
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      return WriteParamFactsJson(traced->program, traced->facts, param, out);
    }
    out.Append(param ? ParamFactsText(traced->program, traced->facts, *param)
                     : AllParamFactsText(traced->facts));
  };
  return PutOut(write, findings) ? kDone : kFailed;
}

}  // namespace shardc::cli
