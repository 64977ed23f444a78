// Evaluates the names, literals, operators and comprehensions of Python
// expressions. Calls are evaluated in python_calls.cc.
//
//   {f"h{i}": P() for i in range(2)}  ->  {"h0": P(), "h1": P()}
#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "importers/rules/python_evaluator.h"
#include "importers/rules/python_literal.h"
#include "importers/rules/python_names.h"

namespace shardc::imports {
namespace {

// Each time a variable is read, the size of its value is added to a sum. This
// is the limit on the sum. It limits the time for code that doubles the size of
// a value with each line.
constexpr int64_t kCopyLimit = 30'000'000;

// Returns whether two keys of a dict are equal. Only texts and numbers are
// compared.
bool RepeatsKey(const PyValue& dict) {
  std::set<std::string_view> seen;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PyValue& key = dict.items[i];
    const bool plain = key.is == PyIs::kText || key.is == PyIs::kNumber;
    if (plain && !seen.insert(key.text).second) return true;
  }
  return false;
}

}  // namespace

PyValue PyEvaluator::Evaluated(const PyNode& node, PyScope& scope,
                               const PyClass* owner) {
  switch (node.kind) {
    case PyKind::kNone:
      return Simple(PyIs::kNone, node);
    case PyKind::kTrue:
    case PyKind::kFalse:
      return Truth(node, node.kind == PyKind::kTrue);
    case PyKind::kNumber:
      return Simple(PyIs::kNumber, node, DecimalText(node.text));
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
    case PyKind::kEach:
      return Each(node, scope, owner);
    case PyKind::kFormat:
      return Format(node, scope, owner);
    case PyKind::kPart:
      return Part(node, scope, owner);
    case PyKind::kChoice:
    case PyKind::kAnd:
    case PyKind::kOr:
    case PyKind::kNot:
    case PyKind::kEqual:
    case PyKind::kUnequal:
      return Logic(node, scope, owner);
    default:
      ForgetCalls(node, scope, owner);
      return Unknown(node, "the value of `" + TextOf(node) + "`");
  }
}

PyValue PyEvaluator::Named(const PyNode& node, const PyScope& scope) {
  for (const PyScope* names : {&scope, &names_.globals}) {
    const auto at = names->find(node.text);
    if (at != names->end()) return Copied(at->second, node);
  }
  if (auto bundle = BundleOf(node)) return std::move(*bundle);
  return Simple(PyIs::kSymbol, node, node.text);
}

std::optional<PyValue> PyEvaluator::BundleOf(const PyNode& name) const {
  const PyClass* of = ClassNamed(name.text);
  const PyValue* axes = of == nullptr ? nullptr : AttributeOf(*of, "axes");
  const PyValue* mode = of == nullptr ? nullptr : AttributeOf(*of, "mode");
  if (axes == nullptr || mode == nullptr) return std::nullopt;
  PyValue out = Simple(PyIs::kResolved, name);
  out.items.push_back(*axes);
  out.fields.push_back({"mode", *mode});
  return Sized(std::move(out), name);
}

PyValue PyEvaluator::Copied(const PyValue& value, const PyNode& node) {
  copied_ += value.size;
  if (copied_ > kCopyLimit) return Unknown(node, std::string(kPyTooInvolved));
  return value;
}

PyValue PyEvaluator::Attribute(const PyNode& node, PyScope& scope,
                               const PyClass* owner) {
  const PyNode& object = node.items[0];
  if (object.kind == PyKind::kName) {
    const bool self = IsSelf(object.text);
    const PyClass* in = self ? owner : ClassNamed(object.text);
    if (self) {
      const auto set = values_.find(node.text);
      if (set != values_.end()) return FromFlag(set->second, node);
    }
    const bool of_object = object.text == "self";
    const auto own = scope.find(object.text + "." + node.text);
    if (of_object && own != scope.end()) return Copied(own->second, node);
    if (in != nullptr) {
      const PyValue* at = AttributeOf(*in, node.text);
      const bool changed =
          own != scope.end() || (of_object && SetsAttribute(*in, node.text));
      if (at != nullptr && !changed) return Copied(*at, node);
      return Unknown(node, "the value of `" + TextOf(node) + "`", node.text);
    }
    const auto local = scope.find(object.text);
    if (self || local != scope.end()) {
      const auto set = values_.find(node.text);
      if (set != values_.end()) return FromFlag(set->second, node);
      // An attribute of an imported name is a symbol, also if the import gives
      // the name an alias: `common_types as ct`.
      if (self || local->second.is != PyIs::kSymbol) {
        return Unknown(node, "the value of `" + TextOf(node) + "`", node.text);
      }
    }
  }
  return Simple(PyIs::kSymbol, node, node.text);
}

