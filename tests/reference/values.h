// A second implementation of the reference systems, with which shardc is
// compared: it returns exactly what eformer, EasyDeL, fjformer and MaxText
// return, as the recorded vectors show. No file of src may include it.
//
// This file holds their values, with all their oddities: nested groups, nulls
// inside groups, literal `_`. The native model (mesh.h, axis_rules.h) has none
// of these.
#ifndef SHARDC_TESTS_REFERENCE_VALUES_H_
#define SHARDC_TESTS_REFERENCE_VALUES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/axis_rules.h"
#include "model/manifest.h"
#include "model/mesh.h"

namespace shardc::reference {

// A Python value: None, a string, a tuple or a list of values. Tuples and
// lists differ in equality only.
struct Value {
  enum class Kind : uint8_t { kNone, kName, kTuple, kList };
  Kind kind = Kind::kNone;
  std::string name;
  std::vector<Value> items;

  static Value None() { return {}; }
  static Value Name(std::string_view name);
  static Value Tuple(std::vector<Value> items);
  static Value List(std::vector<Value> items);

  bool IsNone() const { return kind == Kind::kNone; }
  bool IsName() const { return kind == Kind::kName; }
  bool IsSequence() const { return kind >= Kind::kTuple; }
  bool operator==(const Value&) const = default;
};

// A failure as the reference raises it.
struct Error {
  std::string type;     // the Python class: "ValueError"
  std::string kind;     // language-neutral: "unknown_axis"
  std::string message;  // the original wording
};

template <class T>
using Result = std::variant<T, Error>;

template <class T>
const T* Get(const Result<T>& result) {
  return std::get_if<T>(&result);
}
template <class T>
const Error* Failure(const Result<T>& result) {
  return std::get_if<Error>(&result);
}

// A PartitionSpec as JAX normalises it: a group of one becomes its member,
// an empty string or group becomes None, a group inside a group is refused
// (`nested_tuple_in_spec`).
using PartitionSpec = std::vector<Value>;
Result<PartitionSpec> MakePartitionSpec(std::span<const Value> entries);

// The 27 fields of PartitionAxis after construction. Each is the given value,
// or derives from others (batch from fsdp and dp, heads from tp and so on). A
// given None stays None.
class PartitionAxis {
 public:
  using Given = std::array<std::optional<Value>, kAxisRuleCount>;
  explicit PartitionAxis(const Given& given = {});
  const Value& Field(AxisRule rule) const {
    return fields_[static_cast<size_t>(rule)];
  }
  bool operator==(const PartitionAxis&) const = default;

 private:
  std::array<Value, kAxisRuleCount> fields_;
};

// Returns the name of a field, such as "kv_head_axis". ParseFieldName does the
// reverse.
std::string FieldName(AxisRule rule);
std::optional<AxisRule> ParseFieldName(std::string_view name);

// A tree of parameters. The members of a list have the keys "0", "1" and so on.
struct TreeMember;
struct Tree {
  enum class Kind : uint8_t { kNone, kArray, kHost, kBranch };
  Kind kind = Kind::kNone;
  Shape shape;            // kArray
  std::string host_type;  // kHost: the Python type's name, such as "float"
  std::string host_text;  // kHost: the value as its JSON text
  bool is_list = false;   // kBranch
  std::vector<TreeMember> members;
};
struct TreeMember {
  TreeMember(std::string part, Tree tree)
      : first(std::move(part)), second(std::move(tree)) {}
  std::string first;  // the part of the path
  Tree second;
};

struct Leaf {
  std::vector<std::string> path;
  const Tree* value = nullptr;
};

// Returns the leaves in JAX's order: dictionary keys ascending by code point,
// list members in their order. None and empty branches have no leaves.
std::vector<Leaf> Flatten(const Tree& tree);
std::string JoinPath(std::span<const std::string> path,
                     std::string_view separator);

// Returns the spec that values stand for in the native model: groups are
// flattened, and None and empty strings are removed.
Spec AxesOf(std::span<const Value> values);

// Returns every string in the value, at any depth; None is skipped.
std::set<std::string> NamesIn(const Value& value);
bool NamesInMesh(std::span<const std::string> names,
                 std::span<const std::string> mesh_axes);

// Returns the decimal digits of a digest, read as a big-endian integer. The
// error for an unknown algorithm is `unknown_hash_algorithm`.
Result<std::string> SafeHashInt(std::string_view text,
                                std::string_view algorithm);

}  // namespace shardc::reference

#endif  // SHARDC_TESTS_REFERENCE_VALUES_H_
