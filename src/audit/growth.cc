// Compares an audit with an earlier audit, so that a change which adds traffic
// fails in CI. Bytes are compared for each kind of collective over each group
// of axes. The tensor whose bytes grew most is named:
//
//   before   all_gather over fsdp   gate 32 KiB
//   after    all_gather over fsdp   gate 32 KiB, activation 48 KiB
//   ->  all_gather over fsdp grew from 32 KiB to 80 KiB, most by the activation
//
// The earlier audit is read from the JSON that `shardc audit` printed, or from
// a committed summary (audit/growth.h).
#include "audit/growth.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "audit/audit.h"
#include "audit/difference.h"
#include "source/finding.h"
#include "source/json.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::audit {
namespace {

// The bytes of an existing route may grow by 1/kSlackParts plus kSlackBytes
// without a finding.
constexpr int64_t kSlackBytes = 4096;
constexpr int64_t kSlackParts = 100;

// Returns the name of a group of devices that no mesh axes describe: "groups of
// 4".
std::string Unnamed(int64_t size) {
  return "groups of " + std::to_string(size);
}

// Appends an axis to the text of a mesh. An axis of size 1 names no group of
// devices, so it is skipped.
void AddAxis(std::string_view name, int64_t size, std::string& mesh) {
  if (size == 1) return;
  AppendItem(mesh, " ", std::string(name) + "=" + std::to_string(size));
}

class SentReader {
 public:
  explicit SentReader(Findings& findings) : findings_(findings) {}

  std::optional<Sent> Read(const JsonDocument& document) {
    const JsonValue root = document.root();
    const std::string_view schema = SchemaOf(root);
    if (schema != "shardc.audit/v1" && schema != kLockSchema) {
      return saved_.Refuse(root, "this is no audit (`shardc.audit/v1`)");
    }
    const auto devices = saved_.Number(root, "devices");
    const auto collectives = root.Find("collectives");
    if (!devices) return std::nullopt;
    if (!collectives || !collectives->IsArray()) {
      return saved_.Refuse(root, "the list `collectives` is missing");
    }
    Sent out;
    out.devices = *devices;
    const auto mesh = root.Find("mesh");
    if (mesh && !ReadMesh(*mesh, out.mesh.emplace())) return std::nullopt;
    int64_t total = 0;
    for (const JsonValue one : collectives->items()) {
      const auto bytes = saved_.Number(one, "bytes_per_device");
      const auto size = saved_.Number(one, "group_size");
      const auto kind = saved_.Text(one, "collective");
      const auto what = saved_.Text(one, "what");
      const auto shape = saved_.Text(one, "shape");
      if (!bytes || !size || !kind || !what || !shape) return std::nullopt;
      const auto sum = CheckedAdd(total, *bytes);
      if (!sum) {
        findings_.Add(code::kNumber, one.place(),
                      "the bytes up to here do not fit in 64 bits",
                      std::string(kHow));
        return std::nullopt;
      }
      total = *sum;
      const auto axes = one.Find("axes");
      AxisGroup names;
      const bool named = axes && axes->IsArray();
      if (named) {
        for (const JsonValue axis : axes->items()) {
          if (!axis.IsString()) return saved_.Refuse(axis, "an axis is a text");
          names.emplace_back(axis.string());
        }
      }
      Sent::Cause cause{CauseText(*what, one), *shape, Function(one)};
      out.bytes[{*kind, named ? AxesText(names) : Unnamed(*size)}]
               [std::move(cause)] += *bytes;
    }
    return out;
  }

 private:
  static constexpr std::string_view kHow =
      "write it with `shardc audit PROGRAM --format json`";