void PyEvaluator::Spread(const PyValue& from, const PyNode& node, PyValue& to) {
  if (from.is != PyIs::kSequence) {
    to.items.push_back(Unknown(node, "what `" + TextOf(node) + "` stands for"));
  } else if (!Make(BytesOf(from.items))) {
    to.items.push_back(Unknown(node, std::string(kPyTooInvolved)));
  } else {
    for (const PyValue& one : from.items) to.items.push_back(one);
  }
}

PyValue PyEvaluator::Several(const PyNode& node, PyScope& scope,
                             const PyClass* owner) {
  PyValue value =
      Simple(node.kind == PyKind::kDict ? PyIs::kDict : PyIs::kSequence, node);
  value.items.Allocate();
  const bool dict = value.is == PyIs::kDict;
  const bool spreads = dict && std::any_of(node.items.begin(), node.items.end(),
                                           [](const PyNode& item) {
                                             return item.kind == PyKind::kStar;
                                           });
  for (size_t i = 0; i < node.items.size(); ++i) {
    const PyNode& item = node.items[i];
    if (!spreads && item.kind != PyKind::kStar) {
      value.items.push_back(Value(item, scope, owner));
    } else if (!dict) {
      Spread(Value(item.items[0], scope, owner), item, value);
    } else if (item.kind != PyKind::kStar) {
      const PyValue key = Value(item, scope, owner);
      if (!PutItem(key, Value(node.items[++i], scope, owner), value)) {
        return Unknown(node, std::string(kPyTooInvolved));
      }
    } else {
      ++i;  // skips the kNone that follows `**x`
      const PyValue from = Value(item.items[0], scope, owner);
      if (from.is == PyIs::kUnknown) return from;
      if (from.is != PyIs::kDict) {
        return Unknown(item, "what `" + TextOf(item) + "` stands for");
      }
      for (size_t j = 0; j + 1 < from.items.size(); j += 2) {
        if (!PutItem(from.items[j], from.items[j + 1], value)) {
          return Unknown(node, std::string(kPyTooInvolved));
        }
      }
    }
  }
  if (dict && !spreads && RepeatsKey(value)) {
    // If keys are equal, Python uses the place of the first key and the value
    // of the last key.
    PyValue unique = Simple(PyIs::kDict, node);
    for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
      if (!PutItem(value.items[i], value.items[i + 1], unique)) {
        return Unknown(node, std::string(kPyTooInvolved));
      }
    }
    value = std::move(unique);
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
      return Unknown(node, std::string(kPyTooInvolved));
    }
    for (const PyValue& item : right.items) left.items.push_back(item);
    left.begin = node.begin;
    left.end = node.end;
    return Sized(std::move(left), node);
  }
  const auto a = WholeNumber(left), b = WholeNumber(right);
  if (a && b && *a <= kPySizeLimit && *b <= kPySizeLimit) {
    return Simple(PyIs::kNumber, node, std::to_string(*a + *b));
  }
  return Unknown(node, "the value of `" + TextOf(node) + "`");
}

PyValue PyEvaluator::UnknownTruth(const PyNode& at,
                                  const PyValue& value) const {
  return value.is == PyIs::kUnknown ? value : Undecided(at, value);
}

PyValue PyEvaluator::Logic(const PyNode& node, PyScope& scope,
                           const PyClass* owner) {
  if (node.kind == PyKind::kChoice) {
    const PyValue condition = Value(node.items[1], scope, owner);
    const auto truth = TruthOf(condition);
    if (!truth) {
      ForgetCalls(node, scope, owner);
      return Undecided(node.items[1], condition);
    }
    return Value(node.items[*truth ? 0 : 2], scope, owner);
  }
  PyValue left = Value(node.items[0], scope, owner);
  const auto first = TruthOf(left);
  if (node.kind == PyKind::kNot) {
    if (!first) return UnknownTruth(node.items[0], left);
    return Truth(node, !*first);
  }
  if (node.kind == PyKind::kAnd || node.kind == PyKind::kOr) {
    if (!first) {
      ForgetCalls(node, scope, owner);
      return UnknownTruth(node.items[0], left);
    }
    const bool decided = *first == (node.kind == PyKind::kOr);
    return decided ? left : Value(node.items[1], scope, owner);
  }
  const PyValue right = Value(node.items[1], scope, owner);
  if (left.is == PyIs::kUnknown || left.is == PyIs::kSymbol) return left;
  if (right.is == PyIs::kUnknown || right.is == PyIs::kSymbol) return right;
  const bool same = Same(left, right);
  if (!same && left.is == PyIs::kNumber && right.is == PyIs::kNumber &&
      !(IsDecimal(left) && IsDecimal(right))) {
    return Unknown(node, "the value of `" + TextOf(node) + "`");
  }
  return Truth(node, same == (node.kind == PyKind::kEqual));
}

