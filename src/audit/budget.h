// Compares the bytes that a program sends with the budget of its target.
#ifndef SHARDC_AUDIT_BUDGET_H_
#define SHARDC_AUDIT_BUDGET_H_

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "audit/audit.h"
#include "audit/growth.h"
#include "model/audit_input.h"

namespace shardc::audit {

// The bytes to which the limits of a budget apply. This object does not refer
// to the program and may outlive it.
struct Sums {
  struct Part {
    int64_t bytes = 0;
    std::string most;  // largest sender: "up f32[32,64] at model.py:28"
  };
  std::map<TrafficRoute, Part> routes;
  Part total, activations_gathered;
  std::set<std::string> axes;  // mesh axes of size 2 or more
};
Sums SumsOf(const Report& report);

// Returns the names of all collectives, such as all_gather. A budget may have a
// limit for each of them.
std::vector<std::string_view> LimitedCollectives();

struct Excess {
  const AuditLimit* limit = nullptr;  // never null
  int64_t sent = 0;                   // bytes that the busiest device sends
  std::string most;
};

// Returns the names of the axes in a text such as "dp + fsdp" or "dp+fsdp".
std::vector<std::string> AxesIn(std::string_view over);

// Returns the limits that are exceeded, in the order of `limits`. A limit with
// axes applies to collectives over exactly these axes, in any order. Axes of
// size 1 are ignored. A limit without axes applies to the sum over all sets of
// axes.
std::vector<Excess> OverBudget(std::span<const AuditLimit> limits,
                               const Sums& sums);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_BUDGET_H_
