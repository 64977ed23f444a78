// Decides what is checked when documents change.
//
// A full check runs when a document is opened, closed or saved, or a file
// changes on disk. It covers the project of each open document, and each open
// document that no project reads. A document's project is the nearest project
// file in the document's folder or in a folder above it. For example, a full
// check covers:
//
//   base.yaml, which shardc.yaml in its folder reads  ->  that project
//   notes/rules.yaml, which no target names           ->  this file alone
//
// After an edit, only the projects and documents that read the edited document
// are checked. The last plan to which a target compiled is stored, so that
// names and completions work while the target's files have errors.
#include "lsp/workspace.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>

#include "emit/findings/formats.h"
#include "lsp/recover.h"
#include "parse/mesh.h"
#include "parse/project.h"
#include "source/file.h"
#include "target/choose.h"
#include "target/open.h"

namespace shardc::lsp {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kProjectName = "shardc.yaml";

std::optional<std::string> ProjectOf(const Document& document) {
  if (document.path.empty()) return std::nullopt;
  const fs::path path(document.path);
  if (path.filename() == kProjectName) return document.path;
  return FindProject(path.parent_path().string());
}

bool Same(const Finding& a, const Finding& b) {
  return a.code == b.code && a.place.begin == b.place.begin &&
         a.message == b.message && a.targets == b.targets;
}

// Returns whether a project reads a file. `own` is the id of the project file.
bool Reads(const CheckedProject& project, const FileId& own,
           const FileId& file) {
  if (own == file) return true;
  return std::any_of(
      project.targets.begin(), project.targets.end(),
      [&](const CheckedTarget& target) { return target.errors.WasRead(file); });
}

}  // namespace

FileKind Workspace::KindOf(const Document& document) const {
  const auto at = kinds_.find(document.uri);
  return at == kinds_.end() ? lsp::KindOf(document.name(), document.text)
                            : at->second;
}

// Returns the kind of a changed document. A rules file remains a rules file,
// because an incomplete rule may look like a mesh file or like no file of
// shardc.
FileKind Workspace::NewKindOf(const Document& document) const {
  const FileKind kind = lsp::KindOf(document.name(), document.text);
  const FileKind before = KindOf(document);
  return kind == FileKind::kOther || before == FileKind::kRules ? before : kind;
}

void Workspace::Check() {
  documents_.RefreshFiles();
  texts_ = documents_.Texts();
  alone_.clear();
  projects_.clear();
  nearest_.clear();
  readers_.clear();
  std::map<std::string, FileKind> kinds;
  std::set<std::string> wanted;
  for (const auto& [uri, document] : documents_.all()) {
    kinds[uri] = NewKindOf(document);
    const auto& project = nearest_[uri] = ProjectOf(document);
    if (project) wanted.insert(*project);
  }
  kinds_ = std::move(kinds);
  std::erase_if(kept_,
                [&](const auto& one) { return !wanted.contains(one.first); });
  for (const std::string& path : wanted) CheckProject(path);
  CheckThoseAlone({});
  ReportAll();
}

void Workspace::CheckChanges(const std::set<std::string>& uris) {
  std::set<FileId> changed;
  std::set<std::string> wanted;
  for (const std::string& uri : uris) {
    Document* const document = documents_.Find(uri);
    // Check everything if a document has no result, if its file was replaced on
    // disk, or if it is open twice.
    if (document == nullptr || !nearest_.contains(uri) ||
        FileIdOf(document->name()) != document->file ||
        documents_.CountOf(document->file) > 1) {
      return Check();
    }
    texts_[document->file] = document->text;
    changed.insert(document->file);
    kinds_[uri] = NewKindOf(*document);
    if (nearest_[uri]) wanted.insert(*nearest_[uri]);
    wanted.insert(readers_[uri].begin(), readers_[uri].end());
  }
  for (const std::string& path : wanted) CheckProject(path);
  CheckThoseAlone(changed);
  ReportAll();
}

