// shardc.verify/v1.
#ifndef SHARDC_EMIT_VERIFY_JSON_H_
#define SHARDC_EMIT_VERIFY_JSON_H_

#include <string>

#include "verify/report.h"
#include "verify/sabotage.h"

namespace shardc {

// Per-device metrics: all devices' values, or their minimum, mean, maximum.
enum class Metrics { kReduced, kStacked };

// One case's object.
std::string VerifyCaseJson(const verify::Case& test,
                           const verify::CaseResult& result, Metrics metrics);
std::string VerifyJson(const verify::Report& report, Metrics metrics);
// {"planted", "caught", "faults": [{"name", "family", "caught", "by"}]}
std::string SelfTestJson(const verify::SelfTest& result);

}  // namespace shardc

#endif  // SHARDC_EMIT_VERIFY_JSON_H_
