// The state while the lines of a description's model section are written as
// ops: the graph so far, the settings of the model and of the current layer,
// and the values of the variables. build.cc sets this state; the functions of
// line_ops.h read and change it.
#ifndef SHARDC_STEP_BUILD_CONTEXT_H_
#define SHARDC_STEP_BUILD_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/axis_rules.h"
#include "model/model_description.h"
#include "source/finding.h"
#include "step/attention.h"
#include "step/build.h"
#include "step/graph_writer.h"
#include "step/label_table.h"
#include "step/lines.h"
#include "step/macros.h"
#include "step/parameters.h"
#include "step/settings.h"
#include "step/streams.h"

namespace shardc::step {

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

}  // namespace shardc::step

#endif  // SHARDC_STEP_BUILD_CONTEXT_H_
