// The description of a model family's parameter tree (families/README.md).
#ifndef SHARDC_FAMILIES_DESCRIPTION_H_
#define SHARDC_FAMILIES_DESCRIPTION_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "families/expression.h"
#include "source/finding.h"

namespace shardc::families {

// A node of a parameter tree. The file writes it as a key:
// `layers[i < num_hidden_layers] if c: ...`.
struct Node {
  std::string name;  // parts of the parameter's name; `_` adds none
  // The name by which expressions of the children refer to the number of the
  // repetition; may be empty.
  std::string counter;
  std::optional<Expression> count;      // absent if the node is not repeated
  std::optional<Expression> condition;  // absent if the node is always there
  // A module call; absent if the node has children.
  std::optional<Expression> module;
  std::vector<Node> children;
  Place place;
};

// A parameterised subtree: `attention(d, heads)`.
struct Block {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<Node> body;
};

struct Description {
  std::string name;                 // the model type
  std::vector<std::string> models;  // classes that have this tree
  std::vector<std::pair<std::string, Expression>> let;
  // Naming schemes of Flax models: the name of the scheme, and the name of the
  // weight of a norm in this scheme.
  std::vector<std::pair<std::string, std::string>> namings;
  std::vector<Block> blocks;
  std::vector<Node> tree;

  const Expression* FindLet(std::string_view word) const;
  const Block* FindBlock(std::string_view word) const;
};

// Reads the family of a model type, including the families that its keys `like`
// and `uses` name. Returns null after findings. Also returns null, without a
// finding, if one of these families does not exist or if the chain of their
// keys is too long.
std::unique_ptr<const Description> LoadDescription(std::string_view name,
                                                   Findings& findings);

// Names of all families, sorted.
std::vector<std::string_view> DescriptionNames();

}  // namespace shardc::families

#endif  // SHARDC_FAMILIES_DESCRIPTION_H_
