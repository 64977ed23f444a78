// Reads the stages of a plan. The layers of each stage must begin where the
// layers of the previous stage end. Each rank, stage and dimension must exist,
// because later code uses its number as an index. For example, rank 4 does not
// exist if the axis of the stages has size 4:
//
//   "of": [{"ranks": [0, 4], ..}]  ->  "a rank is an integer from 0 to 3"
#include "plan/read_stages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/stages.h"
#include "schedule/table.h"
#include "source/index.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

bool Refuse(const JsonValue& at, std::string message, Findings& findings) {
  findings.Add(code::kSchema, at.place(), std::move(message));
  return false;
}

// Reads an integer that is at least 0 and less than `end`. Returns nullopt for
// any other value.
std::optional<int64_t> NumberBelow(const JsonValue& value, int64_t end) {
  if (value.kind() != JsonKind::kInteger || value.integer() < 0 ||
      value.integer() >= end) {
    return std::nullopt;
  }
  return value.integer();
}

// Reads [begin, end] with 0 <= begin <= end <= most. Returns nullopt for any
// other value.
std::optional<LayerRange> RangeOf(const JsonValue& value, int64_t most) {
  if (!value.IsArray() || value.size() != 2) return std::nullopt;
  std::vector<int64_t> ends;
  for (const JsonValue end : value.items()) {
    if (end.kind() != JsonKind::kInteger) return std::nullopt;
    ends.push_back(end.integer());
  }
  if (ends[0] < 0 || ends[0] > ends[1] || ends[1] > most) return std::nullopt;
  return LayerRange{ends[0], ends[1]};
}

class StagesReader {
 public:
  StagesReader(const Mesh& mesh, Findings& findings)
      : mesh_(mesh), findings_(findings) {}

  std::optional<PlanStages> Read(const JsonValue& value) {
    if (!value.IsObject() || !ReadAxis(value) || !ReadTexts(value) ||
        !ReadHidden(value) || !ReadStageList(value) || !ReadCopies(value)) {
      return std::nullopt;
    }
    return std::move(out_);
  }

 private:
  bool ReadAxis(const JsonValue& value) {
    const auto axis =
        RequiredMember(value, "axis", JsonKind::kString, findings_);
    if (!axis) return false;
    out_.axis = std::string(axis->string());
    if (!mesh_.Find(out_.axis)) {
      findings_.Add(code::kUnknownName, axis->place(),
                    "the plan's mesh has no axis `" + out_.axis + "`");
      return false;
    }
    out_.ranks = mesh_.SizeOf(out_.axis);
    if (out_.ranks <= kMostStageRanks) return true;
    findings_.Add(code::kLimit, axis->place(),
                  "a pipeline of " + CountText(out_.ranks) +
                      " ranks is more than " + CountText(kMostStageRanks));
    return false;
  }

  bool ReadPlacement(const JsonValue& value) {
    const auto found =
        RequiredMember(value, "placement", JsonKind::kString, findings_);
    if (!found) return false;
    out_.placement = found->string();
    return schedule::FindPlacement(out_.placement) ||
           Refuse(*found,
                  "`placement` of `stages` is not one of `loop`, `v`, `both` "
                  "and `listed`",
                  findings_);
  }

  bool ReadTexts(const JsonValue& value) {
    const auto text = [&](std::string_view key, std::string& to) {
      const auto found =
          RequiredMember(value, key, JsonKind::kString, findings_);
      if (found) to = std::string(found->string());
      return found.has_value();
    };
    const auto number = [&](std::string_view key, int64_t& to) {
      const auto found =
          RequiredMember(value, key, JsonKind::kInteger, findings_);
      if (!found) return false;
      to = found->integer();
      return to > 0 || Refuse(*found, "this number is at least 1", findings_);
    };
    return ReadPlacement(value) && text("schedule", out_.schedule) &&
           text("table", out_.table) &&
           number("virtual", out_.virtual_stages) &&
           number("microbatches", out_.microbatches);
  }

