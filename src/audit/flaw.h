// A finding about a compiled program, without its place. The caller finds the
// place in the user's source file.
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
  hlo::SourceLine line;   // line of the user's source; may be unknown
  std::string_view at;    // the instruction's name in the program's text
  std::string parameter;  // name of the parameter; may be empty
  // The mesh axis, if the flaw is that nothing uses this axis; otherwise empty.
  std::string axis;
  // The HLO metadata of the collective, as in Traffic::metadata.
  std::string_view metadata;
};

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_FLAW_H_