PyValue PyEvaluator::Each(const PyNode& node, PyScope& scope,
                          const PyClass* owner) {
  const bool dict = node.keywords[0] == "key";
  PyValue out = Simple(dict ? PyIs::kDict : PyIs::kSequence, node);
  out.items.Allocate();
  // The loop variables of a comprehension exist only inside it, so they are
  // bound in a copy of the scope. The caller's scope must not change, because
  // the caller may hold an iterator into it.
  PyScope inside = scope;
  steps_ += static_cast<int64_t>(inside.size());
  EachFrom(node, dict ? 2 : 1, inside, owner, out);
  // The calls in the comprehension may also change names of the caller's scope.
  ForgetCalls(node, scope, owner);
  return Sized(std::move(out), node);
}

void PyEvaluator::EachFrom(const PyNode& node, size_t clause, PyScope& scope,
                           const PyClass* owner, PyValue& out) {
  if (out.is == PyIs::kUnknown) return;
  if (clause == node.items.size()) {
    PyValue value =
        Value(node.items[out.is == PyIs::kDict ? 1 : 0], scope, owner);
    if (out.is == PyIs::kSequence) {
      out.items.push_back(std::move(value));
      return;
    }
    const PyValue key = Value(node.items[0], scope, owner);
    if (key.is == PyIs::kUnknown) {
      out = key;
    } else if (!PutItem(key, value, out)) {
      out = Unknown(node, std::string(kPyTooInvolved));
    }
    return;
  }
  const bool filter = node.keywords[clause] == "if";
  const PyValue value =
      Value(node.items[filter ? clause : clause + 1], scope, owner);
  if (filter) {
    const auto truth = TruthOf(value);
    if (!truth) {
      out = Undecided(node.items[clause], value);
    } else if (*truth) {
      EachFrom(node, clause + 1, scope, owner, out);
    }
    return;
  }
  const PyValue over = Elements(value, node.items[clause + 1]);
  if (over.is == PyIs::kUnknown) {
    out = over;
    return;
  }
  for (const PyValue& item : over.items) {
    if (out.is == PyIs::kUnknown) return;
    if (++steps_ > kPyStepLimit) {
      out = Unknown(node, std::string(kPyTooInvolved));
      return;
    }
    Bind(node.items[clause], item, scope);
    EachFrom(node, clause + 2, scope, owner, out);
  }
}

PyValue PyEvaluator::Format(const PyNode& node, PyScope& scope,
                            const PyClass* owner) {
  std::string text;
  for (const PyNode& item : node.items) {
    PyValue part = Value(item, scope, owner);
    if (part.is == PyIs::kUnknown) return part;
    if (part.is != PyIs::kText && !IsDecimal(part)) {
      return Unknown(node, "the value of `" + TextOf(node) + "`");
    }
    text += part.text;
    if (text.size() > kPySizeLimit) {
      return Unknown(node, "a text of more than a million bytes");
    }
  }
  return Simple(PyIs::kText, node, std::move(text));
}

// Evaluates the index expressions `x["key"]` of a dict and `x[0]` of a
// sequence.
PyValue PyEvaluator::Part(const PyNode& node, PyScope& scope,
                          const PyClass* owner) {
  if (node.items.size() == 2) {
    PyValue of = Value(node.items[0], scope, owner);
    if (of.is == PyIs::kUnknown) return of;
    const PyValue index = Value(node.items[1], scope, owner);
    if (index.is == PyIs::kUnknown) return index;
    for (size_t i = 0; of.is == PyIs::kDict && i + 1 < of.items.size();
         i += 2) {
      if (Same(of.items[i], index)) return Copied(of.items[i + 1], node);
    }
    const auto at = WholeNumber(index);
    if (of.is == PyIs::kSequence && at &&
        *at < static_cast<int64_t>(of.items.size())) {
      return Copied(of.items[static_cast<size_t>(*at)], node);
    }
  }
  return Unknown(node, "the value of `" + TextOf(node) + "`");
}

}  // namespace shardc::imports
