// Evaluates Python expressions without running them: names are looked up in the
// function, its class and the module; a call is one of a few known ones, or of
// a function of the file that needs no arguments. Every other value is unknown,
// with the reason:
//
//   def rules(self, full=True):
//     return A if full else B     ->  A's value; with --set full=false, B's
#include "importers/rules/python_evaluator.h"

#include <algorithm>
#include <utility>

#include "importers/rules/python_literal.h"

namespace shardc::imports {
namespace {

// Functions that call functions, and steps of all of them together.
constexpr int kCallLimit = 20;
constexpr int64_t kStepLimit = 5'000'000;
// The sum of the values' sizes over all names that are read, which bounds the
// time of code that doubles a value with each line.
constexpr int64_t kCopyLimit = 30'000'000;
// The bytes of all values that are made, shared ones once: real files take less
// than 4 MiB.
constexpr int64_t kByteLimit = int64_t{64} << 20;
constexpr std::string_view kTooInvolved = "this file is too involved";

bool Returns(const std::vector<PyStatement>& body) {
  return std::any_of(body.begin(), body.end(), [](const PyStatement& one) {
    return one.act == PyAct::kReturn || one.returns || Returns(one.body) ||
           Returns(one.other);
  });
}

}  // namespace

PyValue PyEvaluator::Called(const PyStatement& function, const PyClass* owner,
                            std::vector<std::string>& defaults) {
  defaults_ = &defaults;
  PyValue out = Called(function, owner);
  defaults_ = nullptr;
  return out;
}

void PyEvaluator::Step(const PyStatement& one, PyScope& scope,
                       const PyClass* owner) {
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
    case PyAct::kIf: {
      const auto truth = TruthOf(Value(one.value, scope, owner));
      if (truth) {
        for (const PyStatement& inside : *truth ? one.body : one.other) {
          Step(inside, scope, owner);
        }
      } else {
        Forget(one.body, scope, one.value, {});
        Forget(one.other, scope, one.value, {});
      }
      return;
    }
    case PyAct::kBlock:
      for (const PyStatement& inside : one.body) Step(inside, scope, owner);
      return;
    default:
      for (const std::string& name : one.names) {
        if (!name.empty()) {
          PyNode at;
          at.begin = at.end = one.begin;
          scope[name] = Unknown(at, "`" + name + "` is changed here");
        }
      }
  }
}

PyValue PyEvaluator::Value(const PyNode& node, PyScope& scope,
                           const PyClass* owner) {
  if (++steps_ > kStepLimit || made_ > kByteLimit) {
    return Unknown(node, std::string(kTooInvolved));
  }
  PyValue value = Evaluated(node, scope, owner);
  // Counted even where it is too much, so that nothing more is made.
  made_ += BytesOf(value);
  return value;
}

PyValue PyEvaluator::Called(const PyStatement& function, const PyClass* owner) {
  PyNode whole;
  whole.begin = function.begin;
  whole.end = function.begin;
  if (calls_ >= kCallLimit) return Unknown(whole, "functions call each other");
  ++calls_;
  PyScope scope;
  for (const auto& [name, given] : function.parameters) {
    const auto set = values_.find(name);
    if (set != values_.end()) {
      scope[name] = FromFlag(set->second, whole);
    } else if (given) {
      PyScope none;
      scope[name] = Value(*given, none, owner);
      const bool flag =
          given->kind == PyKind::kTrue || given->kind == PyKind::kFalse;
      if (flag && defaults_ != nullptr) {
        defaults_->push_back(name + "=" + given->text);
      }
    } else {
      PyValue unknown = Unknown(whole, "the argument `" + name + "`", name);
      scope[name] = std::move(unknown);
    }
  }
  auto result = Run(function.body, scope, owner);
  --calls_;
  if (result) return std::move(*result);
  return Simple(PyIs::kNone, whole);
}

