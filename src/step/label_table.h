// The labels of a step: tokens, the dimensions of a description, and composites
// of these such as (c+r) and (n h). Each composite is created once.
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

  // Creates the common labels, and the labels of the description's dimensions
  // with the sizes `dims`.
  void MakeCommon(std::span<const int64_t> dims);

  // Creates a label. `size` is 0 if it follows from other labels or from the
  // tokens.
  LabelId New(std::string name, std::string_view semantic, int64_t size);
  // OfParts returns the composite label of parts, (a+b), and OfFactors the
  // composite label of factors, (a b). A single label is returned itself.
  LabelId OfParts(const std::vector<LabelId>& parts);
  LabelId OfFactors(const std::vector<LabelId>& factors);
  // Returns the label of a role's dimension. The dimension has factors, each of
  // which may have parts. For example, a fused weight (j n h) has j parts, such
  // as q, k and v. If the parts are sharded separately, the first factor with a
  // logical axis (n) is moved to the front: a contiguous shard of (n j h) has
  // the same share of each part.
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
  std::vector<LabelId> dims_;  // indexed by the description's dimension
  std::map<std::string, LabelId, std::less<>> composites_;
};

}  // namespace shardc::step

#endif  // SHARDC_STEP_LABEL_TABLE_H_
