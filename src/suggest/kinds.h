// Room: suggest. Writes rules for a model that has none: finds what its
// parameters are for by name, size and place, chooses specs for a mesh, and
// patterns that are proven.
// Includes: source, model, match, plan, lint/analysis.
//
// Stages, in the order of use: kinds, dims, roles, choose, patterns, write;
// mesh where only a number of devices is given. Work is done per kind, never
// per tensor.
#ifndef SHARDC_SUGGEST_KINDS_H_
#define SHARDC_SUGGEST_KINDS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/manifest.h"

namespace shardc::suggest {

// Tensors of one name, counters aside, and one type.
struct Kind {
  std::string name;                     // counters as `*`
  std::vector<std::string_view> parts;  // of the name
  Shape shape;
  std::optional<Dtype> dtype;
  int64_t elements = 0;  // of one tensor
  int64_t bytes = 0;     // of one tensor; an element counts 1 without a dtype
  uint32_t begin = 0;    // range into Tree::members
  uint32_t end = 0;

  int64_t count() const { return end - begin; }
  int64_t total_bytes() const { return bytes * count(); }
  int rank() const { return static_cast<int>(shape.size()); }
  // The name up to its first counter; empty: in no stack.
  std::string_view stack() const;
  bool Has(std::string_view part) const;
};

// Parts of names are views, so a tree is moved and never copied.
struct Tree {
  Tree() = default;
  Tree(Tree&&) = default;
  Tree& operator=(Tree&&) = default;

  const Manifest* manifest = nullptr;  // outlives the tree
  char separator = 0;
  std::vector<Kind> kinds;        // in the order of their first tensors
  std::vector<uint32_t> members;  // numbers of tensors, by kind
  int64_t bytes = 0;
  int64_t nameless = 0;  // tensors without a shape, in no kind

  std::span<const uint32_t> Members(const Kind& kind) const {
    return std::span(members).subspan(kind.begin, kind.end - kind.begin);
  }
  std::string_view NameOf(uint32_t tensor) const {
    return manifest->tensors[tensor].name;
  }
};

Tree KindsOf(const Manifest& manifest);

// The numbers that stand for the `*` of a template in a name, in order.
std::vector<std::string_view> CountersOf(std::string_view name,
                                         std::string_view folded);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_KINDS_H_
