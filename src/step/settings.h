// What a model's section says of norms, activations, attention, routers and
// rotations, by the config.json: of the whole model, and layer by layer.
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
  double scale = 0;  // of scores; 0: by the root of what they contract
  RouterSettings router;
  RouterLosses router_losses;
  std::string correction;  // the role added for the choice alone; empty: none
  double capacity = 0;     // of experts' queues; 0: as many as come
  int64_t encoder_length = 0;  // tokens; 0: as many as the model's own
  Rope rope;
};

struct LayerSettings {
  bool windowed = false, chunked = false;
  bool rotates = true;  // applies rotary embeddings
  Rope rope;
};

class SettingsReader {
 public:
  // What is given stays with the caller; `config` may be null.
  SettingsReader(const ModelDescription& description, const ModelConfig* config,
                 Formulas& formulas, Findings& findings)
      : description_(description),
        config_(config),
        formulas_(formulas),
        findings_(findings) {}

  // Nothing after findings: a word that is not known, what cannot be together.
  // Labels of experts and of windows are made.
  std::optional<ModelSettings> Read(Mode mode, AttentionView view,
                                    CommonLabels& common, LabelTable& labels);
  // Layers are counted in their stack.
  std::optional<LayerSettings> ReadLayer(int32_t layer,
                                         const ModelSettings& model,
                                         CommonLabels& common,
                                         LabelTable& labels);

  // Settings that a line or the loss asks for.
  std::optional<double> Number(std::string_view key);
  bool Holds(std::string_view key, bool otherwise);
  // A constant of the description, or a key of the configuration.
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
