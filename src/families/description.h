// Declares the description of a model family's parameter tree, which is read
// from a file. families/README.md explains the format of these files.
#ifndef SHARDC_FAMILIES_DESCRIPTION_H_
#define SHARDC_FAMILIES_DESCRIPTION_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "families/expression.h"
#include "families/library.h"
#include "source/finding.h"

namespace shardc::families {

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
  // The naming schemes of Flax models: the name of each scheme, and the name
  // that it uses for the weight of a norm.
  std::vector<std::pair<std::string, std::string>> namings;
  std::vector<Block> blocks;
  std::vector<Node> tree;

  const Expression* FindLet(std::string_view word) const;
  const Block* FindBlock(std::string_view word) const;
};

// Reads the description of a model type, and the families that its keys `like`
// and `uses` name. Returns null after findings, and without a finding if the
// library has no description of this name.
std::unique_ptr<const Description> LoadDescription(std::string_view name,
                                                   const Library& library,
                                                   Findings& findings);

}  // namespace shardc::families

#endif  // SHARDC_FAMILIES_DESCRIPTION_H_
