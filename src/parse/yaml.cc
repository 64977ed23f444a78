// From bytes to the tree, in three steps: a guard over the bytes
// (yaml_scan.h), the event parser of yaml-cpp, and this builder, which
// closes what the event parser leaves open. What it would accept and we
// must not: `'never closed`, `{dp: 2, , tp: 4}`, text after the document,
// duplicate keys, `<<`, tags, `&a [*a]`. Its own loader is not used, nor its
// reader of several documents, which never returns from a lone comma: the
// parser is asked for a document at most twice. tests/parse/yaml_test.cc has
// a case for each; tests/parse/fuzz_yaml.cc searches for more.
#include "parse/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "parse/yaml_error.h"
#include "parse/yaml_scan.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr std::string_view kCoreTags = "tag:yaml.org,2002:";

// Thrown to leave the event parser after a finding; caught in this file.
struct Stop {};

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

class Builder : public YAML::EventHandler {
 public:
  // `base`: bytes before the text that the event parser was given.
  Builder(const SourceRef& source, size_t base, Findings& findings)
      : source_(source),
        text_(source->text()),
        base_(base),
        findings_(findings) {}

  const std::optional<YamlNode>& root() const { return root_; }
  std::optional<YamlNode> TakeRoot() { return std::move(root_); }
  // Findings other than duplicate keys.
  bool broken() const { return broken_; }

