// A YAML file as a tree of our own that knows where everything stands.
//
// Strict where YAML libraries are lax: one document; no tags, merge keys,
// duplicate keys, unterminated quotes or entries that nobody wrote; aliases
// within a budget and never in circles; UTF-8 text only. Scalars stay text:
// what they mean is for the typed readers of yaml_read.h.
//
// Internal to the room; no other room sees YAML.
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
  YamlStyle style = YamlStyle::kPlain;  // of scalars
  std::string text;                     // of scalars, unescaped
  // `float` of a scalar tagged `!!float`: every reader refuses it, each in
  // its own words. All other tags are refused when the file is read.
  std::string tag;
  size_t begin = 0;  // byte range in the source; of a null that nobody
  size_t end = 0;    // wrote, the range of its key or dash
  std::vector<YamlNode> items;      // of sequences
  std::vector<YamlMember> members;  // of mappings, in file order

  bool IsNull() const { return kind == YamlKind::kNull; }
  bool IsScalar() const { return kind == YamlKind::kScalar; }
  bool IsSequence() const { return kind == YamlKind::kSequence; }
  bool IsMapping() const { return kind == YamlKind::kMapping; }
};

struct YamlMember {
  YamlNode key;  // a reader refuses one that is not a scalar
  YamlNode value;
};

class YamlDocument {
 public:
  static constexpr size_t kByteLimit = size_t{16} << 20;
  static constexpr size_t kDepthLimit = 64;
  static constexpr size_t kAliasBudget = 100000;  // nodes that aliases make

  // Findings: encoding, empty, limit, yaml-syntax, yaml-depth, yaml-alias,
  // yaml-tag, merge-key, multi-document, duplicate-key. Duplicate keys alone
  // still give a document, so that its other errors can be found.
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

// What stands at a place of a file that was read before; null for nothing.
const YamlNode* FindNode(const YamlNode& root, const Place& place);

}  // namespace shardc

#endif  // SHARDC_YAML_YAML_H_
