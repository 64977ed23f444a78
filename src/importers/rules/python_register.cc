// Reads the calls with which a Python file registers logical axes in eformer:
//
//   PartitionAxis.register("KV_GROUP", "kv_head_axis")
//     ->  register: {KV_GROUP: {rule: kv_head}}
//
// eformer keeps the registrations for the process, so a call counts wherever it
// is. Only a call that is a statement of the module and has known arguments can
// be read. Any other mention of these methods, such as one inside a function,
// is refused at its place, because its effect is not known. A call that follows
// a statement which resolves logical axes is refused as well: the specs of that
// statement do not have the registration, and a rules file has one set of
// registrations for all its specs.
#include "importers/rules/python_register.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "importers/rules/python_tokens.h"
#include "importers/rules/spec_value.h"
#include "source/wording.h"

namespace shardc::imports {
namespace {

constexpr std::string_view kClass = "PartitionAxis";
constexpr std::string_view kMethods[] = {"register", "unregister",
                                         "clear_registered_axes"};

// The methods of PartitionManager and PartitionAxis that look up registrations.
constexpr std::string_view kResolving[] = {"resolve", "resolve_spec",
                                           "resolve_axis"};

// The name of a logical axis without the underscores of its long form.
std::string_view ShortName(std::string_view name) {
  const bool is_long =
      name.size() > 4 && name.starts_with("__") && name.ends_with("__");
  return is_long ? name.substr(2, name.size() - 4) : name;
}

class RegistrationReader {
 public:
  RegistrationReader(const SourceRef& source, const PyModule& module,
                     const std::function<PyValue(const PyNode&)>& value_of,
                     Findings& findings)
      : source_(source),
        module_(module),
        value_of_(value_of),
        findings_(findings) {
    for (const PyStatement& one : module_.body) AddFunctions(one);
  }

  std::optional<Registrations> Read() {
    Registrations out;
    bool resolved = false;
    for (const PyStatement& one : module_.body) {
      if (one.act != PyAct::kUnknown || !IsRegister(one.target)) {
        resolved = resolved || Resolves(one);
        continue;
      }
      if (resolved) {
        Refuse(
            one.target.begin, one.target.end,
            "logical axes are resolved before this `register`, so their "
            "specs do not have it",
            "register every logical axis before the first call of `resolve`");
        return std::nullopt;
      }
      if (!Add(one.target, out)) return std::nullopt;
    }
    if (!RefuseOthers()) return std::nullopt;
    return out;
  }

 private:
  bool Refuse(size_t begin, size_t end, std::string message,
              std::string help = {}) {
    findings_.Add(code::kInexpressible, {source_, begin, end},
                  std::move(message), std::move(help));
    return false;
  }

  bool Refuse(const PyValue& value, std::string message,
              std::string help = {}) {
    if (value.is != PyIs::kUnknown) {
      return Refuse(value.begin, value.end, std::move(message),
                    std::move(help));
    }
    RefuseUnknown(source_, value, findings_);
    return false;
  }

  // Adds the functions of a statement by their names. The methods of a class
  // are added by the name of the class too, because a call of the class may run
  // them.
  void AddFunctions(const PyStatement& one) {
    if (one.act == PyAct::kDefine) functions_[one.name].push_back(&one);
    for (const auto* statements : {&one.body, &one.other}) {
      for (const PyStatement& inner : *statements) {
        AddFunctions(inner);
        if (one.act == PyAct::kClass && inner.act == PyAct::kDefine) {
          functions_[one.name].push_back(&inner);
        }
      }
    }
  }

  // Returns whether a statement of the module may resolve logical axes while
  // Python loads the file.
  bool Resolves(const PyStatement& one) {
    for (const auto& [name, value] : one.parameters) {
      if (value && Resolves(*value)) return true;
    }
    return Resolves(one.target) || Resolves(one.value) ||
           std::any_of(one.calls.begin(), one.calls.end(),
                       [&](const PyNode& node) { return Resolves(node); }) ||
           (one.act != PyAct::kDefine && RunsResolving(one));
  }

  // Returns whether the statements inside of `one` may resolve logical axes.
  bool RunsResolving(const PyStatement& one) {
    for (const auto* statements : {&one.body, &one.other}) {
      for (const PyStatement& inner : *statements) {
        if (Resolves(inner)) return true;
      }
    }
    return false;
  }

