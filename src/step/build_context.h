// The state while the lines of a description's model section are written as
// ops: the graph so far, the settings of the model and of the current layer,
// and the values of the variables. build.cc sets this state; the functions of
// build_context.cc read and change it.
#ifndef SHARDC_STEP_BUILD_CONTEXT_H_
#define SHARDC_STEP_BUILD_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/axis_rules.h"
#include "model/model_description.h"
#include "model/project.h"
#include "model/step_graph.h"
#include "source/finding.h"
#include "step/build.h"
#include "step/graph_writer.h"
#include "step/lines.h"
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

struct BuildContext {
  // The mode kInsert (insertion of a prompt) is built as decoding.
  BuildContext(const ModelDescription& description, Mode of,
               Findings& all_findings, const AttentionForm& of_attention)
      : mode(of == Mode::kInsert ? Mode::kDecode : of),
        findings(all_findings),
        form(of_attention),
        labels(description, out.graph, out.sizes),
        write(out.graph),
        streams(write) {}
  BuildContext(const BuildContext&) = delete;
  BuildContext& operator=(const BuildContext&) = delete;

  Graph& graph() { return out.graph; }
  Stream& stream() { return streams[stack]; }

  // Returns the value of an argument's first variable, or kNoValue if the line
  // has no such argument or the value does not exist in this layer.
  ValueId Value(const Line& line, size_t i) const;
  // RoleValue returns the parameter of the role that the argument names, in
  // this layer. BiasOf returns the bias of that role. Both return kNoValue if
  // the layer has no such parameter.
  ValueId RoleValue(const Line& line, size_t i);
  ValueId BiasOf(const Line& line, size_t i);
  // Returns the value of an argument: a number, a constant of the description,
  // or a key of the configuration. Returns nullopt if the configuration lacks
  // the key.
  std::optional<double> Constant(const LineArgument& by);
  // Reports an error in a line. No further lines are written after an error.
  void Fail(const Line& line, const std::string& message);

  const Mode mode;
  Findings& findings;
  const AttentionForm form;
  StepModel out = {};
  LabelTable labels;
  GraphWriter write;
  Streams streams;
  std::optional<SettingsReader> reader = {};
  std::optional<Parameters> parameters = {};
  ModelSettings settings = {};
  LayerSettings layer_settings = {};
  // The current value of each variable, indexed by Lines::variables.
  std::vector<ValueId> variables = {};
  // The index of the layer stack that is being written.
  size_t stack = 0;
  // The layer that is being written, counted through all stacks; -1 outside of
  // layers.
  int32_t layer = -1;
  bool failed = false;

  // The position biases that have been created, so that layers with the same
  // table share them. A key is the table of the biases, and a number for the
  // stacks (decoder 0, encoder 1) of queries and keys: 2 * (stack of queries) +
  // (stack of keys).
  std::map<std::pair<ValueId, size_t>, ValueId> near = {};
  // A label whose size is a distance between a query and a key, the setting
  // `distance`. All keys that are at least this far from the query have the
  // same position bias, except that keys before and after the query may have
  // different biases.
  LabelId distance = kNoLabel;
  // The label for the frames of one token of an audio model. Its size is the
  // number of these frames.
  LabelId frames = kNoLabel;
  // The composite label of KV heads and their copies, (k copies).
  LabelId copied_heads = kNoLabel;
  // Whether the labels for ring attention or copied KV heads were created.
  bool made_own_labels = false;
  // The statistics of each router that has been written.
  std::vector<RouterStatistics> routers = {};
  // The role of the bias that routers add to choose experts; -1 if none.
  int32_t correction = -1;
};

// Appends the ops of a line, which must not be an `add`. All arguments of the
// line must exist, unless the line is attention, which checks its arguments
// itself. Returns the line's results. There may be fewer results than the line
// names, and some may be kNoValue. If the dimensions of operands do not match,
// c.Fail() reports an error.
std::vector<ValueId> WriteLine(BuildContext& c, const Line& line);

// Writes the line attention(..) or attention_near(..) and returns its result.
// If the mode has a cache, keys and values are written to it and read from it.
// Returns kNoValue if an operand is absent.
ValueId WriteAttention(BuildContext& c, const Line& line);
// Writes the line rope(x): rotates x [.., h] by the positions of its tokens.
ValueId WriteRope(BuildContext& c, ValueId x);
// Writes a mixture of experts, the line moe(x, ..) or moe_fused(x, ..).
ValueId WriteExperts(BuildContext& c, const Line& line, ValueId x);

// Returns x times a weight, plus the weight's bias if it has one. `role` is the
// index of the line's argument that names the role of the weight. Reports an
// error if x and the weight have no dimension in common.
ValueId CheckedLinear(BuildContext& c, const Line& line, ValueId x,
                      size_t role);

}  // namespace shardc::step

#endif  // SHARDC_STEP_BUILD_CONTEXT_H_
