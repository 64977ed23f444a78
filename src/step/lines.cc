// Resolves the names in the lines of a description. The same name may be both a
// variable and a role, so the type of each argument is determined by the
// signature of the line's op. A signature has one letter for each argument:
//
//   v   a variable                       n   a number
//   r   a role                           w   a name or a number
//   d   a dimension, or parts of one
//
// Arguments after `?` are optional, and the argument before `*` may be
// repeated. For example:
//
//   q = linear(y, q)   signature "vr": the variable y, the role q
#include "step/lines.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "families/description.h"
#include "model/legal_sizes.h"
#include "source/wording.h"

namespace shardc::step {
namespace {

// Evaluates the expressions of a description in the language of model families
// (families/description.h). In an expression, a name is either a dimension of
// the description or a key of the config.json. If the config.json has a part
// for text, such as `text_config`, the keys of that part are used. For example,
// in `h: head_dim ?? d // n`, d and n are dimensions, and head_dim is a key.

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

namespace {

// An op that a line may call. `text` describes the op, and each capital letter
// in it stands for the argument of that type in `arguments`.
struct LineSignature {
  std::string_view name;
  LineOp op;
  std::string_view arguments;
  std::string_view text;  // V, R, D, N, W are the arguments
};
constexpr std::array<LineSignature, 30> kSignatures = {{
    {"lookup", LineOp::kLookup, "rv?w",
     "rows of the table R at the token ids V; W is added to them"},
    {"rows", LineOp::kRows, "vv?w",
     "rows of the value V, a table, at the ids V; W is added to them"},
    {"patches", LineOp::kPatches, "rd",
     "the input patches times R, summed over all dimensions but D"},
    {"token", LineOp::kToken, "vn", "token number N of V"},
    {"frames", LineOp::kFrames, "dn",
     "the input frames with D features, N a token"},
    {"convolve", LineOp::kConvolve, "vrd?n",
     "a convolution of V along tokens by R over the kernel dimension D with "
     "stride N"},
    {"linear", LineOp::kLinear, "vr",
     "V times the weight R, plus the bias `R.bias` if the model has it"},
    {"rmsnorm", LineOp::kRmsNorm, "v?r", "root mean square norm of V, times R"},
    {"layernorm", LineOp::kLayerNorm, "v?r",
     "layer norm of V, times R, plus `R.bias` if the model has it"},
    {"gated", LineOp::kGated, "vrr",
     "activation(V times R) times (V times the second R), the activation being "
     "`activation`"},
    {"gated_fused", LineOp::kGatedFused, "vrd",
     "`gated` with both weights in one R, side by side along D"},
    {"swiglu", LineOp::kSwiglu, "vrr", "`gated` with silu"},
    {"geglu", LineOp::kGeglu, "vrr", "`gated` with gelu_tanh"},
    {"activation", LineOp::kActivation, "v",
     "the function `activation` of each element"},
    {"fn", LineOp::kFunction, "vw?w",
     "the function W of each element, with the constant of the second W if it "
     "needs one"},
    {"take", LineOp::kTake, "r", "the parameter R itself"},
    {"add", LineOp::kAdd, "v*",
     "the sum of all V; operands with fewer dimensions are broadcast"},
    {"multiply", LineOp::kMultiply, "vv", "the product of both V"},
    {"scale", LineOp::kScale, "vw", "V times W"},
    {"divide", LineOp::kDivide, "vw", "V divided by W"},
    {"root", LineOp::kRoot, "vd?n",
     "V times the size of D to the power N, by default 0.5"},
    {"cap", LineOp::kCap, "vw", "W tanh(V / W)"},
    {"part", LineOp::kPart, "vd",
     "V split along the dimension D, a sum such as `p+r`: one result a part"},
    {"index", LineOp::kIndex, "vdn", "element N of V along D"},
    {"rename", LineOp::kRename, "vdd",
     "V with the dimension D called as the second D, which has the same size"},
    {"rope", LineOp::kRope, "v", "V rotated by position as `rope` describes"},
    {"attention", LineOp::kAttention, "vvv?r",
     "attention of queries, keys and values V; R are learned sinks, a logit a "
     "head"},
    {"attention_near", LineOp::kAttentionNear, "vvvr",
     "attention whose scores are shifted by the table R of distances between "
     "query and key"},
    {"moe", LineOp::kMoe, "vrrrr",
     "a mixture of experts with router, gate, up and down weights R"},
    {"moe_fused", LineOp::kMoeFused, "vrrr",
     "`moe` with gate and up in one weight"},
}};

class LineReader {
 public:
  LineReader(const ModelDescription& description, Findings& findings)
      : description_(description), findings_(findings) {
    Variable("ids");
    Variable("pos");
    for (size_t i = 0; i < description.dims.size(); ++i) {
      dims_[description.dims[i].first] = static_cast<int32_t>(i);
    }
    for (size_t i = 0; i < description.roles.size(); ++i) {
      roles_[description.roles[i].name] = static_cast<int32_t>(i);
    }
  }

  Lines Run() {
    out_.stacks.resize(description_.stacks.size());
    // The encoder is the last stack. It is resolved first, because the decoder,
    // which is the first stack, uses the encoder's results.
    for (size_t i = description_.stacks.size(); i > 0;) {
      --i;
      Section(description_.stacks[i].begin, out_.stacks[i].begin);
      Section(description_.stacks[i].layer, out_.stacks[i].layer);
      Section(description_.stacks[i].end, out_.stacks[i].end);
    }
    return std::move(out_);
  }

