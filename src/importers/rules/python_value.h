// Finds the values of Python expressions without a Python interpreter:
// constants, class attributes, branches on known flags, functions without
// arguments.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_VALUE_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_VALUE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "importers/rules/python_tree.h"
#include "source/source.h"

namespace shardc::imports {

enum class PyIs : uint8_t {
  kUnknown,  // `why` is the reason
  kNone,
  kBool,
  kNumber,
  kText,
  kSymbol,  // a name that is not defined here: `HEAD`
  kSequence,
  kDict,      // items: key, value, key, value and so on
  kSpec,      // PartitionSpec(items...)
  kResolved,  // pmag.resolve(items[0]); field: the `mode`, if given
  kAxes,      // PartitionAxis(fields)
  kObject     // an object of the class `text`, made with the arguments `fields`
};

struct PyField;

// A list whose copies share memory until one of them grows.
template <class T>
class PyList {
 public:
  size_t size() const { return all_ == nullptr ? 0 : all_->size(); }
  bool empty() const { return size() == 0; }
  const T* begin() const { return all_ == nullptr ? nullptr : all_->data(); }
  const T* end() const { return begin() + size(); }
  const T& operator[](size_t i) const { return (*all_)[i]; }
  bool IsShared() const { return all_.use_count() > 1; }
  bool SharesWith(const PyList& other) const {
    return all_ != nullptr && all_ == other.all_;
  }
  // Makes an empty list. Its copies share this list, so SharesWith(copy) is
  // true.
  void Allocate() {
    if (all_ == nullptr) all_ = std::make_shared<std::vector<T>>();
  }
  void push_back(T one) {
    if (all_ == nullptr) {
      Allocate();
    } else if (IsShared()) {
      all_ = std::make_shared<std::vector<T>>(*all_);
    }
    all_->push_back(std::move(one));
  }

 private:
  std::shared_ptr<std::vector<T>> all_;
};

struct PyValue {
  PyIs is = PyIs::kUnknown;
  bool truth = false;
  std::string text;
  PyList<PyValue> items;
  PyList<PyField> fields;
  size_t begin = 0, end = 0;  // its place in the text
  // For an unknown value: the reason, the flag on which the value depends
  // (`--set` may set the flag), and the place in the text that makes the value
  // unknown.
  std::string why, flag;
  size_t why_begin = 0, why_end = 0;
  int64_t size = 1;  // number of nested values, including this one
};

struct PyField {
  std::string first;  // the name of the field
  PyValue second;
};

// A named value: a constant of the module, an attribute of a class, or the
// result of a function. A function that a class inherits is listed for both
// classes.
struct PySymbol {
  std::string name;  // `LlamaConfig.get_partition_rules`
  PyValue value;
  bool is_function = false;
  bool is_inherited = false;
  // Whether a statement that gives a constant its value has a PartitionSpec, or
  // a name whose value has one.
  bool mentions_specs = false;
  // Flags that took their defaults: `fully_sharded=True`.
  std::vector<std::string> defaults;
};

// Returns the symbols in the file's order. The functions that a class inherits
// follow the class's own symbols. `values` are the flags set with `--set`,
// keyed by name.
std::vector<PySymbol> SymbolsOf(
    const PyModule& module, std::string_view text,
    const std::map<std::string, std::string>& values);

// Returns whether the source contains every name to which `--set` assigns a
// value, as a complete word. Adds a finding for the first missing name.
bool HasNames(const SourceRef& source,
              const std::map<std::string, std::string>& values,
              Findings& findings);

// Returns the values of the file's calls of PartitionAxis.
std::vector<PyValue> AxesIn(const PyModule& module, std::string_view text);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_VALUE_H_