std::optional<PyValue> PyEvaluator::Run(const std::vector<PyStatement>& body,
                                        PyScope& scope, const PyClass* owner) {
  for (const PyStatement& one : body) {
    if (++steps_ > kStepLimit) break;
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
  if (Returns(one.body) || Returns(one.other)) {
    PyValue value = Undecided(one.value, condition);
    return value;
  }
  Forget(one.body, scope, one.value, condition);
  Forget(one.other, scope, one.value, condition);
  return std::nullopt;
}

void PyEvaluator::Forget(const std::vector<PyStatement>& body, PyScope& scope,
                         const PyNode& at, const PyValue& condition) {
  for (const PyStatement& one : body) {
    if (!one.name.empty()) scope[one.name] = Undecided(at, condition);
    for (const std::string& name : one.names) {
      scope[name] = Undecided(at, condition);
    }
    Forget(one.body, scope, at, condition);
    Forget(one.other, scope, at, condition);
  }
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
  if (at == scope.end() || at->second.is == PyIs::kUnknown) return;
  PyValue value = Value(one.value, scope, owner);
  const int64_t added = one.act == PyAct::kExtend ? BytesOf(value.items) : 0;
  if (!Make(added + BytesOf(value) +
            (at->second.items.IsShared() ? BytesOf(at->second.items) : 0))) {
    at->second = Unknown(one.value, std::string(kTooInvolved));
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

bool PyEvaluator::Make(int64_t bytes) {
  if (made_ + bytes > kByteLimit) return false;
  made_ += bytes;
  return true;
}

PyValue PyEvaluator::Evaluated(const PyNode& node, PyScope& scope,
                               const PyClass* owner) {
  switch (node.kind) {
    case PyKind::kNone:
      return Simple(PyIs::kNone, node);
    case PyKind::kTrue:
    case PyKind::kFalse:
      return Truth(node, node.kind == PyKind::kTrue);
    case PyKind::kNumber:
      return Simple(PyIs::kNumber, node, node.text);
    case PyKind::kString:
      return Simple(PyIs::kText, node, node.text);
    case PyKind::kName:
      return Named(node, scope);
    case PyKind::kAttribute:
      return Attribute(node, scope, owner);
    case PyKind::kSequence:
    case PyKind::kDict:
      return Several(node, scope, owner);
    case PyKind::kCall:
      return Call(node, scope, owner);
    case PyKind::kAdd:
      return Sum(node, scope, owner);
    case PyKind::kChoice:
    case PyKind::kAnd:
    case PyKind::kOr:
    case PyKind::kNot:
    case PyKind::kEqual:
    case PyKind::kUnequal:
      return Logic(node, scope, owner);
    default:
      return Unknown(node, "the value of `" + TextOf(node) + "`");
  }
}

PyValue PyEvaluator::Named(const PyNode& node, const PyScope& scope) {
  for (const PyScope* names : {&scope, &names_.globals}) {
    const auto at = names->find(node.text);
    if (at != names->end()) return Copied(at->second, node);
  }
  return Simple(PyIs::kSymbol, node, node.text);
}

PyValue PyEvaluator::Copied(const PyValue& value, const PyNode& node) {
  copied_ += value.size;
  if (copied_ > kCopyLimit) return Unknown(node, std::string(kTooInvolved));
  return value;
}

PyValue PyEvaluator::Attribute(const PyNode& node, PyScope& scope,
                               const PyClass* owner) {
  const PyNode& object = node.items[0];
  if (object.kind == PyKind::kName) {
    const bool self = object.text == "self" || object.text == "cls";
    const auto named = names_.classes.find(object.text);
    const PyClass* in = self                            ? owner
                        : named != names_.classes.end() ? &named->second
                                                        : nullptr;
    if (self) {
      const auto set = values_.find(node.text);
      if (set != values_.end()) return FromFlag(set->second, node);
    }
    if (in != nullptr) {
      const auto at = in->attributes.find(node.text);
      if (at != in->attributes.end()) return Copied(at->second, node);
      return Unknown(node, "the value of `" + TextOf(node) + "`", node.text);
    }
    const auto local = scope.find(object.text);
    if (self || local != scope.end()) {
      return Unknown(node, "the value of `" + TextOf(node) + "`", node.text);
    }
  }
  return Simple(PyIs::kSymbol, node, node.text);
}

void PyEvaluator::Spread(const PyValue& from, const PyNode& node, PyValue& to) {
  if (from.is != PyIs::kSequence) {
    to.items.push_back(Unknown(node, "what `" + TextOf(node) + "` stands for"));
  } else if (!Make(BytesOf(from.items))) {
    to.items.push_back(Unknown(node, std::string(kTooInvolved)));
  } else {
    for (const PyValue& one : from.items) to.items.push_back(one);
  }
}

PyValue PyEvaluator::Several(const PyNode& node, PyScope& scope,
                             const PyClass* owner) {
  PyValue value =
      Simple(node.kind == PyKind::kDict ? PyIs::kDict : PyIs::kSequence, node);
  for (const PyNode& item : node.items) {
    if (item.kind != PyKind::kStar) {
      value.items.push_back(Value(item, scope, owner));
      continue;
    }
    Spread(Value(item.items[0], scope, owner), item, value);
  }
  return Sized(std::move(value), node);
}

PyValue PyEvaluator::Sum(const PyNode& node, PyScope& scope,
                         const PyClass* owner) {
  PyValue left = Value(node.items[0], scope, owner);
  PyValue right = Value(node.items[1], scope, owner);
  if (left.is == PyIs::kUnknown) return left;
  if (right.is == PyIs::kUnknown) return right;
  if (left.is == PyIs::kText && right.is == PyIs::kText) {
    if (left.text.size() + right.text.size() > kPySizeLimit) {
      return Unknown(node, "a text of more than a million bytes");
    }
    return Simple(PyIs::kText, node, left.text + right.text);
  }
  if (left.is == PyIs::kSequence && right.is == PyIs::kSequence) {
    if (!Make(BytesOf(left.items) + BytesOf(right.items))) {
      return Unknown(node, std::string(kTooInvolved));
    }
    for (const PyValue& item : right.items) left.items.push_back(item);
    left.begin = node.begin;
    left.end = node.end;
    return Sized(std::move(left), node);
  }
  return Unknown(node, "the value of `" + TextOf(node) + "`");
}

PyValue PyEvaluator::Logic(const PyNode& node, PyScope& scope,
                           const PyClass* owner) {
  if (node.kind == PyKind::kChoice) {
    const PyValue condition = Value(node.items[1], scope, owner);
    const auto truth = TruthOf(condition);
    if (!truth) return Undecided(node.items[1], condition);
    return Value(node.items[*truth ? 0 : 2], scope, owner);
  }
  PyValue left = Value(node.items[0], scope, owner);
  const auto first = TruthOf(left);
  if (node.kind == PyKind::kNot) {
    if (!first) return Unknown(node, left.why, left.flag);
    return Truth(node, !*first);
  }
  if (node.kind == PyKind::kAnd || node.kind == PyKind::kOr) {
    if (!first) return left;
    const bool decided = *first == (node.kind == PyKind::kOr);
    return decided ? left : Value(node.items[1], scope, owner);
  }
  const PyValue right = Value(node.items[1], scope, owner);
  if (left.is == PyIs::kUnknown || left.is == PyIs::kSymbol) return left;
  if (right.is == PyIs::kUnknown || right.is == PyIs::kSymbol) return right;
  return Truth(node, Same(left, right) == (node.kind == PyKind::kEqual));
}

PyValue PyEvaluator::Call(const PyNode& node, PyScope& scope,
                          const PyClass* owner) {
  const PyNode& function = node.items[0];
  std::string name = function.text;
  if (function.kind == PyKind::kName) {
    // `PS = PartitionSpec` and `resolve = pmag.resolve`.
    const PyValue bound = Named(function, scope);
    if (bound.is == PyIs::kSymbol) name = bound.text;
    if (bound.is == PyIs::kUnknown && bound.flag == "resolve") name = "resolve";
  }
  if (function.kind != PyKind::kName && function.kind != PyKind::kAttribute) {
    return Unknown(node, "what `" + TextOf(function) + "` returns");
  }
  if (IsSpecName(name)) return Arguments(PyIs::kSpec, node, scope, owner);
  if (name == "resolve" || name == "resolve_spec" ||
      name == "DynamicShardingAxes") {
    return ResolvedOf(Arguments(PyIs::kResolved, node, scope, owner), node);
  }
  if (name == "PartitionAxis")
    return Arguments(PyIs::kAxes, node, scope, owner);
  const bool one = node.items.size() == 2 && node.keywords[0].empty() &&
                   node.items[1].kind != PyKind::kStar;
  if (one && KeepsItsArgument(name)) {
    return Value(node.items[1], scope, owner);
  }
  if (node.items.size() == 1) {
    if (const auto* known = FunctionOf(function, owner)) {
      return Called(*known, owner);
    }
  }
  return Unknown(node, "what `" + TextOf(function) + "` returns");
}

const PyStatement* PyEvaluator::FunctionOf(const PyNode& function,
                                           const PyClass* owner) {
  const auto find = [&](const auto& in) -> const PyStatement* {
    const auto at = in.find(function.text);
    return at == in.end() ? nullptr : at->second;
  };
  if (function.kind == PyKind::kName) return find(names_.functions);
  const PyNode& object = function.items[0];
  const bool self = object.kind == PyKind::kName &&
                    (object.text == "self" || object.text == "cls");
  return self && owner != nullptr ? find(owner->functions) : nullptr;
}

PyValue PyEvaluator::Arguments(PyIs is, const PyNode& node, PyScope& scope,
                               const PyClass* owner) {
  PyValue value = Simple(is, node);
  for (size_t i = 1; i < node.items.size(); ++i) {
    const PyNode& item = node.items[i];
    const std::string& keyword = node.keywords[i - 1];
    if (item.kind == PyKind::kStar) {
      Spread(Value(item.items[0], scope, owner), item, value);
    } else if (keyword.empty()) {
      value.items.push_back(Value(item, scope, owner));
    } else {
      value.fields.push_back({keyword, Value(item, scope, owner)});
    }
  }
  return Sized(std::move(value), node);
}

}  // namespace shardc::imports
