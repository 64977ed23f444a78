// Parses YAML in three steps: the functions of scan.h check the bytes,
// yaml-cpp's event parser runs, and YamlBuilder builds the tree. Some mistakes
// that yaml-cpp accepts are refused: an unclosed quote, an empty entry as in
// `{dp: 2, , tp: 4}`, text after the document, duplicate keys, merge keys
// (`<<`), tags, and an alias inside its own node (`&a [*a]`). tests/yaml has a
// case for each, and tests/fuzz searches for more.
//
// yaml-cpp's LoadAll is not used, because it does not terminate for a text with
// only a comma. Instead, HandleNextDocument is called at most twice.
#include "yaml/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/file.h"
#include "source/finding.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "yaml/scan.h"

namespace shardc {
namespace {

// Builds the tree of a YAML file from yaml-cpp's events. The events contain the
// beginnings of nodes but not their ends. Each list or mapping that is still
// open is on a stack. A complete node is added to the top of the stack. Its end
// is found in the text by the functions of scan.h. For example:
//
//   a: [x, 'b']   events: open {, a, open [, x, b, close, close
//                 byte ranges: a is at 0-1, x at 4-5, 'b' at 7-10, the list
//                 at 3-11
//
// An alias (`*name`) copies the node with the anchor `&name`. Nested aliases
// (ten aliases of ten aliases of ...) could exhaust the memory. All nodes with
// anchors and all copies are therefore counted, and a finding is added if there
// are too many.

class YamlBuilder {
 public:
  // Thrown to stop the event parser: after a finding that makes the rest of the
  // file useless, after Findings::kErrorLimit errors, and where a second
  // document begins. The caller of the event parser catches it.
  struct Stop {};

  YamlBuilder(const SourceRef& source, Findings& findings)
      : source_(source), text_(source->text()), findings_(findings) {}

  // The builder gets one call for each event of the parser. `at` is the offset
  // at which the node begins, including its anchor and tag. For a null that is
  // omitted, `at` is the offset of the next token.
  void Null(size_t at, uint64_t anchor);
  void Alias(size_t at, uint64_t anchor);
  // `tag` is the full tag: `tag:yaml.org,2002:int` for `!!int`. "?" and "!"
  // mean that the node has no tag.
  void Scalar(size_t at, const std::string& tag, uint64_t anchor,
              const std::string& value);
  void Open(YamlKind kind, size_t at, const std::string& tag, uint64_t anchor,
            bool flow);
  void Close();

  const std::optional<YamlNode>& root() const { return root_; }
  std::optional<YamlNode> TakeRoot() { return std::move(root_); }
  // Returns whether a finding other than duplicate-key was added, after which
  // the tree is not used.
  bool broken() const { return broken_; }
  // Returns the input of ReportYamlError for a parser that stopped at `offset`.
  YamlFailure FailureAt(size_t offset) const;

 private:
  // A collection that is not closed yet.
  struct Frame {
    YamlNode node;
    uint64_t anchor = 0;
    bool flow = false;
    // In a mapping, the key whose value is not read yet. Absent before a key.
    std::optional<YamlNode> key;
    // Maps each key to its offset.
    std::map<std::string, size_t, std::less<>> keys;
  };

  void Broken(const Code& code, size_t begin, size_t end, std::string message,
              std::string help = {});
  [[noreturn]] void Fail(const Code& code, size_t begin, size_t end,
                         std::string message, std::string help = {});
  [[noreturn]] void TooDeep(size_t at);
  [[noreturn]] void UnclosedQuote(size_t at);
  void Charge(size_t nodes, size_t begin, size_t end);

  std::string TagMessage(size_t begin) const;
  void ReportTag(size_t begin, size_t end);
  void KeepTag(const std::string& tag, size_t start, YamlNode& node);
  void CheckText(const YamlNode& node);
  void CheckBlank(const YamlNode& node);
  void CheckKey(Frame& frame, const YamlNode& key);

  bool WrittenHere(size_t word) const;
  void PlaceUnwritten(size_t next, YamlNode& node);
  size_t DashBefore(const Frame& frame, size_t next) const;
  void PlaceScalar(YamlNode& node, const std::string& value);
  void Finish(YamlNode node, uint64_t anchor);

