// A difference between a compiled program and a plan's step, made by hand. All
// its numbers differ, so that a test finds a field that is written in the wrong
// place.
#ifndef SHARDC_TESTS_EMIT_COMPARED_STEP_H_
#define SHARDC_TESTS_EMIT_COMPARED_STEP_H_

#include <cstdint>
#include <string>
#include <utility>

#include "audit/audit.h"
#include "emit/audits/audit_report.h"

namespace shardc {

inline audit::Unmatched UnmatchedOf(Collective kind, std::string over,
                                    int64_t count, int64_t bytes,
                                    std::string reason) {
  audit::Unmatched out;
  out.kind = kind;
  out.over = std::move(over);
  out.phase = audit::Phase::kBackward;
  out.count = count;
  out.bytes = bytes;
  out.what = "linear q of layer " + std::to_string(count);
  out.reason = std::move(reason);
  return out;
}

// Returns the difference. It points to collectives of the report, which must
// have at least one.
inline StepCompared ComparedStep(const audit::Report& report) {
  StepCompared compared;
  compared.step.mode = "train";
  compared.step.batch = 3;
  compared.step.length = 5;
  compared.step.element_bytes = 2;
  compared.difference.other_bits = 32;
  compared.difference.routes = {{.kind = Collective::kAllReduce,
                                 .over = "tp",
                                 .planned_count = 2,
                                 .planned_bytes = 3072,
                                 .count = 4,
                                 .bytes = 5120,
                                 .rewrites = 3},
                                {.kind = Collective::kAllGather,
                                 .over = "dp",
                                 .planned_count = 6,
                                 .planned_bytes = 7168,
                                 .count = 6,
                                 .bytes = 7168,
                                 .same = true},
                                {.kind = Collective::kReduceScatter,
                                 .over = "fsdp",
                                 .planned_count = 14,
                                 .planned_bytes = 15360},
                                {.kind = Collective::kAllToAll,
                                 .over = "ep",
                                 .count = 16,
                                 .bytes = 17408,
                                 .rewrites = 4}};
  compared.difference.extra = {
      UnmatchedOf(Collective::kAllReduce, "tp", 8, 9216, "no `y`"),
      UnmatchedOf(Collective::kPpermute, "dp+tp", 12, 13312, "")};
  compared.difference.extra[0].from = &report.traffic.front();
  compared.difference.extra[1].from = &report.traffic.back();
  compared.difference.missing = {
      UnmatchedOf(Collective::kAllToAll, "dp", 10, 11264, "not there")};
  return compared;
}

}  // namespace shardc

#endif  // SHARDC_TESTS_EMIT_COMPARED_STEP_H_
