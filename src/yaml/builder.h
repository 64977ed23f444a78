// Builds a tree from the events of a YAML parser, including the byte range of
// every node. The builder does not depend on yaml-cpp: anchors are numbers (0:
// no anchor), and positions are byte offsets into the source.
#ifndef SHARDC_YAML_BUILDER_H_
#define SHARDC_YAML_BUILDER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"
#include "yaml/error.h"
#include "yaml/yaml.h"

namespace shardc {

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

}  // namespace shardc

#endif  // SHARDC_YAML_BUILDER_H_
