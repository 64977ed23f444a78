// Expressions of a description over a model's config.json: sizes, numbers,
// words and conditions, some of them layer by layer.
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
  // Without a configuration only what needs none has a value. All but
  // `findings` may go afterwards.
  static std::unique_ptr<Formulas> Make(const ModelDescription& description,
                                        const ModelConfig* config,
                                        Findings& findings);

  // The counter `i`; -1: outside the layers.
  void SetLayer(int64_t layer);
  // A dimension whose size is known otherwise.
  void SetDim(const std::string& name, int64_t size);

  // Nothing after a finding, and where `optional` and the value is null or
  // needs what the configuration lacks.
  std::optional<int64_t> Integer(const DescribedText& text);
  // Of one of the description's dimensions; nothing without a finding where
  // it is not known.
  std::optional<int64_t> Dim(std::string_view name);
  // The same of what was set, or is written as a number.
  std::optional<int64_t> Known(std::string_view name) const;
  // Null is nothing, without a finding.
  std::optional<double> Real(const DescribedText& text);
  std::optional<std::string> Word(const DescribedText& text);
  bool Condition(const DescribedText& text);
  // A key of the configuration as a number; nothing where it has none.
  std::optional<double> Key(const std::string& name);

  bool has_config() const { return has_config_; }

 private:
  Formulas() = default;
  const families::Expression* Parsed(const DescribedText& text);
  std::optional<families::Value> Value(const DescribedText& text);
  // Settings may be absent where all of the configuration is.
  families::Evaluator& Settings() { return has_config_ ? *loud_ : *quiet_; }

  Findings* findings_ = nullptr;
  Findings unsaid_;  // of what may be absent
  families::Description family_;
  std::unique_ptr<const JsonDocument> document_;
  std::unique_ptr<families::Evaluator> loud_, quiet_;
  // What is none was told once.
  std::map<std::string, std::optional<families::Expression>, std::less<>>
      parsed_;
  std::map<std::string, int64_t, std::less<>> dims_;
  bool has_config_ = false;
  bool bound_ = false;
};

}  // namespace shardc::step

#endif  // SHARDC_STEP_FORMULAS_H_