// Checks the project and records which documents it reads. If the project reads
// no open document, the editor shows none of its findings, so the result is
// dropped.
void Workspace::CheckProject(const std::string& path) {
  ++checks_;
  projects_.erase(path);
  for (auto& [uri, readers] : readers_) readers.erase(path);
  CheckedProject project = checker_.Check(path, texts_);
  if (!IsOpen(project)) return;
  Keep(project);
  const FileId own = FileIdOf(path);
  for (const auto& [uri, document] : documents_.all()) {
    if (!document.path.empty() && Reads(project, own, document.file)) {
      readers_[uri].insert(path);
    }
  }
  projects_.emplace(path, std::move(project));
}

// Checks the documents that no project reads. A document is checked if it has
// no result yet, or if it read one of the `changed` files.
void Workspace::CheckThoseAlone(const std::set<FileId>& changed) {
  for (const auto& [uri, document] : documents_.all()) {
    const auto known = alone_.find(uri);
    const auto readers = readers_.find(uri);
    if (readers != readers_.end() && !readers->second.empty()) {
      if (known != alone_.end()) alone_.erase(known);
      continue;
    }
    const bool valid =
        known != alone_.end() && !changed.contains(document.file) &&
        std::none_of(changed.begin(), changed.end(), [&](const FileId& file) {
          return known->second.findings.WasRead(file);
        });
    if (!valid) CheckAlone(document);
  }
}

// Collects the findings of all results and groups them by file.
void Workspace::ReportAll() {
  found_.clear();
  for (const auto& [path, project] : projects_) {
    for (const Finding& finding : project.findings.all()) Report(finding, path);
  }
  for (const auto& [uri, alone] : alone_) {
    const Document* const document = documents_.Find(uri);
    if (document == nullptr) continue;
    const std::string& name = document->name();
    for (const Finding& finding : alone.findings.all()) Report(finding, name);
  }
}

// Returns whether the project reads an open document. The text of a document
// may not show its kind. If a target of the project reads such a document, its
// kind is set to mesh or rules by how the target uses it.
bool Workspace::IsOpen(const CheckedProject& project) {
  bool open = false;
  for (const auto& [uri, document] : documents_.all()) {
    FileKind& kind = kinds_[uri];
    if (kind != FileKind::kOther) {
      open = open || nearest_[uri] == project.path;
      continue;
    }
    for (const CheckedTarget& target : project.targets) {
      if (!target.errors.WasRead(document.file)) continue;
      const bool mesh = FileIdOf(target.target.mesh.file) == document.file;
      kind = mesh ? FileKind::kMesh : FileKind::kRules;
      open = true;
    }
  }
  return open;
}

void Workspace::Keep(const CheckedProject& project) {
  auto& kept = kept_[project.path];
  // Delete the stored plans of targets that the project no longer has. If a
  // project has no targets, it could not be read, so all its plans are kept.
  if (!project.targets.empty()) {
    std::erase_if(kept, [&](const auto& one) {
      return std::none_of(project.targets.begin(), project.targets.end(),
                          [&](const CheckedTarget& target) {
                            return target.target.name == one.first;
                          });
    });
  }
  for (const CheckedTarget& target : project.targets) {
    if (target.compiled == nullptr) continue;
    kept[target.target.name] = {target.compiled, target.errors, target.target};
  }
}

void Workspace::ReadRulesAlone(const Document& document, const FileTexts& texts,
                               LoneDocument& alone) {
  Findings& findings = alone.findings;
  Target target;
  target.rules = {document.name()};
  Boundary boundary;
  if (!checker_.AllowsOutside() && !document.path.empty()) {
    boundary = Boundary::Of(document.path);
  }
  alone.rules =
      OpenRules(target.rules, {}, nullptr, {}, findings, &texts, boundary);
  if (!alone.rules) return;
  SettleSeparators(*alone.rules, '/',
                   alone.rules->policy.compat.value_or(Compat::kNone),
                   findings);
  CheckPatterns(*alone.rules, findings);
  // Making the resolver also finds errors that reading the rules does not find,
  // such as definitions that refer to each other in a cycle.
  Findings own;
  auto opened = OpenResolver(target, {}, own, &texts, boundary);
  findings.Append(std::move(own));
  if (opened) alone.resolver = std::move(opened->resolver);
}