  const SourceRef& source_;
  std::string_view text_;
  Findings& findings_;
  std::vector<Frame> stack_;
  // Complete nodes that have an anchor, keyed by the number of the anchor.
  std::map<uint64_t, YamlNode> anchors_;
  std::optional<YamlNode> root_;
  size_t alias_nodes_ = 0;
  size_t last_end_ = 0;  // end of the last complete token
  // The beginning of the last quoted string that extends over several lines.
  std::optional<size_t> long_quote_;
  std::optional<size_t> refused_tag_;  // where the last reported tag begins
  bool broken_ = false;
};

constexpr std::string_view kCoreTags = "tag:yaml.org,2002:";

size_t CountNodes(const YamlNode& node) {
  size_t count = 1;
  for (const YamlNode& item : node.items) count += CountNodes(item);
  for (const YamlMember& member : node.members) {
    count += CountNodes(member.key) + CountNodes(member.value);
  }
  return count;
}

size_t DepthOf(const YamlNode& node) {
  size_t depth = 0;
  for (const YamlNode& item : node.items) {
    depth = std::max(depth, 1 + DepthOf(item));
  }
  for (const YamlMember& member : node.members) {
    depth =
        std::max({depth, 1 + DepthOf(member.key), 1 + DepthOf(member.value)});
  }
  return depth;
}

// Returns where the parser stopped: after which token, and in which list or
// mapping in brackets.
YamlFailure YamlBuilder::FailureAt(size_t offset) const {
  YamlFailure failure;
  failure.offset = std::min(offset, text_.size());
  failure.last_end = last_end_;
  failure.long_quote = long_quote_;
  if (stack_.empty() || !stack_.back().flow) return failure;
  // Find the open bracket. It may belong to the second collection from the top
  // of the stack. In `[a 'b`, the list contains an implicit mapping of one
  // pair, which is at the top and has no bracket.
  const size_t open = stack_.size();
  for (size_t up = 1; up <= std::min<size_t>(open, 2); ++up) {
    const size_t begin = stack_[open - up].node.begin;
    const std::string_view bracket = text_.substr(begin, 1);
    if (bracket != "[" && bracket != "{") continue;
    failure.open_flow = begin;
    break;
  }
  return failure;
}

void YamlBuilder::Null(size_t at, uint64_t anchor) {
  bool tagged = false;
  const size_t word = SkipProperties(text_, at, &tagged);
  if (tagged) ReportTag(at, word);
  YamlNode node;
  const auto end = NullWordEnd(text_, word);
  if (end && WrittenHere(word)) {
    node.begin = word;
    node.end = *end;
  } else {
    PlaceUnwritten(word, node);
  }
  Finish(std::move(node), anchor);
}

void YamlBuilder::Alias(size_t begin, uint64_t anchor) {
  size_t end = begin + 1;
  while (end < text_.size() &&
         text_.find_first_of(" \t\r\n,[]{}", end) != end) {
    ++end;
  }
  const auto found = anchors_.find(anchor);
  if (found == anchors_.end()) {
    Fail(code::kYamlAlias, begin, end,
         "alias `" + Printable(text_.substr(begin, end - begin)) +
             "` stands inside what it refers to",
         "write the value out");
  }
  Charge(CountNodes(found->second), begin, end);
  YamlNode copy = found->second;
  if (stack_.size() + DepthOf(copy) > YamlDocument::kDepthLimit) {
    TooDeep(begin);
  }
  copy.begin = begin;
  copy.end = end;
  Finish(std::move(copy), 0);
}

void YamlBuilder::Scalar(size_t start, const std::string& tag, uint64_t anchor,
                         const std::string& value) {
  YamlNode node;
  node.kind = YamlKind::kScalar;
  bool tagged = false;
  node.begin = SkipProperties(text_, start, &tagged);
  if (tagged) KeepTag(tag, start, node);
  PlaceScalar(node, value);
  node.text = value;
  CheckText(node);
  Finish(std::move(node), anchor);
}

void YamlBuilder::Broken(const Code& code, size_t begin, size_t end,
                         std::string message, std::string help) {
  broken_ = true;
  findings_.Add(code, {source_, begin, end}, std::move(message),
                std::move(help));
  if (findings_.Full()) throw Stop();
}
void YamlBuilder::Fail(const Code& code, size_t begin, size_t end,
                       std::string message, std::string help) {
  const std::string_view other = HelpForOtherSyntax(text_, begin);
  if (&code == &code::kYamlSyntax && !other.empty()) help = other;
  Broken(code, begin, end, std::move(message), std::move(help));
  throw Stop();
}
void YamlBuilder::TooDeep(size_t at) {
  Fail(code::kYamlDepth, at, std::min(at + 1, text_.size()),
       "nested more than " + std::to_string(YamlDocument::kDepthLimit) +
           " levels deep");
}
void YamlBuilder::UnclosedQuote(size_t at) {
  Fail(code::kYamlSyntax, at, at + 1,
       std::string("the quote `") + text_[at] + "` is never closed",
       "close it on the same line");
}

std::string YamlBuilder::TagMessage(size_t begin) const {
  size_t at = text_.find('!', begin);
  at = std::min(at, text_.size());
  const size_t end =
      std::min(text_.find_first_of(" \t\r\n,[]{}", at), text_.size());
  return "a tag: `" + Printable(text_.substr(at, end - at)) + "`";
}

// Reports a tag, unless a tag at the same place has been reported. The parser
// reports the tag of a mapping's first key, as in `!x a: 1`, twice: with the
// mapping and with the key.
void YamlBuilder::ReportTag(size_t begin, size_t end) {
  if (refused_tag_ == begin) return;
  refused_tag_ = begin;
  Broken(code::kYamlTag, begin, end, TagMessage(begin), "remove the tag");
}

// Stores a tag of the core schema on a scalar value, such as `!!float 4`; other
// tags, and tags of keys, are errors. The typed readers (read.h) refuse the
// stored tag later, so that a message can name the value that has the tag.
void YamlBuilder::KeepTag(const std::string& tag, size_t start,
                          YamlNode& node) {
  const bool is_key =
      !stack_.empty() && stack_.back().node.IsMapping() && !stack_.back().key;
  if (!is_key && tag.starts_with(kCoreTags)) {
    const std::string name = tag.substr(kCoreTags.size());
    if (name == "str" || name == "int" || name == "float" || name == "bool" ||
        name == "null") {
      node.tag = name;
      return;
    }
  }
  ReportTag(start, node.begin);
}

void YamlBuilder::CheckText(const YamlNode& node) {
  if (node.text.find('\0') != std::string::npos) {
    Broken(code::kEncoding, node.begin, node.end,
           "a NUL character in a string");
  } else if (!IsUtf8(node.text)) {
    Broken(code::kEncoding, node.begin, node.end,
           "an escape that is no Unicode character");
  }
}

// Reports a plain scalar that begins with a blank other than a space, such as
// the no-break space before the key in `\u00a0 dp: 2`.
void YamlBuilder::CheckBlank(const YamlNode& node) {
  const size_t blank = OddBlank(text_, node.begin);
  if (blank == 0) return;
  Fail(code::kYamlSyntax, node.begin, node.begin + blank,
       std::string(kOddBlankMessage), std::string(kOddBlankHelp));
}

// Returns whether the word `null` at `word` is the value that yaml-cpp reports.
// In block style yaml-cpp reports an omitted value only at the next token. That
// token may be a key with the name `null`, which is not the value.
bool YamlBuilder::WrittenHere(size_t word) const {
  if (stack_.empty() || stack_.back().flow) return true;
  const Frame& frame = stack_.back();
  if (frame.node.IsSequence()) {
    return ColumnOf(text_, word) > ColumnOf(text_, frame.node.begin);
  }
  if (!frame.key) return true;
  return LineBegin(text_, word) == LineBegin(text_, frame.key->end) ||
         ColumnOf(text_, word) > ColumnOf(text_, frame.key->begin);
}

void YamlBuilder::PlaceUnwritten(size_t next, YamlNode& node) {
  node.begin = node.end = std::min(next, text_.size());
  if (stack_.empty()) return;
  const Frame& frame = stack_.back();
  if (frame.key) {
    node.begin = frame.key->begin;
    node.end = frame.key->end;
  } else if (frame.flow) {
    // An omitted null before a colon is the empty key of `{: 4}`. Before a
    // comma, it is a mistake.
    node.end = std::min(next + 1, text_.size());
    if (next < text_.size() && text_[next] == ':') return;
    const size_t colon = std::min(text_.find(':', node.begin), text_.size());
    const size_t end = text_.find_first_of(",]}", node.begin);
    if (colon < text_.size() && colon - node.begin > kLongestKeyBytes &&
        end > colon) {
      Fail(code::kYamlSyntax, node.begin, node.end,
           std::string(kLongKeyMessage), std::string(kLongKeyHelp));
      return;
    }
    Fail(code::kYamlSyntax, node.begin, node.end,
         "nothing stands before this `,`", "remove the comma, or write `null`");
  } else if (frame.node.IsSequence()) {
    node.begin = DashBefore(frame, next);
    node.end = node.begin + 1;
  } else {
    node.end = std::min(next + 1, text_.size());
  }
}

// Returns the offset of the dash of an item without text. yaml-cpp reports such
// an item at the next token, so the dash is searched backwards.
size_t YamlBuilder::DashBefore(const Frame& frame, size_t next) const {
  const size_t column = ColumnOf(text_, frame.node.begin);
  size_t line = LineBegin(text_, next);
  while (line > frame.node.begin) {
    line = LineBegin(text_, line - 1);
    const size_t dash = line + column;
    if (dash < text_.size() && dash >= frame.node.begin && text_[dash] == '-' &&
        ColumnOf(text_, dash) == column) {
      return dash;
    }
  }
  return frame.node.begin;
}

void YamlBuilder::Open(YamlKind kind, size_t start, const std::string& tag,
                       uint64_t anchor, bool flow) {
  Frame frame;
  bool tagged = false;
  frame.node.kind = kind;
  frame.node.begin = SkipProperties(text_, start, &tagged);
  frame.flow = flow;
  if (tagged || (tag != "?" && tag != "!")) {
    ReportTag(start, frame.node.begin);
  }
  frame.anchor = anchor;
  last_end_ = frame.node.begin + (frame.flow ? 1 : 0);
  stack_.push_back(std::move(frame));
  if (stack_.size() > YamlDocument::kDepthLimit) {
    TooDeep(stack_.back().node.begin);
  }
}

void YamlBuilder::Close() {
  Frame frame = std::move(stack_.back());
  stack_.pop_back();
  YamlNode& node = frame.node;
  node.end = std::max(last_end_, node.begin);
  const char open = node.begin < text_.size() ? text_[node.begin] : ' ';
  if (frame.flow && (open == '[' || open == '{')) {
    node.end = FlowEnd(text_, node.end, open == '[' ? ']' : '}');
  }
  Finish(std::move(node), frame.anchor);
}

void YamlBuilder::Charge(size_t nodes, size_t begin, size_t end) {
  alias_nodes_ += nodes;
  if (alias_nodes_ <= YamlDocument::kAliasBudget) return;
  Fail(code::kYamlAlias, begin, end,
       "aliases make more than " +
           CountText(static_cast<int64_t>(YamlDocument::kAliasBudget)) +
           " values",
       "write the values out");
}

// Stores a complete node under its anchor and adds it to the open collection.
void YamlBuilder::Finish(YamlNode node, uint64_t anchor) {
  if (anchor != 0) {
    Charge(CountNodes(node), node.begin, node.end);
    anchors_[anchor] = node;
  }
  if (!node.IsNull() || node.end > last_end_) {
    last_end_ = std::max(last_end_, node.end);
  }
  if (stack_.empty()) {
    root_ = std::move(node);
    return;
  }
  Frame& frame = stack_.back();
  if (frame.node.IsSequence()) {
    frame.node.items.push_back(std::move(node));
  } else if (!frame.key) {
    CheckKey(frame, node);
    frame.key = std::move(node);
  } else {
    frame.node.members.push_back({std::move(*frame.key), std::move(node)});
    frame.key.reset();
  }
}

void YamlBuilder::CheckKey(Frame& frame, const YamlNode& key) {
  if (!key.IsScalar()) return;  // typed readers report such keys
  if (key.text == "<<" && key.style == YamlStyle::kPlain) {
    Broken(code::kMergeKey, key.begin, key.end, "merge key `<<`",
           "write the keys out");
    return;
  }
  const auto [first, is_new] = frame.keys.emplace(key.text, key.begin);
  // A duplicate key leaves the tree valid. So after the limit of errors,
  // reading continues without further findings.
  if (is_new || findings_.Full()) return;
  Finding& finding =
      findings_.Add(code::kDuplicateKey, {source_, key.begin, key.end},
                    "key " + ShortQuote(key.text) + " is given twice",
                    "remove one of the two");
  finding.labels.push_back(
      {{source_, first->second, first->second + 1}, "first given here"});
}

void YamlBuilder::PlaceScalar(YamlNode& node, const std::string& value) {
  const char first = node.begin < text_.size() ? text_[node.begin] : ' ';
  if (first == '\'' || first == '"') {
    node.style = YamlStyle::kQuoted;
    const auto end = QuotedEnd(text_, node.begin);
    if (!end) UnclosedQuote(node.begin);
    node.end = *end;
    const std::string_view written =
        text_.substr(node.begin, node.end - node.begin);
    if (written.find('\n') != std::string_view::npos) {
      long_quote_ = node.begin;
    }
  } else if (first == '|' || first == '>') {
    node.style = YamlStyle::kBlock;
    node.end = BlockEnd(text_, node.begin);
  } else {
    node.end = PlainEnd(text_, node.begin, value);
    CheckBlank(node);
  }
}

// Makes yaml-cpp accept pairs of surrogate escapes, such as `\ud83d\ude00`.
// Before parsing, it is not known whether such a text is an escape: in single
// quotes and plain scalars it is twelve ordinary characters. Each pair is
// therefore replaced by escapes of two noncharacters, which have the same
// length. The parser reads these as escapes where escapes are allowed. After
// parsing, the values of scalars get the character of the pair, or the text as
// it was written:
//
//   "a\ud83d\ude00"  ->  "a\ufdd0\ufdd1"  ->  a and U+1F600
//   'a\ud83d\ude00'  ->  'a\ufdd0\ufdd1'  ->  a\ud83d\ude00, as written

class SurrogatePairs {
 public:
  // Finds the pairs of escapes in a text.
  explicit SurrogatePairs(std::string_view text);

