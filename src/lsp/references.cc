// Finds all uses of a name in all files in which the name has the same meaning.
// If several targets read the same rules, mesh or settings file, a name in that
// file must mean the same in all these targets. The search therefore starts
// from the targets that read the document. It then adds the targets that share
// such a file with a target already found, until no target is added:
//
//   rename `tp` in mesh.yaml, which targets a and b read
//     ->  edits of mesh.yaml and of the rules files of a and b
//
// Sharing only the project file does not add a target, because each target of a
// project may have its own mesh.
#include "lsp/references.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "lsp/names.h"
#include "model/pack_name.h"
#include "parse/spec_read.h"
#include "source/file.h"
#include "yaml/core.h"
#include "yaml/read.h"

namespace shardc::lsp {
namespace {

struct NamedFile {
  std::string path;
  FileKind kind = FileKind::kOther;
  // In a project file, only the sections of these targets are searched. If
  // empty, all sections are searched.
  std::set<std::string> targets;
};

struct FileNames {
  SourceRef source;
  std::vector<NameUse> uses;
};

class NameSearch {
 public:
  NameSearch(const Workspace& workspace, const Document& document,
             size_t offset)
      : workspace_(workspace), document_(document) {
    AddFile({document.name(), workspace.KindOf(document), {}});
    scopes_ = workspace.ScopesOf(document);
    if (workspace.KindOf(document) == FileKind::kProject) {
      const auto tree = TreeOf(MakeSource(document.name(), document.text));
      const std::string target = tree ? TargetNameAt(*tree, offset) : "";
      std::erase_if(scopes_, [&](const NameScope& scope) {
        return scope.target != target;
      });
    }
    AddFilesOfScopes();
    // Add the targets that read one of the files found so far, and the files of
    // these targets. Repeat this until no file is added.
    for (size_t before = 0; before < files_.size();) {
      before = files_.size();
      std::set<FileId> shared;
      for (const auto& [id, file] : files_) {
        if (file.kind != FileKind::kProject) shared.insert(id);
      }
      auto more = workspace.ScopesReading(shared);
      if (!more.empty()) scopes_ = std::move(more);
      AddFilesOfScopes();
    }
    registered_ = RegisteredIn(scopes_);
    ReadFiles();
    for (const NameUse& use : names_.front().uses) {
      if (use.kind != NameKind::kPattern && use.begin <= offset &&
          offset <= use.end) {
        wanted_ = use;
      }
    }
  }

  const std::optional<NameUse>& wanted() const { return wanted_; }
  // Returns the names in each file. The first entry has the names in the
  // document for which the search was started.
  const std::vector<FileNames>& names() const { return names_; }
  const std::vector<FileNames>& packs() const { return packs_; }
  const std::vector<NameScope>& scopes() const { return scopes_; }
  // Returns the name of a file that could not be read as YAML; empty if there
  // is none.
  const std::string& unread() const { return unread_; }

  // Returns whether the name already has a meaning, in shardc itself or in one
  // of the files read. Such a name cannot be the new name in a renaming.
  bool IsKnown(const std::string& name) const {
    if (FindToken(name) != nullptr || ParseAxisRule(name) ||
        registered_.contains(CanonicalToken(name))) {
      return true;
    }
    for (const NameScope& scope : scopes_) {
      if (scope.resolver->FindBundle(name) != nullptr ||
          scope.resolver->mesh().Find(name)) {
        return true;
      }
    }
    return std::any_of(names_.begin(), names_.end(), [&](const auto& file) {
      return std::any_of(
          file.uses.begin(), file.uses.end(), [&](const NameUse& use) {
            return use.kind != NameKind::kPattern && use.name == name;
          });
    });
  }

 private:
  void AddFile(NamedFile file) {
    if (file.path.empty()) return;
    const FileId id =
        IsPackName(file.path) ? FileId(file.path) : FileIdOf(file.path);
    const auto [at, fresh] = files_.try_emplace(id, file);
    if (!fresh) {
      at->second.targets.insert(file.targets.begin(), file.targets.end());
    }
  }

