// Checks which tensors of a layer each policy keeps, and which texts are no
// policy.
#include "step/recompute.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace shardc::step {
namespace {

std::optional<Remat> Policy(const std::string& text, std::string* why) {
  return ParseRemat(text, *why);
}

// The tensors of a layer, one for each way in which tensors are computed.
constexpr Candidate kInput{"layer_input", "decoder_layer_input", Made::kCarried,
                           true};
constexpr Candidate kQuery{"q_proj", "query_proj", Made::kDot, true};
constexpr Candidate kGate{"gate_proj", "mlpwi_0", Made::kDot, true};
// A product with a weight whose result only the next layer reads.
constexpr Candidate kDown{"down_proj", "mlpwo", Made::kDot, true, false, false};
constexpr Candidate kContext{"context", "context", Made::kBatchDot, true};
// A product that the backward pass reads and that is cheap to recompute from
// the kept tensors.
constexpr Candidate kOutput{"out_proj", "out_proj", Made::kDot,
                            true,       true,       false};
constexpr Candidate kNorm{"norm", "", Made::kOther};
constexpr Candidate kUnread{"mask", "", Made::kOther, false, false};
constexpr const Candidate* kLayer[] = {&kInput,   &kQuery,  &kGate, &kDown,
                                       &kContext, &kOutput, &kNorm, &kUnread};

std::string KeptBy(const std::string& text) {
  std::string why;
  const auto policy = Policy(text, &why);
  if (!policy) return why;
  std::string out;
  for (const Candidate* tensor : kLayer) {
    if (!Keeps(*policy, *tensor)) continue;
    out += (out.empty() ? "" : " ") + std::string(tensor->name);
  }
  return out;
}

TEST_CASE("each policy keeps its tensors") {
  struct Case {
    std::string policy, kept;
  };
  const Case kCases[] = {
      {"everything_saveable",
       "layer_input q_proj gate_proj context out_proj norm"},
      {"nothing_saveable", "layer_input"},
      {"dots_saveable", "layer_input q_proj gate_proj context"},
      {"checkpoint_dots", "layer_input q_proj gate_proj context"},
      {"dots_with_no_batch_dims_saveable", "layer_input q_proj gate_proj"},
      {"checkpoint_dots_with_no_batch_dims", "layer_input q_proj gate_proj"},
      {"save_anything_except_these_names(q_proj)",
       "layer_input gate_proj context out_proj norm"},
      {"save_any_names_but_these(context)", "layer_input q_proj gate_proj"},
      {"save_only_these_names(context)", "layer_input context"},
      {"save_only_these_names(query_proj)", "layer_input q_proj"},
      // Keeping down_proj would save no work, since only the next layer reads
      // it.
      {"save_only_these_names(down_proj,out_proj)", "layer_input"},
      {"save_only_these_names(mlpwi)", "layer_input gate_proj"},
      {"save_only_these_names(mlpwi_1)", "layer_input"},
      {"save_from_both_policies(save_only_these_names(context), "
       "save_only_these_names(q_proj))",
       "layer_input q_proj context"},
      {" save_only_these_names( q_proj , context )",
       "layer_input q_proj context"},
  };
  for (const Case& test : kCases) {
    CAPTURE(test.policy);
    CHECK(KeptBy(test.policy) == test.kept);
  }
}

TEST_CASE("a text that is no policy has a reason") {
  struct Case {
    std::string policy, why, help;
  };
  const std::string kPolicies = "the policies are: everything_saveable, ";
  const std::string kTensors = "the tensors are: layer_input, ";
  const Case kCases[] = {
      {"", "`` is no policy", kPolicies},
      {"remat", "`remat` is no policy", kPolicies},
      {"nothing", "`nothing` is no policy; did you mean `nothing_saveable`?",
       kPolicies},
      {"full", "`full` is no policy",
       "`full` is a word of MaxText, Megatron-LM and torchtitan: write "
       "`nothing_saveable`, which keeps only the input of each layer"},
      {"dots_savable",
       "`dots_savable` is no policy; did you mean `dots_saveable`?", kPolicies},
      {"save_and_offload_only_these_names(context)",
       "`save_and_offload_only_these_names` moves tensors to the host, which "
       "is not supported",
       kPolicies},
      {"offload_dot_with_no_batch_dims",
       "`offload_dot_with_no_batch_dims` moves tensors to the host, which is "
       "not supported",
       kPolicies},
      {"nothing_saveable(q_proj)", "this policy takes no names",
       "leave out the names"},
      {"save_only_these_names",
       "a policy of names takes some, such as (q_proj,context)", kTensors},
      {"save_only_these_names()",
       "a policy of names takes some, such as (q_proj,context)", kTensors},
      {"save_only_these_names(q_prj)",
       "`q_prj` is no name of a tensor; did you mean `q_proj`?", kTensors},
      {"save_from_both_policies(dots_saveable,save_only_these_names(norm))",
       "`norm` is no name of a tensor", kTensors},
      {"save_only_these_names(q_proj", "a parenthesis is not closed",
       "add `)`"},
      {"save_from_both_policies(nothing_saveable)",
       "`save_from_both_policies` takes two policies",
       "write save_from_both_policies("},
      {"save_from_both_policies(nothing_saveable,dots_saveable,"
       "dots_saveable)",
       "`save_from_both_policies` takes two policies",
       "write save_from_both_policies("},
  };
  for (const Case& test : kCases) {
    CAPTURE(test.policy);
    std::string why;
    CHECK(!Policy(test.policy, &why));
    CHECK(why == test.why);
    RematRefusal refusal;
    CHECK(!ParseRemat(test.policy, refusal));
    CHECK(refusal.why == test.why);
    CHECK(refusal.help.starts_with(test.help));
  }
}

TEST_CASE("policies are nested at most eight deep") {
  const auto nested = [](int depth) {
    std::string text = "nothing_saveable";
    for (int i = 0; i < depth; ++i) {
      text = "save_from_both_policies(nothing_saveable," + text + ")";
    }
    std::string why;
    Policy(text, &why);
    return why;
  };
  CHECK(nested(8) == "");
  CHECK(nested(9) == "policies are nested more than 8 deep");
}

TEST_CASE("only a policy that keeps everything recomputes nothing") {
  std::string why;
  CHECK(!Remat().Recomputes());
  CHECK(!Policy("everything_saveable", &why)->Recomputes());
  CHECK(Policy("save_anything_except_these_names(q_proj)", &why)->Recomputes());
}

}  // namespace
}  // namespace shardc::step
