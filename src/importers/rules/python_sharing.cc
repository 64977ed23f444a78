// The evaluator follows changes of a list through its own name. If several
// names may refer to one list, the order of statements, the branches that are
// taken and the functions that are called decide what a change does:
//
//   rules = BASE if flag else []
//   rules.append(x)                ->  may change BASE
//
// This file does not follow the order of statements (a flow-insensitive alias
// analysis by unification, as Steensgaard's). Each name and each attribute has
// a node for the object that it refers to, and a node for all elements of that
// object. Assignments, arguments, results and loops unite nodes. If a change
// goes to an object that has several names or is an element of another object,
// the values of all of them are refused. A change through the only name of an
// object is left to the evaluator.
#include "importers/rules/python_sharing.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "importers/rules/python_literal.h"
#include "importers/rules/python_names.h"
#include "importers/rules/python_tokens.h"
#include "source/wording.h"

namespace shardc::imports {
namespace {

// Functions that return a new object with the elements of their arguments.
constexpr std::string_view kCopies[] = {
    "list", "tuple",    "dict",      "set",  "frozenset",   "sorted",
    "copy", "reversed", "enumerate", "zip",  "OrderedDict", "chain",
    "iter", "items",    "values",    "keys", "filter",      "FrozenDict"};
// Functions that return an element of their arguments, or an argument.
constexpr std::string_view kParts[] = {"next", "min",    "max",       "get",
                                       "pop",  "freeze", "setdefault"};
// Functions that neither keep nor change their arguments.
constexpr std::string_view kHarmless[] = {"len",
                                          "str",
                                          "repr",
                                          "print",
                                          "isinstance",
                                          "int",
                                          "float",
                                          "bool",
                                          "any",
                                          "all",
                                          "hash",
                                          "id",
                                          "type",
                                          "range",
                                          "sum",
                                          "join",
                                          "format",
                                          "replace",
                                          "split",
                                          "strip",
                                          "lower",
                                          "upper",
                                          "startswith",
                                          "endswith",
                                          "info",
                                          "debug",
                                          "warning",
                                          "error",
                                          "warn",
                                          "compile",
                                          "issubclass",
                                          "hasattr",
                                          "callable",
                                          "abs",
                                          "round",
                                          "super",
                                          "resolve",
                                          "resolve_spec",
                                          "register",
                                          "PartitionAxis",
                                          "PartitionManager",
                                          "DynamicShardingAxes",
                                          "NamedSharding"};

// The node of all arguments of calls of values.
constexpr std::string_view kCalled = "called";

// Operators that end in `=` and change nothing.
constexpr std::string_view kCompares[] = {"==", "!=", "<=", ">=", ":="};

struct Scope {
  int parent = -1;
  bool is_class = false;
  std::set<std::string> bound;
  std::vector<std::string> parameters;  // without `self`
  int result = -1;
  // Whether the function only changes its parameters and returns one of them,
  // and how often it is called: in total, and by assignments of the module.
  bool is_plain = false;
  int calls = 0, plain_calls = 0;
};

class Analysis {
 public:
  Analysis(const SourceRef& source, const PyModule& module) : source_(source) {
    Findings none;
    if (auto tokens = TokenizePython(source, none)) {
      tokens_ = std::move(tokens->tokens);
    }
    scopes_.emplace_back();
    Declare(module.body, 0);
    Body(module.body, 0, source->text().size());
  }

  // Returns the place of a change that makes the symbol's value uncertain, with
  // the name that it may change; nullopt if there is none.
  std::optional<std::pair<Place, std::string>> UncertainChange(
      std::string_view symbol) {
    Spread();
    std::set<std::string> seen;
    std::vector<std::string> left = {std::string(symbol)};
    const size_t dot = symbol.rfind('.');
    if (dot != std::string_view::npos) {
      left.emplace_back(symbol.substr(dot));
    }
    while (!left.empty()) {
      const std::string name = left.back();
      left.pop_back();
      if (!seen.insert(name).second) continue;
      if (const auto at = nodes_.find(name); at != nodes_.end()) {
        const auto change = uncertain_.find(Find(at->second));
        if (change != uncertain_.end()) {
          const size_t bar = name.find_first_not_of("0123456789|.");
          return std::pair(change->second,
                           name.substr(std::min(bar, name.size())));
        }
      }
      const auto [begin, end] = reads_.equal_range(name);
      for (auto at = begin; at != end; ++at) left.push_back(at->second);
    }
    return std::nullopt;
  }

