// Evaluates Python expressions and statements with the names of a module.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_EVALUATOR_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_EVALUATOR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "importers/rules/python_tree.h"
#include "importers/rules/python_value.h"

namespace shardc::imports {

// Steps of all functions of a file together.
inline constexpr int64_t kPyStepLimit = 5'000'000;
inline constexpr std::string_view kPyTooInvolved = "this file is too involved";
// The text of the unknown value of `args` in `def f(*args)`.
inline constexpr std::string_view kPyStarred = "*";

using PyScope = std::map<std::string, PyValue, std::less<>>;

using PyFunctions = std::map<std::string, const PyStatement*, std::less<>>;

struct PyClass {
  PyScope attributes;
  PyFunctions functions;
  // Where Python looks for a name: the class, and the bases in this file up to
  // one that is not.
  std::vector<const PyClass*> order;
};

// A function, and the class that defines it.
struct PyMethod {
  const PyStatement* function = nullptr;
  const PyClass* in = nullptr;
};

// Of the class or of its bases; nullptr if there is none.
const PyValue* AttributeOf(const PyClass& of, std::string_view name);
// Of the classes that follow `after` in the order of `of`, or of all.
PyMethod MethodOf(const PyClass& of, std::string_view name,
                  const PyClass* after = nullptr);

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

  // What a function returns, its parameters as given or by default, for an
  // object of the class `owner`; `in` is the class that defines the function.
  // Adds the flags that took their defaults.
  PyValue Called(const PyStatement& function, const PyClass* owner,
                 const PyClass* in, std::vector<std::string>& defaults);
  // Runs a statement that defines nothing, for what it does to `scope`.
  void Step(const PyStatement& one, PyScope& scope, const PyClass* owner);
  PyValue Value(const PyNode& node, PyScope& scope, const PyClass* owner);

 private:
  // What a function returns, its parameters as given, set or by default.
  PyValue Called(const PyMethod& method, const PyClass* owner, PyScope given);
  // The value of a `return` that is reached.
  std::optional<PyValue> Run(const std::vector<PyStatement>& body,
                             PyScope& scope, const PyClass* owner);
  std::optional<PyValue> Branch(const PyStatement& one, PyScope& scope,
                                const PyClass* owner);
  // Makes all names that the statements change unknown.
  void Forget(const std::vector<PyStatement>& body, PyScope& scope,
              const PyValue& unknown);
  PyValue Undecided(const PyNode& at, const PyValue& condition) const;
  std::string TextOf(const PyNode& node) const;
  void Grow(const PyStatement& one, PyScope& scope, const PyClass* owner);
  void Put(const PyStatement& one, PyScope& scope, const PyClass* owner);
  // Whether a value is a list or a dict, which all of its names see change.
  bool IsList(const PyValue& value) const;
  // Makes the other names of a list or dict that changes unknown.
  void ForgetOthers(const PyValue& value, const PyStatement& at,
                    PyScope& scope);
  // Sets the value of a key. Returns false if there would be too much.
  bool PutItem(const PyValue& key, const PyValue& value, PyValue& dict);
  void Loop(const PyStatement& one, PyScope& scope, const PyClass* owner);
  // Gives the names of a loop's target their values.
  void Bind(const PyNode& target, const PyValue& value, PyScope& scope);
  // The values that a loop over `value` has, one after the other.
  PyValue Elements(PyValue value, const PyNode& node);
  PyValue Each(const PyNode& node, PyScope& scope, const PyClass* owner);
  // Adds what the clauses from `clause` on give to `out`, which becomes unknown
  // where one of them is.
  void EachFrom(const PyNode& node, size_t clause, PyScope& scope,
                const PyClass* owner, PyValue& out);
  PyValue Format(const PyNode& node, PyScope& scope, const PyClass* owner);
  PyValue Part(const PyNode& node, PyScope& scope, const PyClass* owner);
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
  // What some functions of Python return; nullopt for others.
  std::optional<PyValue> Builtin(std::string_view name, const PyNode& node,
                                 PyScope& scope, const PyClass* owner);
  PyValue Range(const PyNode& node, const PyValue& given);
  PyValue Zipped(const PyNode& node, const PyValue& given, bool counted);
  // A function of the file that is called, and the class of the object that it
  // is called for.
  std::pair<PyMethod, const PyClass*> FunctionOf(const PyNode& function,
                                                 const PyScope& scope,
                                                 const PyClass* owner);
  // The class of what an expression gives; nullptr if it is not known.
  const PyClass* ClassOf(const PyNode& node, const PyScope& scope,
                         const PyClass* owner);
  const PyClass* ClassNamed(std::string_view name) const;
  const PyClass* MemberClass(const PyClass& of, std::string_view name) const;
  static bool IsPassedOn(const PyNode& node, const PyScope& scope);
  // The values of a call's arguments by the names of their parameters; nullopt
  // if they are not known.
  std::optional<PyScope> Given(const PyStatement& function, const PyNode& call,
                               PyScope& scope, const PyClass* owner);
  PyValue Arguments(PyIs is, const PyNode& node, PyScope& scope,
                    const PyClass* owner);

  std::string_view text_;
  const std::map<std::string, std::string>& values_;
  const PyNames& names_;
  std::vector<std::string>* defaults_ = nullptr;
  const PyClass* in_ = nullptr;  // the class of the function that is called
  int calls_ = 0;
  int64_t steps_ = 0, copied_ = 0, made_ = 0;
};

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_EVALUATOR_H_
