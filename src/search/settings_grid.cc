// Lists the settings of a training step that a search tries. The
// rematerialisation policies range from keeping everything to keeping only the
// input of each layer. A policy need not keep everything that the next policy
// keeps, but it keeps everything that the policy after the next keeps. Unless
// the user has fixed the number of micro-batches, each divisor of the batch up
// to 4,096 is tried. For each mesh, the search checks later whether the number
// also divides the part of the batch on a device:
//
//   --batch 128  ->  1, 2, 4, 8, 16, 32, 64 and 128 micro-batches
#include "search/settings_grid.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace shardc::search {
namespace {

constexpr std::array<std::string_view, 7> kPolicies = {
    "everything_saveable",
    "save_from_both_policies(dots_with_no_batch_dims_saveable,"
    "save_only_these_names(context))",
    "dots_with_no_batch_dims_saveable",
    "save_only_these_names(q_proj,k_proj,v_proj,qkv_proj,context,out_proj)",
    "save_only_these_names(q_proj,k_proj,v_proj,qkv_proj)",
    "save_only_these_names(context)",
    "nothing_saveable"};
constexpr int64_t kMostMicrobatches = 4096;
constexpr int kStages = 4;

}  // namespace

SettingsGrid::SettingsGrid(const Request& request) {
  const cost::Settings& fixed = request.settings;
  if (request.zero_fixed) {
    zeros_ = {fixed.zero};
  } else {
    for (int stage = 0; stage < kStages; ++stage) zeros_.push_back(stage);
  }
  if (request.remat_fixed) {
    remats_ = {fixed.remat};
  } else {
    for (const std::string_view policy : kPolicies) {
      std::string why;
      auto remat = step::ParseRemat(policy, why);
      if (remat) remats_.push_back(std::move(*remat));
    }
  }
  const int64_t batch = fixed.batch.value_or(1);
  for (int64_t parts = 1; parts <= kMostMicrobatches; ++parts) {
    const bool fits = request.microbatches_fixed ? parts == fixed.microbatches
                                                 : batch % parts == 0;
    if (fits) micros_.push_back(parts);
  }
  if (micros_.empty()) micros_ = {fixed.microbatches};
  for (const int zero : zeros_) {
    for (size_t remat = 0; remat < remats_.size(); ++remat) {
      for (const int64_t parts : micros_) {
        all_.push_back(fixed);
        all_.back().zero = zero;
        all_.back().remat = remats_[remat];
        all_.back().microbatches = parts;
      }
    }
  }
}

}  // namespace shardc::search
