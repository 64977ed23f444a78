// JSON text to values that know where they stand.
//
// One flat tape of nodes in document order, so that a manifest of a million
// tensors costs one array. Strict: UTF-8, no duplicate keys, bounded depth,
// nothing after the value. Integers keep their 64 bits; -0, fractions and
// exponents are kept apart from integers.
#ifndef SHARDC_SOURCE_JSON_H_
#define SHARDC_SOURCE_JSON_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"
#include "source/source.h"

namespace shardc {

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
// kInteger: fits int64. kUnsigned: above it, fits uint64. kReal: the rest,
// written with a fraction or exponent, "-0", or beyond 64 bits.

class JsonDocument;

// A cursor into a JsonDocument, valid while the document lives.
class JsonValue {
 public:
  JsonValue() = default;
  JsonKind kind() const;
  bool IsNull() const { return kind() == JsonKind::kNull; }
  bool IsObject() const { return kind() == JsonKind::kObject; }
  bool IsArray() const { return kind() == JsonKind::kArray; }
  bool IsString() const { return kind() == JsonKind::kString; }

  bool boolean() const;
  int64_t integer() const;     // kInteger only
  uint64_t unsigned_() const;  // kUnsigned only
  double real() const;         // any number
  std::string_view string() const;

  size_t size() const;  // members or elements
  Place place() const;  // of the value, its whole text

  // `for (JsonValue v : array.items())`; an object's items are key, value,
  // key, value ... (keys are strings): use members() there.
  class Iterator;
  class ItemRange;
  ItemRange items() const;
  // `for (JsonMember m : object.members())`
  class MemberIterator;
  class MemberRange;
  MemberRange members() const;
  // Linear in the number of members; nothing if absent.
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
  JsonValue key;  // a string with its own place
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
  // For tests: by the reader that words errors, which otherwise reads only
  // what the scanner objects to.
  bool scan = true;
};

// Errors: encoding, json-syntax (with position; also for no text at all),
// json-depth, duplicate-key, number (a real too large for a double), limit,
// and schema for a null root unless allowed. The text of a value is
// `place()`, so that a reader can quote a number as it was written.
class JsonDocument {
 public:
  // Parses `source->text()` from `begin` to `end` (whole by default).
  static std::unique_ptr<const JsonDocument> Parse(SourceRef source,
                                                   Findings& findings,
                                                   JsonLimits limits = {},
                                                   size_t begin = 0,
                                                   size_t end = Place::kWhole);

  JsonValue root() const { return JsonValue(this, 0); }
  const SourceRef& source() const { return source_; }

 private:
  friend class JsonValue;
  friend class JsonScanner;  // these two build the tape
  friend class JsonReader;   // (json.cc)
  struct Node {
    uint32_t offset;  // byte where the value begins
    uint32_t next;    // a container's next sibling, past all children, or
                      // where an escaped string lies in `strings_`
    uint32_t length;  // string length, or number of children
    JsonKind kind;
    bool escaped;  // a string with escapes: it lies in `strings_`
  };
  static_assert(sizeof(Node) == 16);
  uint32_t NextOf(uint32_t node) const {
    const Node& at = nodes_[node];
    const bool container =
        at.kind == JsonKind::kArray || at.kind == JsonKind::kObject;
    return container ? at.next : node + 1;
  }
  std::string_view StringAt(uint32_t node) const;
  std::string_view TokenAt(uint32_t node) const;  // of a scalar
  size_t EndOf(uint32_t node) const;              // byte past the value's text
  // By the reader that words errors.
  static bool Read(JsonDocument& document, size_t begin, size_t end,
                   const JsonLimits& limits, Findings& findings);

  SourceRef source_;
  std::vector<Node> nodes_;  // an object's members: key node, value node, ...
  std::string strings_;      // those that escapes make differ from the text
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_JSON_H_
