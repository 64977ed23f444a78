// Compares the steps of small models of every family with
// testdata/tables/steps.txt: the ops of each phase, what they compute from
// fixed inputs, the bytes that meshes send and hold under each remat policy,
// and for some models each op. If a change affects how a step is built,
// differentiated or lowered, the lines of the affected families and modes
// differ.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "dense/step.h"
#include "source/size.h"
#include "step/accumulate.h"
#include "step/build.h"
#include "step/graph_writer.h"
#include "step/lower.h"
#include "step/mlp_graph.h"
#include "step/program.h"
#include "step/recompute.h"
#include "step/small_models.h"
#include "tables.h"

namespace shardc::step {
namespace {

std::string_view PhaseText(Phase phase) {
  return phase == Phase::kForward    ? "forward"
         : phase == Phase::kBackward ? "backward"
                                     : "optimizer";
}

std::string RealText(double x) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", x);
  return text;
}

std::string LabelsText(const Graph& graph, const std::vector<LabelId>& labels) {
  std::string out = "[";
  for (const LabelId label : labels) {
    if (out.size() > 1) out += ",";
    out += graph.labels[AsIndex(label)].name;
  }
  return out + "]";
}

std::string ScaleText(const Graph& graph, const Scale& scale) {
  std::string out = "* " + RealText(scale.constant);
  for (const auto& [label, power] : scale.powers) {
    out += " " + graph.labels[AsIndex(label)].name + "^" + RealText(power);
  }
  return out;
}

// Returns the fields of the op's attributes, labels by name, such as " {b, 0,
// false}"; empty if the op has no attributes.
std::string AttributesText(const Graph& graph, const Op& op) {
  if (std::holds_alternative<NoAttributes>(op.attributes)) return "";
  std::string out;
  const auto add = [&](const auto& field) {
    using T = std::remove_cvref_t<decltype(field)>;
    out += out.empty() ? " {" : ", ";
    if constexpr (std::is_same_v<T, Scale>) {
      out += ScaleText(graph, field);
    } else if constexpr (std::is_same_v<T, LabelId>) {
      out += field < 0 ? "-" : graph.labels[AsIndex(field)].name;
    } else if constexpr (std::is_same_v<T, double>) {
      out += RealText(field);
    } else {
      printing::Print(&out, field, false);
    }
  };
  std::visit(
      [&](const auto& of) {
        if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(of)>,
                                      NoAttributes>) {
          printing::WithFields(
              of, [&](const auto&... fields) { (add(fields), ...); });
        }
      },
      op.attributes);
  return out + "}";
}

// Returns an op as text, such as "7 = linear q kEinsum(2, 3) [b,t,n] in layer
// 0".
std::string OpText(const Graph& graph, const Op& op) {
  const Value& value = graph.values[AsIndex(op.out)];
  std::string out = std::to_string(op.out) + " = " + op.name + " " +
                    std::string(printing::EnumeratorName(op.kind));
  out += AttributesText(graph, op);
  out += "(";
  for (const ValueId in : op.in) {
    out += (out.back() == '(' ? "" : ", ") + std::to_string(in);
  }
  out += ") " + LabelsText(graph, value.labels);
  if (value.integral) out += " integral";
  if (value.cotangent_of >= 0) out += " d" + std::to_string(value.cotangent_of);
  if (!op.constraint.empty()) out += " as " + op.constraint;
  if (op.layer >= 0) out += " in layer " + std::to_string(op.layer);
  if (op.recompute_of >= 0) out += " again " + std::to_string(op.recompute_of);
  if (op.micro >= 0) out += " micro " + std::to_string(op.micro);
  return out;
}

