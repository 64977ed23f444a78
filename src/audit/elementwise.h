// Finds the arguments and the collectives from which a value is computed
// element by element.
#ifndef SHARDC_AUDIT_ELEMENTWISE_H_
#define SHARDC_AUDIT_ELEMENTWISE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "audit/graph.h"
#include "audit/trace.h"

namespace shardc::audit {

// A collective, and the index of one of its operands.
using SentOperand = std::pair<Node, int64_t>;

struct Origins {
  std::set<Node> arguments;  // parameters of the entry
  std::set<SentOperand> collectives;
  std::set<Node> lookups;  // instructions `gather`, at which the search ends
};

class Elementwise {
 public:
  explicit Elementwise(const Graph& graph) : graph_(graph) {}

  // Returns the arguments, collectives and lookups whose elements are in the
  // value, possibly after moves, collectives and arithmetic by elements.
  // Operands without dimensions and operands that are broadcast have no
  // elements in the value. Products of matrices, reductions and lookups end the
  // search.
  Origins OriginsOf(Value value);

 private:
  // A value, and the call through which the search entered its computation: an
  // index in `calls_`, or 0 if the search began in the computation.
  struct State {
    Value value;
    uint32_t call = 0;
  };
  // A call of a computation from another one that has been entered itself.
  struct Entered {
    Call call;
    uint32_t from = 0;  // index in `calls_`
  };

  void Follow(const State& state, Origins& out);
  void FollowOperand(const State& state, size_t index);
  void FollowElements(const State& state);
  void FollowParameter(const State& state, Origins& out);
  void FollowCalls(const State& state);
  void FollowCollective(const State& state, Origins& out);
  void Add(Node node, std::vector<int64_t> path, uint32_t call);
  void Enter(const Call& call, const State& state);

  const Graph& graph_;
  std::vector<Entered> calls_;
  std::map<std::tuple<uint32_t, Node, Block>, uint32_t> known_calls_;
  std::vector<State> open_;
  std::set<std::tuple<Node, std::vector<int64_t>, uint32_t>> seen_;
  // Limits the steps of all searches together.
  int64_t steps_left_ = int64_t{1} << 22;
};

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_ELEMENTWISE_H_