 private:
  struct Change {
    int node;
    size_t begin, end;
    bool is_simple;    // through one name
    bool is_straight;  // always runs: in no branch and no loop
  };

  // -- Nodes. The node after an object's is that of its elements, which are
  // their own elements.
  int Fresh() {
    const int node = static_cast<int>(parents_.size());
    parents_.push_back(node);
    parents_.push_back(node + 1);
    elements_[node] = node + 1;
    elements_[node + 1] = node + 1;
    return node;
  }

  int Find(int node) {
    while (parents_[AsSize(node)] != node) {
      node = parents_[AsSize(node)] = parents_[AsSize(parents_[AsSize(node)])];
    }
    return node;
  }

  int Elements(int node) { return Find(elements_[Find(node)]); }

  void Unite(int a, int b) {
    a = Find(a);
    b = Find(b);
    if (a == b) return;
    const int a_elements = elements_[a], b_elements = elements_[b];
    parents_[AsSize(a)] = b;
    Unite(a_elements, b_elements);
    elements_[Find(b)] = Find(b_elements);
  }

  static size_t AsSize(int node) { return static_cast<size_t>(node); }

  // -- Names. A name of the module is `X`, one of a function `3|x`, and an
  // attribute of any object `.x`.
  std::string KeyOf(const std::string& name, int scope) const {
    for (int at = scope; at > 0; at = scopes_[AsSize(at)].parent) {
      const Scope& one = scopes_[AsSize(at)];
      if (one.bound.contains(name) && (at == scope || !one.is_class)) {
        return std::to_string(at) + "|" + name;
      }
    }
    return name;
  }

  int NodeOf(const std::string& key) {
    const auto [at, is_new] = nodes_.try_emplace(key, 0);
    if (is_new) at->second = Fresh();
    return at->second;
  }

  int Variable(const std::string& name, int scope) {
    const size_t dot = name.rfind('.');
    if (dot != std::string::npos) {
      return NodeOf(Read(name.substr(dot)));
    }
    return NodeOf(Read(KeyOf(name, scope)));
  }

  // Notes that the names that are being defined depend on `key`.
  std::string Read(std::string key) {
    for (const std::string& name : defined_) reads_.emplace(name, key);
    return key;
  }

  // Returns whether the file binds a name, other than by an import.
  bool IsBound(const std::string& key, const std::string& name) const {
    return key != name || scopes_[0].bound.contains(name);
  }

  // Returns the function that a name of the module stands for, as after
  // `import PartitionSpec as PS` or `add = grow`.
  std::string Meaning(std::string name, int scope) const {
    for (int i = 0; i < 9 && KeyOf(name, scope) == name; ++i) {
      const auto at = aliases_.find(name);
      if (at == aliases_.end() || at->second.empty()) break;
      name = at->second;
    }
    return name;
  }

  // Notes that the names that are being defined depend on functions.
  void ReadFunctions(const std::string& name) {
    const auto [begin, end] = functions_.equal_range(name);
    for (auto at = begin; at != end; ++at) {
      Read(KeyOf(name, scopes_[AsSize(at->second)].parent));
    }
  }

  // -- Scopes: which names each function binds.
  void Bind(const std::string& name, int scope) {
    if (!name.empty() && name.find('.') == std::string::npos) {
      scopes_[AsSize(scope)].bound.insert(name);
    }
  }

  void Declare(const std::vector<PyStatement>& body, int scope) {
    std::set<std::string> outer;
    DeclareNames(body, scope, outer);
    for (const std::string& name : outer) {
      scopes_[AsSize(scope)].bound.erase(name);
    }
  }

