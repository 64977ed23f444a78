// Resolves axes as eformer does, by a sequence of lookups that differs between
// the top level, a composite and a registration.
//
// Example: `tp` alone is refused because it is not a semantic axis; in `["tp"]`
// it is accepted as a literal mesh axis.
#include "reference/resolve.h"

#include <algorithm>

namespace shardc::reference {
namespace {

using Seen = std::set<std::string, std::less<>>;

constexpr std::string_view kEmpty = "_";

bool IsEmptyToken(const Value& value) {
  return value.IsNone() || (value.IsName() && value.name == kEmpty);
}

bool Generates(std::string_view mode) {
  auto parsed = ParseMode(mode);
  return parsed && ModeLongName(*parsed) == mode && IsGeneration(*parsed);
}

// The rule of a built-in token, by its long name only.
std::optional<AxisRule> TokenRule(std::string_view name) {
  const Token* token = FindToken(name);
  if (token == nullptr || token->long_name != name) return std::nullopt;
  return token->rule;
}

bool IsBuiltIn(std::string_view name) {
  return name == kEmpty || TokenRule(name).has_value();
}

std::string Stripped(std::string_view text) {
  constexpr std::string_view kBlank = " \t\n\r\f\v";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return std::string(
      text.substr(begin, text.find_last_not_of(kBlank) - begin + 1));
}

Error EmptyName() {
  return {"ValueError", "empty_name",
          "`semantic_axis` must be a non-empty string."};
}

class AxisResolver {
 public:
  AxisResolver(const PartitionAxis& axis, const Registry& registry,
               std::string_view mode)
      : axis_(axis), registry_(registry), generates_(Generates(mode)) {}

  Result<Value> TopLevel(const Value& entry) const {
    if (IsEmptyToken(entry)) return Value::None();
    if (entry.IsSequence()) return Composite(entry);
    if (const auto* registered = registry_.Find(entry.name)) {
      // A rule of None means no axes, and hides the built-in token of that
      // name.
      if (!registered->rule.IsNone()) return OfEntry(*registered);
    } else if (auto rule = TokenRule(entry.name)) {
      return OfField(*rule);
    }
    return Error{"ValueError", "unknown_axis",
                 "Unknown semantic axis name: '" + entry.name + "'"};
  }

 private:
  Value OfField(AxisRule rule) const {
    if (auto twin = DecodeTwin(rule); twin && generates_) {
      // None means that there is no decode rule; it does not mean "unsharded".
      if (!axis_.Field(*twin).IsNone()) return axis_.Field(*twin);
    }
    return axis_.Field(rule);
  }

  Result<Value> OfEntry(const Registry::Entry& entry) const {
    return generates_ && entry.generation ? OfRule(*entry.generation, {})
                                          : OfRule(entry.rule, {});
  }

  // Resolves the text of a rule, which is looked up in this order: field,
  // registered token, built-in token, literal axis. Inside a registration,
  // decode twins are not used.
  Result<Value> OfRule(const Value& rule, const Seen& seen) const {
    if (rule.IsNone()) return rule;
    if (rule.IsSequence()) {
      std::vector<Value> items;
      for (const Value& item : rule.items) {
        auto resolved = OfRule(item, seen);
        if (const auto* error = Failure(resolved)) return *error;
        items.push_back(std::get<Value>(std::move(resolved)));
      }
      return Value::Tuple(std::move(items));
    }
    if (auto field = ParseFieldName(rule.name)) return axis_.Field(*field);
    if (const auto* entry = registry_.Find(rule.name)) {
      if (entry->rule.IsNone()) return rule;
      if (seen.contains(rule.name)) {
        return Error{"ValueError", "cyclic_registration",
                     "Cyclic semantic axis registration detected at '" +
                         rule.name + "'."};
      }
      Seen deeper = seen;
      deeper.insert(rule.name);
      return OfRule(entry->rule, deeper);
    }
    if (auto token = TokenRule(rule.name)) return axis_.Field(*token);
    return rule;
  }

