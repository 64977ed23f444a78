// Makes, compares and measures values of Python expressions.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_LITERAL_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_LITERAL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "importers/rules/python_value.h"

namespace shardc::imports {

// The maximum number of values nested in one value. A shared value is counted
// at each place where it occurs. It is also the maximum number of bytes of a
// text.
inline constexpr int64_t kPySizeLimit = 1'000'000;

// These functions make a value at the place of `node`.
PyValue Simple(PyIs is, const PyNode& node, std::string text = {});
PyValue Unknown(const PyNode& node, std::string why, std::string flag = {});
PyValue Truth(const PyNode& node, bool truth);
// Returns the value of a flag that is given with `--set`.
PyValue FromFlag(const std::string& text, const PyNode& node);

// Returns the result of Python's str() for an integer in any base that fits in
// 64 bits: `16` for `0x1_0`. Returns other numbers as they are written.
std::string DecimalText(std::string_view number);
// Returns whether the value is an integer that is written as Python's str()
// writes it: `16`, but not `0x10`.
bool IsDecimal(const PyValue& value);
// Returns the integer written as `12` or `1_000`; nullopt for other values.
std::optional<int64_t> WholeNumber(const PyValue& value);
bool Same(const PyValue& a, const PyValue& b);
// Returns the truth of the value in Python. Returns nullopt if it is unknown,
// as for an object of a class or a name that another file defines.
std::optional<bool> TruthOf(const PyValue& value);

// The first function returns the bytes of a value without its lists, which
// other values may share. The second returns the sum of these bytes over a
// list.
int64_t BytesOf(const PyValue& value);
int64_t BytesOf(const PyList<PyValue>& values);
// Returns the value with its `size` set, or an unknown value if the size
// exceeds kPySizeLimit.
PyValue Sized(PyValue value, const PyNode& node);

// Returns whether the name is `PartitionSpec` or a usual alias of it, such as
// `P`.
bool IsSpecName(std::string_view name);
// Returns whether the result of the function can be replaced by its only
// argument, as for `tuple(x)`, `freeze(x)` and `re.compile(x)`.
bool KeepsItsArgument(std::string_view function);
// Returns the result of a call of PartitionManager.resolve(axes, mode,
// dynamic_axes, shape), PartitionAxis.resolve_spec or DynamicShardingAxes with
// these arguments. The axes and the mode of `dynamic_axes` are used if `axes`
// is absent, or if `axes` is a list and `mode` is absent.
PyValue ResolvedOf(const PyValue& given, const PyNode& node);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_LITERAL_H_
