// The inputs of an audit: the compiled program of a target, its committed
// summary, and its budget.
#ifndef SHARDC_MODEL_AUDIT_INPUT_H_
#define SHARDC_MODEL_AUDIT_INPUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "source/source.h"

namespace shardc {

// One limit of the budget: the bytes that a compiled program may send at most.
struct AuditLimit {
  // What is limited: "total", "activations_gathered", or a kind of collective
  // such as "all_gather".
  std::string of;
  std::string over;   // axes joined by `+`; empty if the limit is for any axes
  int64_t bytes = 0;  // the most bytes that a device may send
  Place place;        // of the number
};

struct AuditInput {
  std::string program;  // path of the program's text
  std::string locked;   // path of the committed summary; or empty
  std::vector<AuditLimit> limits;
};

}  // namespace shardc

#endif  // SHARDC_MODEL_AUDIT_INPUT_H_
