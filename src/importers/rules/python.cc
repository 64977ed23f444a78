// Imports rule sets from Python source. A rule set is a list of pairs (pattern,
// PartitionSpec), a dict whose keys are complete names, or a tree of specs,
// whose paths are the names. It may be a constant, a class attribute or the
// result of a function. A PartitionAxis is imported as axis rules. The source
// is parsed but never run. Comments above a rule and at the end of its line are
// imported with the rule:
//
//   ("wte/embedding", PS("tp")),  # large
//     ->  # large
//         - match: wte/embedding
//           spec: [tp]
#include <algorithm>

#include "importers/rules/exact.h"
#include "importers/rules/importer.h"
#include "importers/rules/pattern.h"
#include "importers/rules/python_register.h"
#include "importers/rules/python_sets.h"
#include "importers/rules/python_sharing.h"
#include "importers/rules/python_trees.h"
#include "importers/rules/python_value.h"
#include "importers/rules/spec_value.h"
#include "source/wording.h"

namespace shardc::imports {
namespace {

constexpr std::ptrdiff_t kMostComments = 40;

// Returns the axis rule of a logical axis, or the axis rule with this name.
std::optional<AxisRule> RuleOf(const std::string& name) {
  const Token* token = FindToken(name);
  return token == nullptr ? ParseAxisRule(name) : token->rule;
}

// Returns the axis rule from which a logical axis takes its mesh axes while
// tokens are generated (in the modes decode and insert), such as `decode_head`
// for HEAD. Returns nullopt if the logical axis has the same axis rule in all
// modes, and for a mesh axis.
std::optional<AxisRule> TwinOf(const SpecName& name, const AxisRules& axes) {
  const auto rule = name.is_mesh_axis ? std::nullopt : RuleOf(name.text);
  const auto twin = rule ? DecodeTwin(*rule) : std::nullopt;
  return twin && !axes.Value(*twin).is_null ? twin : std::nullopt;
}

// Python code may resolve a spec in one fixed `mode`, so that its mesh axes do
// not depend on the mode in which the program runs. In a rule, a logical axis
// such as HEAD may have other mesh axes in decode than in train. This function
// gives the rule the axes of `mode` in every mode. If `mode` is decode or
// insert, logical axes are replaced by decode axis rules such as `decode_head`,
// whose axes never depend on the mode. For any other `mode`, the rule gets
// explicit specs for decode and insert if their axes would differ from those of
// `mode`. A registered logical axis is replaced by its mesh axes. Returns the
// name of a logical axis whose registration refers to itself; an empty name if
// there is none.
std::string KeepMode(Mode mode, const AxisRules& axes,
                     const Registrations& registrations, ImportedRule& made) {
  Rule& rule = made.rule;
  auto* list = std::get_if<SpecList>(&rule.spec);
  if (list == nullptr) return {};  // only a list can contain logical axes
  const bool generation = IsGeneration(mode);
  SpecList fixed = *list;
  bool differs = false;
  for (SpecEntry& entry : fixed.entries) {
    std::vector<SpecName> names;
    for (const SpecName& name : entry.names) {
      const Registration* registered =
          name.is_mesh_axis ? nullptr
                            : FindRegistration(registrations, name.text);
      const auto twin =
          registered == nullptr ? TwinOf(name, axes) : std::nullopt;
      std::optional<AxisValue> value, other;
      if (registered != nullptr) {
        value = RegisteredAxes(registrations, axes, *registered, generation);
        other = RegisteredAxes(registrations, axes, *registered, !generation);
        if (!value || !other) return name.text;
      } else if (twin && generation) {
        names.push_back({std::string(AxisRuleName(*twin)), name.place});
        differs = true;
        continue;
      } else if (twin) {
        value = axes.Value(*RuleOf(name.text));
        other = axes.Value(*twin);
      }
      if (!value || value->axes == other->axes) {
        names.push_back(name);
        continue;
      }
      differs = true;
      for (const std::string& axis : value->axes) {
        names.push_back({axis, name.place, true});
      }
    }
    entry.is_group = entry.is_group || names.size() > 1;
    entry.names = std::move(names);
  }
  if (!differs) return {};
  if (generation) {
    *list = std::move(fixed);
    return {};
  }
  rule.modes.emplace(Mode::kDecode, fixed);
  rule.modes.emplace(Mode::kInsert, std::move(fixed));
  return {};
}

bool IsNamed(const PySymbol& symbol, const std::string& wanted) {
  return symbol.name == wanted || symbol.name.ends_with("." + wanted);
}

class RulesModuleReader {
 public:
  RulesModuleReader(const Request& request, Findings& findings)
      : request_(request), source_(request.source), findings_(findings) {}

