// A family's description, as families/README.md explains it.
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

// One key of a tree: `layers[i < num_hidden_layers] if c: ...`.
struct Node {
  std::string name;     // parts of names; `_` adds none
  std::string counter;  // what the number is called below, may be empty
  std::optional<Expression> count;
  std::optional<Expression> condition;
  std::optional<Expression> module;  // a call; nothing where it has children
  std::vector<Node> children;
  Place place;
};

// A tree with parameters of its own: `attention(d, heads)`.
struct Block {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<Node> body;
};

struct Description {
  std::string name;                 // the model type
  std::vector<std::string> models;  // classes whose tree it is
  std::vector<std::pair<std::string, Expression>> let;
  // Flax spellings: the name and what a norm's weight is called there.
  std::vector<std::pair<std::string, std::string>> namings;
  std::vector<Block> blocks;
  std::vector<Node> tree;

  const Expression* FindLet(std::string_view word) const;
  const Block* FindBlock(std::string_view word) const;
};

// The family of a model type with what it is like; null without a finding
// where no file has that name.
std::unique_ptr<const Description> LoadDescription(std::string_view name,
                                                   Findings& findings);

// Of all files, sorted.
std::vector<std::string_view> DescriptionNames();

}  // namespace shardc::families

#endif  // SHARDC_FAMILIES_DESCRIPTION_H_
