// Evaluates Python expressions without running them: names are looked up in the
// function, its class and the module; a call is one of a few known ones, or of
// a function of the file that needs no arguments. Every other value is unknown,
// with the reason:
//
//   def rules(self, full=True):
//     return A if full else B     ->  A's value; with --set full=false, B's
#include "importers/rules/python_value.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

namespace shardc::imports {
namespace {

// Functions that call functions, and steps of all of them together.
constexpr int kCallLimit = 20;
constexpr int64_t kStepLimit = 5'000'000;
// Values in one, each counted wherever it is named, and the sum of these over
// all names, which bounds the time of what doubles with each line.
constexpr int64_t kSizeLimit = 1'000'000;
constexpr int64_t kCopyLimit = 30'000'000;
// The bytes of all values that are made, shared ones once: real files take less
// than 4 MiB.
constexpr int64_t kByteLimit = int64_t{64} << 20;
constexpr std::string_view kTooInvolved = "this file is too involved";

// The bytes of a value without those that it may share.
int64_t BytesOf(const PyValue& value) {
  return static_cast<int64_t>(sizeof(PyValue) + value.text.size() +
                              value.why.size() + value.flag.size());
}

int64_t BytesOf(const PyList<PyValue>& values) {
  int64_t out = 0;
  for (const PyValue& one : values) out += BytesOf(one);
  return out;
}

using Scope = std::map<std::string, PyValue, std::less<>>;

struct PyClass {
  Scope attributes;
  std::map<std::string, const PyStatement*, std::less<>> functions;
};

bool IsSpecName(std::string_view name) {
  return name == "PartitionSpec" || name == "PS" || name == "P" ||
         name == "Ps" || name == "PSpec";
}

PyValue Simple(PyIs is, const PyNode& node, std::string text = {}) {
  PyValue value;
  value.is = is;
  value.begin = node.begin;
  value.end = node.end;
  value.text = std::move(text);
  return value;
}

PyValue Unknown(const PyNode& node, std::string why, std::string flag = {}) {
  PyValue value = Simple(PyIs::kUnknown, node);
  value.why = std::move(why);
  value.flag = std::move(flag);
  value.why_begin = node.begin;
  value.why_end = node.end;
  return value;
}

bool Same(const PyValue& a, const PyValue& b) {
  if (a.is != b.is || a.text != b.text || a.truth != b.truth ||
      a.items.size() != b.items.size()) {
    return false;
  }
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!Same(a.items[i], b.items[i])) return false;
  }
  return true;
}

class Evaluator {
 public:
  Evaluator(const PyModule& module, std::string_view text,
            const std::map<std::string, std::string>& values)
      : module_(module), text_(text), values_(values) {}

  std::vector<PySymbol> Symbols() {
    Collect(module_.body, "", globals_, nullptr);
    std::vector<PySymbol> out;
    Tell(module_.body, "", out);
    return out;
  }

  // A value outside of any function.
  PyValue Free(const PyNode& node) {
    if (!collected_) Collect(module_.body, "", globals_, nullptr);
    Scope none;
    return Value(node, none, nullptr);
  }

 private:
  // Constants first, so that functions may name those that follow them. In
  // branches, which have run whole, only what they declare.
  void Collect(const std::vector<PyStatement>& body, const std::string& prefix,
               Scope& scope, PyClass* owner, bool branch = false) {
    collected_ = true;
    for (const PyStatement& one : body) {
      if (one.act == PyAct::kIf || one.act == PyAct::kBlock) {
        if (!branch) Step(one, scope, owner);
        Collect(one.body, prefix, scope, owner, true);
        Collect(one.other, prefix, scope, owner, true);
      } else if (one.act == PyAct::kClass) {
        PyClass& made = classes_[prefix + one.name];
        Collect(one.body, prefix + one.name + ".", made.attributes, &made);
      } else if (one.act == PyAct::kDefine) {
        (owner ? owner->functions : functions_)[one.name] = &one;
      } else if (!branch) {
        Step(one, scope, owner);
      }
    }
  }

  void Tell(const std::vector<PyStatement>& body, const std::string& prefix,
            std::vector<PySymbol>& out) {
    PyClass* owner = prefix.empty()
                         ? nullptr
                         : &classes_[prefix.substr(0, prefix.size() - 1)];
    std::set<std::string> told;
    Tell(body, prefix, owner, told, out);
  }

