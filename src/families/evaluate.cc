// Evaluates the expressions of a family's description for one config.json. For
// example, if the config has hidden_size 64, heads 4 and no head_dim, the `let`
// entry `head_dim: head_dim ?? hidden_size // heads` is 16.
//
// A name is looked up in three places: first the bound names, which are
// counters and the parameters of blocks, then the entries of the family's
// `let`, then the keys of the config, which may have defaults. Inside the
// definition of a `let` entry, the entry's own name is the key of the config,
// as in the example. The name `naming` stands for the naming scheme, such as
// `flax`, unless a counter or a parameter of a block has this name.
//
// A key that the config lacks or sets to null is an error, except in two
// places: to the left of `??`, and inside has() and given().
//
// The values of most `let` entries are cached, because a tree with thousands of
// tensors evaluates the same few entries many times. A value that depends on a
// bound name is not cached.
#include "families/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/legal_sizes.h"
#include "parse/manifest.h"
#include "source/list.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc::families {
namespace {

// Keeps the order of products and sums where a size is computed of factors:
//
//   kv_heads * (group + 2) * head_dim  ->  for each KV head the queries of its
//                                          group, a key and a value
//   2 * inner                          ->  (inner | inner)
//
// A product with a sum is the sum of products, so that each part is complete:
// (heads + 2 * kv_heads) * head_dim is (heads x head_dim | kv_heads x head_dim
// | kv_heads x head_dim).

using program::FactorRole;

// The most terms of one layout.
constexpr size_t kMostTerms = 256;

size_t TermsOf(const Layout& layout) {
  size_t out = layout.size();
  for (const Term& term : layout) {
    out += term.parts.size();
    for (const Layout& part : term.parts) out += TermsOf(part);
  }
  return out;
}

std::optional<Layout> IfFew(Layout layout) {
  if (TermsOf(layout) > kMostTerms) return std::nullopt;
  return layout;
}

int64_t SizeOf(const Layout& layout) {
  int64_t out = 1;
  for (const Term& term : layout) {
    out = CheckedMul(out, term.size).value_or(INT64_MAX);
  }
  return out;
}

bool IsParts(const Layout& layout) {
  return layout.size() == 1 && !layout[0].parts.empty();
}

// Returns the beginning of a name up to its last part that is a number.
std::string_view ScopeOf(std::string_view name, char separator) {
  for (size_t end = name.size(); end > 0;) {
    const size_t at = name.substr(0, end).rfind(separator);
    const size_t begin = at == name.npos ? 0 : at + 1;
    const std::string_view part = name.substr(begin, end - begin);
    if (!part.empty() && part.find_first_not_of("0123456789") == part.npos) {
      return name.substr(0, end);
    }
    end = begin == 0 ? 0 : begin - 1;
  }
  return {};
}

bool IsOfModel(FactorRole role) {
  constexpr std::array<FactorRole, 4> kOfModel = {
      FactorRole::kStream, FactorRole::kHeadDim, FactorRole::kPosition,
      FactorRole::kVocab};
  return std::ranges::find(kOfModel, role) != kOfModel.end();
}

}  // namespace

std::optional<FactorRole> RoleOf(std::string_view word) {
  if (word == program::RoleName(FactorRole::kUnknown)) {
    return FactorRole::kUnknown;
  }
  for (auto i = static_cast<int>(FactorRole::kPosition);
       i <= static_cast<int>(FactorRole::kOut); ++i) {
    const auto role = static_cast<FactorRole>(i);
    if (program::RoleName(role) == word && role != FactorRole::kParts) {
      return role;
    }
  }
  return std::nullopt;
}

std::optional<Layout> LayoutOfNumber(int64_t number) {
  if (number < 1 || number > static_cast<int64_t>(kMostTerms)) {
    return std::nullopt;
  }
  if (number == 1) return Layout();
  return IfFew({{"", FactorRole::kParts, false, number,
                 std::vector<Layout>(AsIndex(number))}});
}

