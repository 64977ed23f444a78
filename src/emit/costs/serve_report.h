// Writes the layouts that `search --serve` found, as text and as JSON
// (`shardc.serve/v1`).
#ifndef SHARDC_EMIT_COSTS_SERVE_REPORT_H_
#define SHARDC_EMIT_COSTS_SERVE_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emit/costs/search_report.h"
#include "search/serving.h"
#include "source/sink.h"

namespace shardc {

struct ServeReport {
  std::string target;
  std::string profile;
  int64_t devices = 1;
  search::ServeTargets targets;
  search::FoundServing found;
  // The proofs of the sides of the best layout, in prefill and in decode.
  struct Proof {
    Mode mode = Mode::kDecode;
    SearchProof proof;
  };
  std::vector<Proof> proofs;
  // The map of a prompt's cache between the sides of the best layout, as text;
  // empty if it is not disaggregated.
  std::string map;
};

std::string ServeReportText(const ServeReport& report);
void WriteServeJson(const ServeReport& report, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_SERVE_REPORT_H_
