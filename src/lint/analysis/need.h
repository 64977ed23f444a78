// Inputs that lints may need in addition to a compiled target.
#ifndef SHARDC_LINT_ANALYSIS_NEED_H_
#define SHARDC_LINT_ANALYSIS_NEED_H_

namespace shardc {

// Bits of Lint::needs, the inputs that a lint needs. A lint is skipped if one
// of its inputs is missing.
enum Need : unsigned {
  kNeedsShapes = 1,
  kNeedsModel = 2,  // the model's configuration (config.json)
  kNeedsBatch = 4,
  kNeedsKvLen = 8,
  kNeedsMemory = 16,
  kNeedsHeads = 32,  // a config.json whose heads fit the shapes
};

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_NEED_H_
