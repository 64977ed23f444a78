// Directory: yaml. Parses YAML to a tree whose nodes have positions in the
// source. No other directory includes yaml-cpp.
// Its files include headers of these directories: source.
//
// The parser is stricter than YAML libraries. A file has one document, in
// UTF-8. Tags, merge keys, duplicate keys, unterminated quotes and implicit
// list entries are refused. (Some tags are stored in YamlNode::tag, and the
// typed readers refuse them.) The number of aliased nodes is limited, and an
// alias inside its own node is refused. Scalars remain text, and the typed
// readers of yaml/read.h interpret it.
#ifndef SHARDC_YAML_YAML_H_
#define SHARDC_YAML_YAML_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/finding.h"
#include "source/source.h"

namespace shardc {

enum class YamlKind : uint8_t { kNull, kScalar, kSequence, kMapping };
enum class YamlStyle : uint8_t { kPlain, kQuoted, kBlock };

struct YamlMember;

struct YamlNode {
  YamlKind kind = YamlKind::kNull;
  YamlStyle style = YamlStyle::kPlain;  // for scalars only
  std::string text;                     // the text of a scalar, unescaped
  // The tag of a scalar: `str`, `int`, `float`, `bool` or `null`. The scalar
  // `!!float 4` has the tag `float`. The typed readers (yaml/read.h) refuse a
  // scalar with a tag. All other tags are refused while parsing.
  std::string tag;
  // The byte range in the source. If a null is omitted, the range is that of
  // its key or of its dash. If the null has neither, the range is empty, or is
  // the byte after the null, such as the colon in `{: 4}`.
  size_t begin = 0;
  size_t end = 0;
  std::vector<YamlNode> items;      // the items of a sequence
  std::vector<YamlMember> members;  // the members of a mapping, in file order

  bool IsNull() const { return kind == YamlKind::kNull; }
  bool IsScalar() const { return kind == YamlKind::kScalar; }
  bool IsSequence() const { return kind == YamlKind::kSequence; }
  bool IsMapping() const { return kind == YamlKind::kMapping; }
};

struct YamlMember {
  YamlNode key;  // typed readers refuse keys that are no scalars
  YamlNode value;
};

class YamlDocument {
 public:
  static constexpr size_t kByteLimit = size_t{16} << 20;
  static constexpr size_t kDepthLimit = 64;
  // The limit on the number of nodes that anchors and aliases add. It counts
  // the nodes of all values with an anchor (`&a`), which are stored for
  // copying, and the nodes of all copies that aliases (`*a`) make.
  static constexpr size_t kAliasBudget = 100000;

  // Parses a file. Findings: encoding, empty, limit, yaml-syntax, yaml-depth,
  // yaml-alias, yaml-tag, merge-key, multi-document, duplicate-key. Returns
  // nullopt after any of them except duplicate-key: a tree with a duplicate key
  // is returned, so that the other errors of the file are found too. Duplicate
  // keys are not reported after Findings::kErrorLimit errors.
  static std::optional<YamlDocument> Parse(SourceRef source,
                                           Findings& findings);

  const YamlNode& root() const { return root_; }
  const SourceRef& source() const { return source_; }
  Place PlaceOf(const YamlNode& node) const {
    return {source_, node.begin, node.end};
  }

 private:
  YamlDocument(SourceRef source, YamlNode root)
      : source_(std::move(source)), root_(std::move(root)) {}
  SourceRef source_;
  YamlNode root_;
};

// Returns the value of a member of a mapping; null if the node is no mapping or
// has no such member.
const YamlNode* MemberOf(const YamlNode& node, std::string_view key);

// Returns the first node with the byte range of `place`, or null if there is
// none. Keys are not searched.
const YamlNode* FindNode(const YamlNode& root, const Place& place);

}  // namespace shardc

#endif  // SHARDC_YAML_YAML_H_
