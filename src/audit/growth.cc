// Compares an audit with an earlier audit, so that a change which adds traffic
// fails in CI. Bytes are compared for each kind of collective over each group
// of axes. The tensor whose bytes grew most is named:
//
//   before   all_gather over fsdp   gate 32 KiB
//   after    all_gather over fsdp   gate 32 KiB, activation 48 KiB
//   ->  all_gather over fsdp grew from 32 KiB to 80 KiB, most by the activation
//
// The earlier audit is read from the JSON that `shardc audit` printed, or from
// a committed summary (audit/lock.h).
#include "audit/growth.h"

#include <algorithm>

#include "audit/saved_json.h"
#include "audit/table.h"
#include "source/checked.h"
#include "source/json_members.h"

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
  if (!mesh.empty()) mesh += ' ';
  mesh += std::string(name) + "=" + std::to_string(size);
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

}  // namespace shardc::audit
