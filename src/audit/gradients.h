// Finds the parameters whose gradients a program's collectives sum.
#ifndef SHARDC_AUDIT_GRADIENTS_H_
#define SHARDC_AUDIT_GRADIENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "audit/audit.h"
#include "audit/graph.h"
#include "audit/uses.h"

namespace shardc::audit {

// A parameter is found by data flow alone: by what the sum is added to, and by
// what its factors are multiplied with elsewhere. Shapes, names and source
// lines of operations are no evidence: several parameters have equal shapes,
// and compilers give an operation the line of another one.
class Gradients {
 public:
  Gradients(const Graph& graph, const Entry& entry);

  // Returns the parameter of the entry whose gradient the collective sums in
  // this operand. Returns nullopt if it is not known.
  std::optional<Node> ParameterOf(const SentOperand& sum);
  // Returns the one of the arguments with which the model computes. Returns
  // nullopt if there are none or several.
  std::optional<Node> UsedOf(const std::set<Node>& arguments) const;

 private:
  using Origin = std::pair<Node, std::vector<int64_t>>;  // Tracer::SourceOf
  // A matmul of a matrix and a parameter.
  struct Matmul {
    Node parameter = 0;
    std::vector<int64_t> dims;  // of the parameter's operand, sorted
    bool backward = false;
  };

  void ReadModel();
  void AddMatmul(Node matmul);
  void ReadUpdates();
  std::optional<Node> Multiplied(const SentOperand& sum);
  Origin OriginOf(Node operand);

  const Graph& graph_;
  const Entry& entry_;
  Tracer tracer_;
  // The parameters that the model computes with, other than by elements. States
  // of an optimizer are not among them.
  std::set<Node> used_;
  // The matmuls with a parameter, by the origin of the other factor.
  std::multimap<Origin, Matmul> matmuls_;
  // The arguments from which, by elements, those outputs are computed that have
  // elements of the sum.
  std::map<SentOperand, std::set<Node>> updates_;
};

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
  // Returns the mesh axes that shard an argument; empty if they are not known.
  std::set<std::string> AxesOf(Node argument) const;
  // Returns whether the program has inputs and all shardings of its arguments
  // are known.
  bool KnowsInputs() const { return has_input_ && all_known_; }
  // Returns whether an axis may shard the data with which the program computes:
  // an input is sharded over it, or the gradient of a matrix or the loss is
  // summed over it.
  bool MayShardData(const std::string& axis) const {
    return data_axes_.contains(axis);
  }
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
  bool any_ = false, all_known_ = false, has_input_ = false;
  std::set<std::string> batch_axes_, used_axes_, data_axes_;
  std::map<Node, std::set<std::string>> axes_of_;  // by the argument
  std::set<int64_t> trips_;
};

// Finds the matmuls with parameters that a mesh axis shards.

class Matmuls {
 public:
  Matmuls(const Graph& graph, Tracer& tracer, const Entry& entry,
          const Report& report, const Shardings& shardings);

  // Returns the names of the parameters because of which these axes shard the
  // value: it has elements of their matmuls, possibly after matmuls of two
  // activations, and the axes shard the parameter where it is multiplied. The
  // search ends at every collective, and at matmuls with batch dimensions,
  // such as those of experts.
  std::set<std::string> ShardersOf(Node value, const Members& over);
  // Returns the name of the parameter whose rows the axes of the sum shard, if
  // each device slices an activation to multiply it by its rows: with the
  // parameter's columns sharded, neither the slice nor the sum is needed.
  // Returns nullopt for other sums.
  std::optional<std::string> SlicedFor(const Traffic& sum, Uses& uses);
  // Returns whether the axis shards a parameter where it is multiplied.
  bool Shards(const std::string& axis);
  // Returns whether one of the axes shards the parameter of this name in a
  // matmul.
  bool Keeps(const std::string& name, const Members& over);
  // Returns the name of the only parameter with which the value is multiplied,
  // possibly after moves. Returns an empty name if there is none or several.
  std::string FactorOf(Node value);

 private:
  // A parameter that is an operand of a matmul.
  struct Multiplied {
    Node parameter = 0;
    std::set<std::string> axes;  // those that shard it in the matmul
  };

  std::optional<Multiplied> ParameterAt(Node matmul, size_t operand);
  void ReadMatmuls();
  void Search(Node value, const Members& over, int depth,
              std::set<std::string>& out);
  bool IsScattered(Node slice, Uses& uses);

  const Graph& graph_;
  Tracer& tracer_;
  const Entry& entry_;
  const Shardings& shardings_;
  Elementwise elementwise_;
  std::map<Node, const Members*> members_;  // by the collective
  std::set<Node> searched_;                 // by the search that is running
  // The names of the parameters with which the results of instructions are
  // multiplied, and the axes that shard parameters in matmuls. They are read
  // when one of them is first needed.
  std::optional<std::map<Node, std::set<std::string>>> factors_;
  std::map<std::string, std::set<std::string>> axes_;  // by the parameter
};

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_GRADIENTS_H_
