// Wraps the result of the compiler and copies only the requested parts. Many
// parameters have the same layout, so a parameter stores the index of its
// layout. For example, parameter 7 has the layout 2:
//
//   params[7].layout is 2, so placement(7, kDecode) copies the decode entry of
//   layouts[2]
#include "shardc/inside.h"
// inside.h comes first, because it defines SHARDC_V1 for the headers below.
#include <algorithm>

#include "emit/emit.h"
#include "plan/divide.h"
#include "plan/fingerprint.h"
#include "shardc/plan.h"
#include "source/index.h"

namespace shardc::v1 {
namespace {

IllegalPolicy PolicyOf(IfIllegal policy) {
  switch (policy) {
    case IfIllegal::kError:
      return IllegalPolicy::kError;
    case IfIllegal::kDrop:
      return IllegalPolicy::kDrop;
    case IfIllegal::kShrink:
      return IllegalPolicy::kShrink;
    case IfIllegal::kPad:
      return IllegalPolicy::kPad;
  }
  return IllegalPolicy::kError;
}

shardc::Compat CompatOf(Compat compat) {
  switch (compat) {
    case Compat::kNone:
      return shardc::Compat::kNone;
    case Compat::kEformer:
      return shardc::Compat::kEformer;
    case Compat::kFjformer:
      return shardc::Compat::kFjformer;
  }
  return shardc::Compat::kNone;
}

CompileOptions OptionsOf(const PlanOptions& options) {
  CompileOptions out;
  out.modes = ModesOf(options.modes);
  if (options.illegal) out.policy.illegal = PolicyOf(*options.illegal);
  if (options.compat) out.policy.compat = CompatOf(*options.compat);
  out.policy.min_size = options.min_size;
  out.threads = std::max(options.threads, 1);
  return out;
}

}  // namespace

shardc::Mode ModeOf(Mode mode) {
  switch (mode) {
    case Mode::kTrain:
      return shardc::Mode::kTrain;
    case Mode::kPrefill:
      return shardc::Mode::kPrefill;
    case Mode::kDecode:
      return shardc::Mode::kDecode;
    case Mode::kInsert:
      return shardc::Mode::kInsert;
  }
  return shardc::Mode::kTrain;
}

Mode ModeOf(shardc::Mode mode) {
  switch (mode) {
    case shardc::Mode::kTrain:
      return Mode::kTrain;
    case shardc::Mode::kPrefill:
      return Mode::kPrefill;
    case shardc::Mode::kDecode:
      return Mode::kDecode;
    case shardc::Mode::kInsert:
      return Mode::kInsert;
  }
  return Mode::kTrain;
}

std::vector<shardc::Mode> ModesOf(const std::vector<Mode>& modes) {
  std::vector<shardc::Mode> out;
  for (const Mode mode : modes) out.push_back(ModeOf(mode));
  if (out.empty()) out.assign(kAllModes.begin(), kAllModes.end());
  return out;
}

std::string SpecText(const Spec& spec) { return shardc::SpecText(spec); }

Plan::Plan(std::shared_ptr<const Inside> inside) : inside_(std::move(inside)) {}

size_t Plan::size() const { return inside_->compiled->plan.params.size(); }

std::string_view Plan::name(size_t param) const {
  return inside_->compiled->plan.names[param];
}

std::optional<size_t> Plan::rule(size_t param) const {
  const shardc::Plan& plan = inside_->compiled->plan;
  const int32_t rule = plan.layouts[plan.params[param].layout].rule;
  if (rule < 0) return std::nullopt;
  return AsIndex(rule);
}

std::optional<Placement> Plan::placement(size_t param, Mode mode) const {
  const shardc::Plan& plan = inside_->compiled->plan;
  const auto asked =
      std::find(plan.modes.begin(), plan.modes.end(), ModeOf(mode));
  if (asked == plan.modes.end()) return std::nullopt;
  for (const ModeLayout& from : plan.layouts[plan.params[param].layout].modes) {
    if (from.mode != *asked) continue;
    Placement out;
    out.spec = from.spec;
    out.shard_shape = from.shard_shape;
    out.bytes_per_device = from.bytes_per_device;
    out.illegal = !from.problems.empty();
    out.corrected = !from.edits.empty();
    return out;
  }
  return std::nullopt;
}

std::optional<size_t> Plan::Find(std::string_view name) const {
  std::call_once(inside_->indexed, [this] {
    const auto& names = inside_->compiled->plan.names;
    inside_->index.reserve(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      inside_->index.emplace(names[i], i);
    }
  });
  const auto at = inside_->index.find(name);
  if (at == inside_->index.end()) return std::nullopt;
  return at->second;
}

Totals Plan::totals() const {
  const PlanSummary& from = inside_->compiled->plan.summary;
  Totals out;
  out.params = from.params;
  out.elements = from.elements;
  out.bytes = from.bytes;
  out.bytes_per_device = from.bytes_per_device;
  out.unmatched = from.unmatched;
  out.illegal = from.illegal;
  out.corrected = from.corrected;
  return out;
}

std::string Plan::fingerprint() const {
  return Fingerprint(inside_->compiled->plan);
}

std::string Plan::Json() const {
  return TextOf(
      [&](Sink& out) { WritePlanJson(inside_->compiled->plan, {}, out); });
}

std::string Plan::Text() const { return PlanSummaryText(*inside_->compiled); }

std::optional<Plan> Compile(const Mesh& mesh, const Rules& rules,
                            const Manifest& manifest,
                            const PlanOptions& options, Findings& findings) {
  auto compiled = shardc::Compile(mesh.inside().mesh, rules.inside().rules,
                                  manifest.inside().manifest,
                                  OptionsOf(options), findings.inside().all);
  if (compiled == nullptr) return std::nullopt;
  if (const auto& stages = rules.inside().stages) {
    const auto& model = rules.inside().model;
    DivideByStages(*stages, model ? &*model : nullptr, *compiled,
                   findings.inside().all);
    for (const shardc::Finding& finding : compiled->stage_findings) {
      findings.inside().all.Add(finding);
    }
    if (!compiled->stage_findings.empty()) return std::nullopt;
  }
  auto inside = std::make_shared<Plan::Inside>();
  inside->compiled = std::move(compiled);
  inside->mesh_place = mesh.inside().place;
  return Plan(std::move(inside));
}

}  // namespace shardc::v1
