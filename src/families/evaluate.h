// Evaluates the expressions of a family's description for one config.json.
#ifndef SHARDC_FAMILIES_EVALUATE_H_
#define SHARDC_FAMILIES_EVALUATE_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "families/description.h"
#include "families/layout.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::families {

struct Value {
  enum class Kind : uint8_t { kNull, kBool, kInteger, kText, kList, kJson };
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
                                 const Expression& factor, int64_t size) const;
  Result FromConfig(const std::string& name, bool soft);
  Result Take(const JsonValue& json, std::string_view name);
  Result Member(const Expression& expression, bool soft);
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
