// Matches rules as the reference systems do. Leaves are visited in JAX's order,
// and rules are tried in their order. A pattern is compiled when a name first
// reaches it, so a bad pattern after one that matches everything is never
// detected, as in Python.
//
// Example: [("kernel$", tp), (".*", none)] gives `mlp/kernel` tp and `mlp/bias`
// none. Without the second rule, `mlp/bias` is an error.
#include "reference/match.h"

#include "match/match.h"
#include "reference/python_pattern.h"
#include "source/size.h"

namespace shardc::reference {
namespace {

// A pattern that is compiled when a name first reaches it.
class LazyPattern {
 public:
  explicit LazyPattern(std::string text) : text_(std::move(text)) {}

  Result<bool> Found(std::string_view name) {
    if (!read_) Read();
    if (error_) return *error_;
    return regex_->Found(name);
  }

 private:
  void Read() {
    read_ = true;
    const PythonPattern python = ReadPythonPattern(text_);
    if (python.syntax == PythonSyntax::kPythonOnly) {
      error_ = Error{"", "python_only_syntax", text_};
      return;
    }
    if (python.syntax == PythonSyntax::kFine) {
      Findings findings;
      regex_ = Regex::Compile({python.re2, {}, '/'}, findings);
    }
    if (!regex_) error_ = Error{"RegexError", "invalid_regex", text_};
  }

  std::string text_;
  bool read_ = false;
  std::optional<Regex> regex_;
  std::optional<Error> error_;
};

class RuleList {
 public:
  explicit RuleList(std::span<const PartitionRule> rules) : rules_(rules) {
    for (const PartitionRule& rule : rules)
      patterns_.emplace_back(rule.pattern);
  }

  // Returns the spec of the first rule whose pattern is found in the path.
  Result<PartitionSpec> First(const std::string& path) {
    for (size_t i = 0; i < patterns_.size(); ++i) {
      auto found = patterns_[i].Found(path);
      if (const auto* error = Failure(found)) return *error;
      if (std::get<bool>(found)) return rules_[i].spec;
    }
    return Error{"ValueError", "rule_not_found",
                 "Partition rule not found for param: " + path};
  }

 private:
  std::span<const PartitionRule> rules_;
  std::vector<LazyPattern> patterns_;
};

Result<PartitionSpec> OneEformer(RuleList& rules, const Leaf& leaf,
                                 const std::string& path,
                                 const EformerOptions& options) {
  if (!options.strict) return rules.First(path);
  const Tree& value = *leaf.value;
  if (value.kind != Tree::Kind::kArray || value.shape.empty()) {
    return PartitionSpec{};
  }
  auto spec = rules.First(path);
  if (Failure(spec)) return spec;
  const auto size = CheckedProduct(value.shape);
  if (size && *size < options.min_size) return PartitionSpec{};
  auto& entries = std::get<PartitionSpec>(spec);
  if (entries.size() > value.shape.size()) entries.resize(value.shape.size());
  return spec;
}

Result<PartitionSpec> OneFjformer(RuleList& rules, const Leaf& leaf,
                                  const std::string& path) {
  const Tree& value = *leaf.value;
  if (value.kind != Tree::Kind::kArray) {
    return Error{"AttributeError", "leaf_without_shape",
                 "'" + value.host_type + "' object has no attribute 'shape'"};
  }
  const auto size = CheckedProduct(value.shape);
  if (value.shape.empty() || size == 1) return PartitionSpec{};
  return rules.First(path);
}

template <class One>
Result<Specs> MatchAll(const Tree& tree, One one) {
  Specs out;
  for (const Leaf& leaf : Flatten(tree)) {
    std::string path = JoinPath(leaf.path, "/");
    auto spec = one(leaf, path);
    if (const auto* error = Failure(spec)) return *error;
    out[std::move(path)] = std::get<PartitionSpec>(std::move(spec));
  }
  return out;
}

}  // namespace

Result<Specs> MatchEformer(std::span<const PartitionRule> rules,
                           const Tree& tree, const EformerOptions& options) {
  RuleList list(rules);
  return MatchAll(tree, [&](const Leaf& leaf, const std::string& path) {
    return OneEformer(list, leaf, path, options);
  });
}

Result<Specs> MatchFjformer(std::span<const PartitionRule> rules,
                            const Tree& tree) {
  RuleList list(rules);
  return MatchAll(tree, [&](const Leaf& leaf, const std::string& path) {
    return OneFjformer(list, leaf, path);
  });
}

Result<std::map<std::string, bool>> WeightDecayMask(
    std::span<const std::string> exclusions, const Tree& tree) {
  std::vector<LazyPattern> patterns;
  for (const std::string& text : exclusions) patterns.emplace_back(text);
  std::map<std::string, bool> out;
  for (const Leaf& leaf : Flatten(tree)) {
    const std::string path = JoinPath(leaf.path, "/");
    bool decays = true;
    for (LazyPattern& pattern : patterns) {
      auto found = pattern.Found(path);
      if (const auto* error = Failure(found)) return *error;
      if (std::get<bool>(found)) {
        decays = false;
        break;
      }
    }
    out[path] = decays;
  }
  return out;
}

}  // namespace shardc::reference
