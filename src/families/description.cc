// Reads the file that describes a model family. The file has the family's model
// classes, its named expressions (`let`), its reusable subtrees (`blocks`) and
// its parameter tree. If the key `like` names another family, that family is
// read first. Whatever this file does not define is then taken from that
// family. The key `uses` also names families, but only their blocks are taken.
//
// For example, `layers[i < num_layers] if deep:` is a node `layers` with
// counter `i`, the count `num_layers` and the condition `deep`.
#include "families/description.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <span>
#include <system_error>
#include <utility>

#include "families/evaluate.h"
#include "source/file.h"
#include "source/list.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "yaml/read.h"
#include "yaml/yaml.h"

namespace shardc::families {
namespace {

constexpr std::array<std::string_view, 9> kKeys = {
    "version", "models",  "like",   "uses", "let",
    "factors", "namings", "blocks", "tree"};
constexpr KeyTable kTable = {"family", "a family", kKeys};
// The largest number of `like` and `uses` keys that are followed in a chain.
constexpr int kLongestLine = 8;
// The largest number of files that are read for one description.
constexpr int kMostFiles = 64;

// A function of expressions or a module, and how many arguments a call has.
struct Callee {
  std::string_view name;
  size_t least = 1, most = 1;
};
constexpr std::array<Callee, 10> kFunctions = {{{"has"},
                                                {"given"},
                                                {"is_list"},
                                                {"len"},
                                                {"isqrt"},
                                                {"refuse"},
                                                {"min", 2, 2},
                                                {"max", 2, 2},
                                                {"others", 2, 2},
                                                {"count", 2, 3}}};
constexpr size_t kMostDims = 9;
constexpr std::array<Callee, 11> kModules = {{{"linear", 2, 3},
                                              {"transposed", 2, 3},
                                              {"embedding", 2, 2},
                                              {"norm", 1, 2},
                                              {"layernorm", 1, 2},
                                              {"conv", 2, kMostDims},
                                              {"plainconv", 2, kMostDims},
                                              {"tensor", 0, kMostDims},
                                              {"buffer", 0, kMostDims},
                                              {"float32"},
                                              {"part", 3, 3}}};

// Adds a finding if the call is of none of the `known`, or has another number
// of arguments.
void CheckCall(const Expression& call, std::span<const Callee> known,
               std::string_view what, const Place& place, Findings& findings) {
  const auto found = std::find_if(
      known.begin(), known.end(),
      [&](const Callee& callee) { return callee.name == call.text; });
  if (found == known.end()) {
    std::vector<std::string_view> names;
    std::string list;
    for (const Callee& callee : known) {
      names.push_back(callee.name);
      list += (list.empty() ? "`" : ", `") + std::string(callee.name) + "`";
    }
    findings.Add(
        code::kSchema, place,
        "there is no " + std::string(what) + " " + ShortQuote(call.text),
        DidYouMean(call.text, names, "there are: " + list));
  } else if (call.parts.size() < found->least ||
             call.parts.size() > found->most) {
    findings.Add(
        code::kSchema, place,
        "`" + call.text + "` is called with " +
            Counted(static_cast<int64_t>(call.parts.size()), "argument"),
        "it has " + std::to_string(found->least) +
            (found->least == found->most
                 ? ""
                 : " to " + std::to_string(found->most)));
  }
}

// Checks the calls of functions in an expression.
void CheckFunctions(const Expression& expression, const Place& place,
                    Findings& findings) {
  if (expression.kind == Expression::Kind::kCall) {
    CheckCall(expression, kFunctions, "function", place, findings);
  }
  for (const Expression& part : expression.parts) {
    CheckFunctions(part, place, findings);
  }
}

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  while (!Trim(text).empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    words.push_back(Trim(text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return words;
}

// Adds an item to a list, or replaces the item that has the same name.
template <typename List, typename Item>
void PutNamed(List& list, Item item, std::string_view name,
              std::string_view (*name_of)(const typename List::value_type&)) {
  const auto old =
      std::find_if(list.begin(), list.end(),
                   [&](const auto& known) { return name_of(known) == name; });
  if (old == list.end()) {
    list.push_back(std::move(item));
  } else {
    *old = std::move(item);
  }
}

using Let = std::pair<std::string, Expression>;
std::string_view LetName(const Let& let) { return let.first; }
std::string_view BlockName(const Block& block) { return block.name; }

class FamilyReader {
 public:
  FamilyReader(const YamlDocument& document, Findings& findings)
      : context_{document, findings} {}

  // Reads the file into `out`. If the file has a key `like`, `out` already
  // holds the content of the family that the key names. A definition in this
  // file replaces the definition of the same name. The key `namings` is not
  // inherited.
  void Read(const Fields& fields, Description& out) {
    if (const YamlNode* models = fields.Find("models")) {
      out.models = ReadTexts(context_, *models, "`models`")
                       .value_or(std::vector<std::string>{});
    }
    out.namings.clear();
    if (const YamlNode* namings = fields.Find("namings")) {
      ReadNamings(*namings, out);
    }
    ReadSections({fields.Find("let"), fields.Find("factors"),
                  fields.Find("blocks"), fields.Find("tree")},
                 out);
  }

  void ReadSections(const DescribedSections& sections, Description& out) {
    if (sections.let != nullptr) ReadLet(*sections.let, out);
    if (sections.factors != nullptr) ReadFactors(*sections.factors, out);
    if (sections.blocks != nullptr) ReadBlocks(*sections.blocks, out);
    if (sections.tree != nullptr) out.tree = ReadNodes(*sections.tree);
  }

 private:
  Place At(const YamlNode& node) const {
    return context_.document.PlaceOf(node);
  }

  std::optional<Expression> Parse(std::string_view text, const YamlNode& node) {
    auto out = ParseExpression(text, At(node), context_.findings);
    if (out) CheckFunctions(*out, At(node), context_.findings);
    return out;
  }

  bool IsMapping(const YamlNode& node, std::string_view what) {
    if (node.IsMapping()) return true;
    context_.Add(
        code::kSchema, node,
        std::string(what) + " is " + Describe(node) + ", not a mapping");
    return false;
  }

  void ReadLet(const YamlNode& node, Description& out) {
    if (!IsMapping(node, "`let`")) return;
    for (const YamlMember& member : node.members) {
      const std::string_view text =
          member.value.IsNull() ? "null" : std::string_view(member.value.text);
      auto value = Parse(text, member.value);
      if (!value) continue;
      PutNamed(out.let, Let(member.key.text, std::move(*value)),
               member.key.text, LetName);
    }
  }

  void ReadFactors(const YamlNode& node, Description& out) {
    if (!IsMapping(node, "`factors`")) return;
    for (const YamlMember& member : node.members) {
      auto value = ParseExpression(member.value.text, At(member.value),
                                   context_.findings);
      if (!value) continue;
      const bool word =
          value->kind == Expression::Kind::kName || value->text == "shared";
      if (word && !MeaningOf(*value)) {
        context_.Add(
            code::kSchema, member.value,
            ShortQuote(member.value.text) + " is not what a factor counts",
            "write a role such as `kv_heads`, `inner` or `stream`, "
            "`shared(ROLE)` for a factor that is the same in all "
            "layers, or a product of other factors");
      } else if (!word) {
        CheckFunctions(*value, At(member.value), context_.findings);
      }
      PutNamed(out.factors, Let(member.key.text, std::move(*value)),
               member.key.text, LetName);
      out.factor_places[std::string(member.key.text)] = At(member.value);
    }
  }

  void ReadNamings(const YamlNode& node, Description& out) {
    if (!IsMapping(node, "`namings`")) return;
    for (const YamlMember& member : node.members) {
      out.namings.emplace_back(member.key.text, member.value.text);
    }
  }

  void ReadBlocks(const YamlNode& node, Description& out) {
    if (!IsMapping(node, "`blocks`")) return;
    for (const YamlMember& member : node.members) {
      const std::string_view key = member.key.text;
      const size_t open = std::min(key.find('('), key.size());
      Block block;
      block.name = Trim(key.substr(0, open));
      if (open < key.size() && key.back() == ')') {
        for (const std::string_view word :
             Words(key.substr(open + 1, key.size() - open - 2))) {
          block.parameters.emplace_back(word);
        }
      }
      block.body = ReadNodes(member.value);
      const std::string name = block.name;
      PutNamed(out.blocks, std::move(block), name, BlockName);
    }
  }

  std::vector<Node> ReadNodes(const YamlNode& node) {
    std::vector<Node> nodes;
    if (!IsMapping(node, "a tree")) return nodes;
    for (const YamlMember& member : node.members) {
      nodes.push_back(ReadNode(member));
    }
    return nodes;
  }

  Node ReadNode(const YamlMember& member) {
    Node node;
    node.place = At(member.key);
    std::string_view key = member.key.text;
    if (const size_t at = key.find(" if "); at != key.npos) {
      node.condition = Parse(key.substr(at + 4), member.key);
      key = Trim(key.substr(0, at));
    }
    if (const size_t open = key.find('['); open != key.npos) {
      std::string_view count = key.substr(open + 1);
      if (!count.ends_with(']')) {
        context_.Add(code::kSchema, member.key,
                     "the count of a repetition does not end in `]`",
                     "write `layers[i < num_hidden_layers]`");
        return node;
      }
      count.remove_suffix(1);
      if (const size_t less = count.find('<'); less != count.npos) {
        node.counter = Trim(count.substr(0, less));
        count.remove_prefix(less + 1);
      }
      node.count = Parse(count, member.key);
      key = key.substr(0, open);
    }
    node.name = key;
    if (node.name.empty()) {
      context_.Add(code::kSchema, member.key, "a key of a tree has no name",
                   "write `_` for a key that adds nothing to names");
    }
    if (member.value.IsMapping()) {
      node.children = ReadNodes(member.value);
      return node;
    }
    node.module =
        ParseExpression(member.value.text, At(member.value), context_.findings);
    if (node.module && node.module->kind != Expression::Kind::kCall) {
      context_.Add(code::kSchema, member.value, "a module is a call",
                   "write, for example, `linear(hidden_size, vocab_size)`");
      node.module.reset();
    }
    return node;
  }

  YamlContext context_;
};

// Reads the files of one description.
class FileReader {
 public:
  FileReader(const Library& library, Findings& findings)
      : library_(library), findings_(findings) {}

  // Reads a family and what it is like. The factors of another family count
  // only if the file states that its sizes are written in terms of factors.
  bool ReadWhole(Description& out, std::string_view name) {
    if (!Read(out, name, 0, false)) return false;
    if (!states_factors_) out.factors.clear();
    return true;
  }

 private:
  // Reads a family into `out`. Returns false after a finding. `line` is the
  // number of keys `like` and `uses` that lead to this family. With `bundled`,
  // the family is a bundled one.
  bool Read(Description& out, std::string_view name, int line, bool bundled) {
    const SourceRef text = library_.Find(name, bundled);
    const auto document = YamlDocument::Parse(text, findings_);
    if (!document) return false;
    const YamlContext context{*document, findings_};
    const auto fields = Fields::Read(context, document->root(), kTable);
    if (!fields) return false;
    CheckVersion(context, fields->Find("version"));
    const bool own = !bundled && library_.IsOwn(name);
    if (const YamlNode* like = fields->Find("like")) {
      if (!ReadOther(context, *like, like->text, {name, line, own}, out)) {
        return false;
      }
    }
    if (const YamlNode* uses = fields->Find("uses")) {
      for (const std::string& other_name :
           ReadTexts(context, *uses, "`uses`")
               .value_or(std::vector<std::string>{})) {
        Description other;
        if (!ReadOther(context, *uses, other_name, {name, line, own}, other)) {
          return false;
        }
        for (Block& block : other.blocks) {
          const std::string block_name = block.name;
          PutNamed(out.blocks, std::move(block), block_name, BlockName);
        }
      }
    }
    FamilyReader(*document, findings_).Read(*fields, out);
    states_factors_ = fields->Find("factors") != nullptr;
    return true;
  }

  struct From {
    std::string_view name;
    int line = 0;
    bool own = false;  // whether the file is one of the user's folder
  };

  // Reads the family `name`, which the node of the file `from` names. A bundled
  // file refers to bundled ones, so that a folder that replaces `llama` does
  // not change `mistral`. A file of the folder that names itself refers to the
  // bundled family that it replaces.
  bool ReadOther(const YamlContext& context, const YamlNode& node,
                 std::string_view name, const From& from, Description& out) {
    const bool bundled = !from.own || name == from.name;
    if (library_.Find(name, bundled) == nullptr) {
      const auto names = library_.Names();
      context.Add(code::kReference, node,
                  "there is no description of a family " + ShortQuote(name),
                  DidYouMean(name, names));
      return false;
    }
    if (from.line >= kLongestLine || ++files_ > kMostFiles) {
      context.Add(code::kLimit, node,
                  "the keys `like` and `uses` lead through more than " +
                      std::to_string(from.line >= kLongestLine ? kLongestLine
                                                               : kMostFiles) +
                      " files",
                  "a family that is like itself by way of others has no end");
      return false;
    }
    return Read(out, name, from.line + 1, bundled);
  }

  const Library& library_;
  Findings& findings_;
  int files_ = 0;
  bool states_factors_ = false;  // whether the file that was read last does
};

// Checks that each call of a module is that of a block or of a built-in module.
void CheckModules(const Description& family, const std::vector<Node>& nodes,
                  Findings& findings) {
  for (const Node& node : nodes) {
    CheckModules(family, node.children, findings);
    if (!node.module) continue;
    const Expression* call = &*node.module;
    if (call->text == "float32" && call->parts.size() == 1) {
      call = &call->parts[0];
    }
    if (const Block* block = family.FindBlock(call->text)) {
      const Callee callee{block->name, block->parameters.size(),
                          block->parameters.size()};
      CheckCall(*call, {&callee, 1}, "block", node.place, findings);
    } else if (call->kind != Expression::Kind::kCall) {
      findings.Add(code::kSchema, node.place,
                   "the argument of `float32` is not a module",
                   "write, for example, `float32(tensor(num_heads))`");
    } else {
      CheckCall(*call, kModules, "module or block", node.place, findings);
    }
    for (const Expression& part : call->parts) {
      CheckFunctions(part, node.place, findings);
    }
  }
}

// Follows the names of which a factor is a product, to those of `let` and to
// other factors, and so on. A factor that leads to itself has no value, and one
// whose names are read too often would take for ever:
//
//   hidden_size: "2 * hidden_size"   ->  `hidden_size` is counted by itself
//   a: "b * b", b: "c * c", ..       ->  2, 4, 8, .. times the last
//
// An entry of `let` that leads to itself is not wrong: inside of its definition
// its name is a key of the config.
class FactorCheck {
 public:
  FactorCheck(const Description& family, Findings& findings)
      : family_(family), findings_(findings) {}

  void Run() {
    for (const auto& [name, value] : family_.factors) {
      if (!good_) return;
      const Size reads = ReadsOf(name);
      if (good_ && reads.value() > kMostReads) {
        Refuse(name, "`" + name +
                         "` is a product of products of factors that " +
                         "reads more than " + CountText(kMostReads) + " names");
      }
    }
  }

 private:
  static constexpr int64_t kMostReads = 1000;
  static constexpr size_t kDeepestFactor = 64;

  void Refuse(const std::string& name, std::string message) {
    good_ = false;
    const auto at = family_.factor_places.find(name);
    findings_.Add(code::kSchema,
                  at == family_.factor_places.end() ? Place() : at->second,
                  std::move(message),
                  "write what it counts, such as `inner` or `stream`, or a "
                  "product of other factors");
  }

  // Returns how many names are read for the layout of a name.
  Size ReadsOf(const std::string& name) {
    const auto [at, fresh] = reads_.try_emplace(name, Size(1));
    if (!fresh && !IsAmong(name, path_)) return at->second;
    const Expression* const factor = family_.FindFactor(name);
    if (!fresh) {
      if (factor != nullptr) RefuseCircle(name);
      return 1;
    }
    const Expression* const value =
        factor != nullptr ? factor : family_.FindLet(name);
    if (value == nullptr || (factor != nullptr && MeaningOf(*factor))) return 1;
    if (path_.size() >= kDeepestFactor) {
      Refuse(FirstFactor(),
             "factors and the values of `let` use one another more than " +
                 std::to_string(kDeepestFactor) + " deep");
      return 1;
    }
    path_.push_back(name);
    const Size reads = Size(1) + ReadsIn(*value);
    path_.pop_back();
    reads_.insert_or_assign(name, reads);
    return reads;
  }

  Size ReadsIn(const Expression& expression) {
    if (!good_) return 0;
    if (expression.kind == Expression::Kind::kName) {
      return ReadsOf(expression.text);
    }
    // given() looks for a key of the config.
    if (expression.kind == Expression::Kind::kCall &&
        expression.text == "given") {
      return 1;
    }
    Size out = 0;
    for (const Expression& part : expression.parts) out += ReadsIn(part);
    return out;
  }

  std::string FirstFactor() const { return path_.front(); }

  void RefuseCircle(const std::string& name) {
    std::string through;
    const auto begin = std::find(path_.begin(), path_.end(), name);
    for (auto at = std::next(begin); at != path_.end(); ++at) {
      through += (through.empty() ? ", through `" : ", `") + *at + "`";
    }
    Refuse(name, "`" + name + "` is counted by itself" + through);
  }

  const Description& family_;
  Findings& findings_;
  std::map<std::string, Size, std::less<>> reads_;
  std::vector<std::string>
      path_;  // the names that lead to the one that is read
  bool good_ = true;
};

}  // namespace

const Expression* Description::FindLet(std::string_view word) const {
  for (const auto& [known, value] : let) {
    if (known == word) return &value;
  }
  return nullptr;
}

std::optional<FactorMeaning> MeaningOf(const Expression& factor) {
  const bool shared = factor.kind == Expression::Kind::kCall &&
                      factor.text == "shared" && factor.parts.size() == 1;
  const Expression& word = shared ? factor.parts[0] : factor;
  if (word.kind != Expression::Kind::kName) return std::nullopt;
  const auto role = RoleOf(word.text);
  if (!role) return std::nullopt;
  return FactorMeaning{*role, shared};
}

const Expression* Description::FindFactor(std::string_view word) const {
  for (const auto& [known, value] : factors) {
    if (known == word) return &value;
  }
  return nullptr;
}

const Block* Description::FindBlock(std::string_view word) const {
  for (const Block& block : blocks) {
    if (block.name == word) return &block;
  }
  return nullptr;
}

std::unique_ptr<const Description> LoadDescription(std::string_view name,
                                                   const Library& library,
                                                   Findings& findings) {
  if (library.Find(name) == nullptr) return nullptr;
  auto out = std::make_unique<Description>();
  out->name = name;
  const size_t before = findings.errors();
  if (FileReader(library, findings).ReadWhole(*out, name) &&
      out->tree.empty()) {
    findings.Add(code::kSchema, Place{library.Find(name)},
                 "the description has no `tree`",
                 "write one, or `like: FAMILY` to take that of another family");
  }
  if (findings.errors() > before) return nullptr;
  FactorCheck(*out, findings).Run();
  CheckModules(*out, out->tree, findings);
  for (const Block& block : out->blocks) {
    CheckModules(*out, block.body, findings);
  }
  return findings.errors() > before ? nullptr : std::move(out);
}

bool ReadDescription(const YamlContext& context,
                     const DescribedSections& sections, Description& out) {
  const size_t before = context.findings.errors();
  FamilyReader(context.document, context.findings).ReadSections(sections, out);
  CheckModules(out, out.tree, context.findings);
  for (const Block& block : out.blocks) {
    CheckModules(out, block.body, context.findings);
  }
  return context.findings.errors() == before;
}

// Parses the expressions of family descriptions by recursive descent. Each
// level of precedence has one function. These are the levels, from the lowest
// to the highest precedence:
//
//   choice    a if c else b
//   or, and, not
//   compare   == != < <= > >= in
//   default   a ?? b          b if a is absent or null
//   sum, product (integer division is //), minus, then .name and [index]
//
// For example, `head_dim ?? hidden_size // heads` is parsed as ??(head_dim,
// //(hidden_size, heads)).

namespace {

using Kind = Expression::Kind;
using WordList = std::span<const std::string_view>;

constexpr std::array<std::string_view, 1> kOr = {"or"};
constexpr std::array<std::string_view, 1> kAnd = {"and"};
constexpr std::array<std::string_view, 7> kCompare = {
    "==", "!=", "<=", ">=", "<", ">", "in"};
constexpr std::array<std::string_view, 1> kDefault = {"??"};
constexpr std::array<std::string_view, 2> kSum = {"+", "-"};
constexpr std::array<std::string_view, 3> kProduct = {"*", "//", "%"};
// The binary operators, from the lowest precedence to the highest. The
// precedence of `not` is between that of `and` and that of comparisons.
constexpr std::array<WordList, 6> kLevels = {kOr,      kAnd, kCompare,
                                             kDefault, kSum, kProduct};
constexpr size_t kNotLevel = 2;
// Parsing, evaluation and destruction recurse into nested expressions, so the
// depth of nesting and the number of parts are limited.
constexpr int kDeepest = 64;
constexpr int kMostParts = 1000;

bool BeginsName(char c) { return IsLetter(c) || c == '_'; }

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : text_(text) {}

  // Returns nullopt if the text is not an expression. `at()` is then the offset
  // of the error.
  std::optional<Expression> ParseAll() {
    auto whole = Choice();
    Skip();
    if (!whole || at_ != text_.size()) return std::nullopt;
    return whole;
  }
  size_t at() const { return at_; }
  bool is_too_large() const { return depth_ > kDeepest || parts_ > kMostParts; }

 private:
  void Skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  // Skips an operator or word if it comes next, and returns whether it did. A
  // word does not match the beginning of a longer word: `in` does not match
  // `index`.
  bool Take(std::string_view word) {
    Skip();
    if (text_.substr(at_, word.size()) != word) return false;
    const size_t end = at_ + word.size();
    if (BeginsName(word[0]) && end < text_.size() && IsWordByte(text_[end])) {
      return false;
    }
    at_ = end;
    return true;
  }

  std::string_view TakeName() {
    Skip();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (BeginsName(text_[at_]) || (at_ > begin && IsDigit(text_[at_])))) {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  // Makes an expression from its parts. Returns nullopt if the parser has now
  // made more than kMostParts expressions.
  template <typename... Parts>
  std::optional<Expression> Make(Kind kind, std::string_view text,
                                 Parts... parts) {
    if (++parts_ > kMostParts) return std::nullopt;
    Expression out{kind, 0, std::string(text), {}};
    out.parts.reserve(sizeof...(parts));
    (out.parts.push_back(std::move(parts)), ...);
    return out;
  }

  std::optional<Expression> Choice() {
    if (++depth_ > kDeepest) return std::nullopt;
    auto value = Level(0);
    if (value && Take("if")) {
      auto condition = Level(0);
      if (!condition || !Take("else")) return std::nullopt;
      auto other = Choice();
      if (!other) return std::nullopt;
      value = Make(Kind::kChoice, "", std::move(*value), std::move(*condition),
                   std::move(*other));
    }
    if (value) --depth_;
    return value;
  }

  std::optional<Expression> Level(size_t level) {
    if (level == kLevels.size()) return Unary();
    if (level == kNotLevel && Take("not")) {
      if (++depth_ > kDeepest) return std::nullopt;
      auto value = Level(level);
      if (!value) return std::nullopt;
      --depth_;
      return Make(Kind::kUnary, "not", std::move(*value));
    }
    auto left = Level(level + 1);
    while (left) {
      std::string_view taken;
      for (const std::string_view word : kLevels[level]) {
        if (taken.empty() && Take(word)) taken = word;
      }
      if (taken.empty()) break;
      auto right = Level(level + 1);
      if (!right) return std::nullopt;
      left = Make(Kind::kBinary, taken, std::move(*left), std::move(*right));
    }
    return left;
  }

  std::optional<Expression> Unary() {
    if (Take("-")) {
      if (++depth_ > kDeepest) return std::nullopt;
      auto value = Unary();
      if (!value) return std::nullopt;
      --depth_;
      return Make(Kind::kUnary, "-", std::move(*value));
    }
    auto value = Primary();
    while (value) {
      if (Take(".")) {
        const std::string_view name = TakeName();
        if (name.empty()) return std::nullopt;
        value = Make(Kind::kMember, name, std::move(*value));
      } else if (Take("[")) {
        auto index = Choice();
        if (!index || !Take("]")) return std::nullopt;
        value = Make(Kind::kIndex, "", std::move(*value), std::move(*index));
      } else {
        break;
      }
    }
    return value;
  }

  std::optional<std::vector<Expression>> List(std::string_view close) {
    std::vector<Expression> items;
    if (Take(close)) return items;
    do {
      auto item = Choice();
      if (!item) return std::nullopt;
      items.push_back(std::move(*item));
    } while (Take(","));
    if (!Take(close)) return std::nullopt;
    return items;
  }

  std::optional<Expression> Number() {
    int64_t number = 0;
    for (; at_ < text_.size() && IsDigit(text_[at_]); ++at_) {
      if (__builtin_mul_overflow(number, int64_t{10}, &number) ||
          __builtin_add_overflow(number, text_[at_] - '0', &number)) {
        return std::nullopt;
      }
    }
    return Constant(Kind::kNumber, number);
  }
  std::optional<Expression> Constant(Kind kind, int64_t number) {
    auto out = Make(kind, "");
    if (out) out->number = number;
    return out;
  }

  std::optional<Expression> Primary() {
    Skip();
    if (at_ == text_.size()) return std::nullopt;
    if (IsDigit(text_[at_])) return Number();
    if (Take("'")) {
      const size_t end = text_.find('\'', at_);
      if (end == text_.npos) return std::nullopt;
      auto out = Make(Kind::kText, text_.substr(at_, end - at_));
      at_ = end + 1;
      return out;
    }
    if (Take("(")) {
      auto inner = Choice();
      if (!inner || !Take(")")) return std::nullopt;
      return inner;
    }
    if (Take("[")) {
      auto items = List("]");
      if (!items) return std::nullopt;
      return Around(Kind::kList, "", std::move(*items));
    }
    return Word();
  }

  std::optional<Expression> Word() {
    const std::string_view name = TakeName();
    if (name.empty()) return std::nullopt;
    if (name == "null") return Make(Kind::kNull, "");
    if (name == "true" || name == "false") {
      return Constant(Kind::kBool, name == "true" ? 1 : 0);
    }
    if (!Take("(")) return Make(Kind::kName, name);
    auto parts = List(")");
    if (!parts) return std::nullopt;
    return Around(Kind::kCall, name, std::move(*parts));
  }

  std::optional<Expression> Around(Kind kind, std::string_view text,
                                   std::vector<Expression> parts) {
    auto out = Make(kind, text);
    if (out) out->parts = std::move(parts);
    return out;
  }

  std::string_view text_;
  size_t at_ = 0;
  // The depth of nesting. It is not decremented after an error, because an
  // error ends the parse.
  int depth_ = 0;
  int parts_ = 0;
};

}  // namespace

std::optional<Expression> ParseExpression(std::string_view text,
                                          const Place& place,
                                          Findings& findings) {
  ExpressionParser parser(text);
  auto whole = parser.ParseAll();
  if (whole) return whole;
  if (parser.is_too_large()) {
    findings.Add(code::kLimit, place,
                 "an expression has more than " + CountText(kMostParts) +
                     " parts, or is nested " + CountText(kDeepest) + " deep");
  } else {
    findings.Add(code::kSchema, place,
                 ShortQuote(text) + " cannot be read from character " +
                     std::to_string(parser.at() + 1) + " on");
  }
  return std::nullopt;
}

// Finds the description of a family by its name, which is that of the file: the
// file `acme.yaml` describes the model type `acme`. A folder is listed once,
// and names are looked up in this list. The text of a config.json, which names
// a model type, therefore never becomes a path.

namespace {

constexpr std::string_view kEnding = ".yaml";
// The bundled descriptions have at most 3 KiB.
constexpr int64_t kLongestFile = int64_t{1} << 20;

std::string_view NameOf(std::string_view file) {
  return file.substr(0, file.size() - kEnding.size());
}

}  // namespace

std::optional<Library> Library::Open(const std::string& folder,
                                     Findings& findings) {
  Library out;
  if (folder.empty()) return out;
  const Place place{MakeSource(folder, {})};
  std::error_code error;
  auto names = NamesIn(folder, error);
  if (!names) {
    findings.Add(code::kMissing, place,
                 "the folder of families cannot be read: " + error.message(),
                 "give a folder with a file `MODEL_TYPE.yaml` for each family");
    return std::nullopt;
  }
  for (const std::string& name : *names) {
    if (!name.ends_with(".yml")) continue;
    findings.Add(code::kSchema, Place{MakeSource(PathIn(folder, name), {})},
                 "the name of a family's description ends in `.yaml`",
                 "rename the file to " +
                     Quote(name.substr(0, name.size() - 4) + ".yaml"));
    return std::nullopt;
  }
  std::erase_if(
      *names, [](const std::string& name) { return !name.ends_with(kEnding); });
  if (names->empty()) {
    findings.Add(code::kMissing, place,
                 "the folder has no description of a family",
                 "a description is a file `MODEL_TYPE.yaml`");
    return std::nullopt;
  }
  for (const std::string& name : *names) {
    SourceRef text = ReadSource(PathIn(folder, name), findings, kLongestFile);
    if (text == nullptr) return std::nullopt;
    out.own_.emplace(NameOf(name), std::move(text));
  }
  return out;
}

SourceRef Library::Find(std::string_view name, bool bundled) const {
  const auto own = own_.find(name);
  if (!bundled && own != own_.end()) return own->second;
  for (const EmbeddedFile& file : EmbeddedFamilies()) {
    if (NameOf(file.name) == name) {
      return MakeSource("family:" + std::string(name), std::string(file.text));
    }
  }
  return nullptr;
}

std::vector<std::string_view> Library::OwnNames() const {
  std::vector<std::string_view> names;
  for (const auto& [name, text] : own_) names.emplace_back(name);
  return names;
}

std::vector<std::string_view> Library::Names() const {
  std::vector<std::string_view> names = OwnNames();
  for (const EmbeddedFile& file : EmbeddedFamilies()) {
    names.push_back(NameOf(file.name));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace shardc::families
