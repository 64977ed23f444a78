#include "cli/committed_plan.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/output.h"
#include "emit/emit.h"
#include "emit/plans/plan_diff.h"
#include "source/input_file.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

SourceRef ReadCommittedFile(const Target& target, const std::string& path,
                            const std::string& what, Findings& findings) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    SourceRef source = ReadSource(path, findings);
    if (source == nullptr || !IsUnfinishedMark(source->text())) return source;
    findings.Add(code::kMissing, {source},
                 "a run was interrupted while it wrote the committed " + what +
                     " and the files that are committed with it",
                 "run `shardc plan --write-locked` again: it completes them");
    return nullptr;
  }
  const std::string chosen =
      target.name.empty() ? "" : " --target " + target.name;
  findings.Add(code::kMissing, target.place,
               "the committed " + what + " `" + path + "` is not there",
               "`shardc plan --write-locked" + chosen + "` writes it");
  return nullptr;
}

}  // namespace

SourceRef ReadCommittedPlan(const Target& target, Findings& findings) {
  return ReadCommittedFile(target, target.plan, "plan", findings);
}

SourceRef ReadCommittedStep(const Target& target, Findings& findings) {
  return ReadCommittedFile(target, target.step, "step program", findings);
}

bool MayReplace(const Target& target, const std::string& path,
                std::string_view schema, Findings& findings) {
  // Only the beginning of the file is searched for the schema's name. 4 KiB are
  // enough even if the file begins with the markers of a merge conflict.
  constexpr int64_t kHead = 4096;
  if (RefuseInput(path, findings)) return false;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return true;
  // `findings` must not record the file as read, because files that were read
  // are never overwritten. The file is therefore opened with another list of
  // findings, which is used only if the file cannot be opened.
  Findings own;
  const auto file = InputFile::Open(path, own);
  if (!file) {
    findings.Append(std::move(own));
    return false;
  }
  std::string head(AsIndex(std::min(file->size(), kHead)), '\0');
  if (!file->ReadAt(0, head.data(), head.size(), findings)) return false;
  const std::string name(schema);
  if (head.empty() || IsUnfinishedMark(head) ||
      head.find(name + "/") != std::string::npos) {
    return true;
  }
  findings.Add(code::kUsage, target.place,
               "`" + path + "` is there and is no `" + name + "`",
               "name another file, or remove that one");
  return false;
}

bool HoldsTheSame(const Write& write, const std::string& path,
                  const Target& target, Findings& findings) {
  const SourceRef held = ReadSource(path, findings);
  if (held == nullptr) return false;
  MatchingSink sink(held->text());
  write(sink);
  if (sink.Matches()) return true;
  findings.Add(
      code::kUsage, target.place,
      "`" + path + "` is shared by several targets, whose contents differ",
      "give each target's `plan` and `step` their own file");
  return false;
}

int PutBesidePlan(const Target& target, const std::string& path,
                  std::string_view schema, const Write& write, FileSet& set,
                  CommittedOutcome& outcome, Findings& findings) {
  const bool good = outcome.written.contains(FileIdOf(path))
                        ? HoldsTheSame(write, path, target, findings)
                        : MayReplace(target, path, schema, findings) &&
                              set.AddWithFolders(path, write, findings);
  return good ? kDone : kFailed;
}

int ShowDifference(const PlanDifference& difference, const std::string& path,
                   const Common& common, std::string& out) {
  if (difference.empty()) {
    PrintMessage(common, path + ": no changes\n");
    return kDone;
  }
  out += Printable(path) + "\n";
  out += TextOf([&](Sink& sink) { WriteDiffText(difference, sink); });
  return kFound;
}

int ShowLines(const std::vector<std::string>& changes, const std::string& path,
              const Common& common, std::string& out) {
  if (changes.empty()) {
    PrintMessage(common, path + ": no changes\n");
    return kDone;
  }
  out += Printable(path) + "\n";
  for (const std::string& change : changes) {
    out += "  " + Printable(change) + "\n";
  }
  return kFound;
}

}  // namespace shardc::cli
