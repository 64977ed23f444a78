// Evaluates the expressions of a description in the language of model families
// (families/description.h). In an expression, a name is either a dimension of
// the description or a key of the config.json. If the config.json has a part
// for text, such as `text_config`, the keys of that part are used. For example,
// in `h: head_dim ?? d // n`, d and n are dimensions, and head_dim is a key.
#include "step/formulas.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>
#include <vector>

#include "families/description.h"
#include "model/legal_sizes.h"

namespace shardc::step {
namespace {

constexpr std::array<std::string_view, 3> kNested = {
    "text_config", "llm_config", "language_config"};

JsonValue TextPart(const JsonDocument& document) {
  for (const std::string_view key : kNested) {
    const auto nested = document.root().Find(key);
    if (nested && nested->IsObject()) return *nested;
  }
  return document.root();
}

bool NamesLayer(const families::Expression& expression) {
  return (expression.kind == families::Expression::Kind::kName &&
          expression.text == "i") ||
         std::any_of(expression.parts.begin(), expression.parts.end(),
                     NamesLayer);
}

}  // namespace

std::unique_ptr<Formulas> Formulas::Make(const ModelDescription& description,
                                         const ModelConfig* config,
                                         Findings& findings) {
  std::unique_ptr<Formulas> out(new Formulas);
  out->findings_ = &findings;
  out->has_config_ = config != nullptr && config->source != nullptr;
  out->family_.name = out->has_config_ ? config->model_type : "";
  for (const auto& [name, size] : description.dims) {
    auto expression =
        families::ParseExpression(size.text, size.place, findings);
    if (!expression) return nullptr;
    out->family_.let.emplace_back(name, std::move(*expression));
  }
  out->document_ = JsonDocument::Parse(
      out->has_config_ ? config->source : MakeSource("", "{}"), findings);
  if (out->document_ == nullptr) return nullptr;
  const JsonValue root = TextPart(*out->document_);
  out->loud_ =
      std::make_unique<families::Evaluator>(out->family_, root, "hf", findings);
  out->quiet_ = std::make_unique<families::Evaluator>(out->family_, root, "hf",
                                                      out->unsaid_);
  return out;
}

void Formulas::SetLayer(int64_t layer) {
  for (auto* evaluator : {loud_.get(), quiet_.get()}) {
    if (bound_) evaluator->Unbind();
    evaluator->Bind("i", {families::Value::Kind::kInteger, layer, {}, {}, {}});
  }
  bound_ = true;
}

void Formulas::SetDim(const std::string& name, int64_t size) {
  dims_[name] = size;
  for (auto& let : family_.let) {
    if (let.first != name) continue;
    let.second = {families::Expression::Kind::kNumber, size, {}, {}};
  }
}

const families::Expression* Formulas::Parsed(const DescribedText& text) {
  auto known = parsed_.find(text.text);
  if (known == parsed_.end()) {
    known = parsed_
                .emplace(text.text, families::ParseExpression(
                                        text.text, text.place, *findings_))
                .first;
  }
  return known->second ? &*known->second : nullptr;
}

std::optional<families::Value> Formulas::Value(const DescribedText& text) {
  const auto* expression = Parsed(text);
  if (expression == nullptr) return std::nullopt;
  return Settings().Evaluate(*expression);
}

std::optional<int64_t> Formulas::Integer(const DescribedText& text) {
  const auto* expression = Parsed(text);
  if (expression == nullptr) return std::nullopt;
  return loud_->Integer(*expression);
}

std::optional<int64_t> Formulas::Dim(std::string_view name) {
  const auto known = dims_.find(name);
  if (known != dims_.end()) return known->second;
  const families::Expression* const let = family_.FindLet(name);
  if (let == nullptr) return std::nullopt;
  const families::Expression word = {
      families::Expression::Kind::kName, 0, std::string(name), {}};
  const auto value = quiet_->Integer(word);
  if (!value || *value < 1) return std::nullopt;
  dims_.emplace(name, *value);
  return value;
}

std::optional<int64_t> Formulas::Known(std::string_view name) const {
  const auto known = dims_.find(name);
  if (known != dims_.end()) return known->second;
  const families::Expression* const let = family_.FindLet(name);
  if (let == nullptr || let->kind != families::Expression::Kind::kNumber) {
    return std::nullopt;
  }
  return let->number;
}

std::optional<double> Formulas::Bounded(const JsonValue& number,
                                        const std::string& text) {
  if (std::abs(number.real()) <= kLargestModelNumber) return number.real();
  findings_->Add(code::kLimit, number.place(),
                 "`" + text + "` is larger than in any model",
                 "numbers from -1e12 to 1e12 are read");
  return std::nullopt;
}

std::optional<double> Formulas::Real(const DescribedText& text) {
  const auto value = Value(text);
  if (!value) return std::nullopt;
  if (value->kind == families::Value::Kind::kInteger) {
    return static_cast<double>(value->number);
  }
  if (value->kind == families::Value::Kind::kJson &&
      value->json.kind() == JsonKind::kReal) {
    return Bounded(value->json, text.text);
  }
  if (value->kind == families::Value::Kind::kText) {
    // The expression language writes numbers that are not integers as text,
    // such as '0.1'.
    const std::string& digits = value->text;
    double number = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc{} && end == digits.data() + digits.size() &&
        std::abs(number) <= kLargestModelNumber) {
      return number;
    }
  }
  if (value->kind != families::Value::Kind::kNull) {
    findings_->Add(code::kNumber, text.place,
                   "`" + text.text + "` is not a number");
  }
  return std::nullopt;
}

std::optional<std::string> Formulas::Word(const DescribedText& text) {
  const auto value = Value(text);
  if (!value || value->kind == families::Value::Kind::kNull) {
    return std::nullopt;
  }
  if (value->kind == families::Value::Kind::kText) return value->text;
  findings_->Add(code::kSchema, text.place, "`" + text.text + "` is no word");
  return std::nullopt;
}

bool Formulas::Condition(const DescribedText& text) {
  const auto* expression = Parsed(text);
  return expression != nullptr &&
         Settings().Condition(*expression).value_or(false);
}

bool Formulas::DependsOnLayer(const DescribedText& text) {
  const auto* expression = text.text.empty() ? nullptr : Parsed(text);
  return expression != nullptr && NamesLayer(*expression);
}

std::optional<double> Formulas::Key(const std::string& name) {
  const auto found = TextPart(*document_).Find(name);
  if (!found) return std::nullopt;
  switch (found->kind()) {
    case JsonKind::kInteger:
    case JsonKind::kUnsigned:
    case JsonKind::kReal:
      return Bounded(*found, name);
    default:
      return std::nullopt;
  }
}

}  // namespace shardc::step
