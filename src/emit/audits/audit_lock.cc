// Writes the committed summary of an audit, which lists the collectives of a
// compiled program. Collectives that send bytes share one entry if they have
// the same kind and axes and send the same tensor in the same function. For
// example, all gathers of the parameter `up` in the function `layer` share this
// entry:
//
//   {"collective": "all_gather", "axes": ["fsdp"], "group_size": 2,
//    "bytes_per_device": 98304, "what": "parameter", "parameter": "up",
//    "shape": "f32[32,64]", "line": {"function": "layer"}}
//
// An entry has neither line numbers nor the number of its collectives, because
// both change with the compiler and with edits of other code.
#include "emit/audits/audit_lock.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "audit/growth.h"
#include "audit/lock.h"
#include "emit/audits/group_json.h"
#include "source/checked.h"
#include "source/json_writer.h"

namespace shardc {
namespace {

using audit::Traffic;

struct Entry {
  const Traffic* first = nullptr;
  int64_t bytes = 0;
};

void WriteEntry(JsonWriter& json, const Entry& entry) {
  const Traffic& one = *entry.first;
  json.BeginObject();
  WriteGroup(json, one);
  json.Member("bytes_per_device", entry.bytes);
  json.Member("what", audit::WhatName(one.moved.what));
  json.TextOrNull("parameter", one.moved.name);
  json.Member("shape", one.moved.shape);
  json.Key("line");
  json.BeginObject();
  json.TextOrNull("function", one.line.function);
  json.EndObject();
  json.EndObject();
}

}  // namespace

void WriteAuditLock(const audit::Report& report, bool scheduled, Sink& out) {
  using Key = std::tuple<audit::TrafficRoute, audit::What, std::string,
                         std::string, std::string_view>;
  std::map<Key, Entry> entries;
  for (const Traffic& one : report.traffic) {
    if (one.sent.value() == 0) continue;
    Entry& entry = entries[{audit::RouteOf(one), one.moved.what, one.moved.name,
                            one.moved.shape, one.line.function}];
    if (entry.first == nullptr) entry.first = &one;
    entry.bytes += one.sent.value();
  }
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("schema", audit::kLockSchema);
  json.Member("program", report.program);
  json.Member("devices", report.devices);
  json.Member("stage", audit::StageName(scheduled));
  json.Key("collectives");
  json.BeginArray(JsonLayout::kLines);
  for (const auto& [key, entry] : entries) WriteEntry(json, entry);
  json.EndArray();
  std::set<audit::LockedFlaw> flaws;
  for (const audit::Flaw& flaw : report.flaws) {
    flaws.insert(audit::LockedOf(flaw));
  }
  json.Key("findings");
  json.BeginArray(JsonLayout::kLines);
  for (const audit::LockedFlaw& flaw : flaws) {
    json.BeginObject();
    json.Member("code", flaw.code);
    json.TextOrNull("parameter", flaw.parameter);
    json.TextOrNull("function", flaw.function);
    if (!flaw.axis.empty()) json.Member("axis", flaw.axis);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc
