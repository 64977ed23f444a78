// Finds the parameters whose gradients a program's collectives sum.
#ifndef SHARDC_AUDIT_GRADIENTS_H_
#define SHARDC_AUDIT_GRADIENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "audit/elementwise.h"
#include "audit/entry.h"
#include "audit/graph.h"
#include "audit/trace.h"

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
  // A product of a matrix and a parameter.
  struct Product {
    Node parameter = 0;
    std::vector<int64_t> dims;  // of the parameter's operand, sorted
    bool backward = false;
  };

  void ReadModel();
  void AddProduct(Node product);
  void ReadUpdates();
  std::optional<Node> Multiplied(const SentOperand& sum);
  Origin OriginOf(Node operand);

  const Graph& graph_;
  const Entry& entry_;
  Tracer tracer_;
  // The parameters that the model computes with, other than by elements. States
  // of an optimizer are not among them.
  std::set<Node> used_;
  // The products with a parameter, by the origin of the other factor.
  std::multimap<Origin, Product> products_;
  // The arguments from which, by elements, those outputs are computed that have
  // elements of the sum.
  std::map<SentOperand, std::set<Node>> updates_;
};

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_GRADIENTS_H_