std::optional<Layout> ProductOf(Layout outer, const Layout& inner) {
  if (inner.empty()) return outer;
  if (outer.empty() || outer.back().parts.empty()) {
    outer.insert(outer.end(), inner.begin(), inner.end());
    return IfFew(std::move(outer));
  }
  Term& sum = outer.back();
  sum.role = FactorRole::kUnknown;
  sum.size = CheckedMul(sum.size, SizeOf(inner)).value_or(INT64_MAX);
  for (Layout& part : sum.parts) {
    auto product = ProductOf(std::move(part), inner);
    if (!product) return std::nullopt;
    part = std::move(*product);
  }
  return IfFew(std::move(outer));
}

std::optional<Layout> SumOf(Layout first, const Layout& second) {
  Term sum;
  sum.size = CheckedAdd(SizeOf(first), SizeOf(second)).value_or(INT64_MAX);
  for (const Layout& one : {std::move(first), second}) {
    if (IsParts(one)) {
      sum.parts.insert(sum.parts.end(), one[0].parts.begin(),
                       one[0].parts.end());
    } else {
      sum.parts.push_back(one);
    }
  }
  return IfFew({std::move(sum)});
}

program::FactorList FactsOfTree::ListOf(const Layout& layout,
                                        const Scopes& scopes,
                                        std::set<uint32_t>& all) {
  program::FactorList out;
  for (const Term& term : layout) {
    uint32_t index = static_cast<uint32_t>(facts_.factors.size());
    if (term.parts.empty()) {
      const bool of_model = term.of_model || IsOfModel(term.role);
      const std::string& scope = of_model ? scopes.model : scopes.layer;
      index = known_.try_emplace(scope + '\n' + term.name, index).first->second;
    }
    if (index == facts_.factors.size()) {
      program::Factor& made = facts_.factors.emplace_back();
      made.size = term.size;
      made.role = term.role;
    }
    all.insert(index);
    for (const Layout& part : term.parts) {
      program::FactorList list = ListOf(part, scopes, all);
      facts_.factors[index].parts.push_back(std::move(list));
    }
    out.push_back(index);
  }
  return out;
}

void FactsOfTree::Add(const std::string& name, char separator,
                      const std::vector<Dimension>& dims, size_t model,
                      TensorUse use) {
  const Scopes scopes = {std::string(ScopeOf(name, separator)),
                         "/" + std::to_string(model)};
  const auto number = static_cast<uint32_t>(facts_.params.size());
  program::ParamFacts param;
  param.name = name;
  param.looked_up = use.looked_up;
  for (uint32_t d = 0; d < dims.size(); ++d) {
    std::set<uint32_t> all;
    param.shape.push_back(dims[d].size);
    param.dims.emplace_back();
    // A number alone counts parts of nothing that is named.
    const auto& layout = dims[d].layout;
    if (layout &&
        !(layout->size() == 1 && layout->front().role == FactorRole::kParts)) {
      param.dims.back() = ListOf(*layout, scopes, all);
    }
    for (const uint32_t factor : all) {
      facts_.factors[factor].occurrences.push_back({number, d});
    }
    if (static_cast<int>(d) == use.contracted) {
      param.contracted.assign(all.begin(), all.end());
    }
  }
  facts_.params.push_back(std::move(param));
}

program::Facts FactsOfTree::Take() { return std::move(facts_); }

namespace {

// The limits on the keys and the elements of expressions that are evaluated,
// and on the depth of `let` entries that use one another.
constexpr size_t kMostSteps = 20000000;
constexpr size_t kDeepestLet = 64;

Value MakeInteger(int64_t number) {
  return {Value::Kind::kInteger, number, {}, {}, {}};
}
Value MakeBool(bool truth) {
  return {Value::Kind::kBool, truth ? 1 : 0, {}, {}, {}};
}
Value MakeText(std::string_view text) {
  return {Value::Kind::kText, 0, std::string(text), {}, {}};
}

Value WithSource(Value value, const JsonValue& json) {
  value.json = json;
  return value;
}

bool IsTrue(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kNull:
      return false;
    case Value::Kind::kText:
      return !value.text.empty();
    case Value::Kind::kList:
      return !value.items.empty();
    case Value::Kind::kJson:
      return !value.json.IsArray() || value.json.size() > 0;
    default:
      return value.number != 0;
  }
}

