// A function is a helper if it has one line of which instructions are made, and
// all of these are sharding constraints. An instruction is made of the
// innermost line of its stack that is in the user's program:
//
//   layers.py:12 constrain    op_name=".../sharding_constraint"
//   layers.py:40 mlp          called from here
//   layers.py:77 layer
//
// `constrain` is a helper, so the constraint is reported at line 40. `mlp` has
// other instructions, such as matrix products, and is no helper.
#include "audit/constraint_functions.h"

#include <map>
#include <unordered_map>
#include <vector>

#include "hlo/instruction.h"

namespace shardc::audit {

ConstraintFunctions::ConstraintFunctions(const hlo::Program& program)
    : frames_(program.frames) {
  struct Seen {
    int64_t line = 0;
    bool helps = true;
  };
  std::map<Function, Seen> seen;
  // The innermost line of each stack that has been read, by its number.
  std::unordered_map<std::string_view, hlo::SourceLine> known;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const std::string_view metadata = hlo::MetadataOf(program.instructions[i]);
    const auto frame = hlo::MemberOf(metadata, "stack_frame_id");
    if (!frame) continue;
    const auto [at, added] = known.try_emplace(*frame);
    if (added) at->second = hlo::UserLine(frames_.StackOf(metadata));
    const hlo::SourceLine& line = at->second;
    if (line.function.empty()) continue;
    const auto name = hlo::MemberOf(metadata, "op_name").value_or("");
    Seen& function =
        seen.try_emplace({line.file, line.function}, Seen{line.line})
            .first->second;
    if (line.line != function.line ||
        name.find("sharding_constraint") == std::string_view::npos) {
      function.helps = false;
    }
  }
  for (const auto& [function, one] : seen) {
    if (one.helps) functions_.insert(function);
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
