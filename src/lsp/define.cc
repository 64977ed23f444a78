// Finds the definition of the name at a cursor, and lists the symbols of a
// document. If the YAML scalar at the cursor names a file, the definition is
// the beginning of that file. A name in a spec is looked up in the rules that
// the targets read. The symbols of a document are its keys, two levels deep.
// For example:
//
//   `./base.yaml` in `extends` of /p/rules.yaml  ->  the top of /p/base.yaml
#include "lsp/define.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "lsp/hover.h"
#include "lsp/pack_file.h"
#include "model/pack_name.h"
#include "parse/spec_read.h"
#include "source/file.h"
#include "source/wording.h"
#include "target/packs.h"
#include "yaml/yaml.h"

namespace shardc::lsp {
namespace {

// The scalar at an offset, and the keys above it.
struct Found {
  const YamlNode* node = nullptr;
  std::vector<std::string> keys;
};

bool Find(const YamlNode& node, size_t offset, Found& out) {
  if (node.IsScalar() && node.begin <= offset && offset <= node.end) {
    out.node = &node;
    return true;
  }
  for (const YamlNode& item : node.items) {
    if (Find(item, offset, out)) return true;
  }
  for (const YamlMember& member : node.members) {
    out.keys.push_back(member.key.text);
    if (Find(member.value, offset, out)) return true;
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
  return (target || lint) &&
         std::find(kFiles.begin(), kFiles.end(), keys.back()) != kFiles.end();
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
  if (!parsed || !Find(parsed->root(), offset, found) ||
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