  // What was open when the parser gave up.
  YamlFailure FailureAt(size_t offset) const {
    YamlFailure failure;
    failure.offset = std::min(offset, text_.size());
    failure.last_end = last_end_;
    if (!stack_.empty() && stack_.back().flow) {
      failure.open_flow = stack_.back().node.begin;
      // `[a 'b` opens a map of one pair: its bracket is the list's.
      if (text_[*failure.open_flow] != '[' &&
          text_[*failure.open_flow] != '{' && stack_.size() > 1) {
        failure.open_flow = stack_[stack_.size() - 2].node.begin;
      }
    }
    return failure;
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    bool tagged = false;
    const size_t begin = OffsetOf(mark);
    const size_t word = SkipProperties(text_, begin, &tagged);
    if (tagged) Broken(code::kYamlTag, begin, word, TagMessage(begin));
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

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const size_t begin = OffsetOf(mark);
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
    Finish(std::move(copy), YAML::NullAnchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag,
                YAML::anchor_t anchor, const std::string& value) override {
    YamlNode node;
    node.kind = YamlKind::kScalar;
    const size_t start = OffsetOf(mark);
    bool tagged = false;
    node.begin = SkipProperties(text_, start, &tagged);
    if (tagged) KeepTag(tag, start, node);
    const char first = node.begin < text_.size() ? text_[node.begin] : ' ';
    if (first == '\'' || first == '"') {
      node.style = YamlStyle::kQuoted;
      const auto end = QuotedEnd(text_, node.begin);
      if (!end) UnclosedQuote(node.begin);
      node.end = *end;
    } else if (first == '|' || first == '>') {
      node.style = YamlStyle::kBlock;
      node.end = BlockEnd(text_, node.begin);
    } else {
      node.end = PlainEnd(text_, node.begin, value);
      CheckBlank(node);
    }
    node.text = value;
    CheckText(node);
    Finish(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    Open(YamlKind::kSequence, mark, tag, anchor, style);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    Open(YamlKind::kMapping, mark, tag, anchor, style);
  }
  void OnMapEnd() override { Close(); }

 private:
  // A collection that is not closed yet.
  struct Frame {
    YamlNode node;
    YAML::anchor_t anchor = YAML::NullAnchor;
    bool flow = false;
    std::optional<YamlNode> key;  // of a mapping: its value comes next
    std::map<std::string, size_t, std::less<>> keys;  // to key's offset
  };

  size_t OffsetOf(const YAML::Mark& mark) const {
    const size_t at = mark.pos < 0 ? 0 : static_cast<size_t>(mark.pos);
    return std::min(at + base_, text_.size());
  }

  void Broken(const Code& code, size_t begin, size_t end, std::string message,
              std::string help = {}) {
    broken_ = true;
    findings_.Add(code, {source_, begin, end}, std::move(message),
                  std::move(help));
    if (findings_.Full()) throw Stop();
  }
  [[noreturn]] void Fail(const Code& code, size_t begin, size_t end,
                         std::string message, std::string help = {}) {
    Broken(code, begin, end, std::move(message), std::move(help));
    throw Stop();
  }
  [[noreturn]] void TooDeep(size_t at) {
    Fail(code::kYamlDepth, at, std::min(at + 1, text_.size()),
         "nested more than " + std::to_string(YamlDocument::kDepthLimit) +
             " levels deep");
  }
  [[noreturn]] void UnclosedQuote(size_t at) {
    Fail(code::kYamlSyntax, at, at + 1,
         std::string("the quote `") + text_[at] + "` is never closed",
         "close it on the same line");
  }

  std::string TagMessage(size_t begin) const {
    size_t at = text_.find('!', begin);
    at = std::min(at, text_.size());
    const size_t end =
        std::min(text_.find_first_of(" \t\r\n,[]{}", at), text_.size());
    return "a tag: `" + Printable(text_.substr(at, end - at)) + "`";
  }

  // Tags of plain values go to the readers, for whom `!!float 4` may be a
  // bad number rather than a bad file.
  void KeepTag(const std::string& tag, size_t start, YamlNode& node) {
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
    Broken(code::kYamlTag, start, node.begin, TagMessage(start),
           "remove the tag");
  }

  void CheckText(const YamlNode& node) {
    if (node.text.find('\0') != std::string::npos) {
      Broken(code::kEncoding, node.begin, node.end,
             "a NUL character in a string");
    } else if (!IsUtf8(node.text)) {
      Broken(code::kEncoding, node.begin, node.end,
             "an escape that is no Unicode character");
    }
  }

  // `\u00a0 dp: 2` is a key with a blank before it that nobody sees.
  void CheckBlank(const YamlNode& node) {
    const size_t blank = OddBlank(text_, node.begin);
    if (blank == 0) return;
    Fail(code::kYamlSyntax, node.begin, node.begin + blank,
         std::string(kOddBlankMessage), std::string(kOddBlankHelp));
  }

  // In block style the mark of a value that nobody wrote is that of the next
  // token, which may well be a key named `null`.
  bool WrittenHere(size_t word) const {
    if (stack_.empty() || stack_.back().flow) return true;
    const Frame& frame = stack_.back();
    if (frame.node.IsSequence()) {
      return ColumnOf(text_, word) > ColumnOf(text_, frame.node.begin);
    }
    if (!frame.key) return true;
    return LineBegin(text_, word) == LineBegin(text_, frame.key->end) ||
           ColumnOf(text_, word) > ColumnOf(text_, frame.key->begin);
  }

  void PlaceUnwritten(size_t next, YamlNode& node) {
    node.begin = node.end = std::min(next, text_.size());
    if (stack_.empty()) return;
    const Frame& frame = stack_.back();
    if (frame.key) {
      node.begin = frame.key->begin;
      node.end = frame.key->end;
    } else if (frame.flow) {
      // `{: 4}` has an empty key; a comma with nothing before it is a slip.
      node.end = std::min(next + 1, text_.size());
      if (next < text_.size() && text_[next] == ':') return;
      Fail(code::kYamlSyntax, node.begin, node.end,
           "nothing stands before this `,`",
           "remove the comma, or write `null`");
    } else if (frame.node.IsSequence()) {
      node.begin = DashBefore(frame, next);
      node.end = node.begin + 1;
    } else {
      node.end = std::min(next + 1, text_.size());
    }
  }

  // The dash of an item without text, whose parser mark is the next token's.
  size_t DashBefore(const Frame& frame, size_t next) const {
    const size_t column = ColumnOf(text_, frame.node.begin);
    size_t line = LineBegin(text_, next);
    while (line > frame.node.begin) {
      line = LineBegin(text_, line - 1);
      const size_t dash = line + column;
      if (dash < text_.size() && dash >= frame.node.begin &&
          text_[dash] == '-' && ColumnOf(text_, dash) == column) {
        return dash;
      }
    }
    return frame.node.begin;
  }

  void Open(YamlKind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor, YAML::EmitterStyle::value style) {
    Frame frame;
    const size_t start = OffsetOf(mark);
    bool tagged = false;
    frame.node.kind = kind;
    frame.node.begin = SkipProperties(text_, start, &tagged);
    frame.flow = style == YAML::EmitterStyle::Flow;
    if (tagged || (tag != "?" && tag != "!")) {
      Broken(code::kYamlTag, start, frame.node.begin, TagMessage(start),
             "remove the tag");
    }
    frame.anchor = anchor;
    last_end_ = frame.node.begin + (frame.flow ? 1 : 0);
    stack_.push_back(std::move(frame));
    if (stack_.size() > YamlDocument::kDepthLimit) {
      TooDeep(stack_.back().node.begin);
    }
  }

  void Close() {
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

  void Charge(size_t nodes, size_t begin, size_t end) {
    alias_nodes_ += nodes;
    if (alias_nodes_ <= YamlDocument::kAliasBudget) return;
    Fail(code::kYamlAlias, begin, end,
         "aliases make more than " +
             CountText(static_cast<int64_t>(YamlDocument::kAliasBudget)) +
             " values",
         "write the values out");
  }

  // A whole node: remembered under its anchor and put where it belongs.
  void Finish(YamlNode node, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
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

  void CheckKey(Frame& frame, const YamlNode& key) {
    if (!key.IsScalar()) return;  // a reader's matter
    if (key.text == "<<" && key.style == YamlStyle::kPlain) {
      Broken(code::kMergeKey, key.begin, key.end, "merge key `<<`",
             "write the keys out");
      return;
    }
    const auto [first, is_new] = frame.keys.emplace(key.text, key.begin);
    if (is_new) return;
    Finding& finding =
        findings_.Add(code::kDuplicateKey, {source_, key.begin, key.end},
                      "key " + ShortQuote(key.text) + " is given twice",
                      "remove one of the two");
    finding.labels.push_back(
        {{source_, first->second, first->second + 1}, "first given here"});
    if (findings_.Full()) throw Stop();
  }

  const SourceRef& source_;
  std::string_view text_;
  size_t base_;
  Findings& findings_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, YamlNode> anchors_;
  std::optional<YamlNode> root_;
  size_t alias_nodes_ = 0;
  size_t last_end_ = 0;  // of the last whole token seen
  bool broken_ = false;
};

// Sees whether another document begins, and leaves at once.
class Second : public YAML::EventHandler {
 public:
  std::optional<size_t> begin;
  void OnDocumentStart(const YAML::Mark& mark) override {
    begin = mark.pos < 0 ? 0 : static_cast<size_t>(mark.pos);
    throw Stop();
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

// Runs the event parser; false when there is no good tree.
bool Run(const SourceRef& source, size_t base, Builder& builder,
         Findings& findings) {
  std::istringstream in{std::string(source->text().substr(base))};
  try {
    YAML::Parser parser(in);
    if (!parser.HandleNextDocument(builder)) return true;
    Second second;
    try {
      parser.HandleNextDocument(second);
    } catch (const Stop&) {
    }
    if (!second.begin) return !builder.broken();
    // A root that nobody wrote is worded by the caller.
    if (builder.root() && builder.root()->IsNull()) return true;
    ReportSecond(source, *second.begin + base, findings);
    return false;
  } catch (const Stop&) {
    return false;
  } catch (const YAML::Exception& error) {
    const size_t at =
        error.mark.pos < 0 ? 0 : static_cast<size_t>(error.mark.pos);
    ReportYamlError(source, error.msg, builder.FailureAt(at + base), findings);
    return false;
  }
}

}  // namespace

std::optional<YamlDocument> YamlDocument::Parse(SourceRef source,
                                                Findings& findings) {
  const std::string_view text = source->text();
  if (text.size() > kByteLimit) {
    findings.Add(code::kLimit, {source, Place::kWhole, Place::kWhole},
                 BytesText(static_cast<int64_t>(text.size())) + " of YAML",
                 "the limit is " + BytesText(static_cast<int64_t>(kByteLimit)));
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
  Builder builder(source, base, findings);
  if (!Run(source, base, builder, findings)) return std::nullopt;
  std::optional<YamlNode> root = builder.TakeRoot();
  if (!root || (root->IsNull() && root->begin == root->end)) {
    const size_t at = SkipEmptyDocument(text, base);
    if (at == text.size()) {
      findings.Add(code::kEmpty, {source, Place::kWhole, Place::kWhole},
                   "the file holds no document");
    } else {
      findings.Add(code::kYamlSyntax, {source, at, at + 1},
                   "`" + Printable(text.substr(at, 1)) +
                       "` begins nothing that is YAML");
    }
    return std::nullopt;
  }
  return YamlDocument(std::move(source), std::move(*root));
}

}  // namespace shardc
