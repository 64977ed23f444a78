#include "emit/findings/formats.h"
#include "source/wording.h"

namespace shardc {

void FindingsConcise(const FindingReport& report, Sink& out) {
  for (const Finding& finding : report.findings) {
    const std::string place = Printable(finding.place.ToString());
    out.Append(place.empty() ? "shardc" : place);
    out.Append(": " + std::string(LevelName(finding.level)) + ": " +
               Printable(MessageText(finding)) + " [" + finding.code->Id() +
               "]\n");
  }
}

}  // namespace shardc