  void Tell(const std::vector<PyStatement>& body, const std::string& prefix,
            PyClass* owner, std::set<std::string>& told,
            std::vector<PySymbol>& out) {
    for (const PyStatement& one : body) {
      if (one.act == PyAct::kIf || one.act == PyAct::kBlock) {
        Tell(one.body, prefix, owner, told, out);
        Tell(one.other, prefix, owner, told, out);
      } else if (one.act == PyAct::kClass) {
        Tell(one.body, prefix + one.name + ".", out);
      } else if (one.act == PyAct::kDefine) {
        PySymbol symbol{prefix + one.name, {}, true, {}};
        defaults_ = &symbol.defaults;
        symbol.value = Called(one, owner);
        defaults_ = nullptr;
        out.push_back(std::move(symbol));
      } else if (one.act == PyAct::kAssign && !one.name.empty() &&
                 told.insert(one.name).second) {
        const Scope& scope = owner ? owner->attributes : globals_;
        const auto at = scope.find(one.name);
        if (at != scope.end())
          out.push_back({prefix + one.name, at->second, false, {}});
      }
    }
  }

  // What a function returns, its parameters as given or by default.
  PyValue Called(const PyStatement& function, PyClass* owner) {
    PyNode whole;
    whole.begin = function.begin;
    whole.end = function.begin;
    if (calls_ >= kCallLimit)
      return Unknown(whole, "functions call each other");
    ++calls_;
    Scope scope;
    for (const auto& [name, given] : function.parameters) {
      const auto set = values_.find(name);
      if (set != values_.end()) {
        scope[name] = FromFlag(set->second, whole);
      } else if (given) {
        Scope none;
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

  static PyValue FromFlag(const std::string& text, const PyNode& node) {
    if (text == "true" || text == "True") {
      PyValue value = Simple(PyIs::kBool, node);
      value.truth = true;
      return value;
    }
    if (text == "false" || text == "False") return Simple(PyIs::kBool, node);
    if (text == "none" || text == "None") return Simple(PyIs::kNone, node);
    return Simple(PyIs::kText, node, text);
  }

  // The value of a `return` that is reached.
  std::optional<PyValue> Run(const std::vector<PyStatement>& body, Scope& scope,
                             PyClass* owner) {
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

  std::optional<PyValue> Branch(const PyStatement& one, Scope& scope,
                                PyClass* owner) {
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

  static bool Returns(const std::vector<PyStatement>& body) {
    return std::any_of(body.begin(), body.end(), [](const PyStatement& one) {
      return one.act == PyAct::kReturn || one.returns || Returns(one.body) ||
             Returns(one.other);
    });
  }

  void Forget(const std::vector<PyStatement>& body, Scope& scope,
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

  PyValue Undecided(const PyNode& at, const PyValue& condition) const {
    return Unknown(at, "the branch on `" + TextOf(at) + "`", condition.flag);
  }

  std::string TextOf(const PyNode& node) const {
    const std::string_view text =
        text_.substr(node.begin, std::min<size_t>(node.end - node.begin, 60));
    return std::string(text.substr(0, text.find('\n')));
  }

  void Step(const PyStatement& one, Scope& scope, PyClass* owner) {
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

  void Grow(const PyStatement& one, Scope& scope, PyClass* owner) {
    const auto at = scope.find(one.name);
    if (at == scope.end() || at->second.is == PyIs::kUnknown) return;
    PyValue value = Value(one.value, scope, owner);
    const int64_t added = one.act == PyAct::kExtend ? BytesOf(value.items) : 0;
    if (!Make(added + BytesOf(value) +
              (at->second.items.IsShared() ? BytesOf(at->second.items) : 0))) {
      at->second = Unknown(one.value, std::string(kTooInvolved));
      return;
    }
    const bool text = at->second.is == PyIs::kText &&
                      one.act == PyAct::kExtend && value.is == PyIs::kText &&
                      at->second.text.size() + value.text.size() <= kSizeLimit;
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

  static std::optional<bool> TruthOf(const PyValue& value) {
    switch (value.is) {
      case PyIs::kBool:
        return value.truth;
      case PyIs::kNone:
        return false;
      case PyIs::kText:
        return !value.text.empty();
      case PyIs::kSequence:
        return !value.items.empty();
      default:
        return std::nullopt;
    }
  }

  PyValue Truth(const PyNode& node, bool truth) const {
    PyValue value = Simple(PyIs::kBool, node);
    value.truth = truth;
    return value;
  }

  // Returns false if there would be too many bytes of values.
  bool Make(int64_t bytes) {
    if (made_ + bytes > kByteLimit) return false;
    made_ += bytes;
    return true;
  }

  PyValue Value(const PyNode& node, Scope& scope, PyClass* owner) {
    if (++steps_ > kStepLimit || made_ > kByteLimit) {
      return Unknown(node, std::string(kTooInvolved));
    }
    PyValue value = Evaluated(node, scope, owner);
    // Counted even where it is too much, so that nothing more is made.
    made_ += BytesOf(value);
    return value;
  }

  PyValue Evaluated(const PyNode& node, Scope& scope, PyClass* owner) {
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
        return Named(node, scope, owner);
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

  // The value of a name, at the place where it is used.
  PyValue Named(const PyNode& node, Scope& scope, PyClass*) {
    auto at = scope.find(node.text);
    if (at == scope.end()) {
      at = globals_.find(node.text);
      if (at == globals_.end()) {
        return Simple(PyIs::kSymbol, node, node.text);
      }
    }
    return Copied(at->second, node);
  }

  PyValue Copied(const PyValue& value, const PyNode& node) {
    copied_ += value.size;
    if (copied_ > kCopyLimit) return Unknown(node, std::string(kTooInvolved));
    return value;
  }

  // With the size of all that it holds; unknown where that is too much.
  static PyValue Sized(PyValue value, const PyNode& node) {
    value.size = 1;
    for (const PyValue& item : value.items) value.size += item.size;
    for (const PyField& field : value.fields) value.size += field.second.size;
    if (value.size <= kSizeLimit) return value;
    return Unknown(node, "a value of more than a million parts");
  }

  PyValue Attribute(const PyNode& node, Scope& scope, PyClass* owner) {
    const PyNode& object = node.items[0];
    if (object.kind == PyKind::kName) {
      const bool self = object.text == "self" || object.text == "cls";
      const auto named = classes_.find(object.text);
      const PyClass* in = self                      ? owner
                          : named != classes_.end() ? &named->second
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

  // Adds what `*name` stands for.
  void Spread(const PyValue& from, const PyNode& node, PyValue& to) {
    if (from.is != PyIs::kSequence) {
      to.items.push_back(
          Unknown(node, "what `" + TextOf(node) + "` stands for"));
    } else if (!Make(BytesOf(from.items))) {
      to.items.push_back(Unknown(node, std::string(kTooInvolved)));
    } else {
      for (const PyValue& one : from.items) to.items.push_back(one);
    }
  }

  PyValue Several(const PyNode& node, Scope& scope, PyClass* owner) {
    PyValue value = Simple(
        node.kind == PyKind::kDict ? PyIs::kDict : PyIs::kSequence, node);
    for (const PyNode& item : node.items) {
      if (item.kind != PyKind::kStar) {
        value.items.push_back(Value(item, scope, owner));
        continue;
      }
      Spread(Value(item.items[0], scope, owner), item, value);
    }
    return Sized(std::move(value), node);
  }

  PyValue Sum(const PyNode& node, Scope& scope, PyClass* owner) {
    PyValue left = Value(node.items[0], scope, owner);
    PyValue right = Value(node.items[1], scope, owner);
    if (left.is == PyIs::kUnknown) return left;
    if (right.is == PyIs::kUnknown) return right;
    if (left.is == PyIs::kText && right.is == PyIs::kText) {
      if (left.text.size() + right.text.size() > kSizeLimit) {
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

  PyValue Logic(const PyNode& node, Scope& scope, PyClass* owner) {
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

  PyValue Call(const PyNode& node, Scope& scope, PyClass* owner) {
    const PyNode& function = node.items[0];
    std::string name = function.text;
    if (function.kind == PyKind::kName) {
      // `PS = PartitionSpec` and `resolve = pmag.resolve`.
      const PyValue bound = Named(function, scope, owner);
      if (bound.is == PyIs::kSymbol) name = bound.text;
      if (bound.is == PyIs::kUnknown && bound.flag == "resolve")
        name = "resolve";
    }
    if (function.kind != PyKind::kName && function.kind != PyKind::kAttribute) {
      return Unknown(node, "what `" + TextOf(function) + "` returns");
    }
    if (IsSpecName(name)) return Arguments(PyIs::kSpec, node, scope, owner);
    if (name == "resolve" || name == "resolve_spec" ||
        name == "DynamicShardingAxes") {
      return Resolved(node, scope, owner);
    }
    if (name == "PartitionAxis")
      return Arguments(PyIs::kAxes, node, scope, owner);
    const bool one = node.items.size() == 2 && node.keywords[0].empty() &&
                     node.items[1].kind != PyKind::kStar;
    if (one && (name == "tuple" || name == "list" || name == "freeze" ||
                name == "dict" || name == "OrderedDict" ||
                name == "FrozenDict" || name == "compile")) {
      return Value(node.items[1], scope, owner);
    }
    if (node.items.size() == 1) {
      if (const auto* known = FunctionOf(function, owner)) {
        return Called(*known, owner);
      }
    }
    return Unknown(node, "what `" + TextOf(function) + "` returns");
  }

  const PyStatement* FunctionOf(const PyNode& function, PyClass* owner) {
    const auto find = [&](const auto& in) -> const PyStatement* {
      const auto at = in.find(function.text);
      return at == in.end() ? nullptr : at->second;
    };
    if (function.kind == PyKind::kName) return find(functions_);
    const PyNode& object = function.items[0];
    const bool self = object.kind == PyKind::kName &&
                      (object.text == "self" || object.text == "cls");
    return self && owner != nullptr ? find(owner->functions) : nullptr;
  }

  PyValue Arguments(PyIs is, const PyNode& node, Scope& scope, PyClass* owner) {
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

  // PartitionManager.resolve(axes, mode, dynamic_axes, shape), whose dynamic
  // axes count where axes or mode are not given; PartitionAxis.resolve_spec and
  // DynamicShardingAxes take the first two.
  PyValue Resolved(const PyNode& node, Scope& scope, PyClass* owner) {
    constexpr std::string_view kNames[] = {"axes", "mode", "dynamic_axes",
                                           "shape"};
    PyValue given = Arguments(PyIs::kResolved, node, scope, owner);
    std::map<std::string, PyValue, std::less<>> named;
    for (size_t i = 0; i < given.items.size() && i < std::size(kNames); ++i) {
      named.emplace(kNames[i], given.items[i]);
    }
    for (const auto& [keyword, field] : given.fields) {
      named.emplace(keyword, field);
    }
    std::erase_if(named, [](const auto& one) {
      return one.second.is == PyIs::kSymbol && one.second.text == "NOT_GIVEN";
    });
    PyValue value = Simple(PyIs::kResolved, node);
    const bool list = named.contains("axes") &&
                      named["axes"].is != PyIs::kSymbol &&
                      named["axes"].is != PyIs::kResolved;
    const bool dynamic =
        named.contains("dynamic_axes") &&
        (!named.contains("axes") || (list && !named.contains("mode")));
    if (!dynamic && named.contains("mode")) {
      value.fields.push_back({"mode", std::move(named["mode"])});
    }
    const char* chosen = dynamic ? "dynamic_axes" : "axes";
    if (named.contains(chosen)) {
      value.items.push_back(std::move(named[chosen]));
    }
    return Sized(std::move(value), node);
  }

  const PyModule& module_;
  std::string_view text_;
  const std::map<std::string, std::string>& values_;
  Scope globals_;
  std::map<std::string, PyClass, std::less<>> classes_;
  std::map<std::string, const PyStatement*, std::less<>> functions_;
  std::vector<std::string>* defaults_ = nullptr;
  bool collected_ = false;
  int calls_ = 0;
  int64_t steps_ = 0, copied_ = 0, made_ = 0;
};

void FindAxes(const PyNode& node, std::vector<const PyNode*>& out) {
  if (node.kind == PyKind::kCall && node.items[0].text == "PartitionAxis") {
    out.push_back(&node);
  }
  for (const PyNode& item : node.items) FindAxes(item, out);
}

void FindAxes(const std::vector<PyStatement>& body,
              std::vector<const PyNode*>& out) {
  for (const PyStatement& one : body) {
    FindAxes(one.value, out);
    for (const auto& [name, given] : one.parameters) {
      if (given) FindAxes(*given, out);
    }
    FindAxes(one.body, out);
    FindAxes(one.other, out);
  }
}

}  // namespace

std::vector<PySymbol> SymbolsOf(
    const PyModule& module, std::string_view text,
    const std::map<std::string, std::string>& values) {
  return Evaluator(module, text, values).Symbols();
}

std::vector<PyValue> AxesIn(const PyModule& module, std::string_view text) {
  std::vector<const PyNode*> nodes;
  FindAxes(module.body, nodes);
  const std::map<std::string, std::string> none;
  Evaluator evaluator(module, text, none);
  std::vector<PyValue> out;
  for (const PyNode* node : nodes) out.push_back(evaluator.Free(*node));
  return out;
}

}  // namespace shardc::imports
