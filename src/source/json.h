// Parses JSON text into values that know their byte range in the source.
//
// The document is one flat array of nodes in document order, so that a manifest
// of a million tensors needs one allocation. Parsing is strict: UTF-8 only, no
// duplicate keys, a limit on nested containers, nothing after the value.
// Integers keep their 64 bits; -0 and numbers with a fraction or an exponent
// are reals.
#ifndef SHARDC_SOURCE_JSON_H_
#define SHARDC_SOURCE_JSON_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "source/finding.h"
#include "source/source.h"

namespace shardc {

// An integer is kInteger if it fits int64_t, and kUnsigned if it is larger and
// fits uint64_t. All other numbers are kReal: numbers with a fraction or an
// exponent, "-0", and integers that fit neither type.
enum class JsonKind : uint8_t {
  kNull,
  kBool,
  kInteger,
  kUnsigned,
  kReal,
  kString,
  kArray,
  kObject
};

class JsonDocument;

// A reference to one value of a JsonDocument, valid as long as the document.
class JsonValue {
 public:
  JsonValue() = default;
  JsonKind kind() const;
  bool IsNull() const { return kind() == JsonKind::kNull; }
  bool IsObject() const { return kind() == JsonKind::kObject; }
  bool IsArray() const { return kind() == JsonKind::kArray; }
  bool IsString() const { return kind() == JsonKind::kString; }

  bool boolean() const;
  int64_t integer() const;     // valid only for kInteger
  uint64_t unsigned_() const;  // valid only for kUnsigned
  double real() const;         // valid for any number
  std::string_view string() const;

  size_t size() const;  // number of members or elements
  Place place() const;  // the place of the value's complete text

  // For loops over arrays: `for (JsonValue v : array.items())`. The items of an
  // object are its keys and values in turn; use members() for objects.
  class Iterator;
  class ItemRange;
  ItemRange items() const;
  // For loops over objects: `for (JsonMember m : object.members())`.
  class MemberIterator;
  class MemberRange;
  MemberRange members() const;
  // Returns the member's value, or nullopt if it is absent. Time is linear in
  // the number of members.
  std::optional<JsonValue> Find(std::string_view key) const;

 private:
  friend class JsonDocument;
  JsonValue(const JsonDocument* document, uint32_t node)
      : document_(document), node_(node) {}
  const JsonDocument* document_ = nullptr;
  uint32_t node_ = 0;
};

class JsonValue::Iterator {
 public:
  Iterator(const JsonDocument* document, uint32_t node)
      : document_(document), node_(node) {}
  JsonValue operator*() const { return JsonValue(document_, node_); }
  Iterator& operator++();
  bool operator!=(const Iterator& o) const { return node_ != o.node_; }

 private:
  const JsonDocument* document_;
  uint32_t node_;
};

class JsonValue::ItemRange {
 public:
  ItemRange(Iterator begin, Iterator end) : begin_(begin), end_(end) {}
  Iterator begin() const { return begin_; }
  Iterator end() const { return end_; }

 private:
  Iterator begin_, end_;
};

struct JsonMember {
  JsonValue key;  // a string value with its own place
  JsonValue value;
  std::string_view name() const { return key.string(); }
};

class JsonValue::MemberIterator {
 public:
  explicit MemberIterator(Iterator at) : at_(at) {}
  JsonMember operator*() const {
    Iterator value = at_;
    ++value;
    return {*at_, *value};
  }
  MemberIterator& operator++() {
    ++at_;
    ++at_;
    return *this;
  }
  bool operator!=(const MemberIterator& o) const { return at_ != o.at_; }

 private:
  Iterator at_;
};

class JsonValue::MemberRange {
 public:
  explicit MemberRange(ItemRange items) : items_(items) {}
  MemberIterator begin() const { return MemberIterator(items_.begin()); }
  MemberIterator end() const { return MemberIterator(items_.end()); }

