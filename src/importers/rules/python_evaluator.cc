// Evaluates Python expressions without a Python interpreter. Names are looked
// up in the function, its class and the module, and loops run over known
// values. A value that cannot be evaluated in this way is unknown. An unknown
// value stores the reason, which a finding states if the value is needed:
//
//   def rules(self, full=True):
//     return A if full else B     ->  A's value; with --set full=false, B's
#include "importers/rules/python_evaluator.h"

#include <algorithm>
#include <utility>

#include "importers/rules/python_literal.h"
#include "importers/rules/python_names.h"

namespace shardc::imports {
namespace {

// The largest number of bytes of all values of a file together. The bytes of a
// value that several names share are counted once. Real files need less than 4
// MiB.
constexpr int64_t kByteLimit = int64_t{64} << 20;

bool Returns(const std::vector<PyStatement>& body) {
  return std::any_of(body.begin(), body.end(), [](const PyStatement& one) {
    return one.act == PyAct::kReturn || one.returns || Returns(one.body) ||
           Returns(one.other);
  });
}

// Returns whether `list` is the list of items of this value, or of a value
// nested in it. It must share memory with that list (SharesWith); an equal copy
// does not count.
bool Holds(const PyValue& value, const PyList<PyValue>& list) {
  if (value.items.SharesWith(list)) return true;
  const auto in = [&](const PyValue& one) { return Holds(one, list); };
  return std::any_of(value.items.begin(), value.items.end(), in) ||
         std::any_of(value.fields.begin(), value.fields.end(),
                     [&](const PyField& field) { return in(field.second); });
}

}  // namespace

PyValue PyEvaluator::Called(const PyStatement& function, const PyClass* owner,
                            const PyClass* in,
                            std::vector<std::string>& defaults) {
  defaults_ = &defaults;
  PyValue out = Called({&function, in}, owner, {});
  defaults_ = nullptr;
  return out;
}

void PyEvaluator::Step(const PyStatement& one, PyScope& scope,
                       const PyClass* owner) {
  if (ForgetAll(one, scope)) {
    ForgetCalls(one, scope, owner);
    return;
  }
  switch (one.act) {
    case PyAct::kAssign: {
      const PyValue value = Value(one.value, scope, owner);
      if (!one.name.empty()) scope[one.name] = value;
      for (const std::string& name : one.names) scope[name] = value;
      return;
    }
    case PyAct::kExtend:
    case PyAct::kAppend:
      Grow(one, scope, owner);
      return;
    case PyAct::kPut:
      Put(one, scope, owner);
      return;
    case PyAct::kFor:
      Loop(one, scope, owner);
      return;
    case PyAct::kIf: {
      const auto truth = TruthOf(Value(one.value, scope, owner));
      if (truth) {
        for (const PyStatement& inside : *truth ? one.body : one.other) {
          Step(inside, scope, owner);
        }
      } else {
        const PyValue unknown = Undecided(one.value, {});
        Forget(one.body, scope, owner, unknown);
        Forget(one.other, scope, owner, unknown);
      }
      return;
    }
    case PyAct::kBlock:
      for (const PyStatement& inside : one.body) Step(inside, scope, owner);
      return;
    case PyAct::kGlobal:
      return;
    default:
      for (const std::string& name : one.names) {
        if (!name.empty()) {
          PyStatement changed;
          changed.name = name;
          changed.value.begin = changed.value.end = one.begin;
          if (const auto old = scope.find(name); old != scope.end()) {
            ForgetInside(old->second, changed, scope);
          }
          scope[name] =
              Unknown(changed.value, "`" + name + "`, which is changed here,");
        }
      }
      // The results of these calls are not used, so the calls are not
      // evaluated.
      ForgetCalls(one, scope, owner);
  }
}

PyValue PyEvaluator::Value(const PyNode& node, PyScope& scope,
                           const PyClass* owner) {
  if (++steps_ > kPyStepLimit || made_ > kByteLimit) {
    return Unknown(node, std::string(kPyTooInvolved));
  }
  PyValue value = Evaluated(node, scope, owner);
  // The bytes are added even if they exceed the limit. The next call then
  // refuses to make a value.
  made_ += BytesOf(value);
  return value;
}

PyValue PyEvaluator::Called(const PyMethod& method, const PyClass* owner,
                            PyScope given) {
  const PyStatement& function = *method.function;
  PyNode whole;
  whole.begin = function.begin;
  whole.end = function.begin;
  if (calls_ >= kPyCallLimit)
    return Unknown(whole, "what functions that call each other return");
  ++calls_;
  const PyClass* const before = std::exchange(in_, method.in);
  PyScope scope = std::move(given);
  for (const std::string& name : function.starred) {
    PyValue& rest = scope[name];
    rest = Unknown(whole, "the argument `" + name + "`", name);
    rest.text = kPyStarred;
  }
  for (const auto& [name, value] : function.parameters) {
    if (scope.contains(name)) continue;
    const auto set = values_.find(name);
    if (set != values_.end()) {
      scope[name] = FromFlag(set->second, whole);
    } else if (value) {
      PyScope none;
      scope[name] = Value(*value, none, owner);
      const bool flag =
          value->kind == PyKind::kTrue || value->kind == PyKind::kFalse;
      if (flag && defaults_ != nullptr) {
        defaults_->push_back(name + "=" + value->text);
      }
    } else {
      PyValue unknown = Unknown(whole, "the argument `" + name + "`", name);
      scope[name] = std::move(unknown);
    }
  }
  const Inner inner = InnerOf(function, owner);
  const auto* const outer = std::exchange(inner_, &inner);
  auto result = Run(function.body, scope, owner);
  inner_ = outer;
  --calls_;
  in_ = before;
  if (result) return std::move(*result);
  return Simple(PyIs::kNone, whole);
}

std::optional<PyValue> PyEvaluator::Run(const std::vector<PyStatement>& body,
                                        PyScope& scope, const PyClass* owner) {
  for (const PyStatement& one : body) {
    if (++steps_ > kPyStepLimit) break;
    if (one.act == PyAct::kReturn) return Value(one.value, scope, owner);
    if (one.returns) {
      PyNode at;
      at.begin = at.end = one.begin;
      return Unknown(at, "what is returned inside of a loop or a match");
    }
    if (one.act == PyAct::kIf || one.act == PyAct::kBlock) {
      auto result = Branch(one, scope, owner);
      if (result) return result;
    } else if (one.act != PyAct::kDefine && one.act != PyAct::kClass) {
      Step(one, scope, owner);
    }
    ForgetInner(scope, one);
  }
  return std::nullopt;
}

std::optional<PyValue> PyEvaluator::Branch(const PyStatement& one,
                                           PyScope& scope,
                                           const PyClass* owner) {
  if (one.act == PyAct::kBlock) return Run(one.body, scope, owner);
  const PyValue condition = Value(one.value, scope, owner);
  const auto truth = TruthOf(condition);
  if (truth) return Run(*truth ? one.body : one.other, scope, owner);
  PyValue unknown = Undecided(one.value, condition);
  if (Returns(one.body) || Returns(one.other)) return unknown;
  Forget(one.body, scope, owner, unknown);
  Forget(one.other, scope, owner, unknown);
  return std::nullopt;
}

void PyEvaluator::Forget(const std::vector<PyStatement>& body, PyScope& scope,
                         const PyClass* owner, const PyValue& unknown) {
  for (const PyStatement& one : body) {
    if (one.act == PyAct::kGlobal) continue;
    if (ForgetAll(one, scope)) {
      ForgetCalls(one, scope, owner);
      continue;
    }
    const bool changes = one.act == PyAct::kAppend ||
                         one.act == PyAct::kExtend || one.act == PyAct::kPut ||
                         one.act == PyAct::kUnknown;
    const auto forget = [&](const std::string& name) {
      if (name.empty()) return;
      if (const auto old = scope.find(name); changes && old != scope.end()) {
        PyStatement at;
        at.name = name;
        at.value.begin = at.value.end = one.begin;
        ForgetInside(PyValue(old->second), at, scope);
      }
      scope[name] = unknown;
    };
    forget(one.name);
    std::for_each(one.names.begin(), one.names.end(), forget);
    ForgetCalls(one, scope, owner);
    Forget(one.body, scope, owner, unknown);
    Forget(one.other, scope, owner, unknown);
  }
}

void PyEvaluator::ForgetCalls(const PyStatement& one, PyScope& scope,
                              const PyClass* owner) {
  ForgetCalls(one.target, scope, owner);
  ForgetCalls(one.value, scope, owner);
  for (const PyNode& call : one.calls) ForgetCalls(call, scope, owner);
}

void PyEvaluator::ForgetCalls(const PyNode& node, PyScope& scope,
                              const PyClass* owner) {
  ++steps_;
  if (node.kind == PyKind::kCall) ForgetArguments(node, scope, owner);
  if (node.kind == PyKind::kLambda) {
    // `lambda r=rules: r.append(x)` changes `rules`.
    for (size_t i = 0; i < node.keywords.size(); ++i) {
      const PyNode& given = node.items[i + 1];
      if (given.kind == PyKind::kName &&
          Changes(node.items[0], node.keywords[i], true, owner)) {
        ForgetList(given.text, given, scope);
      }
    }
  }
  for (const PyNode& item : node.items) ForgetCalls(item, scope, owner);
}

PyValue PyEvaluator::Undecided(const PyNode& at,
                               const PyValue& condition) const {
  return Unknown(at, "the branch on `" + TextOf(at) + "`", condition.flag);
}

std::string PyEvaluator::TextOf(const PyNode& node) const {
  const std::string_view text =
      text_.substr(node.begin, std::min<size_t>(node.end - node.begin, 60));
  return std::string(text.substr(0, text.find('\n')));
}

void PyEvaluator::Grow(const PyStatement& one, PyScope& scope,
                       const PyClass* owner) {
  const auto at = scope.find(one.name);
  // If the scope lacks the name, it is a name of the module, or an attribute of
  // another object.
  if (at == scope.end()) {
    ForgetCalls(one, scope, owner);
    scope[one.name] = Unknown(one.value, "what `" + one.name + "` holds");
    return;
  }
  if (at->second.is == PyIs::kUnknown) {
    // The text kPyStarred marks the value of `args` in `def f(*args)`, which is
    // empty. The mark is removed, because this statement may add elements.
    at->second.text.clear();
    ForgetCalls(one, scope, owner);
    return;
  }
  PyValue value = Value(one.value, scope, owner);
  if (one.act == PyAct::kAppend || IsList(at->second)) {
    ForgetOthers(at->second, one, scope);
  }
  const int64_t added = one.act == PyAct::kExtend ? BytesOf(value.items) : 0;
  if (!Make(added + BytesOf(value) +
            (at->second.items.IsShared() ? BytesOf(at->second.items) : 0))) {
    at->second = Unknown(one.value, std::string(kPyTooInvolved));
    return;
  }
  if (at->second.is == PyIs::kDict && one.act == PyAct::kExtend) {
    bool known = value.is == PyIs::kDict;
    for (size_t i = 0; known && i + 1 < value.items.size(); i += 2) {
      known = PutItem(value.items[i], value.items[i + 1], at->second);
    }
    if (!known)
      at->second = Unknown(one.value, "what `" + one.name + "` holds");
    at->second = Sized(std::move(at->second), one.value);
    return;
  }
  const bool text = at->second.is == PyIs::kText && one.act == PyAct::kExtend &&
                    value.is == PyIs::kText &&
                    at->second.text.size() + value.text.size() <= kPySizeLimit;
  if (text) {
    at->second.text += value.text;
  } else if (at->second.is != PyIs::kSequence) {
    at->second = Unknown(one.value, "what `" + one.name + "` grows by");
  } else if (one.act == PyAct::kAppend) {
    at->second.items.push_back(std::move(value));
  } else if (value.is == PyIs::kSequence) {
    for (const PyValue& item : value.items) at->second.items.push_back(item);
  } else {
    at->second = Unknown(one.value, "what `" + one.name + "` grows by");
  }
  at->second = Sized(std::move(at->second), one.value);
}

bool PyEvaluator::IsList(const PyValue& value) const {
  return value.is == PyIs::kDict ||
         (value.is == PyIs::kSequence && value.begin < text_.size() &&
          (text_[value.begin] == '[' ||
           text_.substr(value.begin).starts_with("list(")));
}

void PyEvaluator::ForgetOthers(const PyValue& value, const PyStatement& at,
                               PyScope& scope) {
  if (!value.items.IsShared()) return;
  for (auto& [name, other] : scope) {
    if (name == at.name) continue;
    steps_ += other.size;
    if (Holds(other, value.items)) {
      other = Unknown(at.value, "`" + name + "`, which `" + at.name +
                                    "` shares a value with,");
    }
  }
}

void PyEvaluator::ForgetInside(const PyValue& value, const PyStatement& at,
                               PyScope& scope) {
  if (++steps_ > kPyStepLimit) return;
  if (IsList(value)) ForgetOthers(value, at, scope);
  for (const PyValue& item : value.items) {
    if (IsList(item) || !item.items.empty()) ForgetInside(item, at, scope);
  }
}

void PyEvaluator::Put(const PyStatement& one, PyScope& scope,
                      const PyClass* owner) {
  const auto at = scope.find(one.name);
  if (at == scope.end()) {
    ForgetCalls(one, scope, owner);
    scope[one.name] = Unknown(one.target, "what `" + one.name + "` holds");
    return;
  }
  if (at->second.is == PyIs::kUnknown) {
    // The text kPyStarred marks the value of `args` in `def f(*args)`, which is
    // empty. The mark is removed, because this statement may add elements.
    at->second.text.clear();
    ForgetCalls(one, scope, owner);
    return;
  }
  const PyValue key = Value(one.target, scope, owner);
  const PyValue value = Value(one.value, scope, owner);
  ForgetOthers(at->second, one, scope);
  const bool known = at->second.is == PyIs::kDict && key.is != PyIs::kUnknown &&
                     PutItem(key, value, at->second);
  if (!known) at->second = Unknown(one.target, "what `" + one.name + "` holds");
  at->second = Sized(std::move(at->second), one.value);
}

bool PyEvaluator::PutItem(const PyValue& key, const PyValue& value,
                          PyValue& dict) {
  steps_ += static_cast<int64_t>(dict.items.size()) / 2;
  size_t at = 0;
  while (at < dict.items.size() && !Same(dict.items[at], key)) at += 2;
  if (at == dict.items.size() && !dict.items.IsShared()) {
    dict.items.push_back(key);
    dict.items.push_back(value);
    return steps_ <= kPyStepLimit;
  }
  if (steps_ > kPyStepLimit || !Make(BytesOf(dict.items))) return false;
  PyList<PyValue> items;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    items.push_back(dict.items[i]);
    items.push_back(i == at ? value : dict.items[i + 1]);
  }
  if (at == dict.items.size()) {
    items.push_back(key);
    items.push_back(value);
  }
  dict.items = std::move(items);
  return true;
}

