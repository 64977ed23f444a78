// Converts the texts of a configuration to values, and evaluates expressions.
// For example, `--moe-layer-freq [0]+[1]*4` is the list [0, 1, 1, 1, 1].
#include "systems/values.h"

#include <algorithm>
#include <utility>

#include "source/json_writer.h"
#include "source/sink.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc::systems {
namespace {

constexpr size_t kLongestList = 10000;

std::string JsonString(std::string_view text) {
  return TextOf([&](Sink& out) { JsonWriter(out).String(text); });
}

bool IsInteger(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.size() < 19 &&
         std::all_of(text.begin(), text.end(), IsDigit) &&
         (text.size() == 1 || text[0] != '0');
}

// Returns whether the text is a number of JSON with a fraction or an exponent.
bool IsReal(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  size_t at = 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && IsDigit(text[at])) ++at;
    return at > begin;
  };
  if (!digits() || (at > 1 && text[0] == '0')) return false;
  const size_t integer = at;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (!digits()) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    const size_t exponent = at;
    // No number of a configuration is larger than a double.
    if (!digits() || at - exponent > 2) return false;
  }
  return at == text.size() && at > integer && at < 40;
}

// Reads lists of integers with the operators + and *, as Python does.
class ListReader {
 public:
  explicit ListReader(std::string_view text) : text_(text) {}

  std::optional<std::vector<int64_t>> Read() {
    auto out = Sum(0);
    Skip();
    return at_ == text_.size() ? std::move(out) : std::nullopt;
  }

 private:
  using List = std::optional<std::vector<int64_t>>;

  void Skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) {
      ++at_;
    }
  }
  bool Take(char c) {
    Skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::optional<int64_t> Number() {
    Skip();
    const size_t begin = at_;
    if (at_ < text_.size() && text_[at_] == '-') ++at_;
    while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    if (!IsInteger(word)) return std::nullopt;
    return std::stoll(word);
  }
  List Sum(int depth) {
    auto out = Product(depth);
    while (out && Take('+')) {
      const auto more = Product(depth);
      if (!more || out->size() + more->size() > kLongestList) {
        return std::nullopt;
      }
      out->insert(out->end(), more->begin(), more->end());
    }
    return out;
  }
  List Product(int depth) {
    auto out = Primary(depth);
    while (out && Take('*')) {
      const auto times = Number();
      if (!times || *times < 0 || *times > static_cast<int64_t>(kLongestList) ||
          out->size() * static_cast<size_t>(*times) > kLongestList) {
        return std::nullopt;
      }
      const std::vector<int64_t> one = *out;
      out->clear();
      for (int64_t i = 0; i < *times; ++i) {
        out->insert(out->end(), one.begin(), one.end());
      }
    }
    return out;
  }
  List Primary(int depth) {
    if (depth > 32) return std::nullopt;
    if (Take('(')) {
      auto inner = Sum(depth + 1);
      return inner && Take(')') ? std::move(inner) : std::nullopt;
    }
    if (!Take('[')) return std::nullopt;
    std::vector<int64_t> out;
    if (Take(']')) return out;
    do {
      const auto number = Number();
      if (!number) return std::nullopt;
      out.push_back(*number);
    } while (Take(','));
    return Take(']') ? List(std::move(out)) : std::nullopt;
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::string TextOfValue(const families::Value& value) {
  using Kind = families::Value::Kind;
  switch (value.kind) {
    case Kind::kNull:
      return "none";
    case Kind::kUnknown:
      return {};
    case Kind::kBool:
      return value.number != 0 ? "true" : "false";
    case Kind::kInteger:
      return std::to_string(value.number);
    case Kind::kText:
      return value.text;
    case Kind::kList:
      return Join(value.items, ", ", TextOfValue);
    case Kind::kJson: {
      const Place place = value.json.place();
      if (place.source == nullptr) return {};
      return std::string(
          place.source->text().substr(place.begin, place.end - place.begin));
    }
  }
  return {};
}

}  // namespace

std::optional<LayoutText> ParseLayout(std::string_view text) {
  // Repetitions are written out first: `(tt|)*3` and `t*3`.
  std::string flat;
  std::vector<size_t> opens;
  size_t last = 0;  // where the part that `*` repeats begins
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == ' ' || c == ',' || c == '\n') continue;
    if (c == '(') {
      opens.push_back(flat.size());
    } else if (c == ')') {
      if (opens.empty()) return std::nullopt;
      last = opens.back();
      opens.pop_back();
    } else if (c == '*') {
      int64_t times = 0;
      while (at + 1 < text.size() && IsDigit(text[at + 1]) && times < 10000) {
        times = times * 10 + (text[++at] - '0');
      }
      const std::string part = flat.substr(last);
      if (times < 1 || part.size() * static_cast<size_t>(times) > 100000) {
        return std::nullopt;
      }
      for (int64_t i = 1; i < times; ++i) flat += part;
    } else if (std::string_view("EtmL|").find(c) != std::string_view::npos) {
      last = flat.size();
      flat += c;
    } else {
      return std::nullopt;
    }
    if (flat.size() > 200000) return std::nullopt;
  }
  if (!opens.empty() || flat.empty()) return std::nullopt;
  LayoutText out;
  out.begins_with_embedding = flat.front() == 'E';
  out.ends_with_loss = flat.back() == 'L';
  out.layers.push_back(0);
  for (const char c : flat) {
    if (c == '|') out.layers.push_back(0);
    if (c == 't') ++out.layers.back();
  }
  return out;
}

