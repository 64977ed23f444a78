// What `shardc verify --format json` wrote of a plan's mesh, as tables of a
// page: attention's cases by operation and mode, and the collectives of whole
// steps.
#ifndef SHARDC_CLI_VERIFIED_H_
#define SHARDC_CLI_VERIFIED_H_

#include <optional>
#include <string>
#include <vector>

#include "emit/report/report.h"
#include "model/mesh.h"
#include "source/finding.h"

namespace shardc::cli {

struct Verified {
  std::vector<report::Table> tables;
  bool failed = false;  // a case or a step
};

// Findings: those of reading a file and its JSON, schema (also another mesh's,
// and a self-test).
std::optional<Verified> ReadVerified(const std::string& path, const Mesh& mesh,
                                     Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFIED_H_