bool Same(const Value& a, const Value& b) {
  return a.kind == b.kind && a.number == b.number && a.text == b.text;
}

}  // namespace

Place Evaluator::Blame() const { return (blame_ ? *blame_ : config_).place(); }

Place Evaluator::Blame(const Value& value) const {
  Place place = value.json.place();
  return place.source != nullptr ? place : Blame();
}

Place Evaluator::BlameFor(const Expression& expression) {
  const auto value = Evaluate(expression);
  return value ? Blame(*value) : Blame();
}

std::string Evaluator::NameOf(const Value& value,
                              const Expression& expression) const {
  const Place place = value.json.place();
  for (const JsonMember member : config_.members()) {
    const Place other = member.value.place();
    if (other.source == place.source && other.begin == place.begin) {
      return "`" + std::string(member.name()) + "`";
    }
  }
  return expression.text.empty() ? "a size" : "`" + expression.text + "`";
}

void Evaluator::Bind(const std::string& name, Value value) {
  bound_.emplace_back(name, std::move(value));
}

Evaluator Evaluator::Copy(Findings& findings) const {
  Evaluator out(family_, config_, naming_, findings);
  out.bound_ = bound_;
  out.defaults_ = defaults_;
  return out;
}

std::optional<Value> Evaluator::Evaluate(const Expression& expression) {
  return Get(expression, false);
}

std::optional<int64_t> Evaluator::Integer(const Expression& expression) {
  const auto value = Evaluate(expression);
  return value ? AsInteger(*value, expression) : std::nullopt;
}

std::optional<bool> Evaluator::Condition(const Expression& expression) {
  const auto value = Evaluate(expression);
  if (!value) return std::nullopt;
  return IsTrue(*value);
}

std::nullopt_t Evaluator::Missing(std::string_view name,
                                  const JsonValue& where) {
  Place place = where.place();
  if (where.IsObject()) place.end = place.begin + 1;
  findings_.Add(code::kSchema, place,
                "the configuration has no `" + std::string(name) + "`",
                "a model of type `" + family_.name + "` needs it");
  return std::nullopt;
}

std::optional<int64_t> Evaluator::AsInteger(const Value& value,
                                            const Expression& expression) {
  if (value.kind == Value::Kind::kInteger) return value.number;
  if (value.kind == Value::Kind::kNull) {
    return Missing(expression.text, config_);
  }
  const std::string what =
      value.kind == Value::Kind::kJson ? DescribeJson(value.json)
      : value.kind == Value::Kind::kText
          ? "the string " + ShortQuote(value.text)
          : std::string(value.kind == Value::Kind::kBool ? "a truth value"
                                                         : "a list");
  findings_.Add(code::kNumber, Blame(value),
                NameOf(value, expression) + " is " + what + ", not an integer");
  return std::nullopt;
}

// If `soft` is true, a key that the config lacks is null and not an error.
Evaluator::Result Evaluator::Get(const Expression& expression, bool soft) {
  if (!Spend(1)) return std::nullopt;
  switch (expression.kind) {
    case Expression::Kind::kNull:
      return Value{};
    case Expression::Kind::kBool:
      return MakeBool(expression.number != 0);
    case Expression::Kind::kNumber: {
      Value number = MakeInteger(expression.number);
      if (layouts_) number.layout = LayoutOfNumber(expression.number);
      return number;
    }
    case Expression::Kind::kText:
      return MakeText(expression.text);
    case Expression::Kind::kList: {
      Value list{Value::Kind::kList, 0, {}, {}, {}};
      for (const Expression& part : expression.parts) {
        auto item = Get(part, false);
        if (!item) return std::nullopt;
        list.items.push_back(std::move(*item));
      }
      return list;
    }
    case Expression::Kind::kName:
      return Name(expression.text, soft);
    case Expression::Kind::kMember:
      return Member(expression, soft);
    case Expression::Kind::kIndex:
      return Index(expression, soft);
    case Expression::Kind::kCall:
      return Call(expression);
    case Expression::Kind::kUnary:
      return Unary(expression);
    case Expression::Kind::kBinary:
      return Binary(expression, soft);
    case Expression::Kind::kChoice: {
      const auto condition = Condition(expression.parts[1]);
      if (!condition) return std::nullopt;
      return Get(expression.parts[*condition ? 0 : 2], soft);
    }
  }
  return std::nullopt;
}

