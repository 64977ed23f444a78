// Takes the loss from the rules. `model: {loss: {kind: fused, chunk: 4096}}` in
// a rules file means the same as the flags `--loss` and `--loss-chunk`. A flag
// that changes a default takes precedence.
#include "cost/settings.h"

#include <charconv>

#include "model/model_description.h"

namespace shardc::cost {

Settings WithLossOf(const RuleSet& rules, Settings settings) {
  if (rules.model == nullptr) return settings;
  const DescribedText* const kind = rules.model->Setting("loss.kind");
  if (kind != nullptr && settings.loss == LossKind::kStack) {
    settings.loss = LossNamed(kind->text).value_or(settings.loss);
  }
  const DescribedText* const chunk = rules.model->Setting("loss.chunk");
  if (chunk != nullptr && !settings.loss_chunk) {
    int64_t tokens = 0;
    const std::string& text = chunk->text;
    std::from_chars(text.data(), text.data() + text.size(), tokens);
    if (tokens > 0) settings.loss_chunk = tokens;
  }
  return settings;
}

}  // namespace shardc::cost