  void AddFilesOfScopes() {
    for (const NameScope& scope : scopes_) {
      for (const SourceRef& source : scope.rules->sources) {
        AddFile({source->name(), FileKind::kRules, {}});
      }
      if (scope.of == nullptr) continue;
      AddFile({scope.of->mesh.file, FileKind::kMesh, {}});
      AddFile({scope.of->verify.settings, FileKind::kOther, {}});
      AddFile({scope.project, FileKind::kProject, {scope.target}});
    }
  }

  SourceRef PackOf(const std::string& name) const {
    for (const NameScope& scope : scopes_) {
      for (const SourceRef& source : scope.rules->sources) {
        if (source->name() == name) return source;
      }
    }
    return nullptr;
  }

  void ReadFiles() {
    const FileId own = FileIdOf(document_.name());
    names_.emplace_back();
    for (const auto& [id, file] : files_) {
      Findings ignored;
      const SourceRef source =
          id == own ? MakeSource(document_.name(), document_.text)
          : IsPackName(file.path)
              ? PackOf(file.path)
              : ReadSource(file.path, &workspace_.texts(), ignored);
      if (source == nullptr) continue;
      const auto tree = YamlDocument::Parse(source, ignored);
      if (!tree) unread_ = source->name();
      const auto lenient = tree ? std::nullopt : TreeOf(source);
      if (!tree && !lenient) continue;
      FileNames names{source,
                      NamesIn(tree ? *tree : *lenient, file.kind, registered_,
                              file.targets.empty() ? nullptr : &file.targets)};
      if (id == own) {
        names_.front() = std::move(names);
      } else if (IsPackName(file.path)) {
        packs_.push_back(std::move(names));
      } else {
        names_.push_back(std::move(names));
      }
    }
  }

