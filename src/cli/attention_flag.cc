// Parses `--attention`: items KEY=N separated by commas, each key at most once.
// A misspelt key is reported with the nearest key:
//
//   heads=32,kv_heads=8  ->  {32, 8}     head=2  ->  did you mean `heads=N`?
#include "cli/attention_flag.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

constexpr int64_t kLargest = int64_t{1} << 31;

}  // namespace

std::optional<AttentionFlag> ParseAttention(const std::string& text,
                                            Findings& findings) {
  AttentionFlag out;
  const std::array<std::pair<std::string, std::optional<int64_t>*>, 10> keys = {
      {{"heads", &out.heads},
       {"kv_heads", &out.kv_heads},
       {"head_dim", &out.head_dim},
       {"value_dim", &out.value_dim},
       {"batch", &out.batch},
       {"q_len", &out.q_len},
       {"kv_len", &out.kv_len},
       {"window", &out.window},
       {"latent", &out.latent},
       {"rope_dim", &out.rope_dim}}};
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, comma - begin);
    begin = comma + 1;
    const size_t equals = item.find('=');
    const std::string key = item.substr(0, equals);
    const auto at = std::find_if(keys.begin(), keys.end(),
                                 [&](const auto& k) { return k.first == key; });
    if (equals == std::string::npos || at == keys.end()) {
      std::vector<std::string> known;
      for (const auto& [name, value] : keys) known.push_back(name);
      const auto nearest = Nearest(key, known);
      findings.Add(code::kUsage, {},
                   "`" + item + "` in `--attention` is not a size",
                   nearest ? "did you mean `" + *nearest + "=N`?"
                           : "give heads=32,kv_heads=8,head_dim=128,batch=4,"
                             "q_len=128,kv_len=4096");
      return std::nullopt;
    }
    if (*at->second) {
      findings.Add(code::kUsage, {},
                   "`" + key + "` occurs twice in `--attention`");
      return std::nullopt;
    }
    const auto value = ParseInteger("--attention " + key,
                                    item.substr(equals + 1), 1, findings);
    if (!value) return std::nullopt;
    if (*value > kLargest) {
      findings.Add(code::kUsage, {},
                   "`" + item + "` in `--attention` is larger than " +
                       CountText(kLargest));
      return std::nullopt;
    }
    *at->second = *value;
  }
  return out;
}

}  // namespace shardc::cli
