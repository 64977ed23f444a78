// The native resolver against the reference, over random axis rules,
// registrations and lists of axes. They agree wherever both give an answer:
// nested groups flattened, nulls inside groups left out.
#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

#include "resolve/reference.h"
#include "resolve/resolve.h"

namespace shardc {
namespace {

using reference::Value;

const std::vector<std::string> kAxes = {"dp", "fsdp", "ep", "tp", "sp", "x"};

void Flatten(const Value& value, AxisGroup& out) {
  if (value.IsName() && !value.name.empty()) out.push_back(value.name);
  for (const Value& item : value.items) Flatten(item, out);
}

// One random setting, told to both sides.
class Setting {
 public:
  explicit Setting(uint64_t seed) : random_(seed) {
    for (size_t i = 0; i < kAxisRuleCount; ++i) {
      if (Below(4) == 0) GiveAxisRule(static_cast<AxisRule>(i));
    }
    for (int64_t i = Below(3); i > 0; --i) Register("R" + std::to_string(i));
  }

  void Compare() {
    Mesh mesh;
    for (const std::string& axis : kAxes) mesh.axes.push_back({axis, 2});
    Findings findings;
    auto resolver = Resolver::Make(native_, mesh, findings);
    REQUIRE(resolver);
    const reference::PartitionAxis axis(given_);
    for (int i = 0; i < 8; ++i) {
      const auto [list, values] = RandomAxes();
      for (Mode mode : kAllModes) {
        auto ours = resolver->Resolve(list, mode, findings);
        auto theirs =
            reference::ResolveAxis(axis, registry_, values, ModeLongName(mode));
        REQUIRE(ours);
        const auto* raw = reference::Get<std::vector<Value>>(theirs);
        REQUIRE(raw != nullptr);
        Spec flat;
        for (const Value& value : *raw) {
          flat.emplace_back();
          Flatten(value, flat.back());
        }
        CHECK(SpecText(ours->spec) == SpecText(flat));
      }
    }
  }

 private:
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound));
  }
  template <class T>
  const T& Pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(Below(static_cast<int64_t>(from.size())))];
  }

  void GiveAxisRule(AxisRule rule) {
    AxisValue value;
    Value theirs;
    value.is_null = Below(3) == 0;
    if (!value.is_null) {
      std::vector<Value> items;
      for (int64_t i = Below(3); i >= 0; --i) {
        value.axes.push_back(Pick(kAxes));
        items.push_back(Value::Name(value.axes.back()));
      }
      if (Below(6) == 0) {
        value.axes.clear();
        items.clear();
      }
      theirs = items.size() == 1 ? items[0] : Value::Tuple(items);
    }
    native_.axes.Set(rule, value);
    given_[static_cast<size_t>(rule)] = theirs;
  }

  // A rule as both write it: `head` here is `head_axis` there.
  std::pair<RegisteredRule, Value> RandomRule() {
    RegisteredRule ours;
    ours.is_null = false;
    std::vector<Value> items;
    for (int64_t i = 1 + Below(2); i > 0; --i) {
      if (Below(2) == 0) {
        const auto rule = static_cast<AxisRule>(Below(int64_t{kAxisRuleCount}));
        ours.names.push_back({std::string(AxisRuleName(rule)), false});
        items.push_back(Value::Name(reference::FieldName(rule)));
      } else {
        ours.names.push_back({Pick(kAxes), false});
        items.push_back(Value::Name(ours.names.back().text));
      }
    }
    return {ours, items.size() == 1 ? items[0] : Value::Tuple(items)};
  }

  void Register(const std::string& name) {
    Registration registration;
    registration.name = name;
    auto [rule, theirs] = RandomRule();
    registration.rule = rule;
    std::optional<Value> generation;
    if (Below(3) == 0) {
      auto [ours, other] = RandomRule();
      registration.generation = ours;
      generation = other;
    } else if (Below(6) == 0) {
      registration.generation = RegisteredRule{};
      generation = Value::None();
    }
    native_.registrations.push_back(registration);
    CHECK_FALSE(registry_.Register(name, theirs, generation, false));
  }

  std::pair<SpecList, std::vector<Value>> RandomAxes() {
    SpecList list;
    std::vector<Value> values;
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
      list.entries.push_back(std::move(entry));
      values.push_back(group ? Value::List(std::move(items)) : items[0]);
    }
    return {list, values};
  }

  // A token or a registered name; `_` only by itself, as in a group the
  // reference takes it for an axis.
  std::string Name(bool in_group) {
    const auto tokens = BuiltinTokens();
    for (;;) {
      const auto& registered = native_.registrations;
      if (!registered.empty() && Below(4) == 0) {
        return registered[static_cast<size_t>(
                              Below(static_cast<int64_t>(registered.size())))]
            .name;
      }
      const Token& token = tokens[static_cast<size_t>(
          Below(static_cast<int64_t>(tokens.size())))];
      if (token.rule || !in_group) return std::string(token.long_name);
    }
  }

  std::mt19937_64 random_;
  RuleSet native_;
  reference::PartitionAxis::Given given_;
  reference::Registry registry_;
};

TEST_CASE("the native resolver agrees with the reference") {
  const char* text = std::getenv("SHARDC_SEED");
  const uint64_t first = text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
  for (uint64_t seed = first; seed < first + 1000; ++seed) {
    INFO("SHARDC_SEED=", seed);
    Setting(seed).Compare();
  }
}

}  // namespace
}  // namespace shardc
