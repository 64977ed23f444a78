// The settings of a training step that are searched for each mesh.
#ifndef SHARDC_SEARCH_SETTINGS_GRID_H_
#define SHARDC_SEARCH_SETTINGS_GRID_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cost/settings.h"
#include "search/request.h"

namespace shardc::search {

// All combinations of a ZeRO stage, a rematerialisation policy and a number of
// micro-batches. A setting is named by its index.
class SettingsGrid {
 public:
  explicit SettingsGrid(const Request& request);

  size_t At(size_t zero, size_t remat, size_t micro) const {
    return (zero * remats_.size() + remat) * micros_.size() + micro;
  }
  // The index of a setting's stage.
  size_t ZeroOf(size_t index) const {
    return index / (remats_.size() * micros_.size());
  }
  // The index of a setting's rematerialisation policy.
  size_t RematOf(size_t index) const {
    return index / micros_.size() % remats_.size();
  }
  const cost::Settings& operator[](size_t index) const { return all_[index]; }
  size_t size() const { return all_.size(); }

  // The stage, as an index of zeros(), whose communication of activations and
  // parameters the settings of a stage have as well. Up to stage 2 it is the
  // lowest one: their programs gather parameters along the same axes, and the
  // higher stages also gather what they updated. Stage 3 gathers parameters
  // along other axes, which may be faster, so that it has a reference of its
  // own.
  size_t ReferenceOf(size_t zero) const { return zeros_[zero] < 3 ? 0 : zero; }

  // The settings of one number, below graphs(), have steps of the same graph
  // (cost::StepTraffic::Use).
  size_t GraphOf(size_t index) const { return graph_of_[index]; }
  size_t graphs() const { return graphs_; }

  // ZeRO stages; rematerialisation policies, of which number i keeps all that
  // number i + 2 keeps; numbers of micro-batches, ascending.
  const std::vector<int>& zeros() const { return zeros_; }
  const std::vector<step::Remat>& remats() const { return remats_; }
  const std::vector<int64_t>& micros() const { return micros_; }

 private:
  std::vector<int> zeros_;
  std::vector<step::Remat> remats_;
  std::vector<int64_t> micros_;
  std::vector<cost::Settings> all_;
  std::vector<size_t> graph_of_;
  size_t graphs_ = 0;
};

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_SETTINGS_GRID_H_
