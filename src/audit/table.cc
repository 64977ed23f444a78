// Adds up the traffic of a report into the rows of a table. A table is either
// by one property of the collectives, such as their source line, or by all
// properties (By::kAll). By one property, a row is the sum of all collectives
// with the same value of this property. By all properties, a row is the sum of
// the collectives for which all properties are the same except the scope (the
// named scopes of the program, such as `layer/attn`). For example, a table by
// kind has two rows:
//
//   all_gather  12 times,  96 KiB
//   all_reduce  17 times, 265 KiB
#include "audit/table.h"

#include <algorithm>
#include <unordered_map>

namespace shardc::audit {
namespace {

std::string KeyOf(const Traffic& one, By by) {
  switch (by) {
    case By::kLine:
      return LineText(one.line);
    case By::kParameter:
      return MovedText(one.moved);
    case By::kAxes:
      return one.members->text;
    case By::kKind:
      return std::string(CollectiveName(one.kind));
    case By::kScope:
      return one.scope.empty() ? "-" : one.scope;
    case By::kAll:
      break;
  }
  std::string out;
  for (const std::string& part :
       {std::string(CollectiveName(one.kind)), one.members->text,
        std::string(PhaseName(one.phase)), MovedText(one.moved),
        one.moved.shape, LineText(one.line)}) {
    out += part + '\n';
  }
  return out;
}

}  // namespace

std::optional<By> ParseBy(std::string_view name) {
  const auto* found = std::ranges::find(kByNames, name);
  if (found == std::end(kByNames)) return std::nullopt;
  return static_cast<By>(found - std::begin(kByNames));
}

std::string LineText(const hlo::SourceLine& line) {
  if (line.file.empty()) return "-";
  std::string out = std::string(line.file) + ":" + std::to_string(line.line);
  if (!line.function.empty()) out += " " + std::string(line.function);
  return out;
}

std::string MovedText(const Moved& moved) {
  const std::string what(WhatName(moved.what));
  if (moved.what == What::kGradient && !moved.name.empty()) {
    return what + " of " + moved.name;
  }
  return moved.name.empty() ? what : moved.name;
}

std::vector<Row> Tabulate(const Report& report, By by) {
  std::vector<Row> rows;
  std::unordered_map<std::string, size_t> row_of;
  for (const Traffic& one : report.traffic) {
    const auto [found, added] = row_of.try_emplace(KeyOf(one, by), rows.size());
    if (added) rows.push_back({found->first, &one, 0, 0, 0, {}});
    Row& row = rows[found->second];
    row.times += one.times.value();
    row.calls += one.calls.value();
    row.sent += one.sent.value();
    if (one.seconds) row.seconds = row.seconds.value_or(0) + *one.seconds;
  }
  std::ranges::stable_sort(rows, [](const Row& a, const Row& b) {
    return a.sent != b.sent ? a.sent > b.sent : a.key < b.key;
  });
  if (by == By::kAll) {
    for (Row& row : rows) row.key.clear();
  }
  return rows;
}

}  // namespace shardc::audit