  std::optional<Imported> Read() {
    auto module = ParsePython(source_, findings_);
    if (!module) return std::nullopt;
    if (!HasNames(source_, request_.values, findings_)) return std::nullopt;
    module_ = std::move(*module);
    const auto symbols = SymbolsOf(module_, source_->text(), request_.values);
    Imported imported;
    auto registrations = RegistrationsOf(
        source_, module_, ValuesIn(module_, source_->text()), findings_);
    if (!registrations) return std::nullopt;
    imported.registrations = std::move(*registrations);
    Findings axes;
    const bool fine = ReadAxes(imported, axes);
    if (!fine) imported.axes = {};
    const bool any = AnyAxes(imported) || !imported.registrations.empty();
    const PySymbol* chosen = Choose(symbols, any || !fine);
    if (findings_.HasErrors()) return std::nullopt;
    if (chosen != nullptr &&
        (!ReadSymbol(*chosen, imported) ||
         !KnowsChanges(source_, module_, chosen->name, findings_))) {
      return std::nullopt;
    }
    // A PartitionAxis that cannot be read is reported only if its axis rules
    // are needed.
    if (chosen == nullptr || NamesAxisRules(imported)) {
      findings_.Append(std::move(axes));
    }
    if (findings_.HasErrors()) return std::nullopt;
    return imported;
  }

 private:
  static bool AnyAxes(const Imported& imported) {
    return !(imported.axes == AxisRules());
  }

  // Returns whether a spec depends on axis rules: it is a bundle, or names
  // something other than mesh axes.
  static bool NamesAxisRules(const Imported& imported) {
    return std::any_of(
        imported.rules.begin(), imported.rules.end(),
        [](const ImportedRule& one) {
          const auto* list = std::get_if<SpecList>(&one.rule.spec);
          if (list == nullptr) return true;
          return std::any_of(
              list->entries.begin(), list->entries.end(),
              [](const SpecEntry& entry) {
                return std::any_of(
                    entry.names.begin(), entry.names.end(),
                    [](const SpecName& name) { return !name.is_mesh_axis; });
              });
        });
  }

  bool ReadAxes(Imported& imported, Findings& findings) {
    bool any = false;
    if (const auto place = UnreadableAxes(source_)) {
      findings.Add(code::kInexpressible, *place,
                   "the axis rules of this PartitionAxis cannot be read",
                   "write one call of `PartitionAxis` with all its fields");
      return false;
    }
    for (const PyValue& value : AxesIn(module_, source_->text())) {
      if (value.is == PyIs::kUnknown) {
        RefuseUnknown(source_, value, findings);
        return false;
      }
      const auto axes = AxesOf(source_, value, findings);
      if (!axes) return false;
      if (any && !(*axes == imported.axes)) {
        findings.Add(code::kInexpressible, {source_, value.begin, value.end},
                     "this PartitionAxis differs from one above it",
                     "leave the one that counts in the file");
        return false;
      }
      imported.axes = *axes;
      any = true;
    }
    return true;
  }

