// Finds weights that a decode step gathers. The step is lowered with the
// cheapest collectives at each op. If the gathers send 1 MiB or more, the step
// is lowered a second time, without the gathered axes in the specs of these
// weights. The weights are reported if the second step sends fewer bytes. The
// first step may send more although each of its ops is the cheapest: with many
// sequences on a device, gathering a weight sends fewer bytes than resharding
// the activations of this op. For example:
//
//   query weight over fsdp, 4096 sequences on a device
//     ->  each step all-gathers the weight and sends 31 MiB
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/stages.h"
#include "lint/analysis/step_facts.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr int64_t kWorthBytes = int64_t{1} << 20;

// Returns the parameter that has this value, or the first parameter from which
// the value is computed. Returns null if the value depends on other inputs than
// parameters.
const step::Parameter* Origin(const ModeStep& of, step::ValueId value) {
  if (of.weight[static_cast<size_t>(value)] == 0) return nullptr;
  for (const step::Parameter& parameter : of.graph().parameters) {
    if (parameter.value == value) return &parameter;
  }
  for (const step::Op& op : of.graph().ops) {
    if (op.out == value && !op.in.empty()) return Origin(of, op.in.front());
  }
  return nullptr;
}

struct Gathered {
  AxisGroup axes;
  int64_t bytes = 0, layers = 0;
  int64_t row = -1;
};

std::map<std::string, Gathered> GatheredBy(const ModeStep& of) {
  std::map<std::string, Gathered> out;
  for (const step::Instruction& one : of.program().code) {
    if (one.kind != step::InstructionKind::kCollective || one.op < 0 ||
        one.collective != Collective::kAllGather) {
      continue;
    }
    const step::Parameter* const parameter = Origin(
        of, of.program().slots[static_cast<size_t>(one.in.front())].value);
    if (parameter == nullptr) continue;
    const int64_t times = of.Times(of.graph().ops[static_cast<size_t>(one.op)]);
    Gathered& role = out[parameter->role];
    for (const std::string& axis : of.program().axes.Group(one.axes)) {
      if (std::find(role.axes.begin(), role.axes.end(), axis) ==
          role.axes.end()) {
        role.axes.push_back(axis);
      }
    }
    role.bytes += times * of.Sent(one);
    role.layers += times;
    role.row = parameter->manifest_rows.front();
  }
  return out;
}

std::vector<Spec> Without(const ModeStep& of,
                          const std::map<std::string, Gathered>& gathered) {
  std::vector<Spec> specs = of.step.specs;
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto role = gathered.find(of.graph().parameters[i].role);
    if (role == gathered.end()) continue;
    for (AxisGroup& axes : specs[i]) {
      std::erase_if(axes, [&](const std::string& axis) {
        const AxisGroup& gone = role->second.axes;
        return std::find(gone.begin(), gone.end(), axis) != gone.end();
      });
    }
  }
  return specs;
}

}  // namespace

void CheckDecodeGathersWeights(const Facts& facts, FindingSink& sink) {
  const StepFacts* const step = facts.Step();
  const ModeStep* const of =
      step == nullptr ? nullptr : step->Find(Mode::kDecode);
  if (of == nullptr) return;
  const auto gathered = GatheredBy(*of);
  int64_t bytes = 0;
  for (const auto& [role, one] : gathered) bytes += one.bytes;
  if (bytes < kWorthBytes) return;
  const auto less = of->SentWith(Without(*of, gathered));
  if (!less || *less >= of->Sent()) return;
  LintFinding finding = FindingAt(kDecodeGathersWeights.code);
  std::vector<std::string> texts;
  for (const auto& [role, one] : gathered) {
    const ParameterGroup& group = step->GroupOf(one.row);
    if (texts.empty()) {
      finding.place = facts.GroupPlace(group);
    } else {
      finding.labels.push_back({facts.GroupPlace(group), "and here"});
    }
    texts.push_back(ParametersText(facts, group) + " over " +
                    GroupText(one.axes));
    facts.AddNames(facts.Members(group), finding);
  }
  finding.message = "decoding gathers " + ListText(texts) + ": " +
                    BytesText(bytes) + " of the " + BytesText(of->Sent()) +
                    " that a device sends for each token of " +
                    Counted(of->inputs.batch, "row") + ", " + BytesText(*less) +
                    " without these axes" + AddedOverRanks(facts);
  finding.help =
      "leave these axes out of the weights' specs in decode, `modes: {decode: "
      "...}`, if the memory of a device allows it";
  sink.push_back(std::move(finding));
}

}  // namespace shardc
