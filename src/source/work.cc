#include "source/work.h"

#include <string>

#include "source/wording.h"

namespace shardc {

bool Allows(const WorkLimit& limit, Size count, std::string_view subject,
            const Place& place, Findings& findings) {
  if (count.value() <= limit.most) return true;
  const std::string number =
      count.Fits() ? CountText(count.value()) : "more than 2^63";
  findings.Add(code::kLimit, place,
               std::string(subject) + " " + number + " " +
                   std::string(limit.unit) + ", and " +
                   std::string(limit.holder) + " has at most " +
                   CountText(limit.most));
  return false;
}

}  // namespace shardc
