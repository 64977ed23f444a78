// Evaluates the expressions of a family's description for one config.json.
#ifndef SHARDC_FAMILIES_EVALUATE_H_
#define SHARDC_FAMILIES_EVALUATE_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "families/description.h"
#include "model/manifest.h"
#include "program/facts.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::families {

// The layout of a size that is written in terms of factors: which elements of a
// dimension belong together, and what they count.

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

struct Value {
  // kUnknown is the value of a name that is bound later (Evaluator::Copy).
  enum class Kind : uint8_t {
    kNull,
    kBool,
    kInteger,
    kText,
    kList,
    kJson,
    kUnknown
  };
  Kind kind = Kind::kNull;
  int64_t number = 0;  // for kInteger and kBool (0 or 1)
  std::string text;
  std::vector<Value> items;
  // For kJson, an object, a list or a real number of the config. Other kinds
  // use this member only for the value's place in the config. It is empty for a
  // value that was computed and not read.
  JsonValue json;
  // For an integer that is written in terms of factors, its layout.
  std::optional<Layout> layout = std::nullopt;
};

class Evaluator {
 public:
  // `config` must be an object. All arguments must outlive the evaluator.
  Evaluator(const Description& family, JsonValue config,
            std::string_view naming, Findings& findings)
      : family_(family),
        config_(config),
        naming_(naming),
        findings_(findings),
        layouts_(!family.factors.empty()) {}

  // Each of these functions returns nullopt after a finding if the value is
  // missing, has another type or cannot be computed.
  std::optional<Value> Evaluate(const Expression& expression);
  std::optional<int64_t> Integer(const Expression& expression);
  std::optional<bool> Condition(const Expression& expression);
  std::optional<int64_t> AsInteger(const Value& value,
                                   const Expression& expression);

  // Bind() defines a name for later evaluations. Unbind() removes the name that
  // was bound last.
  void Bind(const std::string& name, Value value);
  void Unbind() { bound_.pop_back(); }

  // Returns an evaluator with the same names that adds its findings to
  // `findings`. There, an expression with a name that is bound to a value of
  // kUnknown has no value.
  Evaluator Copy(Findings& findings) const;

  // Gives a key the value that Evaluate() uses if the config lacks the key. A
  // key that is null in the config has no value.
  void SetDefault(std::string_view key, int64_t size) {
    defaults_.emplace(key, size);
  }

  // Counts `steps` of work. Returns false after a finding if the limit is
  // exceeded, as by a description with blocks that repeat one another.
  bool Spend(size_t steps);

  // Returns the place in the config of the string, number, list or object that
  // was read last. Findings about a computed result point to this place. If the
  // value of a `let` name comes from the cache, this is the place that was read
  // last when the value was computed. Returns the place of the entire config if
  // nothing was read.
  Place Blame() const;
  // Returns the place in the config of the expression's value. If the value was
  // computed, returns Blame().
  Place BlameFor(const Expression& expression);
  const Description& family() const { return family_; }
  JsonValue config() const { return config_; }

 private:
  // The cached value of a `let` entry, and the value that Blame() points to.
  struct Known {
    Value value;
    std::optional<JsonValue> blame;
  };
  using Result = std::optional<Value>;

  Result Get(const Expression& expression, bool soft);
  Result Name(const std::string& name, bool soft);
  Result Defined(const std::string& name, bool soft);
  std::optional<Layout> LayoutOf(const std::string& name,
                                 const Expression& factor, int64_t size);
  Result FromConfig(const std::string& name, bool soft);
  Result Take(const JsonValue& json, std::string_view name);
  Result Member(const Expression& expression, bool soft);
  Result Others(const Expression& expression);
  Result Index(const Expression& expression, bool soft);
  Result Call(const Expression& expression);
  Result Unary(const Expression& expression);
  Result Binary(const Expression& expression, bool soft);
  Result Arithmetic(const std::string& sign, int64_t a, int64_t b);
  Place Blame(const Value& value) const;
  // Returns a name of the value for messages: the config's key if the value was
  // read at a top-level key, otherwise the text of the expression.
  std::string NameOf(const Value& value, const Expression& expression) const;
  // Returns the elements of a list, or the characters of a text.
  std::optional<std::vector<Value>> Items(const Value& value);
  Result Count(const Expression& expression);
  std::nullopt_t Missing(std::string_view name, const JsonValue& where);

  const Description& family_;
  JsonValue config_;
  std::string_view naming_;
  Findings& findings_;
  std::vector<std::pair<std::string, Value>> bound_;
  std::vector<std::string> defining_;
  std::map<std::string, int64_t, std::less<>> defaults_;
  // Those without layouts, and those with them.
  std::array<std::map<std::string, Known, std::less<>>, 2> known_;
  std::optional<JsonValue> blame_;
  // True if the expression that is being evaluated has used a bound name. Its
  // value is then not cached.
  bool used_bound_ = false;
  // Whether integers get layouts. Those inside the definition of a factor get
  // none.
  bool layouts_ = false;
  size_t steps_ = 0;
};

}  // namespace shardc::families

#endif  // SHARDC_FAMILIES_EVALUATE_H_
