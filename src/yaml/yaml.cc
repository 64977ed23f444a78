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
#include <sstream>
#include <utility>

#include "source/other_text.h"
#include "source/wording.h"
#include "yaml/builder.h"
#include "yaml/error.h"
#include "yaml/scan.h"
#include "yaml/surrogates.h"

namespace shardc {
namespace {

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
bool Run(const SourceRef& source, size_t base, YamlBuilder& builder,
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
  if (!Run(source, base, builder, findings)) return std::nullopt;
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
