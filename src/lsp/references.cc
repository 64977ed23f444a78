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
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "lsp/hover.h"
#include "lsp/names.h"
#include "model/name.h"
#include "parse/spec_read.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/list.h"
#include "source/sink.h"
#include "source/source.h"
#include "source/wording.h"
#include "target/choose.h"
#include "yaml/read.h"
#include "yaml/yaml.h"

namespace shardc::lsp {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> CacheFolder() {
  const auto absolute = [](const char* name) -> std::optional<fs::path> {
    const char* const value = std::getenv(name);
    if (value == nullptr || !fs::path(value).is_absolute()) return std::nullopt;
    return value;
  };
  if (auto cache = absolute("XDG_CACHE_HOME")) return cache;
  if (const auto home = absolute("HOME")) return *home / ".cache";
  return std::nullopt;
}

bool Holds(const fs::path& path, std::string_view text) {
  std::ifstream file(path, std::ios::binary);
  return file && std::equal(std::istreambuf_iterator<char>(file), {},
                            text.begin(), text.end());
}

// Writes a pack's text as a read-only file in the user's cache ($XDG_CACHE_HOME
// or ~/.cache). The file of `builtin:llama/hf` is `shardc/packs/llama.hf.yaml`.
// Returns the file; null if there is no cache directory or the file cannot be
// written.
SourceRef PackAsFile(const Source& pack) {
  const auto cache = CacheFolder();
  if (!cache) return nullptr;
  std::string name = pack.name().substr(pack.name().find(':') + 1) + ".yaml";
  std::replace(name.begin(), name.end(), '/', '.');
  const fs::path path = *cache / "shardc" / "packs" / name;
  // Write the file unless it already has the pack's text.
  if (!Holds(path, pack.text())) {  // missing, or from another version
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    Findings unwritten;
    if (error || !WriteToFile(path.string(), pack.text(), unwritten)) {
      return nullptr;
    }
    constexpr auto kRead =
        fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read;
    fs::permissions(path, kRead, error);
  }
  return MakeSource(path.string(), std::string(pack.text()));
}

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

