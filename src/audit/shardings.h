// Which mesh axes shard a program's arguments, and which of them its batch.
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
  // The report has a mesh; without one no axis is known.
  Shardings(const Graph& graph, Tracer& tracer, const Entry& entry,
            const Report& report);

  // Whether a gather is over an axis that shards the batch.
  bool GathersBatch(const Traffic& gather) const;
  // Whether a sum may be that of a weight's gradient: it runs over an axis that
  // shards the batch, or it is not known which axes do.
  bool MaySumOverBatch(const Traffic& sum) const;
  // Returns the axes of more than one device by which nothing is sharded. None
  // if that cannot be known.
  std::vector<const MeshAxis*> Unused() const;
  // Whether a loop of the program runs so often.
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
  // Whether the text has shardings of arguments, and whether all are known.
  bool any_ = false, all_known_ = false;
  std::set<std::string> batch_axes_, used_axes_;
  std::set<int64_t> trips_;
};

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_SHARDINGS_H_
