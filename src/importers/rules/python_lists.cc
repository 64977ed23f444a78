// Reads brackets of Python that hold pairs of a string and a spec:
//
//   return (
//       ("embed_tokens/embedding", P("tp", ("fsdp", "sp"))),
//       ("norm/kernel", PartitionSpec(None)),  # a comment
//   )
#include "importers/rules/python_lists.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "source/utf8.h"

namespace shardc::imports {
namespace {

constexpr int kDeepest = 64;
constexpr size_t kMostRules = 10'000;

// Texts are stored as characters, because pointers are relocated at each start.
using Word = char[20];
constexpr Word kSpecs[] = {"PartitionSpec", "P", "PS", "Ps"};
constexpr Word kWays[] = {"ColumnWise", "RowWise",     "Replicated",
                          "SRowWise",   "SColumnWise", "ExpertColumnWise"};

bool IsOneOf(std::string_view name, std::span<const Word> words) {
  return std::ranges::any_of(words,
                             [&](const Word& word) { return name == word; });
}

class Reader {
 public:
  explicit Reader(const SourceRef& source)
      : source_(source), text_(source->text()) {}

  std::vector<PythonList> Read() {
    std::vector<PythonList> out;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        Comment();
      } else if (c == '"' || c == '\'') {
        String(false);
      } else if (c == '(' || c == '[') {
        const size_t begin = at_;
        auto list = List();
        if (list) {
          list->place = {source_, begin, at_};
          out.push_back(std::move(*list));
        } else {
          at_ = begin + 1;
        }
      } else {
        ++at_;
      }
    }
    return out;
  }

