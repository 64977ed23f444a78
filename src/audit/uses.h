// Follows the result of an instruction forward to the instructions that use it.
#ifndef SHARDC_AUDIT_USES_H_
#define SHARDC_AUDIT_USES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "audit/graph.h"

namespace shardc::audit {

class Uses {
 public:
  explicit Uses(const Graph& graph) : graph_(graph) {}

  // An instruction that computes with a result, and the index of the result
  // among the instruction's operands.
  struct Consumer {
    Node user = 0;
    size_t index = 0;
  };
  // Returns the instructions that compute with the result. Tuples, their
  // elements, calls, fusions and `-done` instructions are followed. Returns
  // nullopt if a consumer may be missing: the result also leaves the entry,
  // enters or leaves a loop or a conditional, passes a barrier or a nested
  // tuple, or the search reaches its limit.
  std::optional<std::vector<Consumer>> ConsumersOf(
      Node node, std::optional<int64_t> element = std::nullopt);

  // Returns whether the result is used and every use takes a `dynamic-slice` of
  // it. Copies, casts, reshapes, transposes, further gathers, and fusions are
  // followed. `element` is the index of the result in a tuple; nullopt if the
  // instruction returns no tuple.
  bool AllSlice(Node node, std::optional<int64_t> element = std::nullopt);
  // Returns whether the result is used and every use sorts it or takes its
  // largest elements.
  bool AllSort(Node node, std::optional<int64_t> element = std::nullopt);
  // Returns whether the result enters a loop, possibly after moves and fusions.
  bool ReachLoop(Node node, int depth = 0);
  // Returns whether the result is used and every use is an output of the entry,
  // possibly after copies and other moves.
  bool ReachOutput(Node node);
  // Returns whether the result is used and every use casts it, or a slice of
  // it, to a narrower floating-point type.
  bool AllNarrow(Node node, std::optional<int64_t> element = std::nullopt);

  // What `Find` does with a user of a result.
  enum class Seek : uint8_t { kFound, kFollow, kSkip };
  // Returns the first instruction for which `seek` returns kFound among the
  // users of a result. Tuples, fusions and bodies of loops are entered; the
  // users of the result of another instruction follow if `seek` returns
  // kFollow.
  std::optional<Node> Find(Node node, std::optional<int64_t> element,
                           const std::function<Seek(Node, size_t)>& seek);

 private:
  struct Use {
    Node of = 0, user = 0;
    size_t index = 0;  // index of `of` among the operands of `user`
  };
  // The decision about one use. kYes accepts the use and kNo refuses it. With
  // kFollow, the uses of the user's result decide.
  enum class Verdict : uint8_t { kYes, kNo, kFollow };
  using Judge = std::function<Verdict(const Use&)>;

  // Returns whether the result has uses and `judge` accepts all of them. If
  // `judge` returns kFollow for a use, the uses of the user's result are judged
  // instead.
  bool All(Node node, std::optional<int64_t> element, const Judge& judge,
           int depth);
  bool AllOf(const Use& use, const Judge& judge, int depth);
  bool Collect(Node node, std::optional<int64_t> element, int depth,
               std::vector<Consumer>& out);
  std::optional<Node> FindFrom(
      const Value& value, const std::function<Seek(Node, size_t)>& seek,
      std::set<std::pair<Node, std::vector<int64_t>>>& seen);
  bool CollectUse(const Use& use, std::optional<int64_t> element, int depth,
                  std::vector<Consumer>& out);
  // An instruction that uses a result as its operand `index`.
  struct User {
    Node node = 0;
    uint32_t index = 0;
  };
  // The users of all instructions of a computation, in one array.
  struct Users {
    // Indexed by instruction within the computation. An entry is the index in
    // `all` of the instruction's first user.
    std::vector<uint32_t> first;
    std::vector<User> all;
  };
  std::span<const User> UsersOf(Node node);
  std::optional<Node> Parameter(Block block, size_t number) const;

  const Graph& graph_;
  std::unordered_map<Block, Users> users_;
  int64_t steps_left_ = int64_t{1} << 22;
};

// Returns whether instructions of this opcode compute each element of the
// result from the elements of their operands at the same place.
bool IsArithmetic(std::string_view opcode);

// A collective, and the index of one of its operands.
using SentOperand = std::pair<Node, int64_t>;

struct Origins {
  std::set<Node> arguments;  // parameters of the entry
  std::set<SentOperand> collectives;
  std::set<Node> lookups;  // instructions `gather`, at which the search ends
  std::set<Node> matmuls;  // instructions `dot`, at which the search ends
  std::set<Node> slices;   // instructions `dynamic-slice`
};

class Elementwise {
 public:
  explicit Elementwise(const Graph& graph) : graph_(graph) {}

  // Returns the arguments, collectives and lookups whose elements are in the
  // value, possibly after moves, collectives and arithmetic by elements.
  // Operands without dimensions and operands that are broadcast have no
  // elements in the value. Matmuls of matrices, reductions and lookups end the
  // search, and so do collectives unless the search goes through them.
  Origins OriginsOf(Value value, bool through_collectives = true);

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
  bool through_collectives_ = true;
  std::vector<Entered> calls_;
  std::map<std::tuple<uint32_t, Node, Block>, uint32_t> known_calls_;
  std::vector<State> open_;
  std::set<std::tuple<Node, std::vector<int64_t>, uint32_t>> seen_;
  // Limits the steps of all searches together.
  int64_t steps_left_ = int64_t{1} << 22;
};

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_USES_H_