  void DeclareNames(const std::vector<PyStatement>& body, int scope,
                    std::set<std::string>& outer) {
    for (const PyStatement& one : body) {
      if (one.act == PyAct::kGlobal) {
        outer.insert(one.names.begin(), one.names.end());
        continue;
      }
      // Other statements, such as `x.extend(y)`, may name variables of an outer
      // scope.
      if (one.act == PyAct::kAssign || one.act == PyAct::kFor ||
          one.act == PyAct::kDefine || one.act == PyAct::kClass) {
        Bind(one.name, scope);
        for (const std::string& name : one.names) Bind(name, scope);
      }
      if (scope == 0 && one.act == PyAct::kAssign) {
        const bool named = one.value.kind == PyKind::kName ||
                           one.value.kind == PyKind::kAttribute;
        const auto [at, is_new] =
            aliases_.try_emplace(one.name, named ? one.value.text : "");
        if (!is_new && at->second != one.value.text) at->second.clear();
      }
      if (one.act == PyAct::kDefine || one.act == PyAct::kClass) {
        const int inner = static_cast<int>(scopes_.size());
        scopes_.push_back({scope, one.act == PyAct::kClass, {}, {}, -1});
        inner_[&one] = inner;
        if (one.act == PyAct::kDefine) {
          functions_.emplace(one.name, inner);
          scopes_[AsSize(inner)].result = Fresh();
          scopes_[AsSize(inner)].is_plain =
              std::all_of(one.body.begin(), one.body.end(), IsPlain);
          for (const auto& [name, value] : one.parameters) {
            Bind(name, inner);
            if (!IsSelf(name)) {
              scopes_[AsSize(inner)].parameters.push_back(name);
            }
          }
          for (const std::string& name : one.starred) Bind(name, inner);
        } else {
          classes_.insert(one.name);
        }
        Declare(one.body, inner);
        continue;
      }
      DeclareNames(one.body, scope, outer);
      DeclareNames(one.other, scope, outer);
    }
  }

  // Returns whether the evaluator follows a statement of a function exactly,
  // even if its parameters share lists with other names.
  static bool IsPlain(const PyStatement& one) {
    return one.act == PyAct::kAppend || one.act == PyAct::kExtend ||
           one.act == PyAct::kPut ||
           (one.act == PyAct::kReturn && one.value.kind == PyKind::kName);
  }

  // Returns whether a value is a list, a tuple or a dict of texts, numbers,
  // specs and tuples of them.
  bool IsConstant(const PyNode& node, int depth) const {
    const bool is_list = node.kind == PyKind::kDict ||
                         (node.kind == PyKind::kSequence &&
                          source_->text().substr(node.begin, 1) == "[");
    if (is_list && depth > 0) return false;
    if (node.kind == PyKind::kCall && !IsSpecName(node.items[0].text)) {
      return false;
    }
    const size_t from = node.kind == PyKind::kCall ? 1 : 0;
    switch (node.kind) {
      case PyKind::kNone:
      case PyKind::kTrue:
      case PyKind::kFalse:
      case PyKind::kNumber:
      case PyKind::kString:
        return depth > 0;
      case PyKind::kDict:
      case PyKind::kSequence:
      case PyKind::kCall:
        return (depth > 0 || from == 0) &&
               std::all_of(node.items.begin() + static_cast<ptrdiff_t>(from),
                           node.items.end(), [&](const PyNode& item) {
                             return IsConstant(item, depth + 1);
                           });
      default:
        return false;
    }
  }

  // -- Statements.
  void Body(const std::vector<PyStatement>& body, int scope, size_t end) {
    for (size_t i = 0; i < body.size(); ++i) {
      const size_t next = i + 1 < body.size() ? body[i + 1].begin : end;
      const bool is_plain = scope == 0 && depth_ == 0 &&
                            body[i].act == PyAct::kAssign &&
                            (body[i].value.kind == PyKind::kName ||
                             body[i].value.kind == PyKind::kSequence ||
                             body[i].value.kind == PyKind::kDict ||
                             body[i].value.kind == PyKind::kCall);
      assigned_ = is_plain ? &body[i].value : nullptr;
      if (is_plain && IsConstant(body[i].value, 0)) {
        constants_.insert(body[i].name);
      } else if (is_plain) {
        others_.insert(body[i].name);
      }
      const bool binds = body[i].act == PyAct::kAssign ||
                         body[i].act == PyAct::kFor ||
                         body[i].act == PyAct::kUnknown;
      if (binds && !is_plain) {
        for (const std::string& name : body[i].names) {
          rebound_.insert(KeyOf(name, scope));
        }
        rebound_.insert(KeyOf(body[i].name, scope));
      }
      if (is_plain && body[i].value.kind == PyKind::kCall &&
          !IsPlainCall(body[i].value)) {
        rebound_.insert(body[i].name);
      }
      Statement(body[i], scope, std::max(next, body[i].begin));
    }
  }