Evaluator::Result Evaluator::Name(const std::string& name, bool soft) {
  for (auto at = bound_.rbegin(); at != bound_.rend(); ++at) {
    if (at->first != name) continue;
    used_bound_ = true;
    if (at->second.kind == Value::Kind::kUnknown) return std::nullopt;
    return at->second;
  }
  if (name == "naming") return MakeText(naming_);
  const Expression* const factor =
      layouts_ ? family_.FindFactor(name) : nullptr;
  if (factor == nullptr) return Defined(name, soft);
  layouts_ = false;
  auto value = Defined(name, soft);
  layouts_ = true;
  if (value && value->kind == Value::Kind::kInteger) {
    value->layout = LayoutOf(name, *factor, value->number);
  }
  return value;
}

// Returns the layout of a name that is a factor, or a product of other factors
// that has the same size.
std::optional<Layout> Evaluator::LayoutOf(const std::string& name,
                                          const Expression& factor,
                                          int64_t size) {
  if (size < 1) return std::nullopt;
  if (const auto meaning = MeaningOf(factor)) {
    if (size == 1) return Layout();
    if (meaning->role == program::FactorRole::kUnknown) return std::nullopt;
    return Layout{{name, meaning->role, meaning->of_model, size, {}}};
  }
  // No factor is counted by itself (LoadDescription), so that this ends.
  Findings ignored;
  Evaluator inner = Copy(ignored);
  inner.steps_ = steps_;
  const auto product = inner.Evaluate(factor);
  steps_ = inner.steps_;
  if (!product || product->kind != Value::Kind::kInteger ||
      product->number != size) {
    return std::nullopt;
  }
  return product->layout;
}

// Returns the value of a name that is not bound.
Evaluator::Result Evaluator::Defined(const std::string& name, bool soft) {
  const Expression* const let = family_.FindLet(name);
  const bool inside = IsAmong(name, defining_);
  if (let == nullptr || inside) return FromConfig(name, soft);
  auto& all_known = known_[layouts_ ? 1 : 0];
  if (const auto known = all_known.find(name); known != all_known.end()) {
    if (known->second.blame) blame_ = known->second.blame;
    return known->second.value;
  }
  if (defining_.size() >= kDeepestLet) {
    findings_.Add(code::kLimit, Blame(),
                  "the values of `let` use one another more than " +
                      std::to_string(kDeepestLet) + " deep");
    return std::nullopt;
  }
  const bool used_before = used_bound_;
  used_bound_ = false;
  defining_.push_back(name);
  auto value = Get(*let, soft);
  defining_.pop_back();
  const bool sure = !soft || (value && value->kind != Value::Kind::kNull);
  if (value && sure && !used_bound_ && defining_.empty()) {
    all_known[name] = {*value, blame_};
  }
  used_bound_ = used_bound_ || used_before;
  return value;
}

Evaluator::Result Evaluator::FromConfig(const std::string& name, bool soft) {
  const auto found = config_.Find(name);
  if (found && !found->IsNull()) return Take(*found, name);
  const auto otherwise = defaults_.find(name);
  if (!found && otherwise != defaults_.end()) {
    return MakeInteger(otherwise->second);
  }
  if (soft) return Value{};
  return Missing(name, found ? *found : config_);
}

