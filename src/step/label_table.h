// Creates the dimension labels of a step: labels for the batch and the length,
// a label for each dimension of the description, and composite labels such as
// (c+r) and (n h). Each composite is created once.
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
  // New labels and their sizes are appended to `graph` and `sizes`.
  LabelTable(const ModelDescription& description, Graph& graph, Sizes& sizes)
      : description_(description), graph_(graph), sizes_(sizes) {}

  // Creates the labels that every model has (CommonLabels), and the labels of
  // the description's dimensions with the sizes `dims`.
  void MakeCommon(std::span<const int64_t> dims);

  // Creates a label. `size` is 0 if the size follows from other labels or from
  // the number of tokens.
  LabelId New(std::string name, std::string_view semantic, int64_t size);
  // OfParts returns the composite label of several parts, (a+b). OfFactors
  // returns the composite label of several factors, (a b). For a single label,
  // both return this label.
  LabelId OfParts(const std::vector<LabelId>& parts);
  LabelId OfFactors(const std::vector<LabelId>& factors);
  // Returns the label of a role's dimension. The dimension has factors, each of
  // which may have parts. For example, a fused weight (j n h) holds j tensors
  // of n heads, such as q, k and v. If these tensors are sharded separately,
  // the first factor with a logical axis (n) is moved to the front. Each
  // contiguous shard of (n j h) then has heads of q, k and v, while a shard of
  // (j n h) may have heads of q only.
  LabelId Of(const DescribedDim& dim);

  // Returns the label of the description's dimension at this index.
  LabelId Dim(int32_t at) const { return dims_[AsIndex(at)]; }
  int64_t SizeOf(LabelId label) const { return sizes_[AsIndex(label)]; }
  DimLabel& operator[](LabelId label) { return graph_.labels[AsIndex(label)]; }

 private:
  LabelId Named(std::string_view dim) const;
  bool IsCount(LabelId label) const;
  LabelId Composite(const std::vector<LabelId>& of, std::string_view between,
                    std::vector<LabelId> DimLabel::*made_of);

  const ModelDescription& description_;
  Graph& graph_;
  Sizes& sizes_;
  // The label of each of the description's dimensions, in their order.
  std::vector<LabelId> dims_;
  std::map<std::string, LabelId, std::less<>> composites_;
};

}  // namespace shardc::step

#endif  // SHARDC_STEP_LABEL_TABLE_H_
