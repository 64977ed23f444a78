#include "model/not_known.h"

#include <cstddef>

#include "source/list.h"
#include "source/wording.h"

namespace shardc {

std::string NotKnownText(const NotKnown& fact) {
  constexpr size_t kListed = 4;
  std::string out = fact.what + (fact.params.empty() ? "" : ": ") +
                    Join(First(fact.params, kListed), ", ", ShortQuote);
  if (fact.params.size() > kListed) {
    out += " and " + std::to_string(fact.params.size() - kListed) + " more";
  }
  if (fact.bytes) out += " (" + BytesText(*fact.bytes) + ")";
  if (!fact.settled_by.empty()) out += "; settled by " + fact.settled_by;
  return out;
}

void AddNotKnown(const std::vector<NotKnown>& facts,
                 std::vector<NotKnown>& all) {
  for (const NotKnown& fact : facts) {
    AddOnce(all, fact);
  }
}

}  // namespace shardc