Evaluator::Result Evaluator::Take(const JsonValue& json,
                                  std::string_view name) {
  switch (json.kind()) {
    case JsonKind::kNull:
      return Value{};
    case JsonKind::kBool:
      return WithSource(MakeBool(json.boolean()), json);
    case JsonKind::kString:
      blame_ = json;
      return WithSource(MakeText(json.string()), json);
    case JsonKind::kInteger:
      blame_ = json;
      if (json.integer() <= kLargestModelSize &&
          json.integer() >= -kLargestModelSize) {
        return WithSource(MakeInteger(json.integer()), json);
      }
      [[fallthrough]];
    case JsonKind::kUnsigned:
      findings_.Add(
          code::kLimit, json.place(),
          "`" + std::string(name) + "` is larger than in any model",
          "at most " + std::to_string(kLargestModelSize) + " is read");
      return std::nullopt;
    case JsonKind::kReal:
      // Factors such as `block_ffn_dim_multiplier: 1.0` are integers.
      blame_ = json;
      if (std::abs(json.real()) <= static_cast<double>(kLargestModelSize) &&
          std::trunc(json.real()) == json.real()) {
        return WithSource(MakeInteger(static_cast<int64_t>(json.real())), json);
      }
      return Value{Value::Kind::kJson, 0, {}, {}, json};
    default:
      blame_ = json;
      return Value{Value::Kind::kJson, 0, {}, {}, json};
  }
}

Evaluator::Result Evaluator::Member(const Expression& expression, bool soft) {
  auto from = Get(expression.parts[0], soft);
  if (!from) return std::nullopt;
  if (from->kind == Value::Kind::kNull && soft) return Value{};
  if (from->kind != Value::Kind::kJson || !from->json.IsObject()) {
    findings_.Add(code::kSchema, Blame(),
                  "`" + expression.parts[0].text + "` is not an object");
    return std::nullopt;
  }
  const auto found = from->json.Find(expression.text);
  if (found && !found->IsNull()) return Take(*found, expression.text);
  if (soft) return Value{};
  return Missing(expression.text, found ? *found : from->json);
}

std::optional<std::vector<Value>> Evaluator::Items(const Value& value) {
  if (value.kind == Value::Kind::kList) return value.items;
  if (value.kind == Value::Kind::kText) {
    if (!Spend(value.text.size())) return std::nullopt;
    std::vector<Value> characters;
    for (const char& c : value.text) {
      characters.push_back(
          WithSource(MakeText(std::string_view(&c, 1)), value.json));
    }
    return characters;
  }
  if (value.kind != Value::Kind::kJson || !value.json.IsArray()) {
    findings_.Add(code::kSchema, Blame(), "a list is expected here");
    return std::nullopt;
  }
  if (!Spend(value.json.size())) return std::nullopt;
  std::vector<Value> items;
  for (const JsonValue item : value.json.items()) {
    auto taken = Take(item, "an entry");
    if (!taken) return std::nullopt;
    items.push_back(std::move(*taken));
  }
  return items;
}

Evaluator::Result Evaluator::Index(const Expression& expression, bool soft) {
  const auto list = Get(expression.parts[0], soft);
  if (!list) return std::nullopt;
  if (list->kind == Value::Kind::kNull && soft) return Value{};
  const auto at = Integer(expression.parts[1]);
  if (!at) return std::nullopt;
  const auto items = Items(*list);
  if (!items) return std::nullopt;
  if (*at >= 0 && *at < static_cast<int64_t>(items->size())) {
    return (*items)[AsIndex(*at)];
  }
  if (soft) return Value{};
  const Place place = Blame(*list);
  findings_.Add(
      code::kSchema, place,
      "`" + expression.parts[0].text + "` has no entry " + std::to_string(*at));
  return std::nullopt;
}

// Returns the first word of a text, or of a list of texts, that is no entry of
// the second list; an empty text if there is none.
Evaluator::Result Evaluator::Others(const Expression& expression) {
  const auto value = Get(expression.parts[0], false);
  const auto list = value ? Get(expression.parts[1], false) : std::nullopt;
  const auto known = list ? Items(*list) : std::nullopt;
  if (!known) return std::nullopt;
  std::string text = value->text;
  if (value->kind != Value::Kind::kText) {
    const auto items = Items(*value);
    if (!items) return std::nullopt;
    for (const Value& item : *items) text += item.text + " ";
  }
  if (!Spend(text.size() * (known->size() + 1))) return std::nullopt;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && IsWordByte(text[end])) ++end;
    const std::string_view word = std::string_view(text).substr(at, end - at);
    at = end + 1;
    const bool other =
        std::none_of(known->begin(), known->end(),
                     [&](const Value& one) { return one.text == word; });
    if (!word.empty() && other) return MakeText(word);
  }
  return MakeText("");
}

