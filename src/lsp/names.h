// The names in rules, mesh and project files, and what each one refers to.
#ifndef SHARDC_LSP_NAMES_H_
#define SHARDC_LSP_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lsp/context.h"
#include "lsp/workspace.h"
#include "source/source.h"
#include "yaml/yaml.h"

namespace shardc::lsp {

enum class NameKind : uint8_t {
  kPattern,      // of a rule; no name
  kBundle,       // also a built-in one
  kLogicalAxis,  // built in
  kRegistered,   // a logical axis of `register`
  kAxisRule,
  kMeshAxis,
};

struct NameUse {
  NameKind kind = NameKind::kMeshAxis;
  std::string name;  // logical axes in their short form
  size_t begin = 0;  // range in the text, without quotes
  size_t end = 0;
  bool definition = false;

  // Whether both refer to the same thing.
  bool Refers(const NameUse& other) const {
    return kind == other.kind && name == other.name;
  }
};

// Names that `register` defines, in the form of CanonicalToken (parse).
using RegisteredNames = std::set<std::string, std::less<>>;

// The names that the rules files of these scopes register.
RegisteredNames RegisteredIn(std::span<const NameScope> scopes);

// The uses in a file in the order of the text. `registered` are the names of
// the other files that are read with it. Of a project file, the meshes written
// inside `targets` are read; null: those of all.
std::vector<NameUse> NamesIn(const YamlDocument& document, FileKind kind,
                             const RegisteredNames& registered,
                             const std::set<std::string>* targets = nullptr);

// The tree of a file; of one that is not YAML, without the entries that are not
// (lsp/recover.h). Nullopt if that is not possible.
std::optional<YamlDocument> TreeOf(const SourceRef& source);

// Returns the name of the target of a project file whose text contains the
// offset, or an empty string if no target does.
std::string TargetNameAt(const YamlDocument& project, size_t offset);

// The offset of the dash before an item of a list in block style, or nullopt if
// the list is written in brackets.
std::optional<size_t> DashOf(const YamlNode& item, std::string_view text);

// The value of a key of a mapping; null if there is none.
const YamlNode* Member(const YamlNode& map, std::string_view key);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_NAMES_H_
