// Runs attention on simulated devices, sharded as the mesh and the rules imply.
// The result is compared with a dense reference in double precision.
#ifndef SHARDC_SHARDC_VERIFY_H_
#define SHARDC_SHARDC_VERIFY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardc/findings.h"
#include "shardc/mesh.h"
#include "shardc/rules.h"
#include "shardc/spec.h"

namespace shardc::SHARDC_V1 {

struct AttentionSizes {
  int64_t batch = 1;
  int64_t query_length = 1;  // 1 to key_length
  int64_t key_length = 1;
  int64_t heads = 1;
  int64_t key_heads = 1;  // a divisor of `heads`
  int64_t head_dim = 128;
};

struct VerifyOptions {
  AttentionSizes sizes = {};
  std::vector<std::string> operations = {};  // empty: all operations
  std::vector<Mode> modes = {};              // empty: all modes
  std::vector<std::string> layouts = {};     // bthd, bhtd or thd; empty: all
  // Names of dtypes: float32, bfloat16, float16. An empty list means all three.
  std::vector<std::string> dtypes = {};
  uint64_t seed = 0;  // seed of the random inputs
  // Whether attention runs with `sizes`. If false, it runs with smaller sizes,
  // which the same mesh axes divide.
  bool full = false;
  int threads = 1;  // number of threads; does not change the result
};

enum class Verdict { kPass, kFail, kUnsupported };

struct VerifiedCase {
  std::string operation;
  Mode mode = Mode::kTrain;
  std::string layout;
  std::string dtype;  // as in safetensors: "BF16"
  Verdict verdict = Verdict::kPass;
  std::string reason;      // why the case failed or is unsupported; else empty
  double error = 0;        // largest absolute error of an element
  double allowed = 0;      // the tolerance: the case passes up to this error
  int64_t bytes_sent = 0;  // bytes sent by the device that sends most
};

struct VerifyReport {
  std::vector<VerifiedCase> cases;
  int64_t passed = 0;
  int64_t failed = 0;
  int64_t unsupported = 0;
  std::string text;  // the text that `shardc verify` prints
  std::string json;  // the report as JSON (shardc.verify/v1)
};

// Runs attention in the operations and modes of `options`. Errors include an
// unknown name, heads that `key_heads` does not divide, and a run that would
// need too much memory. A failed case is not an error.
std::optional<VerifyReport> Verify(const Mesh& mesh, const Rules& rules,
                                   const VerifyOptions& options,
                                   Findings& findings);

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_VERIFY_H_
