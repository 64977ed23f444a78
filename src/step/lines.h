// The lines of a description's model section, with all names resolved to
// variables, roles, dimensions and numbers.
#ifndef SHARDC_STEP_LINES_H_
#define SHARDC_STEP_LINES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/model_description.h"
#include "source/finding.h"

namespace shardc::step {

enum class LineOp : uint8_t {
  kLookup,
  kRows,  // looks up rows of a table that an op has computed
  // multiplies the input patches by a weight and sums over all dimensions of
  // the weight except one
  kPatches,
  kToken,  // reads the token at a fixed index of a value
  // reads the input frames of an audio model, several for each token
  kFrames,
  // convolves a value along its tokens; may keep one frame of each token
  kConvolve,
  kLinear,
  kRmsNorm,
  kLayerNorm,
  kGated,  // activation(gate) times up, with the model's activation
  // as kGated, but one weight holds gate and up in a dimension such as (z f),
  // where z has size 2: index 0 is gate and index 1 is up
  kGatedFused,
  kSwiglu,
  kGeglu,
  kActivation,
  kFunction,  // a function of functions.h, with an optional constant
  kTake,      // reads the parameter of a role
  kAdd,
  kMultiply,
  kScale,
  kDivide,
  // multiplies by a power of a dimension's size, by default its square root
  kRoot,
  kCap,
  kPart,
  kIndex,
  kRename,  // gives a dimension the name of one of its size
  kRope,
  kAttention,
  kAttentionNear,  // with position biases, by the distance of query and key
  kMoe,
  kMoeFused,
};

struct LineArgument {
  // An argument such as `qn + qr` has two variables.
  std::vector<int32_t> variables = {};
  int32_t role = -1;
  std::vector<int32_t> dims = {};
  double number = 0;
  // The name of a function, a constant or a key of the config.json.
  std::string word = {};
};

struct Line {
  LineOp op = LineOp::kAdd;
  std::vector<int32_t> results = {};
  std::vector<LineArgument> arguments = {};
  std::string name = {};  // The name in reports, such as `linear q`.
  std::string constraint = {};
  const DescribedLine* described = nullptr;
  // The line of the description's file, counted from 1; 0 if it is unknown.
  int32_t number = 0;
};

struct LineStack {
  std::vector<Line> begin = {}, layer = {}, end = {};
};
struct Lines {
  // The stacks of layers, in the order of the description.
  std::vector<LineStack> stacks = {};
  // The names of the variables, indexed by variable.
  std::vector<std::string> variables = {};
};
inline constexpr int32_t kIdsVariable = 0;
inline constexpr int32_t kPositionsVariable = 1;

// Resolves all lines. Reports errors and returns nullopt if, for example, an op
// does not exist, a line has too few or too many arguments or results, or a
// name is unknown.
std::optional<Lines> ResolveLines(const ModelDescription& description,
                                  Findings& findings);

// The signature and the description of an op, for the reference documentation.
// `arguments` has a letter for each argument: v is a variable, r a role, d a
// dimension, n a number, and w a name or a number. Letters after `?` are
// optional, and the letter before `*` may be repeated.
struct OpText {
  std::string_view name;
  std::string_view arguments;
  std::string_view text;
};
std::vector<OpText> OpTexts();

}  // namespace shardc::step

#endif  // SHARDC_STEP_LINES_H_
