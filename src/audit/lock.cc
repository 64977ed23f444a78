// Compares the summary of an audit with the summary that a project has
// committed. In this example the program sends more bytes, and it no longer has
// the finding SHD604 of the parameter `up` in the function `keep`:
//
//   committed   all_gather over fsdp 160 KiB, SHD604 of up in keep
//   compiled    all_gather over fsdp 480 KiB
//   ->  all_gather over fsdp: 160 KiB -> 480 KiB per device
//       SHD604 of up in keep is gone
#include "audit/lock.h"

#include <map>
#include <string_view>
#include <utility>

#include "source/audit_code.h"
#include "source/json_members.h"
#include "source/wording.h"

namespace shardc::audit {
namespace {

std::string TextAt(const JsonValue& object, const char* key) {
  const auto value =
      object.IsObject() ? object.Find(key) : std::optional<JsonValue>();
  return value && value->IsString() ? std::string(value->string())
                                    : std::string();
}

using Causes = std::map<Sent::Cause, int64_t>;

// Returns the tensors and functions that send bytes over a route, with their
// bytes.
Causes CausesOf(const Lock& lock, const TrafficRoute& route) {
  Causes out;
  const auto found = lock.sent.bytes.find(route);
  if (found == lock.sent.bytes.end()) return out;
  for (const auto& [cause, bytes] : found->second) {
    if (bytes > 0) out.emplace(cause, bytes);
  }
  return out;
}

}  // namespace

LockedFlaw LockedOf(const Flaw& flaw) {
  return {flaw.code->Id(), flaw.parameter, std::string(flaw.line.function),
          flaw.axis};
}

bool Lock::Has(LockedFlaw flaw) const {
  if (flaws.contains(flaw)) return true;
  flaw.axis.clear();
  if (flaw.code == code::kGradientNotScattered.Id()) flaw.parameter.clear();
  return flaws.contains(flaw);
}

std::string_view StageName(bool scheduled) {
  return scheduled ? "optimised" : "partitioned";
}

Lock LockOf(const Report& report, bool scheduled) {
  Lock out;
  out.sent = SentOf(report);
  out.scheduled = scheduled;
  for (const Flaw& flaw : report.flaws) out.flaws.insert(LockedOf(flaw));
  return out;
}

std::vector<std::string> ChangesOf(const Lock& before, const Lock& now) {
  std::vector<std::string> out;
  const auto changed = [&](const std::string& what, const std::string& from,
                           const std::string& to) {
    if (from != to) out.push_back(what + ": " + from + " -> " + to);
  };
  changed("stage", std::string(StageName(before.scheduled)),
          std::string(StageName(now.scheduled)));
  changed("devices", CountText(before.sent.devices),
          CountText(now.sent.devices));
  std::set<TrafficRoute> routes;
  for (const auto& [route, causes] : before.sent.bytes) routes.insert(route);
  for (const auto& [route, causes] : now.sent.bytes) routes.insert(route);
  for (const TrafficRoute& route : routes) {
    const Causes was = CausesOf(before, route), is = CausesOf(now, route);
    if (was == is) continue;
    const int64_t from = SumOf(was), to = SumOf(is);
    const std::string what = route.first + " over " + route.second + ": ";
    out.push_back(from == to ? what + "other tensors or functions send " +
                                   BytesText(to) + " per device"
                             : what + BytesText(from) + " -> " + BytesText(to) +
                                   " per device");
  }
  const auto list = [&](const Lock& of, const Lock& other,
                        std::string_view how) {
    for (const LockedFlaw& flaw : of.flaws) {
      if (other.flaws.contains(flaw)) continue;
      out.push_back(flaw.code +
                    (flaw.parameter.empty() ? "" : " of " + flaw.parameter) +
                    (flaw.axis.empty() ? "" : " of the axis " + flaw.axis) +
                    (flaw.function.empty() ? "" : " in " + flaw.function) +
                    std::string(how));
    }
  };
  list(now, before, " is new");
  list(before, now, " is gone");
  return out;
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
                      TextAt(flaw, "function"), TextAt(flaw, "axis")});
  }
  return out;
}

}  // namespace shardc::audit