  // Returns the rule set that `--symbol` names or, without `--symbol`, the only
  // rule set of the file. Returns null after a finding if there is no such rule
  // set, or more than one. If `any_axes` is true and no `--symbol` is given, a
  // file without rule sets is accepted, and null is returned without a finding.
  // Without `--symbol`, warns about other constants that may contain rules.
  const PySymbol* Choose(const std::vector<PySymbol>& symbols, bool any_axes) {
    std::vector<const PySymbol*> found =
        request_.symbol.empty() ? WithRules(symbols) : Named(symbols);
    if (found.empty() && request_.symbol.empty() && !any_axes) {
      for (const PySymbol& symbol : symbols) {
        if (UnknownRules(symbol) != nullptr) found.push_back(&symbol);
      }
    }
    if (found.size() == 1) {
      if (request_.symbol.empty()) WarnOfOthers(symbols, *found[0]);
      return found[0];
    }
    if (found.empty()) {
      if (request_.symbol.empty() && any_axes) return nullptr;
      findings_.Add(
          code::kInexpressible, {source_},
          request_.symbol.empty()
              ? "this file holds no list of (pattern, PartitionSpec)"
              : "this file holds nothing named " + ShortQuote(request_.symbol),
          "rules are a constant, a class attribute or what a "
          "function returns");
      return nullptr;
    }
    std::string names;
    for (const PySymbol* symbol : found) {
      if (names.size() > 600) {
        names += ", ...";
        break;
      }
      names += (names.empty() ? "`" : ", `") + symbol->name + "`";
    }
    const std::string sets =
        Counted(static_cast<int64_t>(found.size()), "rule set");
    findings_.Add(code::kUsage, {source_},
                  request_.symbol.empty()
                      ? "this file holds " + sets
                      : ShortQuote(request_.symbol) + " names " + sets,
                  "name one with `--symbol`, such as `--symbol " +
                      found[0]->name + "`: " + names);
    return nullptr;
  }

  void WarnOfOthers(const std::vector<PySymbol>& symbols,
                    const PySymbol& chosen) {
    for (const PySymbol& symbol : symbols) {
      const PyValue* unknown =
          &symbol == &chosen ? nullptr : UnknownRules(symbol);
      if (unknown == nullptr) continue;
      Finding finding;
      finding.code = &code::kInexpressible;
      finding.level = Level::kWarning;
      finding.place = {source_, unknown->why_begin, unknown->why_end};
      finding.message = ShortQuote(symbol.name) + " may hold rules too, but " +
                        unknown->why + " cannot be determined from this file";
      finding.help = "only `" + chosen.name +
                     "` is imported; name it with `--symbol` if it is the "
                     "rule set that counts";
      findings_.Add(std::move(finding));
    }
  }

  // Returns the symbols that `--symbol` names, by their full name or by its
  // last part: `rules` names `Llama.rules`. For a last part, symbols that a
  // class inherits are returned only if no class itself defines a symbol of
  // this name.
  std::vector<const PySymbol*> Named(const std::vector<PySymbol>& symbols) {
    std::vector<const PySymbol*> own, inherited;
    for (const PySymbol& symbol : symbols) {
      if (!IsNamed(symbol, request_.symbol)) continue;
      const bool exact = symbol.name == request_.symbol;
      (symbol.is_inherited && !exact ? inherited : own).push_back(&symbol);
    }
    return own.empty() ? inherited : own;
  }

  bool ReadSymbol(const PySymbol& symbol, Imported& imported) {
    const PyValue& value = symbol.value;
    imported.comments.push_back("From `" + symbol.name + "`.");
    for (const std::string& one : symbol.defaults) {
      imported.comments.push_back("With " + one + ", its default.");
    }
    if (value.is == PyIs::kUnknown) {
      RefuseUnknown(source_, value, findings_);
      return false;
    }
    imported.separator = '/';
    if (IsTree(value)) return ReadTree(value, imported);
    if (value.is == PyIs::kDict) return ReadDict(value, imported);
    if (value.is != PyIs::kSequence) {
      findings_.Add(code::kInexpressible, {source_, value.begin, value.end},
                    "`" + symbol.name + "` is no list of rules");
      return false;
    }
    for (size_t i = 0; i < value.items.size(); ++i) {
      const PyValue& item = value.items[i];
      if (item.is == PyIs::kUnknown) {
        RefuseUnknown(source_, item, findings_);
        return false;
      }
      if (item.is != PyIs::kSequence || item.items.size() != 2) {
        findings_.Add(code::kInexpressible, {source_, item.begin, item.end},
                      "this is no pair of a pattern and a spec");
        return false;
      }
      if (!AddRule(item.items[0], item.items[1], item, "search", imported)) {
        return false;
      }
    }
    return true;
  }