  bool ReadHidden(const JsonValue& value) {
    const auto hidden = value.Find("hidden");
    if (!hidden) return true;
    if (!hidden->IsArray()) {
      return Refuse(*hidden,
                    "`hidden` of `stages` is not a list of names of axes",
                    findings_);
    }
    AxisGroup& out = out_.hidden.emplace();
    for (const JsonValue item : hidden->items()) {
      out.emplace_back(item.string());
      if (mesh_.Find(out.back())) continue;
      findings_.Add(code::kUnknownName, item.place(),
                    "the plan's mesh has no axis " + ShortQuote(out.back()));
      return false;
    }
    return true;
  }

  bool ReadRanks(const JsonValue& value, std::vector<int32_t>& out) {
    for (const JsonValue item : value.items()) {
      const auto rank = NumberBelow(item, out_.ranks);
      if (!rank) {
        return Refuse(item,
                      "a rank is an integer from 0 to " +
                          std::to_string(out_.ranks - 1) +
                          ", below the size of `" + out_.axis + "`",
                      findings_);
      }
      out.push_back(static_cast<int32_t>(*rank));
    }
    return true;
  }

  bool ReadStageList(const JsonValue& value) {
    const auto of = RequiredMember(value, "of", JsonKind::kArray, findings_);
    if (!of) return false;
    int64_t end = 0;
    for (const JsonValue item : of->items()) {
      PlanStage stage;
      const auto ranks =
          RequiredMember(item, "ranks", JsonKind::kArray, findings_);
      const auto layers =
          RequiredMember(item, "layers", JsonKind::kArray, findings_);
      const auto parts =
          RequiredMember(item, "parts", JsonKind::kArray, findings_);
      if (!ranks || !layers || !parts) return false;
      if (!ReadRanks(*ranks, stage.ranks)) return false;
      const auto range = RangeOf(*layers, INT64_MAX);
      if (!range || range->first != end) {
        return Refuse(*layers,
                      "the layers of a stage are [first, end], and begin where "
                      "those of the stage before end",
                      findings_);
      }
      end = range->end;
      if (end > kMostStageLayers) {
        findings_.Add(code::kLimit, layers->place(),
                      "a stage has layer " + CountText(end - 1) + ", beyond " +
                          CountText(kMostStageLayers) + " layers");
        return false;
      }
      stage.layers = *range;
      for (const JsonValue part : parts->items()) {
        const bool first = part.string() == "first";
        if (!first && part.string() != "last") {
          return Refuse(*parts,
                        "`parts` of a stage is not a list of `first` and "
                        "`last`",
                        findings_);
        }
        (first ? stage.first : stage.last) = true;
      }
      out_.of.push_back(std::move(stage));
    }
    return !out_.of.empty() ||
           Refuse(*of, "a pipeline has at least one stage", findings_);
  }

  bool ReadCopies(const JsonValue& value) {
    const auto copies = value.Find("copies");
    if (!copies) return true;
    if (!copies->IsArray()) {
      return Refuse(*copies, "`copies` of `stages` is not a list", findings_);
    }
    for (const JsonValue item : copies->items()) {
      const auto param =
          RequiredMember(item, "param", JsonKind::kString, findings_);
      const auto stages =
          RequiredMember(item, "stages", JsonKind::kArray, findings_);
      const auto ranks =
          RequiredMember(item, "ranks", JsonKind::kArray, findings_);
      if (!param || !stages || !ranks) return false;
      StageCopy copy{std::string(param->string()), {}, {}};
      for (const JsonValue stage : stages->items()) {
        const auto at = NumberBelow(stage, std::ssize(out_.of));
        if (!at) return Refuse(stage, "there is no such stage", findings_);
        copy.stages.push_back(static_cast<int32_t>(*at));
      }
      if (!ReadRanks(*ranks, copy.ranks)) return false;
      out_.copies.push_back(std::move(copy));
    }
    return true;
  }

  const Mesh& mesh_;
  Findings& findings_;
  PlanStages out_;
};

