// Converts the output of `shardc verify --format json` for a plan's mesh to
// tables of the report page: attention cases by operation and mode, and the
// collectives of complete steps.
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
  bool failed = false;  // whether a case or step failed
};

// Reads a file of results. Returns nullopt after a finding in these cases: the
// file or its JSON cannot be read, the schema or the mesh in it is not valid,
// or the results are for another mesh than `mesh`.
std::optional<Verified> ReadVerified(const std::string& path, const Mesh& mesh,
                                     Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFIED_H_
