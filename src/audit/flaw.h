// A finding about a compiled program. The caller finds its position in the
// user's file.
#ifndef SHARDC_AUDIT_FLAW_H_
#define SHARDC_AUDIT_FLAW_H_

#include <string>
#include <string_view>

#include "hlo/frames.h"
#include "source/audit_code.h"

namespace shardc::audit {

struct Flaw {
  const Code* code = nullptr;  // one of AuditCodes(), never null
  Level level = Level::kWarning;
  std::string message, help;
  hlo::SourceLine line;       // a line of the user's files; may be unknown
  std::string_view at;        // the instruction's name in the text
  std::string parameter;      // may be empty
  std::string axis;           // the unused axis; empty for other codes
  std::string_view metadata;  // `{...}` in the text, for Frames::StackOf
};

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_FLAW_H_
