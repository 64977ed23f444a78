// Reads the settings in a description's model section for norms, activations,
// attention, routers and rotary embeddings, for the model and for each layer.
#ifndef SHARDC_STEP_SETTINGS_H_
#define SHARDC_STEP_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/axis_rules.h"
#include "model/model_description.h"
#include "model/project.h"
#include "model/step_graph.h"
#include "source/finding.h"
#include "step/attention.h"
#include "step/formulas.h"
#include "step/label_table.h"
#include "step/macros.h"

namespace shardc::step {

struct ModelSettings {
  NormSettings norm;
  Activation activation;
  AttentionSettings attention;
  bool causal = true;
  // The scale of attention scores; 0 means 1 / sqrt(size of the contracted
  // label).
  double scale = 0;
  RouterSettings router;
  RouterLosses router_losses;
  // The role of the bias for choosing experts; empty if there is none.
  std::string correction;
  // The capacity factor of the experts' queues; 0 means no limit.
  double capacity = 0;
  // The number of the encoder's tokens; 0 means as many as the decoder's.
  int64_t encoder_length = 0;
  Rope rope;
};

struct LayerSettings {
  bool windowed = false, chunked = false;
  bool rotates = true;  // Whether the layer applies rotary embeddings.
  Rope rope;
};

class SettingsReader {
 public:
  // Keeps references to all arguments. `config` may be null.
  SettingsReader(const ModelDescription& description, const ModelConfig* config,
                 Formulas& formulas, Findings& findings)
      : description_(description),
        config_(config),
        formulas_(formulas),
        findings_(findings) {}

  // Reads the model's settings, and creates the dimension labels of expert
  // routing, such as `top_k` for the experts of a token. Reports errors and
  // returns nullopt if, for example, a setting has an unknown value or
  // contradicts another setting.
  std::optional<ModelSettings> Read(Mode mode, AttentionView view,
                                    CommonLabels& common, LabelTable& labels);
  // Reads the settings of a layer. The first layer whose attention has a window
  // also creates the dimension label whose size is the window's length. `layer`
  // is the layer's number within its stack. Returns nullopt if an error was
  // reported.
  std::optional<LayerSettings> ReadLayer(int32_t layer,
                                         const ModelSettings& model,
                                         CommonLabels& common,
                                         LabelTable& labels);

  // Number and Holds evaluate a single setting. If the description lacks the
  // setting, Number returns nullopt and Holds returns `otherwise`.
  std::optional<double> Number(std::string_view key);
  bool Holds(std::string_view key, bool otherwise);
  // Returns the value of a constant of the description, or of a key of the
  // configuration.
  std::optional<double> Constant(const std::string& word);

 private:
  std::optional<std::string> WordOf(std::string_view key,
                                    std::span<const std::string_view> choices);
  void Refuse(std::string_view key, const std::string& message);
  void ReadActivation(Activation& activation);
  void ReadExperts(ModelSettings& out, CommonLabels& common,
                   LabelTable& labels);
  void ReadRouter(RouterSettings& router, const CommonLabels& common,
                  LabelTable& labels);
  void ReadGroups(RouterSettings& router, LabelTable& labels);
  void ReadEncoder(AttentionView view, ModelSettings& out);
  void ReadRope(Rope& rope) const;
  void ReadWindow(LayerSettings& out, CommonLabels& common, LabelTable& labels);

  const ModelDescription& description_;
  const ModelConfig* const config_;
  Formulas& formulas_;
  Findings& findings_;
  bool failed_ = false;
};

}  // namespace shardc::step

#endif  // SHARDC_STEP_SETTINGS_H_
