// Reads the dtypes in which `verify step` runs a step: float64, float32,
// bfloat16 and float16. Parameters may be stored in other dtypes, such as
// float8, but a step is not computed in these, so they are an error.
#include "cli/proof_dtypes.h"

#include <string>

#include "cli/dtype_help.h"
#include "source/wording.h"

namespace shardc::cli {

bool ReadProofDtypes(const Strings& texts, std::vector<Dtype>& out,
                     Findings& findings) {
  for (const std::string& text : texts) {
    const auto dtype = ParseDtype(text);
    if (dtype != Dtype::kF64 && dtype != Dtype::kF32 && dtype != Dtype::kBF16 &&
        dtype != Dtype::kF16) {
      findings.Add(
          code::kUsage, {},
          ShortQuote(text) + " is none of: float64, float32, bfloat16, float16",
          DtypeHelp(text).empty()
              ? "a step is proved in these; its bytes are those of the "
                "parameters' dtype"
              : DtypeHelp(text));
      return false;
    }
    out.push_back(*dtype);
  }
  if (out.empty()) out = {Dtype::kF64};
  return true;
}

}  // namespace shardc::cli
