// A finding about a compiled program. The file position is added later, because
// it is not known here.
#ifndef SHARDC_AUDIT_FLAW_H_
#define SHARDC_AUDIT_FLAW_H_

#include <string>
#include <string_view>

#include "hlo/frames.h"
#include "source/audit_code.h"

namespace shardc::audit {

struct Flaw {
  const Code* code = nullptr;  // of AuditCodes(), never null
  Level level = Level::kWarning;
  std::string message, help;
  hlo::SourceLine line;       // of the user's files; may be unknown
  std::string_view at;        // the instruction's name in the text
  std::string parameter;      // may be empty
  std::string_view metadata;  // of the text; Frames::StackOf reads it
};

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_FLAW_H_
