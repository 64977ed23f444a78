// Reads the phase and the scopes of an operation from its name, which is a path
// of transformations, scopes and the primitive:
//
//   jit(step)/transpose(jvp(layer))/while/body/rematted_computation/attn/mul
//   phase: recomputed; scopes: layer/attn
#include "audit/origin.h"

#include <algorithm>
#include <vector>

namespace shardc::audit {
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
      out += (out.empty() ? "" : "/") + std::string(part);
    }
    op_name.remove_prefix(end + 1);
  }
}

}  // namespace shardc::audit
