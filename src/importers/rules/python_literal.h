// Makes and compares values of Python expressions: what needs no names.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_LITERAL_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_LITERAL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "importers/rules/python_value.h"

namespace shardc::imports {

// The largest number of values in one, each counted wherever it is named, and
// of bytes of a text.
inline constexpr int64_t kPySizeLimit = 1'000'000;

// A value that `node` writes.
PyValue Simple(PyIs is, const PyNode& node, std::string text = {});
PyValue Unknown(const PyNode& node, std::string why, std::string flag = {});
PyValue Truth(const PyNode& node, bool truth);
// The value of a flag given with `--set`.
PyValue FromFlag(const std::string& text, const PyNode& node);

// The value of `12` and of `1_000`; nullopt for other values.
std::optional<int64_t> WholeNumber(const PyValue& value);
bool Same(const PyValue& a, const PyValue& b);
// Whether a condition holds; nullopt if that is unknown.
std::optional<bool> TruthOf(const PyValue& value);

// The bytes of a value without those that it may share, and of a list's values.
int64_t BytesOf(const PyValue& value);
int64_t BytesOf(const PyList<PyValue>& values);
// Returns the value with the number of values in it; an unknown one where these
// are too many.
PyValue Sized(PyValue value, const PyNode& node);

// Names under which JAX's PartitionSpec is called.
bool IsSpecName(std::string_view name);
// Functions whose result has the items of their only argument.
bool KeepsItsArgument(std::string_view function);
// What PartitionManager.resolve(axes, mode, dynamic_axes, shape),
// PartitionAxis.resolve_spec or DynamicShardingAxes of these arguments is. The
// dynamic axes count where axes or mode are not given.
PyValue ResolvedOf(const PyValue& given, const PyNode& node);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_LITERAL_H_