  bool ReadDict(const PyValue& value, Imported& imported) {
    int64_t dots = 0;
    for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
      const std::string& name = value.items[i].text;
      dots += name.find('.') != std::string::npos ? 1 : 0;
      dots -= name.find('/') != std::string::npos ? 1 : 0;
    }
    if (dots > 0) imported.separator = '.';
    for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
      PyValue pair = value.items[i];
      pair.end = value.items[i + 1].end;
      if (!AddRule(value.items[i], value.items[i + 1], pair, "name",
                   imported)) {
        return false;
      }
    }
    return true;
  }

  bool ReadTree(const PyValue& value, Imported& imported) {
    const auto leaves = LeavesOf(source_, value, findings_);
    if (!leaves) return false;
    std::vector<NamedRule> params;
    for (const PyLeaf& leaf : *leaves) {
      ImportedRule made;
      if (!MakeRule(leaf.spec, leaf.spec, imported, made)) return false;
      params.push_back({leaf.name, std::move(made)});
    }
    return AddExact(std::move(params), imported, findings_);
  }

  bool AddRule(const PyValue& pattern, const PyValue& spec,
               const PyValue& whole, std::string_view matching,
               Imported& imported) {
    if (pattern.is == PyIs::kUnknown) {
      RefuseUnknown(source_, pattern, findings_);
      return false;
    }
    if (!IsPatternLike(pattern)) {
      findings_.Add(code::kInexpressible, {source_, pattern.begin, pattern.end},
                    "this is not a pattern");
      return false;
    }
    ImportedRule made;
    made.rule.match = PatternOf(pattern, matching);
    if (!MakeRule(spec, whole, imported, made)) return false;
    made.rule.match_place = {source_, pattern.begin, pattern.end};
    imported.rules.push_back(std::move(made));
    return true;
  }

  // Sets the spec, modes, place and comments of a rule. `whole` is the rule's
  // complete text, whose comments are imported. Returns false after a finding.
  bool MakeRule(const PyValue& spec, const PyValue& whole,
                const Imported& imported, ImportedRule& made) {
    auto read = SpecOf(source_, spec, imported.registrations, findings_);
    if (!read) return false;
    made.rule.spec = std::move(*read);
    if (!ReadMode(spec, imported, made)) return false;
    made.rule.place = {source_, whole.begin, whole.end};
    made.comments = CommentsOf(whole);
    return true;
  }

  // Python may resolve a spec in one fixed mode. Gives the rule the axes of
  // this mode (KeepMode). A bundle (a named set of specs) is not changed: it
  // has its own mode, which eformer uses instead. Returns false after a
  // finding.
  bool ReadMode(const PyValue& spec, const Imported& imported,
                ImportedRule& made) {
    if (spec.is != PyIs::kResolved) return true;
    if (std::holds_alternative<SpecBundle>(made.rule.spec)) return true;
    if (spec.items[0].is == PyIs::kResolved) {
      return ReadMode(spec.items[0], imported, made);
    }
    // Without the argument `mode`, Python resolves the spec in the mode that
    // the program is in, as rules do.
    if (spec.fields.empty()) return true;
    const PyValue& given = spec.fields[0].second;
    const auto mode = ModeOf(given);
    if (mode) {
      const std::string circle =
          KeepMode(*mode, imported.axes, imported.registrations, made);
      if (circle.empty()) return true;
      findings_.Add(
          code::kInexpressible, {source_, spec.begin, spec.end},
          "the registration of " + ShortQuote(circle) + " refers to itself");
      return false;
    }
    if (given.is == PyIs::kUnknown) {
      RefuseUnknown(source_, given, findings_);
    } else {
      findings_.Add(code::kInexpressible, {source_, given.begin, given.end},
                    given.is == PyIs::kNumber
                        ? "the mode depends on a dimension of a shape, which "
                          "is known only when the program runs"
                        : "this is not a mode",
                    "the modes are `MODE_TRAIN`, `MODE_PREFILL`, "
                    "`MODE_DECODE` and `MODE_INSERT`");
    }
    return false;
  }

