// Limits of work that a small input can ask for: a number in a file is enough
// to make a tree of a million tensors. The count is compared with its limit
// before the work begins, so that a refusal takes no longer than reading the
// file, and the message states what is counted.
#ifndef SHARDC_SOURCE_WORK_H_
#define SHARDC_SOURCE_WORK_H_

#include <cstdint>
#include <string_view>

#include "source/finding.h"
#include "source/size.h"

namespace shardc {

struct WorkLimit {
  std::string_view holder;  // "a model"
  std::string_view unit;    // "layers"
  int64_t most = 0;
};

// Of the table of limits in shardc(1). The largest published models have fewer
// than 200 layers and 150,000 tensors.
inline constexpr WorkLimit kModelLayers = {"a model", "layers", 10'000};
inline constexpr WorkLimit kTreeTensors = {"a described tree", "tensors",
                                           200'000};
inline constexpr WorkLimit kTreeModules = {"a described tree", "modules",
                                           1'000'000};
// What a script's variables, a function's base and nested sections repeat.
inline constexpr WorkLimit kConfigWords = {"a configuration",
                                           "words and settings", 200'000};
inline constexpr WorkLimit kConfigBytes = {
    "a configuration", "bytes of words and settings", 16'777'216};

// Returns whether the count is within the limit. Otherwise adds the error
// `limit` at `place`: "`num_hidden_layers` makes 100,000 layers, and a model
// has at most 10,000". `subject` is `num_hidden_layers` makes.
bool Allows(const WorkLimit& limit, Size count, std::string_view subject,
            const Place& place, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_SOURCE_WORK_H_