// Returns the number of ops of each kind in each phase.
std::string CountsText(const Graph& graph) {
  std::map<std::pair<Phase, std::string>, int64_t> counts;
  for (const Op& op : graph.ops) {
    const std::string_view kind = printing::EnumeratorName(op.kind);
    const auto* const named = std::get_if<FnAttributes>(&op.attributes);
    const std::string fn = named == nullptr ? "" : " " + named->fn;
    ++counts[{op.phase, std::string(kind.substr(1)) + fn}];
  }
  std::string out;
  Phase phase = Phase::kForward;
  for (const auto& [key, count] : counts) {
    if (out.empty() || key.first != phase) {
      phase = key.first;
      out += (out.empty() ? "" : "\n") + std::string(PhaseText(phase)) + ":";
    }
    out += " " + key.second + " " + std::to_string(count) + ",";
  }
  return out + "\n";
}

double SumOf(const dense::StepValues<double>& values, ValueId value) {
  if (value < 0) return 0;
  double out = 0;
  const std::vector<double>& data = values[AsIndex(value)].data;
  // The sum has weights, so that an exchange of elements changes it.
  for (size_t i = 0; i < data.size(); ++i) {
    if (std::isfinite(data[i])) out += data[i] * static_cast<double>(1 + i % 7);
  }
  return out;
}

// Returns the results of the dense model for fixed inputs.
std::string NumbersText(const Graph& graph, const Sizes& sizes) {
  dense::StepValues<double> values = RandomInputs(graph, sizes, 9);
  dense::RunStep<double>(graph, sizes, Phase::kOptimizer, values);
  std::string out = "logits " + RealText(SumOf(values, graph.logits));
  if (graph.loss >= 0) out += ", loss " + RealText(SumOf(values, graph.loss));
  if (graph.gradient_norm >= 0) {
    out += ", norm " + RealText(SumOf(values, graph.gradient_norm));
  }
  double gradients = 0, updated = 0, moments = 0, caches = 0;
  for (const ValueId value : graph.gradients) gradients += SumOf(values, value);
  for (const ValueId value : graph.updated) updated += SumOf(values, value);
  for (const Moments& of : graph.updated_moments) {
    moments += SumOf(values, of.first) + 3 * SumOf(values, of.second);
  }
  for (const Op& op : graph.ops) {
    if (op.kind == OpKind::kCacheWrite) caches += SumOf(values, op.out);
  }
  if (!graph.gradients.empty()) {
    out += ", gradients " + RealText(gradients) + ", updated " +
           RealText(updated) + ", moments " + RealText(moments);
  }
  if (caches != 0) out += ", caches " + RealText(caches);
  return out + "\n";
}

Mesh MeshOf(std::vector<MeshAxis> axes) {
  Mesh out;
  for (const MeshAxis& axis : axes) out.devices *= axis.size;
  out.axes = std::move(axes);
  return out;
}

// Returns the bytes that a device sends and holds on a mesh. In each parameter
// tp shards the first dimension that it divides, and fsdp the next one.
std::string MeshLine(const Graph& graph, const Sizes& sizes, const Mesh& mesh) {
  LowerRequest request{.graph = &graph,
                       .mesh = mesh,
                       .sizes = sizes,
                       .constraints = UsualConstraints()};
  for (const Parameter& parameter : graph.parameters) {
    const Shape shape = ShapeOf(graph, parameter.value, sizes);
    Spec spec(shape.size());
    size_t dim = 0;
    for (const MeshAxis& axis : mesh.axes) {
      if (axis.name != "tp" && axis.name != "fsdp") continue;
      while (dim < shape.size() && shape[dim] % axis.size != 0) ++dim;
      if (dim < shape.size()) spec[dim++] = {axis.name};
    }
    request.parameters.push_back(std::move(spec));
  }
  std::string out = "on " + MeshText(mesh) + ":";
  Unsupported why;
  const auto program = Lower(request, why);
  if (!program) return out + " refused, " + why.message + "\n";
  std::map<std::string, int64_t> sent;
  std::map<std::string, int64_t> count;
  for (const Instruction& one : program->code) {
    if (one.kind != InstructionKind::kCollective) continue;
    std::string key(CollectiveName(one.collective));
    for (const AxisId axis : one.axes) key += " " + program->axes.names[axis];
    sent[key] += SentBytes(graph, *program, one, sizes, 2);
    ++count[key];
  }
  for (const auto& [key, bytes] : sent) {
    out += " " + std::to_string(count[key]) + " " + key + " " +
           std::to_string(bytes) + ",";
  }
  out += " conflicts " + std::to_string(program->conflicts.size());
  const PeakMemory peak = PeakOf(graph, *program, sizes, {});
  out += "; peak at " + std::to_string(peak.instruction) + " of " +
         std::to_string(program->code.size()) + ":";
  for (size_t i = 0; i < kHeldCount; ++i) {
    if (peak.bytes[i] == 0) continue;
    out += " " + std::string(HeldName(static_cast<Held>(i))) + " " +
           std::to_string(peak.bytes[i]);
  }
  return out + "\n";
}

