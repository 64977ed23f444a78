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

// The sums that a budget's limits apply to. They do not refer to the program,
// so they may outlive it.
struct Sums {
  struct Part {
    int64_t bytes = 0;
    std::string most;  // the largest sender: "up f32[32,64] at model.py:28"
  };
  std::map<Route, Part> routes;
  Part total, activations_gathered;
  std::set<std::string> axes;  // axes of the mesh with two coordinates or more
};
Sums SumsOf(const Report& report);

struct Excess {
  const AuditLimit* limit = nullptr;  // never null
  int64_t sent = 0;                   // bytes that the busiest device sends
  std::string most;
};

// Returns the names of the axes in a text such as "dp + fsdp".
std::vector<std::string> AxesIn(std::string_view over);

// Returns the limits that are exceeded, in their order. A limit with axes
// applies to collectives over exactly these axes. Their order does not matter,
// and axes of size 1 are ignored. A limit without axes applies to the sum over
// all sets of axes.
std::vector<Excess> OverBudget(std::span<const AuditLimit> limits,
                               const Sums& sums);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_BUDGET_H_
