// Finds the explanation of a diagnostic code by a linear search of all lists of
// pages.
#include "emit/findings/pages/page.h"

namespace shardc {

const CodePage* FindPage(const Code& code) {
  for (const auto& pages :
       {FilePages(), SyntaxPages(), RulePages(), TensorPages(), ExchangePages(),
        SchedulePages(), ProgramPages()}) {
    for (const CodePage& page : pages) {
      if (page.code->number == code.number) return &page;
    }
  }
  return nullptr;
}

}  // namespace shardc
