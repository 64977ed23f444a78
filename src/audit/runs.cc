// Counts how often each computation runs, because a collective sends its bytes
// in each run. Following every path from the entry separately could take
// exponential time. Instead, two passes go over the sorted list of calls:
//
//   callees first   adds up the bytes that a computation and its callees send,
//                   to find the branch of each conditional that sends most;
//                   only this branch is counted
//   callers first   runs(callee) += runs(caller) * runs of the callee per call
//
// For example, a loop of 4 iterations is inside a loop of 3 iterations. The
// inner body runs 12 times. The inner condition runs once more than its body in
// each iteration of the outer loop, so it runs 15 times in total.
#include "audit/runs.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "audit/graph.h"
#include "hlo/program.h"
#include "source/wording.h"

namespace shardc::audit {
namespace {

class Counting {
 public:
  Counting(const Graph& graph, Tracer& tracer, std::vector<Size> sent)
      : graph_(graph),
        tracer_(tracer),
        sent_(std::move(sent)),
        times_(graph.calls().size(), Size(1)) {}

  Runs Count() {
    const auto& calls = graph_.calls();
    for (size_t end = calls.size(); end > 0;) {
      size_t begin = end - 1;
      while (begin > 0 && calls[begin - 1].from == calls[end - 1].from) --begin;
      Weigh(begin, end);
      end = begin;
    }
    // The pass visited callees first, so `unknown_loops` and `conditionals` are
    // not in the order of the text, which the report needs.
    std::ranges::sort(runs_.unknown_loops);
    std::ranges::sort(runs_.conditionals);
    runs_.of.assign(sent_.size(), Size(0));
    runs_.of[graph_.program().entry] = 1;
    for (size_t i = 0; i < calls.size(); ++i) {
      const Size caller = runs_.of[graph_.BlockOf(calls[i].from)];
      // A branch that was not chosen has zero runs. It is skipped, because zero
      // times an overflowed number of runs would overflow as well.
      if (times_[i].value() == 0 || caller.value() == 0) continue;
      runs_.of[calls[i].to] += caller * times_[i];
    }
    return std::move(runs_);
  }

 private:
  // Sets how often each call from one instruction runs the called computation.
  void Weigh(size_t begin, size_t end) {
    const Call& first = graph_.calls()[begin];
    if (first.kind == CallKind::kBranch) {
      Choose(begin, end);
    } else if (first.kind != CallKind::kOnce) {
      Repeat(begin, end);
    }
    Size& caller = sent_[graph_.BlockOf(first.from)];
    for (size_t i = begin; i < end; ++i) {
      const Size callee = sent_[graph_.calls()[i].to];
      if (times_[i].value() == 0 || callee.value() == 0) continue;
      caller += callee * times_[i];
    }
  }

  void Choose(size_t begin, size_t end) {
    const auto sent = [&](size_t i) {
      return sent_[graph_.calls()[i].to].value();
    };
    size_t most = begin;
    bool differ = false;
    for (size_t i = begin; i < end; ++i) {
      differ = differ || sent(i) != sent(begin);
      if (sent(i) > sent(most)) most = i;
    }
    for (size_t i = begin; i < end; ++i) times_[i] = i == most ? 1 : 0;
    if (differ) runs_.conditionals.push_back(graph_.calls()[begin].from);
  }

  void Repeat(size_t begin, size_t end) {
    bool sends = false;
    for (size_t i = begin; i < end; ++i) {
      sends = sends || sent_[graph_.calls()[i].to].value() > 0;
    }
    const Node loop = graph_.calls()[begin].from;
    const auto trips =
        sends ? TripsOf(graph_, tracer_, loop) : std::optional<int64_t>(1);
    if (!trips) runs_.unknown_loops.push_back(loop);
    for (size_t i = begin; i < end; ++i) {
      const bool body = graph_.calls()[i].kind == CallKind::kBody;
      if (trips) times_[i] = body ? Size(*trips) : Size(*trips) + 1;
    }
  }

