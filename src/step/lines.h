// The expressions and the lines of a description's model section. Expressions
// are evaluated for a model's config.json; their values are sizes, numbers,
// names and conditions, some of which depend on the number of the layer. In
// lines, all names are resolved to variables, roles, dimensions and numbers.
#ifndef SHARDC_STEP_LINES_H_
#define SHARDC_STEP_LINES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "families/description.h"
#include "families/evaluate.h"
#include "model/model_description.h"
#include "model/project.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::step {

// Evaluates the expressions in a description's model section for a model's
// config.json. The values are sizes, numbers, names and conditions. Some
// expressions depend on the number of the layer.

class Formulas {
 public:
  // Keeps a reference to `findings` and copies the other arguments. Without a
  // configuration, an expression that needs the configuration has no value.
  static std::unique_ptr<Formulas> Make(const ModelDescription& description,
                                        const ModelConfig* config,
                                        Findings& findings);

  // Sets the value of `i`, the layer number in expressions; -1 outside of
  // layers.
  void SetLayer(int64_t layer);
  // Sets the size of a dimension, for sizes that are inferred from shapes.
  void SetDim(const std::string& name, int64_t size);

  // Returns the value of an expression as an integer. Reports an error and
  // returns nullopt if the value is not an integer.
  std::optional<int64_t> Integer(const DescribedText& text);
  // Returns the size of one of the description's dimensions. Returns nullopt,
  // without reporting an error, if the size is unknown.
  std::optional<int64_t> Dim(std::string_view name);
  // Returns a dimension's size if SetDim() has set it, if Dim() has computed
  // it, or if the description gives it as a number. Does not evaluate
  // expressions.
  std::optional<int64_t> Known(std::string_view name) const;
  // Real and Word return nullopt if the value is null or needs a configuration
  // that is missing. They report an error and return nullopt if the value has
  // another type or is out of range.
  std::optional<double> Real(const DescribedText& text);
  std::optional<std::string> Word(const DescribedText& text);
  bool Condition(const DescribedText& text);
  // Returns whether an expression depends on the layer number `i`.
  bool DependsOnLayer(const DescribedText& text);
  // Returns the value of a key of the configuration if it is a number. Reports
  // an error and returns nullopt if the number is too large.
  std::optional<double> Key(const std::string& name);

  bool has_config() const { return has_config_; }

 private:
  Formulas() = default;
  const families::Expression* Parsed(const DescribedText& text);
  std::optional<families::Value> Value(const DescribedText& text);
  // Returns the number. Reports an error and returns nullopt if its absolute
  // value exceeds kLargestModelNumber.
  std::optional<double> Bounded(const JsonValue& number,
                                const std::string& text);
  // Returns the evaluator for settings. Without a configuration, settings that
  // need one are absent. This is not an error, so `quiet_` reports nothing.
  families::Evaluator& Settings() { return has_config_ ? *loud_ : *quiet_; }

  Findings* findings_ = nullptr;
  // Receives errors about settings that are absent because there is no
  // config.json. These errors are not reported.
  Findings unsaid_;
  families::Description family_;
  std::unique_ptr<const JsonDocument> document_;
  std::unique_ptr<families::Evaluator> loud_, quiet_;
  // The parsed expressions by their text; nullopt for an expression with a
  // syntax error, which is reported once.
  std::map<std::string, std::optional<families::Expression>, std::less<>>
      parsed_;
  std::map<std::string, int64_t, std::less<>> dims_;
  bool has_config_ = false;
  bool bound_ = false;
};

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
  kFunction,  // a function of writer.h, with an optional constant
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