  bool Resolves(const PyNode& node) {
    if (node.kind == PyKind::kAttribute && IsAmong(node.text, kResolving)) {
      return true;
    }
    // Nodes that stand for unknown values have no text and no end.
    if (node.kind == PyKind::kOther && node.end > node.begin &&
        source_->text()
                .substr(node.begin, node.end - node.begin)
                .find(kResolving[0]) != std::string_view::npos) {
      return true;
    }
    if (node.kind == PyKind::kCall && CallResolves(node.items[0].text)) {
      return true;
    }
    return std::any_of(node.items.begin(), node.items.end(),
                       [&](const PyNode& item) { return Resolves(item); });
  }

  // Returns whether a function with this name may resolve logical axes. A
  // function is searched once: if it resolves any, the search ends.
  bool CallResolves(const std::string& name) {
    const auto at = functions_.find(name);
    if (at == functions_.end() || !searched_.insert(name).second) return false;
    return std::any_of(
        at->second.begin(), at->second.end(),
        [&](const PyStatement* one) { return RunsResolving(*one); });
  }

  // Returns whether the node is a call of PartitionAxis.register, which may
  // have another name or be called on an object of the class.
  bool IsRegister(const PyNode& node) {
    if (node.kind != PyKind::kCall ||
        node.items[0].kind != PyKind::kAttribute ||
        node.items[0].text != kMethods[0]) {
      return false;
    }
    const PyNode& object = node.items[0].items[0];
    const PyValue value = value_of_(object);
    return object.text == kClass || value.is == PyIs::kAxes ||
           (value.is == PyIs::kSymbol && value.text == kClass);
  }

  // Adds the registration of a call, whose arguments are (semantic_axis,
  // axis_rule, *, generation_axis_rule, override). Returns false after a
  // finding.
  bool Add(const PyNode& call, Registrations& out) {
    constexpr std::string_view kNames[] = {"semantic_axis", "axis_rule"};
    std::map<std::string, PyValue, std::less<>> given;
    for (size_t i = 1; i < call.items.size(); ++i) {
      std::string name = call.keywords[i - 1];
      if (name.empty() && i <= std::size(kNames) &&
          call.items[i].kind != PyKind::kStar) {
        name = kNames[i - 1];
      }
      given.emplace(name, value_of_(call.items[i]));
    }
    Registration made;
    made.place = {source_, call.begin, call.end};
    for (const auto& [name, value] : given) {
      if (name == kNames[0]) {
        if (!ReadName(value, made)) return false;
      } else if (name == kNames[1]) {
        if (!ReadRule(value, made.rule)) return false;
      } else if (name == "generation_axis_rule") {
        if (value.is == PyIs::kSymbol && value.text == "NOT_GIVEN") continue;
        if (!ReadRule(value, made.generation.emplace())) return false;
      } else if (name == "override" && value.is == PyIs::kBool) {
        made.override_existing = value.truth;
      } else {
        return Refuse(value, "this argument of `register` cannot be read");
      }
    }
    if (!given.contains(kNames[0]) || !given.contains(kNames[1])) {
      return Refuse(call.begin, call.end,
                    "`register` needs a name and an axis rule");
    }
    const bool built_in = FindToken(made.name) != nullptr;
    const Registration* earlier = FindRegistration(out, made.name);
    if ((built_in || earlier != nullptr) && !made.override_existing) {
      return Refuse(call.begin, call.end,
                    "the logical axis " + ShortQuote(made.name) +
                        " exists, and is not overridden",
                    "in a rules file, `X` and `__X__` are the same logical "
                    "axis; rename it or pass `override=True`");
    }
    // An override replaces all of an earlier registration.
    if (earlier != nullptr) out.erase(out.begin() + (earlier - out.data()));
    made.override_existing = built_in;
    out.push_back(std::move(made));
    return true;
  }

  bool ReadName(const PyValue& value, Registration& made) {
    if (value.is == PyIs::kSymbol && ConstantOf(value.text) != nullptr) {
      made.name = ConstantOf(value.text)->long_name;
    } else if (value.is != PyIs::kText) {
      return Refuse(value, "this is not the name of a logical axis");
    } else {
      // As in eformer, blanks around the name are ignored.
      const size_t first = value.text.find_first_not_of(" \t\n\r\f\v");
      const size_t last = value.text.find_last_not_of(" \t\n\r\f\v");
      if (first != std::string::npos) {
        made.name = value.text.substr(first, last - first + 1);
      }
    }
    const Token* token = FindToken(made.name);
    const bool is_word =
        !made.name.empty() &&
        std::all_of(made.name.begin(), made.name.end(), [](char c) {
          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                 (c >= '0' && c <= '9') || c == '_';
        });
    // eformer's name of HEAD is `__HEAD__`. A name `HEAD` is another one there,
    // and the same one in a rules file.
    if (!is_word || made.name == "_" || ParseAxisRule(made.name) ||
        (token != nullptr && token->long_name != made.name)) {
      return Refuse(
          value,
          "a rules file cannot register the name " + ShortQuote(made.name),
          "rename the logical axis");
    }
    return true;
  }

