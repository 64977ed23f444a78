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
  const cost::Settings& operator[](size_t index) const { return all_[index]; }
  size_t size() const { return all_.size(); }

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
