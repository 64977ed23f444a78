// The operations and what each supports of a split, by dimension.
#include <array>

#include "exec/operation.h"

namespace shardc::exec {
namespace {

constexpr MaskedRows kMean = MaskedRows::kMean;
constexpr MaskedRows kZero = MaskedRows::kZero;

constexpr std::array kOperations = {
    Operation{"vanilla",
              "whole rows of logits, in the global view",
              {"local", "local", "all_gather k, v", "local, all_gather",
               "all_reduce logits"},
              true,
              false,
              false,
              kMean,
              RunVanilla},
    Operation{
        "sdpa",
        "whole rows of logits, in local slices",
        {"local", "all_gather q", "all_gather k, v", "local", "all_gather"},
        false,
        false,
        false,
        kMean,
        RunSdpa},
    Operation{
        "flash_attn2",
        "blocked online softmax",
        {"local", "all_gather q", "all_gather k, v", "local", "all_gather"},
        false,
        false,
        false,
        kZero,
        RunFlashAttention},
    Operation{"ring",
              "key blocks pass round the sequence axes",
              {"local", "local, as the keys'", "ppermute k, v",
               "local, key heads as the query's", "-"},
              false,
              true,
              false,
              kZero,
              RunRing},
    Operation{"blocksparse",
              "blocked online softmax over a block table",
              {"local", "all_gather q", "all_gather k, v",
               "local, key heads as the query's", "all_gather"},
              false,
              true,
              false,
              kZero,
              RunBlockSparse},
    Operation{"flash_decoding",
              "one query row over a split cache",
              {"local", "-", "all_reduce of partial softmaxes", "local",
               "all_reduce logits"},
              false,
              false,
              true,
              kZero,
              RunFlashDecoding},
    Operation{"ulysses",
              "all_to_all between length and heads",
              {"local", "all_to_all, ppermute over ring_axes",
               "all_to_all, ppermute over ring_axes", "local", "-"},
              false,
              false,
              false,
              kZero,
              RunUlysses},
    Operation{"ragged_page_attention_v2",
              "ragged queries over interleaved pages",
              {"pages by request, all_reduce outputs", "-", "-", "local", "-"},
              false,
              false,
              false,
              kZero,
              RunRaggedV2},
    Operation{"ragged_page_attention_v3",
              "writes new tokens to packed pages, then attends",
              {"pages by request, all_reduce outputs", "-", "-", "local", "-"},
              false,
              false,
              false,
              kZero,
              RunRaggedV3},
    Operation{"unified_attention",
              "ragged queries over pages of keys and of values",
              {"pages by request, all_reduce outputs", "-", "-", "local", "-"},
              false,
              false,
              false,
              kZero,
              RunUnified},
    Operation{"paged_flash_attention",
              "rows of queries over pages of keys and of values",
              {"pages by request, all_reduce outputs", "-", "-", "local", "-"},
              false,
              false,
              false,
              kZero,
              RunPagedFlash},
    Operation{"multi_latent_ragged_page_attention_v1",
              "one latent row a token in place of keys and values",
              {"pages by request, all_reduce outputs", "-",
               "all_reduce of partial softmaxes", "local, the query's only",
               "all_reduce logits, outputs"},
              false,
              false,
              false,
              kZero,
              RunLatent},
};

}  // namespace

std::span<const Operation> Operations() { return kOperations; }

bool IsPaged(const Operation& operation) {
  return operation.supports.batch.starts_with("pages");
}

PageFormat PageFormatOf(const Operation& operation) {
  if (operation.name == "ragged_page_attention_v2") {
    return PageFormat::kInterleaved;
  }
  if (operation.name == "ragged_page_attention_v3") return PageFormat::kPacked;
  return PageFormat::kSeparate;
}

const Operation* FindOperation(std::string_view name) {
  for (const Operation& operation : kOperations) {
    if (operation.name == name) return &operation;
  }
  return nullptr;
}

}  // namespace shardc::exec
