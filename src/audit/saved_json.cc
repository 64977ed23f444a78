#include "audit/saved_json.h"

#include <utility>

namespace shardc::audit {
namespace {

std::optional<JsonValue> Member(const JsonValue& object, std::string_view key) {
  return object.IsObject() ? object.Find(key) : std::optional<JsonValue>();
}

}  // namespace

std::nullopt_t SavedJson::Refuse(const JsonValue& at, std::string message) {
  if (!refused_) {
    findings_.Add(code::kSchema, at.place(), std::move(message),
                  std::string(how_));
  }
  refused_ = true;
  return std::nullopt;
}

std::optional<int64_t> SavedJson::Number(const JsonValue& object,
                                         std::string_view key) {
  const auto value = Member(object, key);
  if (value && value->kind() == JsonKind::kInteger && value->integer() >= 0) {
    return value->integer();
  }
  return Refuse(value.value_or(object),
                "`" + std::string(key) + "` is a whole number from 0 on");
}

std::optional<std::string> SavedJson::Text(const JsonValue& object,
                                           std::string_view key) {
  const auto value = Member(object, key);
  if (value && value->IsString()) return std::string(value->string());
  return Refuse(value.value_or(object), "`" + std::string(key) + "` is a text");
}

std::optional<bool> SavedJson::Truth(const JsonValue& object,
                                     std::string_view key) {
  const auto value = Member(object, key);
  if (value && value->kind() == JsonKind::kBool) return value->boolean();
  return Refuse(value.value_or(object),
                "`" + std::string(key) + "` is true or false");
}

}  // namespace shardc::audit
