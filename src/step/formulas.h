// Evaluates the expressions in a description's model section for a model's
// config.json. The values are sizes, numbers, names and conditions. Some
// expressions depend on the number of the layer.
#ifndef SHARDC_STEP_FORMULAS_H_
#define SHARDC_STEP_FORMULAS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "families/description.h"
#include "families/evaluate.h"
#include "model/model_description.h"
#include "model/project.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::step {

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

}  // namespace shardc::step

#endif  // SHARDC_STEP_FORMULAS_H_