  const Workspace& workspace_;
  const Document& document_;
  std::map<FileId, NamedFile> files_;
  std::vector<NameScope> scopes_;
  RegisteredNames registered_;
  std::vector<FileNames> names_, packs_;
  std::string unread_;
  std::optional<NameUse> wanted_;
};

// Returns the axis rules with the mesh axis `from` replaced by `to`. Rules that
// the user has not set keep their default value.
AxisRules Renamed(const AxisRules& axes, const std::string& from,
                  const std::string& to) {
  AxisRules out = axes;
  for (auto& given : out.given) {
    if (given) std::replace(given->axes.begin(), given->axes.end(), from, to);
  }
  return out;
}

// Returns an axis rule that would still name the mesh axis `from` after a
// renaming, because the axis is in the rule's default value. Returns nullopt if
// there is no such rule. The axis need not be in the mesh.
std::optional<AxisRule> RuleByDefault(const AxisRules& axes,
                                      const std::string& from) {
  const std::string to = from + "-renamed";
  const AxisRules after = Renamed(axes, from, to);
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const auto rule = static_cast<AxisRule>(i);
    const auto value = after.Value(rule).axes;
    if (std::find(value.begin(), value.end(), from) != value.end()) {
      return rule;
    }
  }
  return std::nullopt;
}

std::string Code(std::string_view text) {
  return "`" + std::string(text) + "`";
}

// Returns the reason why the name at the cursor cannot be renamed; empty if it
// can.
std::string Refusal(const NameSearch& search) {
  const NameUse& name = *search.wanted();
  if (name.kind == NameKind::kLogicalAxis || name.kind == NameKind::kAxisRule) {
    return Code(name.name) + " is a name of shardc and cannot be renamed";
  }
  if (!search.unread().empty()) {
    return Code(search.unread()) +
           " is not valid YAML: correct it first, so that no use of " +
           Code(name.name) + " is missed";
  }
  bool defined = false;
  const auto used = [&](const FileNames& file) {
    return std::any_of(file.uses.begin(), file.uses.end(),
                       [&](const NameUse& use) { return use.Refers(name); });
  };
  for (const FileNames& file : search.packs()) {
    if (used(file)) {
      return "the pack " + Code(file.source->name()) + " uses " +
             Code(name.name) + ", and packs cannot be changed";
    }
  }
  for (const FileNames& file : search.names()) {
    for (const NameUse& use : file.uses) {
      defined = defined || (use.definition && use.Refers(name));
    }
  }
  if (!defined) return "no file defines " + Code(name.name);
  if (name.kind != NameKind::kMeshAxis) return {};
  for (const NameScope& scope : search.scopes()) {
    const auto rule = RuleByDefault(scope.rules->axes, name.name);
    if (!rule) continue;
    return "the axis rule " + Code(AxisRuleName(*rule)) + " is " +
           Code(name.name) + " by default: write `axes: {" +
           std::string(AxisRuleName(*rule)) + ": " + name.name +
           "}` in a rules file first";
  }
  return {};
}

// Returns the reason why a text cannot be the new name; empty if it can.
std::string Fault(const NameSearch& search, const std::string& to) {
  std::string fault = AxisNameFault(to);
  if (!fault.empty()) return "the new name " + Code(to) + " " + fault;
  YamlNode node;
  node.kind = YamlKind::kScalar;
  node.text = to;
  if (CoreTypeOf(node) != CoreType::kString || to == "null" || to == "None") {
    return "the new name " + Code(to) + " has a meaning in YAML";
  }
  if (search.IsKnown(to)) return Code(to) + " already has a meaning";
  if (search.wanted()->kind != NameKind::kMeshAxis) return {};
  // An axis rule may have the new name as its default value. Before the
  // renaming, the mesh has no axis of this name, so specs leave it out. After
  // the renaming they would be sharded over the renamed axis.
  for (const NameScope& scope : search.scopes()) {
    const auto rule = RuleByDefault(scope.rules->axes, to);
    if (!rule) continue;
    return Code(to) + " already has a meaning: the axis rule " +
           Code(AxisRuleName(*rule)) + " is " + Code(to) + " by default";
  }
  return {};
}

// Returns the new name in the form of the old name. If the old name is written
// as `__NAME__`, the new name gets the underscores as well.
std::string Written(std::string_view old, const std::string& to) {
  const bool long_form =
      old.size() > 4 && old.starts_with("__") && old.ends_with("__");
  return long_form ? "__" + to + "__" : to;
}

}  // namespace

std::vector<Reference> ReferencesAt(const Workspace& workspace,
                                    const Document& document, size_t offset) {
  std::vector<Reference> out;
  const NameSearch search(workspace, document, offset);
  if (!search.wanted()) return out;
  for (const FileNames& file : search.names()) {
    for (const NameUse& use : file.uses) {
      if (!use.Refers(*search.wanted())) continue;
      out.push_back({{file.source, use.begin, use.end}, use.definition});
    }
  }
  return out;
}

Renaming RenameAt(const Workspace& workspace, const Document& document,
                  size_t offset, const std::string& to) {
  Renaming out;
  const NameSearch search(workspace, document, offset);
  if (!search.wanted()) {
    out.refusal =
        "the cursor is not at a bundle, a registered name or a mesh axis";
    return out;
  }
  const NameUse& wanted = *search.wanted();
  out.name = {search.names().front().source, wanted.begin, wanted.end};
  out.refusal = Refusal(search);
  if (!out.refusal.empty() || to.empty()) return out;
  const std::string bare =
      wanted.kind == NameKind::kRegistered ? CanonicalToken(to) : to;
  if (bare == wanted.name) return out;
  out.refusal = Fault(search, bare);
  if (!out.refusal.empty()) return out;
  for (const FileNames& file : search.names()) {
    RenamedFile renamed{file.source, {}};
    for (const NameUse& use : file.uses) {
      if (!use.Refers(wanted)) continue;
      const std::string_view old =
          file.source->text().substr(use.begin, use.end - use.begin);
      renamed.edits.push_back({use.begin, use.end, Written(old, bare)});
    }
    if (!renamed.edits.empty()) out.files.push_back(std::move(renamed));
  }
  return out;
}

}  // namespace shardc::lsp
