// The state while the lines of a description are written: the graph so far, the
// settings of the model and of the current layer, and the values of the
// variables. build.cc fills it; the functions of line_ops.h read and change it.
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
  // The insertion of a prompt is built as decoding.
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
  // RoleValue returns the parameter that has an argument's role in this layer,
  // and BiasOf the bias of that role. Both return kNoValue if there is none.
  ValueId RoleValue(const Line& line, size_t i);
  ValueId BiasOf(const Line& line, size_t i);
  // Returns the value of a number, of a constant of the description, or of a
  // key of the configuration; nullopt if the configuration lacks the key.
  std::optional<double> Constant(const LineArgument& by);
  // Reports an error in a line. After it, no further lines are built.
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
  std::vector<ValueId> variables = {};  // indexed by Lines::variables
  size_t stack = 0;                     // the stack of layers that is written
  int32_t layer = -1;  // counted through all stacks; -1: outside layers
  bool failed = false;

  // Values and labels that several lines share, each created once. `near` has
  // the position biases. The key is their table and the stacks of queries and
  // keys, as 2 * (stack of the queries) + (stack of the keys).
  std::map<std::pair<ValueId, size_t>, ValueId> near = {};
  // A label whose size is the distance between query and key from which on the
  // position bias no longer changes.
  LabelId distance = kNoLabel;
  LabelId frames = kNoLabel;        // frames in one token of an audio model
  LabelId copied_heads = kNoLabel;  // the composite label (k copies)
  bool made_own_labels = false;  // whether the labels that `form` needs exist
  std::vector<RouterStatistics> routers = {};  // of the layers so far
  int32_t correction = -1;  // the role of the router's correction; -1: none
};

}  // namespace shardc::step

#endif  // SHARDC_STEP_BUILD_CONTEXT_H_
