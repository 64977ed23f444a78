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
#include "yaml/builder.h"

#include <algorithm>
#include <utility>

#include "source/utf8.h"
#include "source/wording.h"
#include "yaml/error.h"
#include "yaml/scan.h"

namespace shardc {
namespace {

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

}  // namespace

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

}  // namespace shardc
