// Finds the names in rules, mesh and project files, and the meaning of each.
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

#include "lsp/position.h"
#include "lsp/workspace.h"
#include "source/source.h"
#include "yaml/yaml.h"

namespace shardc::lsp {

enum class NameKind : uint8_t {
  kPattern,      // the pattern of a rule
  kBundle,       // defined in a file, or built in
  kLogicalAxis,  // built into shardc
  kRegistered,   // a logical axis that `register` defines
  kAxisRule,
  kMeshAxis,
};

struct NameUse {
  NameKind kind = NameKind::kMeshAxis;
  // For a logical axis, its canonical name: `BATCH` for `__BATCH__`.
  std::string name;
  size_t begin = 0;  // byte range in the text, without quotes
  size_t end = 0;
  bool definition = false;

  // Returns whether `other` is a use of the same name with the same kind.
  bool Refers(const NameUse& other) const {
    return kind == other.kind && name == other.name;
  }
};

// Names that `register` defines, in canonical form: `BATCH` for `__BATCH__`.
using RegisteredNames = std::set<std::string, std::less<>>;

// Returns the names that `register` defines in the rules of these scopes. A
// scope (NameScope) is a target, or a document that no target reads.
RegisteredNames RegisteredIn(std::span<const NameScope> scopes);

// Returns the uses of names in a file, in the order of the text. `registered`
// are the names that `register` defines in this file and in files read with it.
// In a project file, only the meshes and settings of `targets` are searched. If
// `targets` is null, those of all targets are searched.
std::vector<NameUse> NamesIn(const YamlDocument& document, FileKind kind,
                             const RegisteredNames& registered,
                             const std::set<std::string>* targets = nullptr);

// Returns the tree of a file. If the file is not valid YAML, the tree lacks the
// invalid entries (lsp/recover.h). Returns nullopt if the remaining text is not
// valid either.
std::optional<YamlDocument> TreeOf(const SourceRef& source);

// Returns the name of the target whose section of a project file contains the
// offset. Returns an empty string if the offset is in no target.
std::string TargetNameAt(const YamlDocument& project, size_t offset);

// Returns the offset of the dash before an item of a list in block style;
// nullopt if the list is written in brackets.
std::optional<size_t> DashOf(const YamlNode& item, std::string_view text);

// Returns the value of a key in a mapping; null if there is none.
const YamlNode* Member(const YamlNode& map, std::string_view key);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_NAMES_H_
