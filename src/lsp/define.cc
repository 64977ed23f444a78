// Files are named by scalars of the YAML tree; names of specs are looked up in
// what the targets read. Symbols are the tree's own keys, two levels deep:
//
//   `./base.yaml` in `extends` of /p/rules.yaml  ->  /p/base.yaml, its top
#include "lsp/define.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "lsp/hover.h"
#include "parse/spec_read.h"
#include "source/file.h"
#include "source/wording.h"
#include "yaml/yaml.h"

namespace shardc::lsp {
namespace {

// The scalar at an offset, and the keys that it stands under.
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

std::optional<Place> NamedFile(const Document& document, size_t offset) {
  const auto parsed = Parsed(document);
  Found found;
  if (!parsed || document.path.empty() ||
      !Find(parsed->root(), offset, found) || !NamesFile(found.keys)) {
    return std::nullopt;
  }
  const std::string path = PathBeside(document.path, found.node->text);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  return Place{MakeSource(path, {}), 0, 0};
}

// Where a reading's files say what the name is.
std::vector<Place> NamedLines(const Reading& reading, const NameAt& at) {
  std::vector<Place> out;
  for (const Bundle& bundle : reading.rules->bundles) {
    if (bundle.name == at.name) out.push_back(bundle.place);
  }
  const std::string token = CanonicalToken(at.name);
  for (const Registration& one : reading.rules->registrations) {
    if (CanonicalToken(one.name) == token) out.push_back(one.place);
  }
  if (!out.empty()) return out;
  const Token* const built_in = FindToken(at.name);
  const auto rule = built_in != nullptr && built_in->rule
                        ? built_in->rule
                        : ParseAxisRule(at.name);
  if (rule)
    out.push_back(reading.rules->axes_places[static_cast<size_t>(*rule)]);
  std::erase_if(out, [](const Place& place) { return !place.HasPosition(); });
  return out;
}

Symbol SymbolOf(const YamlNode& name, const YamlNode& whole,
                Symbol::Kind kind) {
  Symbol out;
  const bool named = name.IsScalar() && !name.text.empty();
  // The protocol wants one.
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
  if (auto file = NamedFile(document, offset)) return {std::move(*file)};
  std::vector<Place> out;
  const auto name = SpecNameAt(document, offset);
  if (!name || workspace.KindOf(document) != FileKind::kRules) return out;
  std::set<std::pair<std::string, size_t>> seen;
  for (const Reading& reading : workspace.ReadingsOf(document)) {
    for (Place& place : NamedLines(reading, *name)) {
      const std::string& file = place.source->name();
      if (file.starts_with("builtin:")) continue;
      if (seen.emplace(file, place.begin).second) {
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
    // An alias stands elsewhere; what is around it must hold what is in it.
    for (const Symbol& child : out.back().children) {
      out.back().begin = std::min(out.back().begin, child.begin);
      out.back().end = std::max(out.back().end, child.end);
    }
  }
  return out;
}

}  // namespace shardc::lsp
