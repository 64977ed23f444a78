// Room: emit. Plans and findings to bytes, one file per format, listed in
// table.cc. Knows source, model, plan, cost and the result types of lint and
// verify.
#ifndef SHARDC_EMIT_EMIT_H_
#define SHARDC_EMIT_EMIT_H_

#include <span>
#include <string>

#include "plan/plan.h"
#include "source/finding.h"

namespace shardc {

// shardc.plan/v1, with `diagnostics` when there are findings to carry.
std::string PlanJson(const Plan& plan, std::span<const Finding> diagnostics);

// The SHA-256 of the plan's meaning as canonical JSON (RFC 8785), as
// "sha256:" and 64 hex digits. Field layout: CONTRACT, fine print.
std::string FingerprintInput(const Plan& plan);

struct TextStyle {
  bool color = false;
};
// One finding as people read it: level, code, message, place, source line
// with a caret, labels, help.
std::string FindingText(const Finding& finding, const TextStyle& style);

}  // namespace shardc

#endif  // SHARDC_EMIT_EMIT_H_
