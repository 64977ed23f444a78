// Finds the page of a code: a linear search of the six lists, which hold 53
// records in all.
#include "emit/findings/pages/page.h"

namespace shardc {

const CodePage* FindPage(const Code& code) {
  for (const auto& pages : {FilePages(), SyntaxPages(), RulePages(),
                            TensorPages(), ExchangePages(), ProgramPages()}) {
    for (const CodePage& page : pages) {
      if (page.code->number == code.number) return &page;
    }
  }
  return nullptr;
}

}  // namespace shardc
