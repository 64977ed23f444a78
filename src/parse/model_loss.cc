#include "parse/model_loss.h"

#include <cstdint>

#include "model/loss_kind.h"
#include "parse/keys.h"

namespace shardc {
namespace {

constexpr int64_t kMostChunk = int64_t{1} << 40;  // in tokens

}  // namespace

ModelLoss ReadModelLoss(const YamlContext& context, const YamlNode& node) {
  ModelLoss out;
  const auto members = Fields::Read(context, node, keys::kModelLoss);
  if (!members) return out;
  if (const YamlNode* at = members->Find("kind")) {
    if (at->IsNull() || (at->IsScalar() && LossNamed(at->text))) {
      out.kind = at;
    } else {
      context.Add(code::kUnknownName, *at,
                  "`kind` of `loss` is " + Describe(*at) +
                      ", not `eager`, `compiled` or `fused`",
                  "write how the loss is computed from the logits");
    }
  }
  if (const YamlNode* at = members->Find("chunk")) {
    if (at->IsNull() || ReadInteger(context, *at, "`chunk`", {1, kMostChunk})) {
      out.chunk = at;
    }
  }
  return out;
}

}  // namespace shardc
