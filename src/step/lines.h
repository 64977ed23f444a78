// A description's lines with their names looked up once: variables, roles,
// dimensions and numbers.
#ifndef SHARDC_STEP_LINES_H_
#define SHARDC_STEP_LINES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/model_description.h"
#include "source/finding.h"

namespace shardc::step {

enum class LineOp : uint8_t {
  kLookup,
  kRows,      // of a value that is a table
  kPatches,   // data, contracted with a role but for the dimension that is left
  kToken,     // one of them
  kFrames,    // data, several a token
  kConvolve,  // along tokens, by a role; of several frames a token one
  kLinear,
  kRmsNorm,
  kLayerNorm,
  kGated,       // gate by the model's activation, times up
  kGatedFused,  // the same of one weight, (z f)
  kSwiglu,
  kGeglu,
  kActivation,
  kFunction,  // with a number or a constant behind it: by that
  kTake,      // a role's parameter itself
  kAdd,
  kMultiply,
  kScale,
  kDivide,
  kRoot,  // times the root of a dimension's size, or another power of it
  kCap,
  kPart,
  kIndex,
  kRename,  // a dimension, by one of its size
  kRope,
  kAttention,
  kAttentionNear,  // with a table by how far apart query and key are
  kMoe,
  kMoeFused,
};

struct LineArgument {
  std::vector<int32_t> variables = {};  // `qn + qr` has two
  int32_t role = -1;
  std::vector<int32_t> dims = {};
  double number = 0;
  std::string word = {};  // a function, a constant, a key of the config.json
};

struct Line {
  LineOp op = LineOp::kAdd;
  std::vector<int32_t> results = {};
  std::vector<LineArgument> arguments = {};
  std::string name = {};  // as the report tells it: `linear q`
  std::string constraint = {};
  const DescribedLine* described = nullptr;
};

struct LineStack {
  std::vector<Line> begin = {}, layer = {}, end = {};
};
struct Lines {
  std::vector<LineStack> stacks = {};       // as the description's
  std::vector<std::string> variables = {};  // 0: ids, 1: pos
};
inline constexpr int32_t kIdsVariable = 0;
inline constexpr int32_t kPositionsVariable = 1;

// Findings: an op that does not exist, too few or too many arguments, a name
// that is nothing.
std::optional<Lines> ResolveLines(const ModelDescription& description,
                                  Findings& findings);

}  // namespace shardc::step

#endif  // SHARDC_STEP_LINES_H_
