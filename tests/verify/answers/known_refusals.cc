// Tests the messages of refused cases. Most checks run a small case that the
// operation must refuse. The message and its help must contain the expected
// words:
//
//   ring, 3 key heads over tp=2  ->  "3 key heads do not divide over `tp`"
#include "verify/answers/known_refusals.h"

#include <string>

#include "exec/operations/operation.h"
#include "verify/cases/grid.h"
#include "verify/judge/explain.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {
namespace {

struct Refused {
  std::string_view operation;
  Sizes sizes;
  Assignment axes;
  Layout layout;
  std::string_view message, help;  // parts of the expected message and help
};

Case CaseOf(const Refused& of) {
  Case test;
  test.operation = exec::FindOperation(of.operation);
  test.mesh = MeshOf({{"sp", 2}, {"tp", 2}});
  test.sizes = of.sizes;
  test.layout = of.layout;
  test.mode = of.sizes.query_length == 1 ? Mode::kDecode : Mode::kTrain;
  test.specs = SpecsFor(of.layout, of.axes, 0, false);
  return test;
}

bool GivesReason(const Refused& of) {
  const CaseResult result = RunCase(CaseOf(of));
  return result.status == Status::kUnsupported &&
         result.reason.find(of.message) != std::string::npos &&
         result.help.find(of.help) != std::string::npos;
}

const Refused kKeyHeads = {"ring",
                           {2, 8, 8, 6, 3, 8, 0},
                           {{}, {}, {}, {"tp"}, {"tp"}, {}, {}},
                           Layout::kBthd,
                           "3 key heads do not divide over `tp` (2 parts)",
                           "lays key and value out as the query's heads"};

bool KeyHeadsThatDoNotDivide() {
  Refused heads_first = kKeyHeads;
  heads_first.layout = Layout::kBhtd;
  return GivesReason(kKeyHeads) && GivesReason(heads_first);
}

bool LengthsOfARing() {
  const Assignment keys_only = {{}, {}, {"sp"}, {}, {}, {}, {}};
  const std::string_view split = "the query's length is split over";
  return GivesReason({"ring",
                      {2, 1, 8, 4, 4, 8, 0},
                      keys_only,
                      Layout::kBthd,
                      split,
                      "decode with flash_decoding"}) &&
         GivesReason({"ring",
                      {2, 8, 8, 4, 4, 8, 0},
                      keys_only,
                      Layout::kBthd,
                      split,
                      "a ring needs the same axes"});
}

bool HeadsOfAnExchange() {
  return GivesReason({"ulysses",
                      {2, 8, 8, 3, 3, 8, 0},
                      {{}, {"sp"}, {"sp"}, {}, {}, {}, {}},
                      Layout::kBthd,
                      "3 query heads do not divide over `sp` (2 parts)",
                      "use ring, fewer parts"});
}

bool PagesAreCausal() {
  return GivesReason({"ragged_page_attention_v2",
                      {2, 2, 8, 4, 4, 8, 0},
                      {},
                      Layout::kBthd,
                      "ragged_page_attention_v2 is causal",
                      "vanilla or flash_attn2"});
}

bool LatentThatIsNone() {
  return GivesReason({"multi_latent_ragged_page_attention_v1",
                      {2, 1, 8, 4, 4, 2, 0},
                      {},
                      Layout::kBthd,
                      "leaves nothing to rotate",
                      "four dims"}) &&
         GivesReason({"multi_latent_ragged_page_attention_v1",
                      {2, 1, 8, 4, 2, 8, 0},
                      {},
                      Layout::kBthd,
                      "there is no latent: 4 query heads on 2 key heads",
                      ""});
}

// A remark reports a deviation from the request. A case that runs exactly as
// requested must therefore have no remark.
bool NoRemarkWithoutCause() {
  Case test = CaseOf({"paged_flash_attention",
                      {2, 1, 8, 4, 4, 8, 0},
                      {},
                      Layout::kBthd,
                      "",
                      ""});
  test.features.causal = true;
  const CaseResult result = RunCase(test);
  return result.status == Status::kPass && result.remarks.empty();
}

// If different axes shard the batch of query and key, the message must name
// both axes.
bool BatchesOnOtherAxes() {
  Refused of = kKeyHeads;
  of.sizes.key_heads = 6;
  Case test = CaseOf(of);
  test.specs.query = {{"sp"}};
  test.specs.key = test.specs.value = {{"tp"}};
  const auto why = LayoutFault(test);
  return why && why->axis == "tp" &&
         why->message.find(
             "the batch of the key is split over `tp` and the "
             "query's over `sp`") != std::string::npos;
}

constexpr KnownAnswer kRefusals[] = {
    {"key heads that do not divide", KeyHeadsThatDoNotDivide},
    {"lengths of a ring", LengthsOfARing},
    {"heads of an exchange", HeadsOfAnExchange},
    {"pages are causal", PagesAreCausal},
    {"a latent that is none", LatentThatIsNone},
    {"no remark without cause", NoRemarkWithoutCause},
    {"batches on other axes", BatchesOnOtherAxes},
};

}  // namespace

std::span<const KnownAnswer> KnownRefusals() { return kRefusals; }

}  // namespace shardc::verify
