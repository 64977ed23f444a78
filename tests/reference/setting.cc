#include "reference/setting.h"

#include <cstdlib>
#include <tuple>

namespace shardc::reference {
namespace {

// Returns a single item itself, and several items as a tuple.
Value OneOrTuple(std::vector<Value> items) {
  return items.size() == 1 ? items[0] : Value::Tuple(std::move(items));
}

}  // namespace

uint64_t FirstSeed() {
  const char* text = std::getenv("SHARDC_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

const std::vector<std::string>& Setting::Axes() {
  static const std::vector<std::string> axes = {"dp", "fsdp", "ep",
                                                "tp", "sp",   "x"};
  return axes;
}

Setting::Setting(const Draws& draws) : random_(draws) {
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    if (Below(4) == 0) GiveAxisRule(static_cast<AxisRule>(i));
  }
  std::vector<std::string> overridden;
  for (const Token& token : BuiltinTokens()) {
    if (!token.rule) continue;
    const bool replaced = overridden.size() < 2 && Below(20) == 0;
    (replaced ? overridden : names_).emplace_back(token.long_name);
  }
  for (const std::string& token : overridden) Register(token, true);
  for (int64_t i = Below(4); i > 0; --i) {
    Register("R" + std::to_string(i), Below(4) == 0);
  }
}

void Setting::GiveAxisRule(AxisRule rule) {
  AxisValue value;
  Value theirs;
  value.is_null = Below(3) == 0;
  if (!value.is_null) {
    std::vector<Value> items;
    for (int64_t i = Below(3); i >= 0; --i) {
      value.axes.push_back(Pick(Axes()));
      items.push_back(Value::Name(value.axes.back()));
    }
    if (Below(6) == 0) {
      value.axes.clear();
      items.clear();
    }
    theirs = OneOrTuple(std::move(items));
  }
  ours_.axes.Set(rule, value);
  given_[static_cast<size_t>(rule)] = theirs;
}

// Returns a random rule in two forms: as shardc writes it (`head`) and as the
// reference does (`head_axis`).
std::pair<RegisteredRule, Value> Setting::RandomRule(
    const std::vector<std::string>& names) {
  RegisteredRule ours;
  ours.is_null = false;
  std::vector<Value> items;
  for (int64_t i = 1 + Below(2); i > 0; --i) {
    const int64_t kind = Below(names.empty() ? 2 : 3);
    if (kind == 0) {
      const auto rule = static_cast<AxisRule>(Below(int64_t{kAxisRuleCount}));
      ours.names.push_back({std::string(AxisRuleName(rule)), false});
      items.push_back(Value::Name(FieldName(rule)));
    } else {
      ours.names.push_back({Pick(kind == 1 ? Axes() : names), false});
      items.push_back(Value::Name(ours.names.back().text));
    }
  }
  ours.is_list = items.size() > 1 || Below(3) == 0;
  Value theirs = ours.is_list ? Value::Tuple(std::move(items)) : items[0];
  return {ours, std::move(theirs)};
}

void Setting::Register(const std::string& name, bool override_existing) {
  Registration registration;
  registration.name = name;
  registration.override_existing = override_existing;
  Value theirs;
  if (Below(8) != 0) {
    std::tie(registration.rule, theirs) = RandomRule(names_);
  }
  std::optional<Value> generation;
  if (Below(3) == 0) {
    // A generation rule may name the token that it belongs to, which then means
    // the token's standard rule.
    std::vector<std::string> names = names_;
    if (!theirs.IsNone()) names.push_back(name);
    auto [ours, other] = RandomRule(names);
    registration.generation = ours;
    generation = other;
  } else if (Below(6) == 0) {
    registration.generation = RegisteredRule{};
    generation = Value::None();
  }
  if (theirs.IsNone()) {
    null_names_.insert(name);
  } else {
    names_.push_back(name);
  }
  ours_.registrations.push_back(registration);
  registry_.Register(name, theirs, generation, override_existing);
}

void Setting::DropNullNames(std::vector<Value>& values) const {
  for (Value& value : values) {
    std::erase_if(value.items, [&](const Value& item) {
      return item.IsName() && null_names_.contains(item.name);
    });
  }
}

BothAxes Setting::RandomAxes() {
  BothAxes axes;
  for (int64_t i = Below(5); i > 0; --i) {
    SpecEntry entry;
    std::vector<Value> items;
    const bool group = Below(3) == 0;
    for (int64_t k = group ? Below(4) : 1; k > 0; --k) {
      std::string name = Name(group);
      items.push_back(Value::Name(name));
      if (name != "_") entry.names.push_back({std::move(name), {}});
    }
    entry.is_group = group;
    axes.ours.entries.push_back(std::move(entry));
    axes.theirs.push_back(group ? Value::List(std::move(items)) : items[0]);
  }
  return axes;
}

// Returns a token or a registered name. Outside of a group it may be `_`; in a
// group the reference would take `_` for an axis.
std::string Setting::Name(bool in_group) {
  const auto tokens = BuiltinTokens();
  for (;;) {
    if (!ours_.registrations.empty() && Below(4) == 0) {
      return Pick(ours_.registrations).name;
    }
    const Token& token =
        tokens[static_cast<size_t>(Below(static_cast<int64_t>(tokens.size())))];
    if (token.rule || !in_group) return std::string(token.long_name);
  }
}

}  // namespace shardc::reference