std::string ModelText(const StepModel& model, bool listing) {
  const Sizes sizes = RealSizes(model, 4, 6);
  std::string out = CountsText(model.graph) + NumbersText(model.graph, sizes);
  for (const Mesh& mesh : {MeshOf({{"dp", 2}, {"tp", 2}}),
                           MeshOf({{"fsdp", 2}, {"ep", 2}, {"sp", 2}})}) {
    out += MeshLine(model.graph, sizes, mesh);
  }
  if (listing) {
    for (const Op& op : model.graph.ops) {
      out += OpText(model.graph, op) + "\n";
    }
  }
  return out;
}

// Returns the model's training step with a rematerialisation policy and
// micro-batches.
StepModel Trained(StepModel model, const std::string& policy, int64_t micro,
                  Reduction reduction) {
  Differentiate(model.graph);
  std::string why;
  const auto remat = ParseRemat(policy, why);
  REQUIRE_MESSAGE(remat, why);
  if (remat->Recomputes()) Recompute(model.graph, *remat);
  if (micro > 1) REQUIRE(Accumulate(model.graph, micro, reduction));
  model.graph.adam.step = 3;
  AppendOptimizer(model.graph);
  return model;
}

std::string Result(const TableCase& given) {
  const auto number = static_cast<size_t>(std::stoi(given.Text("family")));
  REQUIRE(number < kFamilies.size());
  const Family& family = kFamilies[number];
  const bool listing = given.Find("listing") != nullptr;
  const Described described = ModelOf(family);
  std::string out;
  for (const Mode mode : {Mode::kTrain, Mode::kPrefill, Mode::kDecode}) {
    if (!HasMode(*described.description, &described.config, mode)) continue;
    StepModel model = Built(family, mode);
    out += "### " + std::string(ModeName(mode)) + "\n";
    if (mode != Mode::kTrain) {
      out += ModelText(model, listing && mode == Mode::kDecode);
      continue;
    }
    out += ModelText(Trained(model, "everything_saveable", 1, {}), listing);
    const bool more = given.Find("policies") != nullptr;
    for (const char* policy : {"nothing_saveable", "dots_saveable",
                               "dots_with_no_batch_dims_saveable"}) {
      if (!more) break;
      out += "### train, " + std::string(policy) + "\n" +
             ModelText(Trained(model, policy, 1, {}), false);
    }
    for (const Reduction reduction :
         {Reduction::kSharded, Reduction::kOnce, Reduction::kEach}) {
      if (!more) break;
      out +=
          "### train, micro-batches " +
          std::string(printing::EnumeratorName(reduction)) + "\n" +
          ModelText(Trained(model, "everything_saveable", 2, reduction), false);
    }
  }
  return out;
}

TEST_CASE("the steps of every family are as written") {
  size_t cases = 0;
  CheckTable("steps.txt", [&](const TableCase& given) {
    ++cases;
    return Result(given);
  });
  CHECK(cases == kFamilies.size());
}

}  // namespace
}  // namespace shardc::step
