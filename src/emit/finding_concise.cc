#include "emit/finding_formats.h"
#include "source/wording.h"

namespace shardc {

std::string FindingsConcise(const FindingReport& report) {
  std::string out;
  for (const Finding& finding : report.findings) {
    const std::string place = Printable(finding.place.ToString());
    out += place.empty() ? "shardc" : place;
    out += ": " + std::string(LevelName(finding.level)) + ": " +
           Printable(finding.message) + " [" + finding.code->Id() + "]\n";
  }
  return out;
}

}  // namespace shardc