  bool ReadRule(const PyValue& value, RegisteredRule& rule) {
    rule.is_null = value.is == PyIs::kNone;
    rule.is_list = value.is == PyIs::kSequence;
    if (rule.is_null) return true;
    if (!rule.is_list) return ReadRuleName(value, rule);
    for (const PyValue& item : value.items) {
      if (!ReadRuleName(item, rule)) return false;
    }
    if (rule.names.empty()) return Refuse(value, "this rule names no axis");
    return true;
  }

  // Reads one name of a rule: a field of PartitionAxis, such as `head_axis`, a
  // logical axis, or else a mesh axis.
  bool ReadRuleName(const PyValue& value, RegisteredRule& rule) {
    constexpr std::string_view kSuffix = "_axis";
    if (value.is == PyIs::kSymbol && ConstantOf(value.text) != nullptr) {
      rule.names.push_back({std::string(ConstantOf(value.text)->short_name)});
      return true;
    }
    if (value.is != PyIs::kText || value.text.empty()) {
      return Refuse(value, "this is not the name of an axis");
    }
    std::string_view text = value.text;
    const Token* token = FindToken(text);
    const auto field =
        text.ends_with(kSuffix)
            ? ParseAxisRule(text.substr(0, text.size() - kSuffix.size()))
            : std::nullopt;
    if (field) {
      rule.names.push_back({std::string(AxisRuleName(*field))});
    } else if (token != nullptr && token->long_name == text) {
      rule.names.push_back({std::string(token->short_name)});
    } else {
      // A name that is registered before or after this call is a logical axis.
      // Such a name is not forced to be a mesh axis.
      const bool forced = token != nullptr || ParseAxisRule(text);
      rule.names.push_back({value.text, forced});
    }
    return true;
  }

  // Refuses mentions of the methods that Read() has not read.
  bool RefuseOthers() {
    std::set<size_t> read;
    for (const PyStatement& one : module_.body) {
      if (one.act == PyAct::kUnknown && IsRegister(one.target)) {
        read.insert(one.target.items[0].end);
      }
    }
    Findings none;
    const auto tokens = TokenizePython(source_, none);
    if (!tokens) return true;
    const auto& all = tokens->tokens;
    const bool has_class =
        std::any_of(all.begin(), all.end(), [](const PyTokenAt& token) {
          return token.kind == PyToken::kName && token.text == kClass;
        });
    for (size_t i = 2; i < all.size(); ++i) {
      if (all[i].kind != PyToken::kName || all[i - 1].text != "." ||
          !IsAmong(all[i].text, kMethods) || read.contains(all[i].end)) {
        continue;
      }
      if (has_class && MayBeClass(all[i - 2])) {
        return Refuse(all[i].begin, all[i].end,
                      "`" + all[i].text +
                          "` changes the registered logical "
                          "axes here, in a way that cannot be read",
                      "register them in statements of the module, such as "
                      "`PartitionAxis.register(\"X\", \"head_axis\")`");
      }
    }
    return true;
  }

  // Returns whether the expression that ends with this token may be
  // PartitionAxis, a class made from it, or one of their objects.
  bool MayBeClass(const PyTokenAt& token) {
    if (token.kind != PyToken::kName) return true;
    if (token.text == kClass) return true;
    PyNode name;
    name.kind = PyKind::kName;
    name.text = token.text;
    const PyValue value = value_of_(name);
    return value.is != PyIs::kSymbol || value.text == kClass ||
           IsDerived(value.text);
  }

  bool IsDerived(std::string_view name) const {
    return std::any_of(module_.body.begin(), module_.body.end(),
                       [&](const PyStatement& one) {
                         return one.act == PyAct::kClass && one.name == name &&
                                one.value.items.size() > 1;
                       });
  }

