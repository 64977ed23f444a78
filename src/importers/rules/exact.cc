// Makes rules from a list of parameter names and specs. The pattern of a rule
// matches the names from which the rule was made, and no other name of the
// list. Names that differ only in numbers share a rule if their specs are
// equal:
//
//   h.0.up [tp], h.1.up [tp], h.0.down [tp], h.1.down []
//     ->  ^h\.[0-9]+\.up$ [tp], ^h\.0\.down$ [tp], ^h\.1\.down$ []
//   layers_0/w [tp], layers_1/w [tp]  ->  ^layers_[0-9]+/w$ [tp]
#include "importers/rules/exact.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "importers/rules/importer.h"
#include "model/mesh_layout.h"
#include "model/name.h"
#include "source/json.h"
#include "source/list.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "yaml/read.h"

namespace shardc::imports {
namespace {

char SeparatorOf(const std::vector<NamedSpec>& params) {
  int64_t dots = 0;
  for (const NamedSpec& param : params) {
    dots += param.name.find('.') != std::string::npos ? 1 : 0;
    dots -= param.name.find('/') != std::string::npos ? 1 : 0;
  }
  return dots > 0 ? '.' : '/';
}

// Returns a part of a name without the number at its end. For `12` it is an
// empty text. For `layers_12` it is `layers_` if `suffixes` is true. Other
// parts are returned unchanged.
std::string_view BeforeNumber(std::string_view part, bool suffixes) {
  size_t end = part.size();
  while (end > 0 && IsDigit(part[end - 1])) --end;
  const bool number =
      end < part.size() && (end == 0 || (suffixes && part[end - 1] == '_'));
  return number ? part.substr(0, end) : part;
}

// Converts a name such as `h.1.up` to a pattern that matches the name with any
// numbers in place of its numbers.
std::string TemplatePattern(std::string_view name, char separator,
                            bool suffixes) {
  std::string out = "^";
  bool first = true;
  for (const std::string_view part : SplitName(name, separator)) {
    if (!first) out += Literal(std::string(1, separator));
    first = false;
    const std::string_view before = BeforeNumber(part, suffixes);
    out += Literal(before);
    if (before.size() < part.size()) out += "[0-9]+";
  }
  return out + "$";
}

ImportedRule RuleOf(std::string pattern, const NamedSpec& param) {
  ImportedRule made;
  made.rule.match = std::move(pattern);
  SpecList list;
  list.place = param.place;
  for (const AxisGroup& group : param.spec) {
    SpecEntry entry;
    for (const std::string& axis : group) {
      entry.names.push_back({axis, param.place, true});
    }
    entry.is_group = group.size() > 1;
    list.entries.push_back(std::move(entry));
  }
  made.rule.spec = std::move(list);
  made.rule.parts = DimPartsOf(param.parts);
  made.rule.place = made.rule.match_place = param.place;
  return made;
}

void NamePaths(std::vector<NamedSpec>& params) {
  std::map<std::string, int> owners;
  for (const NamedSpec& param : params) {
    ++owners[param.is_path ? NameOfPath(param.name) : param.name];
  }
  for (NamedSpec& param : params) {
    if (!param.is_path) continue;
    std::string name = NameOfPath(param.name);
    const size_t root =
        std::min(param.name.find_first_of("[."), param.name.size());
    if (owners[name] > 1 && root > 0 && root < param.name.size()) {
      name.insert(0, param.name.substr(0, root) + "/");
    }
    param.name = std::move(name);
  }
}

// Reads a quoted key of a key path. The key is quoted as Python's repr quotes
// it: a backslash precedes each backslash, and also each `'` if the key
// contains both kinds of quotes. `at` is the offset after the opening quote. It
// is set to the offset after the bracket that follows the closing quote.
// Returns nullopt if the closing quote is missing.
std::optional<std::string> QuotedKey(std::string_view path, size_t& at) {
  const char quote = path[at - 1];
  std::string key;
  for (size_t i = at; i + 1 < path.size(); ++i) {
    if (path[i] == quote && path[i + 1] == ']') {
      at = i + 2;
      return key;
    }
    if (path[i] == '\\' && (path[i + 1] == '\\' || path[i + 1] == '\'')) ++i;
    key += path[i];
  }
  return std::nullopt;
}

// Adds the rules of all parameters. Names that differ only in numbers share one
// rule if their specs are equal; otherwise each name gets its own rule. Returns
// false after a finding if a name occurs twice.
bool Fold(const std::vector<NamedSpec>& params, Imported& imported,
          Findings& findings) {
  imported.separator = SeparatorOf(params);
  struct Group {
    int64_t names = 0;
    bool one_spec = true;
    const NamedSpec* first = nullptr;
    bool reported = false;
  };
  std::map<std::string, Group> groups;
  std::set<std::string_view> seen;
  for (const NamedSpec& param : params) {
    if (!seen.insert(param.name).second) {
      findings.Add(code::kDuplicateKey, param.place,
                   ShortQuote(param.name) + " is given twice");
      return false;
    }
    Group& group =
        groups[TemplatePattern(param.name, imported.separator, true)];
    if (group.first == nullptr) group.first = &param;
    ++group.names;
    group.one_spec = group.one_spec && group.first->spec == param.spec &&
                     group.first->parts == param.parts;
  }
  for (const NamedSpec& param : params) {
    std::string pattern = TemplatePattern(param.name, imported.separator, true);
    Group& group = groups[pattern];
    // A number at the end of a word, as in `Dense_0`, may be a part of the name
    // and not the number of a layer. If no other name differs only in numbers,
    // the pattern has this number itself, and not `[0-9]+`.
    if (group.names == 1) {
      pattern = TemplatePattern(param.name, imported.separator, false);
    }
    if (!group.one_spec) {
      imported.rules.push_back(RuleOf(EntireName(param.name), param));
    } else if (!group.reported) {
      group.reported = true;
      imported.rules.push_back(RuleOf(std::move(pattern), param));
    }
  }
  return true;
}

}  // namespace

bool AddExact(std::vector<NamedSpec> params, Imported& imported,
              Findings& findings) {
  NamePaths(params);
  return Fold(params, imported, findings);
}

std::string NameOfPath(std::string_view path) {
  if (path.find('[') == std::string_view::npos && !path.starts_with('.')) {
    return std::string(path);
  }
  std::vector<std::string> parts;
  // Whether the last element of `parts` was an attribute, such as `.kernel`.
  bool is_attribute = false;
  size_t i = path.find_first_of("[.");  // after the argument's name
  while (i < path.size()) {
    const char c = path[i];
    if (c == '[') {
      const bool quoted =
          i + 1 < path.size() && (path[i + 1] == '\'' || path[i + 1] == '"');
      is_attribute = false;
      if (quoted) {
        i += 2;
        auto key = QuotedKey(path, i);
        if (!key) return std::string(path);
        parts.push_back(std::move(*key));
        continue;
      }
      const size_t end = path.find(']', i);
      if (end == std::string_view::npos) return std::string(path);
      parts.emplace_back(path.substr(i + 1, end - i - 1));
      i = end + 1;
    } else if (c == '.') {
      const size_t end =
          std::min(path.find_first_of(".[/", i + 1), path.size());
      parts.emplace_back(path.substr(i + 1, end - i - 1));
      is_attribute = true;
      i = end;
    } else if (path[i] == '/') {
      ++i;  // MaxText writes a slash between keys: `.params/['up']`
    } else {
      return std::string(path);  // a name, not a key path
    }
  }
  // Variables of flax.nnx store their array in the attribute `value`, which is
  // not part of the name. A key `value` is part of the name, as in the
  // projection `attn/value`.
  if (parts.size() > 1 && is_attribute && parts.back() == "value") {
    parts.pop_back();
  }
  return Join(parts, "/");
}

std::optional<Spec> JsonSpec(JsonValue value, Findings& findings) {
  const auto refuse = [&](JsonValue at) {
    findings.Add(code::kSchema, at.place(),
                 "a spec is a list of axes, lists of axes and nulls");
    return std::nullopt;
  };
  if (!value.IsArray()) return refuse(value);
  Spec spec;
  for (const JsonValue entry : value.items()) {
    AxisGroup& group = spec.emplace_back();
    if (entry.IsString()) {
      group.emplace_back(entry.string());
    } else if (entry.IsArray()) {
      for (const JsonValue axis : entry.items()) {
        if (!axis.IsString()) return refuse(axis);
        group.emplace_back(axis.string());
      }
    } else if (!entry.IsNull()) {
      return refuse(entry);
    }
  }
  return spec;
}

bool AddAxis(std::string_view name, int64_t size, const Place& place,
             Mesh& mesh, Findings& findings) {
  const auto devices = CheckedMul(mesh.devices, size);
  if (name.empty() || size < 1 || mesh.Find(name)) {
    findings.Add(code::kSchema, place,
                 "a mesh axis has a name of its own and a size of 1 or more");
    return false;
  }
  if (const std::string fault = AxisNameFault(name); !fault.empty()) {
    findings.Add(code::kAxisName, place,
                 "axis name " + ShortQuote(name) + " " + fault,
                 "rename the mesh axis");
    return false;
  }
  if (!devices) {
    findings.Add(code::kOverflow, place,
                 "the number of devices does not fit in 64 bits");
    return false;
  }
  mesh.axes.push_back({std::string(name), size});
  mesh.devices = *devices;
  return true;
}

bool AddDeviceOrder(std::span<const int64_t> devices, std::string_view member,
                    const Place& place, Mesh& mesh, Findings& findings) {
  if (SetDeviceOrder(devices, mesh)) return true;
  findings.Add(code::kInexpressible, place,
               "no mesh of slices has its devices in this order",
               "remove `" + std::string(member) +
                   "` to import the shardings without the order of devices");
  return false;
}

// Applies logical axis rules to the logical names of the parameters' dimensions
// (`--names`). The result is a rule set whose patterns match only the names of
// these parameters (exact.h):
//
//   mlp: tp, applied to {"up": ["embed", "mlp"]}  ->  ^up$: [null, tp]

namespace {

// Reads the logical names of a parameter's dimensions. They are a list such as
// ["embed", "mlp"], or an object in MaxText's `logical_shardings.json`.
std::optional<Spec> NamesOf(JsonValue value, Findings& findings) {
  if (value.IsObject()) {
    const auto spec = value.Find("partition_spec");
    if (spec) return JsonSpec(*spec, findings);
  }
  return JsonSpec(value, findings);
}

bool IsOneNameEach(const Spec& names) {
  return std::all_of(names.begin(), names.end(), [&](const AxisGroup& group) {
    return group.size() < 2 &&
           (group.empty() || std::count(names.begin(), names.end(), group) < 2);
  });
}

}  // namespace

std::optional<std::vector<LogicalNames>> ReadLogicalNames(
    const SourceRef& source, Findings& findings) {
  const auto document = JsonDocument::Parse(source, findings);
  if (!document) return std::nullopt;
  if (!document->root().IsObject()) {
    findings.Add(code::kSchema, document->root().place(),
                 "this holds no parameters by name");
    return std::nullopt;
  }
  std::vector<LogicalNames> out;
  for (const JsonMember member : document->root().members()) {
    auto names = NamesOf(member.value, findings);
    if (!names) return std::nullopt;
    if (!IsOneNameEach(*names)) {
      findings.Add(code::kInexpressible, member.value.place(),
                   "a dimension has one logical name, and each name one "
                   "dimension");
      return std::nullopt;
    }
    out.push_back(
        {NameOfPath(member.name()), std::move(*names), member.key.place()});
  }
  return out;
}

std::optional<Imported> ImportNamed(
    const Request& request, Findings& findings,
    const std::function<std::optional<Spec>(const LogicalNames&)>& resolve) {
  if (request.names == nullptr || !request.mesh) {
    findings.Add(
        code::kUsage, {request.source},
        "logical axis rules say nothing of a parameter without the logical "
        "names of its dimensions and a mesh",
        "give `--names logical_shardings.json` and `--mesh`");
    return std::nullopt;
  }
  const auto named = ReadLogicalNames(request.names, findings);
  if (!named) return std::nullopt;
  std::vector<NamedSpec> params;
  for (const LogicalNames& one : *named) {
    auto spec = resolve(one);
    if (!spec) return std::nullopt;
    params.push_back({one.param, std::move(*spec), one.place});
  }
  Imported imported;
  imported.mesh = request.mesh;
  if (!AddExact(params, imported, findings)) return std::nullopt;
  return imported;
}

namespace {

// What logical axis rules do not map on this mesh.
class Unmapped {
 public:
  // `declared` are the axes that the source declares: an axis that the mesh of
  // `--mesh` lacks has size 1.
  Unmapped(std::span<const LogicalRule> rules, const AxisGroup& declared,
           const Mesh& mesh)
      : declared_(declared), mesh_(mesh) {
    for (const LogicalRule& rule : rules) by_name_[rule.name].push_back(&rule);
  }

