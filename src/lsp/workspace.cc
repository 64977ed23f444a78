// A check covers everything that is open: the project of each document (the
// nearest upwards), and each document that no project reads. The last plan that
// a target compiled to is kept for names and completions while its files have
// errors:
//
//   base.yaml is open and shardc.yaml in its folder reads it  ->  that project
//   notes/rules.yaml, which no target names                   ->  on its own
#include "lsp/workspace.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>

#include "emit/findings/formats.h"
#include "parse/mesh.h"
#include "parse/project.h"
#include "source/file.h"
#include "target/open.h"
#include "target/resolver.h"

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

bool Reads(const CheckedProject& project, const FileId& file) {
  if (FileIdOf(project.path) == file) return true;
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

void Workspace::Check() {
  texts_ = documents_.Texts();
  found_.clear();
  alone_.clear();
  std::map<std::string, FileKind> kinds;
  for (const auto& [uri, document] : documents_.all()) {
    FileKind kind = lsp::KindOf(document.name(), document.text);
    // Half-written rules may look like a mesh file, or like no file of shardc.
    const FileKind before = KindOf(document);
    if (kind == FileKind::kOther || before == FileKind::kRules) kind = before;
    kinds[uri] = kind;
  }
  kinds_ = std::move(kinds);
  CheckProjects();
  for (const auto& [uri, document] : documents_.all()) {
    if (ProjectsOf(document).empty()) CheckAlone(document);
  }
}

void Workspace::CheckProjects() {
  std::set<std::string> wanted;
  for (const auto& [uri, document] : documents_.all()) {
    if (auto project = ProjectOf(document)) wanted.insert(std::move(*project));
  }
  projects_.clear();
  std::erase_if(kept_,
                [&](const auto& one) { return !wanted.contains(one.first); });
  for (const std::string& path : wanted) {
    CheckedProject project = checker_.Check(path, texts_);
    if (!IsOpen(project)) continue;
    for (const Finding& finding : project.findings.all()) Report(finding, path);
    Keep(project);
    projects_.emplace(path, std::move(project));
  }
}

// Whether a document of shardc in this project is open. The targets define the
// kind of documents whose text does not show it.
bool Workspace::IsOpen(const CheckedProject& project) {
  bool open = false;
  for (const auto& [uri, document] : documents_.all()) {
    FileKind& kind = kinds_[uri];
    if (kind != FileKind::kOther) {
      open = open || ProjectOf(document) == project.path;
      continue;
    }
    const FileId file = FileIdOf(document.name());
    for (const CheckedTarget& target : project.targets) {
      if (!target.errors.WasRead(file)) continue;
      const bool mesh = FileIdOf(target.target.mesh.file) == file;
      kind = mesh ? FileKind::kMesh : FileKind::kRules;
      open = true;
    }
  }
  return open;
}

void Workspace::Keep(const CheckedProject& project) {
  auto& kept = kept_[project.path];
  // Without targets, the project itself could not be read.
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
    kept[target.target.name] = {target.compiled, target.errors};
  }
}

void Workspace::CheckAlone(const Document& document) {
  const FileKind kind = kinds_[document.uri];
  if (kind != FileKind::kRules && kind != FileKind::kMesh) return;
  LoneDocument& alone = alone_[document.uri];
  Findings& findings = alone.findings;
  if (kind == FileKind::kMesh) {
    ParseMesh(MakeSource(document.name(), document.text), {}, findings);
  } else {
    Target target;
    target.rules = {document.name()};
    Boundary boundary;
    if (!checker_.AllowsOutside() && !document.path.empty()) {
      boundary = Boundary::Of(document.path);
    }
    alone.rules =
        OpenRules(target.rules, {}, nullptr, {}, findings, &texts_, boundary);
    if (alone.rules) {
      SettleSeparators(*alone.rules, '/',
                       alone.rules->policy.compat.value_or(Compat::kNone),
                       findings);
      CheckPatterns(*alone.rules, findings);
      // Resolve once more, for the findings that only a resolver makes.
      Findings own;
      auto opened = OpenResolver(target, {}, own, &texts_, boundary);
      findings.Append(std::move(own));
      if (opened) alone.resolver = std::move(opened->resolver);
    }
  }
  findings.Sort();
  for (const Finding& finding : findings.all())
    Report(finding, document.name());
}

void Workspace::Report(Finding finding, const std::string& otherwise) {
  // A missing file cannot be shown, but the line that names it can.
  if (IsFile(finding.place) && !finding.place.HasPosition() &&
      !IsThere(finding.place.source->name(), &texts_)) {
    finding.place = finding.anchor;
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
  if (document.path.empty()) return out;
  const FileId file = FileIdOf(document.path);
  for (const auto& [path, project] : projects_) {
    if (Reads(project, file)) out.push_back(&project);
  }
  return out;
}

std::vector<NameScope> Workspace::ScopesOf(const Document& document) const {
  std::vector<NameScope> out;
  const FileId file = FileIdOf(document.name());
  for (const auto& [path, targets] : kept_) {
    const auto project = projects_.find(path);
    const bool own = path == document.path;
    for (const auto& [name, kept] : targets) {
      if (!own && !kept.reads.WasRead(file)) continue;
      NameScope scope;
      scope.target = name;
      scope.compiled = kept.compiled;
      scope.rules = &kept.compiled->rules;
      scope.resolver = &*kept.compiled->resolver;
      scope.current = project != projects_.end() &&
                      std::any_of(project->second.targets.begin(),
                                  project->second.targets.end(),
                                  [&](const CheckedTarget& target) {
                                    return target.compiled == scope.compiled;
                                  });
      out.push_back(std::move(scope));
    }
  }
  if (!out.empty()) return out;
  const auto alone = alone_.find(document.uri);
  if (alone != alone_.end() && alone->second.rules && alone->second.resolver) {
    out.push_back(
        {{}, nullptr, &*alone->second.rules, &*alone->second.resolver, true});
  }
  return out;
}

}  // namespace shardc::lsp