  // Sets `out` to the text of the mesh's axes, such as "dp=2 tp=4". Returns
  // false after a finding.
  bool ReadMesh(const JsonValue& mesh, std::string& out) {
    if (mesh.kind() == JsonKind::kNull) return true;
    const auto axes =
        mesh.IsObject() ? mesh.Find("axes") : std::optional<JsonValue>();
    if (!axes || !axes->IsArray()) {
      saved_.Refuse(mesh, "`mesh` has a list of axes, or is null");
      return false;
    }
    for (const JsonValue axis : axes->items()) {
      const auto name = saved_.Text(axis, "name");
      const auto size = saved_.Number(axis, "size");
      if (!name || !size) return false;
      AddAxis(*name, *size, out);
    }
    return true;
  }

  // Returns the name of a moved tensor, such as "gradient of layers/gate".
  // Reads it from the JSON of an audit.
  static std::string CauseText(const std::string& what, const JsonValue& one) {
    Moved moved;
    for (const What known : {What::kParameter, What::kGradient, What::kInput}) {
      if (what == WhatName(known)) moved.what = known;
    }
    const auto name = one.Find("parameter");
    if (name && name->IsString()) moved.name = name->string();
    return MovedText(moved);
  }

  static std::string Function(const JsonValue& one) {
    const auto line = one.Find("line");
    const auto function = line && line->IsObject() ? line->Find("function")
                                                   : std::optional<JsonValue>();
    return function && function->IsString() ? std::string(function->string())
                                            : std::string();
  }

  Findings& findings_;
  SavedJson saved_{findings_, kHow};
};

}  // namespace

int64_t SumOf(const std::map<Sent::Cause, int64_t>& causes) {
  int64_t out = 0;
  for (const auto& [cause, bytes] : causes) out += bytes;
  return out;
}

TrafficRoute RouteOf(const Traffic& one) {
  const Members& members = *one.members;
  return {std::string(CollectiveName(one.kind)),
          members.named ? AxesText(members.axes) : Unnamed(members.size)};
}

Sent SentOf(const Report& report) {
  Sent out;
  out.devices = report.devices;
  out.mesh.emplace();
  if (report.mesh) {
    for (const MeshAxis& axis : report.mesh->axes) {
      AddAxis(axis.name, axis.size, *out.mesh);
    }
  }
  for (const Traffic& one : report.traffic) {
    out.bytes[RouteOf(one)][{MovedText(one.moved), one.moved.shape,
                             std::string(one.line.function)}] +=
        one.sent.value();
  }
  return out;
}

std::optional<Sent> ReadSent(const JsonDocument& document, Findings& findings) {
  return SentReader(findings).Read(document);
}

std::vector<Growth> GrowthOf(const Sent& before, const Sent& after) {
  std::vector<Growth> out;
  for (const auto& [route, causes] : after.bytes) {
    const auto found = before.bytes.find(route);
    const std::map<Sent::Cause, int64_t> none;
    const auto& old = found == before.bytes.end() ? none : found->second;
    Growth growth{route, SumOf(old), SumOf(causes), {}};
    const int64_t slack =
        growth.before == 0 ? 0 : growth.before / kSlackParts + kSlackBytes;
    if (growth.after - growth.before <= slack) continue;
    int64_t most = 0;
    for (const auto& [cause, bytes] : causes) {
      const auto was = old.find(cause);
      const int64_t more = bytes - (was == old.end() ? 0 : was->second);
      if (more <= most) continue;
      most = more;
      growth.cause = cause;
    }
    out.push_back(std::move(growth));
  }
  std::ranges::stable_sort(out, [](const Growth& a, const Growth& b) {
    return a.after - a.before > b.after - b.before;
  });
  return out;
}

// Compares the summary of an audit with the summary that a project has
// committed. In this example the program sends more bytes, and it no longer has
// the finding SHD604 of the parameter `up` in the function `keep`:
//
//   committed   all_gather over fsdp 160 KiB, SHD604 of up in keep
//   compiled    all_gather over fsdp 480 KiB
//   ->  all_gather over fsdp: 160 KiB -> 480 KiB per device
//       SHD604 of up in keep is gone

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