 private:
  void Comment() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  void Blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        Comment();
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\\') {
        ++at_;
      } else {
        return;
      }
    }
  }

  bool Take(char c) {
    Blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  // Reads a string from its quote on, and moves past it.
  std::string String(bool raw) {
    const char quote = text_[at_];
    const std::string three(3, quote);
    const bool long_string = text_.substr(at_).starts_with(three);
    at_ += long_string ? 3 : 1;
    std::string out;
    while (at_ < text_.size()) {
      if (long_string ? text_.substr(at_).starts_with(three)
                      : text_[at_] == quote) {
        at_ += long_string ? 3 : 1;
        return out;
      }
      if (!long_string && text_[at_] == '\n') return out;
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        const char next = text_[at_ + 1];
        const bool escape = !raw && (next == '\\' || next == quote);
        if (!escape) out += '\\';
        out += next;
        at_ += 2;
        continue;
      }
      out += text_[at_++];
    }
    return out;
  }

  // Reads string literals that follow one another. Returns nullopt for another
  // expression, such as an f-string.
  std::optional<std::string> Literal() {
    std::optional<std::string> out;
    for (;;) {
      Blanks();
      size_t quote = at_;
      bool raw = false;
      while (quote < text_.size() && quote - at_ < 2 &&
             std::string_view("rRuU").find(text_[quote]) !=
                 std::string_view::npos) {
        raw = raw || text_[quote] == 'r' || text_[quote] == 'R';
        ++quote;
      }
      if (quote >= text_.size() ||
          (text_[quote] != '"' && text_[quote] != '\'')) {
        return out;
      }
      at_ = quote;
      out = out.value_or("") + String(raw);
    }
  }

  // Reads a name with dots, such as `jax.sharding.PartitionSpec`, and returns
  // its last part.
  std::string_view Name() {
    Blanks();
    size_t begin = at_;
    while (at_ < text_.size() &&
           (IsWordByte(text_[at_]) || text_[at_] == '.')) {
      if (text_[at_] == '.') begin = at_ + 1;
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  // Reads an entry of a spec: None, an axis, or axes in brackets.
  bool Entry(SpecList& spec) {
    Blanks();
    SpecEntry entry;
    if (text_.substr(at_).starts_with("None")) {
      at_ += 4;
    } else if (at_ < text_.size() && (text_[at_] == '(' || text_[at_] == '[')) {
      const char close = text_[at_] == '(' ? ')' : ']';
      ++at_;
      while (!Take(close)) {
        const auto axis = Literal();
        if (!axis) return false;
        entry.names.push_back(NameOf(*axis));
        Take(',');
      }
    } else {
      const auto axis = Literal();
      if (!axis) return false;
      entry.names.push_back(NameOf(*axis));
    }
    spec.entries.push_back(std::move(entry));
    return true;
  }

  static SpecName NameOf(const std::string& axis) {
    SpecName name;
    name.text = axis;
    name.is_mesh_axis = true;
    return name;
  }

  // Reads `PartitionSpec(...)`. Returns nullopt for an expression that is no
  // literal; the cursor is then anywhere in it.
  std::optional<SpecList> Spec() {
    if (!IsOneOf(Name(), kSpecs) || !Take('(')) return std::nullopt;
    SpecList out;
    while (!Take(')')) {
      if (!Entry(out)) return std::nullopt;
      Blanks();
      if (at_ < text_.size() && text_[at_] != ')' && !Take(',')) {
        return std::nullopt;
      }
      if (at_ >= text_.size()) return std::nullopt;
    }
    Blanks();
    const bool ends =
        at_ < text_.size() &&
        (text_[at_] == ',' || text_[at_] == ')' || text_[at_] == ']');
    if (!ends) return std::nullopt;
    return out;
  }

  // Moves past an expression, to the comma or bracket that ends it. Returns
  // whether it names a way to shard.
  bool SkipExpression(bool& shards) {
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        Comment();
        continue;
      }
      if (c == '"' || c == '\'') {
        String(false);
        continue;
      }
      if (IsWordByte(c)) {
        const std::string_view name = Name();
        shards = shards || IsOneOf(name, kSpecs) || IsOneOf(name, kWays);
        if (name.empty()) ++at_;
        continue;
      }
      if (depth == 0 && (c == ',' || c == ')' || c == ']')) return true;
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      if (depth > kDeepest || depth < 0) return false;
      ++at_;
    }
    return false;
  }

  // Reads a pair after its opening bracket.
  bool Pair(char close, PythonList& list, bool& shards) {
    Blanks();
    Rule rule;
    const size_t begin = at_;
    const auto pattern = Literal();
    if (!pattern) return false;
    rule.match = *pattern;
    rule.match_place = {source_, begin, at_};
    if (!Take(',')) return false;
    Blanks();
    const size_t spec_begin = at_;
    auto spec = Spec();
    if (spec) {
      ++list.literal_specs;
      shards = true;
      rule.spec = std::move(*spec);
    } else {
      at_ = spec_begin;
      rule.spec = SpecList();
      if (!SkipExpression(shards)) return false;
    }
    Take(',');
    if (!Take(close)) return false;
    rule.place = {source_, begin, at_};
    rule.source_name = source_->name();
    list.rules.push_back(std::move(rule));
    return list.rules.size() < kMostRules;
  }

  // Reads a list of pairs from its bracket on.
  std::optional<PythonList> List() {
    const char close = text_[at_] == '(' ? ')' : ']';
    ++at_;
    PythonList out;
    bool shards = false;
    while (!Take(close)) {
      Blanks();
      if (at_ >= text_.size() || (text_[at_] != '(' && text_[at_] != '[')) {
        return std::nullopt;
      }
      const char inner = text_[at_] == '(' ? ')' : ']';
      ++at_;
      if (!Pair(inner, out, shards)) return std::nullopt;
      const bool comma = Take(',');
      // Brackets around one pair, without a comma, are no list of Python.
      if (!comma && close == ')' && out.rules.size() == 1) return std::nullopt;
    }
    if (!shards || out.rules.empty()) return std::nullopt;
    return out;
  }

  const SourceRef& source_;
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::vector<PythonList> ReadPythonLists(const SourceRef& source) {
  return Reader(source).Read();
}

}  // namespace shardc::imports
