// Evaluates Python expressions and statements with the names of a module.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_EVALUATOR_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_EVALUATOR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "importers/rules/python_tree.h"
#include "importers/rules/python_value.h"

namespace shardc::imports {

using PyScope = std::map<std::string, PyValue, std::less<>>;

using PyFunctions = std::map<std::string, const PyStatement*, std::less<>>;

struct PyClass {
  PyScope attributes;
  PyFunctions functions;
};

// The names of a module.
struct PyNames {
  PyScope globals;
  std::map<std::string, PyClass, std::less<>> classes;
  PyFunctions functions;
};

class PyEvaluator {
 public:
  // `names` grows while the module's statements are run (Step). All arguments
  // must outlive this object.
  PyEvaluator(std::string_view text,
              const std::map<std::string, std::string>& values,
              const PyNames& names)
      : text_(text), values_(values), names_(names) {}

  // What a function returns, its parameters as given or by default. Adds the
  // flags that took their defaults.
  PyValue Called(const PyStatement& function, const PyClass* owner,
                 std::vector<std::string>& defaults);
  // Runs a statement that defines nothing, for what it does to `scope`.
  void Step(const PyStatement& one, PyScope& scope, const PyClass* owner);
  PyValue Value(const PyNode& node, PyScope& scope, const PyClass* owner);

 private:
  // What a function returns, its parameters as given or by default.
  PyValue Called(const PyStatement& function, const PyClass* owner);
  // The value of a `return` that is reached.
  std::optional<PyValue> Run(const std::vector<PyStatement>& body,
                             PyScope& scope, const PyClass* owner);
  std::optional<PyValue> Branch(const PyStatement& one, PyScope& scope,
                                const PyClass* owner);
  void Forget(const std::vector<PyStatement>& body, PyScope& scope,
              const PyNode& at, const PyValue& condition);
  PyValue Undecided(const PyNode& at, const PyValue& condition) const;
  std::string TextOf(const PyNode& node) const;
  void Grow(const PyStatement& one, PyScope& scope, const PyClass* owner);
  // Returns false if there would be too many bytes of values.
  bool Make(int64_t bytes);
  PyValue Evaluated(const PyNode& node, PyScope& scope, const PyClass* owner);
  // The value of a name, at the place where it is used.
  PyValue Named(const PyNode& node, const PyScope& scope);
  PyValue Copied(const PyValue& value, const PyNode& node);
  PyValue Attribute(const PyNode& node, PyScope& scope, const PyClass* owner);
  // Adds what `*name` stands for.
  void Spread(const PyValue& from, const PyNode& node, PyValue& to);
  PyValue Several(const PyNode& node, PyScope& scope, const PyClass* owner);
  PyValue Sum(const PyNode& node, PyScope& scope, const PyClass* owner);
  PyValue Logic(const PyNode& node, PyScope& scope, const PyClass* owner);
  PyValue Call(const PyNode& node, PyScope& scope, const PyClass* owner);
  const PyStatement* FunctionOf(const PyNode& function, const PyClass* owner);
  PyValue Arguments(PyIs is, const PyNode& node, PyScope& scope,
                    const PyClass* owner);

  std::string_view text_;
  const std::map<std::string, std::string>& values_;
  const PyNames& names_;
  std::vector<std::string>* defaults_ = nullptr;
  int calls_ = 0;
  int64_t steps_ = 0, copied_ = 0, made_ = 0;
};

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_EVALUATOR_H_
