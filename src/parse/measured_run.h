// Reads a file that describes a measured run: the inputs of the command `cost`,
// and the measured time of a training step.
#ifndef SHARDC_PARSE_MEASURED_RUN_H_
#define SHARDC_PARSE_MEASURED_RUN_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/finding.h"
#include "source/source.h"

namespace shardc {

struct MeasuredRun {
  std::string name;  // the file's name if the run states none
  std::string mesh, manifest, model;
  std::vector<std::string> rules;
  // `options` has the given options of `cost` that take a value, such as
  // {"--grad-dtype", "float32"}. `flags` has the names of the given options
  // that take no value.
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<std::string> flags;
  // The place of each value in the file, keyed by the option of `cost`, such as
  // `--mesh`.
  std::map<std::string, Place> places;
  // The measured time. Exactly one of the two members is set.
  std::optional<double> step_s, tokens_per_second_per_device;
  Place place;  // place of the time in the file
};

// Reads the file. Paths in the file are relative to its folder. They are
// returned relative to the working directory. Returns nullopt after a finding.
std::optional<MeasuredRun> ParseMeasuredRun(SourceRef source,
                                            Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_MEASURED_RUN_H_