  // Reads the files in the order of their paths. The order of their identities
  // differs from machine to machine, because an identity contains an inode
  // number.
  void ReadFiles() {
    const FileId own = FileIdOf(document_.name());
    names_.emplace_back();
    std::map<std::string_view, const FileId*> by_path;
    for (const auto& [id, file] : files_) by_path.emplace(file.path, &id);
    for (const auto& [path, at] : by_path) {
      const FileId& id = *at;
      const NamedFile& file = files_.at(id);
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
    if (IsAmong(from, value)) {
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

// Finds the definition of the name at a cursor, and lists the symbols of a
// document. If the YAML scalar at the cursor names a file, the definition is
// the beginning of that file. A name in a spec is looked up in the rules that
// the targets read. The symbols of a document are its keys, two levels deep.
// For example:
//
//   `./base.yaml` in `extends` of /p/rules.yaml  ->  the top of /p/base.yaml

namespace {

// The scalar at an offset, and the keys above it.
struct Found {
  const YamlNode* node = nullptr;
  std::vector<std::string> keys;
};

bool FindNodeAt(const YamlNode& node, size_t offset, Found& out) {
  if (node.IsScalar() && node.begin <= offset && offset <= node.end) {
    out.node = &node;
    return true;
  }
  for (const YamlNode& item : node.items) {
    if (FindNodeAt(item, offset, out)) return true;
  }
  for (const YamlMember& member : node.members) {
    out.keys.push_back(member.key.text);
    if (FindNodeAt(member.value, offset, out)) return true;
    out.keys.pop_back();
  }
  return false;
}

std::optional<YamlDocument> Parsed(const Document& document) {
  Findings none;
  return YamlDocument::Parse(MakeSource(document.name(), document.text), none);
}

bool NamesFile(const std::vector<std::string>& keys) {
  constexpr std::array<std::string_view, 7> kFiles = {
      "rules", "mesh", "manifest", "model", "plan", "settings", "baseline"};
  if (keys.size() == 1) return keys[0] == "extends";
  const bool target = keys.size() == 3 && keys[0] == "targets";
  const bool lint = keys.size() == 2 && keys[0] == "lint";
  return (target || lint) && IsAmong(keys.back(), kFiles);
}

// Returns the pack (a rules file that is built into shardc) that the name at
// the cursor selects in the target, or null if it is not the name of a pack.
// The name may be `auto`, or may lack the naming (flax or hf), such as
// `builtin:llama` for `builtin:llama/hf`.
SourceRef PackRead(const Workspace& workspace, const Document& document,
                   const Found& found) {
  const std::string& name = found.node->text;
  const bool automatic = name == "auto" && found.keys.back() == "rules";
  if (!IsPackName(name) && !automatic) return nullptr;
  for (const NameScope& scope : workspace.ScopesOf(document)) {
    // If the cursor is in a target's entry of a project file, all other targets
    // are skipped, because the name may select another pack there.
    if (found.keys.size() == 3 && found.keys[1] != scope.target) continue;
    for (const Rule& rule : scope.rules->rules) {
      if (rule.place.source == nullptr) continue;
      const std::string_view source = rule.place.source->name();
      if (!IsPackName(source)) continue;
      if (automatic || source == name ||
          source.substr(0, source.find('/')) == name) {
        return rule.place.source;
      }
    }
  }
  return automatic ? nullptr : FindPack(name, '.');
}

std::optional<Place> FileNamedAt(const Workspace& workspace,
                                 const Document& document, size_t offset) {
  const auto parsed = Parsed(document);
  Found found;
  if (!parsed || !FindNodeAt(parsed->root(), offset, found) ||
      !NamesFile(found.keys)) {
    return std::nullopt;
  }
  if (const auto pack = PackRead(workspace, document, found)) {
    const SourceRef file = PackAsFile(*pack);
    return file == nullptr ? std::nullopt : std::optional(Place{file, 0, 0});
  }
  if (document.path.empty()) return std::nullopt;
  const std::string path = PathNextTo(document.path, found.node->text);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  return Place{MakeSource(path, {}), 0, 0};
}

// Returns whether a name can be an entry of a spec.
bool IsDimension(const Resolver& resolver, const std::string& name) {
  Findings none;
  SpecList list;
  list.entries.push_back({{SpecName{name, {}}}, false});
  return resolver.Resolve(list, Mode::kTrain, none).has_value();
}

// Returns the places in a target's files that define the name. A name that is
// an entire spec (`spec: ColumnWise`) is first looked up as a bundle. A name in
// a list (`spec: [HEAD, tp]`) is looked up as a bundle only if it cannot be an
// entry of a spec.
std::vector<Place> NamedLines(const NameScope& scope, const NameAt& at) {
  std::vector<Place> bundles, out;
  for (const Bundle& bundle : scope.rules->bundles) {
    if (bundle.name == at.name) bundles.push_back(bundle.place);
  }
  if (at.whole && !bundles.empty()) return bundles;
  const std::string token = CanonicalToken(at.name);
  for (const Registration& one : scope.rules->registrations) {
    if (CanonicalToken(one.name) == token) out.push_back(one.place);
  }
  if (!out.empty()) return out;
  if (!IsDimension(*scope.resolver, at.name)) return bundles;
  const Token* const built_in = FindToken(at.name);
  const auto rule = built_in != nullptr && built_in->rule
                        ? built_in->rule
                        : ParseAxisRule(at.name);
  if (rule) out.push_back(scope.rules->axes_places[static_cast<size_t>(*rule)]);
  std::erase_if(out, [](const Place& place) { return !place.HasPosition(); });
  return out;
}

Symbol SymbolOf(const YamlNode& name, const YamlNode& whole,
                Symbol::Kind kind) {
  Symbol out;
  const bool named = name.IsScalar() && !name.text.empty();
  // LSP does not allow an empty name, so `-` replaces it.
  out.name = named ? Printable(name.text) : std::string(1, '-');
  out.kind = kind;
  out.begin = std::min(name.begin, whole.begin);
  out.end = std::max({name.end, whole.end, out.begin});
  out.name_begin = name.begin;
  out.name_end = std::max(name.begin, name.end);
  return out;
}

Symbol::Kind KindBelow(std::string_view key) {
  if (key == "bundles") return Symbol::Kind::kStruct;
  if (key == "register") return Symbol::Kind::kConstant;
  if (key == "targets") return Symbol::Kind::kModule;
  return Symbol::Kind::kProperty;
}

std::vector<Symbol> Below(std::string_view key, const YamlNode& value) {
  std::vector<Symbol> out;
  for (const YamlMember& member : value.members) {
    out.push_back(SymbolOf(member.key, member.value, KindBelow(key)));
  }
  for (const YamlNode& item : value.items) {
    if (item.IsScalar()) {
      out.push_back(SymbolOf(item, item, Symbol::Kind::kString));
    }
    for (const YamlMember& member : item.members) {
      if (member.key.text != "match") continue;
      out.push_back(SymbolOf(member.value, item, Symbol::Kind::kEvent));
    }
  }
  return out;
}

}  // namespace

std::vector<Place> DefinitionsAt(const Workspace& workspace,
                                 const Document& document, size_t offset) {
  if (auto file = FileNamedAt(workspace, document, offset))
    return {std::move(*file)};
  std::vector<Place> out;
  const auto name = SpecNameAt(document, offset);
  if (!name || workspace.KindOf(document) != FileKind::kRules) return out;
  std::set<std::pair<std::string, size_t>> seen;
  for (const NameScope& scope : workspace.ScopesOf(document)) {
    for (Place& place : NamedLines(scope, *name)) {
      if (IsPackName(place.source->name())) {
        place.source = PackAsFile(*place.source);
        if (place.source == nullptr) continue;
      }
      if (seen.emplace(place.source->name(), place.begin).second) {
        out.push_back(std::move(place));
      }
    }
  }
  return out;
}

std::vector<Symbol> SymbolsOf(const Document& document) {
  std::vector<Symbol> out;
  const auto parsed = Parsed(document);
  if (!parsed) return out;
  for (const YamlMember& member : parsed->root().members) {
    out.push_back(SymbolOf(member.key, member.value, Symbol::Kind::kProperty));
    out.back().children = Below(member.key.text, member.value);
    // The children of a YAML alias are defined elsewhere in the file. Extend
    // the symbol's range to them, because it must contain its children.
    for (const Symbol& child : out.back().children) {
      out.back().begin = std::min(out.back().begin, child.begin);
      out.back().end = std::max(out.back().end, child.end);
    }
  }
  return out;
}

}  // namespace shardc::lsp
