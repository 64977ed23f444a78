// The inputs of `shardc audit` for a target: the text of its compiled program,
// the committed summary of what the program sends, and the budget.
#ifndef SHARDC_MODEL_AUDIT_INPUT_H_
#define SHARDC_MODEL_AUDIT_INPUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "source/source.h"

namespace shardc {

// One limit of an audit's budget. It bounds the bytes that one device sends in
// some of the program's collectives.
struct AuditLimit {
  // Which collectives are limited: "total" (all), "activations_gathered"
  // (all-gathers of activations), or one kind of collective such as
  // "all_gather".
  std::string of;
  // The mesh axes of the limited collectives, joined by `+`; empty if the limit
  // covers collectives over any axes.
  std::string over;
  int64_t bytes = 0;  // The largest number of bytes that one device may send.
  Place place;        // Where the project file gives `bytes`, for messages.
};

struct AuditInput {
  std::string program;  // The path of the file with the program's text.
  // The path of the committed summary; empty if the target has none.
  std::string locked;
  std::vector<AuditLimit> limits;
};

}  // namespace shardc

#endif  // SHARDC_MODEL_AUDIT_INPUT_H_
