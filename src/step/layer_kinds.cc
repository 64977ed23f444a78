// Finds layers that have the same ops. The ops of a layer follow from its
// parameters, its settings and the `if` conditions of its lines in the
// description. All three are read for each layer without building any op.
// Layers that agree in all three are assigned the same number:
//
//   DeepSeek-V3, dense MLPs in layers 0 to 2   ->  0 0 0 1 1 1 ...
//   Gemma 3, every sixth layer without window  ->  0 0 0 0 0 1 0 0 0 0 0 1 ...
#include "step/layer_kinds.h"

#include <bit>
#include <map>
#include <string>

#include "source/index.h"
#include "step/build_context.h"
#include "step/formulas.h"
#include "step/sizes.h"

namespace shardc::step {
namespace {

// Joins the properties of a layer to a string. Two layers have the same ops if
// their strings are equal.
class Signature {
 public:
  void Add(int64_t number) { text_ += std::to_string(number) + ","; }
  void Add(double number) { Add(std::bit_cast<int64_t>(number)); }
  void Add(const Rope& rope) {
    for (const double number :
         {rope.base, rope.factor, rope.original_length, rope.beta_fast,
          rope.beta_slow, rope.low_frequency_factor, rope.high_frequency_factor,
          rope.amplitude, rope.rotary_fraction}) {
      Add(number);
    }
    Add(int64_t{rope.truncate});
    Add(int64_t{rope.interleaved});
    text_ += rope.scaling + ",";
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void AddParameters(const Roles& roles, std::span<const uint32_t> class_of_row,
                   int32_t layer, Signature& out) {
  for (size_t role = 0; role < roles.in_layers.size(); ++role) {
    if (!roles.in_layers[role]) continue;
    const std::vector<int64_t>& rows =
        roles.RowsOf(static_cast<int32_t>(role), layer);
    out.Add(static_cast<int64_t>(rows.size()));
    if (!rows.empty()) out.Add(int64_t{class_of_row[AsIndex(rows.front())]});
  }
}

}  // namespace

std::optional<std::vector<int32_t>> LayerKinds(
    const ModelDescription& description, const ModelConfig* config,
    const Roles& roles, Mode mode, std::span<const uint32_t> class_of_row) {
  // Errors are not reported here, because the builder of the graph reports the
  // same errors.
  Findings unreported;
  const auto formulas = Formulas::Make(description, config, unreported);
  if (formulas == nullptr) return std::nullopt;
  SetInferredSizes(description, roles, *formulas);
  BuildContext context(description, mode, unreported, {});
  context.labels.MakeCommon(roles.sizes);
  SettingsReader reader(description, config, *formulas, unreported);
  const auto settings = reader.Read(context.mode, context.form.view,
                                    context.graph().common, context.labels);
  if (!settings) return std::nullopt;
  std::map<std::string, int32_t> known;
  std::vector<int32_t> out;
  for (size_t stack = 0; stack < roles.stack_layers.size(); ++stack) {
    const auto begin = static_cast<int32_t>(roles.BeginOf(stack));
    const auto count = static_cast<int32_t>(roles.stack_layers[stack]);
    for (int32_t layer = begin; layer < begin + count; ++layer) {
      const auto own = reader.ReadLayer(layer - begin, *settings,
                                        context.graph().common, context.labels);
      if (!own) return std::nullopt;
      Signature what;
      what.Add(static_cast<int64_t>(stack));
      AddParameters(roles, class_of_row, layer, what);
      what.Add(int64_t{own->windowed});
      what.Add(int64_t{own->chunked});
      what.Add(int64_t{own->rotates});
      what.Add(own->rope);
      for (const DescribedLine& line : description.stacks[stack].layer) {
        if (line.when.text.empty()) continue;
        what.Add(int64_t{formulas->Condition(line.when)});
      }
      const auto next = static_cast<int32_t>(known.size());
      out.push_back(known.try_emplace(what.text(), next).first->second);
    }
  }
  if (unreported.HasErrors()) return std::nullopt;
  return out;
}

}  // namespace shardc::step
