// Writes the comments of suggested rules. A comment has a title, such as
// `Queries`, which depends on the role. An explanation follows, which depends
// on the spec. For the usual spec of the role, it explains how tp shards the
// parameter. For another spec, it gives the reason. For example:
//
//   q_proj [HEAD, FSDP]            ->  Queries: heads over tp.
//   q_proj [null, [FSDP, SP, TP]]  ->  Queries: tp does not divide the
//                                      heads, so it is stored in slices ...
#include "suggest/rule_titles.h"

namespace shardc::suggest {
namespace {

// Returns the explanation of the usual spec of a role: how tp shards the
// parameter. The text is empty if tp does not shard the parameter, or if the
// role needs no explanation.
std::string UsualText(Title title, const Choice& choice) {
  const bool sharded = choice.inner_sharded;
  switch (title) {
    case Title::kEmbedding:
    case Title::kHead:
      return sharded ? "vocabulary over tp" : "";
    case Title::kQuery:
    case Title::kLatentUp:
    case Title::kOutput:
    case Title::kToHeads:
    case Title::kHeadsBySizes:
      return sharded ? "heads over tp" : "";
    case Title::kKeys:
      return sharded ? "KV heads over tp" : "";
    case Title::kQkv:
    case Title::kQkvBySizes:
      return sharded ? "heads over tp; query, key and value are stored one "
                       "after the other, "
                       "so that the loader has to shard each of them"
                     : "";
    case Title::kGateUp:
      return sharded ? "columns over tp; gate and up are stored one after the "
                       "other, "
                       "so that the loader has to shard each of them"
                     : "";
    case Title::kUp:
    case Title::kDown:
    case Title::kExpertIn:
    case Title::kExpertOut:
    case Title::kExpertsBySizes:
      return sharded ? "columns over tp, so that only the output of the block "
                       "is summed"
                     : "";
    default:
      return "";
  }
}

// Returns the name of the dimension that tp would shard if its size were
// divisible by the size of tp.
std::string InnerText(Title title) {
  switch (title) {
    case Title::kEmbedding:
    case Title::kHead:
      return "the vocabulary";
    case Title::kQuery:
    case Title::kKeys:
    case Title::kQkv:
    case Title::kQkvBySizes:
    case Title::kHeadsBySizes:
    case Title::kLatentUp:
    case Title::kOutput:
      return "the heads";
    default:
      return "the inner dimension";
  }
}

}  // namespace

Title TitleOf(const InferredDims& inferred, const Choice& choice) {
  if (choice.replicated() && choice.place_axis.empty() &&
      choice.reason != Reason::kReplicatedKeys) {
    return Title::kReplicated;
  }
  if (inferred.siblings == Siblings::kSizes) {
    return inferred.role == Role::kFusedQkv ? Title::kQkvBySizes
                                            : Title::kHeadsBySizes;
  }
  if (inferred.experts_by_sizes && inferred.role != Role::kBias &&
      inferred.role != Role::kScale) {
    return Title::kExpertsBySizes;
  }
  switch (inferred.role) {
    case Role::kEmbedding:
      return inferred.table_by_sizes ? Title::kTable : Title::kEmbedding;
    case Role::kHead:
      return Title::kHead;
    case Role::kPosition:
      return Title::kPosition;
    case Role::kQuery:
      return inferred.by_program ? Title::kToHeads : Title::kQuery;
    case Role::kKey:
    case Role::kValue:
    case Role::kFusedKeyValue:
      return Title::kKeys;
    case Role::kFusedQkv:
      return Title::kQkv;
    case Role::kOutput:
      return Title::kOutput;
    case Role::kLatentDown:
      return Title::kLatent;
    case Role::kLatentUp:
      return Title::kLatentUp;
    case Role::kRouter:
      return Title::kRouter;
    case Role::kGate:
    case Role::kUp:
      return inferred.Experts() > 0 ? Title::kExpertIn : Title::kUp;
    case Role::kFusedGateUp:
      return inferred.Experts() > 0 ? Title::kExpertIn : Title::kGateUp;
    case Role::kDown:
      return inferred.Experts() > 0 ? Title::kExpertOut : Title::kDown;
    case Role::kProjection:
      return Title::kInner;
    case Role::kStateSpace:
      return Title::kMixer;
    case Role::kConvolution:
      return inferred.IsOfUnknownRole() ? Title::kOther : Title::kConvolution;
    case Role::kAdapterDown:
    case Role::kAdapterUp:
      return Title::kAdapter;
    case Role::kScale:
      return Title::kScale;
    case Role::kBias:
      return Title::kBias;
    case Role::kSink:
    case Role::kQueryNorm:
    case Role::kKeyNorm:
      return Title::kHeadVector;
    case Role::kNorm:
    case Role::kLatentNorm:
    case Role::kVector:
    case Role::kOther:
      break;
  }
  const Role named = inferred.by_name.role;
  return IsAttention(named) || IsMlp(named) ? Title::kUnoriented
                                            : Title::kOther;
}

std::string_view TitleText(Title title) {
  switch (title) {
    case Title::kEmbedding:
      return "Token embedding";
    case Title::kHead:
      return "Output head";
    case Title::kTable:
      return "Perhaps the embedding or the output head, by sizes alone";
    case Title::kPosition:
      return "Positions";
    case Title::kQuery:
      return "Queries";
    case Title::kKeys:
      return "Keys and values";
    case Title::kToHeads:
      return "Projections to heads";
    case Title::kQkv:
      return "Query, key and value in one matrix";
    case Title::kLatentUp:
      return "Projections from a latent to heads";
    case Title::kOutput:
      return "Attention's output";
    case Title::kQkvBySizes:
      return "Perhaps query, key and value in one matrix, by the sizes of its "
             "siblings";
    case Title::kHeadsBySizes:
      return "Projections to or from heads, by the sizes of their siblings";
    case Title::kLatent:
      return "Projections to a latent, whose norm reads all of it";
    case Title::kRouter:
      return "Router";
    case Title::kExpertIn:
      return "Experts, into the feed-forward width";
    case Title::kExpertOut:
      return "Experts, out of the feed-forward width";
    case Title::kExpertsBySizes:
      return "Perhaps experts, by their sizes alone";
    case Title::kUp:
      return "Feed-forward, into its width";
    case Title::kGateUp:
      return "Feed-forward, gate and up in one matrix";
    case Title::kDown:
      return "Feed-forward, out of its width";
    case Title::kInner:
      return "Projections from or to the model's width";
    case Title::kMixer:
      return "State space mixer, whose projections hold several parts";
    case Title::kConvolution:
      return "Convolutions";
    case Title::kAdapter:
      return "Adapters, whose rank stays unsharded";
    case Title::kUnoriented:
      return "Nothing shows which dimension is the input";
    case Title::kOther:
      return "Of unknown role";
    case Title::kScale:
      return "Quantisation scales and zero points, sharded as their weights";
    case Title::kBias:
      return "Biases of sharded outputs";
    case Title::kHeadVector:
      return "A number for each head or column of the heads";
    case Title::kReplicated:
      return "Small, or read by every device: replicated";
  }
  return "";
}

std::string ReasonText(const Choice& choice, Title title, bool tensor) {
  switch (choice.reason) {
    case Reason::kSlices:
      return "tp does not divide " + InnerText(title) +
             ", so it is stored in slices of the width and gathered before "
             "use";
    case Reason::kHeadsUnknown:
      return "the number of heads is not known, so it is stored in slices of "
             "the width and gathered before use";
    case Reason::kRoleUnknown:
      return "nothing shows whether it has heads or parts, so it is stored in "
             "slices of the width and gathered before use";
    case Reason::kReplicatedKeys:
      return "tp does not divide the KV heads, which are few bytes: replicated "
             "over tp";
    case Reason::kExpertsOverTp:
      return "experts over tp, which divides their number, but not their width "
             "together with the data axes";
    case Reason::kDataOnInner:
      return "the data axes do not divide the width, so they shard the "
             "dimension that tp shards";
    case Reason::kLessData:
      return "some data axis divides no dimension";
    case Reason::kNotOverTensor:
    case Reason::kUsual:
      break;
  }
  return tensor ? UsualText(title, choice) : "";
}

}  // namespace shardc::suggest
