// Reads fields of a config.json. Numbers are checked against limits when they
// are read, so that the product of any two sizes cannot overflow:
//
//   {"num_attention_heads": 9007199254740992}  ->  a finding, no value
//   {"sliding_window": -1}                     ->  no value: there is no window
#include "parse/config_fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/legal_sizes.h"
#include "parse/manifest_leaf.h"

namespace shardc {
namespace {

constexpr std::array<std::string_view, 3> kNested = {
    "text_config", "llm_config", "language_config"};

// Returns the member with this key. The key `outer.inner` selects the member
// `inner` of the member `outer`.
std::optional<JsonValue> MemberOf(const JsonValue& object,
                                  std::string_view key) {
  const size_t dot = key.find('.');
  auto member = object.Find(key.substr(0, dot));
  if (member && dot != std::string_view::npos) {
    member = member->IsObject() ? MemberOf(*member, key.substr(dot + 1))
                                : std::nullopt;
  }
  if (member && member->IsNull()) return std::nullopt;
  return member;
}

}  // namespace

ConfigFields::ConfigFields(JsonValue root, Findings& findings)
    : root_(root), findings_(findings) {
  for (const std::string_view key : kNested) {
    const auto nested = root_.Find(key);
    if (nested && nested->IsObject()) {
      nested_ = nested;
      break;
    }
  }
}

std::optional<JsonValue> ConfigFields::Find(std::string_view key) const {
  if (nested_) {
    if (auto inner = MemberOf(*nested_, key)) return inner;
  }
  return MemberOf(root_, key);
}

bool ConfigFields::Has(std::string_view key) const {
  return (nested_ && nested_->Find(key)) || root_.Find(key);
}

bool ConfigFields::IsA(std::span<const std::string_view> families) const {
  const auto named = [&](const JsonValue& config) {
    const auto type = config.Find("model_type");
    return type && type->IsString() &&
           std::find(families.begin(), families.end(), type->string()) !=
               families.end();
  };
  return named(root_) || (nested_ && named(*nested_));
}

std::optional<bool> ConfigFields::IsTrue(std::string_view key) {
  const auto value = Find(key);
  if (!value) return std::nullopt;
  if (value->kind() == JsonKind::kBool) return value->boolean();
  Report(code::kSchema, *value,
         "`" + std::string(key) + "` is " + DescribeJson(*value) +
             ", not a boolean",
         "write `true` or `false`");
  return std::nullopt;
}

ConfigField ConfigFields::Size(std::span<const std::string_view> names) {
  return First(names, Least::kSize);
}

ConfigField ConfigFields::Count(std::span<const std::string_view> names) {
  return First(names, Least::kCount);
}

ConfigField ConfigFields::Number(std::span<const std::string_view> names) {
  return First(names, Least::kNumber);
}

ConfigField ConfigFields::LargestInLayers(
    std::span<const std::string_view> names, bool equal) {
  for (const std::string_view name : names) {
    const auto list = Find(name);
    if (!list || !list->IsArray() || list->size() == 0) continue;
    int64_t least = kLargestModelSize, most = 0;
    for (const JsonValue item : list->items()) {
      const bool integer = item.kind() == JsonKind::kInteger;
      least = std::min(least, integer ? item.integer() : -1);
      most = std::max(most, integer ? item.integer() : 0);
    }
    if (least < 0 || most < 1 || most > kLargestModelSize ||
        (equal && least != most)) {
      continue;
    }
    return {most, list->place(), false};
  }
  return {};
}

ConfigField ConfigFields::EqualInLayers(
    std::span<const std::string_view> names) {
  return LargestInLayers(names, true);
}

std::optional<int64_t> ConfigFields::CountOf(const JsonValue& value,
                                             std::string_view key) {
  return Integer(value, key, Least::kCount);
}

ConfigField ConfigFields::First(std::span<const std::string_view> names,
                                Least least) {
  for (const std::string_view name : names) {
    const auto value = Find(name);
    if (!value) continue;
    const auto number = Integer(*value, name, least);
    if (!number) continue;
    const Place place = value->place();
    const bool nested = nested_ && nested_->place().begin <= place.begin &&
                        place.end <= nested_->place().end;
    return {number, place, nested};
  }
  return {};
}

std::optional<int64_t> ConfigFields::Integer(const JsonValue& value,
                                             std::string_view key,
                                             Least least) {
  const std::string name = "`" + std::string(key) + "`";
  switch (value.kind()) {
    case JsonKind::kInteger:
      if (value.integer() > kLargestModelSize) break;
      if (value.integer() > 0) return value.integer();
      if (least == Least::kCount) return std::nullopt;
      if (least == Least::kNumber && value.integer() == 0) return 0;
      Report(code::kNumber, value,
             name + " is " + std::to_string(value.integer()) +
                 (least == Least::kSize ? ", and a size is at least 1"
                                        : ", which is below 0"));
      return std::nullopt;
    case JsonKind::kUnsigned:
      break;
    case JsonKind::kArray:
    case JsonKind::kNull:
      return std::nullopt;
    case JsonKind::kBool:
      if (least == Least::kCount) return std::nullopt;
      [[fallthrough]];
    default:
      Report(code::kNumber, value,
             name + " is " + DescribeJson(value) + ", not an integer");
      return std::nullopt;
  }
  Report(code::kLimit, value, name + " is larger than in any model",
         "at most " + std::to_string(kLargestModelSize) + " is read");
  return std::nullopt;
}

std::optional<double> ConfigFields::Real(std::string_view key) {
  const auto value = Find(key);
  return value ? RealOf(*value, key) : std::nullopt;
}

std::optional<double> ConfigFields::RealOf(const JsonValue& value,
                                           std::string_view key) {
  const std::string name = "`" + std::string(key) + "`";
  switch (value.kind()) {
    case JsonKind::kInteger:
    case JsonKind::kUnsigned:
    case JsonKind::kReal:
      if (std::abs(value.real()) > kLargestModelNumber) {
        Report(code::kLimit, value, name + " is larger than in any model",
               "numbers from -1e12 to 1e12 are read");
        return std::nullopt;
      }
      if (value.real() > 0) return value.real();
      return std::nullopt;
    case JsonKind::kString:
    case JsonKind::kObject:
      Report(code::kNumber, value,
             name + " is " + DescribeJson(value) + ", not a number");
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

void ConfigFields::Report(const Code& code, const JsonValue& value,
                          std::string message, std::string help) {
  if (!reported_.insert(value.place().begin).second) return;
  findings_.Add(code, value.place(), std::move(message), std::move(help));
}

}  // namespace shardc