  const Graph& graph_;
  Tracer& tracer_;
  std::vector<Size> sent_;
  // Indexed by call: how often the callee runs in one run of the caller.
  std::vector<Size> times_;
  Runs runs_;
};

}  // namespace

Runs CountRuns(const Graph& graph, Tracer& tracer,
               const std::vector<Size>& sent) {
  return Counting(graph, tracer, sent).Count();
}

// Infers how often a loop runs. Only the compiler's last passes record this
// number in the text. In other texts it is computed from the loop's counter,
// because JAX's loops count up to a constant:
//
//   condition: compare(element 0 of the state, constant 4), direction=LT
//   body:      element 0 of the result = add(element 0 of the state, 1)
//   caller:    element 0 of the operand = constant 0         ->  4 times
//
// Each of these instructions may be inside a fusion.

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

// Reads the phase and the scopes of an operation from its name, which is a path
// of transformations, scopes and the primitive:
//
//   jit(step)/transpose(jvp(layer))/while/body/rematted_computation/attn/mul
//   phase: recomputed; scopes: layer/attn

namespace {

// Parts of an operation's path that JAX adds itself, like `jit(...)` and
// `pmap(...)`. All other parts are treated as named scopes.
constexpr std::string_view kOwn[] = {"while",
                                     "body",
                                     "cond",
                                     "closed_call",
                                     "checkpoint",
                                     "scan",
                                     "shard_map",
                                     "rematted_computation",
                                     "remat",
                                     "remat2",
                                     "pjit",
                                     "core_call",
                                     "custom_jvp_call",
                                     "custom_vjp_call",
                                     "branch_0_fun",
                                     "branch_1_fun"};
// Beginnings of transformations that JAX writes around a scope, such as
// `jvp(layer)`.
constexpr std::string_view kAround[] = {"transpose(", "jvp(", "vmap(",
                                        "checkpoint(", "remat("};

bool Contains(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

// Removes the transformations around a part of a path: `transpose(jvp(layer))`
// becomes `layer`. Returns an empty view for a part that JAX adds itself, such
// as `while`.
std::string_view PlainPart(std::string_view part) {
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view around : kAround) {
      if (!part.starts_with(around) || !part.ends_with(')')) continue;
      part.remove_prefix(around.size());
      part.remove_suffix(1);
      found = true;
    }
  }
  const bool own = part.starts_with("jit(") || part.starts_with("pmap(") ||
                   std::ranges::find(kOwn, part) != std::end(kOwn);
  return own ? std::string_view() : part;
}

}  // namespace

std::string_view PhaseName(Phase phase) {
  constexpr std::string_view kNames[] = {"", "forward", "backward",
                                         "recomputed"};
  return kNames[static_cast<size_t>(phase)];
}

Phase PhaseOf(std::string_view op_name) {
  if (Contains(op_name, "rematted_computation")) return Phase::kRecomputed;
  if (Contains(op_name, "transpose(")) return Phase::kBackward;
  return Contains(op_name, "jvp(") ? Phase::kForward : Phase::kNone;
}

std::string ScopeOf(std::string_view op_name) {
  std::string out;
  while (true) {
    // A part ends at a slash outside of parentheses. Slashes inside of
    // parentheses separate scopes within the part.
    size_t end = 0, depth = 0;
    for (; end < op_name.size() && (depth > 0 || op_name[end] != '/'); ++end) {
      if (op_name[end] == '(') ++depth;
      if (op_name[end] == ')' && depth > 0) --depth;
    }
    if (end == op_name.size()) return out;  // the rest is the primitive
    const std::string_view part = PlainPart(op_name.substr(0, end));
    if (!part.empty()) {
      AppendItem(out, "/", part);
    }
    op_name.remove_prefix(end + 1);
  }
}

// A function is a helper if every instruction whose stack has the function is a
// sharding constraint, and if all of these go through one line of it. Helpers
// may call each other:
//
//   sharding.py:12 constrain    op_name=".../sharding_constraint"
//   sharding.py:20 by_heads     called from here
//   layers.py:40 attention
//   layers.py:77 layer
//
// `constrain` and `by_heads` are helpers, so the constraint is reported at line
// 40. `attention` has other instructions, such as matmuls, and is no
// helper.

ConstraintFunctions::ConstraintFunctions(const hlo::Program& program)
    : frames_(program.frames) {
  // By the number of a stack: the metadata of one of its instructions, and
  // whether all of them are constraints.
  std::unordered_map<std::string_view, std::pair<std::string_view, bool>>
      stacks;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const std::string_view metadata = hlo::MetadataOf(program.instructions[i]);
    const auto frame = hlo::MemberOf(metadata, "stack_frame_id");
    if (!frame) continue;
    const auto name = hlo::MemberOf(metadata, "op_name").value_or("");
    auto& stack = stacks.try_emplace(*frame, metadata, true).first->second;
    if (name.find("sharding_constraint") == std::string_view::npos) {
      stack.second = false;
    }
  }
  std::map<Function, std::set<int64_t>> lines;
  std::set<Function> others;
  for (const auto& [frame, stack] : stacks) {
    for (const hlo::SourceLine& line : frames_.StackOf(stack.first)) {
      if (line.function.empty() || hlo::IsInPackage(line)) continue;
      const Function function{line.file, line.function};
      if (stack.second) {
        lines[function].insert(line.line);
      } else {
        others.insert(function);
      }
    }
  }
  for (const auto& [function, all] : lines) {
    if (all.size() == 1 && !others.contains(function)) {
      functions_.insert(function);
    }
  }
}

hlo::SourceLine ConstraintFunctions::LineOf(std::string_view metadata) const {
  auto stack = frames_.StackOf(metadata);
  const hlo::SourceLine innermost = hlo::UserLine(stack);
  std::erase_if(stack, [&](const hlo::SourceLine& line) {
    return hlo::IsInPackage(line) ||
           functions_.contains({line.file, line.function});
  });
  return stack.empty() ? innermost : stack.front();
}

}  // namespace shardc::audit
