// Compares the bytes that a program sends with the limits of a budget. The
// bytes are added up by route (a kind of collective over a set of axes), in
// total, and for gathers of activations. A limit applies to one of these sums,
// or to the sum of several routes:
//
//   all_gather: {dp+fsdp: 1GiB}   the route all_gather over exactly dp and fsdp
//   all_gather: 1GiB              all routes of all_gather
#include "audit/budget.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "audit/table.h"
#include "source/checked.h"

namespace shardc::audit {
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
