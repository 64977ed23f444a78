#include "cli/committed_plan.h"

#include <filesystem>
#include <string>

#include "source/file.h"

namespace shardc::cli {
namespace {

SourceRef Read(const Target& target, const std::string& path,
               const std::string& what, Findings& findings) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return ReadSource(path, findings);
  const std::string chosen =
      target.name.empty() ? "" : " --target " + target.name;
  findings.Add(code::kMissing, target.place,
               "the committed " + what + " `" + path + "` is not there",
               "`shardc plan --write-locked" + chosen + "` writes it");
  return nullptr;
}

}  // namespace

SourceRef ReadCommittedPlan(const Target& target, Findings& findings) {
  return Read(target, target.plan, "plan", findings);
}

SourceRef ReadCommittedStep(const Target& target, Findings& findings) {
  return Read(target, target.step, "step program", findings);
}

}  // namespace shardc::cli
