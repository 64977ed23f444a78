// Converts Python values to specs, and a PartitionAxis to axis rules. A string
// is the name of a mesh axis. A symbol is a name that the Python file does not
// define, such as HEAD. Symbols are kept, because the logical axes of shardc
// have the same names:
//
//   PartitionSpec(("fsdp", "sp"), None, TP)  ->  [[fsdp, sp], null, TP]
#include "importers/rules/spec_value.h"

#include "source/wording.h"

namespace shardc::imports {
namespace {

Place At(const SourceRef& source, const PyValue& value) {
  return {source, value.begin, value.end};
}

bool Refuse(const SourceRef& source, const PyValue& value, std::string message,
            Findings& findings, std::string help = {}) {
  if (value.is == PyIs::kUnknown) {
    RefuseUnknown(source, value, findings);
  } else {
    findings.Add(code::kInexpressible, At(source, value), std::move(message),
                 std::move(help));
  }
  return false;
}

// Adds a string of a list that is resolved. As in eformer, it is a built-in or
// registered logical axis. In a group it may also be a field of PartitionAxis,
// such as `head_axis`, or a mesh axis.
bool AddResolvedText(const SourceRef& source, const PyValue& value,
                     const Registrations& registrations, SpecEntry& entry,
                     Findings& findings) {
  constexpr std::string_view kSuffix = "_axis";
  const std::string_view text = value.text;
  const Token* token = FindToken(text);
  if (token != nullptr && token->long_name == text) {
    if (token->rule) entry.names.push_back({value.text, At(source, value)});
    return true;
  }
  const Registration* registered = FindRegistration(registrations, text);
  if (registered != nullptr && registered->name == text) {
    entry.names.push_back({value.text, At(source, value)});
    return true;
  }
  if (!entry.is_group) {
    return Refuse(source, value,
                  "`" + value.text +
                      "` is no logical axis that eformer or "
                      "this file registers",
                  findings, "register it, or write it in a tuple");
  }
  const auto field =
      text.ends_with(kSuffix)
          ? ParseAxisRule(text.substr(0, text.size() - kSuffix.size()))
          : std::nullopt;
  if (field) {
    entry.names.push_back(
        {std::string(AxisRuleName(*field)), At(source, value)});
  } else if (!text.empty()) {
    entry.names.push_back({value.text, At(source, value), true});
  }
  return true;
}

// Adds one name. `registrations` is not null in a list that is resolved.
bool AddName(const SourceRef& source, const PyValue& value,
             const Registrations* registrations, SpecEntry& entry,
             Findings& findings) {
  if (value.is == PyIs::kNone) return true;
  if (value.is == PyIs::kText && registrations != nullptr) {
    return AddResolvedText(source, value, *registrations, entry, findings);
  }
  if (value.is == PyIs::kText) {
    if (!value.text.empty())
      entry.names.push_back({value.text, At(source, value), true});
    return true;
  }
  if (value.is == PyIs::kSymbol) {
    if (value.text == "UNCONSTRAINED") {
      return Refuse(source, value,
                    "an unconstrained dimension leaves the choice to the "
                    "compiler, and a plan has none to leave",
                    findings);
    }
    const Token* token = ConstantOf(value.text);
    if (token != nullptr || value.text == "_" || value.text == "EMPTY") {
      if (token != nullptr && token->rule) {
        entry.names.push_back(
            {std::string(token->short_name), At(source, value)});
      }
      return true;
    }
    return Refuse(source, value,
                  "`" + value.text + "` is not written in this file", findings,
                  "write its value in its place");
  }
  return Refuse(source, value, "this is not the name of an axis", findings);
}

std::optional<SpecSource> BundleOf(const SourceRef& source,
                                   const PyValue& value, Findings& findings) {
  if (const Bundle* bundle = FindBuiltinBundle(value.text)) {
    return SpecBundle{bundle->name, At(source, value)};
  }
  Refuse(source, value, "there is no built-in bundle `" + value.text + "`",
         findings, "write its axes in its place");
  return std::nullopt;
}

}  // namespace

void RefuseUnknown(const SourceRef& source, const PyValue& value,
                   Findings& findings) {
  std::string help = "write the value in its place; nothing is run";
  if (!value.flag.empty()) {
    help = "give its value: `--set " + value.flag + "=true`, `--set " +
           value.flag + "=false` or a number";
  }
  findings.Add(code::kInexpressible, {source, value.why_begin, value.why_end},
               value.why + " cannot be determined from this file",
               std::move(help));
}

namespace {

std::optional<SpecEntry> EntryOf(const SourceRef& source, const PyValue& value,
                                 const Registrations* registrations,
                                 Findings& findings) {
  SpecEntry entry;
  if (value.is != PyIs::kSequence) {
    if (!AddName(source, value, registrations, entry, findings)) {
      return std::nullopt;
    }
    return entry;
  }
  entry.is_group = true;
  for (const PyValue& item : value.items) {
    if (item.is == PyIs::kSequence) {
      Refuse(source, item,
             "a group of axes holds another one, which JAX refuses", findings,
             "write its axes in the outer group");
      return std::nullopt;
    }
    if (!AddName(source, item, registrations, entry, findings)) {
      return std::nullopt;
    }
  }
  entry.is_group = value.items.size() > 1;
  return entry;
}

}  // namespace

std::optional<SpecEntry> EntryOf(const SourceRef& source, const PyValue& value,
                                 Findings& findings) {
  return EntryOf(source, value, nullptr, findings);
}

namespace {

std::optional<SpecSource> ListOf(const SourceRef& source, const PyValue& value,
                                 const Registrations* registrations,
                                 Findings& findings);

}  // namespace

std::optional<SpecSource> SpecOf(const SourceRef& source, const PyValue& value,
                                 const Registrations& registrations,
                                 Findings& findings) {
  if (value.is == PyIs::kResolved) {
    if (value.items.empty()) {
      Refuse(source, value, "this resolves nothing", findings);
      return std::nullopt;
    }
    const PyValue& what = value.items[0];
    if (what.is == PyIs::kSymbol) return BundleOf(source, what, findings);
    if (what.is == PyIs::kResolved) {
      return SpecOf(source, what, registrations, findings);
    }
    if (what.is == PyIs::kSequence) {
      return ListOf(source, what, &registrations, findings);
    }
    Refuse(source, what, "this names no axes to resolve", findings);
    return std::nullopt;
  }
  if (value.is == PyIs::kSymbol) return BundleOf(source, value, findings);
  auto list = ListOf(source, value, nullptr, findings);
  if (!list) return std::nullopt;
  // In a rules file, the name of a registered logical axis is never a mesh
  // axis.
  for (const SpecEntry& entry : std::get<SpecList>(*list).entries) {
    for (const SpecName& name : entry.names) {
      if (FindRegistration(registrations, name.text) == nullptr) continue;
      findings.Add(code::kInexpressible, name.place,
                   "the mesh axis " + ShortQuote(name.text) +
                       " has the name of a registered logical axis",
                   "rename one of them");
      return std::nullopt;
    }
  }
  return list;
}

namespace {

std::optional<SpecSource> ListOf(const SourceRef& source, const PyValue& value,
                                 const Registrations* registrations,
                                 Findings& findings) {
  SpecList list;
  list.place = At(source, value);
  if (value.is == PyIs::kNone) return list;
  if (value.is != PyIs::kSpec && value.is != PyIs::kSequence) {
    Refuse(source, value, "this is not a PartitionSpec", findings);
    return std::nullopt;
  }
  for (const auto& [keyword, field] : value.fields) {
    Refuse(source, field,
           "a plan holds the shardings of parameters, and has no `" + keyword +
               "`",
           findings);
    return std::nullopt;
  }
  for (const PyValue& item : value.items) {
    auto entry = EntryOf(source, item, registrations, findings);
    if (!entry) return std::nullopt;
    list.entries.push_back(std::move(*entry));
  }
  return list;
}

}  // namespace

std::optional<AxisRules> AxesOf(const SourceRef& source, const PyValue& value,
                                Findings& findings) {
  AxisRules rules;
  if (!value.items.empty()) {
    Refuse(source, value.items[0], "this value names no field of PartitionAxis",
           findings, "write its field, such as `head_axis=`");
    return std::nullopt;
  }
  for (const auto& [keyword, field] : value.fields) {
    const std::optional<AxisRule> rule = ParseAxisField(keyword);
    if (!rule) {
      Refuse(source, field, "PartitionAxis has no field `" + keyword + "`",
             findings);
      return std::nullopt;
    }
    AxisValue axis;
    if (field.is != PyIs::kNone) {
      const auto entry = EntryOf(source, field, findings);
      if (!entry) return std::nullopt;
      axis.is_null = false;
      for (const SpecName& name : entry->names) axis.axes.push_back(name.text);
    }
    rules.Set(*rule, std::move(axis));
  }
  return rules;
}

}  // namespace shardc::imports