  // Takes the logical names of a parameter.
  void Take(const LogicalNames& one) {
    for (const AxisGroup& name : one.dims) {
      if (name.empty()) continue;
      const auto at = by_name_.find(name[0]);
      if (at == by_name_.end()) {
        Count(nameless_, name[0], one);
        continue;
      }
      for (const LogicalRule* rule : at->second) {
        for (const std::string& axis : rule->axes) {
          if (mesh_.Find(axis) || IsAmong(axis, declared_)) continue;
          Count(absent_, axis, one);
        }
      }
    }
  }

  // Adds a warning for each name without a rule and for each axis that the mesh
  // lacks.
  void Report(Findings& findings) const {
    for (const auto& [name, seen] : nameless_) {
      Add("no logical axis rule has the name " + ShortQuote(name), seen,
          "add a rule for it, with null if the dimension is unsharded",
          findings);
    }
    for (const auto& [axis, seen] : absent_) {
      Add("the mesh (" + MeshText(mesh_) + ") lacks the axis " +
              ShortQuote(axis) + " of the logical axis rules",
          seen, "add the axis to the mesh, with size 1 if it shards nothing",
          findings);
    }
  }

 private:
  struct Seen {
    int64_t params = 0;
    const LogicalNames* first = nullptr;
  };
  using ByName = std::map<std::string, Seen, std::less<>>;

