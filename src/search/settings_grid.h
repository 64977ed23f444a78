// Lists the settings of a training step that a search evaluates for each mesh.
#ifndef SHARDC_SEARCH_SETTINGS_GRID_H_
#define SHARDC_SEARCH_SETTINGS_GRID_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cost/settings.h"
#include "search/request.h"

namespace shardc::search {

// All combinations of a ZeRO stage, a rematerialisation policy and a number of
// micro-batches. A combination is called a setting, and is identified by its
// index.
class SettingsGrid {
 public:
  explicit SettingsGrid(const Request& request);

  size_t At(size_t zero, size_t remat, size_t micro) const {
    return (zero * remats_.size() + remat) * micros_.size() + micro;
  }
  // Returns the index of a setting's ZeRO stage in zeros().
  size_t ZeroOf(size_t index) const {
    return index / (remats_.size() * micros_.size());
  }
  // Returns the index of a setting's rematerialisation policy in remats().
  size_t RematOf(size_t index) const {
    return index / micros_.size() % remats_.size();
  }
  // Returns the index of a setting's number of micro-batches in micros().
  size_t MicroOf(size_t index) const { return index % micros_.size(); }
  const cost::Settings& operator[](size_t index) const { return all_[index]; }
  size_t size() const { return all_.size(); }

  // Returns the reference stage of a ZeRO stage; both are indices into zeros().
  // A setting sends at least as many bytes of activations and parameters as the
  // same setting with the reference stage. For stages up to 2 the reference is
  // the lowest stage. The programs of these stages gather parameters along the
  // same axes, and the higher stages also gather the updated parameters. Stage
  // 3 gathers parameters along other axes, which may be faster, so stage 3 is
  // its own reference.
  size_t ReferenceOf(size_t zero) const { return zeros_[zero] < 3 ? 0 : zero; }

  // Return the ZeRO stages, the rematerialisation policies, and the numbers of
  // micro-batches in ascending order. A policy need not keep everything that
  // the next policy keeps, but it keeps everything that the one after the next
  // keeps.
  const std::vector<int>& zeros() const { return zeros_; }
  const std::vector<step::Remat>& remats() const { return remats_; }
  const std::vector<int64_t>& micros() const { return micros_; }

 private:
  std::vector<int> zeros_;
  std::vector<step::Remat> remats_;
  std::vector<int64_t> micros_;
  std::vector<cost::Settings> all_;
};

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_SETTINGS_GRID_H_
