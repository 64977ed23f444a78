// Converts the names of tensors in checkpoint files to those of the parameters
// that transformers makes of them.
#ifndef SHARDC_EMIT_EXPORTS_HF_NAMES_H_
#define SHARDC_EMIT_EXPORTS_HF_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/read.h"

namespace shardc::exports {

// The parameter that transformers makes of a tensor.
struct HfName {
  // The name, with `*` for numbers.
  std::string name;
  // Whether the tensor is that of one expert, and the parameter has those of
  // all experts: it has a dimension more, the first.
  bool stacked = false;
  // The number of tensors that the parameter has one after the other in the
  // first dimension of a tensor: 2 for a gate and a projection up.
  int64_t packed = 1;
  // Whether the tensor is a buffer of its module in most models. A plan with
  // its name is refused then.
  bool buffer = false;
};

class HfNames {
 public:
  // `converts` is false for versions of transformers whose modules have the
  // names of the files.
  HfNames(const ReadPlan& plan, bool converts);

  // Returns the parameter of a tensor. In `generic`, its name, `*` replaces
  // numbers.
  HfName Of(std::string_view generic) const;

 private:
  struct Renaming {
    std::string_view from, to;
    // The renaming applies if some name of the plan contains this text.
    std::string_view sign;
  };
  static const Renaming kRenamings[];

  std::vector<const Renaming*> renamings_;
  bool converts_;
};

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_HF_NAMES_H_
