// Finds the values that a Python file defines, without a Python interpreter.
// They are constants, class attributes, and the results of functions that are
// called without arguments. Branches on known flags are followed.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_VALUE_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_VALUE_H_

#include <cstdint>
#include <functional>
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
  kUnknown,  // an unknown value; `why` is the reason
  kNone,
  kBool,
  kNumber,
  kText,
  kSymbol,  // a name that the file does not define: `HEAD`
  kSequence,
  kDict,      // items: key, value, key, value and so on
  kSpec,      // PartitionSpec(items...)
  kResolved,  // PartitionManager.resolve(items[0]); fields: `mode`, if given
  kAxes,      // PartitionAxis(fields)
  kObject     // an object of the class `text`, made with the arguments `fields`
};

struct PyField;

// A list whose copies share memory until an element is appended to one of them.
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
  // Allocates memory for an empty list, so that SharesWith returns true for
  // this list and its copies. Without memory, SharesWith returns false.
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
  size_t begin = 0, end = 0;  // place of the value in the text
  // Members of an unknown value. `why` is the reason. `flag` is the flag on
  // which the value depends and which `--set` may set. `why_begin` and
  // `why_end` are the place in the text that makes the value unknown.
  std::string why, flag;
  size_t why_begin = 0, why_end = 0;
  int64_t size = 1;  // number of nested values, including this one
};

struct PyField {
  std::string first;  // name of the field
  PyValue second;
};

// A named value: a constant of the module, an attribute of a class, or the
// result of a function. A function that a class inherits is listed for both
// classes.
struct PySymbol {
  std::string name;  // such as `LlamaConfig.get_partition_rules`
  PyValue value;
  bool is_function = false;
  bool is_inherited = false;
  // Whether a statement that assigns to this constant contains a PartitionSpec,
  // or a name whose value contains one.
  bool mentions_specs = false;
  // Flags whose defaults were used, such as `fully_sharded=True`.
  std::vector<std::string> defaults;
};

// Returns the symbols in the file's order. The functions that a class inherits
// follow the class's own symbols. `values` are the flags set with `--set`,
// keyed by name.
std::vector<PySymbol> SymbolsOf(
    const PyModule& module, std::string_view text,
    const std::map<std::string, std::string>& values);

// Returns whether the source contains, as a complete word, every name to which
// `--set` assigns a value. Adds a finding for the first missing name.
bool HasNames(const SourceRef& source,
              const std::map<std::string, std::string>& values,
              Findings& findings);

// Returns the value of each call of PartitionAxis in the file.
std::vector<PyValue> AxesIn(const PyModule& module, std::string_view text);
// Returns a function that evaluates an expression with the names of the module.
// The value is unknown if the file binds one of these names more than once. The
// arguments must outlive the function.
std::function<PyValue(const PyNode&)> ValuesIn(const PyModule& module,
                                               std::string_view text);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_VALUE_H_
