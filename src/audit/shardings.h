// Finds the mesh axes that shard a program's arguments, and those that shard
// its batch.
#ifndef SHARDC_AUDIT_SHARDINGS_H_
#define SHARDC_AUDIT_SHARDINGS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "audit/audit.h"
#include "audit/trace.h"

namespace shardc::audit {

class Shardings {
 public:
  // If the report has no mesh, no axes are found.
  Shardings(const Graph& graph, Tracer& tracer, const Entry& entry,
            const Report& report);

  // Returns whether a gather runs over an axis that shards the batch. If the
  // text has no shardings, the axes of the batch are only inferred. The gather
  // must then also concatenate the shards along dimension 0.
  bool GathersBatch(const Traffic& gather) const;
  // Returns whether a sum may be the reduction of a weight's gradient. This is
  // the case if the sum runs over an axis that shards the batch, or if the axes
  // of the batch or of the sum are unknown.
  bool MaySumOverBatch(const Traffic& sum) const;
  // Returns the mesh axes of size 2 or more that shard no argument and over
  // which no collective runs. Returns an empty list in two uncertain cases: a
  // sharding or the axes of a collective are unknown, or the text has no
  // shardings and the program returns no floating-point scalar.
  std::vector<const MeshAxis*> Unused() const;
  // Returns whether `count` is at least 2 and a loop of the program has this
  // many iterations.
  bool IsTripCount(int64_t count);

 private:
  bool IsOverBatch(const Traffic& one) const;
  void Read();
  void AddBatch(Node node, const Spec& spec);
  void InferBatch();
  bool ReturnsLoss() const;

  const Graph& graph_;
  Tracer& tracer_;
  const Entry& entry_;
  const Report& report_;
  // `any_`: the text has shardings of arguments. `all_known_`: the mesh's axes
  // can express all of these shardings.
  bool any_ = false, all_known_ = false;
  std::set<std::string> batch_axes_, used_axes_;
  std::set<int64_t> trips_;
};

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_SHARDINGS_H_
