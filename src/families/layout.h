// The layout of a size that is written in terms of factors: which elements of a
// dimension belong together, and what they count.
#ifndef SHARDC_FAMILIES_LAYOUT_H_
#define SHARDC_FAMILIES_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/manifest.h"
#include "program/facts.h"

namespace shardc::families {

struct Term;
// A size as the product of its terms, the outermost first; empty for the size
// 1.
using Layout = std::vector<Term>;

// A factor, or a sum of parts that follow one another.
struct Term {
  std::string name;  // of a factor
  program::FactorRole role = program::FactorRole::kUnknown;
  bool of_model = false;  // whether it is one factor in all layers
  int64_t size = 1;
  std::vector<Layout> parts;
};

// Returns the role that RoleName() names; nullopt for another word, and for the
// words that do not name what a factor of a parameter counts. A name whose role
// is kUnknown has no layout.
std::optional<program::FactorRole> RoleOf(std::string_view word);

// A number counts that many equal parts: `2 * inner` is two parts that follow
// one another, and `inner * 2` has two elements for each of `inner`. These
// functions return nullopt if the result has too many parts.
std::optional<Layout> LayoutOfNumber(int64_t number);
std::optional<Layout> ProductOf(Layout outer, const Layout& inner);
std::optional<Layout> SumOf(Layout first, const Layout& second);

// A dimension of a tensor.
struct Dimension {
  int64_t size = 1;
  std::optional<Layout> layout;  // nullopt if it is not known
};

// What a module does with its tensor.
struct TensorUse {
  // The dimension that a linear module contracts with its input; -1 if there is
  // none or it is not known.
  int contracted = -1;
  bool looked_up = false;  // whether rows are looked up, as in an embedding
};

// Collects the facts of a tree. Factors of one name are the same factor in one
// layer (or one expert, if experts are tensors of their own), and in the entire
// model those of the stream, of heads' columns, positions and the vocabulary.
class FactsOfTree {
 public:
  // Adds a tensor. `model` identifies the model of which it is a part, such as
  // the vision tower of a larger one.
  void Add(const std::string& name, char separator,
           const std::vector<Dimension>& dims, size_t model, TensorUse use);
  program::Facts Take();

 private:
  // Where a factor is the same: in a layer, or in all layers of a model.
  struct Scopes {
    std::string layer, model;
  };
  program::FactorList ListOf(const Layout& layout, const Scopes& scopes,
                             std::set<uint32_t>& all);

  program::Facts facts_;
  // Factors by the scope in which they are one, and their name.
  std::unordered_map<std::string, uint32_t> known_;
};

}  // namespace shardc::families

#endif  // SHARDC_FAMILIES_LAYOUT_H_
