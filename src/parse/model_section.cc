// Lines and dimensions are small languages of their own, read by one scanner of
// words and signs; what names mean is settled where the model is built, since
// only there is it known which roles a manifest has.
//
//   kn, w = part(kv, p+w) @q   ->  results kn, w; op part; arguments kv and
//                                  (p, w); anchor q
//   n (p+r)                    ->  factors n and (p, r)
#include "parse/model_section.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string>
#include <utility>

#include "parse/keys.h"
#include "source/wording.h"
#include "yaml/read.h"

namespace shardc {
namespace {

// Of a section and of one of its ops: what people write has tens.
constexpr size_t kMostLines = 1000, kMostOperands = 64;

// Keys whose whole value is an expression, and those that have members.
constexpr std::array<std::string_view, 11> kExpressions = {
    "per_row",    "top_k", "window",   "chunks",       "causal", "distance",
    "activation", "scale", "soft_cap", "extra_layers", "z_loss"};

bool IsWordStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool IsWordPart(char c) {
  return IsWordStart(c) || (c >= '0' && c <= '9') || c == '.';
}
bool IsNumberPart(char c) { return (c >= '0' && c <= '9') || c == '.'; }

// Words and signs, blanks between them skipped.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool AtEnd() {
    SkipBlanks();
    return at_ == text_.size();
  }
  bool Take(char sign) {
    SkipBlanks();
    if (at_ == text_.size() || text_[at_] != sign) return false;
    ++at_;
    return true;
  }
  std::string Word() {
    SkipBlanks();
    if (at_ == text_.size() || !IsWordStart(text_[at_])) return {};
    return Run(IsWordPart);
  }
  std::optional<double> Number() {
    SkipBlanks();
    const bool negative = at_ < text_.size() && text_[at_] == '-';
    const size_t begin = at_;
    if (negative) ++at_;
    const std::string digits = Run(IsNumberPart);
    double value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc{} && end == digits.data() + digits.size()) {
      return negative ? -value : value;
    }
    at_ = begin;
    return std::nullopt;
  }

 private:
  void SkipBlanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  std::string Run(bool (*part)(char)) {
    const size_t begin = at_;
    while (at_ < text_.size() && part(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string_view text_;
  size_t at_ = 0;
};

// `a+b` behind its first word; empty where a word is wanting.
std::vector<std::string> Sum(Scanner& scanner) {
  std::vector<std::string> words;
  do {
    words.push_back(scanner.Word());
    if (words.back().empty()) return {};
  } while (scanner.Take('+'));
  return words;
}

std::optional<DescribedArgument> Argument(Scanner& scanner) {
  DescribedArgument argument;
  if (const auto number = scanner.Number()) {
    argument.is_number = true;
    argument.number = *number;
    return argument;
  }
  argument.names = Sum(scanner);
  if (argument.names.empty()) return std::nullopt;
  argument.optional = scanner.Take('?');
  return argument;
}

class Reader {
 public:
  explicit Reader(const YamlContext& context) : context_(context) {}

  std::shared_ptr<ModelDescription> Read(const YamlNode& node) {
    const size_t before = context_.findings.errors();
    const auto fields = Fields::Read(context_, node, keys::kModel);
    if (!fields) return nullptr;
    out_->source = context_.document.source();
    if (const YamlNode* at = fields->Require(context_, node, "dims")) {
      ReadDims(*at);
    }
    if (const YamlNode* at = fields->Find("axes")) ReadAxes(*at);
    ReadStack(*fields, node, 0);
    if (const YamlNode* at = fields->Find("encoder")) ReadEncoder(*at);
    if (const YamlNode* at = fields->Find("skip")) ReadSkip(*at);
    for (const std::string_view key : kExpressions) {
      if (const YamlNode* at = fields->Find(key)) {
        Setting(std::string(key), *at);
      }
    }
    ReadGroup(*fields, "router", keys::kModelRouter);
    ReadGroup(*fields, "rope", keys::kModelRope);
    ReadGroup(*fields, "norm", keys::kModelNorm);
    ReadGroup(*fields, "slopes", keys::kModelSlopes);
    if (const YamlNode* at = fields->Find("constants")) ReadConstants(*at);
    return context_.findings.errors() > before ? nullptr : out_;
  }

 private:
  Place PlaceOf(const YamlNode& node) const {
    return context_.document.PlaceOf(node);
  }

  bool IsMap(const YamlNode& node, std::string_view what) {
    if (node.IsMapping()) return true;
    context_.Add(
        code::kSchema, node,
        "`" + std::string(what) + "` is " + Describe(node) + ", not a mapping");
    return false;
  }

  // Numbers and truth values are expressions too.
  void Expression(const YamlNode& node, std::string_view what,
                  DescribedText& out) {
    if (!node.IsScalar() || node.text.empty()) {
      context_.Add(
          code::kSchema, node,
          std::string(what) + " is " + Describe(node) + ", not an expression",
          "write a key of the config.json or a formula of them");
      return;
    }
    if (RefuseTag(context_, node)) return;
    out = {node.text, PlaceOf(node)};
  }

  void Setting(std::string key, const YamlNode& node) {
    if (node.IsNull()) return;
    DescribedText text;
    Expression(node, "`" + key + "`", text);
    if (!text.text.empty()) out_->settings[std::move(key)] = std::move(text);
  }

  void ReadGroup(const Fields& fields, const std::string& name,
                 const KeyTable& table) {
    const YamlNode* const node = fields.Find(name);
    if (node == nullptr || node->IsNull()) return;
    const auto members = Fields::Read(context_, *node, table);
    if (!members) return;
    for (const std::string_view key : table.keys) {
      if (const YamlNode* at = members->Find(key)) {
        Setting(name + "." + std::string(key), *at);
      }
    }
  }

  void ReadStack(const Fields& fields, const YamlNode& node, size_t stack) {
    DescribedStack& to = out_->stacks[stack];
    if (const YamlNode* at = fields.Require(context_, node, "repeat")) {
      Expression(*at, "`repeat`", to.repeat);
    }
    if (const YamlNode* at = fields.Require(context_, node, "params")) {
      ReadRoles(*at, stack);
    }
    ReadLines(fields, "begin", to.begin);
    ReadLines(fields, "layer", to.layer);
    ReadLines(fields, "end", to.end);
  }

  void ReadEncoder(const YamlNode& node) {
    if (node.IsNull()) return;
    const auto fields = Fields::Read(context_, node, keys::kModelEncoder);
    if (!fields) return;
    out_->stacks.emplace_back();
    ReadStack(*fields, node, kEncoderStack);
    if (const YamlNode* at = fields->Find("length")) {
      Setting("encoder.length", *at);
    }
  }

  // Numbers that lines may name.
  void ReadConstants(const YamlNode& node) {
    if (!IsMap(node, "constants")) return;
    for (const YamlMember& member : node.members) {
      const auto name = ReadKey(context_, member.key, code::kSchema,
                                "the name of a constant");
      if (name) Setting("constants." + *name, member.value);
    }
  }

  void ReadDims(const YamlNode& node) {
    if (!IsMap(node, "dims")) return;
    static constexpr std::array<std::string_view, 6> kReserved = {
        "b", "t", "s", "u", "te", "se"};
    for (const YamlMember& member : node.members) {
      auto name = ReadKey(context_, member.key, code::kSchema,
                          "the name of a dimension");
      if (!name) continue;
      const auto dim = ParseDescribedDim(*name);
      const bool one = dim && dim->factors.size() == 1 &&
                       dim->factors[0].size() == 1 &&
                       dim->factors[0][0] == *name;
      const bool reserved = std::find(kReserved.begin(), kReserved.end(),
                                      *name) != kReserved.end();
      if (!one || reserved) {
        context_.Add(code::kSchema, member.key,
                     "`" + *name + "` cannot be the name of a dimension",
                     reserved ? "`b`, `t`, `s`, `u`, `te` and `se` are every"
                                " model's own"
                              : "write one word, such as `d`");
        continue;
      }
      DescribedText size;
      Expression(member.value, "the size of `" + *name + "`", size);
      known_.insert(*name);
      out_->dims.emplace_back(std::move(*name), std::move(size));
    }
  }

  void ReadAxes(const YamlNode& node) {
    if (!IsMap(node, "axes")) return;
    for (const YamlMember& member : node.members) {
      const auto name = ReadKey(context_, member.key, code::kSchema,
                                "the name of a dimension");
      if (!name || !IsKnown(*name, member.key)) continue;
      auto axis = ReadText(context_, member.value, "a semantic axis", true);
      if (axis) out_->axes[*name] = std::move(*axis);
    }
  }

  bool IsKnown(const std::string& dim, const YamlNode& node) {
    if (known_.contains(dim)) return true;
    context_.Add(code::kSchema, node,
                 "`" + dim + "` is not one of this model's `dims`");
    return false;
  }

  void ReadRoles(const YamlNode& node, size_t stack) {
    if (!IsMap(node, "params")) return;
    for (const YamlMember& member : node.members) {
      if (context_.findings.Full()) return;
      auto name =
          ReadKey(context_, member.key, code::kSchema, "the name of a role");
      if (!name) continue;
      DescribedRole role;
      role.place = PlaceOf(member.key);
      role.stack = stack;
      role.optional = name->ends_with('?');
      if (role.optional) name->pop_back();
      role.name = std::move(*name);
      if (ReadRole(member.value, role)) out_->roles.push_back(std::move(role));
    }
  }

  // [pattern, [dims], {tied: role, shared: true, when: condition}]
  bool ReadRole(const YamlNode& node, DescribedRole& role) {
    const auto& items = node.items;
    if (!node.IsSequence() || items.size() < 2 || items.size() > 3 ||
        !items[1].IsSequence()) {
      context_.Add(code::kSchema, node,
                   "the role `" + role.name +
                       "` is not a pattern with a list of dimensions",
                   R"(write `['q_proj\.weight$', [n h, d]]`)");
      return false;
    }
    auto pattern = ReadText(context_, items[0], "a role's pattern", true);
    if (!pattern) return false;
    role.pattern = {std::move(*pattern), PlaceOf(items[0])};
    for (const YamlNode& item : items[1].items) {
      auto dim = item.IsScalar() ? ParseDescribedDim(item.text) : std::nullopt;
      if (!dim) {
        context_.Add(code::kSchema, item,
                     Describe(item) + " is not a dimension",
                     "write `d`, `n h` or `(c+r)`");
        return false;
      }
      dim->place = PlaceOf(item);
      for (const auto& parts : dim->factors) {
        for (const std::string& part : parts) {
          if (!IsKnown(part, item)) return false;
        }
      }
      role.dims.push_back(std::move(*dim));
    }
    return items.size() < 3 || ReadOptions(items[2], role);
  }

  bool ReadOptions(const YamlNode& node, DescribedRole& role) {
    const auto fields = Fields::Read(context_, node, keys::kModelOptions);
    if (!fields) return false;
    if (const YamlNode* when = fields->Find("when")) {
      Expression(*when, "`when`", role.when);
    }
    if (const YamlNode* shared = fields->Find("shared")) {
      role.shared = ReadBool(context_, *shared, "`shared`").value_or(false);
    }
    const YamlNode* const tied = fields->Find("tied");
    if (tied == nullptr) return true;
    auto name = ReadText(context_, *tied, "`tied`", true);
    if (!name) return false;
    role.tied = std::move(*name);
    return true;
  }

  void ReadSkip(const YamlNode& node) {
    const auto add = [&](const YamlNode& item) {
      auto text = ReadText(context_, item, "an entry of `skip`", true);
      if (text) out_->skip.push_back({std::move(*text), PlaceOf(item)});
    };
    if (node.IsSequence()) {
      for (const YamlNode& item : node.items) add(item);
    } else if (!node.IsNull()) {
      add(node);
    }
  }

  void ReadLines(const Fields& fields, std::string_view key,
                 std::vector<DescribedLine>& out) {
    const YamlNode* const node = fields.Find(key);
    if (node == nullptr || node->IsNull()) return;
    if (!node->IsSequence()) {
      context_.Add(code::kSchema, *node,
                   "`" + std::string(key) + "` is " + Describe(*node) +
                       ", not a list of ops");
      return;
    }
    if (node->items.size() > kMostLines) {
      context_.Add(code::kLimit, *node,
                   "`" + std::string(key) + "` has more than " +
                       CountText(kMostLines) + " ops");
      return;
    }
    for (const YamlNode& item : node->items) {
      auto line =
          item.IsScalar() ? ParseDescribedLine(item.text) : std::nullopt;
      if (!line) {
        context_.Add(code::kSchema, item, Describe(item) + " is not an op",
                     "write `y = rmsnorm(x, norm1) @normed`");
        continue;
      }
      if (IsLong(*line)) {
        context_.Add(code::kLimit, item,
                     "`" + line->op + "` has more than " +
                         CountText(kMostOperands) + " operands or results");
        continue;
      }
      line->place = PlaceOf(item);
      line->when.place = line->place;
      out.push_back(std::move(*line));
    }
  }

  static bool IsLong(const DescribedLine& line) {
    return line.results.size() > kMostOperands ||
           line.arguments.size() > kMostOperands ||
           std::any_of(line.arguments.begin(), line.arguments.end(),
                       [](const DescribedArgument& argument) {
                         return argument.names.size() > kMostOperands;
                       });
  }

  const YamlContext& context_;
  std::set<std::string, std::less<>> known_;  // dims
  std::shared_ptr<ModelDescription> out_ = std::make_shared<ModelDescription>();
};

}  // namespace

std::optional<DescribedDim> ParseDescribedDim(std::string_view text) {
  Scanner scanner(text);
  DescribedDim dim;
  while (!scanner.AtEnd()) {
    const bool sum = scanner.Take('(');
    auto parts = sum ? Sum(scanner) : std::vector<std::string>{scanner.Word()};
    const bool empty = parts.empty() || parts[0].empty();
    if (empty || (sum && !scanner.Take(')'))) return std::nullopt;
    dim.factors.push_back(std::move(parts));
  }
  if (dim.factors.empty()) return std::nullopt;
  return dim;
}

std::optional<DescribedLine> ParseDescribedLine(std::string_view text) {
  static constexpr std::string_view kIf = " if ";
  DescribedLine line;
  if (const size_t at = text.find(kIf); at != text.npos) {
    line.when.text = text.substr(at + kIf.size());
    text = text.substr(0, at);
  }
  Scanner scanner(text);
  do {
    line.results.push_back(scanner.Word());
    if (line.results.back().empty()) return std::nullopt;
  } while (scanner.Take(','));
  if (!scanner.Take('=')) return std::nullopt;
  line.op = scanner.Word();
  if (line.op.empty() || !scanner.Take('(')) return std::nullopt;
  do {
    auto argument = Argument(scanner);
    if (!argument) return std::nullopt;
    line.arguments.push_back(std::move(*argument));
  } while (scanner.Take(','));
  if (!scanner.Take(')')) return std::nullopt;
  if (scanner.Take('@')) {
    line.constraint = scanner.Word();
    if (line.constraint.empty()) return std::nullopt;
  }
  if (!scanner.AtEnd()) return std::nullopt;
  return line;
}

std::shared_ptr<ModelDescription> ReadModelSection(const YamlContext& context,
                                                   const YamlNode& node) {
  return Reader(context).Read(node);
}

}  // namespace shardc
