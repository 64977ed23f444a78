#include "audit/lock.h"

#include <string_view>
#include <utility>

#include "source/json_members.h"

namespace shardc::audit {
namespace {

std::string TextAt(const JsonValue& object, const char* key) {
  const auto value =
      object.IsObject() ? object.Find(key) : std::optional<JsonValue>();
  return value && value->IsString() ? std::string(value->string())
                                    : std::string();
}

}  // namespace

LockedFlaw LockedOf(const Flaw& flaw) {
  return {flaw.code->Id(), flaw.parameter, std::string(flaw.line.function)};
}

std::string_view StageName(bool scheduled) {
  return scheduled ? "optimised" : "partitioned";
}

std::optional<Lock> ReadLock(const JsonDocument& document, Findings& findings) {
  const JsonValue root = document.root();
  const auto refuse = [&](const JsonValue& at, std::string message) {
    findings.Add(code::kSchema, at.place(), std::move(message),
                 "`shardc plan --write-locked` writes it");
    return std::nullopt;
  };
  if (SchemaOf(root) != kLockSchema) {
    return refuse(root, "this is no summary of an audit (`" +
                            std::string(kLockSchema) + "`)");
  }
  auto sent = ReadSent(document, findings);
  if (!sent) return std::nullopt;
  Lock out;
  out.sent = std::move(*sent);
  const std::string stage = TextAt(root, "stage");
  out.scheduled = stage == StageName(true);
  if (!out.scheduled && stage != StageName(false)) {
    return refuse(root, "the summary's `stage` is missing or unknown");
  }
  const auto flaws = root.Find("findings");
  if (!flaws || !flaws->IsArray()) {
    return refuse(root, "the summary's list `findings` is missing");
  }
  for (const JsonValue flaw : flaws->items()) {
    out.flaws.insert({TextAt(flaw, "code"), TextAt(flaw, "parameter"),
                      TextAt(flaw, "function")});
  }
  return out;
}

}  // namespace shardc::audit