  void Statement(const PyStatement& one, int scope, size_t end) {
    std::vector<std::string> before = defined_;
    const auto defines = [&](const std::string& name) {
      if (name.empty()) return;
      const size_t dot = name.rfind('.');
      defined_.push_back(dot == std::string::npos ? KeyOf(name, scope)
                                                  : name.substr(dot));
    };
    defines(one.name);
    for (const std::string& name : one.names) defines(name);
    switch (one.act) {
      case PyAct::kAssign: {
        const int value = Object(one.value, scope);
        Assign(one.name, value, scope);
        for (const std::string& name : one.names) Assign(name, value, scope);
        break;
      }
      case PyAct::kExtend:
      case PyAct::kAppend:
      case PyAct::kPut: {
        Object(one.target, scope);
        const int value = Object(one.value, scope);
        const int list = Variable(one.name, scope);
        Unite(Elements(list),
              one.act == PyAct::kExtend ? Elements(value) : value);
        // `+=` makes a new text or number.
        const PyKind by = one.value.kind;
        if (by != PyKind::kString && by != PyKind::kFormat &&
            by != PyKind::kNumber) {
          AddChange(list, one.begin, one.begin,
                    one.name.find('.') == std::string::npos);
        }
        break;
      }
      case PyAct::kFor:
        BindTarget(one.target, one.value, Elements(Object(one.value, scope)),
                   scope);
        ++depth_;
        Body(one.body, scope, end);
        --depth_;
        break;
      case PyAct::kReturn: {
        const int value = Object(one.value, scope);
        const int result = scopes_[AsSize(scope)].result;
        if (result < 0) break;
        Unite(Elements(result), Elements(value));
        returns_.push_back({scope, value});
        break;
      }
      case PyAct::kIf:
        Object(one.value, scope);
        ++depth_;
        Body(one.body, scope, end);
        Body(one.other, scope, end);
        --depth_;
        break;
      case PyAct::kDefine: {
        const int inner = inner_[&one];
        for (const auto& [name, value] : one.parameters) {
          if (!value) continue;
          const int parameter = Variable(name, inner);
          Unite(parameter, Object(*value, scope));
          // All calls share the default, as if it had a name.
          Unite(parameter, NodeOf(std::to_string(inner) + "|default " + name));
        }
        const int depth = std::exchange(depth_, 0);
        Body(one.body, inner, end);
        depth_ = depth;
        break;
      }
      case PyAct::kClass: {
        const int inner = inner_[&one];
        ++depth_;
        Body(one.body, inner, end);
        --depth_;
        for (const std::string& name : scopes_[AsSize(inner)].bound) {
          const std::string key = std::to_string(inner) + "|" + name;
          reads_.emplace("." + name, key);
          if (nodes_.contains(key)) Unite(NodeOf("." + name), NodeOf(key));
        }
        break;
      }
      case PyAct::kBlock:
        if (one.body.empty()) Skipped(one.begin, end, scope);
        ++depth_;
        Body(one.body, scope, end);
        --depth_;
        break;
      case PyAct::kLeave:
        Skipped(one.begin, end, scope);
        break;
      default:
        Object(one.target, scope);
        Object(one.value, scope);
        for (const PyNode& call : one.calls) Object(call, scope);
        // The statements of a loop such as `while` are not in the tree.
        if (!one.names.empty()) {
          const int all = Names(one.begin, end, scope);
          const bool changes = ChangeIn(one.begin, end).has_value();
          for (const std::string& name : one.names) {
            // A statement with this place and no text stands for a call inside
            // the next one.
            if (changes || end == one.begin) {
              AddChange(Variable(name, scope), one.begin, one.begin, true);
            }
            Unite(all, Variable(name, scope));
          }
        }
    }
    defined_ = std::move(before);
  }

  void Assign(const std::string& name, int value, int scope) {
    if (!name.empty()) Unite(Variable(name, scope), value);
  }