 private:
  ItemRange items_;
};

struct JsonLimits {
  int depth = 200;
  bool allow_null_root = false;
  // Tests set this to false to skip the scanner and parse with the slower
  // parser, which reports errors. By default the slower parser runs only if the
  // scanner rejects the text.
  bool scan = true;
  // If set, `place()` of a value is in this text, so that messages quote this
  // text instead of the parsed one. For example, a reader replaces `NaN`, which
  // JSON lacks, by `0.0` before parsing. Both texts have the same length and
  // differ only inside of values.
  SourceRef shown = nullptr;
};

// A JSON text that has been parsed. Parsing may add these errors: encoding,
// json-syntax (with the position; also for an empty text), json-depth,
// duplicate-key, number (a real too large for a double), limit, and schema if
// the root is null without allow_null_root. `place()` of a value covers its
// text, so that messages can quote a number as written.
class JsonDocument {
 public:
  // Parses `source->text()` from `begin` to `end`, by default all of it. On
  // failure, adds an error to `findings` and returns null.
  static std::unique_ptr<const JsonDocument> Parse(
      SourceRef source, Findings& findings, JsonLimits limits = {},
      size_t begin = 0, size_t end = Place::kEntireFile);

  JsonValue root() const { return JsonValue(this, 0); }
  const SourceRef& source() const { return source_; }

 private:
  friend class JsonValue;
  // JsonScanner and JsonReader (json.cc) build the nodes.
  friend class JsonScanner;
  friend class JsonReader;
  struct Node {
    uint32_t offset;  // offset of the value's first byte
    // For a container, the index after its last descendant. For an escaped
    // string, its offset in `strings_`.
    uint32_t next;
    uint32_t length;  // bytes of a string, or number of children
    JsonKind kind;
    bool escaped;  // the string has escapes: its value is in `strings_`
  };
  static_assert(sizeof(Node) == 16);
  uint32_t NextOf(uint32_t node) const {
    const Node& at = nodes_[node];
    const bool container =
        at.kind == JsonKind::kArray || at.kind == JsonKind::kObject;
    return container ? at.next : node + 1;
  }
  std::string_view StringAt(uint32_t node) const;
  std::string_view TokenAt(uint32_t node) const;  // JSON text of a scalar
  size_t EndOf(uint32_t node) const;  // offset after the value's text
  // Parses with the slower parser. On failure, adds an error to `findings` and
  // returns false.
  static bool Read(JsonDocument& document, size_t begin, size_t end,
                   const JsonLimits& limits, Findings& findings);

  SourceRef source_;
  // The text to which the places of values refer: JsonLimits::shown if it is
  // set, and otherwise `source_`.
  SourceRef shown_;
  // The nodes of all values in document order. A member of an object is the
  // node of its key, followed by the nodes of its value.
  std::vector<Node> nodes_;
  std::string strings_;  // values of strings that have escapes
};

// Returns the value's text with uniform spacing and sorted members: two values
// are equal if and only if their texts are. Numbers are compared as they are
// written, so 1 and 1.0 differ.
std::string NormalText(const JsonValue& value);

using JsonMembers = std::unordered_map<std::string_view, JsonValue>;
// Returns the members of an object by name. Returns no members if the value is
// absent or is not an object.
JsonMembers MembersOf(const std::optional<JsonValue>& value);
std::optional<JsonValue> MemberAt(const JsonMembers& members,
                                  std::string_view name);
// Returns the object's member `schema`. Returns "" if there is no such member
// or if it is not a string.
std::string_view SchemaOf(const JsonValue& root);
// Returns the NormalText of a member, or `absent` if there is no such member.
std::string MemberText(const JsonMembers& members, std::string_view name,
                       std::string_view absent);
// Returns the names of the members that at least one object has: all names of
// `first`, then the names that only `second` has.
std::vector<std::string_view> NamesOfEither(
    const std::optional<JsonValue>& first,
    const std::optional<JsonValue>& second);

}  // namespace shardc

#endif  // SHARDC_SOURCE_JSON_H_
