// Declares the description of a model family's parameter tree, which is read
// from a file. families/README.md explains the format of these files.
#ifndef SHARDC_FAMILIES_DESCRIPTION_H_
#define SHARDC_FAMILIES_DESCRIPTION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "program/facts.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/json.h"
#include "source/source.h"
#include "yaml/read.h"
#include "yaml/yaml.h"

namespace shardc::families {

struct Expression {
  enum class Kind : uint8_t {
    kNull,
    kBool,
    kNumber,
    kText,
    kList,    // `parts` are the elements
    kName,    // `text` is the name
    kMember,  // `a.b`: the member named `text` of the value `parts[0]`
    kIndex,   // `parts[0][parts[1]]`
    kCall,    // `text(parts)`: a call of a function
    kUnary,   // `text` is "-" or "not"
    kBinary,  // `text` is "+", "??", "and", "in" and so on
    kChoice,  // `parts[0] if parts[1] else parts[2]`
  };
  Kind kind = Kind::kNull;
  int64_t number = 0;
  std::string text;
  std::vector<Expression> parts;
};

// What a factor counts, and whether it is the same one in all layers.
struct FactorMeaning {
  program::FactorRole role = program::FactorRole::kUnknown;
  bool of_model = false;
};
// Returns what `inner` or `shared(inner)` states; nullopt for a product of
// other factors.
std::optional<FactorMeaning> MeaningOf(const Expression& factor);

// Parses an expression. Returns nullopt after a finding at `place` if the text
// is not an expression, is nested too deeply or has too many parts.
std::optional<Expression> ParseExpression(std::string_view text,
                                          const Place& place,
                                          Findings& findings);

class Library {
 public:
  // A default-constructed library has the bundled descriptions only.
  Library() = default;
  // Reads the files of a folder whose names end in `.yaml`. A description of
  // the folder is used in place of a bundled one of the same name. An empty
  // path stands for no folder. Returns nullopt after a finding if the folder
  // or one of its files cannot be read.
  static std::optional<Library> Open(const std::string& folder,
                                     Findings& findings);

  // Returns the text of the family's description; null if there is none. With
  // `bundled`, descriptions of the folder are not considered.
  SourceRef Find(std::string_view name, bool bundled = false) const;
  bool IsOwn(std::string_view name) const { return own_.contains(name); }
  // Returns the names of all families, or of those of the folder, sorted.
  std::vector<std::string_view> Names() const;
  std::vector<std::string_view> OwnNames() const;

 private:
  std::map<std::string, SourceRef, std::less<>> own_;
};

// A node of a parameter tree. In the file it is a key, such as `layers[i <
// num_hidden_layers] if c: ...`.
struct Node {
  // The part of a parameter's name that this node adds, such as `layers`. The
  // name `_` adds nothing.
  std::string name;
  // The name by which expressions in the children refer to the number of the
  // repetition; empty if the node has no counter.
  std::string counter;
  std::optional<Expression> count;      // absent if the node is not repeated
  std::optional<Expression> condition;  // absent if the node always exists
  // The call of a module or block; absent if the node has children.
  std::optional<Expression> module;
  std::vector<Node> children;
  Place place;
};

// A subtree with parameters, such as `attention(d, heads)`.
struct Block {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<Node> body;
};

struct Description {
  std::string name;  // the model type, such as `llama`
  // Classes of transformers whose models have this tree.
  std::vector<std::string> models;
  // The names that the key `let` defines, with their expressions.
  std::vector<std::pair<std::string, Expression>> let;
  // The names whose values are factors of dimensions: what each counts, or the
  // product of other factors that it is. The sizes of modules are then products
  // and sums in the order of the elements. Empty if the sizes are numbers only.
  std::vector<std::pair<std::string, Expression>> factors;
  std::map<std::string, Place, std::less<>> factor_places;
  // The naming schemes of Flax models: the name of each scheme, and the name
  // that it uses for the weight of a norm.
  std::vector<std::pair<std::string, std::string>> namings;
  std::vector<Block> blocks;
  std::vector<Node> tree;

  const Expression* FindLet(std::string_view word) const;
  const Expression* FindFactor(std::string_view word) const;
  const Block* FindBlock(std::string_view word) const;
};

// Reads the description of a model type, and the families that its keys `like`
// and `uses` name. Returns null after findings, and without a finding if the
// library has no description of this name.
std::unique_ptr<const Description> LoadDescription(std::string_view name,
                                                   const Library& library,
                                                   Findings& findings);

// The sections of a description that stands in another file. Each may be null.
struct DescribedSections {
  const YamlNode* let = nullptr;
  const YamlNode* factors = nullptr;
  const YamlNode* blocks = nullptr;
  const YamlNode* tree = nullptr;
};
// Reads these sections into `out`. Returns false after a finding.
bool ReadDescription(const YamlContext& context,
                     const DescribedSections& sections, Description& out);

// Builds the tree of a description whose sizes are those of `config`, an
// object. Returns nullopt after a finding.
std::optional<Manifest> BuildTree(const Description& family,
                                  const JsonValue& config, Dtype dtype,
                                  Findings& findings);

// Returns the files of the folder families/, sorted by name. The table is
// generated by the build.
std::span<const EmbeddedFile> EmbeddedFamilies();

}  // namespace shardc::families

#endif  // SHARDC_FAMILIES_DESCRIPTION_H_
