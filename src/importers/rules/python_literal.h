// Makes and compares values of Python expressions, and computes their sizes.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_LITERAL_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_LITERAL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "importers/rules/python_value.h"

namespace shardc::imports {

// The largest number of values that are nested in one value. A shared value is
// counted at each place where it occurs. The same number limits the bytes of a
// text.
inline constexpr int64_t kPySizeLimit = 1'000'000;

// Simple, Unknown and Truth make a value whose place is the place of `node`.
PyValue Simple(PyIs is, const PyNode& node, std::string text = {});
PyValue Unknown(const PyNode& node, std::string why, std::string flag = {});
PyValue Truth(const PyNode& node, bool truth);
// Returns the value of a flag that is set with `--set`.
PyValue FromFlag(const std::string& text, const PyNode& node);

// Returns the result of Python's str() for an integer, such as `16` for
// `0x1_0`. The integer may have any base and must fit in 64 bits. Other numbers
// are returned as they are written.
std::string DecimalText(std::string_view number);
// Returns whether the value is an integer that is written as Python's str()
// prints it, such as `16` but not `0x10`.
bool IsDecimal(const PyValue& value);
// Returns an integer that is written as `12` or `1_000`. Returns nullopt for
// other values.
std::optional<int64_t> WholeNumber(const PyValue& value);
bool Same(const PyValue& a, const PyValue& b);
// Returns whether the value is true in Python. Returns nullopt if this is
// unknown, as for an object of a class or a name that another file defines.
std::optional<bool> TruthOf(const PyValue& value);

// BytesOf(value) returns the bytes of a value without its lists, because other
// values may share the lists. BytesOf(values) returns the sum of BytesOf(value)
// over the values of a list.
int64_t BytesOf(const PyValue& value);
int64_t BytesOf(const PyList<PyValue>& values);
// Returns the value with its `size` set, or an unknown value if the size
// exceeds kPySizeLimit.
PyValue Sized(PyValue value, const PyNode& node);

// Returns whether the name is `PartitionSpec` or a common alias of it, such as
// `P`.
bool IsSpecName(std::string_view name);
// Returns whether a call of the function can be replaced by its only argument,
// as for `tuple(x)`, `freeze(x)` and `re.compile(x)`.
bool KeepsItsArgument(std::string_view function);
// Returns the result of a call of PartitionManager.resolve(axes, mode,
// dynamic_axes, shape), PartitionAxis.resolve_spec or DynamicShardingAxes.
// `given` has the arguments. The result has `axes` and `mode`, except in two
// cases, in which it has only `dynamic_axes`:
// - `dynamic_axes` is given, and `axes` is absent
// - `dynamic_axes` is given, `axes` is a list, and `mode` is absent
PyValue ResolvedOf(const PyValue& given, const PyNode& node);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_LITERAL_H_
