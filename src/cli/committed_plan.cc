#include "cli/committed_plan.h"

#include <filesystem>

#include "source/file.h"

namespace shardc::cli {

SourceRef ReadCommittedPlan(const Target& target, Findings& findings) {
  std::error_code error;
  if (std::filesystem::exists(target.plan, error)) {
    return ReadSource(target.plan, findings);
  }
  const std::string chosen =
      target.name.empty() ? "" : " --target " + target.name;
  findings.Add(code::kMissing, target.place,
               "the committed plan `" + target.plan + "` is not there",
               "`shardc plan --write-locked" + chosen + "` writes it");
  return nullptr;
}

}  // namespace shardc::cli