  static std::optional<Mode> ModeOf(const PyValue& value) {
    constexpr std::string_view kPrefix = "MODE_";
    if (value.is == PyIs::kText) return ParseMode(value.text);
    if (value.is != PyIs::kSymbol || !value.text.starts_with(kPrefix)) {
      return std::nullopt;
    }
    return ParseMode(FoldCase(value.text.substr(kPrefix.size())));
  }

  std::string PatternOf(const PyValue& pattern,
                        std::string_view by_default) const {
    if (pattern.is == PyIs::kSequence) {
      std::vector<std::string> parts;
      for (const PyValue& part : pattern.items) parts.push_back(part.text);
      return FromParts(parts, '/');
    }
    const std::string_view how = request_.matching.empty()
                                     ? by_default
                                     : std::string_view(request_.matching);
    if (how == "name") return EntireName(pattern.text);
    if (how == "glob") return FromGlob(pattern.text);
    const std::string text = FromPython(pattern.text);
    if (how == "whole") return "^(?:" + text + ")$";
    if (how == "start") return "^(?:" + text + ")";
    return text;
  }

  // Returns the comments of a rule. They are on separate lines directly above
  // the rule, inside it, and at the end of its last line.
  std::vector<std::string> CommentsOf(const PyValue& whole) {
    std::vector<std::string> out;
    const std::string_view text = source_->text();
    const size_t line_end = std::min(text.find('\n', whole.end), text.size());
    const auto from = std::lower_bound(
        module_.comments.begin(), module_.comments.end(), reported_,
        [](const PyComment& comment, size_t at) { return comment.begin < at; });
    auto at = from;
    while (at != module_.comments.end() && at->begin < whole.begin) ++at;
    // Only the last kMostComments comments before a rule are considered.
    if (at - from > kMostComments)
      at -= kMostComments;
    else
      at = from;
    for (; at != module_.comments.end() && at->begin <= line_end; ++at) {
      const PyComment& comment = *at;
      const bool above = comment.begin < whole.begin && comment.alone &&
                         Adjoins(comment, whole.begin);
      if (above || comment.begin > whole.begin) out.push_back(comment.text);
    }
    reported_ = std::max(reported_, line_end);
    return out;
  }

  // Returns whether only comments, white space and `(` are between the comment
  // and the offset `begin` of a rule. The comment then belongs to this rule.
  bool Adjoins(const PyComment& comment, size_t begin) const {
    const std::string_view text = source_->text();
    size_t at = comment.begin;
    while (at < begin) {
      if (text[at] == '#') {
        at = std::min(text.find('\n', at), text.size());
      } else if (std::string_view(" \t\r\n\f(").find(text[at]) !=
                 std::string_view::npos) {
        ++at;
      } else {
        return false;
      }
    }
    return true;
  }

  const Request& request_;
  SourceRef source_;
  Findings& findings_;
  PyModule module_;
  size_t reported_ = 0;
};

std::optional<Imported> ReadPython(const Request& request, Findings& findings) {
  return RulesModuleReader(request, findings).Read();
}

}  // namespace

constexpr Importer kPython{
    "python",
    "lists of (pattern, PartitionSpec) and PartitionAxis in Python source",
    "--symbol --set --matching", ReadPython};

}  // namespace shardc::imports