  void BindTarget(const PyNode& target, const PyNode& from, int value,
                  int scope) {
    // `a, b = x, y` is the loop `for a, b in [(x, y)]`.
    if (target.kind == PyKind::kSequence && from.kind == PyKind::kSequence &&
        from.items.size() == 1 && from.items[0].kind == PyKind::kSequence &&
        from.items[0].items.size() == target.items.size()) {
      for (size_t i = 0; i < target.items.size(); ++i) {
        BindTarget(target.items[i], {}, Object(from.items[0].items[i], scope),
                   scope);
      }
      return;
    }
    if (target.kind == PyKind::kSequence || target.kind == PyKind::kStar) {
      for (const PyNode& item : target.items) {
        BindTarget(item, {}, Elements(value), scope);
      }
    } else if (target.kind == PyKind::kPart) {
      const int list = Object(target.items[0], scope);
      Unite(Elements(list), value);
      AddChange(list, target.begin, target.end, false);
    } else if (!imports::NameOf(target).empty()) {
      const std::string name = imports::NameOf(target);
      defined_.push_back(KeyOf(name, scope));
      Object(from, scope);
      defined_.pop_back();
      Unite(Variable(name, scope), value);
    }
  }

  void AddChange(int node, size_t begin, size_t end, bool is_simple) {
    changes_.push_back({node, begin, end, is_simple, depth_ == 0});
  }

  // Unites all names in a part of the text that is not in the tree.
  int Names(size_t begin, size_t end, int scope) {
    const int all = Fresh();
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const PyTokenAt& token = tokens_[i];
      if (token.begin < begin || token.kind != PyToken::kName) continue;
      if (token.begin >= end) break;
      const bool attribute = i > 0 && tokens_[i - 1].text == ".";
      const bool called = tokens_[i + 1].text == "(";
      const std::string key =
          attribute ? "." + token.text : KeyOf(token.text, scope);
      if (called || (!attribute && !nodes_.contains(key))) continue;
      Unite(all, NodeOf(Read(key)));
      Unite(all, Elements(all));
    }
    return all;
  }

  // Returns the first token in a part of the text that changes an object, as
  // `append` in `x.append(y)` and `=` in `x[0] = y`.
  std::optional<PyTokenAt> ChangeIn(size_t begin, size_t end) const {
    for (size_t i = 1; i < tokens_.size(); ++i) {
      const PyTokenAt& token = tokens_[i];
      if (token.begin < begin || token.begin >= end) continue;
      const std::string& before = tokens_[i - 1].text;
      const bool method = token.kind == PyToken::kName && before == "." &&
                          ChangesObject(token.text);
      const bool assigns =
          token.kind == PyToken::kOperator && token.text.ends_with('=') &&
          (token.text == "=" ? before == "]" : !IsAmong(token.text, kCompares));
      if (method || assigns || token.text == "del") return token;
    }
    return std::nullopt;
  }

  // Handles statements that the parser skips, which may change values.
  void Skipped(size_t begin, size_t end, int scope) {
    if (const auto change = ChangeIn(begin, end)) {
      AddChange(Names(begin, end, scope), change->begin, change->end, false);
    }
  }

  // -- Expressions. Returns the node of the value.
  int Object(const PyNode& node, int scope) {
    switch (node.kind) {
      case PyKind::kName:
        ReadFunctions(node.text);
        Escapes(node.text);
        return Variable(node.text, scope);
      case PyKind::kAttribute: {
        const int object = Object(node.items[0], scope);
        if (ChangesObject(node.text)) {
          // A method that is not called here may be called later.
          AddChange(object, node.begin, node.end, false);
        }
        Escapes(node.text);
        return NodeOf(Read("." + node.text));
      }
      case PyKind::kSequence:
      case PyKind::kDict: {
        const int made = Fresh();
        for (const PyNode& item : node.items) {
          Unite(Elements(made), item.kind == PyKind::kStar
                                    ? Elements(Object(item.items[0], scope))
                                    : Object(item, scope));
        }
        return made;
      }
      case PyKind::kChoice: {
        Object(node.items[1], scope);
        const int one = Object(node.items[0], scope);
        Unite(one, Object(node.items[2], scope));
        return one;
      }
      case PyKind::kAnd:
      case PyKind::kOr: {
        const int one = Object(node.items[0], scope);
        Unite(one, Object(node.items[1], scope));
        return one;
      }
      case PyKind::kAdd: {
        const int made = Fresh();
        for (const PyNode& item : node.items) {
          Unite(Elements(made), Elements(Object(item, scope)));
        }
        return made;
      }
      case PyKind::kPart: {
        const int object = Object(node.items[0], scope);
        for (size_t i = 1; i < node.items.size(); ++i) {
          Object(node.items[i], scope);
        }
        return Elements(object);
      }
      case PyKind::kEach:
        return Comprehension(node, scope);
      case PyKind::kLambda: {
        const int inner = LambdaScope(node, scope);
        for (const std::string& name : node.keywords) {
          // Who calls it is not known.
          Unite(Variable(name, inner), NodeOf(std::string(kCalled)));
        }
        Object(node.items[0], inner);
        return Fresh();
      }
      case PyKind::kCall:
        return Call(node, scope);
      case PyKind::kOther: {
        for (const PyNode& item : node.items) Object(item, scope);
        Skipped(node.begin, node.end, scope);
        return Names(node.begin, node.end, scope);
      }
      default:
        for (const PyNode& item : node.items) Object(item, scope);
        return node.kind == PyKind::kStar && !node.items.empty()
                   ? Elements(Object(node.items[0], scope))
                   : Fresh();
    }
  }

