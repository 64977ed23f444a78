// Builds a training, prefill or decoding step of a model as a graph of ops over
// named dimensions. The inputs are the description of the model family, a
// config.json and the parameters. This header builds the forward pass; op_def.h
// has what appends the backward pass and the optimizer.
//
//   auto step = BuildForward(*rules.model, &config, manifest, Mode::kTrain,
//                            findings);
//   Differentiate(step->graph);
//   AppendOptimizer(step->graph);
//   const Sizes sizes = RealSizes(*step, batch, length);
#ifndef SHARDC_STEP_BUILD_H_
#define SHARDC_STEP_BUILD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/axis_rules.h"
#include "model/manifest.h"
#include "model/model_description.h"
#include "model/project.h"
#include "model/step_graph.h"
#include "source/finding.h"
#include "step/graph_writer.h"
#include "step/macros.h"
#include "step/roles.h"

namespace shardc::step {

struct StepModel {
  Graph graph = {};
  // The size of each label, indexed by LabelId. The sizes of the description's
  // dimensions and of counts such as the experts per token are set. Sizes that
  // depend on the batch or on the number of tokens are 0 here; RealSizes()
  // computes these sizes.
  Sizes sizes = {};
  // The capacity factor of experts: the number of slots in an expert's queue,
  // divided by tokens * top_k / experts. 0 means no limit.
  double capacity = 0;
  // The number of the encoder's tokens; 0 means the same number as the
  // decoder's.
  int64_t encoder_length = 0;
};

// Builds the forward graph of a mode. The mode in which a prompt is inserted
// (kInsert) is built as decoding. Reports errors and returns nullopt if, for
// example, a parameter has no role, a shape does not match its role's
// dimensions, or a line of the description cannot be resolved.
//
// `config` may be null if the parameters determine every size. If `only_layers`
// is not empty, only these layers are built, and they keep their numbers.
// `roles` is the result of an earlier AssignRoles(). If it is null,
// BuildForward() assigns the roles.
std::optional<StepModel> BuildForward(
    const ModelDescription& description, const ModelConfig* config,
    const Manifest& manifest, Mode mode, Findings& findings,
    const std::vector<int32_t>& only_layers = {},
    const AttentionForm& attention = {}, const Roles* roles = nullptr);

// Returns whether the model has a step of this mode. A model that is not causal
// has no decode and insert steps.
bool HasMode(const ModelDescription& description, const ModelConfig* config,
             Mode mode);

// Creates the parameters of a step: an input of the graph for each role and
// layer, or for each role outside of layers. A role that is tied to another
// role may use the other role's input, and layers may share an input.

class Parameters {
 public:
  // Keeps references to all arguments.
  Parameters(const ModelDescription& description, const Roles& roles,
             GraphWriter& write)
      : description_(description), roles_(roles), write_(write) {}

  // Creates the inputs for parameters outside of layers and for the layers in
  // `only_layers`, which are all layers if it is empty. Also creates the inputs
  // of a layer whose parameters other layers share.
  void Make(std::span<const int32_t> only_layers, LabelTable& labels);

  // Returns the parameter of a role in a layer, or kNoValue if there is none.
  // If the role is shared and the layer lacks it, returns the parameter of the
  // first layer of the stack. If the role is tied to another role and has no
  // parameter, returns the other role's parameter. `layer` is -1 outside of
  // layers.
  ValueId Of(int32_t role, int32_t layer) const;
  // Returns the parameter of the role ROLE.bias, where ROLE is the name of
  // `role`, or kNoValue.
  ValueId BiasOf(int32_t role, int32_t layer);
  // Returns the index of the role with this name, or -1.
  int32_t RoleNamed(std::string_view name) const;

 private:
  bool Serves(size_t role, int64_t layer) const;
  bool AnyRow(size_t role) const;
  void MakeOne(size_t role, int32_t layer, const Labels& labels,
               const std::vector<size_t>& leads);

  const ModelDescription& description_;
  const Roles& roles_;
  GraphWriter& write_;
  // The input of each role and layer, indexed by role and layer.
  std::vector<ValueId> values_;
  // Maps a role to the role of its bias, or to -1 if it has none.
  std::map<int32_t, int32_t> biases_;
};

// Returns whether the ops of a layer are written, that is, whether
// `only_layers` is empty or contains the layer.
bool IsWritten(std::span<const int32_t> only_layers, int32_t layer);

// Removes from a forward graph the ops and data on which neither the loss nor
// the logits nor the caches depend, and renumbers the values. Parameters are
// not removed, because devices hold them.
void Prune(Graph& graph);

// The tokens that a stack of layers processes.
struct Stream {
  LabelId query = kNoLabel, key = kNoLabel;
  ValueId ids = kNoValue, positions = kNoValue;
  // The positions that attention reads. Make() sets key_positions in decoding
  // and for kernels; otherwise MakeKeyPositions() sets it.
  ValueId query_positions = kNoValue, key_positions = kNoValue;
  // Positions that are the same in all sequences of a batch, so they have no
  // batch label. Set by MakePlaces().
  ValueId places = kNoValue, key_places = kNoValue;
  bool causal = true;
};

class Streams {
 public:
  explicit Streams(GraphWriter& write) : write_(write) {}

  // Creates the streams (token inputs) of all stacks. With `per_row`, each
  // sequence has one label for training; otherwise each token has one. If
  // `view` is not kGlobal, the queries and the keys of attention have separate
  // inputs for their positions.
  void Make(size_t stacks, Mode mode, bool per_row, AttentionView view);

  Stream& operator[](size_t stack) { return streams_[stack]; }
  // Returns the stack whose tokens a value has.
  size_t StackOf(ValueId value) const;

  ValueId NewData(DataKind kind, std::string name, Labels labels, bool integral,
                  std::string_view constraint);
  // MakeKeyPositions computes the positions of a stream's keys from the
  // positions of its queries. MakePlaces creates an input for positions that
  // are the same in all sequences (Stream::places), and computes `key_places`
  // from it. The ops of both functions belong to no layer. A second call for
  // the same stream has no effect.
  void MakeKeyPositions(Stream& of);
  void MakePlaces(Stream& of);

  // The labels and the weights of the training loss; kNoValue in other modes.
  ValueId labels() const { return labels_; }
  ValueId weights() const { return weights_; }

 private:
  void MakeEncoder();
  void MakeOwnPositions(Mode mode);
  void MakeKeys(const Stream& of, ValueId queries, ValueId& keys);

  GraphWriter& write_;
  std::vector<Stream> streams_;  // One stream for each stack, indexed by stack.
  ValueId labels_ = kNoValue, weights_ = kNoValue;
};

// Appends the optimizer, with the settings of `graph.adam`, to a graph with
// gradients. Adds the moments as inputs of the step, and sets `gradient_norm`,
// `updated` and `updated_moments`. Parameters without a gradient have no
// moments and no updates. If there are no gradients, nothing is appended. The
// sharding constraint of new parameters and moments is `new:ROLE`.
void AppendOptimizer(Graph& graph);

// The parameters whose squared gradients one rank of a pipeline adds up.
struct NormPart {
  std::vector<size_t> parameters = {};
  int32_t rank = 0;
  ValueId sum = kNoValue;  // The sum of the squares; set by AppendOptimizer().
};
// Appends the optimizer for a pipeline. Each rank adds the squares of the
// gradients of the parameters in its parts. Then the sums of all ranks are
// added. A parameter that is in no part is left out of the norm.
void AppendOptimizer(Graph& graph, std::vector<NormPart>& parts);

}  // namespace shardc::step

#endif  // SHARDC_STEP_BUILD_H_