bool ReadSlices(const JsonValue& value, const PlanStages& stages,
                ParamStages& out, Findings& findings) {
  const auto dim = RequiredMember(value, "dim", JsonKind::kInteger, findings);
  const auto of = RequiredMember(value, "of", JsonKind::kArray, findings);
  if (!dim || !of) return false;
  if (dim->integer() < 0 || of->size() != stages.of.size()) {
    return Refuse(value, "`slices` has a range of layers for each stage",
                  findings);
  }
  out.dim = dim->integer();
  if (const auto dims = value.Find("dims")) {
    out.dims = dims->integer();
    if (out.dims != 1 && out.dims != 3) {
      return Refuse(*dims, "layers are counted by 1 dimension or by 3",
                    findings);
    }
  }
  int32_t stage = 0;
  for (const JsonValue item : of->items()) {
    const auto range = RangeOf(item, INT64_MAX);
    if (!range) {
      return Refuse(item, "a range of layers is [begin, end]", findings);
    }
    if (range->count() > 0) {
      out.of.push_back({stage, range->first, range->end});
      out.layers = range->end;
    }
    ++stage;
  }
  return true;
}

}  // namespace

std::optional<PlanStages> ReadPlanStages(const JsonValue& value,
                                         const Mesh& mesh, Findings& findings) {
  if (!value.IsObject()) {
    Refuse(value, "`stages` is an object", findings);
    return std::nullopt;
  }
  return StagesReader(mesh, findings).Read(value);
}

bool ReadParamStages(const JsonValue& value, const PlanStages& stages,
                     ParamStages& out, Findings& findings) {
  if (!out.of.empty()) {
    return Refuse(value, "a parameter has `stages` or `slices`, not both",
                  findings);
  }
  if (value.IsObject()) return ReadSlices(value, stages, out, findings);
  if (!value.IsArray()) {
    return Refuse(value, "the stages of a parameter are a list of numbers",
                  findings);
  }
  int64_t next = 0;
  for (const JsonValue item : value.items()) {
    const auto stage = NumberBelow(item, std::ssize(stages.of));
    if (!stage || *stage < next) {
      return Refuse(item,
                    "the stages of a parameter are numbers from 0 to " +
                        std::to_string(stages.of.size() - 1) + ", ascending",
                    findings);
    }
    next = *stage + 1;
    out.of.push_back({static_cast<int32_t>(*stage)});
  }
  return true;
}

bool CheckParamStages(const JsonValue& name, const PlanStages& stages,
                      const ReadParam& param, Findings& findings) {
  if (param.stages.of.empty()) {
    return Refuse(name, "the parameter is in no stage", findings);
  }
  const auto names_axis = [&](const Spec& spec) {
    return std::any_of(spec.begin(), spec.end(), [&](const AxisGroup& axes) {
      return std::find(axes.begin(), axes.end(), stages.axis) != axes.end();
    });
  };
  bool names = names_axis(param.spec);
  for (const auto& [mode, spec] : param.modes) {
    names = names || names_axis(spec);
  }
  if (names) {
    return Refuse(name,
                  "the spec of the parameter uses `" + stages.axis +
                      "`, the axis of the stages",
                  findings);
  }
  if (!param.stages.dim) return true;
  const auto& shape = param.type.shape;
  const int64_t end = *param.stages.dim;
  if (!shape || end > std::ssize(*shape) - param.stages.dims) {
    return Refuse(name, "the parameter has no such dimension of layers",
                  findings);
  }
  Size layers = 1;
  for (int64_t dim = end; dim < end + param.stages.dims; ++dim) {
    layers *= (*shape)[AsIndex(dim)];
  }
  int64_t covered = 0;
  for (const StageShare& share : param.stages.of) {
    if (share.begin != covered) {
      return Refuse(name, "a stage begins where the stage before it ends",
                    findings);
    }
    covered = share.end;
  }
  return covered == layers.value() ||
         Refuse(name, "the stages do not have all layers of the parameter",
                findings);
}

}  // namespace shardc
