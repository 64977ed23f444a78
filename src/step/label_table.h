// The dimensions of a step as they are made: tokens, those that a description
// names, and what is made of several of them, (c + r) and (n h), each once.
#ifndef SHARDC_STEP_LABEL_TABLE_H_
#define SHARDC_STEP_LABEL_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/model_description.h"
#include "model/step_graph.h"
#include "source/index.h"

namespace shardc::step {

class LabelTable {
 public:
  // Labels and their sizes are appended to `graph` and `sizes`.
  LabelTable(const ModelDescription& description, Graph& graph, Sizes& sizes)
      : description_(description), graph_(graph), sizes_(sizes) {}

  // The common ones and the description's, of these sizes.
  void MakeCommon(std::span<const int64_t> dims);

  // `size` is 0 where it follows from others or from the tokens.
  LabelId New(std::string name, std::string_view semantic, int64_t size);
  // One label of several that lie behind one another, or within one another.
  LabelId OfParts(const std::vector<LabelId>& parts);
  LabelId OfFactors(const std::vector<LabelId>& factors);
  // As a role has it: factors, each of one dimension or of parts.
  LabelId Of(const DescribedDim& dim);

  // Of the description's dimensions the one at this place.
  LabelId Dim(int32_t at) const { return dims_[AsIndex(at)]; }
  int64_t SizeOf(LabelId label) const { return sizes_[AsIndex(label)]; }
  DimLabel& operator[](LabelId label) { return graph_.labels[AsIndex(label)]; }

 private:
  LabelId Named(std::string_view dim) const;
  LabelId Composite(const std::vector<LabelId>& of, std::string_view between,
                    std::vector<LabelId> DimLabel::*made_of);

  const ModelDescription& description_;
  Graph& graph_;
  Sizes& sizes_;
  std::vector<LabelId> dims_;  // by the description's
  std::map<std::string, LabelId, std::less<>> composites_;
};

}  // namespace shardc::step

#endif  // SHARDC_STEP_LABEL_TABLE_H_