  // Returns the text for the parser, in which each pair is replaced by the
  // escapes of two substitute characters, so that all offsets stay the same. A
  // text that already contains the substitutes is returned unchanged.
  std::string ParserText() const;
  // Returns the value of a scalar that begins at `begin`, without substitutes.
  // In double quotes, each pair is replaced by the character that it encodes.
  // Elsewhere it is replaced by the escapes as written.
  std::string ValueOf(std::string value, size_t begin) const;

 private:
  struct Pair {
    size_t begin = 0;
    uint32_t point = 0;
  };
  std::string_view text_;
  // Ascending by `begin`. Empty if the text contains the two substitute
  // characters.
  std::vector<Pair> pairs_;
};

constexpr std::string_view kEscapes = "\\ufdd0\\ufdd1";
constexpr std::string_view kCharacters = "\xef\xb7\x90\xef\xb7\x91";
constexpr size_t kEscape = 6;  // bytes of an escape such as `\ud83d`

// Returns the code unit of the escape `\uXXXX` at `at`; 0 if there is none.
uint32_t UnitAt(std::string_view text, size_t at) {
  if (text.size() - at < kEscape || text.substr(at, 2) != "\\u") return 0;
  uint32_t unit = 0;
  for (const char c : text.substr(at + 2, 4)) {
    const bool digit = IsDigit(c);
    const char lower = static_cast<char>(c | 0x20);
    if (!digit && (lower < 'a' || lower > 'f')) return 0;
    unit =
        unit << 4 | static_cast<uint32_t>(digit ? c - '0' : lower - 'a' + 10);
  }
  return unit;
}

SurrogatePairs::SurrogatePairs(std::string_view text) : text_(text) {
  if (text.find(kEscapes) != std::string_view::npos ||
      text.find(kCharacters) != std::string_view::npos) {
    return;
  }
  for (size_t at = text.find('\\'); at != std::string_view::npos;
       at = text.find('\\', at)) {
    const uint32_t high = UnitAt(text, at);
    const bool first = high >= 0xd800 && high <= 0xdbff;
    const uint32_t low = first ? UnitAt(text, at + kEscape) : 0;
    if (low >= 0xdc00 && low <= 0xdfff) {
      pairs_.push_back(
          {at, 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)});
      at += 2 * kEscape;
    } else {
      at = std::min(at + 2, text.size());  // skips the escaped character too
    }
  }
}

std::string SurrogatePairs::ParserText() const {
  std::string out(text_);
  for (const Pair& pair : pairs_) {
    out.replace(pair.begin, kEscapes.size(), kEscapes);
  }
  return out;
}

std::string SurrogatePairs::ValueOf(std::string value, size_t begin) const {
  if (pairs_.empty()) return value;
  // The text contains neither of the two noncharacters, so if the value has
  // them, they are decoded escapes.
  const bool decoded = value.find(kCharacters) != std::string::npos;
  const std::string_view stands = decoded ? kCharacters : kEscapes;
  auto pair = std::lower_bound(
      pairs_.begin(), pairs_.end(), begin,
      [](const Pair& one, size_t at) { return one.begin < at; });
  std::string out;
  size_t from = 0;
  for (size_t at = value.find(stands);
       at != std::string::npos && pair != pairs_.end();
       at = value.find(stands, from), ++pair) {
    out.append(value, from, at - from);
    if (decoded) {
      AppendUtf8(out, pair->point);
    } else {
      out.append(text_, pair->begin, kEscapes.size());
    }
    from = at + stands.size();
  }
  return out.append(value, from);
}

size_t PositionOf(const YAML::Mark& mark) {
  return mark.pos < 0 ? 0 : static_cast<size_t>(mark.pos);
}

// Forwards the parser's events to the builder. `base` is the offset at which
// the parser's text begins in the source.
class Events : public YAML::EventHandler {
 public:
  Events(YamlBuilder& builder, const SurrogatePairs& pairs, size_t base)
      : builder_(builder), pairs_(pairs), base_(base) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    builder_.Null(At(mark), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    builder_.Alias(At(mark), anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag,
                YAML::anchor_t anchor, const std::string& value) override {
    builder_.Scalar(At(mark), tag, anchor,
                    pairs_.ValueOf(value, PositionOf(mark)));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    builder_.Open(YamlKind::kSequence, At(mark), tag, anchor,
                  style == YAML::EmitterStyle::Flow);
  }
  void OnSequenceEnd() override { builder_.Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    builder_.Open(YamlKind::kMapping, At(mark), tag, anchor,
                  style == YAML::EmitterStyle::Flow);
  }
  void OnMapEnd() override { builder_.Close(); }

 private:
  size_t At(const YAML::Mark& mark) const { return PositionOf(mark) + base_; }

  YamlBuilder& builder_;
  const SurrogatePairs& pairs_;
  size_t base_;
};

// An event handler that records where a second document begins and then stops
// the parser.
class Second : public YAML::EventHandler {
 public:
  std::optional<size_t> begin;
  void OnDocumentStart(const YAML::Mark& mark) override {
    begin = PositionOf(mark);
    throw YamlBuilder::Stop();
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

void ReportSecond(const SourceRef& source, size_t at, Findings& findings) {
  const std::string_view text = source->text();
  at = std::min(at, text.size());
  const Place place{source, at, std::min(at + 1, text.size())};
  if (at < text.size() && text[at] == ',') {
    findings.Add(code::kYamlSyntax, place, "`,` after the end of the document",
                 "remove it");
    return;
  }
  if (text.substr(at, 3) == "---") {
    findings.Add(code::kMultiDocument, {source, at, at + 3},
                 "a second document begins here",
                 "keep one document in a file");
    return;
  }
  findings.Add(code::kMultiDocument, place,
               "text after the end of the document",
               "keep one document in a file");
}

// Runs the event parser. Returns false after a finding that makes the tree
// invalid.
bool ParseEvents(const SourceRef& source, size_t base, YamlBuilder& builder,
                 Findings& findings) {
  const SurrogatePairs pairs(source->text().substr(base));
  std::istringstream in{pairs.ParserText()};
  try {
    YAML::Parser parser(in);
    Events events(builder, pairs, base);
    if (!parser.HandleNextDocument(events)) return true;
    Second second;
    try {
      parser.HandleNextDocument(second);
    } catch (const YamlBuilder::Stop&) {
    }
    if (!second.begin) return !builder.broken();
    // If the first document is empty, the caller reports that.
    if (builder.root() && builder.root()->IsNull()) return true;
    ReportSecond(source, *second.begin + base, findings);
    return false;
  } catch (const YamlBuilder::Stop&) {
    return false;
  } catch (const YAML::Exception& error) {
    ReportYamlError(source, error.msg,
                    builder.FailureAt(PositionOf(error.mark) + base), findings);
    return false;
  }
}

}  // namespace

std::optional<YamlDocument> YamlDocument::Parse(SourceRef source,
                                                Findings& findings) {
  const std::string_view text = source->text();
  if (text.size() > kByteLimit) {
    findings.Add(code::kLimit, {source, Place::kEntireFile, Place::kEntireFile},
                 Quote(source->name()) + " holds " +
                     CountText(static_cast<int64_t>(text.size())) +
                     " bytes of YAML",
                 "the limit is " + CountText(static_cast<int64_t>(kByteLimit)) +
                     " bytes");
    return std::nullopt;
  }
  if (const auto fault = FindTextFault(text)) {
    findings.Add(
        code::kEncoding,
        {source, fault->offset, std::min(fault->offset + 1, text.size())},
        fault->message, fault->help);
    return std::nullopt;
  }
  const size_t base = text.starts_with("\xef\xbb\xbf") ? 3 : 0;
  YamlBuilder builder(source, findings);
  if (!ParseEvents(source, base, builder, findings)) return std::nullopt;
  std::optional<YamlNode> root = builder.TakeRoot();
  if (!root || (root->IsNull() && root->begin == root->end)) {
    const size_t at = SkipEmptyDocument(text, base);
    if (at == text.size()) {
      findings.Add(code::kEmpty,
                   {source, Place::kEntireFile, Place::kEntireFile},
                   "the file holds no document");
    } else {
      findings.Add(code::kYamlSyntax, {source, at, at + 1},
                   "`" + Printable(text.substr(at, 1)) +
                       "` begins nothing that is YAML");
    }
    return std::nullopt;
  }
  // A Git LFS pointer or a web page may be valid YAML that consists of one
  // scalar. An error then states what the file is.
  if (root->IsScalar() &&
      ReportOtherText(source, findings, code::kYamlSyntax)) {
    return std::nullopt;
  }
  return YamlDocument(std::move(source), std::move(*root));
}

const YamlNode* MemberOf(const YamlNode& node, std::string_view key) {
  if (!node.IsMapping()) return nullptr;
  for (const YamlMember& member : node.members) {
    if (member.key.text == key) return &member.value;
  }
  return nullptr;
}

const YamlNode* FindNode(const YamlNode& root, const Place& place) {
  if (root.begin == place.begin && root.end == place.end) return &root;
  for (const YamlNode& item : root.items) {
    if (const YamlNode* found = FindNode(item, place)) return found;
  }
  for (const YamlMember& member : root.members) {
    if (const YamlNode* found = FindNode(member.value, place)) return found;
  }
  return nullptr;
}

}  // namespace shardc