Evaluator::Result Evaluator::Call(const Expression& expression) {
  const std::string& name = expression.text;
  const auto& parts = expression.parts;
  if (name == "has" && parts.size() == 1) {
    // A key of the config may be there although its value is not known.
    const std::string& key = parts[0].text;
    const auto bound =
        std::find_if(bound_.rbegin(), bound_.rend(),
                     [&](const auto& one) { return one.first == key; });
    if (parts[0].kind == Expression::Kind::kName && bound != bound_.rend() &&
        bound->second.kind == Value::Kind::kUnknown && config_.Find(key)) {
      return MakeBool(true);
    }
    const auto value = Get(parts[0], true);
    if (!value) return std::nullopt;
    return MakeBool(value->kind != Value::Kind::kNull);
  }
  // For a key whose value is null, given() is true and has() is false.
  if (name == "given" && parts.size() == 1 &&
      parts[0].kind == Expression::Kind::kName) {
    return MakeBool(config_.Find(parts[0].text).has_value());
  }
  if (name == "is_list" && parts.size() == 1) {
    const auto value = Get(parts[0], false);
    if (!value) return std::nullopt;
    return MakeBool(
        value->kind == Value::Kind::kList ||
        (value->kind == Value::Kind::kJson && value->json.IsArray()));
  }
  if (name == "len" && parts.size() == 1) {
    const auto value = Get(parts[0], false);
    if (!value) return std::nullopt;
    const bool object =
        value->kind == Value::Kind::kJson && value->json.IsObject();
    if (object) return MakeInteger(static_cast<int64_t>(value->json.size()));
    const auto items = Items(*value);
    if (!items) return std::nullopt;
    return MakeInteger(static_cast<int64_t>(items->size()));
  }
  if (name == "count" && parts.size() >= 2) return Count(expression);
  if ((name == "min" || name == "max") && parts.size() == 2) {
    const auto a = Integer(parts[0]);
    const auto b = a ? Integer(parts[1]) : std::nullopt;
    if (!b) return std::nullopt;
    return MakeInteger(name == "min" ? std::min(*a, *b) : std::max(*a, *b));
  }
  if (name == "others" && parts.size() == 2) return Others(expression);
  if (name == "isqrt" && parts.size() == 1) {
    const auto square = Integer(parts[0]);
    if (!square) return std::nullopt;
    auto root = static_cast<int64_t>(
        std::sqrt(static_cast<double>(std::max(*square, int64_t{0}))));
    if (root > 0 && root > *square / root) --root;  // rounded up
    return MakeInteger(root);
  }
  if (name == "refuse" && parts.size() == 1 &&
      parts[0].kind == Expression::Kind::kText) {
    findings_.Add(code::kSchema, Blame(), parts[0].text,
                  "give a manifest of its checkpoint, or a folder with a "
                  "description: `--families DIR`");
    return std::nullopt;
  }
  findings_.Add(
      code::kSchema, Blame(),
      "`" + family_.name + "` calls `" + name + "`, which is no function");
  return std::nullopt;
}

// Evaluates `count(list, value)` or `count(list, value, n)`: how many of the
// entries, or of the first n entries, are equal to the value.
Evaluator::Result Evaluator::Count(const Expression& expression) {
  const auto& parts = expression.parts;
  const auto list = Get(parts[0], false);
  const auto wanted = list ? Get(parts[1], false) : std::nullopt;
  if (!wanted) return std::nullopt;
  auto items = Items(*list);
  if (!items) return std::nullopt;
  if (parts.size() > 2) {
    const auto most = Integer(parts[2]);
    if (!most) return std::nullopt;
    const auto all = static_cast<int64_t>(items->size());
    items->resize(AsIndex(std::clamp(*most, int64_t{0}, all)));
  }
  return MakeInteger(
      std::count_if(items->begin(), items->end(),
                    [&](const Value& item) { return Same(item, *wanted); }));
}