  // A function that is used as a value may be called with any argument of a
  // call of a value.
  void Escapes(const std::string& name) {
    const auto [begin, end] = functions_.equal_range(name);
    for (auto at = begin; at != end; ++at) {
      ++scopes_[AsSize(at->second)].calls;
      for (const std::string& parameter :
           scopes_[AsSize(at->second)].parameters) {
        Unite(Variable(parameter, at->second), NodeOf(std::string(kCalled)));
      }
    }
  }

  int LambdaScope(const PyNode& node, int scope) {
    const int inner = static_cast<int>(scopes_.size());
    scopes_.push_back({scope, false, {}, node.keywords, Fresh()});
    for (size_t i = 0; i < node.keywords.size(); ++i) {
      scopes_[AsSize(inner)].bound.insert(node.keywords[i]);
      if (node.items[i + 1].kind != PyKind::kNone) {
        Unite(Variable(node.keywords[i], inner),
              Object(node.items[i + 1], scope));
      }
    }
    return inner;
  }

  int Comprehension(const PyNode& node, int scope) {
    const int inner = static_cast<int>(scopes_.size());
    scopes_.push_back({scope, false, {}, {}, -1});
    for (size_t i = 0; i < node.items.size(); ++i) {
      if (node.keywords[i] != "for") continue;
      for (const std::string& name : NamesOf(node.items[i])) Bind(name, inner);
    }
    int over = Fresh();
    for (size_t i = 0; i < node.items.size(); ++i) {
      if (node.keywords[i] == "for") {
        over = Object(node.items[i + 1], inner);
        BindTarget(node.items[i], {}, Elements(over), inner);
      } else if (node.keywords[i] == "if") {
        Object(node.items[i], inner);
      }
    }
    const int made = Fresh();
    for (size_t i = 0; i < node.items.size(); ++i) {
      if (node.keywords[i] == "for" || node.keywords[i] == "in" ||
          node.keywords[i] == "if") {
        continue;
      }
      Unite(Elements(made), Object(node.items[i], inner));
    }
    return made;
  }

  int Call(const PyNode& node, int scope) {
    const PyNode& function = node.items[0];
    const std::string name = Meaning(function.text, scope);
    const bool method = function.kind == PyKind::kAttribute;
    std::vector<int> given;
    for (size_t i = 1; i < node.items.size(); ++i) {
      given.push_back(Object(node.items[i], scope));
    }
    const int made = Fresh();
    if (function.kind == PyKind::kLambda) {
      const int inner = LambdaScope(function, scope);
      Pass(inner, node, given);
      Unite(made, Object(function.items[0], inner));
      return made;
    }
    if (method && ChangesObject(name)) {
      return ChangingCall(node, given, scope);
    }
    const int object = method ? Object(function.items[0], scope) : Fresh();
    if (!method && function.kind != PyKind::kName) {
      // The result of `getattr(x, "append")` changes x when it is called.
      AddChange(Object(function, scope), node.begin, node.end, false);
    }
    PassFunctions(node, given);
    const auto [begin, end] = functions_.equal_range(name);
    if (begin != end) {
      ReadFunctions(name);
      for (auto at = begin; at != end; ++at) {
        ++scopes_[AsSize(at->second)].calls;
        if (&node == assigned_) ++scopes_[AsSize(at->second)].plain_calls;
        Pass(at->second, node, given);
        Unite(made, scopes_[AsSize(at->second)].result);
      }
      return made;
    }
    if (classes_.contains(name)) {
      const auto [from, to] = functions_.equal_range("__init__");
      for (auto at = from; at != to; ++at) Pass(at->second, node, given);
      return made;
    }
    if (IsSpecName(name) || IsAmong(name, kHarmless)) return made;
    if (method) given.push_back(object);
    const bool copies = IsAmong(name, kCopies), parts = IsAmong(name, kParts);
    const bool is_value = !method && (function.kind != PyKind::kName ||
                                      IsBound(KeyOf(name, scope), name));
    for (const int one : given) {
      Unite(Elements(made), Elements(one));
      if (copies) continue;
      Unite(made, Elements(one));
      if (!parts || one != object) Unite(made, one);
      // A value of the file that is called may be any of its functions that is
      // used as a value.
      if (is_value) {
        Unite(NodeOf(std::string(kCalled)), one);
        Unite(NodeOf(std::string(kCalled)), Elements(one));
      }
    }
    for (const std::string& changed : ChangedNames(node)) {
      AddChange(Variable(changed, scope), node.begin, node.end, false);
    }
    return made;
  }