  static void Count(ByName& to, const std::string& key,
                    const LogicalNames& one) {
    Seen& seen = to[key];
    if (seen.first == nullptr) seen.first = &one;
    ++seen.params;
  }

  static void Add(const std::string& what, const Seen& seen, std::string help,
                  Findings& findings) {
    Finding finding;
    finding.code = &code::kUnknownName;
    finding.level = Level::kWarning;
    finding.place = seen.first->place;
    finding.message =
        what + ": a dimension of " + ShortQuote(seen.first->param) +
        (seen.params > 1
             ? " and of " + Counted(seen.params - 1, "more parameter")
             : "") +
        " is not sharded by it";
    finding.help = std::move(help);
    findings.Add(std::move(finding));
  }

  const AxisGroup& declared_;
  const Mesh& mesh_;
  std::map<std::string, std::vector<const LogicalRule*>, std::less<>> by_name_;
  ByName nameless_, absent_;
};

}  // namespace

std::optional<Imported> ImportLogical(const std::vector<LogicalRule>& rules,
                                      const AxisGroup& declared,
                                      const Request& request,
                                      Findings& findings) {
  const LogicalRules indexed(rules);
  std::vector<LogicalNames> named;
  auto imported = ImportNamed(request, findings, [&](const LogicalNames& one) {
    named.push_back(one);
    return std::optional(indexed.Resolve(one.dims, *request.mesh));
  });
  if (!imported) return std::nullopt;
  Unmapped unmapped(rules, declared, *request.mesh);
  for (const LogicalNames& one : named) unmapped.Take(one);
  unmapped.Report(findings);
  return imported;
}

}  // namespace shardc::imports
