// Converts the results of an audit to findings at lines of Python files. The
// program's text names a Python file by its path on the machine that compiled
// the program. If this machine has no such file, class Repository looks in the
// current Git repository for a file with a similar path.
//
// If there is no such file, or if the file is too short, the finding still
// states the file name and the line number. Its place is then in a text of
// empty lines that stands for the file. For example:
//
//   model.py:31, no such file  ->  line 31 of a text of 31 line breaks
#include "cli/audit_findings.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "audit/table.h"
#include "source/file.h"
#include "source/repository.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

constexpr int64_t kMostLines = 1'000'000;
constexpr int64_t kMostBytes = int64_t{16} << 20;  // larger files are not read

class PythonFiles {
 public:
  // Returns the place of a line in its file. If the line number is less than 1
  // or too large, the place has the file but no position in the file.
  Place PlaceOf(const hlo::SourceLine& line) {
    const std::string name = NameOf(line.file);
    SourceRef source = Read(name);
    const bool known = line.line >= 1 && line.line <= kMostLines;
    const auto number = static_cast<int>(known ? line.line : 1);
    if (source == nullptr || !HasLine(*source, number)) {
      source = MakeSource(name, std::string(static_cast<size_t>(number), '\n'));
    }
    if (!known) return {source};
    const size_t begin = source->LineStart(number);
    const std::string_view text = source->Line(number);
    const size_t blanks = std::min(text.find_first_not_of(" \t"), text.size());
    return {source, begin + blanks, begin + text.size()};
  }

 private:
  // Returns null if the file cannot be read. Only Python files are read,
  // because the program's text is not trusted and could name any file.
  SourceRef Read(const std::string& name) {
    const auto [at, added] = read_.try_emplace(name);
    if (added && name.ends_with(".py")) {
      Findings unread;
      at->second = ReadSource(name, unread, kMostBytes);
    }
    return at->second;
  }

  // Returns the path of the file on this machine. `file` may be a path of the
  // machine that compiled the program. If it does not exist here, returns the
  // file of the current Git repository whose path is the longest ending of
  // `file`, or else `file` itself:
  //
  //   /home/ci/repo/model/mlp.py  ->  model/mlp.py
  std::string NameOf(std::string_view file) {
    const auto [at, added] = names_.try_emplace(std::string(file), file);
    std::error_code error;
    if (added && file.ends_with(".py") &&
        !std::filesystem::exists(at->first, error)) {
      const char* workspace = std::getenv("GITHUB_WORKSPACE");
      if (!repository_) {
        repository_ = Repository::Find(workspace == nullptr ? "" : workspace);
      }
      at->second = repository_->FileLike(at->first).value_or(at->first);
    }
    return at->second;
  }

  static bool HasLine(const Source& source, int number) {
    const std::string_view text = source.text();
    return !text.empty() && number <= source.At(text.size()).line;
  }

  std::map<std::string, SourceRef> read_;
  std::map<std::string, std::string> names_;
  std::optional<Repository> repository_;
};

// Returns the line that calls the function in which a flaw is. A flaw is a
// mistake that the audit found in the program, and `flaw.line` is its line of
// Python code. Returns nullopt if the caller is unknown or in an installed
// package.
std::optional<hlo::SourceLine> CallerOf(const audit::Flaw& flaw,
                                        const hlo::Frames& frames) {
  const auto stack = frames.StackOf(flaw.metadata);
  auto at = std::ranges::find(stack, flaw.line);
  if (flaw.line.file.empty() || at == stack.end()) return std::nullopt;
  const hlo::SourceLine caller = hlo::UserLine({at + 1, stack.end()});
  // UserLine() prefers callers outside of installed packages.
  if (caller.file.empty() || hlo::IsInPackage(caller)) return std::nullopt;
  return caller;
}

// Returns the line of `with_sharding_constraint` in a helper
// (audit/constraint_functions.h), if the flaw is placed at the line that calls
// the helper.
std::optional<hlo::SourceLine> ConstraintOf(const audit::Flaw& flaw,
                                            const hlo::Frames& frames) {
  const auto innermost = hlo::UserLine(frames.StackOf(flaw.metadata));
  if (innermost == flaw.line || innermost.file.empty()) return std::nullopt;
  return innermost;
}

}  // namespace

Findings AuditFindings(const hlo::Program& program, const audit::Report& report,
                       const Selection& selection, const audit::Lock* locked) {
  PythonFiles files;
  Findings out;
  for (const audit::Flaw& flaw : report.flaws) {
    if (!selection.Selects(*flaw.code)) continue;
    if (locked != nullptr && locked->Has(audit::LockedOf(flaw))) {
      continue;
    }
    Finding finding;
    finding.code = flaw.code;
    finding.level = flaw.level;
    finding.level = selection.LevelOf(finding);
    finding.message = flaw.message;
    finding.help = flaw.help;
    finding.place = flaw.line.file.empty() ? program.PlaceOf(flaw.at)
                                           : files.PlaceOf(flaw.line);
    if (!flaw.parameter.empty()) finding.params = {flaw.parameter};
    if (const auto helper = ConstraintOf(flaw, *report.frames)) {
      finding.labels.push_back({files.PlaceOf(*helper), "constrained here"});
    }
    if (const auto caller = CallerOf(flaw, *report.frames)) {
      finding.labels.push_back({files.PlaceOf(*caller), "called from here"});
    }
    out.Add(std::move(finding));
  }
  out.Sort();
  return out;
}

Findings GrowthFindings(const hlo::Program& program,
                        const audit::Report& report,
                        std::span<const audit::Growth> growth,
                        const std::string& committed) {
  PythonFiles files;
  Findings out;
  for (const audit::Growth& one : growth) {
    // Find the collective that caused the growth. It has the kind and the mesh
    // axes of the growth's route, and the tensor, shape and function of its
    // cause. If several collectives have these, take the one that sends the
    // most bytes.
    const audit::Traffic* most = nullptr;
    for (const audit::Traffic& traffic : report.traffic) {
      const bool caused = audit::RouteOf(traffic) == one.route &&
                          audit::MovedText(traffic.moved) == one.cause.what &&
                          traffic.moved.shape == one.cause.shape &&
                          traffic.line.function == one.cause.function;
      if (caused &&
          (most == nullptr || traffic.sent.value() > most->sent.value())) {
        most = &traffic;
      }
    }
    Finding finding;
    finding.code = &code::kTrafficGrew;
    finding.message = one.route.first + " over `" + one.route.second +
                      "` sends " + BytesText(one.after) + " per device, and " +
                      (one.before == 0 ? "nothing" : BytesText(one.before)) +
                      " in the committed summary";
    if (most != nullptr) {
      finding.message += "; most of what is new is " + one.cause.what + " `" +
                         one.cause.shape + "`";
    }
    finding.help =
        "look at what changed the sharding at this line; if it is "
        "intended, `shardc plan --write-locked` writes `" +
        committed + "` again";
    finding.place = most == nullptr || most->line.file.empty()
                        ? program.PlaceOf(program.name)
                        : files.PlaceOf(most->line);
    out.Add(std::move(finding));
  }
  return out;
}

}  // namespace shardc::cli
