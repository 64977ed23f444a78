// Writes the message of each flaw. Each code has its own message. For example:
//
//   SHD601  an activation `f32[8,16,64]` is gathered over axes of the batch,
//           over `fsdp` 4 times in the forward pass: 96 KiB per device
#include "audit/flaws.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "comm/collective.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::audit {
namespace {

std::string Over(const Members& members) {
  return members.named ? "over `" + members.text + "`"
                       : "among " + CountText(members.size) + " devices";
}

// Returns for example "over `fsdp` 4 times in the forward pass: 96 KiB per
// device". Collectives over several groups of axes are counted for each:
// "over `dp` 1 time and over `tp` 2 times".
std::string Often(const FoundFlaw& found) {
  const std::string out = ListInWords(found.over, [](const auto& over) {
    return Over(*over.first) + " " + Counted(over.second, "time");
  });
  const std::string_view phase = PhaseName(found.phase);
  return out +
         (phase.empty() || phase == "recomputed"
              ? ""
              : " in the " + std::string(phase) + " pass") +
         ": " + BytesText(found.sent) + " per device";
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

bool IsFloat(const Traffic& one) {
  return one.moved.shape.starts_with('f') || one.moved.shape.starts_with("bf");
}

}  // namespace

Flaw Worded(const FoundFlaw& found, const Graph& graph) {
  Flaw out;
  out.code = found.code;
  out.level = found.level;
  if (found.most == nullptr) {
    out.at = graph.program().name;
    out.axis = found.detail;
    out.message =
        "mesh axis `" + out.axis + "` shards " +
        (found.parameter.empty()
             ? "no argument and no collective runs over it"
             : "no input, and parameters such as " +
                   ShortQuote(found.parameter) + " are gathered over it") +
        ", so its " + CountText(found.times) + " groups compute the same";
    out.help = "shard the batch or the weights over `" + out.axis +
               "`, or give its devices to another axis";
    return out;
  }
  const Traffic& one = *found.most;
  out.at = graph.At(one.node).name;
  out.line = found.line;
  out.metadata = found.metadata;
  out.parameter = found.parameter;
  const std::string what = SubjectOf(found), how = Often(found);
  const auto say = [&](std::string message, std::string help) {
    out.message = std::move(message);
    out.help = std::move(help);
  };
  switch (found.code->number) {
    case code::kActivationGathered.number:
      if (found.detail == kOfMatmul) {
        say(what + " is gathered " + how + ", although a matmul with " +
                (found.parameter.empty() ? "parameters"
                                         : ShortQuote(found.parameter)) +
                " made it in shards",
            "keep it sharded in the `with_sharding_constraint` at or after "
            "this line; if a matmul follows, shard the rows of its parameter "
            "over the same axis, so that only its result is summed");
        break;
      }
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
      say((found.parameter.empty()
               ? "the gradient `" + one.moved.shape + "`"
               : "the gradient of " + ShortQuote(found.parameter) + " `" +
                     one.moved.shape + "`") +
              " of a sharded parameter is all-reduced " + how +
              ", and each device computes with the entire sum",
          "give the gradients the parameters' shardings, with `out_shardings` "
          "or a sharding constraint, so that they are reduce-scattered");
      break;
    case code::kOutputGathered.number:
      say(what + " is gathered for an output of the program " + how,
          "declare the output's sharding in `out_shardings` as the program "
          "computes it, or leave it out");
      break;
    case code::kSentInWiderDtype.number:
      if (found.detail.empty() && DefOf(one.kind).reduces) {
        say(what + " is reduced " + how +
                ", and the sum is then rounded to a "
                "narrower type",
            "reduce in the narrower type if its precision is enough: cast "
            "before the reduction, or set `preferred_element_type`");
      } else if (found.detail.empty()) {
        say(what + " is sent " + how +
                ", and each device then casts it to a narrower type",
            "cast before the sharding constraint that gathers it, and "
            "constrain the narrower value to the sharding that it has, so that "
            "the compiler does not gather before the cast");
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
              Over(*one.members) + " send less than 4 KiB each",
          "send them together: stack the values and reduce once, or reduce "
          "after the loop");
      break;
    case code::kWeightResharded.number: {
      std::string why =
          ", because the parameter's spec shards other "
          "dimensions than the computation needs";
      if (one.moved.what == What::kActivation && !DefOf(one.kind).reduces) {
        why = (found.detail == kOfMatmul ? " after the matmul with "
                                         : " for the matmul with ") +
              ShortQuote(found.parameter) +
              ", because its sharding does not fit the parameter's spec";
      } else if (DefOf(one.kind).reduces) {
        why = " and then sliced, because the rows of " +
              ShortQuote(found.parameter) +
              " are sharded and the activations are not";
      } else if (!found.detail.empty()) {
        why = ", so each device of `" + found.detail + "` computes the same";
      }
      const std::string_view done = DefOf(one.kind).reduces ? " is summed "
                                    : one.kind == Collective::kAllGather
                                        ? " is gathered "
                                        : " is resharded ";
      say(what + std::string(done) + how + why,
          "exchange the axes in the spec of the parameter, or change the "
          "sharding constraint of the activations at this line");
      break;
    }
    case code::kLookupOfBatch.number:
      say((IsFloat(one) ? "the rows `" : "the indices `") + one.moved.shape +
              "` of a lookup" +
              (found.parameter.empty() ? ""
                                       : " in " + ShortQuote(found.parameter)) +
              " are gathered, " + how +
              ", so each device looks up the tokens of others",
          "shard the table over axes that do not shard the batch, such as its "
          "rows over the tensor axis, or constrain it to that before the "
          "lookup");
      break;
    default:
      break;
  }
  return out;
}

}  // namespace shardc::audit
