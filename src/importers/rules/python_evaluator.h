// Evaluates Python expressions and statements with the names of a module.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_EVALUATOR_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_EVALUATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "importers/rules/python_tree.h"
#include "importers/rules/python_value.h"

namespace shardc::imports {

// The largest number of evaluation steps for all functions of a file together.
inline constexpr int64_t kPyStepLimit = 5'000'000;
// The largest depth of nested function calls.
inline constexpr int kPyCallLimit = 20;
inline constexpr std::string_view kPyTooInvolved =
    "this value, which takes too many steps to evaluate,";
// The text of an unknown value that marks it as the value of `args` in a
// function `def f(*args)`.
inline constexpr std::string_view kPyStarred = "*";

using PyScope = std::map<std::string, PyValue, std::less<>>;

using PyFunctions = std::map<std::string, const PyStatement*, std::less<>>;

struct PyClass {
  PyScope attributes;
  PyFunctions functions;
  // The attributes of `self` that functions of the class assign or change.
  std::set<std::string, std::less<>> assigned;
  // The classes in which Python looks up a name, in order: the class itself,
  // then its base classes. The list ends at the first base class that the file
  // does not define.
  std::vector<const PyClass*> order;
};

// A function, and the class that defines it. `in` is null for a function
// outside of classes.
struct PyMethod {
  const PyStatement* function = nullptr;
  const PyClass* in = nullptr;
};

// Returns an attribute of the class or of its base classes. Returns nullptr if
// none of these classes has the attribute.
const PyValue* AttributeOf(const PyClass& of, std::string_view name);
// Returns whether a function of the class or of its base classes assigns or
// changes the attribute `name` of `self`. The attribute of an object may then
// differ from the attribute of its class.
bool SetsAttribute(const PyClass& of, std::string_view name);
// Returns a method of the class or of its base classes. If `after` is not null,
// searches only the classes that follow `after` in `of.order`, as Python's
// super() does.
PyMethod MethodOf(const PyClass& of, std::string_view name,
                  const PyClass* after = nullptr);

// The names that a module defines.
struct PyNames {
  PyScope globals;
  std::map<std::string, PyClass, std::less<>> classes;
  PyFunctions functions;
};

class PyEvaluator {
 public:
  // `names` are the names of the module. The caller may add names while it runs
  // the module's statements with Step. All arguments must outlive the
  // evaluator.
  PyEvaluator(std::string_view text,
              const std::map<std::string, std::string>& values,
              const PyNames& names)
      : text_(text), values_(values), names_(names) {}

  // Calls a function on an object of the class `owner` and returns the result.
  // `in` is the class that defines the function. The value of a parameter is
  // the one that `--set` assigns to it, or else its default. For each boolean
  // parameter whose default is used, adds a text such as `full=True` to
  // `defaults`.
  PyValue Called(const PyStatement& function, const PyClass* owner,
                 const PyClass* in, std::vector<std::string>& defaults);
  // Runs a statement that does not define a function or class. It may change
  // names in `scope`.
  void Step(const PyStatement& one, PyScope& scope, const PyClass* owner);
  PyValue Value(const PyNode& node, PyScope& scope, const PyClass* owner);

  // Returns whether the limit on steps is reached. Some statements may then not
  // have been run.
  bool IsExhausted() const { return steps_ > kPyStepLimit; }

  // Finds the functions that a statement calls. Calls `visit` with each name
  // whose value such a function changes, except the function's own variables. A
  // name may be visited several times.
  void VisitChanged(const PyStatement& one, const PyClass* owner,
                    const std::function<void(const std::string& name)>& visit);

