// Explains short names of dtypes. Options accept the names of NumPy and JAX.
// Configurations of PyTorch and of inference engines use shorter names, in
// lower or upper case:
//
//   bf16 -> bfloat16     FP16 -> float16     fp8 -> float8_e4m3fn
#include "cli/dtype_help.h"

#include <array>
#include <utility>

#include "source/wording.h"

namespace shardc::cli {

std::string DtypeHelp(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10>
      kNames = {{{"bf16", "bfloat16"},
                 {"f16", "float16"},
                 {"fp16", "float16"},
                 {"half", "float16"},
                 {"f32", "float32"},
                 {"fp32", "float32"},
                 {"float", "float32"},
                 {"f8", "float8_e4m3fn"},
                 {"fp8", "float8_e4m3fn"},
                 {"i8", "int8"}}};
  const std::string folded = FoldCase(text);
  for (const auto& [written, name] : kNames) {
    if (folded == written) return "write `" + std::string(name) + "`";
  }
  return {};
}

}  // namespace shardc::cli