// Compares the bytes that a program sends with the limits of a budget. The
// bytes are added up by route (a kind of collective over a set of axes), in
// total, and for gathers of activations. A limit applies to one of these sums,
// or to the sum of several routes:
//
//   all_gather: {dp+fsdp: 1GiB}   the route all_gather over exactly dp and fsdp
//   all_gather: 1GiB              all routes of all_gather

namespace {

// Adds the bytes of collectives to a sum, and keeps the name of the tensor for
// which the most bytes are sent.
class Summer {
 public:
  explicit Summer(Sums::Part& part) : part_(part) {}
  void Add(const Traffic& one) {
    part_.bytes += one.sent.value();
    if (one.sent.value() <= most_) return;
    most_ = one.sent.value();
    part_.most = MovedText(one.moved) + " " + one.moved.shape;
    if (!one.line.file.empty()) part_.most += " at " + LineText(one.line);
  }

 private:
  Sums::Part& part_;
  int64_t most_ = 0;
};

std::set<std::string> NamesIn(std::string_view over) {
  const std::vector<std::string> names = AxesIn(over);
  return {names.begin(), names.end()};
}

// Returns the names of the limit's axes without the axes of size 1, because
// routes do not name axes of size 1. If no axis remains, returns "none", the
// name of a route without axes.
std::set<std::string> NamesOf(const AuditLimit& limit, const Sums& sums) {
  std::set<std::string> out = NamesIn(limit.over);
  std::erase_if(
      out, [&](const std::string& name) { return !sums.axes.contains(name); });
  return out.empty() ? NamesIn(AxesText({})) : out;
}

Excess SentOf(const AuditLimit& limit, const Sums& sums) {
  Excess out{&limit, 0, {}};
  if (limit.of == "total" || limit.of == "activations_gathered") {
    const Sums::Part& part =
        limit.of == "total" ? sums.total : sums.activations_gathered;
    out.sent = part.bytes;
    out.most = part.most;
    return out;
  }
  int64_t largest = 0;
  const std::set<std::string> names = NamesOf(limit, sums);
  for (const auto& [route, part] : sums.routes) {
    if (route.first != limit.of ||
        (!limit.over.empty() && NamesIn(route.second) != names)) {
      continue;
    }
    out.sent = CheckedAdd(out.sent, part.bytes).value_or(INT64_MAX);
    if (part.bytes > largest) out.most = part.most;
    largest = std::max(largest, part.bytes);
  }
  return out;
}

}  // namespace

std::vector<std::string> AxesIn(std::string_view over) {
  std::vector<std::string> names = {""};
  for (const char c : over) {
    if (c == '+') {
      names.emplace_back();
    } else if (c != ' ') {
      names.back() += c;
    }
  }
  return names;
}

Sums SumsOf(const Report& report) {
  Sums out;
  if (report.mesh) {
    for (const MeshAxis& axis : report.mesh->axes) {
      if (axis.size > 1) out.axes.insert(axis.name);
    }
  }
  std::map<TrafficRoute, Summer> routes;
  Summer total(out.total), activations(out.activations_gathered);
  for (const Traffic& one : report.traffic) {
    TrafficRoute route = RouteOf(one);
    Sums::Part& part = out.routes[route];
    routes.try_emplace(std::move(route), part).first->second.Add(one);
    total.Add(one);
    if (one.kind == Collective::kAllGather &&
        one.moved.what == What::kActivation) {
      activations.Add(one);
    }
  }
  return out;
}

std::vector<std::string_view> LimitedCollectives() {
  std::vector<std::string_view> out;
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    out.push_back(CollectiveName(static_cast<Collective>(i)));
  }
  return out;
}

std::vector<Excess> OverBudget(std::span<const AuditLimit> limits,
                               const Sums& sums) {
  std::vector<Excess> out;
  for (const AuditLimit& limit : limits) {
    Excess excess = SentOf(limit, sums);
    if (excess.sent > limit.bytes) out.push_back(std::move(excess));
  }
  return out;
}

}  // namespace shardc::audit