  const SourceRef& source_;
  const PyModule& module_;
  const std::function<PyValue(const PyNode&)>& value_of_;
  Findings& findings_;
  // The functions and methods of the file by their names and classes.
  std::map<std::string, std::vector<const PyStatement*>, std::less<>>
      functions_;
  std::set<std::string, std::less<>> searched_;
};

}  // namespace

std::optional<Registrations> RegistrationsOf(
    const SourceRef& source, const PyModule& module,
    const std::function<PyValue(const PyNode&)>& value_of, Findings& findings) {
  return RegistrationReader(source, module, value_of, findings).Read();
}

std::optional<Place> UnreadableAxes(const SourceRef& source) {
  constexpr std::string_view kConversions[] = {"from_dict", "from_json",
                                               "from_state_dict"};
  Findings none;
  const auto tokens = TokenizePython(source, none);
  if (!tokens) return std::nullopt;
  const auto& all = tokens->tokens;
  const auto is_word = [&](size_t i, std::string_view text) {
    return i < all.size() && all[i].kind == PyToken::kName &&
           all[i].text == text;
  };
  const auto is_sign = [&](size_t i, std::string_view text) {
    return i < all.size() && all[i].kind == PyToken::kOperator &&
           all[i].text == text;
  };
  for (size_t i = 0; i < all.size(); ++i) {
    const Place place = {source, all[i].begin, all[i].end};
    if (is_word(i, "class")) {
      for (size_t at = i + 1; at < all.size() && !is_sign(at, ":"); ++at) {
        if (is_word(at, kClass)) return place;
      }
    }
    if (is_word(i, "replace") && is_sign(i + 1, "(")) {
      int depth = 0;
      for (size_t at = i + 1; at < all.size(); ++at) {
        if (is_sign(at, "(")) ++depth;
        if (is_sign(at, ")") && --depth == 0) break;
        if (is_sign(at + 1, "=") && all[at].text.ends_with("_axis") &&
            ParseAxisRule(all[at].text)) {
          return place;
        }
      }
    }
    if ((is_word(i, kClass) || is_word(i, "PartitionManager")) &&
        is_sign(i + 1, ".") && i + 2 < all.size() &&
        IsAmong(all[i + 2].text, kConversions)) {
      return place;
    }
  }
  return std::nullopt;
}

const Token* ConstantOf(const std::string& name) {
  const Token* token = FindToken(name);
  return token != nullptr ? token : FindToken("__" + name + "__");
}

const Registration* FindRegistration(const Registrations& registrations,
                                     std::string_view name) {
  const auto at = std::find_if(registrations.rbegin(), registrations.rend(),
                               [&](const Registration& one) {
                                 return ShortName(one.name) == ShortName(name);
                               });
  return at == registrations.rend() ? nullptr : &*at;
}

namespace {

std::optional<AxisValue> AxesOf(const Registrations& registrations,
                                const AxisRules& axes,
                                const Registration& registration,
                                bool generation, size_t depth) {
  if (depth > registrations.size()) return std::nullopt;
  const RegisteredRule& rule = generation && registration.generation
                                   ? *registration.generation
                                   : registration.rule;
  // Without a rule of its own for generation, a single axis rule implies the
  // one for decode.
  if (generation && !registration.generation && !rule.is_list &&
      rule.names.size() == 1 && !rule.names[0].forced_axis) {
    const auto field = ParseAxisRule(rule.names[0].text);
    const auto twin = field ? DecodeTwin(*field) : std::nullopt;
    if (twin) return axes.Value(*twin);
  }
  AxisValue out;
  out.is_null = rule.is_null;
  for (const auto& name : rule.names) {
    const Registration* other =
        name.forced_axis ? nullptr : FindRegistration(registrations, name.text);
    const Token* token = name.forced_axis ? nullptr : FindToken(name.text);
    auto field = name.forced_axis ? std::nullopt : ParseAxisRule(name.text);
    if (!field && other == nullptr && token != nullptr) field = token->rule;
    if (field) {
      const AxisValue value = axes.Value(*field);
      out.axes.insert(out.axes.end(), value.axes.begin(), value.axes.end());
    } else if (other != nullptr) {
      const auto value = AxesOf(registrations, axes, *other, false, depth + 1);
      if (!value) return std::nullopt;
      out.axes.insert(out.axes.end(), value->axes.begin(), value->axes.end());
    } else if (token == nullptr) {
      out.axes.push_back(name.text);
    }
  }
  return out;
}

}  // namespace

std::optional<AxisValue> RegisteredAxes(const Registrations& registrations,
                                        const AxisRules& axes,
                                        const Registration& registration,
                                        bool generation) {
  return AxesOf(registrations, axes, registration, generation, 0);
}

}  // namespace shardc::imports
