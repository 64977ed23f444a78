// Infers how often a loop runs. Only the compiler's last passes record this
// number in the text. In other texts it is computed from the loop's counter,
// because JAX's loops count up to a constant:
//
//   condition: compare(element 0 of the state, constant 4), direction=LT
//   body:      element 0 of the result = add(element 0 of the state, 1)
//   caller:    element 0 of the operand = constant 0         ->  4 times
//
// Each of these instructions may be inside a fusion.
#include <algorithm>

#include "audit/trace.h"

namespace shardc::audit {
namespace {

using Path = std::vector<int64_t>;

std::optional<int64_t> Noted(std::string_view attributes) {
  constexpr std::string_view kKey = "known_trip_count";
  const size_t key = attributes.find(kKey);
  if (key == std::string_view::npos) return std::nullopt;
  attributes.remove_prefix(key + kKey.size());
  // The key is followed by `":{"n":"4"}`. Older texts escape the quotes.
  const size_t digit = attributes.find_first_not_of("\\\":{n ");
  if (digit == std::string_view::npos) return std::nullopt;
  const auto count = hlo::LeadingNumber(attributes.substr(digit));
  return count && *count >= 0 ? count : std::nullopt;
}

class Counter {
 public:
  Counter(const Graph& graph, Tracer& tracer, Node loop)
      : graph_(graph), tracer_(tracer), loop_(loop) {}

  std::optional<int64_t> Count() {
    for (const Call& call : graph_.CallsFrom(loop_)) {
      if (graph_.BlockAt(call.to).empty()) return std::nullopt;
      (call.kind == CallKind::kBody ? body_ : condition_) = call.to;
    }
    if (!body_ || !condition_) return std::nullopt;
    const auto compare =
        Computing({graph_.BlockAt(*condition_).root, {}}, *condition_);
    const hlo::Instruction at = graph_.At(compare.node);
    if (at.opcode != "compare") return std::nullopt;
    const auto direction = hlo::AttributeOf(at.attributes, "direction");
    if (direction != "LT" && direction != "LE") return std::nullopt;
    const auto counter = State(compare.node, 0, *condition_);
    const auto limit = Number(compare.node, 1, *condition_);
    if (!counter || !limit) return std::nullopt;
    const auto start = Initial(*counter);
    const auto step = StepOf(*counter);
    if (!start || !step || *step < 1) return std::nullopt;
    int64_t distance = 0;
    if (__builtin_sub_overflow(*limit, *start, &distance)) return std::nullopt;
    if (distance < 0 || (distance == 0 && direction == "LT")) return 0;
    return direction == "LT" ? (distance - 1) / *step + 1
                             : distance / *step + 1;
  }

 private:
  Value Computing(Value value, Block block) {
    return tracer_.SourceOf(std::move(value), block);
  }

  // If an operand in `block` is an element of the loop's state, returns the
  // path of this element; otherwise returns nullopt.
  std::optional<Path> State(Node node, size_t operand, Block block) {
    const auto found = graph_.Operand(node, operand);
    if (!found) return std::nullopt;
    const Value source = Computing({*found, {}}, block);
    const bool state = graph_.At(source.node).opcode == "parameter" &&
                       graph_.BlockOf(source.node) == block &&
                       !source.path.empty();
    return state ? std::optional(source.path) : std::nullopt;
  }

  // Returns the value of an operand that is a constant. The operand may also be
  // an element of the state that starts as a constant and is never changed.
  std::optional<int64_t> Number(Node node, size_t operand, Block block) {
    const auto found = graph_.Operand(node, operand);
    if (!found) return std::nullopt;
    const auto constant = tracer_.ConstantOf(Computing({*found, {}}, block));
    if (constant) return constant;
    const auto path = State(node, operand, block);
    if (!path || !tracer_.LeavesUnchanged(*body_, *path)) return std::nullopt;
    return Initial(*path);
  }

  std::optional<int64_t> Initial(const Path& path) {
    const auto operand = graph_.Operand(loop_, 0);
    if (!operand) return std::nullopt;
    return tracer_.ConstantOf(tracer_.SourceOf({*operand, path}));
  }

  std::optional<int64_t> StepOf(const Path& counter) {
    const Value sum = Computing({graph_.BlockAt(*body_).root, counter}, *body_);
    if (graph_.At(sum.node).opcode != "add") return std::nullopt;
    for (const size_t operand : {size_t{0}, size_t{1}}) {
      if (State(sum.node, operand, *body_) == counter) {
        return Number(sum.node, 1 - operand, *body_);
      }
    }
    return std::nullopt;
  }

  const Graph& graph_;
  Tracer& tracer_;
  Node loop_;
  std::optional<Block> body_, condition_;
};

}  // namespace

std::optional<int64_t> TripsOf(const Graph& graph, Tracer& tracer, Node loop) {
  const auto noted = Noted(graph.At(loop).attributes);
  return noted ? noted : Counter(graph, tracer, loop).Count();
}

}  // namespace shardc::audit