 private:
  using Index = std::map<std::string, int32_t, std::less<>>;

  int32_t Variable(const std::string& name) {
    const auto [at, is_new] =
        variables_.emplace(name, static_cast<int32_t>(out_.variables.size()));
    if (is_new) out_.variables.push_back(name);
    return at->second;
  }

  void Section(const std::vector<DescribedLine>& from, std::vector<Line>& to) {
    for (const DescribedLine& described : from) {
      if (auto line = Resolve(described)) to.push_back(std::move(*line));
    }
  }

  std::optional<Line> Resolve(const DescribedLine& described) {
    const auto* const signature = std::find_if(
        kSignatures.begin(), kSignatures.end(),
        [&](const LineSignature& s) { return s.name == described.op; });
    if (signature == kSignatures.end()) {
      std::vector<std::string_view> names;
      for (const LineSignature& s : kSignatures) names.push_back(s.name);
      findings_.Add(code::kUnknownName, described.place,
                    "there is no op `" + described.op + "`",
                    DidYouMean(described.op, names));
      return std::nullopt;
    }
    Line line;
    line.op = signature->op;
    line.name = described.op;
    line.constraint = described.constraint;
    line.described = &described;
    const Place& place = described.place;
    if (place.HasPosition()) line.number = place.source->At(place.begin).line;
    if (!Arguments(described, *signature, line)) return std::nullopt;
    const size_t given =
        line.op == LineOp::kPart ? line.arguments[1].dims.size() : size_t{1};
    if (described.results.size() != given) {
      findings_.Add(code::kSchema, described.place,
                    "`" + described.op + "` gives " + std::to_string(given) +
                        ", not " + std::to_string(described.results.size()));
      return std::nullopt;
    }
    for (const std::string& result : described.results) {
      line.results.push_back(Variable(result));
    }
    return line;
  }

  bool Arguments(const DescribedLine& described, const LineSignature& signature,
                 Line& line) {
    std::string_view wanted = signature.arguments;
    bool optional = false;
    for (const DescribedArgument& argument : described.arguments) {
      if (!wanted.empty() && wanted[0] == '?') {
        optional = true;
        wanted.remove_prefix(1);
      }
      if (wanted.empty()) return Wrong(described, "too many arguments");
      if (!Argument(described, argument, wanted[0], line)) return false;
      if (wanted.size() < 2 || wanted[1] != '*') wanted.remove_prefix(1);
    }
    const bool whole =
        wanted.empty() || wanted[0] == '?' || optional ||
        (wanted.size() > 1 && wanted[1] == '*' && !described.arguments.empty());
    return whole || Wrong(described, "too few arguments");
  }

  bool Wrong(const DescribedLine& described, const std::string& message) {
    findings_.Add(code::kSchema, described.place,
                  "`" + described.op + "` has " + message);
    return false;
  }

  bool Nothing(const DescribedLine& described, const std::string& name,
               std::string_view what, const Index& known) {
    std::vector<std::string_view> names;
    for (const auto& [word, number] : known) names.push_back(word);
    findings_.Add(code::kUnknownName, described.place,
                  "`" + name + "` is no " + std::string(what),
                  DidYouMean(name, names));
    return false;
  }

  bool Argument(const DescribedLine& described,
                const DescribedArgument& argument, char kind, Line& line) {
    LineArgument out;
    out.number = argument.number;
    const bool wants_number = kind == 'n' || kind == 'w';
    if (argument.is_number != (kind == 'n') &&
        (argument.is_number && !wants_number)) {
      return Wrong(described, "a number where a name is wanted");
    }
    if (kind == 'w' && !argument.is_number) out.word = argument.names[0];
    for (const std::string& name : argument.names) {
      if (kind == 'n') return Wrong(described, "`" + name + "` for a number");
      if (kind == 'v') {
        const auto known = variables_.find(name);
        if (known == variables_.end()) {
          return Nothing(described, name, "value so far", variables_);
        }
        out.variables.push_back(known->second);
      } else if (kind == 'd') {
        const auto known = dims_.find(name);
        if (known == dims_.end()) {
          return Nothing(described, name, "dimension", dims_);
        }
        out.dims.push_back(known->second);
      } else if (kind == 'r') {
        const auto known = roles_.find(name);
        if (known == roles_.end()) {
          return Nothing(described, name, "role", roles_);
        }
        out.role = known->second;
        if (line.name.find(' ') == std::string::npos) line.name += " " + name;
      }
    }
    line.arguments.push_back(std::move(out));
    return true;
  }

  const ModelDescription& description_;
  Findings& findings_;
  Index variables_, dims_, roles_;
  Lines out_;
};

}  // namespace

std::optional<Lines> ResolveLines(const ModelDescription& description,
                                  Findings& findings) {
  const size_t before = findings.errors();
  Lines lines = LineReader(description, findings).Run();
  if (findings.errors() > before) return std::nullopt;
  return lines;
}

std::vector<OpText> OpTexts() {
  std::vector<OpText> out;
  for (const LineSignature& s : kSignatures) {
    out.push_back({s.name, s.arguments, s.text});
  }
  return out;
}

}  // namespace shardc::step