void Workspace::CheckAlone(const Document& document) {
  LoneDocument& alone = alone_[document.uri];
  alone = {};
  const FileKind kind = kinds_[document.uri];
  if (kind != FileKind::kRules && kind != FileKind::kMesh) return;
  ++checks_;
  Findings& findings = alone.findings;
  if (kind == FileKind::kMesh) {
    ParseMesh(MakeSource(document.name(), document.text), {}, findings);
  } else {
    Recovery recovery(texts_);
    for (int reading = 1;; ++reading) {
      alone = {};
      ReadRulesAlone(document, recovery.texts(), alone);
      if (reading == Recovery::kReadings ||
          !recovery.LeaveOut(alone.findings, {})) {
        break;
      }
    }
    if (recovery.any()) recovery.Finish(alone.findings);
  }
  findings.Sort();
}

void Workspace::Report(Finding finding, const std::string& otherwise) {
  // A missing file cannot be opened in the editor, so the finding is placed at
  // the line that names the file.
  if (IsFile(finding.place) && !finding.place.HasPosition() &&
      !IsThere(finding.place.source->name(), &texts_)) {
    finding.place = finding.main_file;
  }
  const Place& place = FilePlace(finding);
  const bool file = place.source != nullptr && IsFile(place);
  std::string name = file ? place.source->name() : otherwise;
  if (const Document* document = documents_.Showing(name)) {
    name = document->name();
  }
  auto& all = found_[name];
  if (std::any_of(all.begin(), all.end(),
                  [&](const Finding& other) { return Same(finding, other); })) {
    return;
  }
  all.push_back(std::move(finding));
}

std::vector<const CheckedProject*> Workspace::ProjectsOf(
    const Document& document) const {
  std::vector<const CheckedProject*> out;
  const auto readers = readers_.find(document.uri);
  if (readers == readers_.end()) return out;
  for (const std::string& path : readers->second) {
    out.push_back(&projects_.at(path));
  }
  return out;
}

std::vector<NameScope> Workspace::ScopesReading(
    const std::set<FileId>& files) const {
  std::vector<NameScope> out;
  const auto reads = [&](const LastPlan& plan) {
    return std::any_of(files.begin(), files.end(), [&](const FileId& file) {
      return plan.reads.WasRead(file);
    });
  };
  for (const auto& [path, targets] : kept_) {
    const auto project = projects_.find(path);
    const bool own = files.contains(FileIdOf(path));
    for (const auto& [name, kept] : targets) {
      if (!own && !reads(kept)) continue;
      NameScope scope;
      scope.target = name;
      scope.compiled = kept.compiled;
      scope.rules = &kept.compiled->rules;
      scope.resolver = &*kept.compiled->resolver;
      scope.project = path;
      scope.of = &kept.target;
      scope.current = project != projects_.end() &&
                      std::any_of(project->second.targets.begin(),
                                  project->second.targets.end(),
                                  [&](const CheckedTarget& target) {
                                    return target.compiled == scope.compiled;
                                  });
      out.push_back(std::move(scope));
    }
  }
  return out;
}

std::vector<NameScope> Workspace::ScopesOf(const Document& document) const {
  std::vector<NameScope> out = ScopesReading({FileIdOf(document.name())});
  if (!out.empty()) return out;
  const auto alone = alone_.find(document.uri);
  if (alone != alone_.end() && alone->second.rules && alone->second.resolver) {
    NameScope scope;
    scope.rules = &*alone->second.rules;
    scope.resolver = &*alone->second.resolver;
    scope.current = true;
    out.push_back(std::move(scope));
  }
  return out;
}

}  // namespace shardc::lsp