std::optional<std::vector<int64_t>> ParseNumbers(std::string_view text) {
  std::vector<int64_t> out;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string word(Trim(text.substr(0, comma)));
    if (!IsInteger(word) || word[0] == '-' || out.size() > kLongestList) {
      return std::nullopt;
    }
    out.push_back(std::stoll(word));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  if (out.empty()) return std::nullopt;
  return out;
}

std::optional<std::string> JsonOf(const KnownValue& value) {
  std::string text(Trim(value.text));
  // An object is neither a number nor a text, so that no default replaces the
  // value.
  if (value.unknown) return "{}";
  if (value.quoted) return JsonString(text);
  if (text == "None" || text == "null" || text == "~") return std::nullopt;
  if (text == "true" || text == "True") return "true";
  if (text == "false" || text == "False") return "false";
  std::string digits = text;
  if (!digits.empty() && IsDigit(digits[0])) std::erase(digits, '_');
  if (IsInteger(digits)) return digits;
  if (IsReal(digits)) return digits;
  if (!text.empty() && (text[0] == '[' || text[0] == '(')) {
    if (const auto list = ListReader(text).Read()) {
      return "[" + Join(*list, ", ") + "]";
    }
  }
  return JsonString(text);
}

namespace {

// Returns whether a key has the layout of a pipeline.
bool IsLayoutKey(const System& system, const std::string& name) {
  return system.stages &&
         std::ranges::any_of(system.stages->rows, [&](const StageRow& row) {
           return row.method == StageMethod::kLayout && row.value &&
                  row.value->text == name;
         });
}

}  // namespace

std::unique_ptr<Values> Values::Make(
    const System& system, std::map<std::string, KnownValue> known,
    const std::vector<std::pair<std::string, std::string>>& sections) {
  auto out = std::unique_ptr<Values>(new Values());
  out->system_ = &system;
  std::string json = "{";
  const auto add = [&](std::string_view name, std::string_view value) {
    if (json.size() > 1) json += ", ";
    json += JsonString(name) + ": " + std::string(value);
  };
  for (const auto& [name, value] : known) {
    // A value that `let` computes from a key of its name is bound by `let`.
    const bool defined = std::ranges::any_of(
        system.tree.let,
        [&name = name](const auto& let) { return let.first == name; });
    if (value.unknown && !defined) out->unknown_.push_back(name);
    if (value.maybe) continue;
    if (const auto text = JsonOf(value)) add(name, *text);
    // What a layout states is known to the expressions by these names.
    const auto layout = value.text.find_first_of("|t") == std::string::npos
                            ? std::nullopt
                            : ParseLayout(value.text);
    if (!layout && IsLayoutKey(system, name) && value.text != "null") {
      for (const std::string_view part :
           {"_stages", "_layers", "_embeds", "_losses"}) {
        out->unknown_.push_back(name + std::string(part));
      }
    }
    if (layout) {
      int64_t layers = 0;
      for (const int64_t one : layout->layers) layers += one;
      add(name + "_stages", std::to_string(layout->layers.size()));
      add(name + "_layers", std::to_string(layers));
      add(name + "_embeds", layout->begins_with_embedding ? "true" : "false");
      add(name + "_losses", layout->ends_with_loss ? "true" : "false");
    }
  }
  for (const auto& [name, value] : sections) add(name, value);
  json += "}";
  Findings ignored;
  out->document_ =
      JsonDocument::Parse(MakeSource("values", std::move(json)), ignored);
  if (out->document_ == nullptr) return nullptr;
  out->known_ = std::move(known);
  return out;
}

template <class Use>
auto Values::With(const Use& use, std::string* why) {
  Findings findings;
  families::Evaluator evaluator(system_->tree, document_->root(), "hf",
                                findings);
  for (const std::string& name : unknown_) {
    evaluator.Bind(name, {families::Value::Kind::kUnknown, 0, {}, {}, {}});
  }
  auto out = use(evaluator);
  if (!out && why != nullptr) {
    *why = findings.empty() ? "it depends on a key whose value is not known"
                            : findings.all().front().message;
  }
  return out;
}

std::optional<int64_t> Values::Integer(const families::Expression& expression,
                                       std::string* why) {
  return With(
      [&](families::Evaluator& values) { return values.Integer(expression); },
      why);
}

std::optional<bool> Values::Condition(const families::Expression& expression,
                                      std::string* why) {
  return With(
      [&](families::Evaluator& values) { return values.Condition(expression); },
      why);
}

std::optional<std::string> Values::Text(const families::Expression& expression,
                                        std::string* why) {
  return With(
      [&](families::Evaluator& values) -> std::optional<std::string> {
        const auto value = values.Evaluate(expression);
        if (!value) return std::nullopt;
        return TextOfValue(*value);
      },
      why);
}

std::optional<int64_t> Values::Named(const std::string& name,
                                     std::string* why) {
  families::Expression expression;
  expression.kind = families::Expression::Kind::kName;
  expression.text = name;
  return Integer(expression, why);
}

std::string Values::Write(const Message& message) {
  std::string out;
  for (const Message::Part& part : message.parts) {
    out += part.value ? Text(*part.value).value_or("?") : part.text;
  }
  return out;
}

Place Values::PlaceOf(const std::vector<std::string>& keys,
                      const Place& otherwise) const {
  for (const std::string& key : keys) {
    const auto found = known_.find(key);
    if (found != known_.end() && found->second.place.source != nullptr) {
      return found->second.place;
    }
  }
  return otherwise;
}

}  // namespace shardc::systems
