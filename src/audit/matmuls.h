// Finds the matmuls with parameters that a mesh axis shards.
#ifndef SHARDC_AUDIT_MATMULS_H_
#define SHARDC_AUDIT_MATMULS_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "audit/audit.h"
#include "audit/gradients.h"
#include "audit/graph.h"
#include "audit/uses.h"

namespace shardc::audit {

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

#endif  // SHARDC_AUDIT_MATMULS_H_