  Result<Value> Composite(const Value& entry) const {
    for (const Value& member : entry.items) {
      if (member.IsSequence()) {
        return Error{"TypeError", "nested_composite",
                     "unhashable type: 'list'"};
      }
    }
    std::vector<Value> items;
    for (const Value& member : entry.items) {
      auto resolved = Member(member);
      if (const auto* error = Failure(resolved)) return *error;
      items.push_back(std::get<Value>(std::move(resolved)));
    }
    return Value::Tuple(std::move(items));
  }

  Result<Value> Member(const Value& member) const {
    if (member.IsNone()) return member;
    if (const auto* entry = registry_.Find(member.name)) {
      // A generation rule is used even if the registration has no other rule.
      const bool generates = generates_ && entry->generation;
      if (generates || !entry->rule.IsNone()) return OfEntry(*entry);
    } else if (auto rule = TokenRule(member.name)) {
      return OfField(*rule);
    }
    if (auto rule = ParseFieldName(member.name)) return OfField(*rule);
    return member;
  }

  const PartitionAxis& axis_;
  const Registry& registry_;
  bool generates_;
};

Result<std::string> EffectiveMode(const ModeArgument& mode,
                                  const std::optional<Shape>& shape) {
  if (const auto* name = std::get_if<std::string>(&mode)) return *name;
  if (!shape) {
    return Error{"ValueError", "missing_shape",
                 "when using dynamic mode detection shape should be provided"};
  }
  const auto rank = static_cast<int64_t>(shape->size());
  int64_t index = std::get<int64_t>(mode);
  if (index < 0) index += rank;
  if (index < 0 || index >= rank) {
    return Error{"IndexError", "index_out_of_range", "index out of range"};
  }
  const bool one = (*shape)[static_cast<size_t>(index)] == 1;
  return std::string(ModeLongName(one ? Mode::kDecode : Mode::kTrain));
}

Value TokenValue(std::string_view short_name) {
  return Value::Name(FindToken(short_name)->long_name);
}

std::vector<Value> TokenValues(std::span<const std::string_view> names) {
  std::vector<Value> out;
  for (std::string_view name : names) out.push_back(TokenValue(name));
  return out;
}

}  // namespace

std::optional<Error> Registry::Register(std::string_view name, Value rule,
                                        std::optional<Value> generation,
                                        bool override_existing) {
  const std::string token = Stripped(name);
  if (token.empty()) return EmptyName();
  if (!override_existing && (IsBuiltIn(token) || entries_.contains(token))) {
    return Error{"ValueError", "already_registered",
                 "Semantic axis '" + token +
                     "' already exists. Use override=True to replace it."};
  }
  if (!generation && rule.IsName()) {
    if (auto field = ParseFieldName(rule.name)) {
      if (auto twin = DecodeTwin(*field)) {
        generation = Value::Name(FieldName(*twin));
      }
    }
  }
  entries_.insert_or_assign(token,
                            Entry{std::move(rule), std::move(generation)});
  return std::nullopt;
}

std::optional<Error> Registry::Unregister(std::string_view name,
                                          bool missing_ok) {
  const std::string token = Stripped(name);
  if (token.empty()) return EmptyName();
  if (entries_.erase(token) == 0 && !missing_ok) {
    return Error{"KeyError", "not_registered",
                 "Semantic axis '" + token + "' is not registered."};
  }
  return std::nullopt;
}

const Registry::Entry* Registry::Find(std::string_view name) const {
  auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : &it->second;
}

Result<std::vector<Value>> ResolveAxis(const PartitionAxis& axis,
                                       const Registry& registry,
                                       std::span<const Value> axes,
                                       std::string_view mode) {
  const AxisResolver resolver(axis, registry, mode);
  std::vector<Value> out;
  for (const Value& entry : axes) {
    auto resolved = resolver.TopLevel(entry);
    if (const auto* error = Failure(resolved)) return *error;
    out.push_back(std::get<Value>(std::move(resolved)));
  }
  return out;
}

std::optional<DynamicAxes> FindDynamicAxes(std::string_view class_name) {
  constexpr std::string_view kSuffix = "Sharding";
  std::string_view name = class_name;
  if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
  for (const Bundle& bundle : BuiltinBundles()) {
    if (bundle.name != name) continue;
    DynamicAxes out;
    for (const SpecEntry& entry : bundle.axes.entries) {
      std::vector<Value> tokens;
      for (const SpecName& token : entry.names) {
        tokens.push_back(TokenValue(token.text));
      }
      out.axes.push_back(entry.is_group   ? Value::List(std::move(tokens))
                         : tokens.empty() ? Value::Name(kEmpty)
                                          : tokens[0]);
    }
    if (const auto* mode = std::get_if<Mode>(&bundle.mode)) {
      out.mode = std::string(ModeLongName(*mode));
    } else {
      out.mode = int64_t{std::get<int>(bundle.mode)};
    }
    return out;
  }
  return std::nullopt;
}

Result<ManagerResult> Resolve(const PartitionAxis& axis,
                              const Registry& registry,
                              const ResolveCall& call) {
  DynamicAxes chosen;
  if (call.axes_bundle) {
    chosen = *call.axes_bundle;
  } else if (call.axes && call.mode) {
    chosen = {*call.axes, *call.mode};
  } else if (call.dynamic_axes_none) {
    return Error{"AttributeError", "attribute_error",
                 "'NoneType' object has no attribute 'axes'"};
  } else if (call.dynamic_axes) {
    chosen = *call.dynamic_axes;
  } else {
    return Error{"ValueError", "missing_axes_or_mode",
                 "if axes or mode is empty you should provide dynamic axes"};
  }
  auto mode = EffectiveMode(chosen.mode, call.shape);
  if (const auto* error = Failure(mode)) return *error;
  auto axes =
      ResolveAxis(axis, registry, chosen.axes, std::get<std::string>(mode));
  if (const auto* error = Failure(axes)) return *error;
  auto spec = MakePartitionSpec(std::get<std::vector<Value>>(axes));
  if (const auto* error = Failure(spec)) return *error;
  return ManagerResult{std::get<std::string>(mode),
                       std::get<PartitionSpec>(std::move(spec))};
}

Result<std::vector<AttentionSpec>> AttentionShardings(
    const PartitionAxis& axis, const Registry& registry,
    const AttentionCall& call) {
  using Tokens = std::vector<std::string_view>;
  if (call.layout != "bthd" && call.layout != "bhtd") {
    return Error{"NotImplementedError", "layout_not_implemented",
                 "Layout '" + call.layout + "' is not implemented"};
  }
  auto laid = [&](std::string_view length, std::string_view head,
                  std::string_view dim) {
    return call.layout == "bthd" ? Tokens{"BATCH", length, head, dim}
                                 : Tokens{"BATCH", head, length, dim};
  };
  const Tokens query = laid("QUERY_LENGTH", "HEAD", "HEAD_DIM");
  const Tokens kv = call.mni ? laid("KV_LENGTH", "HEAD", "HEAD_DIM")
                             : laid("KV_LENGTH", "KV_HEAD", "KV_HEAD_DIM");
  std::vector<std::pair<std::string_view, Tokens>> rows = {
      {"query3d", {"BATCH", "HEAD", "HEAD_DIM"}},
      {"query", query},
      {"key", kv},
      {"value", kv},
      {"bias", {"BATCH", "BIAS_HEAD_SEQ", "QUERY_LENGTH", "BIAS_KV_SEQ"}},
      {"mask", {"BATCH", "_", "QUERY_LENGTH", "BIAS_KV_SEQ"}},
      {"output", query},
      {"q_segment_ids", {"BATCH", "QUERY_LENGTH"}},
      {"kv_segment_ids", {"BATCH", "KV_LENGTH"}},
  };
  if (call.softmax_aux_ndim) {
    rows.push_back({"softmax_aux", *call.softmax_aux_ndim == 2
                                       ? Tokens{"_", "KV_HEAD"}
                                       : Tokens{"HEAD"}});
  }
  std::vector<AttentionSpec> out;
  for (const auto& [name, tokens] : rows) {
    ResolveCall one;
    one.axes = TokenValues(tokens);
    one.mode = call.mode;  // a dimension fails: no shape is passed
    auto resolved = Resolve(axis, registry, one);
    if (const auto* error = Failure(resolved)) return *error;
    out.push_back({name, std::get<ManagerResult>(std::move(resolved)).spec});
  }
  if (!call.softmax_aux_ndim) out.push_back({"softmax_aux", std::nullopt});
  return out;
}

}  // namespace shardc::reference