 private:
  // Calls a function and returns the result. If a parameter is not in `given`,
  // its value is the one that `--set` assigns to it, or else its default.
  PyValue Called(const PyMethod& method, const PyClass* owner, PyScope given);
  // Runs statements. Returns the value of the first `return` that is reached,
  // or nullopt if no `return` is reached.
  std::optional<PyValue> Run(const std::vector<PyStatement>& body,
                             PyScope& scope, const PyClass* owner);
  std::optional<PyValue> Branch(const PyStatement& one, PyScope& scope,
                                const PyClass* owner);
  // Marks each name as unknown if the statements change its value, directly or
  // through calls.
  void Forget(const std::vector<PyStatement>& body, PyScope& scope,
              const PyClass* owner, const PyValue& unknown);
  // Both functions call ForgetArguments for each call in a statement or an
  // expression. The calls themselves are not evaluated.
  void ForgetCalls(const PyStatement& one, PyScope& scope,
                   const PyClass* owner);
  void ForgetCalls(const PyNode& node, PyScope& scope, const PyClass* owner);
  PyValue Undecided(const PyNode& at, const PyValue& condition) const;
  // Returns the result of an expression such as `value or x` if it is not known
  // whether `value` is true. This result is an unknown value.
  PyValue UnknownTruth(const PyNode& at, const PyValue& value) const;
  std::string TextOf(const PyNode& node) const;
  void Grow(const PyStatement& one, PyScope& scope, const PyClass* owner);
  void Put(const PyStatement& one, PyScope& scope, const PyClass* owner);
  // Returns whether a value is a list or a dict. Several names may refer to the
  // same list or dict. A change through one name is then visible through all of
  // them.
  bool IsList(const PyValue& value) const;
  // Called if the statement `at` changes a list or dict through one of its
  // names. Marks all other names in `scope` that refer to the same list or dict
  // as unknown.
  void ForgetOthers(const PyValue& value, const PyStatement& at,
                    PyScope& scope);
  // Calls ForgetOthers for each list and dict that is nested in a value,
  // because the statement `at` may change any of them.
  void ForgetInside(const PyValue& value, const PyStatement& at,
                    PyScope& scope);
  // If the statement may change any variable, as `globals()["RULES"] = x` does,
  // marks all variables as unknown and returns true.
  bool ForgetAll(const PyStatement& one, PyScope& scope);
  void ForgetAll(size_t begin, PyScope& scope);
  // Returns the list or dict to which a name refers, in the scope or else as a
  // global. Returns nullopt if the name refers to neither.
  std::optional<PyValue> ListNamed(const std::string& name,
                                   const PyScope& scope) const;
  // Marks the list or dict to which a name refers as unknown, because an
  // expression at `node` may change it. Names of lists and dicts that are
  // nested in it become unknown as well.
  void ForgetList(const std::string& name, const PyNode& node, PyScope& scope);
  // Returns whether a function changes the value of one of its parameters.
  bool ChangesArguments(const PyStatement& function, const PyClass* object);
  bool ChangesArguments(const PyNode& lambda, const PyClass* owner);
  // Returns whether a call may change its arguments because it calls an unknown
  // function, or a function that is itself an argument, as in `map(register,
  // [RULES])`.
  bool PassesChange(const PyNode& call, const PyScope& scope,
                    const PyClass* owner);
  // Calls `visit` for each function of the file that a call runs or has as an
  // argument. `visit` gets the function, and the class of the object whose
  // method it is.
  void ForEachRun(const PyNode& call, const PyScope& scope,
                  const PyClass* owner, const auto& visit);
  // Returns whether a function changes the value of this parameter.
  bool ChangesParameter(const PyStatement& function, std::string_view parameter,
                        bool list, const PyClass* object);
  // Returns the names among the arguments of a call whose values the call
  // changes: `rules` for `add(rules)`. Calls that are nested in the arguments,
  // as in `add(f(rules))`, are searched separately.
  std::vector<std::string> ChangedArguments(const PyNode& call,
                                            const PyClass* owner);
  // A call may have functions as arguments, as in `map(register, [RULES])`.
  // Marks the module's names that such functions change as unknown. If
  // PassesChange, also marks the lists and dicts among the arguments.
  void ForgetPassed(const PyNode& call, PyScope& scope, const PyClass* owner);
  // Returns the function of the file that a call runs, and the class of the
  // object on which it is called. For a call of a class, the function is
  // `__init__`. The function may have another name in the call, as after `add =
  // register`.
  std::pair<PyMethod, const PyClass*> RunBy(const PyNode& call,
                                            const PyScope& scope,
                                            const PyClass* owner);
  // Returns the names outside of a function that the function changes, directly
  // or through calls. They are names of lists that grow, and names that the
  // function declares as `global`.
  const std::set<std::string>& ChangedOutside(const PyStatement& function,
                                              const PyClass* owner);
  // The state of a search by ChangedOutside: the names that it has found, and
  // the functions that it has visited or will visit.
  struct Outside;
  // Adds to `found` the names that one function changes, and the functions that
  // it calls.
  void AddChanged(const PyStatement& function, const PyClass* owner,
                  Outside& found);
  // Marks each name of the module as unknown if `function` changes it. `call`
  // is the call that runs the function.
  void ForgetOutside(const PyStatement& function, const PyClass* owner,
                     const PyNode& call, PyScope& scope);
  // The functions that are defined inside a function, the names that they
  // change, and the names that the function declares as global or nonlocal.
  struct Inner {
    // The functions that are defined inside the function, by name. Branches may
    // define several functions with the same name.
    std::multimap<std::string, const PyStatement*, std::less<>> functions;
    std::set<std::string> changed;  // names that the inner functions change
    // The names that the function declares as `global` or `nonlocal`.
    std::set<std::string> declared;
  };
  Inner InnerOf(const PyStatement& function, const PyClass* owner);
  // Marks each name of a function's scope as unknown if an inner function
  // changes it.
  void ForgetInner(PyScope& scope, const PyStatement& at);
  // Returns whether `call` calls an inner function of the function that is
  // being evaluated.
  bool CallsInner(const PyNode& call) const;
  // Marks an argument of `call` as unknown if it is a list or dict that
  // `function` changes through a parameter. `function` is the function that
  // `call` runs.
  void ForgetArguments(const PyStatement& function, const PyNode& call,
                       PyScope& scope, const PyClass* object);
  // If `call` calls a function of the file, marks as unknown the lists and
  // dicts that the function changes through its parameters. Also marks the
  // names of the module that the function changes.
  void ForgetArguments(const PyNode& call, PyScope& scope,
                       const PyClass* owner);
  // Returns whether one of the statements changes the value of the parameter
  // `name`. A function of the file to which the value is passed may also change
  // it. `list` states whether the value is a list. In Python, `+=` changes a
  // list, but makes a new tuple.
  bool Changes(const std::vector<PyStatement>& body, std::string_view name,
               bool list, const PyClass* owner);
  bool Changes(const PyNode& node, std::string_view name, bool list,
               const PyClass* owner);
  // Sets the value of a key in `dict`. Returns false if `dict` would exceed a
  // limit.
  bool PutItem(const PyValue& key, const PyValue& value, PyValue& dict);
  void Loop(const PyStatement& one, PyScope& scope, const PyClass* owner);
  // Assigns a value to the names of a loop's target, such as `a, b`.
  void Bind(const PyNode& target, const PyValue& value, PyScope& scope);
  // Returns the values that a loop over `value` visits, in order.
  PyValue Elements(PyValue value, const PyNode& node);
  PyValue Each(const PyNode& node, PyScope& scope, const PyClass* owner);
  // Evaluates the clauses of a comprehension, beginning with index `clause`,
  // and appends the results to `out`. If an iterated value, a condition or a
  // key is unknown, `out` becomes unknown.
  void EachFrom(const PyNode& node, size_t clause, PyScope& scope,
                const PyClass* owner, PyValue& out);
  PyValue Format(const PyNode& node, PyScope& scope, const PyClass* owner);
  PyValue Part(const PyNode& node, PyScope& scope, const PyClass* owner);
  // Adds the bytes of a new value to the total of all values. Returns false if
  // the total exceeds the limit.
  bool Make(int64_t bytes);
  PyValue Evaluated(const PyNode& node, PyScope& scope, const PyClass* owner);
  // Returns the value of a name. The place of the value is `node`, where the
  // name is used.
  PyValue Named(const PyNode& node, const PyScope& scope);
  // Returns the axes and the mode of a class of the file that has them as
  // attributes, as a subclass of DynamicShardingAxes does. eformer resolves
  // such a class, and its objects, as a bundle. Returns nullopt for other
  // names.
  std::optional<PyValue> BundleOf(const PyNode& name) const;
  PyValue Copied(const PyValue& value, const PyNode& node);
  PyValue Attribute(const PyNode& node, PyScope& scope, const PyClass* owner);
  // Appends the items of `from` to `to`. `from` is the value that is spread in
  // an expression such as `*name`.
  void Spread(const PyValue& from, const PyNode& node, PyValue& to);
  PyValue Several(const PyNode& node, PyScope& scope, const PyClass* owner);
  PyValue Sum(const PyNode& node, PyScope& scope, const PyClass* owner);
  PyValue Logic(const PyNode& node, PyScope& scope, const PyClass* owner);
  PyValue Call(const PyNode& node, PyScope& scope, const PyClass* owner);
  std::optional<PyValue> Builtin(std::string_view name, const PyNode& node,
                                 PyScope& scope, const PyClass* owner);
  PyValue Range(const PyNode& node, const PyValue& given);
  PyValue Zipped(const PyNode& node, const PyValue& given, bool counted);
  // Returns the function of the file that a call refers to, and the class of
  // the object on which the function is called.
  std::pair<PyMethod, const PyClass*> FunctionOf(const PyNode& function,
                                                 const PyScope& scope,
                                                 const PyClass* owner);
  // Returns the class of an expression's value, or nullptr if the class is
  // unknown.
  const PyClass* ClassOf(const PyNode& node, const PyScope& scope,
                         const PyClass* owner);
  const PyClass* ClassNamed(std::string_view name) const;
  const PyClass* MemberClass(const PyClass& of, std::string_view name) const;
  static bool IsPassedOn(const PyNode& node, const PyScope& scope);
  // Returns the values of a call's arguments, keyed by parameter. Returns
  // nullopt if an argument belongs to no known parameter.
  std::optional<PyScope> Given(const PyStatement& function, const PyNode& call,
                               PyScope& scope, const PyClass* owner);
  PyValue Arguments(PyIs is, const PyNode& node, PyScope& scope,
                    const PyClass* owner);

  std::string_view text_;
  const std::map<std::string, std::string>& values_;
  const PyNames& names_;
  std::vector<std::string>* defaults_ = nullptr;
  const PyClass* in_ = nullptr;  // class that defines the current function
  // The pairs of a function and a parameter for which a call of Changes is
  // running. A recursive call is not searched again.
  std::set<std::pair<const PyStatement*, std::string>> followed_;
  // The results of ChangedOutside, keyed by the function and the class of the
  // object.
  std::map<std::pair<const PyStatement*, const PyClass*>, std::set<std::string>>
      outside_;
  // The results of ChangesArguments.
  std::map<std::pair<const PyStatement*, const PyClass*>, bool> changing_;
  // The functions that are defined inside the function that is being evaluated.
  const Inner* inner_ = nullptr;
  int calls_ = 0;
  int64_t steps_ = 0, copied_ = 0, made_ = 0;
};

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_EVALUATOR_H_