  // A call of a method that changes its object, such as `x.append(y)`.
  int ChangingCall(const PyNode& node, const std::vector<int>& given,
                   int scope) {
    const PyNode* target = &node.items[0].items[0];
    const bool of_class = target->kind == PyKind::kName &&
                          (target->text == "list" || target->text == "dict") &&
                          node.items.size() > 1;
    if (of_class) target = &node.items[1];
    const int object = Object(*target, scope);
    for (const int one : given) {
      Unite(Elements(object), one);
      Unite(Elements(object), Elements(one));
    }
    AddChange(object, node.begin, node.end,
              target->kind == PyKind::kName && !of_class);
    return Elements(object);
  }

  // Unites the arguments of a call with the parameters of a function.
  void Pass(int inner, const PyNode& node, const std::vector<int>& given) {
    const std::vector<std::string> parameters =
        scopes_[AsSize(inner)].parameters;
    size_t next = 0;
    for (size_t i = 1; i < node.items.size(); ++i) {
      const PyNode& item = node.items[i];
      const std::string& keyword = node.keywords[i - 1];
      if (item.kind == PyKind::kName && IsSelf(item.text)) continue;
      if (item.kind == PyKind::kStar || keyword == "**") {
        for (const std::string& name : parameters) {
          Unite(Variable(name, inner), Elements(given[i - 1]));
        }
      } else if (!keyword.empty()) {
        Unite(NodeOf(std::to_string(inner) + "|" + keyword), given[i - 1]);
      } else if (next < parameters.size()) {
        Unite(Variable(parameters[next++], inner), given[i - 1]);
      }
    }
  }

  // A function of the file that is an argument may be called with the other
  // arguments.
  void PassFunctions(const PyNode& node, const std::vector<int>& given) {
    for (size_t i = 1; i < node.items.size(); ++i) {
      const PyNode& item = node.items[i];
      const bool named =
          item.kind == PyKind::kName || item.kind == PyKind::kAttribute;
      std::vector<int> passed;
      if (named) {
        const auto [begin, end] = functions_.equal_range(item.text);
        for (auto at = begin; at != end; ++at) passed.push_back(at->second);
      }
      for (const int inner : passed) {
        ++scopes_[AsSize(inner)].calls;
        for (const std::string& name : scopes_[AsSize(inner)].parameters) {
          for (const int one : given) {
            Unite(Variable(name, inner), Elements(one));
            Unite(Variable(name, inner), one);
          }
        }
      }
      if (item.kind != PyKind::kLambda) continue;
      for (const int one : given) {
        Unite(NodeOf(std::string(kCalled)), one);
        Unite(NodeOf(std::string(kCalled)), Elements(one));
      }
    }
  }

  // Unites the results of functions with what they return. An object that has
  // no other names than those of the function's own variables is a new one in
  // each call, so that changes in the function do not concern earlier results.
  void Return() {
    for (bool again = true; again;) {
      again = false;
      std::map<int, std::set<std::string>> keys;
      for (const auto& [key, node] : nodes_) keys[Find(node)].insert(key);
      for (auto& [scope, value] : returns_) {
        if (scope < 0) continue;
        const std::string own = std::to_string(scope) + "|";
        const auto& all = keys[Find(value)];
        if (std::all_of(all.begin(), all.end(), [&](const std::string& key) {
              return key.starts_with(own) &&
                     key.find("|default ") == std::string::npos;
            })) {
          continue;
        }
        Unite(scopes_[AsSize(scope)].result, value);
        scope = -1;
        again = true;
      }
    }
  }