void PyEvaluator::Loop(const PyStatement& one, PyScope& scope,
                       const PyClass* owner) {
  const PyValue over = Elements(Value(one.value, scope, owner), one.value);
  PyValue unknown = over;
  if (over.is == PyIs::kSequence) {
    for (const PyValue& item : over.items) {
      if (++steps_ > kPyStepLimit) break;
      Bind(one.target, item, scope);
      for (const PyStatement& inside : one.body) Step(inside, scope, owner);
    }
    if (steps_ <= kPyStepLimit) return;
    unknown = Unknown(one.value, std::string(kPyTooInvolved));
  }
  if (std::any_of(one.names.begin(), one.names.end(),
                  [&](const std::string& name) {
                    return Changes(one.body, name, true, owner);
                  })) {
    std::vector<std::string> sources;
    AddNamesIn(one.value, sources);
    for (const std::string& name : sources) ForgetList(name, one.value, scope);
  }
  for (const std::string& name : one.names) scope[name] = unknown;
  Forget(one.body, scope, owner, unknown);
}

void PyEvaluator::Bind(const PyNode& target, const PyValue& value,
                       PyScope& scope) {
  if (target.kind == PyKind::kName) {
    scope[target.text] = Copied(value, target);
    return;
  }
  const bool split = target.kind == PyKind::kSequence &&
                     value.is == PyIs::kSequence &&
                     value.items.size() == target.items.size();
  for (size_t i = 0; i < target.items.size(); ++i) {
    Bind(target.items[i],
         split ? value.items[i]
               : Unknown(target, "the value of `" + TextOf(target) + "`"),
         scope);
  }
}

PyValue PyEvaluator::Elements(PyValue value, const PyNode& node) {
  if (value.is == PyIs::kUnknown || value.is == PyIs::kSequence) return value;
  if (value.is != PyIs::kDict) {
    return Unknown(node, "the value of `" + TextOf(node) + "`");
  }
  PyValue keys = Simple(PyIs::kSequence, node);
  for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
    keys.items.push_back(value.items[i]);
  }
  return Make(BytesOf(keys.items)) ? Sized(std::move(keys), node)
                                   : Unknown(node, std::string(kPyTooInvolved));
}

bool PyEvaluator::Make(int64_t bytes) {
  if (made_ + bytes > kByteLimit) return false;
  made_ += bytes;
  return true;
}

}  // namespace shardc::imports
