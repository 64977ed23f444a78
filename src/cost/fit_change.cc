// Finds a change of the training settings with which a mesh fits the memory, if
// no mesh fits without a change. The changes are to keep fewer activations for
// the backward pass, and to use more micro-batches. They are tried from the
// smallest to the largest, and the first with which a mesh fits is the result.
// For example:
//
//   without a change, 1 micro-batch: no mesh fits
//   --remat nothing_saveable: no mesh fits
//   --microbatches 2: the mesh dp=8 fits
#include <algorithm>
#include <utility>

#include "cost/fit.h"
#include "step/remat.h"

namespace shardc::cost {
namespace {

// Only the kMostChanged meshes that need the least memory are tried, with at
// most kMostMicrobatches micro-batches.
constexpr size_t kMostChanged = 32;
constexpr int64_t kMostMicrobatches = 64;

struct ChangedSettings {
  std::vector<std::string> flags;
  Settings settings;
};

// Returns the changes of the settings that need less memory, from the smallest
// to the largest change. Each number of micro-batches divides the batch.
std::vector<ChangedSettings> Changes(const Settings& settings, int64_t batch) {
  std::vector<ChangedSettings> out;
  const auto add_parts = [&](const ChangedSettings& from) {
    for (int64_t parts = 2; parts <= kMostMicrobatches; ++parts) {
      if (parts <= from.settings.microbatches || batch % parts != 0) continue;
      out.push_back(from);
      out.back().flags.push_back("--microbatches " + std::to_string(parts));
      out.back().settings.microbatches = parts;
    }
  };
  ChangedSettings less{{"--remat nothing_saveable"}, settings};
  std::string why;
  if (auto nothing = step::ParseRemat("nothing_saveable", why)) {
    less.settings.remat = std::move(*nothing);
  }
  const bool keeps = less.settings.remat.text != settings.remat.text;
  if (keeps) out.push_back(less);
  add_parts({{}, settings});
  if (keeps) add_parts(less);
  return out;
}

}  // namespace

std::optional<FitChange> ChangeThatFits(const std::vector<FitMesh>& meshes,
                                        const Settings& settings, Mode mode,
                                        MeshEvaluator& evaluator,
                                        Findings& findings) {
  if (mode != Mode::kTrain || !settings.batch || !settings.length) {
    return std::nullopt;
  }
  std::vector<const FitMesh*> legal;
  for (const FitMesh& one : meshes) {
    if (one.legal) legal.push_back(&one);
  }
  std::stable_sort(legal.begin(), legal.end(),
                   [](const FitMesh* a, const FitMesh* b) {
                     return a->MemoryOrder() < b->MemoryOrder();
                   });
  if (legal.size() > kMostChanged) legal.resize(kMostChanged);
  for (ChangedSettings& changed : Changes(settings, *settings.batch)) {
    evaluator.Use(changed.settings);
    std::vector<FitMesh> fitting;
    for (const FitMesh* one : legal) {
      auto fit = evaluator.On(one->mesh, findings);
      if (fit && fit->legal && fit->memory.Fits().value_or(false)) {
        fitting.push_back(std::move(*fit));
      }
    }
    if (fitting.empty()) continue;
    SortByCost(fitting);
    return FitChange{std::move(changed.flags), std::move(fitting.front())};
  }
  return std::nullopt;
}

}  // namespace shardc::cost