  // Returns whether the call is of one function that IsPlain describes.
  bool IsPlainCall(const PyNode& call) const {
    const auto [begin, end] = functions_.equal_range(call.items[0].text);
    return call.items[0].kind == PyKind::kName &&
           std::distance(begin, end) == 1 &&
           scopes_[AsSize(begin->second)].is_plain;
  }

  // Returns whether the evaluator knows at each statement to which object a
  // name refers: a name of the module that only such assignments bind, or a
  // parameter of a function that one of them calls.
  bool IsPlainName(const std::string& key) const {
    if (key.starts_with(".") || rebound_.contains(key)) return false;
    const size_t bar = key.find('|');
    if (bar == std::string::npos) return true;
    const Scope& of = scopes_[AsSize(std::stoi(key.substr(0, bar)))];
    return of.is_plain && of.calls == 1 && of.plain_calls == 1 &&
           std::find(of.parameters.begin(), of.parameters.end(),
                     key.substr(bar + 1)) != of.parameters.end();
  }

  // Finds the objects whose changes are uncertain, and those that contain them.
  void Spread() {
    if (spread_) return;
    spread_ = true;
    Return();
    std::map<int, int> names, others;
    for (const auto& [key, node] : nodes_) {
      if (!IsPlainName(key)) ++others[Find(node)];
      if (Elements(node) != Find(node)) ++others[Elements(node)];
      // A name of a class is an attribute, which has a node.
      const size_t bar = key.find('|');
      if (bar != std::string::npos &&
          scopes_[AsSize(std::stoi(key.substr(0, bar)))].is_class) {
        continue;
      }
      ++names[Find(node)];
      const int elements = Elements(node);
      if (elements != Find(node)) ++names[elements];
    }
    for (const Change& change : changes_) {
      const int node = Find(change.node);
      const bool is_plain = change.is_straight && others[node] == 0;
      if (change.is_simple && (names[node] < 2 || is_plain)) continue;
      uncertain_.try_emplace(node, Place{source_, change.begin, change.end});
    }
    std::set<int> changed;
    for (const Change& change : changes_) changed.insert(Find(change.node));
    for (bool again = true; again;) {
      again = false;
      for (const auto& [key, node] : nodes_) {
        // Nothing can change an element of such a list.
        if (constants_.contains(key) && !others_.contains(key) &&
            !rebound_.contains(key) && !changed.contains(Find(node))) {
          continue;
        }
        const auto at = uncertain_.find(Elements(node));
        if (at == uncertain_.end()) continue;
        again |= uncertain_.try_emplace(Find(node), at->second).second;
      }
    }
  }

  SourceRef source_;
  std::vector<PyTokenAt> tokens_;
  std::vector<Scope> scopes_;
  std::map<const PyStatement*, int> inner_;
  std::multimap<std::string, int> functions_;  // scopes, by the name
  std::set<std::string> classes_;
  // The name of which each name of the module is another one; empty if it has
  // other values.
  std::map<std::string, std::string> aliases_;
  std::vector<int> parents_;
  std::map<int, int> elements_;
  std::map<std::string, int> nodes_;
  std::vector<Change> changes_;
  std::vector<std::pair<int, int>> returns_;  // functions and returned values
  // The names that the current statement defines, and for each name those that
  // its value depends on.
  std::vector<std::string> defined_;
  std::multimap<std::string, std::string> reads_;
  int depth_ = 0;  // of branches, loops and blocks around a statement
  const PyNode* assigned_ = nullptr;  // the value of a plain assignment
  std::set<std::string> rebound_;     // names that other statements bind
  // Names of the module that are assigned values that IsConstant describes.
  // Others are also assigned other values.
  std::set<std::string> constants_, others_;
  bool spread_ = false;
  std::map<int, Place> uncertain_;
};

}  // namespace

bool KnowsChanges(const SourceRef& source, const PyModule& module,
                  std::string_view symbol, Findings& findings) {
  const auto change = Analysis(source, module).UncertainChange(symbol);
  if (!change) return true;
  findings.Add(code::kInexpressible, change->first,
               ShortQuote(change->second) +
                   " may be changed here through another name, so its value "
                   "cannot be determined from this file",
               "change a list through one name only, or write its value in its "
               "place; nothing is run");
  return false;
}

}  // namespace shardc::imports