bool Evaluator::Spend(size_t steps) {
  steps_ += steps;
  if (steps_ <= kMostSteps) return true;
  findings_.Add(code::kLimit, Blame(),
                "the description of `" + family_.name +
                    "` takes more than 20 million steps");
  return false;
}

Evaluator::Result Evaluator::Unary(const Expression& expression) {
  if (expression.text == "not") {
    const auto truth = Condition(expression.parts[0]);
    if (!truth) return std::nullopt;
    return MakeBool(!*truth);
  }
  const auto value = Integer(expression.parts[0]);
  if (!value) return std::nullopt;
  return Arithmetic("-", 0, *value);
}

Evaluator::Result Evaluator::Binary(const Expression& expression, bool soft) {
  const std::string& sign = expression.text;
  const auto& parts = expression.parts;
  if (sign == "??") {
    auto left = Get(parts[0], true);
    if (!left || left->kind != Value::Kind::kNull) return left;
    return Get(parts[1], soft);
  }
  if (sign == "and" || sign == "or") {
    const auto left = Condition(parts[0]);
    if (!left || *left == (sign == "or")) {
      return left ? Result(MakeBool(*left)) : std::nullopt;
    }
    const auto right = Condition(parts[1]);
    return right ? Result(MakeBool(*right)) : std::nullopt;
  }
  if (sign == "==" || sign == "!=" || sign == "in") {
    const auto left = Get(parts[0], false);
    const auto right = left ? Get(parts[1], false) : std::nullopt;
    if (!right) return std::nullopt;
    if (sign != "in") {
      return MakeBool(Same(*left, *right) == (sign == "=="));
    }
    const auto items = Items(*right);
    if (!items) return std::nullopt;
    return MakeBool(
        std::any_of(items->begin(), items->end(),
                    [&](const Value& item) { return Same(item, *left); }));
  }
  auto left = Evaluate(parts[0]);
  const auto a = left ? AsInteger(*left, parts[0]) : std::nullopt;
  const auto right = a ? Evaluate(parts[1]) : std::nullopt;
  const auto b = right ? AsInteger(*right, parts[1]) : std::nullopt;
  if (!b) return std::nullopt;
  auto out = Arithmetic(sign, *a, *b);
  if (out && left->layout && right->layout) {
    if (sign == "*") {
      out->layout = ProductOf(std::move(*left->layout), *right->layout);
    } else if (sign == "+") {
      out->layout = SumOf(std::move(*left->layout), *right->layout);
    }
  }
  return out;
}

Evaluator::Result Evaluator::Arithmetic(const std::string& sign, int64_t a,
                                        int64_t b) {
  if (sign == "<") return MakeBool(a < b);
  if (sign == "<=") return MakeBool(a <= b);
  if (sign == ">") return MakeBool(a > b);
  if (sign == ">=") return MakeBool(a >= b);
  std::optional<int64_t> out;
  if (sign == "+") out = CheckedAdd(a, b);
  if (sign == "*") out = CheckedMul(a, b);
  if (sign == "-") {
    int64_t difference = 0;
    if (!__builtin_sub_overflow(a, b, &difference)) out = difference;
  }
  if (sign == "//" || sign == "%") {
    if (b <= 0) {
      findings_.Add(
          code::kNumber, Blame(),
          "sizes are divided by this, and it is " + std::to_string(b));
      return std::nullopt;
    }
    const int64_t rest = ((a % b) + b) % b;
    out = sign == "%" ? rest : (a - rest) / b;
  }
  if (out) return MakeInteger(*out);
  findings_.Add(code::kOverflow, Blame(), "a size does not fit in 64 bits");
  return std::nullopt;
}

}  // namespace shardc::families
