// Writes the message of each flaw (communication in a compiled program that its
// author probably did not intend). Each code has its own message. For example:
//
//   SHD601  an activation `f32[8,16,64]` is gathered over axes of the batch,
//           over `fsdp` 4 times in the forward pass: 96 KiB per device
#include "audit/found_flaw.h"

#include <string_view>
#include <utility>

#include "source/wording.h"

namespace shardc::audit {
namespace {

// Returns for example "4 times in the forward pass: 96 KiB per device".
std::string Often(const FoundFlaw& found) {
  const std::string_view phase = PhaseName(found.most->phase);
  return Counted(found.times, "time") +
         (phase.empty() || phase == "recomputed"
              ? ""
              : " in the " + std::string(phase) + " pass") +
         ": " + BytesText(found.sent) + " per device";
}

std::string Over(const FoundFlaw& found) {
  const Members& members = *found.most->members;
  return members.named ? "over `" + members.text + "`"
                       : "among " + CountText(members.size) + " devices";
}

std::string SubjectOf(const FoundFlaw& found) {
  const Moved& moved = found.most->moved;
  const std::string shape = "`" + moved.shape + "`";
  if (moved.what == What::kActivation) return "an activation " + shape;
  if (moved.name.empty()) {
    return "a " + std::string(WhatName(moved.what)) + " " + shape;
  }
  return "the " + std::string(WhatName(moved.what)) + " " +
         ShortQuote(moved.name) + " " + shape;
}

}  // namespace

Flaw Worded(const FoundFlaw& found, const Graph& graph) {
  Flaw out;
  out.code = found.code;
  out.level = found.level;
  if (found.most == nullptr) {
    out.at = graph.program().name;
    out.axis = found.detail;
    out.message = "mesh axis `" + out.axis + "` shards no argument and no " +
                  "collective runs over it, so its " + CountText(found.times) +
                  " groups compute the same";
    out.help = "shard the batch or the weights over `" + out.axis +
               "`, or give its devices to another axis";
    return out;
  }
  const Traffic& one = *found.most;
  out.at = graph.At(one.node).name;
  out.line = one.line;
  out.metadata = one.metadata;
  if (one.moved.what == What::kParameter) out.parameter = one.moved.name;
  // For this code, the collective moves a gradient, and `detail` is the name of
  // its parameter.
  if (found.code == &code::kGradientNotScattered) out.parameter = found.detail;
  const std::string what = SubjectOf(found),
                    how = Over(found) + " " + Often(found);
  const auto say = [&](std::string message, std::string help) {
    out.message = std::move(message);
    out.help = std::move(help);
  };
  switch (found.code->number) {
    case code::kActivationGathered.number:
      say(what + " is gathered over axes of the batch, " + how,
          found.detail.empty()
              ? "keep its batch dimension sharded: add the axes of the batch "
                "to the `with_sharding_constraint` at or after this line"
              : "the compiler does not partition this sort or `top_k`: call it "
                "inside `jax.shard_map` over the axes of the batch");
      break;
    case code::kGatheredThenSliced.number:
      say(what + " is gathered " + how + ", and each device then keeps a slice",
          "the compiler found no direct way from one sharding to the other: "
          "change one sharding constraint so that both agree, or reshard in "
          "two steps that move one axis each");
      break;
    case code::kWeightGatheredTwice.number:
      say(what + " is gathered again " + how +
              ", after an equal gather in the "
              "same pass",
          "compute with one gathered copy: constrain the parameter once and "
          "use the result at both places");
      break;
    case code::kWeightHoisted.number:
      say("all layers of " + what +
              " are gathered before the loop over them, " + how,
          "constrain the parameter inside the loop's body, so that the weights "
          "of one layer at a time are gathered");
      break;
    case code::kGradientNotScattered.number:
      say((found.detail.empty()
               ? "the gradient `" + one.moved.shape + "`"
               : "the gradient of " + ShortQuote(found.detail) + " `" +
                     one.moved.shape + "`") +
              " of a sharded parameter is all-reduced " + how +
              ", and no device takes only its slice",
          "give the gradients the parameters' shardings, with `out_shardings` "
          "or a sharding constraint, so that they are reduce-scattered");
      break;
    case code::kOutputGathered.number:
      say(what + " is gathered for an output of the program " + how,
          "declare the output's sharding in `out_shardings` as the program "
          "computes it, or leave it out");
      break;
    case code::kSentInWiderDtype.number:
      if (found.detail.empty()) {
        say(what + " is reduced " + how +
                ", and the sum is then rounded to a "
                "narrower type",
            "reduce in the narrower type if its precision is enough: cast "
            "before the reduction, or set `preferred_element_type`");
      } else {
        say(what + " is sent " + how + ", after a cast from `" + found.detail +
                "`",
            "cast after the collective: constrain the `" + found.detail +
                "` value to the sharding that the computation needs, then "
                "cast");
      }
      break;
    case code::kManySmallCollectives.number:
      say(found.detail + " separate collectives such as " + what + " " +
              Over(found) + " send less than 4 KiB each",
          "send them together: stack the values and reduce once, or reduce "
          "after the loop");
      break;
    default:
      break;
  }
  return out;
}

}  // namespace shardc::audit
